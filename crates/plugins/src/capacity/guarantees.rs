//! Keeps amounts free for guarantees that queues have not used up.
//!
//! The *demand* of a queue is its guarantee, or what its tasks hold plus the demands of its children, whichever is
//! more. The demands of siblings must fit in the usable amounts of their parent, those of the topmost queues in the
//! cluster. A task is refused when it raises the demand of its queue, or of an ancestor, beyond what the siblings'
//! demands leave.
use phalanx_resource::{Amounts, DimId};

use super::devices::{DeviceQuotas, total};
use super::queue_attributes::CapacityAttributes;
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::{Beside, Limit};
use phalanx_cluster::id::{Id, QueueId};

/// The demands of queues, for the resources of which a queue has a guarantee; empty when there is no guarantee.
#[derive(Debug, Default)]
pub(super) struct GuaranteeReserve {
    tree: bool,
    dims: Vec<DimId>,
    /// By queue id, with one more entry for the cluster; then by slot, the position of a resource in `dims`.
    demands: Vec<Vec<GuaranteeDemand>>,
}

/// The demand of a queue for one resource.
#[derive(Clone, Copy, Debug, Default)]
struct GuaranteeDemand {
    guarantee: i64,
    /// What the children can have together.
    usable: i64,
    demand: i64,
    /// By the tasks of the queue and of its descendants.
    held: i64,
    children_demand: i64,
    children_held: i64,
}

/// A request that leaves too little for the guarantees of other queues.
pub(super) struct GuaranteeRefusal {
    /// The queue whose demand would be too high: that of the task, or an ancestor.
    pub(super) queue: QueueId,
    pub(super) limit: Limit,
    pub(super) over: Vec<(DimId, i64)>,
}

/// A queue whose demand would be too high, and by how much.
#[derive(Clone, Copy)]
struct ExcessDemand {
    queue: QueueId,
    over: i64,
}

impl GuaranteeReserve {
    pub(super) fn new(
        cluster: &Cluster,
        tree: bool,
        attributes: &[CapacityAttributes],
        devices: &DeviceQuotas,
    ) -> Self {
        let is_guaranteed = |dim: &DimId| attributes.iter().any(|queue| queue.reserved_guarantee(*dim) > 0);
        let dims: Vec<DimId> = cluster.dims.iter().map(|(dim, _)| dim).filter(is_guaranteed).collect();
        if dims.is_empty() {
            return Self::default();
        }
        let of_queue = |queue: &CapacityAttributes| -> Vec<GuaranteeDemand> {
            let of_dim = |dim: &DimId| GuaranteeDemand {
                guarantee: queue.reserved_guarantee(*dim),
                usable: queue.usable.get(*dim),
                ..GuaranteeDemand::default()
            };
            dims.iter().map(of_dim).collect()
        };
        let mut demands: Vec<Vec<GuaranteeDemand>> = attributes.iter().map(of_queue).collect();
        let of_cluster =
            |dim: &DimId| GuaranteeDemand { usable: total(cluster, *dim), ..GuaranteeDemand::default() };
        demands.push(dims.iter().map(of_cluster).collect());
        let mut reserve = Self { tree, dims, demands };
        for id in cluster.queues.ids() {
            reserve.update(cluster, devices, id);
        }
        reserve
    }

    /// Whether any queue has a guarantee.
    pub(super) fn is_any(&self) -> bool {
        !self.dims.is_empty()
    }

    fn parent(&self, cluster: &Cluster, queue: QueueId) -> Option<QueueId> {
        if self.tree { cluster.queue_above(queue) } else { None }
    }

    /// The index in `demands` of a parent, or of the cluster.
    fn parent_index(&self, parent: Option<QueueId>) -> usize {
        parent.map_or(self.demands.len() - 1, QueueId::index)
    }

