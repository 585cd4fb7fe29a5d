//! Amounts reserved for pods whose allocation gate (`scheduling.volcano.sh/queue-allocation-gate`) was removed and that
//! have no node yet, so that a queue removes no more gates than it has capacity for.
//!
//! Source: Volcano's capacity plugin (`queueAllocatableWithReserved`).
use phalanx_resource::{Amounts, DimId};
use rustc_hash::{FxHashMap, FxHashSet};

use phalanx_cluster::Cluster;
use phalanx_cluster::id::{QueueId, TaskId};

/// The ungated pods without a node, and their requests by queue; in a tree those of a queue's descendants count too.
#[derive(Debug, Default, PartialEq)]
pub(super) struct UngatedTasks {
    tree: bool,
    /// Whether any pod has or had a gate.
    has_gates: bool,
    tasks: FxHashSet<TaskId>,
    reserved: FxHashMap<QueueId, Amounts>,
}

impl UngatedTasks {
    pub(super) fn new(cluster: &Cluster, tree: bool) -> Self {
        let mut ungated = Self { tree, has_gates: cluster.has_gates(), ..Self::default() };
        cluster.let_in().for_each(|task| ungated.update(cluster, task));
        ungated
    }

    /// Whether there may be ungated tasks in this session.
    pub(super) fn is_any(&self) -> bool {
        self.has_gates
    }

    /// Updates the reserved amounts after a task got a node, lost its node or lost its gate.
    pub(super) fn update(&mut self, cluster: &Cluster, task: TaskId) {
        let add_or_sub = match (self.tasks.contains(&task), self.has_gates && cluster.is_let_in(task)) {
            (false, true) => Amounts::add,
            (true, false) => Amounts::sub,
            _ => return,
        };
        let Some(job) = cluster.tasks[task].job else { return };
        if !self.tasks.remove(&task) {
            self.tasks.insert(task);
        }
        let length = if self.tree { usize::MAX } else { 1 };
        for queue in cluster.queue_path(cluster.jobs[job].queue).take(length) {
            add_or_sub(self.reserved.entry(queue).or_default(), cluster.request_of(task));
        }
    }

    /// What a queue reserves of a resource for other tasks than this one.
    pub(super) fn reserved_beside(&self, cluster: &Cluster, queue: QueueId, task: TaskId, dim: DimId) -> i64 {
        let Some(reserved) = self.reserved.get(&queue) else { return 0 };
        let own = if self.tasks.contains(&task) { cluster.request_of(task).get(dim) } else { 0 };
        reserved.get(dim) - own
    }
}
