//! proportion: queues share the cluster by weight.
//!
//! Per resource, over the queues that exist, where *total* is the allocatable of all nodes:
//! - `guaranteed = min(guarantee, capability)`; guarantees that add up to more than the total are cut in proportion;
//! - `realCapability = min(total − Σ guaranteed of the other queues, capability)`; a queue without a capability has no
//!   such limit;
//! - `deserved` is at least `guaranteed`, at most `max(guaranteed, min(request, realCapability))`, and divided by
//!   weight in between (water filling, see [`water_filling`](crate::shared::water_filling)). *request* is what all jobs
//!   of the queue request, allocated or pending; a queue that takes no jobs requests only what its pods hold. Deserved
//!   amounts add up to the total where jobs request as much, and never to more.
//!
//! With *held* for what the pods of a queue are allocated or nominated for:
//! - queue order: larger `spec.priority` first, then smaller share, `max over resources of held / deserved`;
//! - a queue is overused when its pods are allocated all that the queue deserves (file `overused`);
//! - a task is allocatable when `held + request ≤ deserved` in each resource that the task requests (file
//!   `allocatable`). Two kinds of resources are left to the nodes, whose reasons say more: `pods`, and those of which
//!   the queue deserves the total or all that it requests;
//! - a task is reclaimable while its queue, without the victims before the task, holds more than it deserves of a
//!   resource that the task requests (file `reclaimable`);
//! - a job is enqueueable when `inqueue + minResources ≤ realCapability` in each resource that minResources name. An
//!   Inqueue job, or a Running one with `minMember` allocated pods, counts in *inqueue* with its minResources; any
//!   other job with the part of its minResources that its pods hold. Elastic pods, those beyond minResources, do not
//!   count, nor does what pods behind scheduling gates request.
//!
//! A queue with a parent other than `root` is refused: its jobs wait. Neither such a queue nor one with another fault
//! is guaranteed anything, so other queues get what they would get without it.
//!
//! Source: Volcano's proportion plugin; *inqueue* here is Volcano's `allocated + inqueue − elastic`, job by job.
//! Differences: deserved amounts are exact and do not depend on the order of queues, where Volcano stops after some
//! rounds; a queue without jobs takes part with its guarantee, so that no amount is given to two queues; Volcano
//! ignores `parent`.
mod allocatable;
mod overused;
mod queue_attributes;
mod reclaimable;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};

use crate::shared::flat_queues;
use crate::shared::share::Share;
use phalanx_cluster::diagnosis::{Beside, Limit, QueueFault, Refusal};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Queue, World};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{EnqueueVote, EvictionKind, Plugin, PluginDef, QueueGuard};
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
            for (queue, inqueue) in world.claimed_by_queue() {
                attributes[queue.index()].inqueue.add(&inqueue);
            }
        }
        Self { attributes }
    }

    fn of(&self, queue: QueueId) -> &ProportionAttributes {
        &self.attributes[queue.index()]
    }

    /// The dominant share of a queue: the largest `held / deserved` over all resources.
    fn share(&self, world: &World, id: QueueId) -> Share {
        let (queue, deserved) = (&world.queues[id], &self.of(id).deserved);
        let of_dim = |at: usize| {
            let dim = DimId(at as u16);
            Share::new(held(queue, dim), deserved.get(dim))
        };
        Share::largest((0..world.dims.len()).map(of_dim))
    }

    /// What keeps `minResources` of a job from its queue: the constraint behind the realCapability of each missing
    /// resource.
    fn enqueue_limit(&self, world: &World, id: QueueId, missing: &[(DimId, i64)]) -> Limit {
        let capability = &world.queues[id].capability;
        let limit = |(dim, _): &(DimId, i64)| match self.of(id).real_capability.get(*dim) {
            real if capability.get(*dim) == Some(real) => Limit::Capability,
            real if real < world.total.get(*dim) => Limit::Guarantees(guaranteed_beside(world, id, *dim)),
            _ => Limit::Nodes,
        };
        Limit::of_all(missing.iter().map(limit))
    }
}

/// The other queues that are guaranteed an amount of a resource.
fn guaranteed_beside(world: &World, id: QueueId, dim: DimId) -> Beside {
    let is_usable = |other: QueueId| {
        world.queues[other].exists
            && world.queue_fault(other).is_none()
            && flat_queues::check(world, other, NAME).is_ok()
    };
    let others = world.queues.iter().filter(|(other, _)| *other != id && is_usable(*other));
    Beside::of(others.map(|(_, queue)| (queue.guarantee.get(dim), &queue.name)))
}

#[inline]
fn held(queue: &Queue, dim: DimId) -> i64 {
    queue.own.held(dim)
}

impl Plugin for Proportion {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
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
        self.overused_refusal(world, id)
    }

    fn allocatable(&self, world: &World, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.check_allocatable(world, id, task)
    }

    fn preemptive(&self, world: &World, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.check_allocatable(world, id, task)
    }

    fn unified_evictable(
        &self,
        world: &World,
        kind: EvictionKind,
        _: TaskId,
        evictees: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if evictees.is_empty() || kind != EvictionKind::Reclaim {
            return None;
        }
        Some(self.victims(world, evictees))
    }

    fn keep_reason(&self, world: &World, _: TaskId, task: TaskId) -> Arc<str> {
        let queue = world.queue_of(task).map_or("", |queue| &world.queues[queue].name);
        format!("in queue {queue}, which has no more than it deserves of what they hold (plugin {NAME})")
            .into()
    }

    fn reclaimable(&self, world: &World, _: TaskId, reclaimees: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(self.victims(world, reclaimees))
    }

    fn job_enqueueable(&self, world: &World, id: JobId) -> EnqueueVote {
        let job = &world.jobs[id];
        let Some(min_resources) = &job.min_resources else { return EnqueueVote::Permit };
        let attributes = self.of(job.queue);
        let mut free = attributes.real_capability.clone();
        free.sub(&attributes.inqueue);
        free.add(&job.held_of_min_resources());
        let missing: Vec<_> = min_resources.short(&free).collect();
        if missing.is_empty() {
            return EnqueueVote::Permit;
        }
        let limit = self.enqueue_limit(world, job.queue, &missing);
        let queue = world.queues[job.queue].name.clone();
        EnqueueVote::Reject(Refusal::Promised { plugin: NAME, queue, limit, missing })
    }

    fn job_enqueued(&mut self, world: &World, id: JobId) {
        let queue = world.jobs[id].queue;
        self.attributes[queue.index()].inqueue.add(&world.inqueue_request(id));
    }

    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        Some(self)
    }
}

impl QueueGuard for Proportion {
    fn surplus(&self, world: &World, id: QueueId) -> Option<Amounts> {
        Some(self.beyond_deserved(world, id))
    }

    fn deserved(&self, world: &World, id: QueueId) -> Option<Amounts> {
        world.queues.get(id).filter(|queue| queue.exists)?;
        Some(self.attributes.get(id.index())?.deserved.clone())
    }
}
