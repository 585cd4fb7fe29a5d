//! The Job controller: reconciles a Job with all that belongs to it.
//!
//! Each time it either *decides*, which is one write of the status and nothing else, or *acts* on what the status says.

mod check;
mod create;
mod decide;
mod defaults;
mod depends;
mod events;
mod group;
mod kill;
mod marker;
mod name;
mod observed;
mod pod;
mod policy;
mod requests;
mod status;
mod sync;
mod volumes;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use jiff::Timestamp;
use phalanx_api::batch::{Job, JobPhase, JobStatus};

use crate::change::{Change, Kind, Note, Object, Outcome, Target};

pub use check::check;
pub(crate) use check::too_many_pods;
pub use defaults::with_defaults;
pub(crate) use name::{hosts, index_of, partition, pod_name, task_host};
pub use observed::{Observed, SshKey};
pub use pod::{JobPod, PodPhase};
pub use status::is_finished;

/// Writes that failed in a row after which a Job is terminated, as in Volcano.
pub const FAILURES_MAX: u32 = 15;

/// Reconciles a Job.
pub fn reconcile(seen: &Observed<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    if seen.job.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let status = seen.job.status.clone().unwrap_or_default();
    let job = with_defaults(seen.job, seen.scheduler_name);
    let view = JobView { seen, job, status, now, by_task: by_task(seen.pods) };
    if let Some(problem) = check::too_many_pods(&view.job) {
        sync::leave_alone(&view, problem, &mut outcome);
        return outcome;
    }
    let begun = expire(&view, &mut outcome) || group::adopt(&view, &mut outcome);
    if !begun && !decide::decide(&view, &mut outcome) {
        if status::is_live(view.phase()) {
            sync::sync(&view, &mut outcome);
        } else {
            kill::kill(&view, &mut outcome);
        }
    }
    outcome
}

/// Pods by task, in the order of their numbers.
fn by_task(pods: &[JobPod]) -> BTreeMap<&str, Vec<&JobPod>> {
    let mut tasks: BTreeMap<&str, Vec<&JobPod>> = BTreeMap::new();
    for pod in pods {
        tasks.entry(&pod.task).or_default().push(pod);
    }
    for pods in tasks.values_mut() {
        pods.sort_by_key(|pod| pod.index);
    }
    tasks
}

/// What was observed, and the Job with its defaults.
pub(crate) struct JobView<'a> {
    pub(crate) seen: &'a Observed<'a>,
    pub(crate) job: Job,
    status: JobStatus,
    pub(crate) now: Timestamp,
    by_task: BTreeMap<&'a str, Vec<&'a JobPod>>,
}

impl<'a> JobView<'a> {
    /// The pods of a task, in the order of their numbers.
    fn pods_of(&self, task: &str) -> &[&'a JobPod] {
        self.by_task.get(task).map_or(&[], Vec::as_slice)
    }

    fn phase(&self) -> &JobPhase {
        self.status().state.phase.as_ref().unwrap_or(&JobPhase::Pending)
    }

    fn status(&self) -> &JobStatus {
        &self.status
    }

    fn target(&self) -> Target {
        Target::of(Kind::Job, &self.job.metadata)
    }

    fn note(&self, warning: bool, reason: &'static str, message: impl Into<String>) -> Change {
        Change::Note(Note { on: self.target(), warning, reason, message: message.into() })
    }

    /// The write of this status.
    fn write(&self, status: JobStatus, urgent: bool) -> Change {
        let job = Job { status: Some(status), ..self.seen.job.clone() };
        Change::Status { object: Object::Job(Box::new(job)), urgent }
    }
}

/// Deletes a Job that ended `ttlSecondsAfterFinished` ago.
fn expire(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    let ended = view.status().state.last_transition_time.as_ref().map(|time| time.0);
    let ttl = view.job.spec.ttl_seconds_after_finished;
    let (Some(ended), Some(ttl), true) = (ended, ttl, status::is_finished(view.phase())) else {
        return false;
    };
    let due = ended.saturating_add(SignedDuration::from_secs(ttl.into())).unwrap_or(Timestamp::MAX);
    if due <= view.now {
        outcome.changes.push(Change::Delete(Target { foreground: true, ..view.target() }));
        return true;
    }
    outcome.requeue_at(due);
    false
}
