//! The attributes of queues, computed when a session opens: what each queue deserves, its limits and its
//! realCapability.
use phalanx_resource::{Amounts, Ceilings, DimId};

use super::NAME;
use crate::shared::flat_queues;
use crate::shared::water_filling::{WeightedDemand, fill};
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{Id, QueueId};

/// Volcano's `queueAttr`.
#[derive(Clone, Debug, Default)]
pub(super) struct ProportionAttributes {
    pub(super) deserved: Amounts,
    /// The limits of [`check_allocatable`](super::Proportion::check_allocatable): `deserved`, where the queue requests
    /// more than that; the capability, where the queue deserves the total.
    pub(super) limits: Ceilings,
    pub(super) real_capability: Amounts,
    /// What admitted jobs of the queue count with.
    pub(super) inqueue: Amounts,
}

/// The attributes of all queues, by queue id.
pub(super) fn attributes_of_queues(cluster: &Cluster) -> Vec<ProportionAttributes> {
    let mut attributes = vec![ProportionAttributes::default(); cluster.queues.bound()];
    let queues = cluster.queues.iter().filter(|(_, queue)| queue.object.exists);
    let demands: Vec<QueueDemand> = queues.map(|(id, _)| QueueDemand::new(cluster, id)).collect();
    for (dim, _) in cluster.dims.iter() {
        divide(cluster, dim, &demands, &mut attributes);
    }
    attributes
}

/// What an existing queue requests.
struct QueueDemand {
    id: QueueId,
    request: Amounts,
    /// The queue has a fault, or a parent, and is not usable.
    is_faulty: bool,
}

impl QueueDemand {
    fn new(cluster: &Cluster, id: QueueId) -> Self {
        let queue = &cluster.queues[id];
        let is_faulty = cluster.queue_fault(id).is_some() || flat_queues::check(cluster, id, NAME).is_err();
        let request = if is_faulty || !cluster.queue_takes_jobs(id) { queue.held() } else { queue.request() };
        Self { id, request, is_faulty }
    }
}

/// Divides one resource among the queues.
fn divide(cluster: &Cluster, dim: DimId, demands: &[QueueDemand], attributes: &mut [ProportionAttributes]) {
    let total = cluster.sums.allocatable.get(dim).max(0);
    let guaranteed = guaranteed(cluster, dim, demands, total);
    let not_guaranteed = total - guaranteed.iter().sum::<i64>();
    let mut weighted = Vec::with_capacity(demands.len());
    for (QueueDemand { id, request, .. }, least) in demands.iter().zip(guaranteed) {
        let queue = &cluster.queues[*id];
        let real = (not_guaranteed + least).min(queue.capability.get(dim).unwrap_or(i64::MAX).max(0));
        attributes[id.index()].real_capability.set(dim, real);
        weighted.push(WeightedDemand {
            name: &queue.name,
            weight: queue.weight,
            least,
            most: least.max(real.min(request.get(dim))),
        });
    }
    for (QueueDemand { id, request, .. }, deserved) in demands.iter().zip(fill(total, &weighted)) {
        let attributes = &mut attributes[id.index()];
        attributes.deserved.set(dim, deserved);
        if dim == DimId::PODS || deserved >= request.get(dim) {
            continue;
        }
        // Pods on deleted nodes may hold more than the total, so the capability still matters there.
        let limit = if deserved < total { Some(deserved) } else { cluster.queues[*id].capability.get(dim) };
        if let Some(limit) = limit {
            attributes.limits.set(dim, limit);
        }
    }
}

/// The guarantees of one resource: each at most the queue's capability, and together at most the total.
fn guaranteed(cluster: &Cluster, dim: DimId, demands: &[QueueDemand], total: i64) -> Vec<i64> {
    let guarantee = |demand: &QueueDemand| {
        let queue = &cluster.queues[demand.id];
        if demand.is_faulty {
            return 0;
        }
        queue.guarantee.get(dim).min(queue.capability.get(dim).unwrap_or(i64::MAX)).max(0)
    };
    let mut guarantees: Vec<i64> = demands.iter().map(guarantee).collect();
    let sum: i128 = guarantees.iter().map(|amount| i128::from(*amount)).sum();
    if sum > i128::from(total) {
        for amount in &mut guarantees {
            *amount = (i128::from(*amount) * i128::from(total) / sum) as i64;
        }
    }
    guarantees
}
