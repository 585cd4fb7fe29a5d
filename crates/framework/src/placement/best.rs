//! The best node for a task, and the scores that single nodes have for the task besides those of its rules.
use rustc_hash::FxHashMap;

use super::buckets::NodeBuckets;
use super::tournament::Rating;
use super::{FUTURE_IDLE_OFFSET, RankedClass, rating};
use phalanx_cluster::Fit;
use phalanx_cluster::id::NodeId;

/// The best node for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestNode {
    /// The node.
    pub node: NodeId,
    /// Whether the node has idle or only future idle resources.
    pub fit: Fit,
}

/// Scores that single nodes have for a task besides those of its rules, in millionths
/// ([`SCORE_MILLIONTHS`](super::SCORE_MILLIONTHS)).
#[derive(Debug, Default)]
pub struct ExtraScores(FxHashMap<NodeId, i64>);

impl ExtraScores {
    /// Adds scores of nodes; several scores of a node are added.
    pub(crate) fn add(&mut self, scores: Vec<(NodeId, f64)>) {
        for (node, score) in scores {
            *self.0.entry(node).or_default() += rating::in_millionths(score);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The extra score of a node.
    pub(super) fn of(&self, node: NodeId) -> i64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    pub(super) fn added(&self, node: NodeId, rating: Rating) -> Rating {
        Rating { score: rating.score + self.of(node), ..rating }
    }

    /// The rating of a node with its extra score and its own tie-break.
    pub(super) fn rating(&self, known: &RankedClass, buckets: &NodeBuckets, node: NodeId) -> Option<Rating> {
        let rating = known.ranking.rating(buckets.of(node)?);
        let own = || Rating { tie_break: buckets.tie_break_of(node), ..rating };
        (rating != Rating::NONE).then(|| self.added(node, own()))
    }
}

/// The best of the nodes that were offered.
#[derive(Default)]
pub(super) struct BestSoFar(Option<(Rating, NodeId)>);

impl BestSoFar {
    /// Compares a node with the best one so far; returns how the node fits.
    pub(super) fn offer(&mut self, node: NodeId, rating: Option<Rating>) -> Option<Fit> {
        let rating = rating?;
        if self.0.is_none_or(|best| (rating, node) > best) {
            self.0 = Some((rating, node));
        }
        Some(fit_of(rating))
    }

    pub(super) fn node(self) -> Option<BestNode> {
        self.0.map(|(rating, node)| BestNode { node, fit: fit_of(rating) })
    }
}

/// Whether a rating is one of idle or of future idle resources.
pub(super) fn fit_of(rating: Rating) -> Fit {
    if rating.score < -(FUTURE_IDLE_OFFSET / 2) { Fit::FutureIdle } else { Fit::Idle }
}
