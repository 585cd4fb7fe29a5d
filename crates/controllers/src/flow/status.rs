//! The status of a JobFlow.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use phalanx_api::batch::{Job, JobPhase};
use phalanx_api::flow::{
    FlowCondition, FlowJobStatus, FlowPhase, FlowState, JobFlowStatus, JobRunningHistory,
};

use super::Observed;

/// The status that the Jobs show; an invalid flow has failed.
pub(super) fn of(seen: &Observed<'_>, now: Timestamp, invalid: bool) -> JobFlowStatus {
    let before = seen.flow.status.clone().unwrap_or_default();
    let mut status = JobFlowStatus { state: before.state.clone(), ..JobFlowStatus::default() };
    status.job_status_list.clone_from(&before.job_status_list);
    let mut jobs: Vec<&Job> = seen.jobs.iter().collect();
    jobs.sort_by_key(|job| &job.metadata.name);
    for job in jobs {
        add(&mut status, job, now);
    }
    let gone =
        |one: &&FlowJobStatus| !seen.jobs.iter().any(|job| job.metadata.name.as_ref() == Some(&one.name));
    let completed = status.job_status_list.iter().filter(|one| one.state == Some(JobPhase::Completed));
    status.completed_jobs.extend(completed.filter(gone).map(|one| one.name.clone()));
    status.completed_jobs.sort();
    let phase = if invalid { FlowPhase::Failed } else { phase(seen, &status, before.state.phase.as_ref()) };
    status.state = FlowState { phase: Some(phase) };
    status
}

fn add(status: &mut JobFlowStatus, job: &Job, now: Timestamp) {
    let name = job.metadata.name.clone().unwrap_or_default();
    let of_job = job.status.clone().unwrap_or_default();
    let phase = of_job.state.phase.clone();
    let list = match &phase {
        None | Some(JobPhase::Pending) => &mut status.pending_jobs,
        Some(JobPhase::Running) => &mut status.running_jobs,
        Some(JobPhase::Failed) => &mut status.failed_jobs,
        Some(JobPhase::Completed) => &mut status.completed_jobs,
        Some(JobPhase::Terminated) => &mut status.terminated_jobs,
        Some(_) => &mut status.unknown_jobs,
    };
    list.push(name.clone());
    let created = job.metadata.creation_timestamp.clone();
    let condition = FlowCondition {
        phase: phase.clone(),
        create_timestamp: created.clone(),
        running_duration: of_job.running_duration,
        task_status_count: of_job.task_status_count,
    };
    status.conditions.insert(name.clone(), condition);
    let duration = of_job.running_duration.map(std::time::Duration::from);
    let duration = duration.and_then(|duration| SignedDuration::try_from(duration).ok());
    let ended =
        created.as_ref().zip(duration).and_then(|(created, duration)| created.0.checked_add(duration).ok());
    let at = status.job_status_list.iter().position(|one| one.name == name);
    let histories = at.map(|at| status.job_status_list[at].running_histories.clone()).unwrap_or_default();
    let one = FlowJobStatus {
        name,
        state: phase.clone(),
        start_timestamp: created,
        end_timestamp: ended.map(Time),
        restart_count: of_job.retry_count,
        running_histories: with_phase(histories, phase, now),
    };
    match at {
        Some(at) => status.job_status_list[at] = one,
        None => status.job_status_list.push(one),
    }
}

/// The phases so far, and this one.
fn with_phase(
    mut histories: Vec<JobRunningHistory>,
    phase: Option<JobPhase>,
    now: Timestamp,
) -> Vec<JobRunningHistory> {
    let last = histories.last_mut();
    if phase.is_none() || last.as_ref().is_some_and(|last| last.state == phase) {
        return histories;
    }
    if let Some(last) = last {
        last.end_timestamp = Some(Time(now));
    }
    histories.push(JobRunningHistory { start_timestamp: Some(Time(now)), end_timestamp: None, state: phase });
    histories
}

fn phase(seen: &Observed<'_>, status: &JobFlowStatus, before: Option<&FlowPhase>) -> FlowPhase {
    if !status.failed_jobs.is_empty() || !status.terminated_jobs.is_empty() {
        FlowPhase::Failed
    } else if status.completed_jobs.len() == seen.flow.spec.flows.len() {
        FlowPhase::Succeed
    } else if before == Some(&FlowPhase::Running)
        || !status.running_jobs.is_empty()
        || !status.completed_jobs.is_empty()
    {
        FlowPhase::Running
    } else {
        FlowPhase::Pending
    }
}
