//! Pods that a PodGroup controller is about to put into a PodGroup: Volcano's does so with each pod of its schedulers
//! that has no group annotation. Until then such a pod looks like a gang of one, so it waits, for a while at most.
use super::{Cluster, JobKind};
use crate::diagnosis::Refusal;
use crate::event::Time;
use crate::id::JobId;

/// Whether pods without a PodGroup wait for a PodGroup controller, and until how many milliseconds after their
/// creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupWait {
    /// They do not wait.
    #[default]
    Never,
    /// They wait once a PodGroup was seen that such a controller made.
    IfSeen(i64),
    /// They wait in any case.
    Always(i64),
}

impl Cluster {
    /// A PodGroup was seen that a PodGroup controller made. The controller counts as being at work from then on: it
    /// deletes PodGroups of owners without pods, so that there is none now says nothing.
    pub(super) fn see_group_controller(&mut self) {
        if !std::mem::replace(&mut self.group_controller, true) {
            self.all_jobs_changed();
        }
    }

    /// How long pods wait for a PodGroup controller, in milliseconds from their creation.
    fn group_wait(&self) -> Option<i64> {
        match self.options.group_wait {
            GroupWait::Never => None,
            GroupWait::IfSeen(wait) => self.group_controller.then_some(wait),
            GroupWait::Always(wait) => Some(wait),
        }
    }

    /// Until when a job waits for a PodGroup controller, if it does.
    pub fn awaits_group_until(&self, id: JobId, now: Time) -> Option<Time> {
        let job = &self.jobs[id];
        let until = Time(job.created.0.saturating_add(self.group_wait()?));
        (job.kind == JobKind::Solo && job.waiting() > 0 && until > now).then_some(until)
    }

    /// Why a job waits for a PodGroup controller, if it does.
    pub fn awaits_group(&self, id: JobId, now: Time) -> Option<Refusal> {
        self.awaits_group_until(id, now)?;
        Some(Refusal::AwaitsPodGroup { wait: self.group_wait()? })
    }
}
