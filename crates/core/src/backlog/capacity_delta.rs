//! Where free capacity has grown since the last cycle.
//!
//! The free capacity of the nodes is recorded at the end of a cycle and compared at the start of the next one. Nodes of
//! which capacity is freed in mid-cycle, after jobs were refused, are noted.
use phalanx_resource::Amounts;

use super::equivalence::Awaits;

use phalanx_cluster::id::{Id, NodeId};
use phalanx_cluster::{Cluster, Node};

/// Up to so many grown nodes are compared with each demand one by one; of more, only the largest free capacity by
/// resource.
const COMPARED: usize = 32;

/// The capacity of a node when it was recorded.
#[derive(Clone, Debug)]
struct NodeCapacity {
    static_version: u64,
    idle: Amounts,
    future_idle: Amounts,
    /// See [`free`].
    free: Amounts,
    allocatable: Amounts,
}

/// Resources of a node that are idle or being released. Nominated pods may still have to yield some of them.
pub(super) fn free(node: &Node) -> Amounts {
    let mut free = node.idle.clone();
    free.add(&node.releasing);
    free
}

impl NodeCapacity {
    fn of(node: &Node) -> Self {
        Self {
            static_version: node.static_version.0,
            idle: node.idle.clone(),
            future_idle: node.future_idle(),
            free: free(node),
            allocatable: node.allocatable.clone(),
        }
    }
}

/// The capacities recorded at the end of the last cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacities {
    seen: Vec<Option<NodeCapacity>>,
    /// How far the log of touched nodes was read; `None` when nothing is recorded.
    cursor: Option<u64>,
    /// Nodes on which capacity was freed in mid-cycle.
    pub(super) freed_in_cycle: Vec<NodeId>,
    /// Sum of [`free`] over all nodes.
    pub(super) spare: Amounts,
}

/// Capacity that has grown.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityDelta {
    /// Nodes with more free capacity or changed attributes.
    nodes: Vec<NodeId>,
    /// The most of each resource that is free on any of these nodes.
    pub(super) free: Amounts,
    /// The most of each resource that any of these nodes has which became larger or changed attributes.
    pub(super) allocatable: Amounts,
    /// Sum of [`free`] over all nodes.
    spare: Amounts,
}

impl CapacityDelta {
    fn add(&mut self, id: NodeId, node: &Node, reshaped: bool) {
        self.nodes.push(id);
        self.free.max_with(&free(node));
        if reshaped {
            self.allocatable.max_with(&node.allocatable);
        }
    }

    /// Whether a pod could fit on any of the grown nodes, and `min_request` on all nodes together; for a job that
    /// awaits nodes, whether a pod could fit on any of them without the pods there.
    pub(super) fn serves(
        &self,
        cluster: &Cluster,
        request: &Amounts,
        min_request: &Amounts,
        awaits: Awaits,
    ) -> bool {
        if awaits == Awaits::Nodes {
            return request.fits(&self.allocatable);
        }
        self.takes(cluster, request) && min_request.fits(&self.spare)
    }

    /// Whether a pod with this request could fit on any of the grown nodes.
    pub(super) fn takes(&self, cluster: &Cluster, request: &Amounts) -> bool {
        let takes = |node: &NodeId| cluster.nodes.get(*node).is_some_and(|node| request.fits(&free(node)));
        self.may_take(request) && (self.nodes.len() > COMPARED || self.nodes.iter().any(takes))
    }

    /// Whether [`takes`](Self::takes) may hold for a pod that requests at least so much.
    #[inline]
    pub(super) fn may_take(&self, request: &Amounts) -> bool {
        request.fits(&self.free)
    }

    /// The union of two deltas.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        if both.nodes.len() <= COMPARED {
            both.nodes.extend(&other.nodes);
            both.nodes.sort_unstable();
            both.nodes.dedup();
        }
        both.free.max_with(&other.free);
        both.allocatable.max_with(&other.allocatable);
        both.spare.max_with(&other.spare);
        both
    }
}

fn has_more(now: &Amounts, before: &Amounts) -> bool {
    now.short(before).next().is_some()
}

pub(super) fn clamped(amounts: &Amounts) -> Amounts {
    let mut amounts = amounts.clone();
    amounts.sub_clamped(&Amounts::new());
    amounts
}

impl Capacities {
    /// What has grown since the last record; `None` if nothing has.
    pub(super) fn delta(&self, cluster: &Cluster) -> Option<CapacityDelta> {
        let mut delta = CapacityDelta { spare: self.spare.clone(), ..CapacityDelta::default() };
        let touched = self.cursor.and_then(|cursor| cluster.touched_since(cursor));
        let Some(touched) = touched else { return Some(Self::all(cluster)) };
        let mut ids: Vec<NodeId> = touched.iter().chain(&self.freed_in_cycle).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let seen = self.seen.get(id.index()).and_then(Option::as_ref);
            if let Some(seen) = seen {
                delta.spare.sub(&clamped(&seen.free));
            }
            let Some(node) = cluster.nodes.get(id) else { continue };
            let now = NodeCapacity::of(node);
            delta.spare.add(&clamped(&now.free));
            let reshaped = seen.is_none_or(|seen| {
                seen.static_version != now.static_version || has_more(&now.allocatable, &seen.allocatable)
            });
            let more = |seen: &NodeCapacity| {
                has_more(&now.future_idle, &seen.future_idle) || has_more(&now.idle, &seen.idle)
            };
            if reshaped || seen.is_none_or(more) || self.freed_in_cycle.contains(&id) {
                delta.add(id, node, reshaped);
            }
        }
        (!delta.nodes.is_empty()).then_some(delta)
    }

    /// The delta from no capacity.
    pub(super) fn all(cluster: &Cluster) -> CapacityDelta {
        let mut delta = CapacityDelta::default();
        for (id, node) in cluster.nodes.iter() {
            delta.spare.add(&clamped(&free(node)));
            delta.add(id, node, true);
        }
        delta
    }

    /// Records the current capacity, if any class waits for more.
    pub(super) fn record(&mut self, cluster: &Cluster, wanted: bool) {
        let known = self.cursor.and_then(|cursor| cluster.touched_since(cursor)).filter(|_| wanted);
        if known.is_none() {
            *self = Self { freed_in_cycle: std::mem::take(&mut self.freed_in_cycle), ..Self::default() };
        }
        if !wanted {
            return;
        }
        let touched = known.map_or_else(|| cluster.nodes.ids().collect(), <[NodeId]>::to_vec);
        self.seen.resize(cluster.nodes.bound().max(self.seen.len()), None);
        for id in touched {
            let now = cluster.nodes.get(id).map(NodeCapacity::of);
            if let Some(now) = &now {
                self.spare.add(&clamped(&now.free));
            }
            if let Some(before) = std::mem::replace(&mut self.seen[id.index()], now) {
                self.spare.sub(&clamped(&before.free));
            }
        }
        self.cursor = Some(cluster.touched_end());
    }
}
