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
//! - a queue is overused when it requests more than it deserves of a resource, and its pods are allocated at least what
//!   it deserves of each resource but `pods` (file `overused`);
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
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Queue};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{
    EnqueueVote, Eviction, EvictionKind, Plugin, PluginDef, QueueAttributes, QueueGuard,
};
use queue_attributes::{ProportionAttributes, attributes_of_queues};

const NAME: &str = "proportion";

const ARGS: &[ArgSpec] = &[];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Queues share the cluster by weight, between their guarantee and their capability.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Proportion::open(opening.cluster)),
};

struct Proportion {
    /// By queue id.
    attributes: Vec<ProportionAttributes>,
}

impl Proportion {
    fn open(cluster: &Cluster) -> Self {
        let mut attributes = attributes_of_queues(cluster);
        if cluster.any_asks() {
            for (queue, inqueue) in cluster.claimed_by_queue() {
                attributes[queue.index()].inqueue.add(&inqueue);
            }
        }
        Self { attributes }
    }

    fn of(&self, queue: QueueId) -> &ProportionAttributes {
        &self.attributes[queue.index()]
    }

    /// The dominant share of a queue: the largest `held / deserved` over all resources.
    fn share(&self, cluster: &Cluster, id: QueueId) -> Share {
        let (queue, deserved) = (&cluster.queues[id], &self.of(id).deserved);
        let of_dim = |at: usize| {
            let dim = DimId(at as u16);
            Share::new(held(queue, dim), deserved.get(dim))
        };
        Share::largest((0..cluster.dims.len()).map(of_dim))
    }

    /// What keeps `minResources` of a job from its queue: the constraint behind the realCapability of each missing
    /// resource.
    fn enqueue_limit(&self, cluster: &Cluster, id: QueueId, missing: &[(DimId, i64)]) -> Limit {
        let capability = &cluster.queues[id].capability;
        let limit = |(dim, _): &(DimId, i64)| match self.of(id).real_capability.get(*dim) {
            real if capability.get(*dim) == Some(real) => Limit::Capability,
            real if real < cluster.sums.allocatable.get(*dim) => {
                Limit::Guarantees(guaranteed_beside(cluster, id, *dim))
            }
            _ => Limit::Nodes,
        };
        Limit::of_all(missing.iter().map(limit))
    }
}

/// The other queues that are guaranteed an amount of a resource.
fn guaranteed_beside(cluster: &Cluster, id: QueueId, dim: DimId) -> Beside {
    let is_usable = |other: QueueId| {
        cluster.queues[other].object.exists
            && cluster.queue_fault(other).is_none()
            && flat_queues::check(cluster, other, NAME).is_ok()
    };
    let others = cluster.queues.iter().filter(|(other, _)| *other != id && is_usable(*other));
    Beside::of(others.map(|(_, queue)| (queue.guarantee.get(dim), &queue.name)))
}

#[inline]
fn held(queue: &Queue, dim: DimId) -> i64 {
    queue.own.held(dim)
}

impl Plugin for Proportion {
    fn queue_order(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        let priority = |id| cluster.queues[id].priority;
        priority(b).cmp(&priority(a)).then_with(|| self.share(cluster, a).cmp(&self.share(cluster, b)))
    }

    fn queue_valid(&self, cluster: &Cluster, id: QueueId) -> Result<(), QueueFault> {
        flat_queues::check(cluster, id, NAME)
    }

    fn overused(&self, cluster: &Cluster, id: QueueId) -> Option<Refusal> {
        self.overused_refusal(cluster, id)
    }

    fn allocatable(&self, cluster: &Cluster, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.check_allocatable(cluster, id, task)
    }

    fn preemptive(&self, cluster: &Cluster, id: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.check_allocatable(cluster, id, task)
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let nothing = eviction.whole_gangs && of.is_empty();
        (eviction.kind == EvictionKind::Reclaim && !nothing).then(|| self.victims(cluster, of))
    }

    fn keep_reason(&self, cluster: &Cluster, _: TaskId, task: TaskId) -> Arc<str> {
        let queue = cluster.queue_of(task).map_or("", |queue| &cluster.queues[queue].name);
        format!("in queue {queue}, which has no more than it deserves of what they hold (plugin {NAME})")
            .into()
    }

    fn job_enqueueable(&self, cluster: &Cluster, id: JobId) -> EnqueueVote {
        let job = &cluster.jobs[id];
        let Some(min_resources) = &job.minimum.resources else { return EnqueueVote::Permit };
        let attributes = self.of(job.queue);
        let mut free = attributes.real_capability.clone();
        free.sub(&attributes.inqueue);
        free.add(&job.held_of_min_resources());
        let missing: Vec<_> = min_resources.short(&free).collect();
        if missing.is_empty() {
            return EnqueueVote::Permit;
        }
        let limit = self.enqueue_limit(cluster, job.queue, &missing);
        let queue = cluster.queues[job.queue].name.clone();
        EnqueueVote::Reject(Refusal::InqueueLimit { plugin: NAME, queue, limit, missing })
    }

    fn job_enqueued(&mut self, cluster: &Cluster, id: JobId) {
        let queue = cluster.jobs[id].queue;
        self.attributes[queue.index()].inqueue.add(&cluster.inqueue_request(id));
    }

    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        Some(self)
    }
}

impl QueueGuard for Proportion {
    fn beyond_deserved(&self, cluster: &Cluster, id: QueueId) -> Option<Amounts> {
        Some(self.beyond_deserved(cluster, id))
    }

    fn attributes(&self, cluster: &Cluster, id: QueueId) -> Option<QueueAttributes> {
        cluster.queues.get(id).filter(|queue| queue.object.exists)?;
        let ProportionAttributes { deserved, real_capability, .. } = self.attributes.get(id.index())?;
        let share = self.share(cluster, id).as_number();
        Some(QueueAttributes { deserved: deserved.clone(), real_capability: real_capability.clone(), share })
    }
}
