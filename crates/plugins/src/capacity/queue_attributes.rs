//! The attributes of queues, computed when a session opens from the top of the tree down: guarantee, deserved amounts,
//! realCapability and the limits that follow.
use phalanx_resource::{Amounts, Ceilings, DimId};

use super::devices::{idle_quota_warning, is_counted, total};
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::{Id, QueueId};
use phalanx_cluster::{Cluster, Queue};

/// Volcano's `queueAttr`.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityAttributes {
    /// Cut in proportion where siblings are guaranteed more than their parent can have.
    pub(super) guarantee: Amounts,
    /// Empty for a queue that deserves nothing.
    pub(super) deserved: Ceilings,
    /// The sum of the children's guarantees.
    children_guarantee: Amounts,
    /// The realCapability, at most the total of the cluster.
    pub(super) usable: Amounts,
    /// The realCapability; in a tree the total of the cluster does not bound it.
    real_capability: Ceilings,
    /// The limits of enqueueing: the realCapability, where it is below that of the parent.
    pub(super) enqueue_limits: Ceilings,
    /// The limits of allocation: `usable`, where it is below that of the parent and below the total; else the
    /// capability.
    pub(super) allocatable_limits: Ceilings,
    /// What admitted jobs of the queue and, in a tree, of its descendants count with.
    pub(super) inqueue: Amounts,
    /// The figures of the queue contradict those of its children or ancestors, or have no effect.
    pub(super) warning: Option<QueueFault>,
    /// The queue is not usable: nothing is reserved for it.
    is_faulty: bool,
}

impl CapacityAttributes {
    /// What stays reserved for the queue until it holds as much.
    pub(super) fn reserved_guarantee(&self, dim: DimId) -> i64 {
        if self.is_faulty { 0 } else { self.guarantee.get(dim) }
    }
}

/// How the amounts of queues are read.
#[derive(Clone, Copy)]
pub(super) struct QuotaLayout {
    /// Queues form a tree, and are no flat list.
    pub(super) tree: bool,
    /// Quotas of devices have an effect.
    pub(super) counts_devices: bool,
}

/// The attributes of all queues, by queue id.
pub(super) fn attributes_of_queues(
    cluster: &Cluster,
    layout: QuotaLayout,
    is_faulty: impl Fn(QueueId) -> bool,
) -> Vec<CapacityAttributes> {
    let attributes = vec![CapacityAttributes::default(); cluster.queues.bound()];
    let mut builder = AttributesBuilder { cluster, layout, attributes };
    let mut by_depth: Vec<(usize, QueueId)> =
        cluster.queues.ids().map(|id| (if layout.tree { cluster.queue_depth(id) } else { 0 }, id)).collect();
    by_depth.sort_unstable();
    for (_, id) in by_depth.iter().rev() {
        builder.read_spec(*id, is_faulty(*id));
    }
    let flat_guarantee = builder.flat_guarantee();
    for (_, id) in &by_depth {
        builder.divide(*id, &flat_guarantee);
    }
    builder.attributes
}

struct AttributesBuilder<'w> {
    cluster: &'w Cluster,
    layout: QuotaLayout,
    attributes: Vec<CapacityAttributes>,
}

/// What the parent of a queue, or the cluster, has of one resource.
struct ParentAmounts {
    /// The queue has no parent: the amounts are those of the cluster.
    is_cluster: bool,
    usable: i64,
    real_capability: Option<i64>,
    /// The guarantees of the queue and its siblings; `None` when siblings do not bound each other.
    children_guarantee: Option<i64>,
}

