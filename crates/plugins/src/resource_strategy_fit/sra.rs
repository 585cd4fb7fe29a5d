//! `sra`: pods score nodes with scarce resources lower.
use phalanx_resource::{Amounts, DimId};

use super::MAX_SCORE;
use phalanx_cluster::Node;
use phalanx_framework::conf::Args;
use phalanx_framework::plugin::ResourceScorer;

/// The section `sra`: the weight of the score, and the weights of scarce resources.
#[derive(Default)]
pub(super) struct SraWeights {
    pub(super) weight: f64,
    pub(super) resources: Vec<(String, f64)>,
}

impl SraWeights {
    pub(super) fn read(args: &Args) -> Self {
        if !args.bool("enable", false) {
            return Self::default();
        }
        let weights = args.section("resourceWeight");
        let weight =
            |name: &str| Some(weights.weight(name, 1)).filter(|weight| *weight >= 0).unwrap_or(1) as f64;
        let resources = args.names("resources").into_iter().map(|name| (weight(&name), name));
        let resources = resources.map(|(weight, name)| (name, weight)).collect();
        Self { weight: args.weight("weight", 0) as f64, resources }
    }
}

pub(super) struct SraScorer {
    pub(super) request: Amounts,
    pub(super) resources: Vec<(DimId, f64)>,
    /// The sum of all weights, including those of resources that no node has.
    pub(super) all: f64,
    pub(super) weight: f64,
}

impl ResourceScorer for SraScorer {
    fn score(&self, node: &Node) -> f64 {
        let has = |dim| node.allocatable.get(dim) > 0;
        if self.all == 0.0 || !self.request.iter().all(|(dim, _)| has(dim)) {
            return 0.0;
        }
        let present: f64 = self.resources.iter().filter(|(dim, _)| has(*dim)).map(|(_, weight)| weight).sum();
        (1.0 - present / self.all) * MAX_SCORE * self.weight
    }
}
