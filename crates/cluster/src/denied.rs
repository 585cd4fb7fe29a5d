//! Back-off of jobs whose binds the API server refused, since it will most often refuse again. A job in back-off holds up
//! no other job.
use std::sync::Arc;

use super::Cluster;
use super::backoff::Backoff;
use crate::diagnosis::Refusal;
use crate::event::Time;
use crate::id::{JobId, TaskId};

/// A refused bind of a job that did not change since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pod: Arc<str>,
    message: Arc<str>,
    /// The back-off, which the next cycle sets.
    backoff: Backoff,
}

impl Cluster {
    /// Records that the bind of a task was refused.
    pub(super) fn deny(&mut self, task: TaskId, message: Arc<str>) {
        let task = &self.tasks[task];
        let (Some(id), pod) = (task.job, task.pod.name.clone()) else { return };
        let backoff = self.jobs[id].denied.take().map(|before| before.backoff).unwrap_or_default();
        self.jobs[id].denied = Some(Denied { pod, message, backoff });
        self.since_last_cycle.denied.push(id);
    }

    /// Ends the back-off of a job that changed or had a pod bound. True when there was one.
    pub(super) fn end_denial(&mut self, job: Option<JobId>) -> bool {
        job.is_some_and(|job| self.jobs[job].denied.take().is_some())
    }

    /// Sets the back-off of jobs with binds refused since the last cycle. Returns the ends of their back-offs.
    pub fn note_denied(&mut self, now: Time) -> Vec<(JobId, Time)> {
        let mut ends = Vec::new();
        for id in std::mem::take(&mut self.since_last_cycle.denied) {
            let Some(denied) = self.jobs.get_mut(id).and_then(|job| job.denied.as_mut()) else { continue };
            // Several pods of one attempt are refused one after the other.
            if denied.backoff.until(now).is_none() {
                denied.backoff = denied.backoff.after_failure(now);
            }
            ends.extend(denied.backoff.until(now).map(|until| (id, until)));
        }
        ends
    }

    /// The end of a job's back-off, if it is in one.
    pub fn denied_until(&self, job: JobId, now: Time) -> Option<Time> {
        self.jobs[job].denied.as_ref()?.backoff.until(now)
    }

    /// Why a job is in back-off, if it is.
    pub fn denial(&self, job: JobId, now: Time) -> Option<Refusal> {
        self.denied_until(job, now)?;
        let Denied { pod, message, .. } = self.jobs[job].denied.clone()?;
        Some(Refusal::BindDenied { pod, message })
    }
}
