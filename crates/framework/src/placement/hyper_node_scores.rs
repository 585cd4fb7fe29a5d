//! What HyperNodes add to the scores of domain groups, for one class. A pod that is placed changes the sums of the
//! HyperNodes of its node, and with them the scores of all nodes there: what each HyperNode adds is kept, and summed up
//! for each group.
use super::rating::in_millionths;
use crate::plugin::HyperNodeScorer;
use phalanx_cluster::{Cluster, HyperNodeId};

/// What HyperNodes add, in millionths.
#[derive(Debug, Default)]
pub(super) struct HyperNodeScores {
    of_hyper_node: Vec<i64>,
    of_group: Vec<i64>,
    /// The position in the Cluster's log of touched nodes up to which the log was read.
    cursor: u64,
}

impl HyperNodeScores {
    /// Without groups.
    pub(super) fn new(cluster: &Cluster, scorers: &[Box<dyn HyperNodeScorer>]) -> Self {
        let of_hyper_node = if scorers.is_empty() { Vec::new() } else { added_by_all(cluster, scorers) };
        Self { of_hyper_node, of_group: Vec::new(), cursor: cluster.touched_end() }
    }

    /// Asks about the HyperNodes whose sums may have changed. Returns whether one adds something else now.
    pub(super) fn catch_up(&mut self, cluster: &Cluster, scorers: &[Box<dyn HyperNodeScorer>]) -> bool {
        if scorers.is_empty() {
            return false;
        }
        let touched = cluster.touched_since(self.cursor);
        self.cursor = cluster.touched_end();
        let hyper_nodes = &cluster.hyper_nodes;
        let same = self.of_hyper_node.len() == hyper_nodes.len();
        let Some(touched) = touched.filter(|touched| same && touched.len() < hyper_nodes.len()) else {
            let known = std::mem::replace(&mut self.of_hyper_node, added_by_all(cluster, scorers));
            return self.of_hyper_node != known;
        };
        let mut changed = false;
        for id in touched.iter().flat_map(|node| hyper_nodes.by_tier(*node)) {
            let added = added(cluster, scorers, id);
            changed |= std::mem::replace(&mut self.of_hyper_node[id.index()], added) != added;
        }
        changed
    }

    /// Sums up what the HyperNodes of each group add.
    pub(super) fn add_up(&mut self, groups: impl Iterator<Item = impl Iterator<Item = HyperNodeId>>) {
        let Self { of_hyper_node, of_group, .. } = self;
        for (sum, ids) in of_group.iter_mut().zip(groups) {
            *sum = ids.map(|id| of_hyper_node[id.index()]).sum();
        }
    }

    /// Sums up what the HyperNodes of one group add, which may be new.
    pub(super) fn set(&mut self, group: usize, ids: impl Iterator<Item = HyperNodeId>) {
        if self.of_group.len() <= group {
            self.of_group.resize(group + 1, 0);
        }
        self.of_group[group] = ids.map(|id| self.of_hyper_node[id.index()]).sum();
    }

    /// What is added to the score of each group.
    pub(super) fn all(&self) -> impl Iterator<Item = i64> {
        self.of_group.iter().copied()
    }
}

fn added_by_all(cluster: &Cluster, scorers: &[Box<dyn HyperNodeScorer>]) -> Vec<i64> {
    cluster.hyper_nodes.iter().map(|(id, _)| added(cluster, scorers, id)).collect()
}

fn added(cluster: &Cluster, scorers: &[Box<dyn HyperNodeScorer>], id: HyperNodeId) -> i64 {
    scorers.iter().map(|scorer| in_millionths(scorer.added(cluster, id))).sum()
}
