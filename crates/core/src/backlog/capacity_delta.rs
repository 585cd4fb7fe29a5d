//! Where capacity has grown since the last cycle.
//!
//! At the end of a cycle the free capacity of the nodes is taken down. What is more at the beginning of the next one has come in
//! between; and what was given back in the middle of the cycle, after some were refused, is noted.
use phalanx_resource::Amounts;

use phalanx_cluster::id::{Id, NodeId};
use phalanx_cluster::{Cluster, Node};

/// Nodes that are compared with each demand; of more of them, the largest free capacity in each resource.
const COMPARED: usize = 32;

/// A node as it was.
#[derive(Clone, Debug)]
struct Seen {
    statics: u64,
    idle: Amounts,
    future: Amounts,
    /// What nobody holds who stays: of it, some may be kept for those that have to give way.
    free: Amounts,
    allocatable: Amounts,
}

/// What a node may have for somebody: idle, being released, or kept for those that have to give way.
pub(super) fn free(node: &Node) -> Amounts {
    let mut free = node.idle.clone();
    free.add(&node.releasing);
    free
}

impl Seen {
    fn of(node: &Node) -> Self {
        Self {
            statics: node.static_version.0,
            idle: node.idle.clone(),
            future: node.future_idle(),
            free: free(node),
            allocatable: node.allocatable.clone(),
        }
    }
}

/// The capacities as they were at the end of the last cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Capacities {
    seen: Vec<Option<Seen>>,
    /// How far the log of touched nodes was read; missing when nothing was taken down.
    cursor: Option<u64>,
    /// Nodes on which capacity was freed in the middle of the cycle.
    noted: Vec<NodeId>,
    /// What all nodes may have.
    spare: Amounts,
}

/// What has grown.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityDelta {
    /// Nodes with more capacity, or other attributes.
    nodes: Vec<NodeId>,
    /// The most that any of them may have, of each resource.
    pub(super) room: Amounts,
    /// The most that any of those can have in all that is larger or has other attributes.
    pub(super) allocatable: Amounts,
    /// What all nodes may have.
    spare: Amounts,
}

impl CapacityDelta {
    fn add(&mut self, id: NodeId, node: &Node, reshaped: bool) {
        self.nodes.push(id);
        self.room.max_with(&free(node));
        if reshaped {
            self.allocatable.max_with(&node.allocatable);
        }
    }

    /// Whether a pod with this request could be on any of the nodes, and so many pods on all nodes: with all that is on
    /// them gone, or as they will be.
    pub(super) fn serves(&self, cluster: &Cluster, request: &Amounts, least: &Amounts, empty: bool) -> bool {
        if empty {
            return request.fits(&self.allocatable);
        }
        self.takes(cluster, request) && least.fits(&self.spare)
    }

    /// Whether a pod with this request could be on any of the nodes as they will be.
    pub(super) fn takes(&self, cluster: &Cluster, request: &Amounts) -> bool {
        let takes = |node: &NodeId| cluster.nodes.get(*node).is_some_and(|node| request.fits(&free(node)));
        self.may_take(request) && (self.nodes.len() > COMPARED || self.nodes.iter().any(takes))
    }

    /// Whether that cannot be ruled out for any pod that requests no less.
    #[inline]
    pub(super) fn may_take(&self, request: &Amounts) -> bool {
        request.fits(&self.room)
    }

    /// What has grown in either.
    pub(super) fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        if both.nodes.len() <= COMPARED {
            both.nodes.extend(&other.nodes);
            both.nodes.sort_unstable();
            both.nodes.dedup();
        }
        both.room.max_with(&other.room);
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
    /// What all nodes may have, as far as it was taken down.
    pub(super) fn spare(&self) -> &Amounts {
        &self.spare
    }

    pub(super) fn note(&mut self, node: NodeId) {
        self.noted.push(node);
    }

    pub(super) fn is_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    pub(super) fn forget_noted(&mut self) {
        self.noted.clear();
    }

    /// What has grown; nothing where nothing has.
    pub(super) fn delta(&self, cluster: &Cluster) -> Option<CapacityDelta> {
        let mut delta = CapacityDelta { spare: self.spare.clone(), ..CapacityDelta::default() };
        let touched = self.cursor.and_then(|cursor| cluster.touched_since(cursor));
        let Some(touched) = touched else { return Some(Self::all(cluster)) };
        let mut ids: Vec<NodeId> = touched.iter().chain(&self.noted).copied().collect();
        ids.sort_unstable();
        ids.dedup();
        for id in ids {
            let seen = self.seen.get(id.index()).and_then(Option::as_ref);
            if let Some(seen) = seen {
                delta.spare.sub(&clamped(&seen.free));
            }
            let Some(node) = cluster.nodes.get(id) else { continue };
            let now = Seen::of(node);
            delta.spare.add(&clamped(&now.free));
            let reshaped = seen.is_none_or(|seen| {
                seen.statics != now.statics || has_more(&now.allocatable, &seen.allocatable)
            });
            let more = |seen: &Seen| has_more(&now.future, &seen.future) || has_more(&now.idle, &seen.idle);
            if reshaped || seen.is_none_or(more) || self.noted.contains(&id) {
                delta.add(id, node, reshaped);
            }
        }
        (!delta.nodes.is_empty()).then_some(delta)
    }

    /// All there is.
    pub(super) fn all(cluster: &Cluster) -> CapacityDelta {
        let mut delta = CapacityDelta::default();
        for (id, node) in cluster.nodes.iter() {
            delta.spare.add(&clamped(&free(node)));
            delta.add(id, node, true);
        }
        delta
    }

    /// Takes down what there is, if anybody waits for more.
    pub(super) fn take_down(&mut self, cluster: &Cluster, wanted: bool) {
        let touched = self.cursor.and_then(|cursor| cluster.touched_since(cursor));
        let touched: Vec<NodeId> = match touched {
            _ if !wanted => {
                *self = Self { noted: std::mem::take(&mut self.noted), ..Self::default() };
                return;
            }
            Some(touched) => touched.to_vec(),
            None => {
                *self = Self { noted: std::mem::take(&mut self.noted), ..Self::default() };
                cluster.nodes.ids().collect()
            }
        };
        self.seen.resize(cluster.nodes.bound().max(self.seen.len()), None);
        for id in touched {
            let now = cluster.nodes.get(id).map(Seen::of);
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
