//! Claims and volumes: what pods use on which node, and which volumes are promised to claims that have none yet.
//!
//! A placement of a task whose claims wait for their first pod (`WaitForFirstConsumer`) chooses their volumes: that
//! choice is made and taken back by `Cluster::place`, as room is.
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
use super::request_key::WaitingJob;
use super::request_key::{VolumeClaimKey, Watchers};
use super::task::Hold;
use crate::event::{AccessModes, Key, PvcInfo, StorageCapacityInfo, StorageClassInfo, VolumeInfo};
use crate::id::{NodeId, PvcId, Slots, TaskId};

/// Tasks that use something, by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClaimUse {
    /// Tasks that stay.
    pub held: u32,
    /// Tasks that are being deleted.
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

    /// A volume is attached once, however many tasks use it, and until the last of them is gone and it is detached:
    /// then its place is free.
    pub fn once(self) -> ClaimUse {
        let held = u32::from(self.held > 0);
        let leaves = self.releasing > 0 || self.attached > 0;
        ClaimUse { held, releasing: u32::from(held == 0 && leaves), attached: 0 }
    }
}

/// What a claim that has no volume yet was promised.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AssumedVolume {
    /// The node of the tasks that use it.
    pub node: NodeId,
    /// What it gets.
    pub got: Got,
    /// The tasks for which it was made, sorted.
    holders: Vec<TaskId>,
}

/// What a claim gets that has no volume yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Got {
    /// A volume that exists; without one, it is made for the node.
    pub volume: Option<Arc<str>>,
    /// Of what it is made, where the driver tells of its room.
    pub(super) piece: Option<Piece>,
}

/// A claim that exists, or that pods name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pvc {
    /// Namespace and name.
    pub key: Key,
    /// The object; `None` when there is none.
    pub info: Option<PvcInfo>,
    /// The CSI driver that attaches, or will attach, its volume.
    pub driver: Option<Arc<str>>,
    /// Tasks that use it, by node.
    pub on: FxHashMap<NodeId, ClaimUse>,
    /// The same in sum.
    pub used: ClaimUse,
    pub(crate) choice: Option<AssumedVolume>,
    /// Changes with what rules for its pods depend on, besides `used`.
    pub stamp: Stamp,
    /// Classes that name it.
    asked: u32,
}

impl Pvc {
    /// Only one pod may use it.
    pub fn is_exclusive(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.modes.cover(AccessModes::ONCE_POD))
    }
}

/// A volume, and the claim it was promised to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Volume {
    pub info: Arc<VolumeInfo>,
    pub promised: Option<PvcId>,
}

/// Volumes of a storage class that no claim has, smallest first.
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
    /// By storage class.
    pools: FxHashMap<Arc<str>, VolumePool>,
    /// Drivers that make volumes only where they tell so.
    tellers: FxHashSet<Arc<str>>,
    /// What they tell.
    capacities: FxHashMap<Key, StorageCapacityInfo>,
    /// The same by storage class.
    spaces: FxHashMap<Arc<str>, Arc<space::Space>>,
    /// What is promised of it to claims that have no volume yet, by storage class.
    taken: FxHashMap<Arc<str>, Arc<space::PromisedBytes>>,
    /// Claims by the volume they name.
    by_volume: FxHashMap<Arc<str>, BTreeSet<PvcId>>,
    /// What nodes can attach, by node.
    limits: FxHashMap<Arc<str>, Vec<(Arc<str>, u32)>>,
    /// On how many nodes a driver has a limit.
    limited: FxHashMap<Arc<str>, u32>,
    /// Changes with `limited`.
    limits_stamp: Stamp,
    attachments: attached::Attachments,
    clock: Stamp,
    /// How many volumes are set aside for a claim by name.
    meant: FxHashMap<Key, u32>,
    watchers: Watchers<PvcId>,
    /// Volumes that go first, before smaller ones: see [`prefer`](Self::prefer).
    preferred: Vec<Arc<str>>,
}

impl Volumes {
    /// Drops stamps and watchers.
    pub(crate) fn forget_history(&mut self) {
        self.pvcs.iter_mut().for_each(|claim| claim.stamp = Stamp(0));
        self.pools.values_mut().for_each(|pool| pool.stamp = Stamp(0));
        (self.limits_stamp, self.clock) = (Stamp(0), Stamp(0));
        self.watchers = Watchers::default();
    }

    /// The claim of an id.
    pub fn pvc(&self, id: PvcId) -> &Pvc {
        &self.pvcs[id]
    }

    /// From now on claims are given these first, in this order, where they will do. Which nodes will do is the same.
    pub fn prefer(&mut self, volumes: Vec<Arc<str>>) {
        self.preferred = volumes;
    }

    /// What a claim has, or gets with the pods that have places.
    pub fn promised(&self, id: PvcId) -> Option<&Got> {
        self.pvcs[id].choice.as_ref().map(|choice| &choice.got)
    }

