//! What the claims of a task need of a node.
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::shape_limits::SHAPES_OF_NAMESPACE_MAX;
use super::{Claim, DeviceDomain, DeviceLocation, ShapeId, Shapes, Stock};
use crate::Fit;
use crate::diagnosis::Unfit;
use crate::event::{ClaimAllocation, NodeTerm};
use crate::id::TaskId;
use crate::matching::node_term_matches;
use crate::{Cluster, Node};

/// So many pods may use a claim. Source: `status.reservedFor` of resource.k8s.io/v1.
const RESERVED_MAX: usize = 256;

/// What the claims of a task need.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceNeed {
    /// It has no claims.
    Nothing,
    /// It cannot be placed, and why.
    Blocked(Arc<str>),
    /// This.
    Wanted(Box<Wanted>),
}

/// What a node must have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// A claim is to be given devices on this node, for another pod.
    pub node: Option<Arc<str>>,
    /// Claims were given devices that can be used on nodes that one term of each list matches.
    pub terms: Vec<Vec<NodeTerm>>,
    /// So many devices of its own.
    pub local: Local,
    /// So many devices that nodes share, and these.
    pub shared: Option<Shared>,
}

/// Devices of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Local {
    wanted: Vec<(ShapeId, u32)>,
    /// Devices that its claims have, though all of their pods leave: with it they stay taken.
    kept: Vec<Shapes>,
    /// Devices that would do and are given to nobody, in words.
    left_out: Option<Arc<str>>,
}

impl Local {
    /// Whether a node has enough of them.
    pub fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        self.check_stock(&node.devices, fit)
    }

    fn check_stock(&self, stock: &Stock, fit: Fit) -> Result<(), Unfit> {
        let serves = if self.kept.is_empty() {
            stock.serves(&self.wanted, fit)
        } else {
            let mut stock = stock.clone();
            self.kept.iter().for_each(|shapes| stock.keep(shapes));
            stock.serves(&self.wanted, fit)
        };
        if serves { Ok(()) } else { Err(Unfit::Devices(self.left_out.clone())) }
    }

    /// It asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.kept.is_empty()
    }
}

/// Devices that nodes share.
#[derive(Clone, Debug, PartialEq)]
pub struct Shared {
    of: Local,
    /// Sets of nodes that share devices.
    pub domains: Vec<DeviceDomain>,
    asked: Stock,
}

impl Shared {
    /// Whether a node can use enough of them.
    pub fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        self.of.check_stock(&visible(&self.domains, &self.asked, node), fit)
    }
}

/// The devices that a node shares with others, with all that is asked of these.
pub(super) fn visible(domains: &[DeviceDomain], asked: &Stock, node: &Node) -> Stock {
    let mut stock = asked.clone();
    let matches = |terms: &Vec<NodeTerm>| terms.iter().any(|term| node_term_matches(term, node));
    for domain in domains.iter().filter(|domain| domain.terms.as_ref().is_none_or(matches)) {
        stock.with_devices(&domain.stock);
    }
    stock
}

impl Cluster {
    /// What the claims of a task need of a node.
    pub fn claims_need(&self, task: TaskId) -> DeviceNeed {
        let Some(linked) = &self.tasks[task].claims else { return DeviceNeed::Nothing };
        if let Some(open) = linked.named.iter().find(|named| named.claim.is_none()) {
            return DeviceNeed::Blocked(
                format!("the ResourceClaim for {} is not created yet", open.name).into(),
            );
        }
        let mut wanted = Wanted::default();
        let mut shared = Local::default();
        for id in &linked.ids {
            let claim = &self.devices.claims[*id];
            if let Err(why) = self.add_need(task, claim, &mut wanted, &mut shared) {
                return DeviceNeed::Blocked(format!("ResourceClaim {}: {why}", claim.info.key).into());
            }
        }
        if !shared.is_empty() {
            let devices = &self.devices;
            let (domains, asked) = (devices.domains.clone(), devices.shared.clone());
            wanted.shared = Some(Shared { of: shared, domains, asked });
        }
        DeviceNeed::Wanted(Box::new(wanted))
    }

    /// Whether a task needs devices that nodes share.
    pub fn needs_shared_devices(&self, task: TaskId) -> bool {
        matches!(self.claims_need(task), DeviceNeed::Wanted(wanted) if wanted.shared.is_some())
    }

