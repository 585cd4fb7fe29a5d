//! Whether a queue may have one more task, within its realCapability and that of its ancestors.
use phalanx_resource::{Ceilings, DimId};

use super::guarantees::GuaranteeRefusal;
use super::{Capacity, NAME, devices};
use crate::shared::gang_excess::gang_excess;
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::{Beside, Limit, Refusal};
use phalanx_cluster::id::{QueueId, TaskId};

impl Capacity {
    /// Whether a task is within the realCapability of its queue and of each ancestor, and leaves the guarantees of
    /// others.
    pub(super) fn check_allocatable(
        &self,
        cluster: &Cluster,
        queue: QueueId,
        task: TaskId,
    ) -> Result<(), Refusal> {
        self.check_limits(cluster, queue, task, None, |id| &self.of(id).allocatable_limits)?;
        let request = self.request(cluster, queue, task);
        match self.guarantees.refusal(cluster, &self.devices, queue, &request) {
            None => Ok(()),
            Some(GuaranteeRefusal { queue, limit, over }) => {
                Err(quota_refusal(cluster, queue, task, limit, over))
            }
        }
    }

    /// Whether a task is within these limits of its queue and of each ancestor. With `only_held_by`, what that queue
    /// holds counts in each ancestor, instead of all that the ancestor holds.
    pub(super) fn check_limits<'w>(
        &'w self,
        cluster: &'w Cluster,
        queue: QueueId,
        task: TaskId,
        only_held_by: Option<QueueId>,
        limits: impl Fn(QueueId) -> &'w Ceilings,
    ) -> Result<(), Refusal> {
        let over = |id: QueueId| self.over(cluster, only_held_by.unwrap_or(id), task, limits(id));
        let Some(id) = self.path(cluster, queue).find(|id| over(*id).next().is_some()) else { return Ok(()) };
        let over: Vec<_> = over(id).collect();
        let limit = self.limit(cluster, id, limits(id), &over);
        Err(quota_refusal(cluster, id, task, limit, over))
    }

    /// By how much a queue would exceed these limits with one more task.
    fn over<'a>(
        &'a self,
        cluster: &'a Cluster,
        id: QueueId,
        task: TaskId,
        limits: &'a Ceilings,
    ) -> impl Iterator<Item = (DimId, i64)> {
        let request = self.request(cluster, id, task);
        limits.iter().filter_map(move |(dim, limit)| {
            let need = request.get(dim);
            let held = self.held(cluster, id, dim) + self.ungated.reserved_beside(cluster, id, task, dim);
            let over = held.saturating_add(need).saturating_sub(limit);
            (need > 0 && over > 0).then_some((dim, over))
        })
    }

    /// The constraint behind these limits of a queue.
    pub(super) fn limit(
        &self,
        cluster: &Cluster,
        id: QueueId,
        limits: &Ceilings,
        over: &[(DimId, i64)],
    ) -> Limit {
        let capability = &cluster.queues[id].capability;
        let of_dim = |(dim, _): &(DimId, i64)| {
            let limit = limits.get(*dim);
            let is_total = || !self.tree && limit == Some(devices::total(cluster, *dim));
            match limit == capability.get(*dim) {
                true => Limit::Capability,
                false if is_total() => Limit::Nodes,
                false => Limit::Guarantees(self.guaranteed_siblings(cluster, id, *dim)),
            }
        };
        Limit::of_all(over.iter().map(of_dim))
    }

    /// The siblings of a queue that are guaranteed an amount of a resource.
    fn guaranteed_siblings(&self, cluster: &Cluster, id: QueueId, dim: DimId) -> Beside {
        let parent = self.parent(cluster, id);
        let siblings =
            cluster.queues.iter().filter(|(other, _)| *other != id && self.parent(cluster, *other) == parent);
        Beside::of(siblings.map(|(other, queue)| (self.of(other).reserved_guarantee(dim), &queue.name)))
    }
}

/// The refusal of a task that would take a queue over a limit.
pub(super) fn quota_refusal(
    cluster: &Cluster,
    id: QueueId,
    task: TaskId,
    limit: Limit,
    over: Vec<(DimId, i64)>,
) -> Refusal {
    let gang = gang_excess(cluster, task, &over);
    Refusal::Quota { plugin: NAME, queue: cluster.queues[id].name.clone(), limit, over, gang }
}
