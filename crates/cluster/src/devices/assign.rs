//! Which devices a claim gets, when a pod of it is bound.
use std::sync::Arc;

use super::need::visible;
use super::{DeviceLocation, ShapeId, Shapes, Stock};
use crate::Cluster;
use crate::Fit;
use crate::count::Count;
use crate::event::{ClaimAllocation, DeviceName, GivenDevice, NodeTerm, Operator, Requirement};
use crate::id::{ClaimId, NodeId, TaskId};
use crate::prepare::{ClaimWrite, Prepare};

impl Cluster {
    /// Gives the claims of a task that is being bound their devices; what has to be written before it is bound.
    pub fn give_devices(&mut self, task: TaskId) -> Vec<Prepare> {
        let (Some(linked), Some(node)) = (self.tasks[task].claims.clone(), self.tasks[task].node) else {
            return Vec::new();
        };
        let mut writes = Vec::new();
        for id in &linked.ids {
            if self.devices.claims[*id].allocation.is_none() {
                self.allocate(*id, node);
            }
            let (claim, pod) = (&self.devices.claims[*id], self.tasks[task].pod.clone());
            if claim.assumed || !claim.info.reserved.contains(&pod.uid) {
                let allocation = claim.allocation.clone().filter(|_| claim.assumed);
                let (key, uid) = (claim.info.key.clone(), claim.info.uid.clone());
                writes.push(Prepare::Claim(Arc::new(ClaimWrite { key, uid, allocation, pod })));
            }
        }
        writes
    }

    fn allocate(&mut self, id: ClaimId, node: NodeId) {
        self.count_claim(id, Count::Out);
        if let Some(allocation) = self.pick_devices(id, node) {
            let claim = &mut self.devices.claims[id];
            (claim.allocation, claim.assumed) = (Some(Arc::new(allocation)), true);
        }
        self.count_claim(id, Count::In);
    }

    /// The devices that are good for the least else, of those that leave enough for all that is asked besides.
    fn pick_devices(&self, id: ClaimId, node: NodeId) -> Option<ClaimAllocation> {
        let claim = &self.devices.claims[id];
        let mut picks = Picks::new(self, node);
        let mut open: Vec<(ShapeId, u32)> = claim.wanted().collect();
        for (at, request) in claim.info.requests.iter().enumerate() {
            for _ in 0..request.count {
                open[at].1 -= 1;
                let device = picks.pick(self, open[at].0, &open)?;
                picks.given.push(GivenDevice { request: request.name.clone(), device });
            }
        }
        let nodes = picks.nodes(self);
        Some(ClaimAllocation { devices: picks.given, nodes })
    }
}

/// Devices that were picked, and what is left.
struct Picks {
    node: NodeId,
    local: Stock,
    shared: Stock,
    given: Vec<GivenDevice>,
}

impl Picks {
    fn new(cluster: &Cluster, node: NodeId) -> Self {
        let it = &cluster.nodes[node];
        let shared = visible(&cluster.devices.domains, &cluster.devices.shared, it);
        Self { node, local: it.devices.clone(), shared, given: Vec::new() }
    }

    fn pick(&mut self, cluster: &Cluster, shape: ShapeId, open: &[(ShapeId, u32)]) -> Option<DeviceName> {
        let devices = &cluster.devices;
        let is_local = devices.shape(shape).local;
        let mut candidates: Vec<(&DeviceName, &Shapes)> = self
            .names(cluster, is_local)
            .filter_map(|name| {
                let device = devices.table.get(name)?;
                (device.takers == 0 && device.shapes.has(shape)).then_some((name, &device.shapes))
            })
            .filter(|(name, _)| !self.given.iter().any(|given| given.device == **name))
            .collect();
        candidates.sort_by_key(|(name, shapes)| (shapes.count(), *name));
        let rest = merged(open, |shape| devices.shape(shape).local == is_local);
        let stock = if is_local { &mut self.local } else { &mut self.shared };
        let fits = |(_, shapes): &&(&DeviceName, &Shapes)| {
            stock.device(shapes, Fit::Idle, Count::Out);
            let serves = stock.serves(&rest, Fit::Idle);
            if !serves {
                stock.device(shapes, Fit::Idle, Count::In);
            }
            serves
        };
        let found = candidates.iter().find(fits)?;
        Some(found.0.clone())
    }

    fn names<'w>(&self, cluster: &'w Cluster, local: bool) -> Box<dyn Iterator<Item = &'w DeviceName> + 'w> {
        if local {
            return Box::new(cluster.devices.local.get(&self.node).into_iter().flatten());
        }
        let node = &cluster.nodes[self.node];
        let matches = move |terms: &Vec<NodeTerm>| {
            terms.iter().any(|term| crate::matching::node_term_matches(term, node))
        };
        let domains = cluster.devices.domains.iter();
        let domains = domains.filter(move |domain| domain.terms.as_ref().is_none_or(matches));
        Box::new(domains.flat_map(|domain| &domain.devices))
    }

    /// Where all of the devices can be used: on the node, when any of them is not everywhere.
    fn nodes(&self, cluster: &Cluster) -> Option<Vec<NodeTerm>> {
        let places = self.given.iter().filter_map(|given| cluster.devices.table.get(&given.device));
        let mut terms = places.filter_map(|device| match device.place {
            DeviceLocation::Node(_) => Some(self.here(cluster)),
            DeviceLocation::Domain(at) => cluster.devices.domains[at].terms.clone(),
        });
        let first = terms.next()?;
        Some(if terms.all(|other| other == first) { first } else { self.here(cluster) })
    }

    fn here(&self, cluster: &Cluster) -> Vec<NodeTerm> {
        let values = vec![cluster.nodes[self.node].name.clone()];
        let named = Requirement { key: "metadata.name".into(), operator: Operator::In, values };
        vec![NodeTerm { labels: Vec::new(), fields: vec![named] }]
    }
}

/// Counts of the shapes that are wanted, each once.
fn merged(open: &[(ShapeId, u32)], wanted: impl Fn(ShapeId) -> bool) -> Vec<(ShapeId, u32)> {
    let mut sums: std::collections::BTreeMap<ShapeId, u32> = std::collections::BTreeMap::new();
    for (shape, count) in open.iter().filter(|(shape, _)| wanted(*shape)) {
        *sums.entry(*shape).or_default() += count;
    }
    sums.into_iter().collect()
}
