//! Nodes as the page shows them.
use std::collections::BTreeMap;

use phalanx_cluster::id::NodeId;
use phalanx_cluster::{self as cluster, Cluster};
use phalanx_resource::DimId;
use serde::Serialize;

use crate::hyper_nodes::HyperNodes;

/// The most nodes that are listed.
pub const NODES_MAX: usize = 10_000;
/// The most sizes of holes that are told of a resource.
const SIZES_MAX: usize = 64;

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// How many there are.
    pub total: usize,
    /// How many of these are not listed.
    pub left_out: usize,
    /// What nodes can have: nodes with equal allocatable amounts are of one kind.
    pub kinds: Vec<NodeKind>,
    /// Nodes by name.
    pub list: Vec<Node>,
    /// Where listed nodes stand in the list.
    #[serde(skip)]
    pub(crate) places: BTreeMap<usize, u32>,
}

/// Nodes with equal allocatable amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NodeKind {
    /// The amounts, in the order of the resources.
    pub allocatable: Vec<i64>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// The name.
    pub name: String,
    /// Its kind: a place in the list of kinds.
    pub kind: u32,
    /// What pods use, in the order of the resources.
    pub used: Vec<i64>,
    /// Whether pods may be placed on it.
    #[serde(skip_serializing_if = "NodeState::is_ready")]
    pub state: NodeState,
    /// The lowest HyperNode that it is in: a place in the list of HyperNodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_node: Option<u32>,
}

/// Whether pods may be placed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// They may, as far as its state goes.
    Ready,
    /// Cordoned.
    Cordoned,
    /// Not ready.
    NotReady,
}

impl NodeState {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    fn of(node: &cluster::Node) -> Self {
        match (node.ready, node.unschedulable) {
            (false, _) => Self::NotReady,
            (true, true) => Self::Cordoned,
            (true, false) => Self::Ready,
        }
    }
}

/// The free amounts of a resource on nodes where pods may be placed, by what one node has free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holes {
    /// The resource: a place in the list of resources.
    pub resource: usize,
    /// The sum.
    pub free: i64,
    /// Sizes, the largest first.
    pub sizes: Vec<Hole>,
}

/// Nodes with the same free amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Hole {
    /// The amount.
    pub size: i64,
    /// How many nodes have it.
    pub nodes: u32,
}

pub(crate) fn of(cluster: &Cluster, dims: &[DimId], hyper_nodes: &HyperNodes) -> Nodes {
    let mut ids: Vec<NodeId> = existing(cluster).map(|(id, _)| id).collect();
    ids.sort_by(|a, b| cluster.nodes[*a].name.cmp(&cluster.nodes[*b].name));
    let total = ids.len();
    ids.truncate(NODES_MAX);
    let mut kinds: BTreeMap<Vec<i64>, u32> = BTreeMap::new();
    let mut nodes = Nodes { total, left_out: total - ids.len(), ..Nodes::default() };
    for id in ids {
        let node = &cluster.nodes[id];
        let allocatable: Vec<i64> = dims.iter().map(|dim| node.allocatable.get(*dim)).collect();
        let used = dims.iter().map(|dim| node.allocatable.get(*dim) - node.idle.get(*dim)).collect();
        let next = kinds.len() as u32;
        let kind = *kinds.entry(allocatable.clone()).or_insert(next);
        if kind == next {
            nodes.kinds.push(NodeKind { allocatable });
        }
        nodes.places.insert(phalanx_cluster::id::Id::index(id), nodes.list.len() as u32);
        let hyper_node =
            cluster.hyper_nodes.of_node(id).first().and_then(|lowest| hyper_nodes.place(*lowest));
        let (name, state) = (node.name.to_string(), NodeState::of(node));
        nodes.list.push(Node { name, kind, used, state, hyper_node });
    }
    nodes
}

fn existing(cluster: &Cluster) -> impl Iterator<Item = (NodeId, &cluster::Node)> {
    cluster.nodes.iter().filter(|(_, node)| node.exists)
}

/// Holes of extended resources: a pod needs them on one node.
pub(crate) fn holes(cluster: &Cluster, dims: &[DimId]) -> Vec<Holes> {
    let extended = |dim: DimId| {
        let name = cluster.dims.name(dim);
        name.contains('/') && cluster.sums.allocatable.get(dim) > 0
    };
    let dims = dims.iter().enumerate().filter(|(_, dim)| extended(**dim));
    dims.map(|(resource, dim)| holes_of(cluster, resource, *dim)).collect()
}

fn holes_of(cluster: &Cluster, resource: usize, dim: DimId) -> Holes {
    let mut sizes: BTreeMap<i64, u32> = BTreeMap::new();
    for (_, node) in existing(cluster).filter(|(_, node)| NodeState::of(node) == NodeState::Ready) {
        let free = node.idle.get(dim);
        if free > 0 {
            *sizes.entry(free).or_default() += 1;
        }
    }
    let free = sizes.iter().map(|(size, nodes)| size * i64::from(*nodes)).sum();
    let largest = sizes.into_iter().rev().take(SIZES_MAX);
    Holes { resource, free, sizes: largest.map(|(size, nodes)| Hole { size, nodes }).collect() }
}
