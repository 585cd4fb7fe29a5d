//! What makes jobs alike whose pods have claims of their own.
//!
//! Claims are a part of a pod's class, and pods of a StatefulSet, or of a job with ephemeral volumes, have one each. As long as
//! a claim is nobody else's and has nothing yet, all that counts is what it asks for; so jobs that differ in the names of
//! such claims get the same answers. When something happens to one of these claims, its job is woken: it may be unlike the
//! others now.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::{Class, Cluster};
use crate::event::{ClaimInfo, Constraints, Key, NodeTerm, PvcInfo};
use crate::id::{ClaimId, ClassId, Id, JobId, ProfileId, TaskId};
use crate::label::Labels;

/// A job in an equivalence class of the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WaitingJob {
    /// The job.
    pub job: JobId,
    /// Tells this wait of the job from earlier ones.
    pub serial: u32,
}

/// What a task asks of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RequestKey {
    /// What its class says, and what tells that from an earlier class of the same id.
    Class(ClassId, u64),
    /// The same but for the names of its volume claims, which are its own.
    Own {
        /// Requests.
        request: Amounts,
        /// Constraints without volumes.
        constraints: Arc<Constraints>,
        /// Labels, as far as terms read them.
        profile: Option<ProfileId>,
        /// Volume claims.
        claims: Box<[VolumeClaimKey]>,
    },
}

/// A volume claim that one task has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VolumeClaimKey {
    /// Without names; `None` when it does not exist.
    info: Option<PvcInfo>,
    /// Whether it is ephemeral, and then whether it was made for the pod.
    made_for: Option<bool>,
    /// Where its volume can be used, by its node affinity and by its labels.
    volume: Option<(Option<Vec<NodeTerm>>, Labels)>,
    driver: Option<Arc<str>>,
}

/// A claim to devices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum DeviceClaimKey {
    /// It is not made from its template yet.
    NotMade,
    /// One that a single task has, without names; `None` when it does not exist.
    Own(Option<ClaimInfo>),
    /// One that tasks share, or that has devices.
    This(ClaimId),
}

impl Cluster {
    /// What a task asks of nodes, besides devices.
    pub fn request_key(&self, task: TaskId) -> RequestKey {
        let id = self.tasks[task].class;
        let class = &self.classes[id];
        self.own_volumes(class).map_or(RequestKey::Class(id, class.serial.0), |claims| RequestKey::Own {
            request: class.request.clone(),
            constraints: Arc::new(Constraints { volumes: Vec::new(), ..(*class.constraints).clone() }),
            profile: class.profile,
            claims,
        })
    }

    /// Whether it has volume claims that are nobody else's.
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

    /// What a task asks of devices.
    pub fn device_claim_keys(&self, task: TaskId) -> Box<[DeviceClaimKey]> {
        self.tasks[task].claims.as_ref().map_or_else(Box::default, |linked| self.devices.likes(linked))
    }

    /// Tells when something happens to a claim that only this job has.
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