impl AttributesBuilder<'_> {
    fn parent(&self, id: QueueId) -> Option<QueueId> {
        if self.layout.tree { self.cluster.queue_above(id) } else { None }
    }

    /// Reads the guarantee and deserved amounts of a queue, with the sums of its children where the queue has none, and
    /// adds them to the sums of its parent.
    fn read_spec(&mut self, id: QueueId, is_faulty: bool) {
        let queue = &self.cluster.queues[id];
        let sums = &self.attributes[id.index()];
        let tree_warning = || if self.layout.tree { tree_warning(self.cluster, id, sums) } else { None };
        let warning = idle_quota_warning(self.cluster, id, self.layout.counts_devices).or_else(tree_warning);
        let counts = |(dim, _): &(DimId, i64)| is_counted(self.cluster, *dim, self.layout.counts_devices);
        let mut guarantee = sums.children_guarantee.clone();
        for (dim, amount) in queue.guarantee.iter().filter(counts) {
            guarantee.set(dim, amount);
        }
        for (dim, capability) in queue.capability.iter() {
            guarantee.set(dim, guarantee.get(dim).min(capability));
        }
        let mut deserved = sums.deserved.clone();
        for (dim, amount) in queue.deserved.iter().filter(counts) {
            deserved.set(dim, amount);
        }
        let attributes = &mut self.attributes[id.index()];
        (attributes.guarantee, attributes.deserved) = (guarantee, deserved);
        (attributes.warning, attributes.is_faulty) = (warning.filter(|_| !is_faulty), is_faulty);
        if let Some(parent) = self.parent(id).filter(|_| queue.object.exists && !is_faulty) {
            self.add_to_parent(parent, id);
        }
    }

    fn add_to_parent(&mut self, parent: QueueId, id: QueueId) {
        let CapacityAttributes { guarantee, deserved, .. } = self.attributes[id.index()].clone();
        let parent = &mut self.attributes[parent.index()];
        parent.children_guarantee.add(&guarantee);
        for (dim, amount) in deserved.iter() {
            parent.deserved.set(dim, parent.deserved.get(dim).unwrap_or(0).saturating_add(amount));
        }
    }

    /// The sum of all guarantees, in a flat list; nothing in a tree.
    fn flat_guarantee(&self) -> Amounts {
        let mut sum = Amounts::new();
        for (id, queue) in self.cluster.queues.iter() {
            let attributes = &self.attributes[id.index()];
            if !self.layout.tree && queue.object.exists && !attributes.is_faulty {
                sum.add(&attributes.guarantee);
            }
        }
        sum
    }

    /// What a parent, or the cluster, has for its children.
    fn parent_amounts(&self, parent: Option<QueueId>, dim: DimId, flat_guarantee: &Amounts) -> ParentAmounts {
        if let Some(parent) = parent.map(|parent| &self.attributes[parent.index()]) {
            return ParentAmounts {
                is_cluster: false,
                usable: parent.usable.get(dim),
                real_capability: parent.real_capability.get(dim),
                children_guarantee: Some(parent.children_guarantee.get(dim)),
            };
        }
        let usable = total(self.cluster, dim);
        let (real_capability, children_guarantee) =
            if self.layout.tree { (None, None) } else { (Some(usable), Some(flat_guarantee.get(dim))) };
        ParentAmounts { is_cluster: true, usable, real_capability, children_guarantee }
    }

    fn divide(&mut self, id: QueueId, flat_guarantee: &Amounts) {
        let parent = self.parent(id);
        for (dim, _) in self.cluster.dims.iter() {
            let parent = self.parent_amounts(parent, dim, flat_guarantee);
            divide(&self.cluster.queues[id], dim, &parent, &mut self.attributes[id.index()]);
        }
    }
}

