//! Conversion of quantities to amounts and back.
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings, DimId, Dims};

use crate::Cluster;
use crate::event::Resources;

/// Resource names and canonical quantities, sorted by name, without what has no name.
pub fn rendered(dims: &Dims, amounts: &Amounts) -> Vec<(Arc<str>, String)> {
    let known = amounts.iter().filter(|(dim, _)| !dims.is_unknown(*dim));
    let mut list: Vec<_> =
        known.map(|(dim, amount)| (Arc::from(dims.name(dim)), dims.format(dim, amount))).collect();
    list.sort();
    list
}

impl Cluster {
    pub(super) fn written_amounts(&mut self, list: &Resources) -> Vec<(Arc<str>, String)> {
        let amounts = self.amounts(list);
        self.render(&amounts)
    }

    /// Resource names and canonical quantities, sorted by name.
    pub fn render(&self, amounts: &Amounts) -> Vec<(Arc<str>, String)> {
        rendered(&self.dims, amounts)
    }

    /// The dimension of a resource that a node, a queue or a quota names: whoever asked for it before is told.
    pub(crate) fn learn_resource(&mut self, name: &str) -> DimId {
        if self.dims.get(name).is_none() {
            self.changes.resources.push(name.into());
        }
        self.dims.intern(name)
    }

    /// Converts a resource list of the cluster's own, not of a tenant.
    pub(crate) fn amounts(&mut self, list: &Resources) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, quantity) in list {
            let dim = self.learn_resource(name);
            amounts.set(dim, self.dims.amount(dim, *quantity));
        }
        amounts
    }

    /// Converts the resource list of a node, rounded down where requests are rounded up.
    pub(super) fn rooms(&mut self, list: &Resources) -> Amounts {
        let mut rooms = Amounts::new();
        for (name, quantity) in list {
            let dim = self.learn_resource(name);
            if !self.dims.is_unknown(dim) {
                rooms.set(dim, rooms.get(dim) + self.dims.room(dim, *quantity));
            }
        }
        rooms
    }

    pub(super) fn ceilings(&mut self, list: &Resources) -> Ceilings {
        let mut ceilings = Ceilings::new();
        for (name, quantity) in list {
            let dim = self.learn_resource(name);
            if !self.dims.is_unknown(dim) {
                ceilings.set(dim, self.dims.ceiling(dim, *quantity));
            }
        }
        ceilings
    }
}
