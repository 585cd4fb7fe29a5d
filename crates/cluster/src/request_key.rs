//! Keys of requests, equal for pods that differ only in the names of their own claims.
//!
//! Claims are part of a pod's class, and each pod of a StatefulSet or with ephemeral volumes has its own. As long as
//! one pod uses a claim that is not bound, only the spec of the claim counts, so jobs that differ in the names of such
//! claims get the same refusals. When such a claim changes, its job is taken out of its equivalence class.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::{Class, Cluster};
use crate::event::{ClaimInfo, Constraints, Key, NodeTerm, PvcInfo};
use crate::id::{ClaimId, ClassId, Id, JobId, ProfileId, TaskId};
use crate::label::Labels;
use crate::unoffered::Unoffered;

/// A job in an equivalence class of the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingJob {
    /// The job.
    pub job: JobId,
    /// Tells this wait of the job from earlier ones.
    pub serial: u32,
}

/// What the filters for a task depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestKey {
    /// The class, and its serial number, which tells it from an earlier class of the same id.
    Class(ClassId, u64),
    /// A class with volume claims that only the task uses, without their names.
    Own {
        /// Requests.
        request: Amounts,
        /// Constraints without volumes.
        constraints: Arc<Constraints>,
        /// Labels, as far as terms read them.
        profile: Option<ProfileId>,
        /// What was asked for of resources that nobody offers.
        unoffered: Option<Arc<Unoffered>>,
        /// Volume claims.
        claims: Box<[VolumeClaimKey]>,
    },
}

/// A volume claim that only one task uses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeClaimKey {
    /// The claim without names; `None` when it does not exist.
    info: Option<PvcInfo>,
    /// For an ephemeral claim, whether it was made for the pod.
    made_for: Option<bool>,
    /// Node affinity and labels of its volume.
    volume: Option<(Option<Vec<NodeTerm>>, Labels)>,
    driver: Option<Arc<str>>,
}

/// A ResourceClaim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeviceClaimKey {
    /// The claim is not made from its template yet.
    NotMade,
    /// A claim that only one task uses, without names; `None` when it does not exist.
    Own(Option<ClaimInfo>),
    /// A claim that tasks share, or that is allocated.
    This(ClaimId),
}

impl Cluster {
    /// The key of what a task requests, besides devices.
    pub fn request_key(&self, task: TaskId) -> RequestKey {
        let id = self.tasks[task].class;
        let class = &self.classes[id];
        self.own_volumes(class).map_or(RequestKey::Class(id, class.serial.0), |claims| RequestKey::Own {
            request: class.request.clone(),
            constraints: Arc::new(Constraints { volumes: Vec::new(), ..(*class.constraints).clone() }),
            profile: class.profile,
            unoffered: class.unoffered.clone(),
            claims,
        })
    }

    /// Whether a task has volume claims that no other task uses.
    pub fn volumes_are_own(&self, task: TaskId) -> bool {
        self.own_volumes(self.class_of(task)).is_some()
    }

    fn own_volumes(&self, class: &Class) -> Option<Box<[VolumeClaimKey]>> {
        if class.pvcs.is_empty() || class.refs > 1 {
            return None;
        }
        let named = class.pvcs.iter().zip(&class.constraints.volumes);
        named.map(|(id, named)| self.volumes.like(*id, named.owner.as_ref())).collect()
    }

    /// The keys of a task's ResourceClaims.
    pub fn device_claim_keys(&self, task: TaskId) -> Box<[DeviceClaimKey]> {
        self.tasks[task].claims.as_ref().map_or_else(Box::default, |linked| self.devices.likes(linked))
    }

    /// Has [`take_watchers`](Self::take_watchers) return a job when one of its claims changes.
    pub fn watch_claims(&mut self, waiting: WaitingJob) {
        let Self { jobs, tasks, classes, volumes, devices, .. } = self;
        for task in &jobs[waiting.job].tasks {
            for claim in &classes[tasks[*task].class].pvcs {
                volumes.watch(*claim, waiting);
            }
            for claim in tasks[*task].claims.iter().flat_map(|linked| linked.ids()) {
                devices.watch(*claim, waiting);
            }
        }
    }
}

impl VolumeClaimKey {
    pub(super) fn new(
        info: Option<&PvcInfo>,
        owner: Option<&Arc<str>>,
        volume: Option<(Option<Vec<NodeTerm>>, Labels)>,
        driver: Option<Arc<str>>,
    ) -> Self {
        let made_for = owner.map(|owner| info.is_some_and(|info| info.owner.as_ref() == Some(owner)));
        let unnamed = |info: &PvcInfo| PvcInfo {
            key: Key::default(),
            uid: Arc::default(),
            owner: None,
            volume: info.volume.as_ref().map(|_| Arc::default()),
            ..info.clone()
        };
        Self { info: info.map(unnamed), made_for, volume, driver }
    }
}

impl DeviceClaimKey {
    pub(super) fn own(info: Option<&ClaimInfo>) -> Self {
        let unnamed = |info: &ClaimInfo| ClaimInfo {
            key: Key::default(),
            uid: Arc::default(),
            reserved: Vec::new(),
            ..info.clone()
        };
        DeviceClaimKey::Own(info.map(unnamed))
    }
}

/// Unschedulable jobs by the claims that only they use. Undoing a change of the Cluster does not restore them.
#[derive(Clone, Debug)]
pub(super) struct Watchers<I> {
    of: FxHashMap<I, WaitingJob>,
    woken: Vec<WaitingJob>,
}

impl<I> Default for Watchers<I> {
    fn default() -> Self {
        Self { of: FxHashMap::default(), woken: Vec::new() }
    }
}

impl<I: std::hash::Hash + Eq> PartialEq for Watchers<I> {
    fn eq(&self, other: &Self) -> bool {
        self.of == other.of && self.woken == other.woken
    }
}

impl<I: Id + std::hash::Hash + Eq> Watchers<I> {
    pub(super) fn add(&mut self, id: I, member: WaitingJob) {
        self.of.insert(id, member);
    }

    /// Wakes the job of a claim that changed.
    #[inline]
    pub(super) fn hit(&mut self, id: I) {
        if !self.of.is_empty() {
            self.woken.extend(self.of.remove(&id));
        }
    }

    pub(super) fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    pub(super) fn take_woken(&mut self) -> Vec<WaitingJob> {
        std::mem::take(&mut self.woken)
    }
}
