//! Reservations for moved pods: the place of a pod that `shuffle` evicts is kept for the pod that its controller
//! creates.
//!
//! The place is held by a *placeholder*: a task without a job, which counts like a nomination in the sums of its node, of
//! its topology domains and of the queue. The first new pod that is like the moved pod takes the place: a pod of the same
//! class, and of the same PodGroup or, without one, of the same namespace and queue with the same name or the same
//! labels. Devices (claims of resource.k8s.io) are not kept.
use std::sync::Arc;

use super::priorities::Follower;
use super::task::{PodWritten, Task};
use super::{Cluster, JobKind, Status};
use crate::event::{Key, Time};
use crate::id::{NodeId, QueueId, TaskId};

/// The place of a pod that has not terminated yet is kept so many times as long.
const TERMINATION_FACTOR: i64 = 10;

/// A moved pod and the reservation for its successor.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MovedPod {
    /// The placeholder.
    task: TaskId,
    /// The job of the moved pod.
    of: (JobKind, Key),
    queue: QueueId,
    /// The UID of the moved pod.
    moved: Arc<str>,
    since: Time,
    /// Since when the moved pod is gone.
    gone: Option<Time>,
    /// How long the place is kept once the moved pod is gone.
    keep_ms: i64,
}

impl MovedPod {
    fn ends(&self) -> Time {
        let end = |from: Time, keep_ms: i64| Time(from.0.saturating_add(keep_ms));
        self.gone.map_or_else(
            || end(self.since, self.keep_ms.saturating_mul(TERMINATION_FACTOR)),
            |gone| end(gone, self.keep_ms),
        )
    }
}

impl Cluster {
    /// Makes the placeholder for the successor of a task that is about to be evicted. The placeholder has no node yet.
    pub fn reserve_for_successor(&mut self, moved: TaskId, now: Time, keep_ms: i64) -> Option<TaskId> {
        let it = &self.tasks[moved];
        let (job, moved) = (&self.jobs[it.job?], it.pod.uid.clone());
        let (of, queue, class) = ((job.kind, job.key.clone()), job.queue, it.class);
        let placeholder = Task {
            job: None,
            placeholder_in: Some(queue),
            node: None,
            node_slot: 0,
            status: Status::Pending,
            gated: true,
            measured: false,
            claims: None,
            written: PodWritten::default(),
            evicting: None,
            ..it.clone()
        };
        let task = self.tasks.insert(placeholder);
        self.classes[class].refs += 1;
        self.count(task, None, Some(Status::Pending));
        self.follow_class(Follower::Task(task), true);
        self.terms.count_labels(&self.tasks[task].details.labels, true);
        self.moved_pods.push(MovedPod { task, of, queue, moved, since: now, gone: None, keep_ms });
        Some(task)
    }

    /// Releases reservations of pods that were not evicted, of pods without a successor in time, and of jobs that are
    /// gone.
    pub fn expire_moved_pods(&mut self, now: Time) {
        for moved_pod in &mut self.moved_pods {
            let status = self.ids.tasks.get(&moved_pod.moved).map(|id| self.tasks[*id].status);
            let there = status.is_some_and(|status| !matches!(status, Status::Succeeded | Status::Failed));
            moved_pod.gone = if there { None } else { moved_pod.gone.or(Some(now)) };
        }
        let over = |moved_pod: &MovedPod| {
            let stays =
                self.ids.tasks.get(&moved_pod.moved).is_some_and(|id| self.tasks[*id].status.is_allocated());
            stays
                || moved_pod.ends() <= now
                || !self.awaits(moved_pod)
                || self.tasks[moved_pod.task].node.is_none()
        };
        let over: Vec<TaskId> = self
            .moved_pods
            .iter()
            .filter(|moved_pod| over(moved_pod))
            .map(|moved_pod| moved_pod.task)
            .collect();
        for task in over {
            self.release_moved_pod(task);
        }
    }

    /// Whether a successor may still come: the PodGroup exists; what creates pods without a PodGroup is not known.
    fn awaits(&self, moved_pod: &MovedPod) -> bool {
        let (kind, key) = &moved_pod.of;
        *kind == JobKind::Solo || self.job_named(*kind, key).is_some_and(|job| self.jobs[job].object.exists)
    }

    /// Releases a reservation, by its placeholder.
    pub fn release_moved_pod(&mut self, task: TaskId) {
        self.moved_pods.retain(|moved_pod| moved_pod.task != task);
        self.remove_task(task);
    }

    /// Releases the reservations in a queue that is deleted.
    pub(super) fn release_moved_pods_of(&mut self, queue: QueueId) {
        let of_queue = |moved_pod: &&MovedPod| moved_pod.queue == queue;
        let moved_pods: Vec<TaskId> =
            self.moved_pods.iter().filter(of_queue).map(|moved_pod| moved_pod.task).collect();
        for task in moved_pods {
            self.release_moved_pod(task);
        }
    }

    /// The placeholders.
    pub fn moved_pods(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.moved_pods.iter().map(|moved_pod| moved_pod.task)
    }

    /// When the first reservation ends.
    pub fn moved_pods_end(&self) -> Option<Time> {
        self.moved_pods.iter().map(MovedPod::ends).min()
    }

    /// Gives a new pod, or a pod whose gates are gone, the reservation of a moved pod like it.
    pub(super) fn take_reservation_of_moved_pod(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        if self.moved_pods.is_empty() || task.status != Status::Pending || task.gated || self.others.standby {
            return;
        }
        let Some(moved_pod) = self
            .moved_pods
            .iter()
            .find(|moved_pod| self.succeeds(id, moved_pod))
            .map(|moved_pod| moved_pod.task)
        else {
            return;
        };
        let node = self.tasks[moved_pod].node;
        self.release_moved_pod(moved_pod);
        self.since_last_cycle.successors.extend(node.map(|node| (id, node)));
    }

    fn succeeds(&self, id: TaskId, moved_pod: &MovedPod) -> bool {
        let (task, before) = (&self.tasks[id], &self.tasks[moved_pod.task]);
        let Some(job) = task.job.map(|job| &self.jobs[job]) else { return false };
        let alike = || {
            let named = task.pod.name == before.pod.name;
            let labelled = task.details.labels == before.details.labels && !task.details.labels.is_empty();
            task.pod.namespace == before.pod.namespace && job.queue == moved_pod.queue && (named || labelled)
        };
        task.class == before.class
            && job.kind == moved_pod.of.0
            && (job.key == moved_pod.of.1 || (job.kind == JobKind::Solo && alike()))
    }

    /// Pods that took a reservation since the last cycle, and its node.
    pub(super) fn take_successors(&mut self) -> Vec<(TaskId, NodeId)> {
        let successors = std::mem::take(&mut self.since_last_cycle.successors);
        let waits = |(task, node): &(TaskId, NodeId)| {
            let pending = |task: &Task| task.status == Status::Pending && !task.gated;
            self.tasks.get(*task).is_some_and(pending) && self.nodes.get(*node).is_some()
        };
        successors.into_iter().filter(waits).collect()
    }
}
