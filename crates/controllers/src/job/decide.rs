//! Decisions: one write of the status each. See `crates/design/controllers.md`.

use jiff::{SignedDuration, Timestamp};
use phalanx_api::batch::{JobPhase, JobStatus};
use phalanx_api::bus::{Action, Command, Event};

use super::events::{Happened, happened};
use super::marker::{self, Scope, is_discarded};
use super::policy::{Answer, answer};
use super::status::{count, enter, is_live, is_surplus};
use super::{FAILURES_MAX, JobView, index_of, partition};
use crate::change::{Change, Kind, Outcome, Target};
use crate::meta::text;
use crate::plugin;

/// Decides what is to be decided. Where something was decided, nothing else is done.
pub(crate) fn decide(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    first(view, outcome)
        || give_up(view, outcome)
        || command(view, outcome)
        || policies(view, outcome)
        || scale_down(view, outcome)
}

/// The first status of a job.
fn first(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    if view.status().state.phase.is_some() {
        return false;
    }
    let mut status = view.status().clone();
    status.min_available = view.job.spec.min_available;
    enter(&mut status, JobPhase::Pending, &view.job, view.now);
    let problems = plugin::problems(&view.job);
    outcome.changes.extend(problems.map(|problem| view.note(true, "PluginError", problem)));
    outcome.changes.push(view.write(status, true));
    true
}

/// A job for which nothing can be written is terminated.
fn give_up(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    if view.seen.failures < FAILURES_MAX || !is_live(view.phase()) {
        return false;
    }
    let message = "terminated since its objects could not be written";
    outcome.changes.push(view.note(true, "ExecuteAction", message));
    outcome.changes.push(view.write(decided(view, &Action::TerminateJob, &[]), true));
    true
}