    /// Updates the demands of a queue and its ancestors after the amounts that the queue holds changed.
    pub(super) fn update(&mut self, cluster: &Cluster, devices: &DeviceQuotas, queue: QueueId) {
        let mut next = Some(queue).filter(|_| self.is_any());
        while let Some(id) = next {
            next = self.parent(cluster, id);
            let parent = self.parent_index(next);
            for slot in 0..self.dims.len() {
                let mut of_queue = self.demands[id.index()][slot];
                let own = held_by_own_tasks(cluster, devices, id, self.dims[slot]);
                let demand = of_queue.guarantee.max(own + of_queue.children_demand);
                let held = own + of_queue.children_held;
                let of_parent = &mut self.demands[parent][slot];
                of_parent.children_demand += demand - of_queue.demand;
                of_parent.children_held += held - of_queue.held;
                (of_queue.demand, of_queue.held) = (demand, held);
                self.demands[id.index()][slot] = of_queue;
            }
        }
    }

    /// Why a queue cannot have a request, if the request leaves too little for guarantees of other queues.
    pub(super) fn refusal(
        &self,
        cluster: &Cluster,
        devices: &DeviceQuotas,
        queue: QueueId,
        request: &Amounts,
    ) -> Option<GuaranteeRefusal> {
        let excess = |slot: usize| self.excess(cluster, devices, queue, slot, request.get(self.dims[slot]));
        let queue = (0..self.dims.len()).find_map(excess)?.queue;
        let here =
            |slot| excess(slot).filter(|excess| excess.queue == queue).map(|excess| (slot, excess.over));
        let over: Vec<_> = (0..self.dims.len()).filter_map(here).collect();
        let reserved =
            over.iter().find(|(slot, _)| self.siblings_have_unused_guarantee(cluster, queue, *slot));
        let limit = reserved.map_or(Limit::Left, |(slot, _)| {
            Limit::Guarantees(self.unused_by_siblings(cluster, queue, *slot))
        });
        let over = over.into_iter().map(|(slot, over)| (self.dims[slot], over)).collect();
        Some(GuaranteeRefusal { queue, limit, over })
    }

    /// Whether the siblings of a queue have demands for more than they hold.
    fn siblings_have_unused_guarantee(&self, cluster: &Cluster, queue: QueueId, slot: usize) -> bool {
        let parent = self.parent_index(self.parent(cluster, queue));
        let (of_queue, of_parent) = (&self.demands[queue.index()][slot], &self.demands[parent][slot]);
        of_parent.children_demand - of_queue.demand > of_parent.children_held - of_queue.held
    }

    /// What each sibling of a queue is guaranteed and does not hold.
    fn unused_by_siblings(&self, cluster: &Cluster, queue: QueueId, slot: usize) -> Beside {
        let parent = self.parent(cluster, queue);
        let siblings =
            cluster.queues.iter().filter(|(id, _)| *id != queue && self.parent(cluster, *id) == parent);
        Beside::of(siblings.map(|(id, sibling)| {
            let of_sibling = &self.demands[id.index()][slot];
            (of_sibling.demand - of_sibling.held, &sibling.name)
        }))
    }

    /// The first queue, on the path from a queue to the top, whose demand a request raises too high.
    fn excess(
        &self,
        cluster: &Cluster,
        devices: &DeviceQuotas,
        queue: QueueId,
        slot: usize,
        request: i64,
    ) -> Option<ExcessDemand> {
        let mut raised_by = request;
        let mut next = Some(queue).filter(|_| request > 0);
        while let Some(id) = next {
            next = self.parent(cluster, id);
            let of_queue = &self.demands[id.index()][slot];
            let of_parent = &self.demands[self.parent_index(next)][slot];
            let own = held_by_own_tasks(cluster, devices, id, self.dims[slot]);
            let demand = of_queue.guarantee.max(own + of_queue.children_demand + raised_by);
            raised_by = demand - of_queue.demand;
            if raised_by <= 0 {
                return None;
            }
            let over = of_parent.children_demand + raised_by - of_parent.usable;
            // Where all demands are held by tasks, the nodes are full, and their own reasons say more.
            if over > 0 && of_parent.children_demand > of_parent.children_held {
                return Some(ExcessDemand { queue: id, over });
            }
        }
        None
    }
}

/// What the tasks of a queue hold of a resource, without those of its descendants.
fn held_by_own_tasks(cluster: &Cluster, devices: &DeviceQuotas, queue: QueueId, dim: DimId) -> i64 {
    cluster.queues[queue].own.held(dim) + devices.held_by_own_tasks(cluster, queue, dim)
}
