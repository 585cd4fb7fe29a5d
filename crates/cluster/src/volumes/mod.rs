//! Claims and volumes: their use by node, and volumes assumed for unbound claims.
//!
//! Placing a task with `WaitForFirstConsumer` claims assumes volumes for them. `Cluster::place` assumes and releases
//! them with the resources of the node.
mod apply;
mod attached;
mod check;
mod choice;
mod space;
mod wants;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

pub(crate) use choice::Chosen;
use space::Piece;
pub use wants::{ClaimDemand, Problem, Want, reaches, solve};

use super::node::Stamp;
use super::task::Hold;
use crate::count::Count;
use crate::event::{
    AccessModes, CsiDriverInfo, CsiNodeInfo, Event, Key, PvcInfo, StorageCapacityInfo, StorageClassInfo,
    VolumeInfo,
};
use crate::fingerprint::Fingerprint;
use crate::id::{NodeId, PvcId, Slots, TaskId};
use crate::marks::Dirty;
use crate::multi_map::MultiMap;
use crate::request_key::unnamed_pvc;

/// Number of tasks that use a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimUse {
    /// Tasks that do not terminate.
    pub held: u32,
    /// Terminating tasks.
    pub releasing: u32,
    /// Attachments that count with them (VolumeAttachment).
    pub attached: u32,
}

impl ClaimUse {
    fn is_none(self) -> bool {
        self == Self::default()
    }

    fn counter(&mut self, hold: Hold) -> &mut u32 {
        if hold == Hold::Releasing { &mut self.releasing } else { &mut self.held }
    }

    pub(super) fn change(&mut self, shift: &AttachmentShift) {
        self.held = self.held + shift.after.held - shift.before.held;
        self.releasing = self.releasing + shift.after.releasing - shift.before.releasing;
    }

    /// The use of an attachment limit: one volume, however many tasks use it, until the last task is gone and it is
    /// detached.
    pub fn once(self) -> ClaimUse {
        let held = u32::from(self.held > 0);
        let leaves = self.releasing > 0 || self.attached > 0;
        ClaimUse { held, releasing: u32::from(held == 0 && leaves), attached: 0 }
    }
}

/// The volume assumed for an unbound claim.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AssumedVolume {
    /// The node of the tasks that use the claim.
    pub node: NodeId,
    /// The volume.
    pub got: Got,
    /// The tasks that it is assumed for, sorted.
    holders: Vec<TaskId>,
}

/// The volume that an unbound claim gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Got {
    /// An existing volume; `None` for one that is provisioned for the node.
    pub volume: Option<Arc<str>>,
    /// The storage capacity that it is provisioned from, where the driver publishes capacities.
    pub(super) piece: Option<Piece>,
}

/// A claim, with or without object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pvc {
    /// Namespace and name.
    pub key: Key,
    /// The object, if it exists.
    pub info: Option<PvcInfo>,
    /// The CSI driver that attaches its volume.
    pub driver: Option<Arc<str>>,
    /// Use by node.
    pub on: FxHashMap<NodeId, ClaimUse>,
    /// Use on all nodes.
    pub used: ClaimUse,
    pub(crate) choice: Option<AssumedVolume>,
    /// Set from the clock when anything else changes that filters for its pods read.
    pub stamp: Stamp,
    /// Number of classes that name it.
    asked: u32,
}

impl Pvc {
    /// Whether only one pod may use it.
    pub fn is_exclusive(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.modes.cover(AccessModes::ONCE_POD))
    }
}

/// A volume, and the claim that it is assumed for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Volume {
    pub info: Arc<VolumeInfo>,
    pub assumed: Option<PvcId>,
}

/// Unbound volumes of a storage class, smallest first.
#[derive(Clone, Debug, Default, PartialEq)]
struct VolumePool {
    free: BTreeSet<(i64, Arc<str>)>,
    stamp: Stamp,
}

