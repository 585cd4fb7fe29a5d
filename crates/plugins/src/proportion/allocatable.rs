//! Whether a queue may have one more task: `held + request ≤ deserved` in each resource that the task requests.
use phalanx_resource::DimId;

use super::{NAME, Proportion, guaranteed_beside, held};
use crate::shared::gang_excess::gang_excess;
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::{Limit, Refusal};
use phalanx_cluster::id::{QueueId, TaskId};

impl Proportion {
    pub(super) fn check_allocatable(
        &self,
        cluster: &Cluster,
        id: QueueId,
        task: TaskId,
    ) -> Result<(), Refusal> {
        let (queue, attributes) = (&cluster.queues[id], self.of(id));
        let request = cluster.request_of(task);
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
        let (limit, gang) = (self.limit_of_all(cluster, id, &over), gang_excess(cluster, task, &over));
        Err(Refusal::Quota { plugin: NAME, queue: queue.name.clone(), limit, over, gang })
    }

    /// The constraint behind the limit of a queue for a resource. For a limit that is the deserved amount, the
    /// constraint that an operator would change is named: the capability or the guarantees of others, where `deserved`
    /// has reached them, else the weight.
    pub(super) fn limit(&self, cluster: &Cluster, id: QueueId, dim: DimId) -> Limit {
        let (queue, attributes) = (&cluster.queues[id], self.of(id));
        let (deserved, total) = (attributes.deserved.get(dim), cluster.sums.allocatable.get(dim));
        match attributes.limits.get(dim) == queue.capability.get(dim) {
            true => Limit::Capability,
            false if deserved >= attributes.real_capability.get(dim) => {
                Limit::Guarantees(guaranteed_beside(cluster, id, dim))
            }
            false => Limit::Weight(vec![(dim, deserved, total)]),
        }
    }

    /// The constraint behind the limits of several resources: the weight, where it limits any of them.
    fn limit_of_all(&self, cluster: &Cluster, id: QueueId, over: &[(DimId, i64)]) -> Limit {
        let limits = || over.iter().map(|(dim, _)| self.limit(cluster, id, *dim));
        let by_weight =
            limits().filter_map(|limit| if let Limit::Weight(part) = limit { Some(part) } else { None });
        let by_weight: Vec<_> = by_weight.flatten().collect();
        if by_weight.is_empty() { Limit::of_all(limits()) } else { Limit::Weight(by_weight) }
    }
}
