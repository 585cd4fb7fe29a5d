//! Which nodes the `networkTopology` of a job and of its sub-groups leaves to its pods.
use super::{HyperNodeId, NodeSet};
use crate::diagnosis::TopologyFault;
use crate::event::{NetworkTopology, TierLimit};
use crate::id::{NodeId, TaskId};
use crate::{Cluster, Job, Status};

/// Names of tiers that a reason tells.
const TIER_NAMES_MAX: usize = 5;

impl Job {
    /// Whether the job or a sub-group of it has a network topology.
    #[inline]
    pub fn asks_topology(&self) -> bool {
        self.topology.is_some() || self.sub_groups.iter().any(|policy| policy.topology.is_some())
    }
}

impl Cluster {
    /// The HyperNodes that tasks may go to whose network topology is hard, by tier and name; `None` without such a
    /// limit, as of a tier above all that there are, which is the whole cluster. Those that `placed` names have nodes
    /// already, which the HyperNode has to hold.
    ///
    /// # Errors
    /// No HyperNode is allowed, whatever is free on it.
    pub fn domains_of(
        &self,
        topology: Option<&NetworkTopology>,
        placed: &[NodeId],
    ) -> Result<Option<Vec<HyperNodeId>>, TopologyFault> {
        let Some(NetworkTopology::Hard(limit)) = topology else { return Ok(None) };
        if self.hyper_nodes.all_are_below(limit) {
            return Ok(None);
        }
        let near = self.domains_around(placed, Some(limit));
        match (near.is_empty(), limit) {
            (false, _) => Ok(Some(near)),
            (true, limit) if !placed.is_empty() => Err(TopologyFault::Apart(limit.clone())),
            (true, TierLimit::Number(tier)) => Err(TopologyFault::NoTier(*tier)),
            (true, TierLimit::Name(name)) => {
                let known = self.hyper_nodes.tier_names().take(TIER_NAMES_MAX).cloned().collect();
                Err(TopologyFault::NoTierName { name: name.clone(), known })
            }
        }
    }

    /// The HyperNodes that hold all these nodes and are within the limit, by tier and name.
    pub fn domains_around(&self, placed: &[NodeId], limit: Option<&TierLimit>) -> Vec<HyperNodeId> {
        let is_near = |id: &HyperNodeId| {
            let it = self.hyper_nodes.get(*id);
            placed.iter().all(|node| it.holds(*node))
                && limit.is_none_or(|limit| self.hyper_nodes.allows(limit, *id))
        };
        match placed.first() {
            Some(node) => self.hyper_nodes.of_node(*node).iter().copied().filter(is_near).collect(),
            None => self.hyper_nodes.iter().map(|(id, _)| id).filter(is_near).collect(),
        }
    }

    /// The lowest HyperNode that holds all these nodes; `None` without nodes, too.
    pub fn domain_of_nodes(&self, nodes: &[NodeId]) -> Option<HyperNodeId> {
        let holds_all = |id: &&HyperNodeId| {
            let it = self.hyper_nodes.get(**id);
            nodes.iter().all(|node| it.holds(*node))
        };
        self.hyper_nodes.of_node(*nodes.first()?).iter().find(holds_all).copied()
    }

    /// The nodes that these tasks hold or are nominated to.
    pub fn nodes_of<'t>(&self, tasks: impl Iterator<Item = &'t TaskId>) -> Vec<NodeId> {
        let holds = |task: &&TaskId| {
            let status = self.tasks[**task].status;
            status.is_allocated() || status == Status::Pipelined
        };
        let mut nodes: Vec<NodeId> = tasks.filter(holds).filter_map(|task| self.tasks[*task].node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The nodes of HyperNodes together.
    pub fn nodes_within(&self, domains: &[HyperNodeId]) -> NodeSet {
        if let [one] = domains {
            return self.hyper_nodes.get(*one).nodes.clone();
        }
        let mut nodes: Vec<NodeId> =
            domains.iter().flat_map(|id| self.hyper_nodes.get(*id).nodes.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into()
    }
}

/// The nodes that are in both sets; `None` is all nodes.
pub fn within(one: Option<NodeSet>, other: Option<NodeSet>) -> Option<NodeSet> {
    match (one, other) {
        (Some(one), Some(other)) => {
            Some(one.iter().copied().filter(|node| other.binary_search(node).is_ok()).collect())
        }
        (one, other) => one.or(other),
    }
}
