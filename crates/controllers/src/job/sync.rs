//! A Job that lives: what is missing is made, what is too much is deleted, the pods are counted.

use std::collections::BTreeSet;

use phalanx_api::batch::{JobPhase, JobStatus, TaskSpec};

use super::marker::{self, is_discarded};
use super::status::{count, enter, is_surplus, transition};
use super::{JobPod, JobView, PodPhase, check, create, depends, group, pod_name, volumes};
use crate::change::{Change, Kind, Object, Outcome, Target};
use crate::meta::text;
use crate::plugin;

/// Why a job gets no pods, in one word and for people.
struct Waits {
    reason: &'static str,
    message: String,
}

const WAITS: [&str; 2] = ["InvalidJob", "PVCError"];

pub(crate) fn sync(view: &JobView<'_>, outcome: &mut Outcome) {
    let waits = make(view, outcome).err();
    if let Some(status) = new_status(view, waits.as_ref()) {
        if let Some(waits) = waits.filter(|waits| view.status().state.message != waits.message) {
            outcome.changes.push(view.note(true, waits.reason, waits.message));
        }
        let urgent = status.state != view.status().state;
        outcome.changes.push(view.write(status, urgent));
    }
}

/// Makes and deletes objects, the PodGroup before pods.
fn make(view: &JobView<'_>, outcome: &mut Outcome) -> Result<(), Waits> {
    let waits = |reason| move |message| Waits { reason, message };
    delete_pods(view, outcome);
    check(&view.job).map_or(Ok(()), Err).map_err(waits("InvalidJob"))?;
    plugin::ensure(view, outcome);
    volumes::ensure(view, outcome).map_err(waits("PVCError"))?;
    if outcome.wants_ssh_key || !group::ensure(view, outcome) {
        return Ok(());
    }
    for task in &view.job.spec.tasks {
        create_pods(view, task, outcome);
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

fn create_pods(view: &JobView<'_>, task: &TaskSpec, outcome: &mut Outcome) {
    if *view.phase() == JobPhase::Restarting && view.status().retry_count >= view.job.spec.max_retry {
        return;
    }
    let there: BTreeSet<&str> = view.seen.pods.iter().map(|pod| pod.name.as_str()).collect();
    let mut missing = (0..task.replicas)
        .filter(|index| !there.contains(pod_name(&view.job, task, *index).as_str()))
        .peekable();
    if missing.peek().is_none() || !depends::may_start(view, task) {
        return;
    }
    for index in missing {
        outcome.changes.push(Change::Create(Object::Pod(Box::new(create::pod(view, task, index)))));
    }
}

/// The status that the objects show, if it is another one.
fn new_status(view: &JobView<'_>, waits: Option<&Waits>) -> Option<JobStatus> {
    let mut status = view.status().clone();
    status.min_available = view.job.spec.min_available;
    count(&mut status, &view.job.spec, view.seen.pods);
    record(view, &mut status);
    // A restart is over when all that it discards is being deleted.
    let deleting = view.seen.pods.iter().all(|pod| pod.is_terminating() || !is_discarded(&status, pod));
    let next = transition(&view.job.spec, &status, view.phase());
    if let Some(next) = next.filter(|next| deleting || *next != JobPhase::Pending) {
        enter(&mut status, next, &view.job, view.now);
        (status.state.reason, status.state.message) = (String::new(), String::new());
    }
    match waits {
        Some(waits) => {
            (status.state.reason, status.state.message) = (waits.reason.to_owned(), waits.message.clone());
        }
        None if WAITS.contains(&status.state.reason.as_str()) => {
            (status.state.reason, status.state.message) = (String::new(), String::new());
        }
        None => {}
    }
    (status != *view.status()).then_some(status)
}

/// What belongs to the job, and what is to be remembered no longer.
fn record(view: &JobView<'_>, status: &mut JobStatus) {
    plugin::record(&view.job, status);
    volumes::record(&view.job, status);
    marker::forget_restarts(status, view.seen.pods);
    let commands = view.seen.commands;
    marker::forget_commands(status, |name| {
        commands.iter().any(|command| command.metadata.name.as_deref() == Some(name))
    });
    let runs = |name: &str| {
        let mut pods = view.seen.pods.iter().filter(|pod| pod.name == name && !pod.is_terminating());
        pods.any(|pod| pod.phase == PodPhase::Running)
    };
    let exists = |name: &str| {
        view.job
            .spec
            .tasks
            .iter()
            .any(|task| (0..task.replicas).any(|index| pod_name(&view.job, task, index) == name))
    };
    marker::forget_evictions(status, |pod| runs(pod) || !exists(pod));
}
