//! The scores of all feasible nodes for one task, by plugin: what people ask for afterwards. Placement itself never
//! scores node by node.
use super::{Fit, NodeRanking};
use crate::tiers::{PluginScorers, Tiers};
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{NodeId, TaskId};

/// The scores of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeScore {
    /// The node.
    pub node: NodeId,
    /// Whether the task fits the idle resources; a node with future idle resources only comes after all others.
    pub fit: Fit,
    /// The weighted score of each plugin that scores nodes.
    pub by_plugin: Vec<(&'static str, f64)>,
}

impl NodeScore {
    /// The sum over plugins.
    pub fn total(&self) -> f64 {
        self.by_plugin.iter().map(|(_, score)| score).sum()
    }
}

impl NodeRanking {
    /// The scores of the nodes that are feasible for a task, the best first; of equal nodes the first by name.
    pub fn scores(&mut self, cluster: &Cluster, tiers: &Tiers, task: TaskId) -> Vec<NodeScore> {
        let scoped = tiers.scoped_class(cluster, task);
        let admitted: Vec<NodeId> = {
            let admits = self.admits(cluster, tiers, scoped);
            cluster.nodes.ids().filter(|node| admits(*node)).collect()
        };
        let columns: Vec<(&'static str, Vec<f64>)> = tiers
            .scorers(cluster, task)
            .iter()
            .map(|plugin| (plugin.name, plugin.scores(cluster, &admitted)))
            .collect();
        let mut rows: Vec<NodeScore> = admitted
            .iter()
            .enumerate()
            .filter_map(|(at, node)| {
                let fit = self.fit(cluster, tiers, scoped, *node)?;
                let by_plugin = columns.iter().map(|(name, scores)| (*name, scores[at])).collect();
                Some(NodeScore { node: *node, fit, by_plugin })
            })
            .collect();
        let later = |row: &NodeScore| row.fit.is_future_idle();
        let name = |row: &NodeScore| &cluster.nodes[row.node].name;
        rows.sort_by(|a, b| {
            let scores = b.total().total_cmp(&a.total());
            later(a).cmp(&later(b)).then(scores).then_with(|| name(a).cmp(name(b)))
        });
        rows
    }
}

impl PluginScorers {
    /// The weighted score of each of these nodes.
    fn scores(&self, cluster: &Cluster, nodes: &[NodeId]) -> Vec<f64> {
        let mut sums = vec![0.0; nodes.len()];
        let mut add = |scores: &[f64]| sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        for scorer in &self.rules.scorers {
            let mut scores: Vec<f64> = nodes.iter().map(|node| scorer.score(&cluster.nodes[*node])).collect();
            scorer.normalise(&mut scores);
            add(&scores);
        }
        for scorer in &self.rules.topology_scorers {
            let mut scores: Vec<f64> = nodes.iter().map(|node| scorer.score(cluster, *node)).collect();
            scorer.normalise(&mut scores);
            add(&scores);
        }
        for scorer in &self.rules.resource_scorers {
            let scores: Vec<f64> = nodes.iter().map(|node| scorer.score(&cluster.nodes[*node])).collect();
            add(&scores);
        }
        for scorer in &self.rules.hyper_node_scorers {
            let score = |node: &NodeId| {
                let added = cluster.hyper_nodes.by_tier(*node).map(|id| scorer.added(cluster, id));
                scorer.outside(cluster) + added.sum::<f64>()
            };
            let scores: Vec<f64> = nodes.iter().map(score).collect();
            add(&scores);
        }
        for (node, score) in &self.extra {
            nodes.iter().position(|other| other == node).into_iter().for_each(|at| sums[at] += score);
        }
        sums
    }
}
