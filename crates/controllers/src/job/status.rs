//! Counts, phases and the transitions between them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Duration;
use phalanx_api::batch::{Job, JobCondition, JobPhase, JobSpec, JobStatus, TaskState};

use super::marker::is_discarded;
use super::{JobPod, PodPhase};

/// Pods are made and kept in this phase.
pub(crate) fn is_live(phase: &JobPhase) -> bool {
    matches!(phase, JobPhase::Pending | JobPhase::Running | JobPhase::Restarting | JobPhase::Other(_))
}

/// The job has ended, for the TTL, CronJobs and flows.
pub fn is_finished(phase: &JobPhase) -> bool {
    matches!(phase, JobPhase::Completed | JobPhase::Failed | JobPhase::Terminated)
}

/// Whether a Job that lives has no such pod, or no longer: the pod is to be deleted.
pub(crate) fn is_surplus(spec: &JobSpec, status: &JobStatus, pod: &JobPod) -> bool {
    let live = status.state.phase.as_ref().is_none_or(is_live);
    let task = spec.tasks.iter().find(|task| task.name == pod.task);
    live && task.is_none_or(|task| !(0..task.replicas).contains(&pod.index))
}

/// Counts the pods into the status: discarded and surplus ones as terminating.
pub(crate) fn count(status: &mut JobStatus, spec: &JobSpec, pods: &[JobPod]) {
    let mut counts: BTreeMap<PodPhase, i32> = BTreeMap::new();
    let mut tasks: BTreeMap<String, TaskState> = BTreeMap::new();
    status.terminating = 0;
    for pod in pods {
        if pod.is_terminating() || is_discarded(status, pod) || is_surplus(spec, status, pod) {
            status.terminating += 1;
            continue;
        }
        *counts.entry(pod.phase).or_default() += 1;
        *tasks
            .entry(pod.task.clone())
            .or_default()
            .phase
            .entry(pod.phase.as_str().to_owned())
            .or_default() += 1;
    }
    let of = |phase| counts.get(&phase).copied().unwrap_or(0);
    status.pending = of(PodPhase::Pending);
    status.running = of(PodPhase::Running);
    status.succeeded = of(PodPhase::Succeeded);
    status.failed = of(PodPhase::Failed);
    status.unknown = of(PodPhase::Unknown);
    status.task_status_count = tasks;
}

/// Enters a phase.
pub(crate) fn enter(status: &mut JobStatus, phase: JobPhase, job: &Job, now: Timestamp) {
    let time = Time(now);
    status.conditions.retain(|condition| condition.status != phase);
    status.conditions.push(JobCondition { status: phase.clone(), last_transition_time: Some(time.clone()) });
    if !is_live(&phase) {
        let created = job.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
        let seconds = u64::try_from(now.as_second() - created.as_second()).unwrap_or(0);
        status.running_duration = Some(Duration::from(std::time::Duration::from_secs(seconds)));
    }
    status.state.phase = Some(phase);
    status.state.last_transition_time = Some(time);
}

/// The phase that the counts lead to, if it is another one.
pub(crate) fn transition(spec: &JobSpec, status: &JobStatus, phase: &JobPhase) -> Option<JobPhase> {
    match phase {
        JobPhase::Pending => {
            let started = status.running + status.succeeded + status.failed;
            (replicas(spec) > 0 && started >= spec.min_available).then_some(JobPhase::Running)
        }
        JobPhase::Running => running(spec, status),
        JobPhase::Restarting => restarting(spec, status),
        JobPhase::Aborting => gone(status).then_some(JobPhase::Aborted),
        JobPhase::Completing => gone(status).then_some(JobPhase::Completed),
        JobPhase::Terminating => gone(status).then_some(JobPhase::Terminated),
        JobPhase::Aborted | JobPhase::Completed | JobPhase::Terminated | JobPhase::Failed => None,
        // A phase of another version: the job starts over with the pods that are there.
        JobPhase::Other(_) => Some(JobPhase::Pending),
    }
}

fn gone(status: &JobStatus) -> bool {
    status.terminating == 0 && status.pending == 0 && status.running == 0 && status.unknown == 0
}

pub(crate) fn replicas(spec: &JobSpec) -> i32 {
    spec.tasks.iter().map(|task| task.replicas).sum()
}

/// A job scaled down to nothing stays as it is.
fn running(spec: &JobSpec, status: &JobStatus) -> Option<JobPhase> {
    let all = replicas(spec);
    if all == 0 {
        None
    } else if spec.min_success.is_some_and(|min| status.succeeded >= min) {
        Some(JobPhase::Completed)
    } else if status.succeeded + status.failed >= all {
        Some(if shortfall(spec, status).is_some() { JobPhase::Failed } else { JobPhase::Completed })
    } else {
        (status.pending > all - spec.min_available).then_some(JobPhase::Pending)
    }
}

/// Why a job in this phase fails, if it does.
pub(crate) fn failure(spec: &JobSpec, status: &JobStatus, phase: &JobPhase) -> Option<String> {
    match phase {
        JobPhase::Running => shortfall(spec, status),
        JobPhase::Restarting => {
            (status.retry_count >= spec.max_retry).then(|| format!("maxRetry {} used up", spec.max_retry))
        }
        _ => None,
    }
}

/// What a job all of whose pods have ended did not reach.
fn shortfall(spec: &JobSpec, status: &JobStatus) -> Option<String> {
    let (succeeded, failed) = (status.succeeded, status.failed);
    if let Some(min) = spec.min_success {
        (succeeded < min).then(|| format!("minSuccess {min} not reached: {succeeded} succeeded"))
    } else if succeeded < spec.min_available {
        let min = spec.min_available;
        Some(format!("minAvailable {min} not reached: {succeeded} succeeded, {failed} failed"))
    } else {
        task_shortfall(spec, status)
    }
}

/// The minimum of a task that was not reached, where the job needs all that its tasks need.
fn task_shortfall(spec: &JobSpec, status: &JobStatus) -> Option<String> {
    let minimum: i32 = spec.tasks.iter().filter_map(|task| task.min_available).sum();
    let mut tasks = spec.tasks.iter().filter(|_| spec.min_available >= minimum);
    tasks.find_map(|task| {
        let (name, min) = (&task.name, task.min_available.unwrap_or(0));
        let counts = &status.task_status_count.get(name)?.phase;
        let count = |phase: &str| counts.get(phase).copied().unwrap_or(0);
        let (succeeded, failed) = (count("Succeeded"), count("Failed"));
        (succeeded < min).then(|| {
            format!("minAvailable {min} of task {name} not reached: {succeeded} succeeded, {failed} failed")
        })
    })
}

fn restarting(spec: &JobSpec, status: &JobStatus) -> Option<JobPhase> {
    if failure(spec, status, &JobPhase::Restarting).is_some() {
        return Some(JobPhase::Failed);
    }
    (replicas(spec) - status.terminating >= spec.min_available).then_some(JobPhase::Pending)
}
