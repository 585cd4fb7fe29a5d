//! What has to stay free of what the cluster has, so that every queue can still get its guarantee.
//!
//! A queue *claims* its guarantee, or what it holds and the queues below it claim, whichever is more. The claims of queues
//! side by side must fit in what the queue above them can have, the topmost in the cluster. A task is too much when it would
//! make some queue claim more, and there is no room for that beside the claims of others.
use phalanx_resource::{Amounts, DimId};

use super::devices::{DeviceQuotas, total};
use super::queue_attributes::CapacityAttributes;
use phalanx_cluster::World;
use phalanx_cluster::diagnosis::{Beside, Limit};
use phalanx_cluster::id::{Id, QueueId};

/// Claims by queue, of the resources that anything is guaranteed of. Nothing at all when nothing is.
#[derive(Debug, Default)]
pub(super) struct GuaranteeReserve {
    tree: bool,
    dims: Vec<DimId>,
    /// By queue, and one more for the cluster: a line of figures by resource.
    lines: Vec<Vec<GuaranteeDemand>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct GuaranteeDemand {
    guarantee: i64,
    /// What the queues right below can have in sum.
    room: i64,
    claim: i64,
    held: i64,
    /// Of the queues right below.
    claims_below: i64,
    held_below: i64,
}

/// A queue that a request would make claim too much.
pub(super) struct GuaranteeRefusal {
    pub(super) queue: QueueId,
    /// What it would claim from others.
    pub(super) limit: Limit,
    pub(super) over: Vec<(DimId, i64)>,
}

impl GuaranteeReserve {
    pub(super) fn new(
        world: &World,
        tree: bool,
        standings: &[CapacityAttributes],
        devices: &DeviceQuotas,
    ) -> Self {
        let is_kept = |dim: &DimId| {
            standings.iter().any(|queue_attributes| queue_attributes.reserved_guarantee(*dim) > 0)
        };
        let dims: Vec<DimId> = world.dims.iter().map(|(dim, _)| dim).filter(is_kept).collect();
        if dims.is_empty() {
            return Self::default();
        }
        let line = |queue_attributes: &CapacityAttributes| -> Vec<GuaranteeDemand> {
            let figures = |dim: &DimId| GuaranteeDemand {
                guarantee: queue_attributes.reserved_guarantee(*dim),
                room: queue_attributes.room.get(*dim),
                ..GuaranteeDemand::default()
            };
            dims.iter().map(figures).collect()
        };
        let mut lines: Vec<Vec<GuaranteeDemand>> = standings.iter().map(line).collect();
        let cluster =
            |dim: &DimId| GuaranteeDemand { room: total(world, *dim), ..GuaranteeDemand::default() };
        lines.push(dims.iter().map(cluster).collect());
        let mut kept = Self { tree, dims, lines };
        for id in world.queues.ids() {
            kept.update(world, devices, id);
        }
        kept
    }

    /// Whether there is anything to keep.
    pub(super) fn is_any(&self) -> bool {
        !self.dims.is_empty()
    }

    fn above(&self, world: &World, queue: QueueId) -> Option<QueueId> {
        if self.tree { world.queue_above(queue) } else { None }
    }

    /// The line of the queue above, or that of the cluster.
    fn line(&self, above: Option<QueueId>) -> usize {
        above.map_or(self.lines.len() - 1, QueueId::index)
    }

    /// What a queue holds has changed.
    pub(super) fn update(&mut self, world: &World, devices: &DeviceQuotas, queue: QueueId) {
        let mut at = Some(queue).filter(|_| self.is_any());
        while let Some(id) = at {
            at = self.above(world, id);
            let above = self.line(at);
            for slot in 0..self.dims.len() {
                let mut it = self.lines[id.index()][slot];
                let held = own(world, devices, id, self.dims[slot]);
                let claim = it.guarantee.max(held + it.claims_below);
                let held = held + it.held_below;
                let family = &mut self.lines[above][slot];
                family.claims_below += claim - it.claim;
                family.held_below += held - it.held;
                (it.claim, it.held) = (claim, held);
                self.lines[id.index()][slot] = it;
            }
        }
    }

    /// The first queue on the way up, if any, that a request would make claim what others are to keep.
    pub(super) fn refuses(
        &self,
        world: &World,
        devices: &DeviceQuotas,
        queue: QueueId,
        request: &Amounts,
    ) -> Option<GuaranteeRefusal> {
        let need = |slot: usize| request.get(self.dims[slot]);
        let over = |slot: usize| self.too_much(world, devices, queue, (slot, need(slot)));
        let (queue, _) = (0..self.dims.len()).find_map(over)?;
        let here = |slot| over(slot).filter(|(id, _)| *id == queue).map(|(_, over)| (slot, over));
        let over: Vec<_> = (0..self.dims.len()).filter_map(here).collect();
        let kept = over.iter().find(|(slot, _)| self.is_kept_beside(world, queue, *slot));
        let limit = kept.map_or(Limit::Left, |(slot, _)| Limit::Guarantees(self.beside(world, queue, *slot)));
        let over = over.into_iter().map(|(slot, over)| (self.dims[slot], over)).collect();
        Some(GuaranteeRefusal { queue, limit, over })
    }

    /// Whether queues beside one are guaranteed more than they hold.
    fn is_kept_beside(&self, world: &World, queue: QueueId, slot: usize) -> bool {
        let above = self.line(self.above(world, queue));
        let (it, family) = (&self.lines[queue.index()][slot], &self.lines[above][slot]);
        family.claims_below - it.claim > family.held_below - it.held
    }

    /// Those of them that are.
    fn beside(&self, world: &World, queue: QueueId, slot: usize) -> Beside {
        let above = self.above(world, queue);
        let others = world.queues.iter().filter(|(id, _)| *id != queue && self.above(world, *id) == above);
        Beside::of(others.map(|(id, other)| {
            let it = &self.lines[id.index()][slot];
            (it.claim - it.held, &other.name)
        }))
    }

    fn too_much(
        &self,
        world: &World,
        devices: &DeviceQuotas,
        queue: QueueId,
        (slot, need): (usize, i64),
    ) -> Option<(QueueId, i64)> {
        let mut more = need;
        let mut at = Some(queue).filter(|_| need > 0);
        while let Some(id) = at {
            at = self.above(world, id);
            let (it, family) = (&self.lines[id.index()][slot], &self.lines[self.line(at)][slot]);
            let held = own(world, devices, id, self.dims[slot]);
            let claim = it.guarantee.max(held + it.claims_below + more);
            more = claim - it.claim;
            if more <= 0 {
                return None;
            }
            let over = family.claims_below + more - family.room;
            // Without a claim that is not met, there is no room for anybody: the nodes' own reasons say more.
            if over > 0 && family.claims_below > family.held_below {
                return Some((id, over));
            }
        }
        None
    }
}

/// What tasks of a queue hold of a resource, those of queues below it left out.
fn own(world: &World, devices: &DeviceQuotas, queue: QueueId, dim: DimId) -> i64 {
    world.queues[queue].own.held(dim) + devices.own(world, queue, dim)
}
