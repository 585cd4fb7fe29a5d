//! Back-off of jobs whose binds the API server refused, since it will most often refuse again: one second, then two, up
//! to ten. A job in back-off holds up no other job.
use std::sync::Arc;

use super::Cluster;
use crate::diagnosis::Refusal;
use crate::event::Time;
use crate::id::{JobId, TaskId};

/// The first back-off, doubled with each further try.
const FIRST_BACKOFF_MS: i64 = 1000;
/// The longest back-off.
const LAST_BACKOFF_MS: i64 = 10_000;

/// The end of the back-off after a number of failed tries.
pub fn backoff(now: Time, tries: u8) -> Time {
    let wait = FIRST_BACKOFF_MS << tries.saturating_sub(1).min(8);
    Time(now.0.saturating_add(wait.min(LAST_BACKOFF_MS)))
}

/// A refused bind of a job that did not change since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pod: Arc<str>,
    message: Arc<str>,
    /// Number of refused attempts. Refusals of several pods in one attempt count once.
    times: u8,
    /// The end of the back-off, which the next cycle sets.
    until: Option<Time>,
}

impl Cluster {
    /// Records that the bind of a task was refused.
    pub(super) fn deny(&mut self, task: TaskId, message: Arc<str>) {
        let task = &self.tasks[task];
        let (Some(id), pod) = (task.job, task.pod.name.clone()) else { return };
        let before = self.jobs[id].denied.take();
        let (times, until) = before.map_or((0, None), |it| (it.times, it.until));
        self.jobs[id].denied = Some(Denied { pod, message, times, until });
        self.since_last_cycle.denied.push(id);
    }

    /// Ends the back-off of a job that changed or had a pod bound. True when there was one.
    pub(super) fn pardon(&mut self, job: Option<JobId>) -> bool {
        job.is_some_and(|job| self.jobs[job].denied.take().is_some())
    }

    /// Sets the back-off of jobs with binds refused since the last cycle. Returns the ends of their back-offs.
    pub fn note_denied(&mut self, now: Time) -> Vec<(JobId, Time)> {
        let mut ends = Vec::new();
        for id in std::mem::take(&mut self.since_last_cycle.denied) {
            let Some(denied) = self.jobs.get_mut(id).and_then(|job| job.denied.as_mut()) else { continue };
            // Several pods of one attempt are refused one after the other.
            if denied.until.is_none_or(|until| until <= now) {
                denied.times = denied.times.saturating_add(1);
            }
            let until = backoff(now, denied.times);
            denied.until = Some(until);
            ends.push((id, until));
        }
        ends
    }

    /// The end of a job's back-off, if it is in one.
    pub fn denied_until(&self, job: JobId, now: Time) -> Option<Time> {
        self.jobs[job].denied.as_ref()?.until.filter(|until| *until > now)
    }

    /// Why a job is in back-off, if it is.
    pub fn denial(&self, job: JobId, now: Time) -> Option<Refusal> {
        self.denied_until(job, now)?;
        let Denied { pod, message, .. } = self.jobs[job].denied.clone()?;
        Some(Refusal::BindDenied { pod, message })
    }
}