    /// What a node can attach.
    pub(super) fn limits_of(&self, node: &str) -> Vec<(Arc<str>, u32)> {
        self.limits.get(node).cloned().unwrap_or_default()
    }

    /// Whether a driver can attach only so many volumes, on any node.
    pub fn is_limited(&self, driver: &str) -> bool {
        self.limited.contains_key(driver)
    }

    /// The claim of a name, which a class is about to name too.
    pub(super) fn ask(&mut self, key: &Key) -> PvcId {
        let id = self.ensure(key);
        self.pvcs[id].asked += 1;
        id
    }

    /// The class is no more.
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

    /// What tells the claim from others, as long as it is of one class alone and has nothing yet.
    pub(super) fn like(&self, id: PvcId, owner: Option<&Arc<str>>) -> Option<VolumeClaimKey> {
        let claim = &self.pvcs[id];
        let own = claim.asked == 1 && claim.choice.is_none() && claim.on.is_empty();
        if !own || self.meant.contains_key(&claim.key) {
            return None;
        }
        let volume = claim.info.as_ref().and_then(|info| self.volumes.get(info.volume.as_ref()?));
        let place = volume.map(|volume| (volume.info.nodes.clone(), volume.info.labels.clone()));
        Some(VolumeClaimKey::new(claim.info.as_ref(), owner, place, claim.driver.clone()))
    }

    /// Remembers who has a claim that nobody else has.
    pub(super) fn watch(&mut self, id: PvcId, member: WaitingJob) {
        if self.pvcs[id].asked == 1 {
            self.watchers.add(id, member);
        }
    }

    pub(super) fn has_woken(&self) -> bool {
        self.watchers.has_woken()
    }

    pub(super) fn take_woken(&mut self) -> Vec<WaitingJob> {
        self.watchers.take_woken()
    }

    fn changed(&mut self, id: PvcId) {
        self.watchers.hit(id);
        self.pvcs[id].stamp = self.tick();
    }

    fn pool_changed(&mut self, class: &Arc<str>) {
        let stamp = self.tick();
        self.pools.entry(class.clone()).or_default().stamp = stamp;
    }

    /// A number that changes with all that the rules for a claim's pods depend on.
    pub fn state(&self, id: PvcId) -> [u64; 5] {
        let claim = &self.pvcs[id];
        let used = if claim.is_exclusive() { claim.used } else { ClaimUse::default() };
        let unbound = claim.info.as_ref().filter(|info| !info.bound);
        let pool = unbound.and_then(|info| self.pools.get(&info.class)).map_or(0, |pool| pool.stamp.0);
        let limits = if claim.driver.is_some() { self.limits_stamp.0 } else { 0 };
        [claim.stamp.0, u64::from(used.held), u64::from(used.releasing), pool, limits]
    }

    /// Counts a task in or out that uses a claim on a node, and says how the attachments of its driver there change.
    pub(super) fn shift(
        &mut self,
        id: PvcId,
        node: NodeId,
        hold: Hold,
        add: bool,
    ) -> Option<AttachmentShift> {
        let claim = &mut self.pvcs[id];
        let on = claim.on.entry(node).or_default();
        let before = on.once();
        for counter in [on.counter(hold), claim.used.counter(hold)] {
            if add {
                *counter += 1;
            } else {
                *counter -= 1;
            }
        }
        self.shifted(id, node, before)
    }

    /// How the attachments of a claim's driver on a node have changed with who uses it there.
    fn shifted(&mut self, id: PvcId, node: NodeId, before: ClaimUse) -> Option<AttachmentShift> {
        self.watchers.hit(id);
        let claim = &mut self.pvcs[id];
        let on = claim.on.get(&node).copied().unwrap_or_default();
        let after = on.once();
        if on.is_none() {
            claim.on.remove(&node);
        }
        let driver = claim.driver.clone()?;
        if before != after && self.limited.contains_key(&driver) {
            self.changed(id);
        }
        (before != after).then_some(AttachmentShift { node, driver, before, after })
    }

    /// All attachments of a claim's driver that are due to it, counted in or out.
    fn attachments(&self, id: PvcId, add: bool) -> Vec<AttachmentShift> {
        let claim = &self.pvcs[id];
        let Some(driver) = &claim.driver else { return Vec::new() };
        let shift = |(node, on): (&NodeId, &ClaimUse)| {
            let (before, after) =
                if add { (ClaimUse::default(), on.once()) } else { (on.once(), ClaimUse::default()) };
            AttachmentShift { node: *node, driver: driver.clone(), before, after }
        };
        claim.on.iter().map(shift).collect()
    }
}

/// How the attachments of a driver on a node change.
#[derive(Clone, Debug)]
pub(super) struct AttachmentShift {
    pub(super) node: NodeId,
    pub(super) driver: Arc<str>,
    pub(super) before: ClaimUse,
    pub(super) after: ClaimUse,
}