    fn add_need(
        &self,
        task: TaskId,
        claim: &Claim,
        wanted: &mut Wanted,
        shared: &mut Local,
    ) -> Result<(), Arc<str>> {
        let info = &claim.info;
        if !claim.exists {
            return Err("not found".into());
        }
        if info.deleting {
            return Err("it is being deleted".into());
        }
        if let Some(allocation) = &claim.allocation {
            let reserved = info.reserved.contains(&self.tasks[task].pod.uid);
            if !reserved && info.reserved.len() >= RESERVED_MAX {
                return Err(format!("it is in use by {RESERVED_MAX} pods").into());
            }
            wanted.terms.extend(allocation.nodes.clone());
            if claim.is_left() {
                self.keep_devices(allocation, wanted, shared);
            }
            return if claim.is_given_anew() { self.add_node(claim, wanted) } else { Ok(()) };
        }
        if let Some(feature) = &info.unsupported {
            return Err(format!("{feature} is not supported").into());
        }
        if claim.shapes.is_none() {
            let namespace = &info.key.namespace;
            return Err(format!(
                "the claims of namespace {namespace} have more than {SHAPES_OF_NAMESPACE_MAX} different requests"
            )
            .into());
        }
        self.shapes_usable(claim)?;
        if claim.node().is_some() {
            return self.add_node(claim, wanted);
        }
        for (shape, count) in claim.wanted() {
            let known = self.devices.shape(shape);
            let of = if known.local { &mut wanted.local } else { &mut *shared };
            of.left_out = of.left_out.take().or_else(|| known.left_out.clone());
            add(&mut of.wanted, shape, count);
        }
        Ok(())
    }

    /// It is to be given devices where the first of its pods is, where these are not good for all nodes.
    fn add_node(&self, claim: &Claim, wanted: &mut Wanted) -> Result<(), Arc<str>> {
        let everywhere = |(shape, _): (ShapeId, u32)| self.devices.shape(shape).everywhere;
        let Some(node) = claim.node().filter(|_| !claim.wanted().all(everywhere)) else { return Ok(()) };
        let name = &self.nodes[node].name;
        if wanted.node.as_ref().is_some_and(|other| other != name) {
            return Err("it gets its devices on another node than the pod's other claims".into());
        }
        wanted.node = Some(name.clone());
        Ok(())
    }

    /// What a claim was given that counts as room that comes.
    fn keep_devices(&self, allocation: &ClaimAllocation, wanted: &mut Wanted, shared: &mut Local) {
        for given in &allocation.devices {
            match self.devices.table.get(&given.device) {
                Some(device) if device.available() == Some(Fit::FutureIdle) => match device.place {
                    DeviceLocation::Node(_) => wanted.local.kept.push(device.shapes.clone()),
                    DeviceLocation::Domain(_) => shared.kept.push(device.shapes.clone()),
                },
                _ => {}
            }
        }
    }

    fn shapes_usable(&self, claim: &Claim) -> Result<(), Arc<str>> {
        for ((id, _), request) in claim.wanted().zip(&claim.info.requests) {
            let shape = self.devices.shape(id);
            if self.devices.unjudged.has(id) {
                let problem =
                    format!("request {}: its CEL expressions are evaluated in a later cycle", request.name);
                return Err(problem.into());
            }
            let nobody = !shape.local && shape.everywhere && !self.devices.is_shared(id);
            let failure = shape.failure.as_ref().filter(|_| nobody);
            if let Some(why) = shape.problem().or(failure) {
                return Err(format!("request {}: {why}", request.name).into());
            }
        }
        Ok(())
    }

    /// A number for what the claims of a task need: tasks with the same need have the same, others another. 0 without
    /// any.
    pub fn claims_scope(&self, task: TaskId) -> u64 {
        if self.tasks[task].claims.is_none() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        match self.claims_need(task) {
            DeviceNeed::Nothing => return 0,
            DeviceNeed::Blocked(why) => why.hash(&mut hasher),
            DeviceNeed::Wanted(wanted) => {
                (&wanted.node, &wanted.terms).hash(&mut hasher);
                self.hash_devices(&wanted.local, &mut hasher);
                if let Some(shared) = &wanted.shared {
                    self.hash_devices(&shared.of, &mut hasher);
                    shared.asked.hash(&mut hasher);
                    for domain in &shared.domains {
                        (&domain.terms, &domain.stock).hash(&mut hasher);
                    }
                }
            }
        }
        hasher.finish().max(1)
    }

    /// Shapes are hashed by something that is not used again for another shape.
    fn hash_devices(&self, of: &Local, hasher: &mut DefaultHasher) {
        for (shape, count) in &of.wanted {
            let shape = self.devices.shape(*shape);
            (shape.serial, count, &shape.left_out).hash(hasher);
        }
        of.kept.len().hash(hasher);
        for shapes in &of.kept {
            let good = shapes.ids().map(|shape| self.devices.shape(shape).serial);
            good.collect::<Vec<u64>>().hash(hasher);
        }
    }
}

impl super::Devices {
    /// Whether there is a device of a shape that nodes share.
    fn is_shared(&self, shape: ShapeId) -> bool {
        let mut devices = self.domains.iter().flat_map(|domain| &domain.devices);
        devices.any(|name| self.table.get(name).is_some_and(|device| device.shapes.has(shape)))
    }
}

fn add(list: &mut Vec<(ShapeId, u32)>, shape: ShapeId, count: u32) {
    match list.iter_mut().find(|(known, _)| *known == shape) {
        Some((_, sum)) => *sum = sum.saturating_add(count),
        None => list.push((shape, count)),
    }
}