/// All claims and volumes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Volumes {
    pvcs: Slots<PvcId, Pvc>,
    ids: FxHashMap<Key, PvcId>,
    volumes: BTreeMap<Arc<str>, Volume>,
    classes: FxHashMap<Arc<str>, StorageClassInfo>,
    /// Unbound volumes by storage class.
    pools: FxHashMap<Arc<str>, VolumePool>,
    /// Drivers with `storageCapacity: true`.
    tellers: FxHashSet<Arc<str>>,
    /// CSIStorageCapacities.
    capacities: FxHashMap<Key, StorageCapacityInfo>,
    /// CSIStorageCapacities by storage class.
    spaces: FxHashMap<Arc<str>, Arc<space::Space>>,
    /// Bytes of storage capacities assumed for unbound claims, by storage class.
    taken: FxHashMap<Arc<str>, Arc<space::AssumedBytes>>,
    /// Claims by the volume they name.
    by_volume: MultiMap<Arc<str>, PvcId>,
    /// Attachment limits by node.
    limits: FxHashMap<Arc<str>, Vec<(Arc<str>, u32)>>,
    /// Number of nodes on which a driver has a limit.
    limited: FxHashMap<Arc<str>, u32>,
    /// Set from the clock when `limited` changes.
    limits_stamp: Stamp,
    attachments: attached::Attachments,
    clock: Stamp,
    /// Number of volumes whose `claimRef` names a claim.
    claim_refs: FxHashMap<Key, u32>,
    /// Claims that changed since changes were taken.
    pub(super) changed: Dirty<PvcId>,
    /// Volumes that are bound before smaller ones: see [`prefer`](Self::prefer).
    preferred: Vec<Arc<str>>,
}

fn by_name<K: Ord, V>(map: &FxHashMap<K, V>) -> impl Iterator<Item = (&K, &V)> {
    let mut all: Vec<(&K, &V)> = map.iter().collect();
    all.sort_unstable_by_key(|(name, _)| *name);
    all.into_iter()
}

impl Volumes {
    /// Drops stamps and the log of changed claims.
    pub(crate) fn forget_history(&mut self) {
        self.pvcs.iter_mut().for_each(|claim| claim.stamp = Stamp(0));
        self.pools.values_mut().for_each(|pool| pool.stamp = Stamp(0));
        (self.limits_stamp, self.clock) = (Stamp(0), Stamp(0));
        self.changed = Dirty::default();
    }

    /// The claim of an id.
    pub fn pvc(&self, id: PvcId) -> &Pvc {
        &self.pvcs[id]
    }

    /// A claim that exists.
    pub(super) fn named(&self, key: &Key) -> Option<&PvcInfo> {
        self.pvcs[*self.ids.get(key)?].info.as_ref()
    }

    /// All objects.
    pub(super) fn objects(&self) -> Vec<Event> {
        let classes = by_name(&self.classes).map(|(_, class)| Event::from(class.clone()));
        let drivers: BTreeSet<&Arc<str>> = self.tellers.iter().collect();
        let driver = |name: &Arc<str>| CsiDriverInfo { name: name.clone(), tells_capacity: true }.into();
        let limits = by_name(&self.limits)
            .map(|(node, limits)| CsiNodeInfo { node: node.clone(), limits: limits.clone() }.into());
        let capacities = by_name(&self.capacities).map(|(_, capacity)| capacity.clone().into());
        let volumes = self.volumes.values().map(|volume| VolumeInfo::clone(&volume.info).into());
        let claims = by_name(&self.ids).filter_map(|(_, id)| Some(self.pvcs[*id].info.clone()?.into()));
        let attachments = self.attachments.infos().cloned().map(Event::from);
        let first = classes.chain(drivers.into_iter().map(driver)).chain(limits).chain(capacities);
        first.chain(volumes).chain(claims).chain(attachments).collect()
    }

    /// Whether a StorageClass exists.
    pub(super) fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    /// Has claims bound to these volumes first, in this order, where they match. Feasible nodes stay the same.
    pub fn prefer(&mut self, volumes: Vec<Arc<str>>) {
        self.preferred = volumes;
    }

    /// The volume assumed for a claim, if any.
    pub fn assumed(&self, id: PvcId) -> Option<&Got> {
        self.pvcs[id].choice.as_ref().map(|choice| &choice.got)
    }

    /// The attachment limits of a node.
    pub(super) fn limits_of(&self, node: &str) -> Vec<(Arc<str>, u32)> {
        self.limits.get(node).cloned().unwrap_or_default()
    }

    /// Whether a driver has an attachment limit on any node.
    pub fn is_limited(&self, driver: &str) -> bool {
        self.limited.contains_key(driver)
    }

    /// The claim of a name, counted for a new class that names it.
    pub(super) fn ask(&mut self, key: &Key) -> PvcId {
        let id = self.ensure(key);
        self.pvcs[id].asked += 1;
        id
    }

    /// Uncounts a class that named a claim.
    pub(super) fn forget(&mut self, id: PvcId) {
        self.pvcs[id].asked -= 1;
        self.drop_unused(id);
    }

    fn ensure(&mut self, key: &Key) -> PvcId {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        let id = self.pvcs.insert(Pvc { key: key.clone(), ..Pvc::default() });
        self.ids.insert(key.clone(), id);
        id
    }

