//! Node sampling: of many feasible nodes only some are compared. Off unless it is configured.
//!
//! Source: `--percentage-nodes-to-find` of Volcano and `percentageOfNodesToScore` of kube-scheduler. A search ends when
//! enough nodes with idle resources were found, and the next search begins behind the last node of the one before. The
//! adaptive percentage falls with the number of nodes. Nodes stand in the order of their names. Nodes with future idle
//! resources count only where no node has idle resources.
use phalanx_cluster::Cluster;
use phalanx_cluster::id::NodeId;

/// The number of nodes for each percent that the adaptive percentage falls.
const NODES_PER_PERCENT: u32 = 125;

/// How many nodes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Sampling {
    /// Percent of all nodes; 0 stands for the adaptive percentage: 50, less 1 for each 125 nodes.
    pub percentage: u32,
    /// Percent below which the adaptive percentage does not fall.
    pub minimum_percentage: u32,
    /// The least number of nodes to find; in a cluster with no more nodes all are compared.
    pub minimum_nodes: u32,
}

impl Sampling {
    /// The number of nodes with idle resources after which a search among `nodes` nodes ends.
    pub fn wanted(self, nodes: u32) -> u32 {
        if nodes <= self.minimum_nodes || self.percentage >= 100 {
            return nodes;
        }
        let adaptive =
            || 50u32.saturating_sub(nodes / NODES_PER_PERCENT).max(self.minimum_percentage.min(100));
        let percentage = if self.percentage == 0 { adaptive() } else { self.percentage };
        let part = u64::from(nodes) * u64::from(percentage) / 100;
        (part as u32).max(self.minimum_nodes).max(1)
    }
}

/// The nodes in turn, and where the next search begins; kept across cycles.
#[derive(Debug)]
pub(super) struct Rotation {
    pub(super) sampling: Sampling,
    order: Vec<NodeId>,
    /// The stamp of the Cluster's nodes when `order` was made; 0 for never.
    nodes: u64,
    start: usize,
}

impl Rotation {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self { sampling, order: Vec::new(), nodes: 0, start: 0 }
    }

    /// Takes over the nodes of a new cycle.
    pub(super) fn begin_cycle(&mut self, cluster: &Cluster) {
        if std::mem::replace(&mut self.nodes, cluster.nodes_stamp()) == cluster.nodes_stamp() {
            return;
        }
        self.order = cluster.nodes.iter().filter(|(_, node)| node.exists).map(|(id, _)| id).collect();
        self.order.sort_by(|a, b| cluster.nodes[*a].name.cmp(&cluster.nodes[*b].name));
        self.start %= self.order.len().max(1);
    }

    /// Calls `is_feasible` for nodes in turn until as many as are wanted were feasible.
    pub(super) fn search(&mut self, mut is_feasible: impl FnMut(NodeId) -> bool) {
        let nodes = self.order.len();
        let mut left = self.sampling.wanted(nodes as u32);
        let turn = self.order[self.start..].iter().chain(&self.order[..self.start]);
        let mut seen = 0;
        for node in turn {
            if left == 0 {
                break;
            }
            seen += 1;
            left -= u32::from(is_feasible(*node));
        }
        self.start = (self.start + seen) % nodes.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_as_large_as_in_kube_scheduler() {
        for (nodes, percentage, wanted) in [
            (50, 10, 50),
            (100, 10, 100),
            (1_000, 100, 1_000),
            (1_000, 30, 300),
            (500, 10, 100),
            (1_000, 0, 420),
            (5_000, 0, 500),
            (6_000, 0, 300),
            (20_000, 0, 1_000),
        ] {
            let sampling = Sampling { percentage, minimum_percentage: 5, minimum_nodes: 100 };
            assert_eq!(sampling.wanted(nodes), wanted, "{percentage} % of {nodes}");
        }
        let none = Sampling { percentage: 1, minimum_percentage: 0, minimum_nodes: 0 };
        assert_eq!((none.wanted(10), none.wanted(0)), (1, 0), "one node at least, if there is any");
    }
}
