//! Decisions: one write of the status each. See `crates/design/controllers.md`.

use jiff::{SignedDuration, Timestamp};
use phalanx_api::batch::{JobPhase, JobStatus};
use phalanx_api::bus::{Action, Command, Event};

use super::events::{Happened, happened};
use super::marker::{self, Scope, is_discarded};
use super::policy::answer;
use super::status::{count, enter, is_live};
use super::{FAILURES_MAX, Look};
use crate::change::{Change, Kind, Outcome, Target};
use crate::meta::text;

/// Decides what is to be decided. Nothing else is done in a look that did.
pub(crate) fn decide(look: &Look<'_>, outcome: &mut Outcome) -> bool {
    first(look, outcome) || give_up(look, outcome) || command(look, outcome) || policies(look, outcome)
}

/// The first status of a job.
fn first(look: &Look<'_>, outcome: &mut Outcome) -> bool {
    if look.status().state.phase.is_some() {
        return false;
    }
    let mut status = look.status().clone();
    status.min_available = look.job.spec.min_available;
    enter(&mut status, JobPhase::Pending, &look.job, look.now);
    outcome.changes.push(look.write(status, true));
    true
}

/// A job for which nothing can be written is terminated.
fn give_up(look: &Look<'_>, outcome: &mut Outcome) -> bool {
    if look.seen.failures < FAILURES_MAX || !is_live(look.phase()) {
        return false;
    }
    let message = "terminated since its objects could not be written";
    outcome.changes.push(look.note(true, "ExecuteAction", message));
    outcome.changes.push(look.write(decided(look, &Action::TerminateJob, &[]), true));
    true
}

/// The first Command that was not carried out yet. Those that were are deleted.
fn command(look: &Look<'_>, outcome: &mut Outcome) -> bool {
    for command in look.seen.commands {
        let (name, uid) = (text(command.metadata.name.as_ref()), text(command.metadata.uid.as_ref()));
        let action = Action::from(command.action.clone());
        if marker::is_carried_out(look.status(), name, uid) {
            outcome.changes.push(delete(command));
        } else if is_for_jobs(&action) && phase_after(look.phase(), &action).is_some() {
            let mut status = decided(look, &action, &[Scope::Job]);
            marker::carried_out(&mut status, name, uid);
            outcome.changes.push(look.note(false, "CommandIssued", format!("Command {name}: {action}")));
            outcome.changes.push(look.write(status, true));
            return true;
        } else {
            let message = format!("Command {name}: {action} has no effect on a job that is {}", look.phase());
            outcome.changes.push(look.note(true, "CommandIssued", message));
            outcome.changes.push(delete(command));
        }
    }
    false
}

fn delete(command: &Command) -> Change {
    Change::Delete(Target::of(Kind::Command, &command.metadata))
}

fn is_for_jobs(action: &Action) -> bool {
    matches!(
        action,
        Action::AbortJob
            | Action::ResumeJob
            | Action::RestartJob
            | Action::CompleteJob
            | Action::TerminateJob
    )
}

/// An action that a policy wants now.
struct Wanted {
    action: Action,
    scope: Scope,
    cause: String,
}

fn policies(look: &Look<'_>, outcome: &mut Outcome) -> bool {
    let used_up = look.status().retry_count >= look.job.spec.max_retry;
    if !is_live(look.phase()) || (used_up && *look.phase() == JobPhase::Restarting) {
        return false;
    }
    let (wanted, remembered) = wanted(look, outcome);
    let whole = wanted.iter().find(|one| one.scope == Scope::Job);
    let chosen: Vec<&Wanted> = whole.map_or_else(|| wanted.iter().collect(), |one| vec![one]);
    if let Some(one) = chosen.first() {
        let scopes: Vec<Scope> = chosen.iter().map(|one| one.scope.clone()).collect();
        outcome.changes.push(look.note(false, "ExecuteAction", format!("{}: {}", one.action, one.cause)));
        outcome.changes.push(look.write(decided(look, &one.action, &scopes), true));
    } else if let Some(status) = remembered {
        outcome.changes.push(look.write(status, true));
    }
    outcome.changes.iter().any(|change| matches!(change, Change::Status { .. }))
}

