//! What each queue may have, is guaranteed and deserves, worked out from the top of the tree down.
use phalanx_resource::{Amounts, Ceilings, DimId};

use super::devices::{counts, idle_quota, total};
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::{Id, QueueId};
use phalanx_cluster::{Queue, World};

/// The figures of a queue.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityAttributes {
    /// What is kept for it, as far as there is so much.
    pub(super) guarantee: Amounts,
    /// What it deserves; empty for a queue that deserves nothing in particular.
    pub(super) deserved: Ceilings,
    /// What is kept for the queues right below it.
    reserved: Amounts,
    /// What it can have of the cluster as it is: `realCapability`, but never more than there is.
    pub(super) room: Amounts,
    /// `realCapability`, which no queue above `root` limits.
    real: Ceilings,
    /// What its jobs may be promised: `real` where it says more than the queue above does.
    pub(super) admits: Ceilings,
    /// `room` where it says more than the queue above and the nodes do, else the capability.
    pub(super) limits: Ceilings,
    /// What its jobs, and those below it, were promised.
    pub(super) promised: Amounts,
    /// Its quotas and those of its children do not add up.
    pub(super) warning: Option<QueueFault>,
    /// It cannot be used: nothing is kept for it.
    broken: bool,
}

impl CapacityAttributes {
    /// What has to stay free for it until it holds as much.
    pub(super) fn reserved_guarantee(&self, dim: DimId) -> i64 {
        if self.broken { 0 } else { self.guarantee.get(dim) }
    }
}

/// The figures of all queues, by id.
pub(super) fn attributes_of_queues(
    world: &World,
    tree: bool,
    counts_devices: bool,
    broken: impl Fn(QueueId) -> bool,
) -> Vec<CapacityAttributes> {
    let mut builder = AttributesBuilder {
        world,
        tree,
        counts_devices,
        standings: vec![CapacityAttributes::default(); world.queues.bound()],
    };
    let mut order: Vec<(usize, QueueId)> =
        world.queues.ids().map(|id| (if tree { world.queue_depth(id) } else { 0 }, id)).collect();
    order.sort_unstable();
    for (_, id) in order.iter().rev() {
        builder.take_figures(*id, broken(*id));
    }
    let reserved = builder.reserved_flat();
    for (_, id) in &order {
        builder.divide(*id, &reserved);
    }
    builder.standings
}

struct AttributesBuilder<'w> {
    world: &'w World,
    tree: bool,
    counts_devices: bool,
    standings: Vec<CapacityAttributes>,
}

/// What a queue has above it, of one resource.
struct ParentAmounts {
    /// There are the nodes only.
    is_cluster: bool,
    room: i64,
    real: Option<i64>,
    /// What is kept for the queue and those beside it; `None` when it stands alone.
    reserved: Option<i64>,
}

impl AttributesBuilder<'_> {
    fn above(&self, id: QueueId) -> Option<QueueId> {
        if self.tree { self.world.queue_above(id) } else { None }
    }

    /// A queue's own figures, before those of the queue above it: what it leaves open is what its children add up to.
    fn take_figures(&mut self, id: QueueId, broken: bool) {
        let queue = &self.world.queues[id];
        let below = &self.standings[id.index()];
        let odd = || if self.tree { warning(self.world, id, below) } else { None };
        let warning = idle_quota(self.world, id, self.counts_devices).or_else(odd);
        let mut guarantee = below.reserved.clone();
        for (dim, amount) in
            queue.guarantee.iter().filter(|(dim, _)| counts(self.world, *dim, self.counts_devices))
        {
            guarantee.set(dim, amount);
        }
        for (dim, most) in queue.capability.iter() {
            guarantee.set(dim, guarantee.get(dim).min(most));
        }
        let mut deserved = below.deserved.clone();
        for (dim, amount) in
            queue.deserved.iter().filter(|(dim, _)| counts(self.world, *dim, self.counts_devices))
        {
            deserved.set(dim, amount);
        }
        let attributes = &mut self.standings[id.index()];
        (attributes.guarantee, attributes.deserved) = (guarantee, deserved);
        (attributes.warning, attributes.broken) = (warning.filter(|_| !broken), broken);
        if let Some(above) = self.above(id).filter(|_| queue.exists && !broken) {
            self.add_to(above, id);
        }
    }

    fn add_to(&mut self, above: QueueId, id: QueueId) {
        let CapacityAttributes { guarantee, deserved, .. } = self.standings[id.index()].clone();
        let above = &mut self.standings[above.index()];
        above.reserved.add(&guarantee);
        for (dim, amount) in deserved.iter() {
            above.deserved.set(dim, above.deserved.get(dim).unwrap_or(0).saturating_add(amount));
        }
    }

    /// What is kept for all queues, where they all stand side by side.
    fn reserved_flat(&self) -> Amounts {
        let mut reserved = Amounts::new();
        for (id, queue) in self.world.queues.iter() {
            let attributes = &self.standings[id.index()];
            if !self.tree && queue.exists && !attributes.broken {
                reserved.add(&attributes.guarantee);
            }
        }
        reserved
    }

    /// What a queue, or the cluster, has for those right below it.
    fn has(&self, above: Option<QueueId>, dim: DimId, reserved_flat: &Amounts) -> ParentAmounts {
        if let Some(above) = above.map(|above| &self.standings[above.index()]) {
            let (room, reserved) = (above.room.get(dim), above.reserved.get(dim));
            return ParentAmounts {
                is_cluster: false,
                room,
                real: above.real.get(dim),
                reserved: Some(reserved),
            };
        }
        let room = total(self.world, dim);
        if self.tree {
            return ParentAmounts { is_cluster: true, room, real: None, reserved: None };
        }
        ParentAmounts { is_cluster: true, room, real: Some(room), reserved: Some(reserved_flat.get(dim)) }
    }

    fn divide(&mut self, id: QueueId, reserved_flat: &Amounts) {
        let above = self.above(id);
        for (dim, _) in self.world.dims.iter() {
            let above = self.has(above, dim, reserved_flat);
            divide(&self.world.queues[id], dim, &above, &mut self.standings[id.index()]);
        }
    }
}

