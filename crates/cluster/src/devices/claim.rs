//! ResourceClaims: their requests, their devices, and the tasks that use them.
use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Device, DeviceLocation, ShapeId};
use crate::count::Count;
use crate::event::{ClaimAllocation, ClaimInfo, ClaimRequest, Key, PodClaim};
use crate::fingerprint::Fingerprint;
use crate::id::{ClaimId, NodeId, TaskId};
use crate::request_key::unnamed_claim;
use crate::{Cluster, Fit, Hold};

/// A ResourceClaim, or one that pods name before it exists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// The object; only the name is valid while it does not exist.
    pub(super) info: ClaimInfo,
    pub(super) exists: bool,
    /// The shapes of its requests, in their order; `None` when no pod names it, or its namespace has too many.
    pub(super) shapes: Option<Vec<ShapeId>>,
    /// What it was given, on the object or by us.
    pub(super) allocation: Option<Arc<ClaimAllocation>>,
    /// By us, and not seen on the object yet.
    pub(super) assumed: bool,
    /// Tasks that name it.
    tasks: u32,
    /// Tasks of it that take room of a node, and that are nominated.
    pub(super) used: u32,
    pub(super) nominated: u32,
    /// Tasks of it that leave their room.
    leaving: u32,
    /// How many of these that stay of these each node has. More than one node only by mistake of others.
    on: BTreeMap<NodeId, u32>,
}

impl Claim {
    /// Tasks that name it, and those of them that take room, that are nominated, and that leave.
    pub(super) fn holders(&self) -> [u32; 4] {
        [self.tasks, self.used, self.nominated, self.leaving]
    }

    /// What it was given is taken from it before those that are nominated come: all who use it leave.
    pub(super) fn is_given_anew(&self) -> bool {
        self.used == 0 && self.leaving > 0
    }

    /// Nobody takes room with it or is nominated: what it was given comes back.
    pub(super) fn is_left(&self) -> bool {
        self.used == 0 && self.nominated == 0
    }

    /// The node of those that take room or are nominated.
    pub(super) fn node(&self) -> Option<NodeId> {
        self.on.keys().next().copied()
    }

    /// It exists, and pods name it.
    pub(super) fn has_users(&self) -> bool {
        self.exists && self.tasks > 0
    }

    fn count_on(&mut self, node: NodeId, count: Count) {
        let tasks = self.on.entry(node).or_default();
        count.step(tasks);
        if *tasks == 0 {
            self.on.remove(&node);
        }
    }

    /// Its requests by shape.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (ShapeId, u32)> + '_ {
        let shapes = self.shapes.as_deref().unwrap_or_default();
        shapes.iter().zip(&self.info.requests).map(|(shape, request)| (*shape, request.count))
    }
}

/// The claims of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Linked {
    pub(super) named: Arc<[PodClaim]>,
    pub(super) ids: Vec<ClaimId>,
}

impl Linked {
    pub fn named(&self) -> &Arc<[PodClaim]> {
        &self.named
    }

    pub fn ids(&self) -> &[ClaimId] {
        &self.ids
    }
}

impl Cluster {
    /// Links a task to the claims that its pod names. True when they changed.
    pub fn link_claims(&mut self, id: TaskId, named: Option<&Arc<[PodClaim]>>) -> bool {
        if self.tasks[id].claims.as_deref().map(|linked| &linked.named) == named {
            return false;
        }
        self.count_claims_on_node(id, Count::Out);
        self.unlink_claims(id);
        if let Some(named) = named {
            let namespace = self.tasks[id].pod.namespace.clone();
            let names = named.iter().filter_map(|one| one.claim.clone());
            let ids: Vec<ClaimId> =
                names.map(|name| self.ensure_claim(Key { namespace: namespace.clone(), name })).collect();
            for claim in &ids {
                self.devices.claims[*claim].tasks += 1;
                if self.devices.claims[*claim].tasks == 1 {
                    self.shape_claim(*claim);
                }
            }
            self.tasks[id].claims = Some(Arc::new(Linked { named: named.clone(), ids }));
            self.devices.claimants.tasks.insert(id);
            self.count_claimant(self.tasks[id].job, Count::In);
            self.count_in_device_use(id, None, Some(self.tasks[id].status));
        }
        self.count_claims_on_node(id, Count::In);
        true
    }