/// What policies want now; and the status with the evictions to be remembered, if there are new ones.
fn wanted(look: &Look<'_>, outcome: &mut Outcome) -> (Vec<Wanted>, Option<JobStatus>) {
    let (mut wanted, mut remembered) = (Vec::new(), None);
    for one in happened(look) {
        let Some(answer) = answer(&look.job.spec, &one) else { continue };
        let Some(scope) = scope(&answer.action, &one) else { continue };
        let due = answer.after.map(|after| later(one.at.unwrap_or(look.now), after));
        match due.filter(|due| *due > look.now) {
            None => wanted.push(Wanted { action: answer.action, scope, cause: cause(&one) }),
            Some(due) => {
                outcome.look_at(due);
                let known = marker::evictions(look.status()).any(|(pod, _)| Some(pod) == one.pod.as_deref());
                if let (Event::PodEvicted, Some(pod), false) = (&one.event, &one.pod, known) {
                    let status = remembered.get_or_insert_with(|| look.status().clone());
                    marker::evicted(status, pod, one.at.unwrap_or(look.now));
                }
            }
        }
    }
    (wanted, remembered)
}

fn later(at: Timestamp, after: std::time::Duration) -> Timestamp {
    let after = SignedDuration::try_from(after).unwrap_or(SignedDuration::MAX);
    at.checked_add(after).unwrap_or(Timestamp::MAX)
}

/// What an action is for; nothing where the event has no task, pod or partition for it.
fn scope(action: &Action, happened: &Happened<'_>) -> Option<Scope> {
    let task = happened.task.map(|task| task.name.clone());
    match action {
        Action::RestartTask => Some(Scope::Task(task?)),
        Action::RestartPod => Some(Scope::Pod(happened.pod.clone()?)),
        Action::RestartPartition => Some(Scope::Partition(task?, happened.partition.clone()?)),
        action if is_for_jobs(action) => Some(Scope::Job),
        _ => None,
    }
}

fn cause(happened: &Happened<'_>) -> String {
    let of = happened.pod.as_ref().map_or_else(String::new, |pod| format!(" of {pod}"));
    format!("{}{of}", happened.event)
}

/// The phase to which an action leads; nothing where it has no effect.
///
/// A job that restarts can be aborted, completed and terminated; Volcano forgets such a Command.
pub(crate) fn phase_after(phase: &JobPhase, action: &Action) -> Option<JobPhase> {
    match (phase, action) {
        (JobPhase::Aborting | JobPhase::Aborted, Action::ResumeJob) => Some(JobPhase::Restarting),
        (phase, action) if is_live(phase) => match action {
            Action::RestartJob | Action::RestartTask | Action::RestartPod | Action::RestartPartition => {
                Some(JobPhase::Restarting)
            }
            Action::AbortJob => Some(JobPhase::Aborting),
            Action::CompleteJob => Some(JobPhase::Completing),
            Action::TerminateJob => Some(JobPhase::Terminating),
            _ => None,
        },
        _ => None,
    }
}

/// The status that says what was decided.
fn decided(look: &Look<'_>, action: &Action, scopes: &[Scope]) -> JobStatus {
    let mut status = look.status().clone();
    let Some(phase) = phase_after(look.phase(), action) else { return status };
    let restarts = phase == JobPhase::Restarting;
    if restarts && !is_under_way(look, scopes) {
        status.retry_count += 1;
    }
    match action {
        Action::RestartTask | Action::RestartPod | Action::RestartPartition => {
            let retry = status.retry_count;
            for scope in scopes {
                marker::restart(&mut status, scope, retry);
            }
        }
        _ => status.version += 1,
    }
    // Pods that ended stay after the last retry, for those who look for the cause.
    if *action == Action::RestartJob && status.retry_count < look.job.spec.max_retry {
        let retry = status.retry_count;
        marker::restart(&mut status, &Scope::Job, retry);
    }
    marker::forget_evictions(&mut status, |pod| {
        scopes.iter().any(|scope| match scope {
            Scope::Job => true,
            Scope::Pod(name) => pod == name,
            // Their pods are told by the task in the name.
            Scope::Task(task) | Scope::Partition(task, _) => pod.contains(&format!("-{task}-")),
        })
    });
    if status.state.phase.as_ref() != Some(&phase) {
        enter(&mut status, phase, &look.job, look.now);
    }
    status.state.reason = action.to_string();
    status.state.message = String::new();
    count(&mut status, look.seen.pods);
    status
}

/// The restart that counts already: all pods of these scopes that are left are from before it.
fn is_under_way(look: &Look<'_>, scopes: &[Scope]) -> bool {
    let status = look.status();
    let mut pods = look
        .seen
        .pods
        .iter()
        .filter(|pod| scopes.iter().any(|scope| scope.has(pod)) && !is_discarded(status, pod));
    *look.phase() == JobPhase::Restarting
        && pods.clone().next().is_some()
        && pods.all(|pod| pod.retry < status.retry_count)
}
