//! The Job controller: one look at a Job and all that belongs to it.
//!
//! A look either *decides*, which is one write of the status and nothing else, or *acts* on what the status says.

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

use jiff::Timestamp;
use jiff::ToSpan as _;
use phalanx_api::batch::{Job, JobPhase, JobStatus};

use crate::change::{Change, Kind, Note, Object, Outcome, Target};

pub use check::check;
pub use defaults::with_defaults;
pub(crate) use name::{hosts, pod_name, task_host};
pub use observed::{Observed, SshKey};
pub use pod::{JobPod, PodPhase};
pub(crate) use status::is_finished;

/// Writes that failed in a row after which a Job is terminated, as in Volcano.
pub const FAILURES_MAX: u32 = 15;

/// Looks at a Job.
pub fn reconcile(seen: &Observed<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    if seen.job.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let look = Look { seen, job: with_defaults(seen.job, seen.scheduler_name), now };
    if !expire(&look, &mut outcome) && !decide::decide(&look, &mut outcome) {
        if status::is_live(look.phase()) {
            sync::sync(&look, &mut outcome);
        } else {
            kill::kill(&look, &mut outcome);
        }
    }
    outcome
}

/// One look: what was observed, and the Job with its defaults.
pub(crate) struct Look<'a> {
    pub(crate) seen: &'a Observed<'a>,
    pub(crate) job: Job,
    pub(crate) now: Timestamp,
}

impl Look<'_> {
    fn phase(&self) -> &JobPhase {
        self.status().state.phase.as_ref().unwrap_or(&JobPhase::Pending)
    }

    fn status(&self) -> &JobStatus {
        const NONE: &JobStatus = &JobStatus {
            state: phalanx_api::batch::JobState {
                phase: None,
                reason: String::new(),
                message: String::new(),
                last_transition_time: None,
            },
            min_available: 0,
            task_status_count: std::collections::BTreeMap::new(),
            pending: 0,
            running: 0,
            succeeded: 0,
            failed: 0,
            terminating: 0,
            unknown: 0,
            version: 0,
            retry_count: 0,
            running_duration: None,
            controlled_resources: std::collections::BTreeMap::new(),
            conditions: Vec::new(),
        };
        self.job.status.as_ref().unwrap_or(NONE)
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
fn expire(look: &Look<'_>, outcome: &mut Outcome) -> bool {
    let ended = look.status().state.last_transition_time.as_ref().map(|time| time.0);
    let ttl = look.job.spec.ttl_seconds_after_finished;
    let (Some(ended), Some(ttl), true) = (ended, ttl, status::is_finished(look.phase())) else {
        return false;
    };
    let due = ended.saturating_add(i64::from(ttl).seconds()).unwrap_or(Timestamp::MAX);
    if due <= look.now {
        outcome.changes.push(Change::Delete(Target { foreground: true, ..look.target() }));
        return true;
    }
    outcome.look_at(due);
    false
}
