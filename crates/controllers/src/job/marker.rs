//! What the controller remembers in `status.controlledResources`, and which pods are discarded by it.

use std::collections::BTreeSet;
use std::ops::Bound;

use jiff::Timestamp;
use phalanx_api::batch::{JobSpec, JobStatus};
use phalanx_api::bus::Command;

use super::JobPod;
use super::status::{is_live, is_surplus};

/// The pods that a restart makes anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Job,
    Task(String),
    Pod(String),
    Partition(String, String),
}

const RESTART: &str = "restart-";
const COMMAND: &str = "command.";
const EVICTED: &str = "evicted.";
const SCALED: &str = "scaled.";

impl Scope {
    fn key(&self) -> String {
        match self {
            Self::Job => format!("{RESTART}job"),
            Self::Task(task) => format!("{RESTART}task.{task}"),
            Self::Pod(pod) => format!("{RESTART}pod.{pod}"),
            Self::Partition(task, partition) => format!("{RESTART}partition.{task}.{partition}"),
        }
    }

    /// Whether a pod is one of them.
    pub(crate) fn has(&self, pod: &JobPod) -> bool {
        match self {
            Self::Job => true,
            Self::Task(task) => pod.task == *task,
            Self::Pod(name) => pod.name == *name,
            Self::Partition(task, partition) => {
                pod.task == *task && pod.partition.as_ref() == Some(partition)
            }
        }
    }

    fn around(pod: &JobPod) -> impl Iterator<Item = Self> {
        let partition = pod.partition.clone().map(|partition| Self::Partition(pod.task.clone(), partition));
        [Self::Job, Self::Task(pod.task.clone()), Self::Pod(pod.name.clone())].into_iter().chain(partition)
    }
}

/// Pods of this scope that were made before this retry are discarded.
pub(crate) fn restart(status: &mut JobStatus, scope: &Scope, retry: i32) {
    status.controlled_resources.insert(scope.key(), retry.to_string());
}

/// The pod is to be deleted, or is being deleted: it counts no more and fires no event.
pub(crate) fn is_discarded(status: &JobStatus, pod: &JobPod) -> bool {
    let ended = status.state.phase.as_ref().is_some_and(|phase| !is_live(phase));
    let old = pod.version < status.version;
    pod.out_of_sync
        || (!pod.is_finished() && (old || ended))
        || is_restarted(status, pod)
        || (pod.is_terminating() && is_scaled_down(status, pod))
}

fn is_restarted(status: &JobStatus, pod: &JobPod) -> bool {
    let marks = &status.controlled_resources;
    let mut from_restart = marks.range::<str, _>((Bound::Included(RESTART), Bound::Unbounded));
    let any = from_restart.next().is_some_and(|(key, _)| key.starts_with(RESTART));
    let retry = |scope: Scope| marks.get(&scope.key()).and_then(|text| text.parse::<i32>().ok());
    any && Scope::around(pod).filter_map(retry).any(|retry| pod.retry < retry)
}

/// Forgets restarts all of whose pods are made anew or gone, but for that of the whole job, which is one entry.
pub(crate) fn forget_restarts(status: &mut JobStatus, pods: &[JobPod]) {
    let needed: BTreeSet<String> = pods
        .iter()
        .filter(|pod| is_restarted(status, pod))
        .flat_map(Scope::around)
        .map(|scope| scope.key())
        .collect();
    let job = Scope::Job.key();
    status
        .controlled_resources
        .retain(|key, _| !key.starts_with(RESTART) || *key == job || needed.contains(key));
}

/// The task was scaled down to so many replicas: terminating pods beyond them were not evicted.
pub(crate) fn scaled_down(status: &mut JobStatus, task: &str, replicas: i32) {
    let least = scaled_to(status, task).map_or(replicas, |before| before.min(replicas));
    status.controlled_resources.insert(format!("{SCALED}{task}"), least.to_string());
}

fn scaled_to(status: &JobStatus, task: &str) -> Option<i32> {
    status.controlled_resources.get(&format!("{SCALED}{task}"))?.parse().ok()
}

fn is_scaled_down(status: &JobStatus, pod: &JobPod) -> bool {
    scaled_to(status, &pod.task).is_some_and(|replicas| pod.index >= replicas)
}

/// Forgets tasks all of whose pods that a scale-down deletes are gone.
pub(crate) fn forget_scaled_down(status: &mut JobStatus, spec: &JobSpec, pods: &[JobPod]) {
    let leaves = |pod: &&JobPod| pod.is_terminating() || is_surplus(spec, status, pod);
    let needed: BTreeSet<String> = pods
        .iter()
        .filter(|pod| is_scaled_down(status, pod))
        .filter(leaves)
        .map(|pod| format!("{SCALED}{}", pod.task))
        .collect();
    status.controlled_resources.retain(|key, _| !key.starts_with(SCALED) || needed.contains(key));
}

/// A Command was carried out.
pub(crate) fn carried_out(status: &mut JobStatus, name: &str, uid: &str) {
    status.controlled_resources.insert(format!("{COMMAND}{name}"), uid.to_owned());
}

pub(crate) fn is_carried_out(status: &JobStatus, name: &str, uid: &str) -> bool {
    status.controlled_resources.get(&format!("{COMMAND}{name}")).is_some_and(|found| found == uid)
}

/// Forgets Commands that are gone.
pub(crate) fn forget_commands(status: &mut JobStatus, left: &[Command]) {
    let exists = |name: &str| left.iter().any(|command| command.metadata.name.as_deref() == Some(name));
    status.controlled_resources.retain(|key, _| key.strip_prefix(COMMAND).is_none_or(exists));
}

/// The pod was evicted at this time, and the policy of it has a timeout.
pub(crate) fn evicted(status: &mut JobStatus, pod: &str, at: Timestamp) {
    status.controlled_resources.insert(format!("{EVICTED}{pod}"), at.to_string());
}

/// Evictions whose timeout runs: pod and time.
pub(crate) fn evictions(status: &JobStatus) -> impl Iterator<Item = (&str, Timestamp)> {
    let entries = status.controlled_resources.iter();
    entries.filter_map(|(key, at)| Some((key.strip_prefix(EVICTED)?, at.parse().ok()?)))
}

pub(crate) fn forget_evictions(status: &mut JobStatus, over: impl Fn(&str) -> bool) {
    status.controlled_resources.retain(|key, _| key.strip_prefix(EVICTED).is_none_or(|pod| !over(pod)));
}
