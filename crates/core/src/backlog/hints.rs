//! When unschedulable jobs are tried again: the first of a class when what it waits for may have come, or all of some queues.
use super::capacity_delta::{Capacities, CapacityDelta};
use super::capacity_index::Largest;
use super::equivalence::{Awaits, JobClass, JobClassId, JobClassKey, JobClasses, OfQueue};
use super::pools::Backlog;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, NodeId, QueueId, TaskId};
use phalanx_cluster::{Cluster, backoff};

impl JobClasses {
    fn wants_room(&self) -> bool {
        self.demands > 0 || !self.indexes.is_empty()
    }

    /// Classes whose demand may be met where capacity has grown.
    fn candidates(&self, cluster: &Cluster, delta: &CapacityDelta) -> Vec<JobClassId> {
        let mut found = Vec::new();
        for (which, most) in [&delta.room, &delta.allocatable].into_iter().enumerate() {
            for (dim, classes) in self.by_amount[which].iter().enumerate() {
                let most = most.get(phalanx_resource::DimId(dim as u16));
                for (_, id) in classes.range(..=(most, JobClassId::from_index(u32::MAX as usize))) {
                    let demand = self.all[*id].demand.as_ref();
                    if demand.is_some_and(|it| delta.serves(cluster, &it.request, &it.least, which == 1)) {
                        found.push(*id);
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }
}

impl Backlog {
    /// Ranks count in the order of jobs by what nodes can give now.
    pub(super) fn refresh_ranks(&mut self, cluster: &Cluster) {
        self.classes.order_by(&cluster.total);
    }

    /// Classes whose first is asked in each cycle.
    pub(super) fn standing_classes(&self) -> Vec<JobClassId> {
        self.classes.standing.iter().copied().collect()
    }

    /// Whether the first of a class is asked in each cycle.
    pub(super) fn stands(&self, id: JobClassId) -> bool {
        self.classes.standing.contains(&id)
    }

    /// Leaves a class alone until then.
    pub(super) fn rest_class(&mut self, id: JobClassId, until: Time) {
        self.classes.standing.remove(&id);
        self.back_off_class(id, until);
    }

    /// A class's first is tried: it need not be tried again in this cycle.
    pub(super) fn note_called(&mut self, id: JobClassId) {
        let classes = &mut self.classes;
        let Some(class) = classes.all.get_mut(id) else { return };
        class.asked = classes.indexes.cycle();
        class.looked = class.asked;
        if class.awaits == Awaits::Any && !class.plain {
            classes.standing.insert(id);
        }
    }

    /// The first of a class was asked in vain, and is left alone for a while if many ask to be asked.
    pub(super) fn asked_in_vain(&mut self, id: JobClassId, now: Time) {
        let classes = &mut self.classes;
        let Some(class) = classes.all.get_mut(id) else { return };
        class.tries = class.tries.saturating_add(1);
        class.rests_until = backoff(now, class.tries);
        classes.doubt_rank(id);
    }

    /// Whether a class may be left alone: not when others wait for their turn behind it.
    pub(super) fn may_rest(&self, id: JobClassId) -> bool {
        self.classes.all.get(id).is_some_and(|class| matches!(class.key, JobClassKey::Alike(..)))
    }

    /// Queues that were added, changed or removed since this was asked.
    pub(super) fn take_changed_queues(&mut self) -> Vec<QueueId> {
        let changed = std::mem::take(&mut self.changed_queues);
        self.classes.all_called = !changed.is_empty();
        changed
    }

    /// Where capacity has grown since the last cycle: everywhere when queues have changed, for what plugins say of nodes may be
    /// another thing for some queue.
    pub(super) fn delta(&self, cluster: &Cluster) -> Option<CapacityDelta> {
        let classes = &self.classes;
        match (classes.wants_room(), classes.all_called) {
            (false, _) => None,
            (true, true) => Some(Capacities::all(cluster)),
            (true, false) => classes.capacities.delta(cluster),
        }
    }

    /// Classes that wait for capacity, or for nodes, and may find it where it has grown, but for those in capacity indexes.
    pub(super) fn classes_with_capacity(
        &self,
        cluster: &Cluster,
        delta: Option<&CapacityDelta>,
    ) -> Vec<JobClassId> {
        let classes = &self.classes;
        if classes.all_called {
            let waits = |class: &JobClass| class.demand.is_some() && class.is_indexed();
            let demanding = classes.all.iter().filter(|(_, class)| waits(class));
            return demanding.map(|(id, _)| id).collect();
        }
        delta.map_or_else(Vec::new, |delta| classes.candidates(cluster, delta))
    }

    /// Capacity was freed in the middle of a cycle, or will be.
    pub(crate) fn note_freed(&mut self, node: NodeId) {
        self.classes.capacities.note(node);
    }

    /// A task was given a place: others may look for its company that were refused before.
    pub(crate) fn note_company(&mut self, cluster: &Cluster, task: TaskId) {
        self.classes.company |= cluster.terms.is_meant(cluster.class_of(task));
    }

    /// Whether any of that happened in this cycle.
    pub(crate) fn was_freed(&self) -> bool {
        self.classes.capacities.is_noted() || (self.classes.company && self.classes.seeking > 0)
    }

    /// The cycle ends: what capacity there is now is what unschedulable jobs were refused with.
    pub(super) fn note_rooms(&mut self, cluster: &Cluster) {
        self.classes.drop_emptied();
        self.take_rooms_down(cluster);
    }

    /// What capacity there is now counts.
    pub(super) fn take_rooms_down(&mut self, cluster: &Cluster) {
        let mut capacities = std::mem::take(&mut self.classes.capacities);
        capacities.take_down(cluster, self.classes.wants_room());
        self.classes.capacities = capacities;
    }

    /// The largest free capacities there are now.
    pub(super) fn largest_rooms(&self, cluster: &Cluster) -> Largest {
        Largest::new(cluster, self.classes.seeking > 0)
    }

    /// A cycle begins: what was noted is looked at.
    pub(super) fn forget_freed(&mut self) {
        self.classes.capacities.forget_noted();
        self.classes.company = false;
    }

    /// What was wrong with each queue that has unschedulable jobs.
    pub(super) fn queues_with_unschedulable(&self) -> impl Iterator<Item = (QueueId, &Result<(), Refusal>)> {
        let queues = self.classes.queues.iter().filter(|(_, queue)| queue.unschedulable > 0);
        queues.map(|(id, queue)| (*id, &queue.blocked))
    }

    /// Whether anything is known of a queue already; if not, it is this.
    pub(super) fn knows_blocked(&self, queue: QueueId) -> bool {
        self.classes.queues.get(&queue).is_some_and(|queue| queue.unschedulable > 0)
    }

    /// Stores whether the queue takes jobs, or why not.
    pub(super) fn set_blocked(&mut self, queue: QueueId, blocked: Result<(), Refusal>) {
        self.classes.queues.insert(queue, OfQueue { unschedulable: 0, blocked });
    }

    /// Tries all unschedulable jobs, or those of some queues.
    pub(super) fn retry_unschedulable(&mut self, of: impl Fn(QueueId) -> bool) {
        let of_herd = |(id, class): (JobClassId, &JobClass)| {
            let members = if of(class.key.queue()) { class.members.all() } else { Vec::new() };
            members.into_iter().map(move |(job, serial)| (id, job, serial)).collect::<Vec<_>>()
        };
        let all: Vec<_> = self.classes.all.iter().flat_map(of_herd).collect();
        for (class, job, serial) in all {
            if self.is_entry(class, job, serial) {
                self.call(job);
            }
        }
    }
}
