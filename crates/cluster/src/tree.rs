//! The tree of queues, with sums of requests that every change adds to all queues above.
//!
//! A queue names its parent, or else `root` is its parent. A parent may not exist, and parents may form a cycle. All
//! links of a cycle are cut, so every path up ends; `queue_fault` says what is wrong with a queue.
use std::sync::Arc;

use phalanx_resource::Amounts;

use super::{Cluster, Status};
use crate::Queue;
use crate::diagnosis::QueueFault;
use crate::event::QueueState;
use crate::id::{QueueId, Slots};

/// The name of the root queue, which exists with or without object.
pub const ROOT: &str = "root";

/// Sums of requests of tasks, by status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sums {
    /// Of allocated tasks.
    pub allocated: Amounts,
    /// Of nominated tasks.
    pub pipelined: Amounts,
    /// Of pending tasks.
    pub pending: Amounts,
}

/// One of the [`Sums`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Allocated tasks.
    Allocated,
    /// Nominated tasks.
    Pipelined,
    /// Pending tasks.
    Pending,
}

impl Part {
    /// The sum that a task of a status counts in.
    #[inline]
    pub(super) fn of(status: Status) -> Option<Self> {
        match status {
            Status::Pending => Some(Part::Pending),
            Status::Pipelined => Some(Part::Pipelined),
            status if status.is_allocated() => Some(Part::Allocated),
            _ => None,
        }
    }
}

impl Sums {
    /// The amount of a resource of allocated and nominated tasks.
    #[inline]
    pub fn held(&self, dim: phalanx_resource::DimId) -> i64 {
        self.allocated.get(dim) + self.pipelined.get(dim)
    }

    #[inline]
    pub(super) fn part(&mut self, part: Part) -> &mut Amounts {
        match part {
            Part::Allocated => &mut self.allocated,
            Part::Pipelined => &mut self.pipelined,
            Part::Pending => &mut self.pending,
        }
    }

    #[inline]
    pub(super) fn shift(&mut self, request: &Amounts, from: Option<Part>, to: Option<Part>) {
        if from == to {
            return;
        }
        if let Some(part) = from {
            self.part(part).sub(request);
        }
        if let Some(part) = to {
            self.part(part).add(request);
        }
    }

    pub(super) fn each(&mut self, other: &Self, how: fn(&mut Amounts, &Amounts)) {
        how(&mut self.allocated, &other.allocated);
        how(&mut self.pipelined, &other.pipelined);
        how(&mut self.pending, &other.pending);
    }
}

/// Moves a request from one sum to another, in a queue and all queues above.
#[inline]
pub(super) fn shift(
    queues: &mut Slots<QueueId, Queue>,
    queue: QueueId,
    request: &Amounts,
    from: Option<Part>,
    to: Option<Part>,
) {
    if from == to {
        return;
    }
    queues[queue].own.shift(request, from, to);
    let mut at = Some(queue);
    while let Some(id) = at {
        let queue = &mut queues[id];
        queue.subtree.shift(request, from, to);
        at = queue.tree.up;
    }
}

impl Cluster {
    /// The parent of a queue, unless the queue is in a cycle.
    #[inline]
    pub fn queue_above(&self, queue: QueueId) -> Option<QueueId> {
        self.queues[queue].tree.up
    }

    /// The queue that a queue names as its parent, whether or not it has an object.
    pub fn queue_parent(&self, queue: QueueId) -> Option<&Queue> {
        Some(&self.queues[self.queues[queue].tree.parent_id?])
    }

