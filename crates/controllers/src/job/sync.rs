//! A Job that lives: what is missing is made, what is too much is deleted, the pods are counted.

use std::collections::{BTreeMap, BTreeSet};

use phalanx_api::batch::{JobPhase, JobStatus, TaskSpec};

use super::marker::{self, is_discarded};
use super::status::{count, enter, transition};
use super::{JobPod, Look, PodPhase, check, create, depends, group, pod_name, volumes};
use crate::change::{Change, Kind, Object, Outcome, Target};
use crate::meta::text;
use crate::plugin;

/// Why a job gets no pods, in one word and for people.
struct Waits {
    reason: &'static str,
    message: String,
}

const WAITS: [&str; 2] = ["InvalidJob", "PVCError"];

pub(crate) fn sync(look: &Look<'_>, outcome: &mut Outcome) {
    let waits = make(look, outcome).err();
    if let Some(status) = new_status(look, waits.as_ref()) {
        if let Some(waits) = waits.filter(|waits| look.status().state.message != waits.message) {
            outcome.changes.push(look.note(true, waits.reason, waits.message));
        }
        let urgent = status.state != look.status().state;
        outcome.changes.push(look.write(status, urgent));
    }
}

/// Makes and deletes objects, the PodGroup before pods.
fn make(look: &Look<'_>, outcome: &mut Outcome) -> Result<(), Waits> {
    let waits = |reason| move |message| Waits { reason, message };
    delete_pods(look, outcome);
    check(&look.job).map_or(Ok(()), Err).map_err(waits("InvalidJob"))?;
    plugin::ensure(look, outcome);
    volumes::ensure(look, outcome).map_err(waits("PVCError"))?;
    if outcome.wants_ssh_key || !group::ensure(look, outcome) {
        return Ok(());
    }
    for task in &look.job.spec.tasks {
        create_pods(look, task, outcome);
    }
    Ok(())
}

/// Pods that are discarded or beyond the replicas of their task, the highest index first.
fn delete_pods(look: &Look<'_>, outcome: &mut Outcome) {
    let replicas: BTreeMap<&str, i32> =
        look.job.spec.tasks.iter().map(|task| (task.name.as_str(), task.replicas)).collect();
    let surplus = |pod: &JobPod| {
        replicas.get(pod.task.as_str()).is_none_or(|count| pod.index >= *count || pod.index < 0)
    };
    let gone = |pod: &&JobPod| !pod.is_terminating() && (is_discarded(look.status(), pod) || surplus(pod));
    let mut pods: Vec<&JobPod> = look.seen.pods.iter().filter(gone).collect();
    pods.sort_by(|a, b| (&a.task, b.index).cmp(&(&b.task, a.index)));
    outcome.changes.extend(pods.into_iter().map(|pod| delete(look, pod)));
}

pub(crate) fn delete(look: &Look<'_>, pod: &JobPod) -> Change {
    Change::Delete(Target {
        kind: Kind::Pod,
        namespace: text(look.job.metadata.namespace.as_ref()).to_owned(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        foreground: false,
    })
}

fn create_pods(look: &Look<'_>, task: &TaskSpec, outcome: &mut Outcome) {
    if *look.phase() == JobPhase::Restarting && look.status().retry_count >= look.job.spec.max_retry {
        return;
    }
    let there: BTreeSet<&str> = look.seen.pods.iter().map(|pod| pod.name.as_str()).collect();
    let mut missing = (0..task.replicas)
        .filter(|index| !there.contains(pod_name(&look.job, task, *index).as_str()))
        .peekable();
    if missing.peek().is_none() || !depends::may_start(look, task) {
        return;
    }
    for index in missing {
        outcome.changes.push(Change::Create(Object::Pod(Box::new(create::pod(look, task, index)))));
    }
}

/// The status that the objects show, if it is another one.
fn new_status(look: &Look<'_>, waits: Option<&Waits>) -> Option<JobStatus> {
    let mut status = look.status().clone();
    status.min_available = look.job.spec.min_available;
    count(&mut status, look.seen.pods);
    record(look, &mut status);
    // A restart is over when all that it discards is being deleted.
    let deleting = look.seen.pods.iter().all(|pod| pod.is_terminating() || !is_discarded(&status, pod));
    let next = transition(&look.job.spec, &status, look.phase());
    if let Some(next) = next.filter(|next| deleting || *next != JobPhase::Pending) {
        enter(&mut status, next, &look.job, look.now);
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
    (status != *look.status()).then_some(status)
}

/// What belongs to the job, and what is to be remembered no longer.
fn record(look: &Look<'_>, status: &mut JobStatus) {
    plugin::record(&look.job, status);
    volumes::record(&look.job, status);
    marker::forget_restarts(status, look.seen.pods);
    let commands = look.seen.commands;
    marker::forget_commands(status, |name| {
        commands.iter().any(|command| command.metadata.name.as_deref() == Some(name))
    });
    let runs = |name: &str| {
        let mut pods = look.seen.pods.iter().filter(|pod| pod.name == name && !pod.is_terminating());
        pods.any(|pod| pod.phase == PodPhase::Running)
    };
    let exists = |name: &str| {
        look.job
            .spec
            .tasks
            .iter()
            .any(|task| (0..task.replicas).any(|index| pod_name(&look.job, task, index) == name))
    };
    marker::forget_evictions(status, |pod| runs(pod) || !exists(pod));
}
