//! Victims of reclaim: tasks of queues that hold more than they deserve.
use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use super::Proportion;
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{QueueId, TaskId};

impl Proportion {
    /// What a queue holds beyond its deserved amounts; negative where the queue holds less. `pods` is left to the
    /// nodes.
    pub(super) fn beyond_deserved(&self, cluster: &Cluster, id: QueueId) -> Amounts {
        let mut beyond = cluster.queues[id].held();
        beyond.sub(&self.of(id).deserved);
        beyond.set(DimId::PODS, 0);
        beyond
    }

    /// The tasks that may be evicted, each judged without the victims before it: tasks whose queue holds more than it
    /// deserves of a resource that the task requests. Without the last condition two queues could reclaim from each
    /// other without end.
    pub(super) fn victims(&self, cluster: &Cluster, evictees: &[TaskId]) -> Vec<TaskId> {
        let mut held_by: FxHashMap<QueueId, Amounts> = FxHashMap::default();
        let mut take = |task: TaskId| {
            let Some(job) = cluster.tasks[task].job else { return false };
            let queue = cluster.jobs[job].queue;
            let held = held_by.entry(queue).or_insert_with(|| cluster.queues[queue].held());
            let request = cluster.request_of(task);
            let exceeds = |(dim, held)| {
                dim != DimId::PODS && held > self.of(queue).deserved.get(dim) && request.get(dim) > 0
            };
            let is_victim = cluster.queues[queue].object.exists && held.iter().any(exceeds);
            if is_victim {
                held.sub(request);
            }
            is_victim
        };
        evictees.iter().copied().filter(|task| take(*task)).collect()
    }
}
