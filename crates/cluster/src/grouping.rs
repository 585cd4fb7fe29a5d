//! Pods that wait for a PodGroup controller. Volcano's makes a PodGroup for each pod of its schedulers without group
//! annotation; until then such a pod looks like a gang of one.
use std::sync::Arc;

use super::{Cluster, JobKind};
use crate::cluster::OtherProcesses;
use crate::diagnosis::{Refusal, no_pod_group};
use crate::event::Time;
use crate::id::JobId;

/// Whether pods without a PodGroup wait for a PodGroup controller, and for how many milliseconds from their creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum GroupWait {
    /// They do not wait.
    #[default]
    Never,
    /// They wait once such a controller was seen at work, or a PodGroup that it made in their namespace.
    IfSeen(i64),
    /// They wait in any case.
    Always(i64),
}

impl Cluster {
    /// Records that a PodGroup controller was seen. It counts as running from then on. Returns whether that is new.
    pub(super) fn see_group_controller(&mut self) -> bool {
        let new = !std::mem::replace(&mut self.others.group_controller, true);
        if new {
            self.all_jobs_changed();
        }
        new
    }

    /// Records a PodGroup that a PodGroup controller made. The controller counts as running for pods of this namespace
    /// from then on, though it may delete all its PodGroups.
    pub(super) fn see_made_group(&mut self, namespace: &Arc<str>) {
        if self.others.namespaces_with_made_groups.insert(namespace.clone()) {
            self.all_jobs_changed();
        }
    }

    /// How long a pod waits for a PodGroup controller, in milliseconds from its creation.
    fn group_wait(&self, id: JobId) -> Option<i64> {
        let seen = || {
            let OtherProcesses { group_controller, namespaces_with_made_groups, .. } = &self.others;
            *group_controller || namespaces_with_made_groups.contains(&self.jobs[id].key.namespace)
        };
        match self.options.group_wait {
            GroupWait::Never => None,
            GroupWait::IfSeen(wait) => seen().then_some(wait),
            GroupWait::Always(wait) => Some(wait),
        }
    }

    /// Until when a job waits for a PodGroup controller, if it does; [`Time::NEVER`] where nothing else ends its wait.
    pub fn awaits_group_until(&self, id: JobId, now: Time) -> Option<Time> {
        let job = &self.jobs[id];
        let until = Time(job.created.0.saturating_add(self.group_wait(id)?));
        (job.kind == JobKind::Solo && job.waiting() > 0 && until > now).then_some(until)
    }

    /// What a pod without a PodGroup is told when it starts, if it waited for a PodGroup controller.
    pub fn group_that_never_came(&self, id: JobId) -> Option<String> {
        let wait = self.group_wait(id).filter(|wait| *wait > 0)?;
        (self.jobs[id].kind == JobKind::Solo).then(|| no_pod_group(wait))
    }

    /// Why a job waits for a PodGroup controller, if it does.
    pub fn awaits_group(&self, id: JobId, now: Time) -> Option<Refusal> {
        self.awaits_group_until(id, now)?;
        Some(Refusal::AwaitsPodGroup { wait: self.group_wait(id)? })
    }
}
