//! Node sampling: of many nodes that will do, only some are compared. Off unless it is asked for.
//!
//! Source: Volcano's and kube-scheduler's `--percentage-nodes-to-find`: a node that was found to do is one with room at
//! once; the search begins behind the last node of the search before, and the adaptive percentage falls with the number of
//! nodes. Nodes stand in the order of their names. Room that comes later counts only where no node has room at once.
use phalanx_cluster::World;
use phalanx_cluster::id::NodeId;

/// Nodes for each percent that the adaptive percentage falls.
const NODES_A_PERCENT: u32 = 125;

/// How many nodes are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Percent of all nodes; 0 for 50 less one for each 125 nodes.
    pub percentage: u32,
    /// The adaptive percentage does not fall below this.
    pub minimum_percentage: u32,
    /// At least this many nodes; a cluster with no more of them is looked at whole.
    pub minimum_nodes: u32,
}

impl Sampling {
    /// After how many nodes that will do the search ends.
    pub fn wanted(self, nodes: u32) -> u32 {
        if nodes <= self.minimum_nodes || self.percentage >= 100 {
            return nodes;
        }
        let adaptive = || 50u32.saturating_sub(nodes / NODES_A_PERCENT).max(self.minimum_percentage.min(100));
        let percentage = if self.percentage == 0 { adaptive() } else { self.percentage };
        let part = u64::from(nodes) * u64::from(percentage) / 100;
        (part as u32).max(self.minimum_nodes).max(1)
    }
}

/// The nodes in turn, and where the next search begins; lives across cycles.
#[derive(Debug)]
pub(super) struct Rotation {
    pub(super) sampling: Sampling,
    order: Vec<NodeId>,
    /// The World's stamp of nodes when they were put in order; 0 for never.
    nodes: u64,
    start: usize,
}

impl Rotation {
    pub(super) fn new(sampling: Sampling) -> Self {
        Self { sampling, order: Vec::new(), nodes: 0, start: 0 }
    }

    /// The nodes of a new cycle.
    pub(super) fn begin_cycle(&mut self, world: &World) {
        if std::mem::replace(&mut self.nodes, world.nodes_stamp()) == world.nodes_stamp() {
            return;
        }
        self.order = world.nodes.iter().filter(|(_, node)| node.exists).map(|(id, _)| id).collect();
        self.order.sort_by(|a, b| world.nodes[*a].name.cmp(&world.nodes[*b].name));
        self.start %= self.order.len().max(1);
    }

    /// Hands out nodes in turn until as many as are wanted were found good.
    pub(super) fn search(&mut self, mut is_good: impl FnMut(NodeId) -> bool) {
        let nodes = self.order.len();
        let mut left = self.sampling.wanted(nodes as u32);
        let turn = self.order[self.start..].iter().chain(&self.order[..self.start]);
        let mut seen = 0;
        for node in turn {
            if left == 0 {
                break;
            }
            seen += 1;
            left -= u32::from(is_good(*node));
        }
        self.start = (self.start + seen) % nodes.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_nodes_are_wanted_as_kube_scheduler_wants() {
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
