//! network-topology-aware: has jobs with a `networkTopology` placed in HyperNodes, and says which fits best.
//!
//! Score of a HyperNode, over the resources that the pods request and that have a weight: `sum(w * (used + requested) /
//! allocatable) / sum(w) * 100 * weight`; 0 where one of them does not fit. Of the HyperNodes of one tier with room for
//! the pods, the one with the highest score is taken. Source: Volcano's plugin `network-topology-aware`. Differences:
//! of equal HyperNodes the first by name is taken; pods without a network topology are not packed by HyperNode: with each
//! pod that is placed, the score of all nodes of its HyperNodes would change, for each class of pods. So
//! `hypernode.binpack.normal-pod.*` are not supported.
use phalanx_resource::{Amounts, DimId};

use phalanx_cluster::{Cluster, NodeSums};
use phalanx_framework::conf::{ArgKind, ArgSpec, Flag, Rule};
use phalanx_framework::plugin::{NetworkOrder, Plugin, PluginContext, PluginDef};

pub(super) const DEF: PluginDef = PluginDef {
    name: "network-topology-aware",
    summary: "Places jobs with a networkTopology in HyperNodes: lowest tier first, then the tightest fit.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(NetworkTopologyAware::new(opening)),
};

/// HyperNodes of each tier that are tried at most when pods have to be evicted.
const EVICTION_DOMAINS: i64 = 8;

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const ARGS: &[ArgSpec] = &[
    arg("weight", ArgKind::WEIGHT, "1", "Weight of the score of a HyperNode; 0 leaves the order to names."),
    arg("hypernode.binpack.cpu", ArgKind::WEIGHT, "1", "Weight of cpu."),
    arg("hypernode.binpack.memory", ArgKind::WEIGHT, "1", "Weight of memory."),
    arg(
        "hypernode.binpack.resources",
        ArgKind::Names(&[Rule::RESOURCES]),
        "",
        "Names of further resources that count.",
    ),
    arg("hypernode.binpack.resources.*", ArgKind::WEIGHT, "1", "Weight of the resource of this name."),
    arg(
        "hypernode.gradient.evict.max-hypernodes",
        ArgKind::POSITIVE_WEIGHT,
        "8",
        "HyperNodes of each tier that are tried at most when pods have to be evicted.",
    ),
];

struct NetworkTopologyAware {
    honours: bool,
    weight: i64,
    resources: Vec<(String, i64)>,
    eviction_domains: usize,
}

impl NetworkTopologyAware {
    fn new(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        // What is written and out of range counts as the default, as scheduler.conf's warning says.
        let weight = |key: &str| Some(args.weight(key, 1)).filter(|weight| *weight >= 0).unwrap_or(1);
        let mut resources: Vec<(String, i64)> = ["cpu", "memory"]
            .map(|name| (name.to_owned(), weight(&format!("hypernode.binpack.{name}"))))
            .into();
        for name in args.names("hypernode.binpack.resources") {
            let weight = weight(&format!("hypernode.binpack.resources.{name}"));
            resources.push((name, weight));
        }
        let most = args.weight("hypernode.gradient.evict.max-hypernodes", EVICTION_DOMAINS);
        Self {
            honours: opening.flags.on(Flag::HyperNodeGradient),
            weight: if opening.flags.on(Flag::HyperNodeOrder) { weight("weight") } else { 0 },
            resources,
            eviction_domains: (if most > 0 { most } else { EVICTION_DOMAINS }) as usize,
        }
    }
}

impl Plugin for NetworkTopologyAware {
    fn network_order(&self) -> Option<&dyn NetworkOrder> {
        self.honours.then_some(self as &dyn NetworkOrder)
    }
}

impl NetworkOrder for NetworkTopologyAware {
    fn scorer(&self, cluster: &Cluster, request: &Amounts) -> Box<dyn Fn(&NodeSums) -> f64> {
        let requested = |(name, weight): &(String, i64)| {
            let dim = cluster.dims.get(name).filter(|_| *weight > 0)?;
            Some((dim, request.get(dim), *weight as f64)).filter(|(_, request, _)| *request > 0)
        };
        let requested: Vec<(DimId, i64, f64)> = self.resources.iter().filter_map(requested).collect();
        let total: f64 = requested.iter().map(|(.., weight)| weight).sum();
        let weight = self.weight as f64;
        Box::new(move |sums| {
            let mut parts = 0.0;
            for (dim, request, weight) in &requested {
                let (allocatable, used) = (sums.allocatable.get(*dim), sums.used.get(*dim) + request);
                if used > allocatable || allocatable <= 0 {
                    return 0.0;
                }
                parts += weight * (used as f64 / allocatable as f64);
            }
            if total > 0.0 { parts / total * 100.0 * weight } else { 0.0 }
        })
    }

    fn eviction_domains_max(&self) -> usize {
        self.eviction_domains
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Event, Time};
    use phalanx_framework::conf::Value;
    use phalanx_framework::testing::{cluster_of, opened};

    #[test]
    fn arguments_out_of_range_count_as_their_defaults() {
        const MOST: &str = "hypernode.gradient.evict.max-hypernodes";
        let cluster = cluster_of([] as [Event; 0]);
        for (written, weight, domains) in [(-2, 1, 8), (0, 0, 8), (3, 3, 3)] {
            let list = ["weight", "hypernode.binpack.cpu", MOST].map(|name| (name, Value::Int(written)));
            let plugin = opened(NetworkTopologyAware::new, &cluster, Time(0), &list);
            assert_eq!((plugin.weight, plugin.resources[0].1), (weight, weight), "{written}");
            assert_eq!(plugin.eviction_domains, domains, "{written}");
        }
    }

    /// Computed by hand: (4/8 + 6/16) / 2 * 100 = 43.75.
    #[test]
    fn the_score_is_the_weighted_mean_of_used_parts_and_zero_without_room() {
        let amounts = |cpu, memory| Amounts::from_iter([(DimId::CPU, cpu), (DimId::MEMORY, memory)]);
        let plugin = |weights: [i64; 2]| NetworkTopologyAware {
            honours: true,
            weight: 1,
            resources: vec![("cpu".into(), weights[0]), ("memory".into(), weights[1])],
            eviction_domains: 8,
        };
        let sums = NodeSums { allocatable: amounts(8000, 16), used: amounts(3000, 4) };
        let cluster = cluster_of([] as [Event; 0]);
        let score = |weights, request: &Amounts| plugin(weights).scorer(&cluster, request)(&sums);
        assert_eq!(score([1, 1], &amounts(1000, 2)), 43.75);
        assert_eq!(score([1, 0], &amounts(1000, 2)), 50.0);
        assert_eq!(score([1, 1], &amounts(6000, 2)), 0.0);
    }
}