/// Computes the attributes of a queue for one resource from the amounts of its parent.
fn divide(queue: &Queue, dim: DimId, parent: &ParentAmounts, attributes: &mut CapacityAttributes) {
    let capability = queue.capability.get(dim);
    let bound = capability.unwrap_or(i64::MAX);
    let spec_guarantee = attributes.guarantee.get(dim);
    let own = if attributes.is_faulty { 0 } else { spec_guarantee };
    let children_guarantee = parent.children_guarantee.unwrap_or(own);
    let usable = beside_siblings(parent.usable, children_guarantee, own);
    attributes.usable.set(dim, usable.amount.min(bound));
    attributes.guarantee.set(dim, if attributes.is_faulty { spec_guarantee } else { usable.guarantee });
    let parent_real = parent.real_capability.unwrap_or(i64::MAX);
    let left =
        parent.real_capability.map_or(i64::MAX, |real| beside_siblings(real, children_guarantee, own).amount);
    let real_capability = left.min(bound);
    if real_capability < i64::MAX {
        attributes.real_capability.set(dim, real_capability);
    }
    // A limit that is the parent's is checked, and told, with the parent.
    let below_parent =
        |parent: i64, amount: i64| if amount < parent { Some(amount.min(bound)) } else { capability };
    if let Some(limit) = below_parent(parent.usable, usable.amount) {
        attributes.allocatable_limits.set(dim, limit);
    }
    let is_flat = parent.is_cluster && parent.real_capability.is_some();
    let enqueue_limit = if is_flat { Some(real_capability) } else { below_parent(parent_real, left) };
    if let Some(limit) = enqueue_limit {
        attributes.enqueue_limits.set(dim, limit);
    }
    let least = Some(usable.guarantee).filter(|amount| *amount > 0);
    let spec_deserved = attributes.deserved.get(dim).map(|amount| amount.min(real_capability));
    if let Some(deserved) = spec_deserved.max(least) {
        attributes.deserved.set(dim, deserved);
    }
}

/// What a queue can have beside its siblings, and its guarantee.
struct BesideSiblings {
    amount: i64,
    guarantee: i64,
}

/// What a queue can have of a whole beside the guarantees of its siblings. Guarantees that exceed the whole are cut in
/// proportion.
fn beside_siblings(whole: i64, all_guarantees: i64, own: i64) -> BesideSiblings {
    if all_guarantees <= whole {
        return BesideSiblings { amount: whole - all_guarantees + own, guarantee: own };
    }
    let guarantee = (i128::from(whole) * i128::from(own) / i128::from(all_guarantees)) as i64;
    BesideSiblings { amount: guarantee, guarantee }
}

/// The warning for figures of a queue that contradict those of its children or of an ancestor.
fn tree_warning(cluster: &Cluster, id: QueueId, sums: &CapacityAttributes) -> Option<QueueFault> {
    let queue = &cluster.queues[id];
    if queue.is_root() {
        return None;
    }
    let guarantee: Ceilings = queue.guarantee.iter().collect();
    let children_guarantee: Ceilings = sums.children_guarantee.iter().collect();
    children_exceed("guarantee", &children_guarantee, &guarantee, queue)
        .or_else(|| children_exceed("deserved", &sums.deserved, &queue.deserved, queue))
        .or_else(|| exceeds_ancestor(cluster, id))
}

fn children_exceed(
    what: &'static str,
    children: &Ceilings,
    own: &Ceilings,
    queue: &Queue,
) -> Option<QueueFault> {
    let over = |(dim, sum): (DimId, i64)| {
        let bound = own.get(dim).or(queue.capability.get(dim))?;
        (sum > bound).then_some((dim, sum - bound))
    };
    let over: Vec<_> = children.iter().filter_map(over).collect();
    (!over.is_empty()).then_some(QueueFault::Children { what, over })
}

/// The nearest ancestor with a smaller capability.
fn exceeds_ancestor(cluster: &Cluster, id: QueueId) -> Option<QueueFault> {
    let capability = &cluster.queues[id].capability;
    let ancestors = cluster.queue_path(id).skip(1).map(|ancestor| &cluster.queues[ancestor]);
    ancestors.filter(|ancestor| !ancestor.is_root()).find_map(|ancestor| {
        let over = capability.iter().filter_map(|(dim, own)| {
            let bound = ancestor.capability.get(dim)?;
            (own > bound).then_some((dim, own - bound))
        });
        let over: Vec<_> = over.collect();
        (!over.is_empty()).then(|| QueueFault::Wider { ancestor: ancestor.name.clone(), over })
    })
}