    /// A queue, its parent, and so on to the root.
    pub fn queue_path(&self, queue: QueueId) -> impl Iterator<Item = QueueId> + '_ {
        std::iter::successors(Some(queue), |id| self.queues[*id].tree.up)
    }

    /// Number of queues above a queue.
    pub fn queue_depth(&self, queue: QueueId) -> usize {
        self.queue_path(queue).count() - 1
    }

    /// The ancestors of two queues right below their lowest common ancestor. Both are equal when one queue is above the
    /// other.
    pub fn queues_part(&self, mut a: QueueId, mut b: QueueId) -> (QueueId, QueueId) {
        let (mut depth_a, mut depth_b) = (self.queue_depth(a), self.queue_depth(b));
        while let Some(up) = self.queues[a].tree.up.filter(|_| depth_a > depth_b) {
            (a, depth_a) = (up, depth_a - 1);
        }
        while let Some(up) = self.queues[b].tree.up.filter(|_| depth_b > depth_a) {
            (b, depth_b) = (up, depth_b - 1);
        }
        while a != b
            && let (Some(up_a), Some(up_b)) = (self.queues[a].tree.up, self.queues[b].tree.up)
            && up_a != up_b
        {
            (a, b) = (up_a, up_b);
        }
        (a, b)
    }

    /// The first queue that is not open, from a queue upwards.
    pub fn queue_shut(&self, id: QueueId) -> Option<QueueId> {
        self.queue_path(id).find(|at| self.queues[*at].state != QueueState::Open)
    }

    /// Whether a queue and all queues above are open, so that its jobs may be admitted and placed.
    pub fn queue_takes_jobs(&self, id: QueueId) -> bool {
        self.queues[id].object.exists && self.queue_shut(id).is_none()
    }

    /// The queue that keeps pods of queue `from` from being reclaimed for queue `by`, if any: `from` itself or a queue
    /// above it, but not above `by`, that is not reclaimable. `root` does not count.
    pub fn keeps_its_pods(&self, from: QueueId, by: QueueId) -> Option<QueueId> {
        let apart = |id: &QueueId| !self.queue_path(by).any(|above| above == *id);
        let keeps =
            |id: &QueueId| !self.queues[*id].reclaimable && (*id == from || !self.queues[*id].is_root());
        self.queue_path(from).take_while(apart).find(keeps)
    }

    /// Why a queue cannot be used: faults of its own fields, of its place in the tree, or of a queue above other than
    /// `root`.
    pub fn queue_fault(&self, id: QueueId) -> Option<QueueFault> {
        let own = self.own_fault(id);
        if own.is_some() {
            return own;
        }
        let above = self.queue_path(id).skip(1).filter(|above| !self.queues[*above].is_root());
        above.into_iter().find_map(|above| {
            let ancestor = self.queues[above].name.clone();
            Some(QueueFault::Above { ancestor, fault: Box::new(self.own_fault(above)?) })
        })
    }

    fn own_fault(&self, id: QueueId) -> Option<QueueFault> {
        let queue = &self.queues[id];
        if let Some(why) = &queue.object.invalid {
            return Some(QueueFault::Field(why.clone()));
        }
        let parent = self.queue_parent(id)?;
        if queue.tree.up.is_none() {
            let alone = parent.name == queue.name;
            return Some(if alone { QueueFault::Loop } else { QueueFault::Ring(parent.name.clone()) });
        }
        (!parent.object.exists && !parent.is_root()).then(|| QueueFault::NoParent(parent.name.clone()))
    }

    /// Sets the parent of a queue.
    pub(super) fn set_parent(&mut self, id: QueueId, parent: Option<&Arc<str>>) {
        let parent = parent.map(|name| self.ensure_queue(name));
        let before = self.queues[id].tree.parent_id;
        if before == parent {
            return;
        }
        let ring = if self.queues[id].tree.up.is_none() { self.ring(id) } else { Vec::new() };
        self.unlink(id);
        self.queues[id].tree.parent_id = parent;
        for member in ring.into_iter().filter(|member| *member != id) {
            self.link(member);
        }
        if parent.is_some_and(|parent| self.queue_path(parent).last() == Some(id)) {
            self.ring(id).into_iter().for_each(|member| self.unlink(member));
        } else {
            self.link(id);
        }
        if let Some(parent) = parent {
            self.queues[parent].tree.children += 1;
        }
        if let Some(before) = before {
            self.queues[before].tree.children -= 1;
            self.drop_unused_queue(before);
        }
    }

    /// The ring that a queue's named parents lead round; empty when they do not lead back to it.
    fn ring(&self, id: QueueId) -> Vec<QueueId> {
        let mut ring = vec![id];
        let mut at = self.queues[id].tree.parent_id;
        while let Some(next) = at {
            if next == id {
                return ring;
            }
            ring.push(next);
            at = self.queues[next].tree.parent_id;
        }
        Vec::new()
    }

    fn link(&mut self, id: QueueId) {
        self.queues[id].tree.up = self.queues[id].tree.parent_id;
        self.carry(id, Amounts::add);
    }

    fn unlink(&mut self, id: QueueId) {
        self.carry(id, Amounts::sub);
        self.queues[id].tree.up = None;
    }

    /// Adds what a queue and those below it have to all above it, or takes it from them.
    fn carry(&mut self, id: QueueId, how: fn(&mut Amounts, &Amounts)) {
        let sums = self.queues[id].subtree.clone();
        let mut at = self.queues[id].tree.up;
        while let Some(above) = at {
            let queue = &mut self.queues[above];
            queue.subtree.each(&sums, how);
            at = queue.tree.up;
        }
    }

    /// Adds what a job has to its queue and all above it, or takes it from them.
    pub(super) fn carry_job(&mut self, queue: QueueId, sums: &Sums, how: fn(&mut Amounts, &Amounts)) {
        self.queues[queue].own.each(sums, how);
        let mut at = Some(queue);
        while let Some(id) = at {
            let queue = &mut self.queues[id];
            queue.subtree.each(sums, how);
            at = queue.tree.up;
        }
    }
}
