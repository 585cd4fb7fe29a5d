//! Whether a queue is overused: it requests more than it deserves of some resource, and its pods are allocated at least
//! what it deserves of each resource but `pods`. A queue that deserves all that it requests has no limits.
use phalanx_resource::DimId;

use super::{NAME, Proportion, guaranteed_beside};
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::{Limit, Overuse, Refusal};
use phalanx_cluster::id::QueueId;

impl Proportion {
    /// Why an overused queue gets no further task; `None` when the queue is not overused.
    ///
    /// Nominated tasks do not count, since they must be able to take the nodes that they are nominated to.
    pub(super) fn overused_refusal(&self, cluster: &Cluster, id: QueueId) -> Option<Refusal> {
        let (queue, attributes) = (&cluster.queues[id], self.of(id));
        let has_all = |(dim, deserved)| dim == DimId::PODS || queue.own.allocated.get(dim) >= deserved;
        if attributes.limits.is_empty() || !attributes.deserved.iter().all(has_all) {
            return None;
        }
        Some(Refusal::Overused {
            plugin: NAME,
            queue: queue.name.clone(),
            why: self.overuse_cause(cluster, id),
        })
    }

    /// Why an overused queue deserves no more, by the resources that its pending tasks request: a capability of 0, the
    /// guarantees of other queues, or its weight.
    fn overuse_cause(&self, cluster: &Cluster, id: QueueId) -> Overuse {
        let (queue, attributes) = (&cluster.queues[id], self.of(id));
        let requested = || queue.own.pending.iter().map(|(dim, _)| dim);
        let barred: Vec<DimId> = requested().filter(|dim| queue.capability.get(*dim) == Some(0)).collect();
        if !barred.is_empty() {
            return Overuse::Barred(barred);
        }
        let limited = || requested().filter(|dim| attributes.limits.get(*dim).is_some());
        let deserves_none = |dim: &DimId| {
            attributes.deserved.get(*dim) == 0
                && matches!(self.limit(cluster, id, *dim), Limit::Guarantees(_))
        };
        let none: Vec<DimId> = limited().filter(deserves_none).collect();
        if let Some(first) = none.first() {
            let beside = guaranteed_beside(cluster, id, *first);
            return Overuse::Guarantees(none, beside);
        }
        let by_weight = limited().any(|dim| matches!(self.limit(cluster, id, dim), Limit::Weight(_)));
        if by_weight { Overuse::Weight } else { Overuse::Full }
    }
}