    fn count_claims_on_node(&mut self, id: TaskId, count: Count) {
        if let Some(node) = self.tasks[id].node {
            self.count_device_claims(id, node, self.tasks[id].status.hold(), count);
        }
    }

    /// A task that holds nothing lets its claims go.
    pub fn unlink_claims(&mut self, id: TaskId) {
        self.count_in_device_use(id, Some(self.tasks[id].status), None);
        let Some(linked) = self.tasks[id].claims.take() else { return };
        self.devices.claimants.tasks.remove(&id);
        self.count_claimant(self.tasks[id].job, Count::Out);
        for claim in &linked.ids {
            self.devices.claims[*claim].tasks -= 1;
            if self.devices.claims[*claim].tasks == 0 {
                self.shape_claim(*claim);
            }
            self.drop_unused_claim(*claim);
        }
    }

    /// Tasks that have claims, in any order.
    pub fn claimants(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.devices.claimants.tasks.iter().copied()
    }

    /// The claims of a task.
    pub fn claims_of(&self, task: TaskId) -> &[ClaimId] {
        self.tasks[task].claims.as_ref().map_or(&[], |linked| &linked.ids)
    }

    /// The claims of a task that other tasks use too.
    pub fn claims_in_common(&self, task: TaskId) -> impl Iterator<Item = ClaimId> + '_ {
        self.claims_of(task).iter().copied().filter(|claim| self.devices.claims[*claim].tasks > 1)
    }

    /// The request of a claim.
    pub fn device_requests(&self, claim: ClaimId) -> &[ClaimRequest] {
        &self.devices.claims[claim].info.requests
    }

    /// Counts a task among those that hold its claims.
    pub(crate) fn count_device_claims(&mut self, id: TaskId, node: NodeId, hold: Hold, count: Count) {
        let Some(linked) = self.tasks[id].claims.clone() else { return };
        for id in &linked.ids {
            self.count_claim(*id, Count::Out);
            let claim = &mut self.devices.claims[*id];
            match hold {
                Hold::Used => count.step(&mut claim.used),
                Hold::Pipelined => count.step(&mut claim.nominated),
                Hold::Releasing => count.step(&mut claim.leaving),
                Hold::Nothing => {}
            }
            if matches!(hold, Hold::Used | Hold::Pipelined) {
                claim.count_on(node, count);
            }
            self.count_claim(*id, Count::In);
        }
    }

    /// Puts what a claim takes or asks for into the stocks, or takes it out.
    pub(super) fn count_claim(&mut self, id: ClaimId, count: Count) {
        self.devices.changed_claims.mark(id);
        if self.devices.dirty {
            return;
        }
        let claim = &self.devices.claims[id];
        if let Some(allocation) = claim.allocation.clone() {
            let leaving = claim.is_left();
            for given in &allocation.devices {
                self.take_device(&given.device, leaving, count);
            }
        } else if let Some(node) = claim.node() {
            let fit = if claim.used > 0 { Fit::Idle } else { Fit::FutureIdle };
            for (shape, number) in claim.wanted().collect::<Vec<_>>() {
                let local = self.devices.shape(shape).local;
                let stock = if local { &mut self.nodes[node].devices } else { &mut self.devices.shared };
                stock.ask(shape, number, fit, count);
            }
            self.touch_node(node);
        }
    }

    fn take_device(&mut self, name: &crate::event::DeviceName, leaving: bool, count: Count) {
        let Some(mut device) = self.devices.table.get(name).cloned() else { return };
        self.stock_device(&device, Count::Out);
        count.step(&mut device.takers);
        if leaving {
            count.step(&mut device.leavers);
        }
        self.stock_device(&device, Count::In);
        self.devices.table.insert(name.clone(), device);
    }

    /// Puts a device into its stock, or takes it out, if it can be had.
    pub(super) fn stock_device(&mut self, device: &Device, count: Count) {
        let Some(had) = device.available() else { return };
        match device.place {
            DeviceLocation::Node(node) => {
                self.nodes[node].devices.device(&device.shapes, had, count);
                self.touch_node(node);
            }
            DeviceLocation::Domain(at) => self.devices.domains[at].stock.device(&device.shapes, had, count),
        }
    }

    fn ensure_claim(&mut self, key: Key) -> ClaimId {
        if let Some(id) = self.devices.claim_ids.get(&key) {
            return *id;
        }
        let info = ClaimInfo { key: key.clone(), ..ClaimInfo::default() };
        let id = self.devices.claims.insert(Claim { info, ..Claim::default() });
        self.devices.claim_ids.insert(key, id);
        id
    }

    fn drop_unused_claim(&mut self, id: ClaimId) {
        let claim = &self.devices.claims[id];
        if !claim.exists && claim.tasks == 0 {
            self.devices.claim_ids.remove(&claim.info.key);
            self.devices.claims.remove(id);
        }
    }

    pub(crate) fn apply_claim(&mut self, info: ClaimInfo) -> bool {
        let id = self.ensure_claim(info.key.clone());
        self.count_claim(id, Count::Out);
        let claim = &self.devices.claims[id];
        let successor = claim.exists && claim.info.uid != info.uid;
        let changed = !claim.exists || claim.info != info;
        let asks_else = !claim.exists || claim.info.requests != info.requests;
        let claim = &mut self.devices.claims[id];
        claim.assumed &= !successor && info.allocation.is_none();
        if !claim.assumed {
            // Else this was sent before our own was written.
            claim.allocation = info.allocation.clone().map(Arc::new);
        }
        claim.exists = true;
        claim.info = info;
        if asks_else {
            self.devices_moved_about();
            self.shape_claim(id);
        }
        self.count_claim(id, Count::In);
        changed
    }

    pub(crate) fn remove_claim(&mut self, key: &Key) -> bool {
        let Some(&id) = self.devices.claim_ids.get(key) else { return false };
        self.devices_moved_about();
        self.count_claim(id, Count::Out);
        let claim = &mut self.devices.claims[id];
        let existed = std::mem::replace(&mut claim.exists, false);
        claim.info = ClaimInfo { key: key.clone(), ..ClaimInfo::default() };
        (claim.allocation, claim.assumed) = (None, false);
        self.shape_claim(id);
        self.drop_unused_claim(id);
        existed
    }

    /// A pod was not bound: what its claims were to be given is free again, unless it was written.
    pub fn forget_given(&mut self, task: TaskId) {
        let Some(linked) = self.tasks[task].claims.clone() else { return };
        for id in &linked.ids {
            let claim = &self.devices.claims[*id];
            if claim.assumed && claim.used == 0 {
                self.count_claim(*id, Count::Out);
                let claim = &mut self.devices.claims[*id];
                (claim.allocation, claim.assumed) = (None, false);
                self.count_claim(*id, Count::In);
            }
        }
    }
}

impl super::Devices {
    /// The key of the claims of a task: without the names of those that only the task uses.
    pub(crate) fn claims_key(&self, linked: &Linked) -> Fingerprint {
        let mut ids = linked.ids.iter();
        let claims = linked.named.iter().map(|named| {
            let id = named.claim.as_ref().and_then(|_| ids.next())?;
            let claim = &self.claims[*id];
            let own = claim.tasks == 1 && claim.allocation.is_none() && claim.on.is_empty();
            let info = || Some(&claim.info).filter(|_| claim.exists).map(unnamed_claim);
            Some(if own { (None, info()) } else { (Some(*id), None) })
        });
        Fingerprint::of(claims.collect::<Vec<_>>())
    }

    /// Whether only one task uses a claim.
    pub(crate) fn is_own(&self, id: ClaimId) -> bool {
        self.claims[id].tasks == 1
    }
}
