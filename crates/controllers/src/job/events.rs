//! What happened to a Job, told from its objects alone.
//!
//! Pods that are discarded, or of an earlier version, tell nothing.

use std::collections::BTreeSet;

use jiff::Timestamp;
use phalanx_api::batch::TaskSpec;
use phalanx_api::bus::Event;
use phalanx_api::v1beta1::PodGroupPhase;

use super::marker::{evictions, is_discarded};
use super::{JobPod, JobView, PodPhase, group, partition, pod_name};

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Happened<'a> {
    pub(crate) event: Event,
    /// When, if the objects tell.
    pub(crate) at: Option<Timestamp>,
    /// To which task; nothing where it is about the whole job.
    pub(crate) task: Option<&'a TaskSpec>,
    pub(crate) pod: Option<String>,
    pub(crate) partition: Option<String>,
    pub(crate) exit_code: Option<i32>,
}

/// All that happened, in the order of tasks and pods.
pub(crate) fn happened<'a>(view: &'a JobView<'_>) -> Vec<Happened<'a>> {
    let mut found: Vec<Happened<'a>> = Vec::new();
    for task in &view.job.spec.tasks {
        found.extend(of_pods(view, task));
        found.extend(evicted(view, task));
        found.extend(completed(view, task));
        found.extend(failed(view, task));
    }
    found.extend(unknown(view));
    found
}

/// The pods of a task that count, in order.
fn counting<'a>(view: &'a JobView<'_>, task: &TaskSpec) -> Vec<&'a JobPod> {
    let status = view.status();
    let own = |pod: &&JobPod| pod.index < task.replicas && !is_discarded(status, pod);
    view.pods_of(&task.name).iter().copied().filter(own).collect()
}

fn of_pods<'a>(view: &'a JobView<'_>, task: &'a TaskSpec) -> Vec<Happened<'a>> {
    let version = view.status().version;
    let told: BTreeSet<&str> = evictions(view.status()).map(|(pod, _)| pod).collect();
    let pods = counting(view, task).into_iter().filter(|pod| pod.version == version);
    pods.filter_map(|pod| {
        let (event, at) = if pod.was_evicted() {
            (Event::PodEvicted, pod.deleted_at)
        } else {
            match pod.phase {
                PodPhase::Failed => (Event::PodFailed, pod.ended_at),
                PodPhase::Pending => (Event::PodPending, pod.created_at),
                PodPhase::Running | PodPhase::Succeeded | PodPhase::Unknown => return None,
            }
        };
        let exit_code = pod.exit_code.filter(|_| event == Event::PodFailed);
        let known = event == Event::PodEvicted && told.contains(pod.name.as_str());
        (!known).then(|| Happened { exit_code, ..of_pod(event, at, task, pod) })
    })
    .collect()
}

fn of_pod<'a>(event: Event, at: Option<Timestamp>, task: &'a TaskSpec, pod: &JobPod) -> Happened<'a> {
    let partition = pod.partition.clone();
    Happened { event, at, task: Some(task), pod: Some(pod.name.clone()), partition, exit_code: None }
}

/// Pods that were counted in the last status and are gone, the lowest missing index first; and those whose eviction is
/// remembered.
fn evicted<'a>(view: &'a JobView<'_>, task: &'a TaskSpec) -> Vec<Happened<'a>> {
    let told: Vec<(&str, Timestamp)> = evictions(view.status()).collect();
    let indexes = 0..task.replicas;
    let gone = |index: i32, at| {
        let pod = Some(pod_name(&view.job, task, index));
        let partition = partition(task, index);
        Happened { event: Event::PodEvicted, at, task: Some(task), pod, partition, exit_code: None }
    };
    let remembered = indexes.clone().filter_map(|index| {
        let name = pod_name(&view.job, task, index);
        told.iter().find(|(pod, _)| *pod == name).map(|(_, at)| gone(index, Some(*at)))
    });
    let there: BTreeSet<i32> = view.pods_of(&task.name).iter().map(|pod| pod.index).collect();
    let missing = indexes.filter(|index| !there.contains(index));
    let unknown =
        missing.filter(|index| !told.iter().any(|(pod, _)| *pod == pod_name(&view.job, task, *index)));
    let vanished = unknown.take(vanished(view, task)).map(|index| gone(index, None));
    remembered.chain(vanished).collect()
}

/// How many unfinished pods of a task are gone since the last status.
fn vanished(view: &JobView<'_>, task: &TaskSpec) -> usize {
    let status = view.status();
    let Some(counted) = status.task_status_count.get(&task.name) else { return 0 };
    let there: Vec<&JobPod> =
        view.pods_of(&task.name).iter().copied().filter(|pod| !is_discarded(status, pod)).collect();
    let ended = |name| counted.phase.get(name).copied().unwrap_or(0);
    let finished = ended("Succeeded") + ended("Failed") - count(there.iter().filter(|pod| pod.is_finished()));
    let all = counted.phase.values().sum::<i32>() - count(there.iter());
    usize::try_from(all - finished.max(0)).unwrap_or(0)
}

fn count<T>(items: impl Iterator<Item = T>) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}

/// All pods of a task succeeded, one of them at least in this version.
fn completed<'a>(view: &'a JobView<'_>, task: &'a TaskSpec) -> Option<Happened<'a>> {
    let pods = counting(view, task).into_iter().filter(|pod| pod.phase == PodPhase::Succeeded);
    let pods: Vec<&JobPod> = pods.collect();
    let new = pods.iter().any(|pod| pod.version == view.status().version);
    let last = pods.iter().max_by_key(|pod| (pod.ended_at, -pod.index))?;
    (new && count(pods.iter()) >= task.replicas)
        .then(|| of_pod(Event::TaskCompleted, last.ended_at, task, last))
}

/// The containers of a task restarted too often.
fn failed<'a>(view: &'a JobView<'_>, task: &'a TaskSpec) -> Option<Happened<'a>> {
    let alive = |pod: &&JobPod| {
        matches!(pod.phase, PodPhase::Running | PodPhase::Pending) && pod.version == view.status().version
    };
    let pods: Vec<&JobPod> = counting(view, task).into_iter().filter(alive).collect();
    let restarts: i32 = pods.iter().map(|pod| pod.restarts).sum();
    let last = pods.iter().filter(|pod| pod.restarts > 0).max_by_key(|pod| (pod.ended_at, -pod.index))?;
    let failed = task.max_retry >= 0 && restarts >= task.max_retry;
    failed.then(|| of_pod(Event::TaskFailed, last.ended_at, task, last))
}

/// Some pods run while others have no place. A PodGroup of an earlier version tells nothing.
fn unknown<'a>(view: &JobView<'_>) -> Option<Happened<'a>> {
    let group = view.seen.group?;
    let current = group::version(group).is_some_and(|version| version >= view.status().version);
    let status = group.status.as_ref()?;
    let times = status.conditions.iter().filter_map(|condition| condition.last_transition_time.as_ref());
    let at = times.map(|time| time.0).max();
    let happened =
        Happened { event: Event::Unknown, at, task: None, pod: None, partition: None, exit_code: None };
    (current && status.phase == Some(PodGroupPhase::Unknown)).then_some(happened)
}