/// One resource for one queue.
fn divide(queue: &Queue, dim: DimId, above: &ParentAmounts, attributes: &mut CapacityAttributes) {
    let capability = queue.capability.get(dim);
    let most = capability.unwrap_or(i64::MAX);
    let written = attributes.guarantee.get(dim);
    let kept = if attributes.broken { 0 } else { written };
    let reserved = above.reserved.unwrap_or(kept);
    let (room, guarantee) = part(above.room, reserved, kept);
    attributes.room.set(dim, room.min(most));
    attributes.guarantee.set(dim, if attributes.broken { written } else { guarantee });
    let whole = above.real.unwrap_or(i64::MAX);
    let left = above.real.map_or(whole, |real| part(real, reserved, kept).0);
    let real = left.min(most);
    if real < i64::MAX {
        attributes.real.set(dim, real);
    }
    // What the queue above says as well is for that one to say.
    let own = |whole: i64, part: i64| if part < whole { Some(part.min(most)) } else { capability };
    if let Some(limit) = own(above.room, room) {
        attributes.limits.set(dim, limit);
    }
    let promised = if above.is_cluster && above.real.is_some() { Some(real) } else { own(whole, left) };
    if let Some(limit) = promised {
        attributes.admits.set(dim, limit);
    }
    let least = Some(guarantee).filter(|amount| *amount > 0);
    if let Some(deserved) = attributes.deserved.get(dim).map(|amount| amount.min(real)).max(least) {
        attributes.deserved.set(dim, deserved);
    }
}

/// What one of several can have of a whole, with what is kept for the others taken off, and what is kept for it. Where more
/// is to be kept than there is, all are cut in proportion.
fn part(whole: i64, reserved: i64, kept: i64) -> (i64, i64) {
    if reserved <= whole {
        return (whole - reserved + kept, kept);
    }
    let kept = (i128::from(whole) * i128::from(kept) / i128::from(reserved)) as i64;
    (kept, kept)
}

/// What does not add up between a queue and its children, or the queues above it.
fn warning(world: &World, id: QueueId, below: &CapacityAttributes) -> Option<QueueFault> {
    let queue = &world.queues[id];
    if queue.is_root() {
        return None;
    }
    let least: Ceilings = queue.guarantee.iter().collect();
    let reserved: Ceilings = below.reserved.iter().collect();
    children("guarantee", &reserved, &least, queue)
        .or_else(|| children("deserved", &below.deserved, &queue.deserved, queue))
        .or_else(|| wider(world, id))
}

fn children(what: &'static str, sum: &Ceilings, own: &Ceilings, queue: &Queue) -> Option<QueueFault> {
    let over = |(dim, sum): (DimId, i64)| {
        let most = own.get(dim).or(queue.capability.get(dim))?;
        (sum > most).then_some((dim, sum - most))
    };
    let over: Vec<_> = sum.iter().filter_map(over).collect();
    (!over.is_empty()).then_some(QueueFault::Children { what, over })
}

fn wider(world: &World, id: QueueId) -> Option<QueueFault> {
    let capability = &world.queues[id].capability;
    let above = world.queue_path(id).skip(1).map(|above| &world.queues[above]);
    above.filter(|above| !above.is_root()).find_map(|above| {
        let over = capability.iter().filter_map(|(dim, most)| {
            let limit = above.capability.get(dim)?;
            (most > limit).then_some((dim, most - limit))
        });
        let over: Vec<_> = over.collect();
        (!over.is_empty()).then(|| QueueFault::Wider { ancestor: above.name.clone(), over })
    })
}
