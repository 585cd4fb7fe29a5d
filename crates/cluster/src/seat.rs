//! Places that are kept for pods that were moved, until those that their controllers make in their stead take them.
//!
//! A seat is a task without a job that holds its place as a nomination does, in the sums of its node, of its topology
//! domains and of the queue. The first pod that comes and is like the one that was moved takes it up: of the same
//! class, and of the same PodGroup or, without one, of the same namespace and queue, with the same name or the same
//! labels. Devices (claims of resource.k8s.io) are not kept.
use std::sync::Arc;

use super::priorities::Follower;
use super::task::Task;
use super::{Cluster, JobKind, Status};
use crate::event::{Key, QueueGate, Time};
use crate::id::{NodeId, QueueId, TaskId};

/// A pod that does not go is waited for so many times as long as one that does not come.
const LONG: i64 = 10;

/// A place that is kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Seat {
    /// What holds the place.
    task: TaskId,
    /// The job of the pod that was moved.
    of: (JobKind, Key),
    queue: QueueId,
    /// That pod.
    moved: Arc<str>,
    since: Time,
    /// Since when that pod is gone.
    gone: Option<Time>,
    /// How long the next one may take to come, in milliseconds.
    patience: i64,
}

impl Seat {
    fn ends(&self) -> Time {
        let end = |from: Time, patience: i64| Time(from.0.saturating_add(patience));
        self.gone.map_or_else(
            || end(self.since, self.patience.saturating_mul(LONG)),
            |gone| end(gone, self.patience),
        )
    }
}

impl Cluster {
    /// Makes a seat for the successor of a task that is about to go: it still has to be placed.
    pub fn add_seat(&mut self, moved: TaskId, now: Time, patience: i64) -> Option<TaskId> {
        let it = &self.tasks[moved];
        let (job, moved) = (&self.jobs[it.job?], it.pod.uid.clone());
        let (of, queue, class) = ((job.kind, job.key.clone()), job.queue, it.class);
        let seat = Task {
            job: None,
            seat_in: Some(queue),
            node: None,
            node_slot: 0,
            status: Status::Pending,
            gated: true,
            measured: false,
            queue_gate: QueueGate::None,
            claims: None,
            nominated: None,
            evicting: None,
            message: None,
            ..it.clone()
        };
        let task = self.tasks.insert(seat);
        self.classes[class].refs += 1;
        self.count(task, None, Some(Status::Pending));
        self.follow_class(Follower::Task(task), true);
        self.terms.count_labels(&self.tasks[task].labels, true);
        self.seats.push(Seat { task, of, queue, moved, since: now, gone: None, patience });
        Some(task)
    }

    /// Ends the seats of those that have stayed, that nobody has come for in time, or whose job is no more.
    pub fn tend_seats(&mut self, now: Time) {
        for seat in &mut self.seats {
            let status = self.ids.tasks.get(&seat.moved).map(|id| self.tasks[*id].status);
            let there = status.is_some_and(|status| !matches!(status, Status::Succeeded | Status::Failed));
            seat.gone = if there { None } else { seat.gone.or(Some(now)) };
        }
        let over = |seat: &Seat| {
            let stays =
                self.ids.tasks.get(&seat.moved).is_some_and(|id| self.tasks[*id].status.is_allocated());
            stays || seat.ends() <= now || !self.awaits(seat) || self.tasks[seat.task].node.is_none()
        };
        let over: Vec<TaskId> = self.seats.iter().filter(|seat| over(seat)).map(|seat| seat.task).collect();
        for task in over {
            self.end_seat(task);
        }
    }

    /// Whether pods for it may still come: a PodGroup has to be there, whoever makes single pods is not known.
    fn awaits(&self, seat: &Seat) -> bool {
        let (kind, key) = &seat.of;
        *kind == JobKind::Solo || self.job_named(*kind, key).is_some_and(|job| self.jobs[job].exists)
    }

    /// Gives a place back.
    pub fn end_seat(&mut self, task: TaskId) {
        self.seats.retain(|seat| seat.task != task);
        self.remove_task(task);
    }

    /// A queue is forgotten.
    pub(super) fn end_seats_of(&mut self, queue: QueueId) {
        let of_queue = |seat: &&Seat| seat.queue == queue;
        let seats: Vec<TaskId> = self.seats.iter().filter(of_queue).map(|seat| seat.task).collect();
        for task in seats {
            self.end_seat(task);
        }
    }

    /// The tasks that hold the places.
    pub fn seats(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.seats.iter().map(|seat| seat.task)
    }

    /// When the first of them ends.
    pub fn seats_end(&self) -> Option<Time> {
        self.seats.iter().map(Seat::ends).min()
    }

    /// A pod has come, or its gates are gone: it takes up the place of one like it that was moved.
    pub(super) fn take_seat(&mut self, id: TaskId) {
        let task = &self.tasks[id];
        if self.seats.is_empty() || task.status != Status::Pending || task.gated || self.standby {
            return;
        }
        let Some(seat) = self.seats.iter().find(|seat| self.succeeds(id, seat)).map(|seat| seat.task) else {
            return;
        };
        let node = self.tasks[seat].node;
        self.end_seat(seat);
        self.heirs.extend(node.map(|node| (id, node)));
    }

    fn succeeds(&self, id: TaskId, seat: &Seat) -> bool {
        let (task, before) = (&self.tasks[id], &self.tasks[seat.task]);
        let Some(job) = task.job.map(|job| &self.jobs[job]) else { return false };
        let alike = || {
            let named = task.pod.name == before.pod.name;
            let labelled = task.labels == before.labels && !task.labels.is_empty();
            task.pod.namespace == before.pod.namespace && job.queue == seat.queue && (named || labelled)
        };
        task.class == before.class
            && job.kind == seat.of.0
            && (job.key == seat.of.1 || (job.kind == JobKind::Solo && alike()))
    }

    /// Pods that have taken up a place since the last cycle, and where it is.
    pub(super) fn take_heirs(&mut self) -> Vec<(TaskId, NodeId)> {
        let heirs = std::mem::take(&mut self.heirs);
        let waits = |(task, node): &(TaskId, NodeId)| {
            let pending = |task: &Task| task.status == Status::Pending && !task.gated;
            self.tasks.get(*task).is_some_and(pending) && self.nodes.get(*node).is_some()
        };
        heirs.into_iter().filter(waits).collect()
    }
}
