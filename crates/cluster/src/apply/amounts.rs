//! Conversion of quantities to amounts and back.
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings};

use crate::Cluster;
use crate::allowance::is_of_nodes;
use crate::event::Resources;

impl Cluster {
    pub(super) fn written_amounts(&mut self, list: &Resources) -> Vec<(Arc<str>, String)> {
        let amounts = self.amounts(list);
        self.render(&amounts)
    }

    /// Resource names and canonical quantities, sorted by name.
    pub fn render(&self, amounts: &Amounts) -> Vec<(Arc<str>, String)> {
        let text = |(dim, amount)| (Arc::from(self.dims.name(dim)), self.dims.format(dim, amount));
        let mut list: Vec<_> = amounts.iter().map(text).collect();
        list.sort();
        list
    }

    pub(crate) fn amounts(&mut self, list: &Resources) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, quantity) in list {
            let dim = self.dims.intern(name);
            amounts.set(dim, self.dims.amount(dim, *quantity));
        }
        amounts
    }

    /// Converts the resource list of a node, rounded down where requests are rounded up.
    pub(super) fn rooms(&mut self, list: &Resources) -> Amounts {
        let room = |(name, quantity): &(std::sync::Arc<str>, phalanx_resource::Quantity)| {
            let dim = self.dims.intern(name);
            (dim, self.dims.room(dim, *quantity))
        };
        list.iter().map(room).collect()
    }

    /// Converts a resource list, without resources that no node can have.
    pub(super) fn amounts_of_nodes(&mut self, list: &Resources) -> Amounts {
        let of_nodes = list.iter().filter(|(name, _)| is_of_nodes(name));
        self.amounts(&of_nodes.cloned().collect())
    }

    /// Converts pod-level requests, without resources that Kubernetes does not allow there.
    pub(super) fn pod_level(&mut self, list: &Resources) -> Amounts {
        let amounts = self.amounts(list);
        amounts.iter().filter(|(dim, _)| self.dims.is_pod_level(*dim)).collect()
    }

    pub(super) fn ceilings(&mut self, list: &Resources) -> Ceilings {
        let mut ceilings = Ceilings::new();
        for (name, quantity) in list {
            let dim = self.dims.intern(name);
            ceilings.set(dim, self.dims.ceiling(dim, *quantity));
        }
        ceilings
    }
}