/// The first Command that was not carried out yet. Those that were are deleted.
fn command(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    for command in view.seen.commands {
        let (name, uid) = (text(command.metadata.name.as_ref()), text(command.metadata.uid.as_ref()));
        let action = Action::from(command.action.clone());
        if marker::is_carried_out(view.status(), name, uid) {
            outcome.changes.push(delete(command));
        } else if is_for_jobs(&action) && phase_after(view.phase(), &action).is_some() {
            let mut status = decided(view, &action, &[Scope::Job]);
            marker::carried_out(&mut status, name, uid);
            outcome.changes.push(view.note(false, "CommandIssued", format!("Command {name}: {action}")));
            outcome.changes.push(view.write(status, true));
            return true;
        } else {
            let message = format!("Command {name}: {action} has no effect on a job that is {}", view.phase());
            outcome.changes.push(view.note(true, "CommandIssued", message));
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

fn policies(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    let used_up = view.status().retry_count >= view.job.spec.max_retry;
    if !is_live(view.phase()) || (used_up && *view.phase() == JobPhase::Restarting) {
        return false;
    }
    let (wanted, remembered) = wanted(view, outcome);
    let whole = wanted.iter().find(|one| one.scope == Scope::Job);
    let chosen: Vec<&Wanted> = whole.map_or_else(|| wanted.iter().collect(), |one| vec![one]);
    if let Some(one) = chosen.first() {
        let scopes: Vec<Scope> = chosen.iter().map(|one| one.scope.clone()).collect();
        outcome.changes.push(view.note(false, "ExecuteAction", format!("{}: {}", one.action, one.cause)));
        outcome.changes.push(view.write(decided(view, &one.action, &scopes), true));
    } else if let Some(status) = remembered {
        outcome.changes.push(view.write(status, true));
    }
    outcome.changes.iter().any(|change| matches!(change, Change::Status { .. }))
}

/// What policies want now; and the status with the evictions to be remembered, if there are new ones.
fn wanted(view: &JobView<'_>, outcome: &mut Outcome) -> (Vec<Wanted>, Option<JobStatus>) {
    let (mut wanted, mut remembered) = (Vec::new(), None);
    for one in happened(view) {
        let answer = answer(&view.job.spec, &one);
        let acts = |answer: &Answer| phase_after(view.phase(), &answer.action).is_some();
        let Some(answer) = answer.filter(acts) else { continue };
        let Some(scope) = scope(&answer.action, &one) else { continue };
        let due = answer.after.map(|after| later(one.at.unwrap_or(view.now), after));
        match due.filter(|due| *due > view.now) {
            None => wanted.push(Wanted { action: answer.action, scope, cause: cause(&one) }),
            Some(due) => {
                outcome.requeue_at(due);
                let known = marker::evictions(view.status()).any(|(pod, _)| Some(pod) == one.pod.as_deref());
                if let (Event::PodEvicted, Some(pod), false) = (&one.event, &one.pod, known) {
                    let status = remembered.get_or_insert_with(|| view.status().clone());
                    marker::evicted(status, pod, one.at.unwrap_or(view.now));
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
    let code = happened.exit_code.map_or_else(String::new, |code| format!(" (exit code {code})"));
    format!("{}{of}{code}", happened.event)
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

/// A scale-down is in the status before its pods are deleted: if the Job is scaled up again, they do not count as
/// evicted.
fn scale_down(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    let (spec, mut status) = (&view.job.spec, view.status().clone());
    for task in &spec.tasks {
        if view
            .pods_of(&task.name)
            .iter()
            .any(|pod| !pod.is_terminating() && is_surplus(spec, view.status(), pod))
        {
            marker::scaled_down(&mut status, &task.name, task.replicas);
        }
    }
    let decides = is_live(view.phase()) && status != *view.status();
    if decides {
        count(&mut status, spec, view.seen.pods);
        outcome.changes.push(view.write(status, true));
    }
    decides
}

/// The status that says what was decided.
fn decided(view: &JobView<'_>, action: &Action, scopes: &[Scope]) -> JobStatus {
    let mut status = view.status().clone();
    let Some(phase) = phase_after(view.phase(), action) else { return status };
    let restarts = phase == JobPhase::Restarting;
    if restarts && !is_under_way(view, scopes) {
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
    if *action == Action::RestartJob && status.retry_count < view.job.spec.max_retry {
        let retry = status.retry_count;
        marker::restart(&mut status, &Scope::Job, retry);
    }
    marker::forget_evictions(&mut status, |pod| scopes.iter().any(|scope| restarts_pod(view, scope, pod)));
    if status.state.phase.as_ref() != Some(&phase) {
        enter(&mut status, phase, &view.job, view.now);
    }
    status.state.reason = action.to_string();
    status.state.message = String::new();
    count(&mut status, &view.job.spec, view.seen.pods);
    status
}

/// Whether a pod that is gone is of a scope, by its name.
fn restarts_pod(view: &JobView<'_>, scope: &Scope, pod: &str) -> bool {
    let of_task = |name: &str| {
        let task = view.job.spec.tasks.iter().find(|task| task.name == name)?;
        Some((task, index_of(&view.job, task, pod)?))
    };
    match scope {
        Scope::Job => true,
        Scope::Pod(name) => pod == name,
        Scope::Task(task) => of_task(task).is_some(),
        Scope::Partition(task, number) => {
            of_task(task).and_then(|(task, index)| partition(task, index)).as_ref() == Some(number)
        }
    }
}

/// The restart that counts already: all pods of these scopes that are left are from before it.
fn is_under_way(view: &JobView<'_>, scopes: &[Scope]) -> bool {
    let status = view.status();
    let mut pods = view
        .seen
        .pods
        .iter()
        .filter(|pod| scopes.iter().any(|scope| scope.has(pod)) && !is_discarded(status, pod));
    *view.phase() == JobPhase::Restarting
        && pods.clone().next().is_some()
        && pods.all(|pod| pod.retry < status.retry_count)
}
