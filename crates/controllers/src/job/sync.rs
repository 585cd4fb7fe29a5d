//! A Job that lives: what is missing is made, what is too much is deleted, the pods are counted.

use std::collections::BTreeSet;

use phalanx_api::batch::{JobPhase, JobStatus, TaskSpec};

use super::marker::{self, is_discarded};
use super::status::{count, enter, failure, is_surplus, transition};
use super::{JobPod, JobView, PodPhase, check, create, depends, group, index_of, pod_name, volumes};
use crate::change::{Change, Kind, Object, Outcome, Target};
use crate::meta::text;
use crate::plugin;

/// Why a job gets no pods, or why it failed, in one word and for people.
struct Why {
    reason: &'static str,
    message: String,
}

/// Reasons that end when the job gets pods.
const WAITS: [&str; 2] = ["InvalidJob", "PVCError"];

/// Pods of so many bytes together are made at once: the next ones follow when these are there.
const CREATIONS_BYTES: usize = 64 << 20;
/// What a pod takes at least.
const POD_BYTES_MIN: usize = 8 << 10;

/// Says what is wrong with a Job of which nothing else can be looked at. Its pods stay.
pub(crate) fn leave_alone(view: &JobView<'_>, problem: String, outcome: &mut Outcome) {
    let mut status = view.status().clone();
    status.state.phase.get_or_insert(JobPhase::Pending);
    if status.state.message != problem {
        outcome.changes.push(view.note(true, "InvalidJob", problem.clone()));
        (status.state.reason, status.state.message) = ("InvalidJob".to_owned(), problem);
        outcome.changes.push(view.write(status, true));
    }
}

pub(crate) fn sync(view: &JobView<'_>, outcome: &mut Outcome) {
    let waits = make(view, outcome).err();
    group::tell(view, outcome);
    if let Some((status, why)) = new_status(view, waits) {
        if let Some(why) = why.filter(|why| view.status().state.message != why.message) {
            outcome.changes.push(view.note(true, why.reason, why.message));
        }
        let urgent = status.state != view.status().state;
        outcome.changes.push(view.write(status, urgent));
    }
}

/// Makes and deletes objects, the PodGroup before pods.
fn make(view: &JobView<'_>, outcome: &mut Outcome) -> Result<(), Why> {
    let waits = |reason| move |message| Why { reason, message };
    delete_pods(view, outcome);
    check(&view.job).map_or(Ok(()), Err).map_err(waits("InvalidJob"))?;
    plugin::ensure(view, outcome);
    volumes::ensure(view, outcome).map_err(waits("PVCError"))?;
    if outcome.wants_ssh_key || !group::ensure(view, outcome) {
        return Ok(());
    }
    let there: BTreeSet<&str> = view.seen.pods.iter().map(|pod| pod.name.as_str()).collect();
    let mut room = CREATIONS_BYTES;
    for task in &view.job.spec.tasks {
        room = room.saturating_sub(create_pods(view, task, &there, room, outcome));
    }
    Ok(())
}

/// Pods that are discarded or beyond the replicas of their task, the highest index first.
fn delete_pods(view: &JobView<'_>, outcome: &mut Outcome) {
    let (spec, status) = (&view.job.spec, view.status());
    let gone =
        |pod: &&JobPod| !pod.is_terminating() && (is_discarded(status, pod) || is_surplus(spec, status, pod));
    let mut pods: Vec<&JobPod> = view.seen.pods.iter().filter(gone).collect();
    pods.sort_by(|a, b| (&a.task, b.index).cmp(&(&b.task, a.index)));
    outcome.changes.extend(pods.into_iter().map(|pod| delete(view, pod)));
}

pub(crate) fn delete(view: &JobView<'_>, pod: &JobPod) -> Change {
    Change::Delete(Target {
        kind: Kind::Pod,
        namespace: text(view.job.metadata.namespace.as_ref()).to_owned(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        foreground: false,
    })
}

/// Makes pods of a task while there is room for their bytes; returns how many these are.
fn create_pods(
    view: &JobView<'_>,
    task: &TaskSpec,
    there: &BTreeSet<&str>,
    room: usize,
    outcome: &mut Outcome,
) -> usize {
    if *view.phase() == JobPhase::Restarting && view.status().retry_count >= view.job.spec.max_retry {
        return 0;
    }
    let mut missing = (0..task.replicas)
        .filter(|index| !there.contains(pod_name(&view.job, task, *index).as_str()))
        .peekable();
    if missing.peek().is_none() || !depends::may_start(view, task) {
        return 0;
    }
    let (before, bytes) = (outcome.changes.len(), bytes(task).max(POD_BYTES_MIN));
    for index in missing.take(room / bytes) {
        outcome.changes.push(Change::Create(Object::Pod(Box::new(create::pod(view, task, index)))));
    }
    (outcome.changes.len() - before) * bytes
}

/// How long a pod of the task is, about.
fn bytes(task: &TaskSpec) -> usize {
    serde_json::to_string(&task.template).map_or(0, |text| text.len())
}

/// The status that the objects show, if it is another one, and what it says of pods that the job does not get.
fn new_status(view: &JobView<'_>, waits: Option<Why>) -> Option<(JobStatus, Option<Why>)> {
    let mut status = view.status().clone();
    status.min_available = view.job.spec.min_available;
    count(&mut status, &view.job.spec, view.seen.pods);
    record(view, &mut status);
    // A restart is over when all that it discards is being deleted.
    let deleting = view.seen.pods.iter().all(|pod| pod.is_terminating() || !is_discarded(&status, pod));
    let next = transition(&view.job.spec, &status, view.phase());
    let mut failed = None;
    if let Some(next) = next.filter(|next| deleting || *next != JobPhase::Pending) {
        if next == JobPhase::Failed {
            failed = failure(&view.job.spec, &status, view.phase());
        }
        enter(&mut status, next, &view.job, view.now);
        (status.state.reason, status.state.message) = (String::new(), String::new());
    }
    let why = failed.map(|message| Why { reason: "JobFailed", message }).or(waits);
    match &why {
        Some(why) => {
            (status.state.reason, status.state.message) = (why.reason.to_owned(), why.message.clone());
        }
        None if WAITS.contains(&status.state.reason.as_str()) => {
            (status.state.reason, status.state.message) = (String::new(), String::new());
        }
        None => {}
    }
    (status != *view.status()).then_some((status, why))
}

/// What belongs to the job, and what is to be remembered no longer.
fn record(view: &JobView<'_>, status: &mut JobStatus) {
    plugin::record(&view.job, status);
    volumes::record(&view.job, status);
    marker::forget_restarts(status, view.seen.pods);
    marker::forget_scaled_down(status, &view.job.spec, view.seen.pods);
    marker::forget_commands(status, view.seen.commands);
    let runs = |name: &str| {
        let mut pods = view.seen.pods.iter().filter(|pod| pod.name == name && !pod.is_terminating());
        pods.any(|pod| pod.phase == PodPhase::Running)
    };
    let exists = |name: &str| {
        let of = |task: &TaskSpec| index_of(&view.job, task, name);
        view.job
            .spec
            .tasks
            .iter()
            .any(|task| of(task).is_some_and(|index| (0..task.replicas).contains(&index)))
    };
    marker::forget_evictions(status, |pod| runs(pod) || !exists(pod));
}
