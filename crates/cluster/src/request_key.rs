//! Keys of requests, equal for pods that differ only in the names of their own claims.
//!
//! Claims are part of a pod's class, and each pod of a StatefulSet or with ephemeral volumes has its own. As long as
//! one pod uses a claim that is not bound, only the spec of the claim counts, so jobs that differ in the names of such
//! claims get the same refusals. When such a claim changes, its job is taken out of its equivalence class.
use std::sync::Arc;

use super::{Class, Cluster};
use crate::event::{ClaimInfo, Constraints, Key, PvcInfo};
use crate::fingerprint::Fingerprint;
use crate::id::{AnyClaimId, ClassId, JobId, TaskId};

/// What the filters for a task depend on, besides devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKey {
    /// The class, and its serial number, which tells it from an earlier class of the same id.
    Class(ClassId, u64),
    /// A class with volume claims that only the task uses, without their names.
    Own(Fingerprint),
}

impl Cluster {
    /// The key of what a task requests, besides devices.
    pub fn request_key(&self, task: TaskId) -> RequestKey {
        let id = self.tasks[task].class;
        let class = &self.classes[id];
        let Some(claims) = self.own_volumes(class) else { return RequestKey::Class(id, class.serial.0) };
        let constraints = Constraints { volumes: Vec::new(), ..(*class.constraints).clone() };
        RequestKey::Own(Fingerprint::of((
            &class.request,
            constraints,
            class.profile,
            &class.unoffered,
            claims,
        )))
    }

    /// Whether a task has volume claims that no other task uses.
    pub fn volumes_are_own(&self, task: TaskId) -> bool {
        self.own_volumes(self.class_of(task)).is_some()
    }

    fn own_volumes(&self, class: &Class) -> Option<Vec<Fingerprint>> {
        if class.pvcs.is_empty() || class.refs > 1 {
            return None;
        }
        let named = class.pvcs.iter().zip(&class.constraints.volumes);
        named.map(|(id, named)| self.volumes.own_claim_key(*id, named.owner.as_ref())).collect()
    }

    /// The key of a task's ResourceClaims; `None` without any.
    pub fn device_claims_key(&self, task: TaskId) -> Option<Fingerprint> {
        self.tasks[task].claims.as_ref().map(|linked| self.devices.claims_key(linked))
    }

    /// The claims of a job that no pod of another class, or no other pod, uses.
    pub fn own_claims(&self, job: JobId) -> impl Iterator<Item = AnyClaimId> {
        let tasks = self.jobs[job].tasks.iter().map(|task| &self.tasks[*task]);
        tasks.flat_map(|task| {
            let volumes = self.classes[task.class].pvcs.iter().copied();
            let devices = task.claims.iter().flat_map(|linked| linked.ids()).copied();
            let volumes = volumes.filter(|id| self.volumes.is_own(*id)).map(AnyClaimId::Volume);
            volumes.chain(devices.filter(|id| self.devices.is_own(*id)).map(AnyClaimId::Device))
        })
    }
}

/// A PersistentVolumeClaim without names.
pub(super) fn unnamed_pvc(info: &PvcInfo) -> PvcInfo {
    PvcInfo {
        key: Key::default(),
        uid: Arc::default(),
        owner: None,
        volume: info.volume.as_ref().map(|_| Arc::default()),
        ..info.clone()
    }
}

/// A ResourceClaim without names.
pub(super) fn unnamed_claim(info: &ClaimInfo) -> ClaimInfo {
    ClaimInfo { key: Key::default(), uid: Arc::default(), reserved: Vec::new(), ..info.clone() }
}
