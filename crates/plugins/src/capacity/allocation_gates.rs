//! What is kept for pods that were let into their queue (`scheduling.volcano.sh/queue-allocation-gate`) and have no node yet:
//! it counts as theirs, so that not more are let in than the queue may have.
//!
//! Source: Volcano's capacity plugin (`queueAllocatableWithReserved`).
use phalanx_resource::{Amounts, DimId};
use rustc_hash::{FxHashMap, FxHashSet};

use phalanx_cluster::World;
use phalanx_cluster::id::{QueueId, TaskId};

/// Requests of such pods by queue, with those of the queues below. Nothing at all when there are none.
#[derive(Debug, Default, PartialEq)]
pub(super) struct UngatedTasks {
    tree: bool,
    listens: bool,
    tasks: FxHashSet<TaskId>,
    kept: FxHashMap<QueueId, Amounts>,
}

impl UngatedTasks {
    pub(super) fn new(world: &World, tree: bool) -> Self {
        let mut let_in = Self { tree, listens: world.has_gates(), ..Self::default() };
        world.let_in().for_each(|task| let_in.update(world, task));
        let_in
    }

    /// Whether there may be any in this session.
    pub(super) fn is_any(&self) -> bool {
        self.listens
    }

    /// A task has moved, or was let in.
    pub(super) fn update(&mut self, world: &World, task: TaskId) {
        let how = match (self.tasks.contains(&task), self.listens && world.is_let_in(task)) {
            (false, true) => Amounts::add,
            (true, false) => Amounts::sub,
            _ => return,
        };
        let Some(job) = world.tasks[task].job else { return };
        if !self.tasks.remove(&task) {
            self.tasks.insert(task);
        }
        let most = if self.tree { usize::MAX } else { 1 };
        for queue in world.queue_path(world.jobs[job].queue).take(most) {
            how(self.kept.entry(queue).or_default(), world.request_of(task));
        }
    }

    /// What a queue keeps of a resource for others than a task of it.
    pub(super) fn beside(&self, world: &World, queue: QueueId, task: TaskId, dim: DimId) -> i64 {
        let Some(kept) = self.kept.get(&queue) else { return 0 };
        let own = if self.tasks.contains(&task) { world.request_of(task).get(dim) } else { 0 };
        kept.get(dim) - own
    }
}
