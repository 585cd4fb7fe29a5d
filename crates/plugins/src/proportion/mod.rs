//! proportion: queues share the cluster by weight.
//!
//! Per resource, over the queues that exist, with *total* what all nodes can give:
//! - `guaranteed = min(guarantee, capability)`; where these exceed the total in sum, each is cut in proportion;
//! - `realCapability = min(total − Σ guaranteed of the others, capability)`, no capability being no limit;
//! - `deserved` is at least `guaranteed` and at most `min(request, realCapability)` (where that is more), and in between
//!   by weight: water-filling, see [`waterfill`](super::waterfill). *request* is all that the queue's jobs ask for, held
//!   or not; only what is held, for a queue that takes no jobs. Deserved amounts sum to the total where there is demand for
//!   it, and never to more.
//!
//! A queue with a parent other than `root` is refused: its jobs wait. Neither it nor one with another fault is guaranteed
//! anything, so that others get what they would get without it.
//!
//! Then, with *held* what a queue's pods have or are nominated for:
//! - queue order: larger `spec.priority`, then smaller `max over resources of held / deserved`;
//! - a queue is overused when its pods have all it deserves, and may have a task when `held + request ≤ deserved` in
//!   what the task asks for. Places for pods are left to the nodes. So is a resource of which the queue deserves all
//!   that there is or all that it asks for: the nodes' own reasons say more;
//! - a task may be reclaimed while its queue, without those picked before it, holds more than it deserves of something
//!   that the task has;
//! - a job is admitted when `promised + minResources ≤ realCapability` in what it names. A queue promised to each
//!   admitted job its minResources (to one that is Inqueue, or Running with `minMember` pods allocated), and to others
//!   the part of it that they hold. Pods beyond minResources are elastic, and promised nothing, nor is what pods behind
//!   scheduling gates request.
//!
//! Source: Volcano's proportion plugin; *promised* is its `allocated + inqueue − elastic`, job by job. Differences: shares
//! are exact and independent of the order of queues, where Volcano stops after some rounds; a queue without jobs takes
//! part with its guarantee, so that the same is not promised twice; and Volcano does not look at `parent`.
mod queue_attributes;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use crate::shared::flat_queues;
use crate::shared::gang_excess::gang_excess;
use crate::shared::share::Share;
use phalanx_cluster::diagnosis::{Beside, Limit, Overuse, QueueFault, Refusal};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Queue, World};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{EvictionKind, Plugin, PluginDef, Verdict};
use queue_attributes::{ProportionAttributes, attributes_of_queues};

const NAME: &str = "proportion";

const ARGS: &[ArgSpec] = &[];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Queues share the cluster by weight, between their guarantee and their capability.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Proportion::open(opening.world)),
};

struct Proportion {
    /// By queue id.
    attributes: Vec<ProportionAttributes>,
}

impl Proportion {
    fn open(world: &World) -> Self {
        let mut attributes = attributes_of_queues(world);
        if world.any_asks() {
            for (queue, promised) in world.promises() {
                attributes[queue.index()].promised.add(&promised);
            }
        }
        Self { attributes }
    }

    fn of(&self, queue: QueueId) -> &ProportionAttributes {
        &self.attributes[queue.index()]
    }

    /// The dominant share of what a queue deserves that it holds.
    fn share(&self, world: &World, id: QueueId) -> Share {
        let (queue, deserved) = (&world.queues[id], &self.of(id).deserved);
        let of = |at: usize| {
            let dim = DimId(at as u16);
            Share::new(held(queue, dim), deserved.get(dim))
        };
        Share::largest((0..world.dims.len()).map(of))
    }

    /// What makes a limit of a queue what it is. Of what a queue deserves the figure to change is told: it is never more than
    /// its capability, nor than others' guarantees leave.
    fn limit(&self, world: &World, id: QueueId, dim: DimId) -> Limit {
        let (queue, attributes) = (&world.queues[id], self.of(id));
        let (deserved, total) = (attributes.deserved.get(dim), world.total.get(dim));
        match attributes.limits.get(dim) == queue.capability.get(dim) {
            true => Limit::Capability,
            false if deserved >= attributes.real_capability.get(dim) => {
                Limit::Guarantees(beside(world, id, dim))
            }
            false => Limit::Weight(vec![(dim, deserved, total)]),
        }
    }

    /// The same of several resources: what it is by weight of some is told first.
    fn limit_of(&self, world: &World, id: QueueId, over: &[(DimId, i64)]) -> Limit {
        let each = || over.iter().map(|(dim, _)| self.limit(world, id, *dim));
        let by_weight =
            each().filter_map(|limit| if let Limit::Weight(part) = limit { Some(part) } else { None });
        let by_weight: Vec<_> = by_weight.flatten().collect();
        if by_weight.is_empty() { Limit::of_all(each()) } else { Limit::Weight(by_weight) }
    }

    /// How a queue comes to have all it deserves, by what its jobs ask for.
    fn overuse(&self, world: &World, id: QueueId) -> Overuse {
        let (queue, attributes) = (&world.queues[id], self.of(id));
        let asked = || queue.own.pending.iter().map(|(dim, _)| dim);
        let barred: Vec<DimId> = asked().filter(|dim| queue.capability.get(*dim) == Some(0)).collect();
        if !barred.is_empty() {
            return Overuse::Barred(barred);
        }
        let limited = || asked().filter(|dim| attributes.limits.get(*dim).is_some());
        let none = |dim: &DimId| {
            attributes.deserved.get(*dim) == 0 && matches!(self.limit(world, id, *dim), Limit::Guarantees(_))
        };
        let none: Vec<DimId> = limited().filter(none).collect();
        if let Some(first) = none.first() {
            let beside = beside(world, id, *first);
            return Overuse::Guarantees(none, beside);
        }
        let by_weight = limited().any(|dim| matches!(self.limit(world, id, dim), Limit::Weight(_)));
        if by_weight { Overuse::Weight } else { Overuse::Full }
    }
}

