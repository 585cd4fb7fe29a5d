//! Devices of nodes and the claims of pods to them (resource.k8s.io).
//!
//! A device is good for some *shapes* of requests (`shape`), and that is all placement has to know of it: a node has a
//! *stock* (`stock`) of devices by what they are good for, kept by every change as its room is. Which of them a claim
//! gets is decided when its first pod is bound (`assign`); until then the stock knows only what is asked of it, so that
//! undoing is exact.
//!
//! What slices and classes say is worked out between cycles (`refresh`), when they changed.
mod assign;
mod claim;
mod held;
mod need;
mod pools;
mod quota;
mod refresh;
mod shape;
mod shape_limits;
mod shapes;
mod stock;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use claim::Claim;
pub(crate) use claim::Linked;
pub use held::Of as DevicesOf;
pub use need::{DeviceNeed, Local, Shared, Wanted};
pub(crate) use quota::class_of;
pub use quota::is_part;
use shape::Shape;
pub(crate) use shapes::{ShapeId, Shapes};
pub(crate) use stock::Stock;

use crate::Fit;
use crate::event::{ClaimInfo, DeviceClassInfo, DeviceName, Event, Key, LeftOut, NodeTerm, SliceInfo};
use crate::id::{ClaimId, JobId, NodeId, Slots, TaskId};
use crate::marks::Dirty;

/// Where a device can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceLocation {
    Node(NodeId),
    /// Where a domain says.
    Domain(usize),
}

/// A device.
#[derive(Clone, Debug, PartialEq)]
struct Device {
    place: DeviceLocation,
    shapes: Shapes,
    /// Claims that have it: more than one only by mistake of others.
    takers: u32,
    /// Those of them whose pods are all leaving, or gone.
    leavers: u32,
}

impl Device {
    /// When it can be had; `None` while somebody keeps it.
    fn available(&self) -> Option<Fit> {
        match (self.takers, self.leavers) {
            (0, _) => Some(Fit::Idle),
            (takers, leavers) if takers == leavers => Some(Fit::FutureIdle),
            _ => None,
        }
    }
}

/// Nodes that share devices; everywhere without terms.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDomain {
    pub terms: Option<Vec<NodeTerm>>,
    pub stock: Stock,
    devices: Vec<DeviceName>,
}

/// A slice, and what its devices are good for.
#[derive(Clone, Debug, PartialEq)]
struct Slice {
    info: SliceInfo,
    shapes: Vec<Shapes>,
    /// Shapes that were asked about.
    known: Shapes,
    /// How many of its devices would be good for a shape and are given to nobody, and why.
    left_out: BTreeMap<(ShapeId, LeftOut), u32>,
    /// It is of the newest generation of its pool, as of the last time stocks were made.
    current: bool,
    /// How many of its devices are of a class.
    counts: BTreeMap<Arc<str>, u32>,
}

/// A driver and one of its pools.
type PoolName = (Arc<str>, Arc<str>);

/// Who asks for devices.
#[derive(Clone, Debug, Default, PartialEq)]
struct Claimants {
    /// Tasks that have claims.
    tasks: FxHashSet<TaskId>,
    /// The number of them in each job.
    by_job: FxHashMap<JobId, u32>,
    /// Jobs whose minResources name device classes.
    by_min_resources: FxHashSet<JobId>,
}

/// All about devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Devices {
    classes: BTreeMap<Arc<str>, DeviceClassInfo>,
    slices: BTreeMap<Arc<str>, Slice>,
    pub claims: Slots<ClaimId, Claim>,
    claim_ids: FxHashMap<Key, ClaimId>,
    claimants: Claimants,
    shapes: Vec<Shape>,
    shape_limits: shape_limits::ShapeLimits,
    /// Shapes that were not asked of all devices yet.
    unjudged: Shapes,
    table: FxHashMap<DeviceName, Device>,
    /// The devices of each node, by name.
    local: FxHashMap<NodeId, Vec<DeviceName>>,
    domains: Vec<DeviceDomain>,
    /// What is asked of the domains.
    shared: Stock,
    /// Slices, classes or nodes changed: stocks are rebuilt before the next cycle.
    dirty: bool,
    /// Or only these pools are laid out anew, with devices that they had.
    changed: BTreeMap<PoolName, Vec<DeviceName>>,
    /// And those on nodes of these names, which came.
    came: FxHashSet<Arc<str>>,
    /// Source of serials.
    serial: u64,
    /// How many there are of the classes that queues and PodGroups name.
    counts: BTreeMap<Arc<str>, u32>,
    held: held::HeldDevices,
    /// Claims that changed since changes were taken.
    pub(crate) changed_claims: Dirty<ClaimId>,
}

impl Devices {
    /// Drops the log of changed claims.
    pub(crate) fn forget_history(&mut self) {
        self.changed_claims = Dirty::default();
    }

    /// A ResourceClaim that exists.
    pub(crate) fn claim_named(&self, key: &Key) -> Option<&ClaimInfo> {
        let claim = &self.claims[*self.claim_ids.get(key)?];
        claim.exists.then_some(&claim.info)
    }

    pub(crate) fn slice_infos(&self) -> impl Iterator<Item = &SliceInfo> {
        self.slices.values().map(|slice| &slice.info)
    }

    /// All objects. Allocations that are decided and not seen yet are on their claims.
    pub(crate) fn objects(&self) -> Vec<Event> {
        let claim = |claim: &Claim| {
            let allocation = claim.allocation.as_deref().cloned();
            Event::from(ClaimInfo { allocation, ..claim.info.clone() })
        };
        let mut claims: Vec<&Claim> =
            self.claims.iter().map(|(_, claim)| claim).filter(|claim| claim.exists).collect();
        claims.sort_unstable_by_key(|claim| &claim.info.key);
        let classes = self.classes.values().cloned().map(Event::from);
        let slices = self.slice_infos().cloned().map(Event::from);
        classes.chain(slices).chain(claims.into_iter().map(claim)).collect()
    }

    fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[usize::from(id)]
    }
}
