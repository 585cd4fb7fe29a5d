//! binpack: prefers nodes with little idle, so that whole nodes stay free.
//!
//! Score, over the resources that the pod requests and that have a weight: `sum(w * (used + requested) / allocatable) /
//! sum(w) * 100 * binpack.weight`; a resource with too little idle counts as 0. Source: Volcano's binpack plugin.
use phalanx_resource::DimId;

use phalanx_cluster::id::ClassId;
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::placement::{BucketAmounts, NodeAmounts};
use phalanx_framework::plugin::{NodeRules, Plugin, PluginContext, PluginDef, ResourceScorer};

pub(super) const DEF: PluginDef = PluginDef {
    name: "binpack",
    summary: "Scores nodes higher the fuller they would be.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Binpack::new(opening)),
};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const ARGS: &[ArgSpec] = &[
    arg("binpack.weight", ArgKind::ANY_WEIGHT, "1", "Weight of the score; 0 switches it off."),
    arg("binpack.cpu", ArgKind::WEIGHT, "1", "Weight of cpu."),
    arg("binpack.memory", ArgKind::WEIGHT, "1", "Weight of memory."),
    arg(
        "binpack.resources",
        ArgKind::Names(&[Rule::RESOURCES]),
        "",
        "Names of further resources that count.",
    ),
    arg("binpack.resources.*", ArgKind::WEIGHT, "1", "Weight of the resource of this name."),
];

struct Binpack {
    weight: i64,
    resources: Vec<(String, i64)>,
}

impl Binpack {
    fn new(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let weight = |key: &str| match args.weight(key, 1) {
            negative if negative < 0 => 1,
            weight => weight,
        };
        let mut resources =
            vec![("cpu".to_owned(), weight("binpack.cpu")), ("memory".to_owned(), weight("binpack.memory"))];
        for name in args.names("binpack.resources") {
            let key = format!("binpack.resources.{name}");
            resources.push((name, weight(&key)));
        }
        Self { weight: args.weight("binpack.weight", 1), resources }
    }
}

impl Plugin for Binpack {
    fn scorers(&self, cluster: &Cluster, class: ClassId, rules: &mut NodeRules) {
        let request = &cluster.classes[class].request;
        let of = |(name, weight): &(String, i64)| {
            let dim = cluster.dims.get(name)?;
            let requested = request.get(dim);
            (requested > 0 && *weight > 0).then_some(BinpackResource {
                dim,
                requested: requested as f64,
                weight: *weight as f64,
            })
        };
        let shares: Vec<BinpackResource> = self.resources.iter().filter_map(of).collect();
        if self.weight != 0 && !shares.is_empty() {
            let total: f64 = shares.iter().map(|share| share.weight).sum();
            rules
                .resource_scorers
                .push(Box::new(BinpackScorer { shares, factor: 100.0 * self.weight as f64 / total }));
        }
    }
}

/// A requested resource with a weight.
struct BinpackResource {
    dim: DimId,
    requested: f64,
    weight: f64,
}

struct BinpackScorer {
    shares: Vec<BinpackResource>,
    factor: f64,
}

impl BinpackResource {
    /// The used part of the node's allocatable with the pod, times the weight; 0 where the pod does not fit.
    #[inline]
    fn of(&self, node: &Node, amounts: Option<&NodeAmounts>) -> f64 {
        let (allocatable, used) = match amounts {
            Some(amounts) if self.dim.index() < 2 => {
                (amounts.allocatable[self.dim.index()], amounts.used[self.dim.index()])
            }
            _ => (node.allocatable.get(self.dim) as f64, node.used(self.dim) as f64),
        };
        let used = used + self.requested;
        if allocatable == 0.0 || used > allocatable { 0.0 } else { self.weight * used / allocatable }
    }
}

impl ResourceScorer for BinpackScorer {
    fn score(&self, node: &Node) -> f64 {
        self.shares.iter().map(|share| share.of(node, None)).sum::<f64>() * self.factor
    }

    fn add_scores(&self, buckets: &BucketAmounts, slots: &[u32], sums: &mut [f64]) {
        for (slot, sum) in slots.iter().zip(sums) {
            let (node, amounts) = (buckets.node(*slot), buckets.amounts(*slot));
            *sum += self.shares.iter().map(|share| share.of(node, Some(amounts))).sum::<f64>() * self.factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_resource::Amounts;

    use super::*;

    fn node(used: [i64; 2]) -> Node {
        let amounts = |cpu, memory| Amounts::from_iter([(DimId::CPU, cpu), (DimId::MEMORY, memory)]);
        Node {
            allocatable: amounts(4000, 1000),
            idle: amounts(4000 - used[0], 1000 - used[1]),
            ..Node::default()
        }
    }

    fn scorer(weights: [f64; 2]) -> BinpackScorer {
        let share = |dim, requested, weight| BinpackResource { dim, requested, weight };
        let shares = vec![share(DimId::CPU, 1000.0, weights[0]), share(DimId::MEMORY, 500.0, weights[1])];
        BinpackScorer { shares, factor: 100.0 / (weights[0] + weights[1]) }
    }

    /// Computed by hand: (1000/4000 + 500/1000) / 2 * 100 = 37.5.
    #[test]
    fn the_score_is_the_weighted_mean_of_used_parts() {
        assert_eq!(scorer([1.0, 1.0]).score(&node([0, 0])), 37.5);
        assert_eq!(scorer([3.0, 1.0]).score(&node([0, 0])), 31.25);
        assert_eq!(scorer([1.0, 1.0]).score(&node([1000, 0])), 50.0);
    }

    #[test]
    fn a_resource_with_too_little_idle_scores_zero() {
        assert_eq!(scorer([1.0, 1.0]).score(&node([0, 600])), 12.5);
    }
}