/// The queues beside one that are guaranteed something of a resource.
fn beside(world: &World, id: QueueId, dim: DimId) -> Beside {
    let is_kept = |other: QueueId| {
        world.queues[other].exists
            && world.queue_fault(other).is_none()
            && flat_queues::check(world, other, NAME).is_ok()
    };
    let others = world.queues.iter().filter(|(other, _)| *other != id && is_kept(*other));
    Beside::of(others.map(|(_, queue)| (queue.guarantee.get(dim), &queue.name)))
}

#[inline]
fn held(queue: &Queue, dim: DimId) -> i64 {
    queue.own.held(dim)
}

impl Plugin for Proportion {
    fn stands_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn queue_order(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        let priority = |id| world.queues[id].priority;
        priority(b).cmp(&priority(a)).then_with(|| self.share(world, a).cmp(&self.share(world, b)))
    }

    fn queue_valid(&self, world: &World, id: QueueId) -> Result<(), QueueFault> {
        flat_queues::check(world, id, NAME)
    }

    fn overused(&self, world: &World, id: QueueId) -> Option<Refusal> {
        let (queue, attributes) = (&world.queues[id], self.of(id));
        // Nominated tasks do not count here: they must be able to take up the places they were promised.
        let has_all = |(dim, deserved)| dim == DimId::PODS || queue.own.allocated.get(dim) >= deserved;
        if attributes.limits.is_empty() || !attributes.deserved.iter().all(has_all) {
            return None;
        }
        Some(Refusal::Overused { plugin: NAME, queue: queue.name.clone(), why: self.overuse(world, id) })
    }

    fn allocatable(&self, world: &World, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        let (queue, attributes) = (&world.queues[id], self.of(id));
        let request = world.request_of(task);
        let over = attributes.limits.iter().filter_map(|(dim, limit)| {
            let need = request.get(dim);
            let over = held(queue, dim).saturating_add(need).saturating_sub(limit);
            (need > 0 && over > 0).then_some((dim, over))
        });
        let mut over = over.peekable();
        if over.peek().is_none() {
            return Ok(());
        }
        let over: Vec<(DimId, i64)> = over.collect();
        let (limit, gang) = (self.limit_of(world, id, &over), gang_excess(world, task, &over));
        Err(Refusal::Quota { plugin: NAME, queue: queue.name.clone(), limit, over, gang })
    }

    fn preemptive(&self, world: &World, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.allocatable(world, id, task)
    }

    fn guards_queues(&self) -> bool {
        true
    }

    fn surplus(&self, world: &World, id: QueueId) -> Option<Amounts> {
        let mut surplus = world.queues[id].held();
        surplus.sub(&self.of(id).deserved);
        surplus.set(DimId::PODS, 0);
        Some(surplus)
    }

    fn unified_evictable(
        &self,
        world: &World,
        kind: EvictionKind,
        _: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let any = of.first().copied()?;
        (kind == EvictionKind::Reclaim).then(|| self.reclaimable(world, any, of))?
    }

    fn keeps(&self, world: &World, _: TaskId, task: TaskId) -> Arc<str> {
        let queue = world.queue_of(task).map_or("", |queue| &world.queues[queue].name);
        format!("in queue {queue}, which has no more than it deserves of what they hold (plugin {NAME})")
            .into()
    }

    fn reclaimable(&self, world: &World, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let mut left: FxHashMap<QueueId, Amounts> = FxHashMap::default();
        let mut take = |task: TaskId| {
            let Some(job) = world.tasks[task].job else { return false };
            let queue = world.jobs[job].queue;
            let held = left.entry(queue).or_insert_with(|| world.queues[queue].held());
            let request = world.request_of(task);
            // Who holds nothing of what its queue has too much of would be taken from it, and it from others, for ever.
            let more = |(dim, held)| {
                dim != DimId::PODS && held > self.of(queue).deserved.get(dim) && request.get(dim) > 0
            };
            let taken = world.queues[queue].exists && held.iter().any(more);
            if taken {
                held.sub(request);
            }
            taken
        };
        Some(of.iter().copied().filter(|task| take(*task)).collect())
    }

    fn job_enqueueable(&self, world: &World, id: JobId) -> Verdict {
        let job = &world.jobs[id];
        let Some(min) = &job.min_resources else { return Verdict::Permit };
        let attributes = self.of(job.queue);
        let mut room = attributes.real_capability.clone();
        room.sub(&attributes.promised);
        room.add(&job.held_of_min_resources());
        let missing: Vec<_> = min.short(&room).collect();
        if missing.is_empty() {
            return Verdict::Permit;
        }
        let queue = &world.queues[job.queue];
        let limit = |(dim, _): &(DimId, i64)| match attributes.real_capability.get(*dim) {
            real if queue.capability.get(*dim) == Some(real) => Limit::Capability,
            real if real < world.total.get(*dim) => Limit::Guarantees(beside(world, job.queue, *dim)),
            _ => Limit::Nodes,
        };
        let limit = Limit::of_all(missing.iter().map(limit));
        Verdict::Reject(Refusal::Promised { plugin: NAME, queue: queue.name.clone(), limit, missing })
    }

    fn job_enqueued(&mut self, world: &World, id: JobId) {
        let queue = world.jobs[id].queue;
        self.attributes[queue.index()].promised.add(&world.inqueue_request(id));
    }

    fn deserved(&self, world: &World, id: QueueId) -> Option<Amounts> {
        world.queues.get(id).filter(|queue| queue.exists)?;
        Some(self.attributes.get(id.index())?.deserved.clone())
    }
}
