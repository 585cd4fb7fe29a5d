//! When unschedulable jobs are tried again: the first job of a class once its queueing hint is met, or all jobs of a
//! queue.
use super::capacity_delta::{Capacities, CapacityDelta};
use super::equivalence::{Awaits, JobClass, JobClassId, JobClassKey, JobClasses};
use super::pools::{Activation, Backlog};
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, NodeId, QueueId, TaskId};
use phalanx_resource::DimId;

impl JobClasses {
    fn wants_capacity(&self) -> bool {
        !self.by_amount.is_empty() || !self.indexes.is_empty()
    }

    /// Classes whose demand the grown capacity may meet.
    fn classes_served_by(&self, cluster: &Cluster, delta: &CapacityDelta) -> Vec<JobClassId> {
        let (first, last) = (JobClassId::from_index(0), JobClassId::from_index(u32::MAX as usize));
        let mut found = Vec::new();
        for (awaits, most) in [(Awaits::Capacity, &delta.free), (Awaits::Nodes, &delta.allocatable)] {
            let mut from = (awaits, DimId(0), i64::MIN, first);
            while let Some(&(_, dim, ..)) = self.by_amount.range(from..).next().filter(|it| it.0 == awaits) {
                let served = |id: &JobClassId| {
                    let demand = self.all[*id].hint.demand.as_ref();
                    demand.is_some_and(|it| delta.serves(cluster, &it.request, &it.min_request, awaits))
                };
                let fitting = (awaits, dim, i64::MIN, first)..=(awaits, dim, most.get(dim), last);
                found.extend(self.by_amount.range(fitting).map(|(.., id)| *id).filter(served));
                from = (awaits, DimId(dim.0 + 1), i64::MIN, first);
            }
        }
        found.sort_unstable();
        found
    }
}

impl Backlog {
    /// Records that the first job of a class is tried in this cycle.
    pub(super) fn note_tried(&mut self, id: JobClassId) {
        let classes = &mut self.classes;
        let Some(class) = classes.all.get_mut(id) else { return };
        class.last_tried = classes.indexes.cycle;
        class.last_examined = class.last_tried;
        if class.is_tried_each_cycle() {
            classes.tried_each_cycle.insert(id);
        }
    }

    /// Records a failed try of the first job of a class, and extends the back-off of the class.
    pub(super) fn note_failed_try(&mut self, id: JobClassId, now: Time) {
        let classes = &mut self.classes;
        let Some(class) = classes.all.get_mut(id) else { return };
        class.backoff.extend(now, self.backoff_times);
        classes.invalidate_bounds(id);
    }

    /// Whether a class may back off. The class of jobs behind the first job of a FIFO queue may not.
    pub(super) fn may_back_off(&self, id: JobClassId) -> bool {
        self.classes.all.get(id).is_some_and(|class| matches!(class.key, JobClassKey::Alike(_)))
    }

    /// Takes the queues that were added, changed or removed since the last call.
    pub(super) fn take_changed_queues(&mut self) -> Vec<QueueId> {
        let changed = std::mem::take(&mut self.changed_queues);
        self.classes.retry_all = !changed.is_empty();
        changed
    }

    /// Where capacity has grown since the last cycle. All nodes count when queues have changed, since filters of
    /// plugins may depend on the queue.
    pub(super) fn delta(&self, cluster: &Cluster) -> Option<CapacityDelta> {
        let classes = &self.classes;
        match (classes.wants_capacity(), classes.retry_all) {
            (false, _) => None,
            (true, true) => Some(Capacities::all(cluster)),
            (true, false) => classes.capacities.delta(cluster),
        }
    }

    /// Classes outside the capacity indexes that wait for capacity or nodes, and that the grown capacity may serve.
    pub(super) fn classes_with_capacity(
        &self,
        cluster: &Cluster,
        delta: Option<&CapacityDelta>,
    ) -> Vec<JobClassId> {
        let classes = &self.classes;
        if classes.retry_all {
            let mut all: Vec<JobClassId> = classes.by_amount.iter().map(|(.., id)| *id).collect();
            all.sort_unstable();
            return all;
        }
        delta.map_or_else(Vec::new, |delta| classes.classes_served_by(cluster, delta))
    }

    /// Records that capacity of a node was freed in mid-cycle, or will be.
    pub(crate) fn note_freed(&mut self, node: NodeId) {
        self.classes.capacities.freed_in_cycle.push(node);
    }

    /// Records that a task was placed: pods with affinity to it may fit now.
    pub(crate) fn note_placed(&mut self, cluster: &Cluster, task: TaskId) {
        self.classes.affinity_match_placed |= cluster.terms.matches_any(cluster.class_of(task));
    }

    /// Whether this cycle freed capacity, or placed a pod that unschedulable jobs may have affinity to.
    pub(crate) fn was_freed(&self) -> bool {
        !self.classes.capacities.freed_in_cycle.is_empty()
            || (self.classes.affinity_match_placed && self.classes.awaiting_affinity > 0)
    }

    /// Records the current free capacity, which the next delta is taken from.
    pub(super) fn record_capacities(&mut self, cluster: &Cluster) {
        let mut capacities = std::mem::take(&mut self.classes.capacities);
        capacities.record(cluster, self.classes.wants_capacity());
        self.classes.capacities = capacities;
    }

    /// Clears what [`was_freed`](Self::was_freed) reads, at the start of a cycle.
    pub(super) fn clear_freed(&mut self) {
        self.classes.capacities.freed_in_cycle.clear();
        self.classes.affinity_match_placed = false;
    }

    /// Queues with unschedulable jobs, and why each of them takes no jobs, if so.
    pub(super) fn queues_with_unschedulable(&self) -> impl Iterator<Item = (QueueId, &Result<(), Refusal>)> {
        let queues = self.classes.queues.iter().filter(|(_, queue)| queue.unschedulable > 0);
        queues.map(|(id, queue)| (*id, &queue.blocked))
    }

    /// Whether the backlog knows if a queue takes jobs.
    pub(super) fn knows_blocked(&self, queue: QueueId) -> bool {
        self.classes.queues.get(&queue).is_some_and(|queue| queue.unschedulable > 0)
    }

    /// Tries all unschedulable jobs of some queues.
    pub(super) fn retry_unschedulable(&mut self, of: impl Fn(QueueId) -> bool) {
        let entries = |(id, class): (JobClassId, &JobClass)| {
            let members = if of(class.key.queue()) { class.members.all() } else { Vec::new() };
            members.into_iter().map(move |entry| (id, entry)).collect::<Vec<_>>()
        };
        let all: Vec<_> = self.classes.all.iter().flat_map(entries).collect();
        for (class, entry) in all {
            if self.is_entry(class, entry) {
                self.retry(entry.job, Activation::Queue);
            }
        }
    }
}