    fn drop_unused(&mut self, id: PvcId) {
        let claim = &self.pvcs[id];
        if claim.info.is_none() && claim.asked == 0 {
            self.ids.remove(&claim.key.clone());
            self.pvcs.remove(id);
        }
    }

    fn tick(&mut self) -> Stamp {
        self.clock.0 += 1;
        self.clock
    }

    /// The key of an unbound claim that only one class names.
    pub(super) fn own_claim_key(&self, id: PvcId, owner: Option<&Arc<str>>) -> Option<Fingerprint> {
        let claim = &self.pvcs[id];
        let own = claim.asked == 1 && claim.choice.is_none() && claim.on.is_empty();
        if !own || self.claim_refs.contains_key(&claim.key) {
            return None;
        }
        let info = claim.info.as_ref();
        let volume = info.and_then(|info| self.volumes.get(info.volume.as_ref()?));
        let place = volume.map(|volume| (&volume.info.nodes, &volume.info.labels));
        // For an ephemeral claim, whether it was made for the pod.
        let made_for = owner.map(|owner| info.is_some_and(|info| info.owner.as_ref() == Some(owner)));
        Some(Fingerprint::of((info.map(unnamed_pvc), made_for, place, &claim.driver)))
    }

    /// Whether only one class names a claim.
    pub(super) fn is_own(&self, id: PvcId) -> bool {
        self.pvcs[id].asked == 1
    }

    fn note_changed(&mut self, id: PvcId) {
        self.changed.mark(id);
        self.pvcs[id].stamp = self.tick();
    }

    fn pool_changed(&mut self, class: &Arc<str>) {
        let stamp = self.tick();
        self.pools.entry(class.clone()).or_default().stamp = stamp;
    }

    /// A stamp that changes with all that filters for the pods of a claim read.
    pub fn state(&self, id: PvcId) -> [u64; 5] {
        let claim = &self.pvcs[id];
        let used = if claim.is_exclusive() { claim.used } else { ClaimUse::default() };
        let unbound = claim.info.as_ref().filter(|info| !info.bound);
        let pool = unbound.and_then(|info| self.pools.get(&info.class)).map_or(0, |pool| pool.stamp.0);
        let limits = if claim.driver.is_some() { self.limits_stamp.0 } else { 0 };
        [claim.stamp.0, u64::from(used.held), u64::from(used.releasing), pool, limits]
    }

    /// Counts a use of a claim on a node in or out. Returns the change in what the driver has attached there.
    pub(super) fn shift(
        &mut self,
        id: PvcId,
        node: NodeId,
        hold: Hold,
        count: Count,
    ) -> Option<AttachmentShift> {
        let claim = &mut self.pvcs[id];
        let on = claim.on.entry(node).or_default();
        let before = on.once();
        count.step(on.counter(hold));
        count.step(claim.used.counter(hold));
        self.shifted(id, node, before)
    }

    /// The change in what the driver of a claim has attached on a node, from an earlier use of the claim there.
    fn shifted(&mut self, id: PvcId, node: NodeId, before: ClaimUse) -> Option<AttachmentShift> {
        self.changed.mark(id);
        let claim = &mut self.pvcs[id];
        let on = claim.on.get(&node).copied().unwrap_or_default();
        let after = on.once();
        if on.is_none() {
            claim.on.remove(&node);
        }
        let driver = claim.driver.clone()?;
        if before != after && self.limited.contains_key(&driver) {
            self.note_changed(id);
        }
        (before != after).then_some(AttachmentShift { node, driver, before, after })
    }

    /// All attachments due to a claim, counted in or out.
    fn attachments(&self, id: PvcId, count: Count) -> Vec<AttachmentShift> {
        let claim = &self.pvcs[id];
        let Some(driver) = &claim.driver else { return Vec::new() };
        let shift =
            |(node, on): (&NodeId, &ClaimUse)| AttachmentShift::new(*node, driver.clone(), on.once(), count);
        claim.on.iter().map(shift).collect()
    }
}

/// A change in what a driver has attached on a node.
#[derive(Clone, Debug)]
pub(super) struct AttachmentShift {
    pub(super) node: NodeId,
    pub(super) driver: Arc<str>,
    pub(super) before: ClaimUse,
    pub(super) after: ClaimUse,
}

impl AttachmentShift {
    fn new(node: NodeId, driver: Arc<str>, one: ClaimUse, count: Count) -> Self {
        let (before, after) = match count {
            Count::In => (ClaimUse::default(), one),
            Count::Out => (one, ClaimUse::default()),
        };
        Self { node, driver, before, after }
    }
}
