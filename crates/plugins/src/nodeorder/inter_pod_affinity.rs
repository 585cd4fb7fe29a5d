//! The score of preferred pod affinity. Source: kube-scheduler 1.36, plugin InterPodAffinity.
//!
//! Nominated pods count, pods that are being deleted do not.
use super::MAX_SCORE;
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{ClassId, NodeId};
use phalanx_framework::placement::floor;
use phalanx_framework::plugin::TopologyScorer;

/// kube-scheduler's InterPodAffinity score.
pub(super) struct InterPodAffinityScorer {
    pub(super) class: ClassId,
    pub(super) weight: i64,
}

impl TopologyScorer for InterPodAffinityScorer {
    fn score(&self, cluster: &Cluster, node: NodeId) -> f64 {
        let class = &cluster.classes[self.class];
        let of = |term| cluster.terms.tally(term, node).unwrap_or_default();
        let preferred = class.carried.preferred.iter().map(|(term, weight)| {
            let [used, _, nominated] = of(*term).pods;
            weight * i64::from(used + nominated)
        });
        let drawn = cluster.terms.symmetric(class).map(|term| {
            let [used, _, nominated] = of(term).pull;
            used + nominated
        });
        (preferred.sum::<i64>() + drawn.sum::<i64>()) as f64
    }

    fn normalise(&self, scores: &mut [f64]) {
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        let range = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
        for score in scores {
            let of_range =
                if range > 0.0 { floor(MAX_SCORE as f64 * ((*score - least) / range)) } else { 0.0 };
            *score = of_range * self.weight as f64;
        }
    }
}
