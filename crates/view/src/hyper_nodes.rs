//! HyperNodes as the page shows them.
use std::cmp::Reverse;
use std::collections::BTreeMap;

use phalanx_cluster::{Cluster, HyperNodeId};
use phalanx_resource::{Amounts, DimId};
use serde::Serialize;

/// The most HyperNodes that are listed.
pub const HYPER_NODES_MAX: usize = 5_000;

/// The HyperNodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HyperNodes {
    /// How many are not listed.
    pub left_out: usize,
    /// The others, by tier and name, the highest tier first: a parent stands before its members.
    pub list: Vec<HyperNode>,
    /// What is wrong with HyperNodes, a line each.
    pub faults: Vec<String>,
    /// Where listed HyperNodes stand in the list.
    #[serde(skip)]
    places: BTreeMap<HyperNodeId, u32>,
}

/// A HyperNode. Amounts stand in the order of the resources of the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HyperNode {
    /// The name.
    pub name: String,
    /// The tier.
    pub tier: u32,
    /// Its `tierName`.
    #[serde(rename = "tierName", skip_serializing_if = "Option::is_none")]
    pub tier_name: Option<String>,
    /// The HyperNode that it is a member of: a place in the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    /// How many nodes are in it, those of its members included.
    pub nodes: usize,
    /// What these nodes have.
    pub allocatable: Vec<i64>,
    /// What pods use of it.
    pub used: Vec<i64>,
}

impl HyperNodes {
    pub(crate) fn of(cluster: &Cluster, dims: &[DimId]) -> Self {
        let known = &cluster.hyper_nodes;
        let mut ids: Vec<HyperNodeId> = known.iter().map(|(id, _)| id).collect();
        ids.sort_by_key(|id| (Reverse(known.get(*id).tier), *id));
        let left_out = ids.len().saturating_sub(HYPER_NODES_MAX);
        ids.truncate(HYPER_NODES_MAX);
        let places: BTreeMap<HyperNodeId, u32> = ids.iter().copied().zip(0..).collect();
        let amounts = |amounts: &Amounts| dims.iter().map(|dim| amounts.get(*dim)).collect();
        let hyper_node = |id: &HyperNodeId| {
            let (it, sums) = (known.get(*id), known.sums(*id));
            HyperNode {
                name: it.name.to_string(),
                tier: it.tier,
                tier_name: it.tier_name.as_ref().map(ToString::to_string),
                parent: it.parent.and_then(|parent| places.get(&parent).copied()),
                nodes: it.nodes.len(),
                allocatable: amounts(&sums.allocatable),
                used: amounts(&sums.used),
            }
        };
        let list = ids.iter().map(hyper_node).collect();
        Self { left_out, list, faults: known.faults().map(|fault| fault.to_string()).collect(), places }
    }

    /// The place of a HyperNode in the list.
    pub(crate) fn place(&self, id: HyperNodeId) -> Option<u32> {
        self.places.get(&id).copied()
    }
}
