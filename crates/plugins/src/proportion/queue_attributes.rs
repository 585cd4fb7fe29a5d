//! What each queue may have, worked out once for a session.
use phalanx_resource::{Amounts, Ceilings, DimId};

use super::NAME;
use crate::shared::flat_queues;
use crate::shared::water_filling::{WeightedDemand, fill};
use phalanx_cluster::World;
use phalanx_cluster::id::{Id, QueueId};

/// What a queue may have.
#[derive(Clone, Debug, Default)]
pub(super) struct ProportionAttributes {
    pub(super) deserved: Amounts,
    /// `deserved`, where it is less than the queue asks for; its capability, where it deserves all that there is.
    pub(super) limits: Ceilings,
    pub(super) real_capability: Amounts,
    pub(super) promised: Amounts,
}

/// The figures of all queues, by id.
pub(super) fn attributes_of_queues(world: &World) -> Vec<ProportionAttributes> {
    let mut all = vec![ProportionAttributes::default(); world.queues.bound()];
    let queues = world.queues.iter().filter(|(_, queue)| queue.exists);
    let parties: Vec<QueueDemand> = queues.map(|(id, _)| QueueDemand::new(world, id)).collect();
    for (dim, _) in world.dims.iter() {
        divide(world, dim, &parties, &mut all);
    }
    all
}

/// A queue that takes part.
struct QueueDemand {
    id: QueueId,
    /// What it asks for.
    request: Amounts,
    /// Its fault, or its parent, keeps it from being used.
    broken: bool,
}

impl QueueDemand {
    fn new(world: &World, id: QueueId) -> Self {
        let queue = &world.queues[id];
        let broken = world.queue_fault(id).is_some() || flat_queues::check(world, id, NAME).is_err();
        let request = if broken || !world.queue_takes_jobs(id) { queue.held() } else { queue.request() };
        Self { id, request, broken }
    }
}

/// Divides one resource among queues.
fn divide(world: &World, dim: DimId, parties: &[QueueDemand], all: &mut [ProportionAttributes]) {
    let total = world.total.get(dim).max(0);
    let guaranteed = guaranteed(world, dim, parties, total);
    let spare = total - guaranteed.iter().sum::<i64>();
    let mut claims = Vec::with_capacity(parties.len());
    for (QueueDemand { id, request, .. }, least) in parties.iter().zip(guaranteed) {
        let queue = &world.queues[*id];
        let real = (spare + least).min(queue.capability.get(dim).unwrap_or(i64::MAX).max(0));
        all[id.index()].real_capability.set(dim, real);
        claims.push(WeightedDemand {
            name: &queue.name,
            weight: queue.weight,
            least,
            most: least.max(real.min(request.get(dim))),
        });
    }
    for (QueueDemand { id, request, .. }, deserved) in parties.iter().zip(fill(total, &claims)) {
        let attributes = &mut all[id.index()];
        attributes.deserved.set(dim, deserved);
        if dim == DimId::PODS || deserved >= request.get(dim) {
            continue;
        }
        // Pods on nodes that are gone may hold more than there is.
        let limit = if deserved < total { Some(deserved) } else { world.queues[*id].capability.get(dim) };
        if let Some(limit) = limit {
            attributes.limits.set(dim, limit);
        }
    }
}

/// What queues are guaranteed of one resource: no more than their capability, and in sum no more than there is.
fn guaranteed(world: &World, dim: DimId, parties: &[QueueDemand], total: i64) -> Vec<i64> {
    let of = |party: &QueueDemand| {
        let queue = &world.queues[party.id];
        if party.broken {
            return 0;
        }
        queue.guarantee.get(dim).min(queue.capability.get(dim).unwrap_or(i64::MAX)).max(0)
    };
    let mut list: Vec<i64> = parties.iter().map(of).collect();
    let sum: i128 = list.iter().map(|amount| i128::from(*amount)).sum();
    if sum > i128::from(total) {
        for amount in &mut list {
            *amount = (i128::from(*amount) * i128::from(total) / sum) as i64;
        }
    }
    list
}
