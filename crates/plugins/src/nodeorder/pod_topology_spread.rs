//! The score of topology spread constraints with ScheduleAnyway. Source: kube-scheduler 1.36, plugin PodTopologySpread.
//!
//! Nominated pods count, pods that are being deleted do not.
use super::MAX_SCORE;
use phalanx_cluster::Cluster;
use phalanx_cluster::id::{ClassId, NodeId};
use phalanx_framework::placement::floor;
use phalanx_framework::plugin::TopologyScorer;

/// kube-scheduler's PodTopologySpread score.
pub(super) struct PodTopologySpreadScorer {
    pub(super) class: ClassId,
    pub(super) weight: i64,
}

/// The raw score of a node without the label of a topology.
const NO_LABEL: f64 = -1.0;

impl TopologyScorer for PodTopologySpreadScorer {
    fn score(&self, cluster: &Cluster, node: NodeId) -> f64 {
        let mut sum = 0.0;
        for spread in cluster.classes[self.class].carried.spread.iter().filter(|spread| !spread.required) {
            let Some(tally) = cluster.terms.tally(spread.term, node) else { return NO_LABEL };
            let [used, _, nominated] = tally.pods;
            // kube-scheduler's topologyNormalizingWeight, so that topologies with many domains do not count less.
            let weight = (cluster.terms.domains(spread.term) as f64 + 2.0).ln();
            sum += f64::from(used + nominated) * weight + f64::from(spread.max_skew - 1);
        }
        sum.round()
    }

    fn normalise(&self, scores: &mut [f64]) {
        let known = || scores.iter().copied().filter(|score| *score > NO_LABEL);
        let (least, most) = (known().fold(f64::INFINITY, f64::min), known().fold(0.0, f64::max));
        let full = MAX_SCORE as f64;
        for score in scores {
            let share = match *score {
                NO_LABEL => 0.0,
                _ if most == 0.0 => full,
                score => floor(full * (most + least - score) / most),
            };
            *score = share * self.weight as f64;
        }
    }
}
