//! network-topology-aware: has jobs with a `networkTopology` placed in HyperNodes, and says which fits best.
//!
//! Score of a HyperNode, over the resources that the pods request and that have a weight: `sum(w * (used + requested) /
//! allocatable) / sum(w) * 100 * weight`; 0 where one of them does not fit. Of the HyperNodes of one tier with room for
//! the pods, the one with the highest score is taken; of equal ones the first by name.
//!
//! Score of a node for a pod without a network topology: the mean of the scores of its HyperNodes for this pod over all
//! tiers, weighted by `fading ^ (tier - 1)`. Where the node is in no HyperNode of a tier, that tier counts with the full
//! score, and the whole cluster is a HyperNode of a tier above all others. So such pods prefer HyperNodes that are fuller,
//! and nodes in no HyperNode most. A pod has a network topology if its sub-group has one, or else its job.
//!
//! Source: Volcano's plugin `network-topology-aware`.
use phalanx_resource::{Amounts, DimId};

use phalanx_cluster::id::TaskId;
use phalanx_cluster::{Cluster, HyperNodeId, NodeSums};
use phalanx_framework::conf::{ArgKind, ArgSpec, Flag, Rule};
use phalanx_framework::plugin::{
    HyperNodeScorer, NetworkOrder, NodeRules, Plugin, PluginContext, PluginDef, TaskRules,
};

pub(super) const DEF: PluginDef = PluginDef {
    name: "network-topology-aware",
    summary: "Places jobs with a networkTopology in HyperNodes: lowest tier first, then the tightest fit. Other pods \
              prefer fuller HyperNodes.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(NetworkTopologyAware::new(opening)),
};

/// HyperNodes of each tier that are tried at most when pods have to be evicted.
const EVICTION_DOMAINS: i64 = 8;
const FADING: f64 = 0.8;

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const ARGS: &[ArgSpec] = &[
    arg(
        "weight",
        ArgKind::WEIGHT,
        "1",
        "Weight of the score of a HyperNode, and of that of a node beside those of other plugins; with 0 there are none.",
    ),
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
        "hypernode.binpack.normal-pod.enable",
        ArgKind::Bool,
        "true",
        "Whether nodes get a score by how full their HyperNodes are, for pods without a networkTopology.",
    ),
    arg(
        "hypernode.binpack.normal-pod.fading",
        ArgKind::Float(&[Rule::at_least(0)]),
        "0.8",
        "What the weight of a tier in that score is multiplied by for the next tier; with 0 only tier 1 counts.",
    ),
    arg(
        "hypernode.gradient.evict.max-hypernodes",
        ArgKind::POSITIVE_WEIGHT,
        "8",
        "HyperNodes of each tier that are tried at most when pods have to be evicted.",
    ),
];

struct NetworkTopologyAware {
    /// `enabledHyperNodeGradient`
    gradient: bool,
    /// `enabledHyperNodeOrder`
    order: bool,
    weight: i64,
    resources: Vec<(String, i64)>,
    /// How tiers fade in the score of a node; `None` where nodes get none.
    fading: Option<f64>,
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
        let fading = args.float("hypernode.binpack.normal-pod.fading", FADING);
        let fading = if fading >= 0.0 { fading } else { FADING };
        let most = args.weight("hypernode.gradient.evict.max-hypernodes", EVICTION_DOMAINS);
        Self {
            gradient: opening.flags.on(Flag::HyperNodeGradient),
            weight: weight("weight"),
            order: opening.flags.on(Flag::HyperNodeOrder),
            resources,
            fading: args.bool("hypernode.binpack.normal-pod.enable", true).then_some(fading),
            eviction_domains: (if most > 0 { most } else { EVICTION_DOMAINS }) as usize,
        }
    }
}

impl Plugin for NetworkTopologyAware {
    fn network_order(&self) -> Option<&dyn NetworkOrder> {
        self.gradient.then_some(self as &dyn NetworkOrder)
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        (self.fading.is_some() && self.weight > 0).then_some(self as &dyn TaskRules)
    }
}

impl TaskRules for NetworkTopologyAware {
    /// Tells pods without a network topology from others.
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        u64::from(!cluster.hyper_nodes.is_empty() && !has_topology(cluster, task))
    }

    fn task_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        let Some(fading) = self.fading.filter(|_| self.scope(cluster, task) != 0) else { return };
        let packing = self.packing(cluster, cluster.request_of(task));
        rules.hyper_node_scorer(NodePacking { packing, fading });
    }
}

fn has_topology(cluster: &Cluster, task: TaskId) -> bool {
    let Some(job) = cluster.tasks[task].job else { return false };
    let it = &cluster.jobs[job];
    let of_sub_group = || cluster.sub_group_policy_of(job, task).is_some_and(|it| it.topology.is_some());
    it.topology.is_some() || (it.asks_topology() && of_sub_group())
}

/// How full HyperNodes are with a request.
struct Packing {
    /// Resources that are requested and have a weight, with the request and the weight.
    requested: Vec<(DimId, i64, f64)>,
    weights: f64,
    /// The score of a full HyperNode.
    full: f64,
}

impl Packing {
    fn score(&self, sums: &NodeSums) -> f64 {
        let mut parts = 0.0;
        for (dim, request, weight) in &self.requested {
            let (allocatable, used) = (sums.allocatable.get(*dim), sums.used.get(*dim) + request);
            if used > allocatable || allocatable <= 0 {
                return 0.0;
            }
            parts += weight * (used as f64 / allocatable as f64);
        }
        if self.weights > 0.0 { parts / self.weights * self.full } else { 0.0 }
    }
}

/// The score of nodes.
struct NodePacking {
    packing: Packing,
    fading: f64,
}

impl NodePacking {
    /// The part of the score that a tier has. The sum of the weights of all tiers, from the lowest to that of the whole
    /// cluster, is a geometric series: tiers are numbers of users, and there may be millions between two of them.
    fn part(&self, tier: u32, lowest: u32, cluster: u32) -> f64 {
        let weight = |tier: u32| self.fading.powf(f64::from(tier) - 1.0);
        let tiers = f64::from(cluster - lowest) + 1.0;
        let sum = if self.fading == 1.0 {
            tiers
        } else {
            weight(lowest) * (1.0 - self.fading.powf(tiers)) / (1.0 - self.fading)
        };
        let part = weight(tier) / sum;
        if part.is_finite() { part } else { 0.0 }
    }

    /// How much a tier lowers the score of a node whose HyperNode of the tier has these sums.
    fn lowers(&self, cluster: &Cluster, tier: u32, sums: &NodeSums) -> f64 {
        let Some((lowest, highest)) = cluster.hyper_nodes.tiers() else { return 0.0 };
        let part = self.part(tier, lowest, highest.saturating_add(1));
        part * (self.packing.full - self.packing.score(sums))
    }
}

impl HyperNodeScorer for NodePacking {
    fn outside(&self, cluster: &Cluster) -> f64 {
        let top = cluster.hyper_nodes.tiers().map_or(0, |(_, highest)| highest.saturating_add(1));
        self.packing.full - self.lowers(cluster, top, &cluster.sums)
    }

    fn added(&self, cluster: &Cluster, id: HyperNodeId) -> f64 {
        let hyper_nodes = &cluster.hyper_nodes;
        -self.lowers(cluster, hyper_nodes.get(id).tier, hyper_nodes.sums(id))
    }
}

impl NetworkTopologyAware {
    fn packing(&self, cluster: &Cluster, request: &Amounts) -> Packing {
        let requested = |(name, weight): &(String, i64)| {
            let dim = cluster.dims.get(name).filter(|_| *weight > 0)?;
            Some((dim, request.get(dim), *weight as f64)).filter(|(_, request, _)| *request > 0)
        };
        let requested: Vec<(DimId, i64, f64)> = self.resources.iter().filter_map(requested).collect();
        let weights = requested.iter().map(|(.., weight)| weight).sum();
        Packing { requested, weights, full: 100.0 * self.weight as f64 }
    }
}

impl NetworkOrder for NetworkTopologyAware {
    fn scorer(&self, cluster: &Cluster, request: &Amounts) -> Box<dyn Fn(&NodeSums) -> f64> {
        let (packing, order) = (self.packing(cluster, request), self.order);
        Box::new(move |sums| if order { packing.score(sums) } else { 0.0 })
    }

    fn eviction_domains_max(&self) -> usize {
        self.eviction_domains
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Event, HyperNodeInfo, HyperNodeMember, Time};
    use phalanx_framework::conf::Value;
    use phalanx_framework::testing::{cluster_of, node, opened, pod, running, task_of};

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
        let sums = NodeSums { allocatable: amounts(8000, 16), used: amounts(3000, 4) };
        let cluster = cluster_of([] as [Event; 0]);
        let score = |weights: [i64; 2], request: &Amounts| {
            let names = ["hypernode.binpack.cpu", "hypernode.binpack.memory"];
            let list = [0, 1].map(|at| (names[at], Value::Int(weights[at])));
            let plugin = opened(NetworkTopologyAware::new, &cluster, Time(0), &list);
            plugin.scorer(&cluster, request)(&sums)
        };
        assert_eq!(score([1, 1], &amounts(1000, 2)), 43.75);
        assert_eq!(score([1, 0], &amounts(1000, 2)), 50.0);
        assert_eq!(score([1, 1], &amounts(6000, 2)), 0.0);
    }

    fn hyper_node(name: &str, tier: u32, members: Vec<HyperNodeMember>) -> Event {
        HyperNodeInfo { name: name.into(), tier, members, ..HyperNodeInfo::default() }.into()
    }

    /// Computed by hand, with weight 2. With the pod, rack r is full to (3 + 1) / 4, rack s to 1 / 4, the spine to (3 + 1)
    /// / 8 and the cluster to (3 + 1) / 12. With fading 0.5 the tiers weigh 1, 0.5 and 0.25: node a has (1 + 0.5 * 0.5 +
    /// 0.25 / 3) / 1.75 of 200, node b (0.25 + 0.5 * 0.5 + 0.25 / 3) / 1.75, node c (1 + 0.5 + 0.25 / 3) / 1.75.
    #[test]
    fn a_node_scores_by_how_full_its_hyper_nodes_are_and_each_tier_counts_less() {
        let node_of = |name: &str| HyperNodeMember::Node(name.into());
        let mut cluster = cluster_of([
            Event::Node(node("a", "cpu=4")),
            Event::Node(node("b", "cpu=4")),
            Event::Node(node("c", "cpu=4")),
            hyper_node("r", 1, vec![node_of("a")]),
            hyper_node("s", 1, vec![node_of("b")]),
            hyper_node(
                "spine",
                2,
                vec![HyperNodeMember::HyperNode("r".into()), HyperNodeMember::HyperNode("s".into())],
            ),
            running(pod("g-0", "cpu=3"), "a").into(),
            pod("g-1", "cpu=1").into(),
        ]);
        cluster.follow_hyper_nodes();
        let task = task_of(&cluster, "g-1");
        let score = |args: &[(&'static str, Value)]| {
            let (plugin, mut rules) =
                (opened(NetworkTopologyAware::new, &cluster, Time(0), args), NodeRules::default());
            if let Some(part) = plugin.task_rules() {
                part.task_scorers(&cluster, task, &mut rules);
            }
            let of = |node: &str| {
                let node = cluster.node_named(node).expect("a node");
                let ids = || cluster.hyper_nodes.by_tier(node);
                let scores = rules.hyper_node_scorers.iter().map(|scorer| {
                    scorer.outside(&cluster) + ids().map(|id| scorer.added(&cluster, id)).sum::<f64>()
                });
                scores.sum::<f64>().round()
            };
            ["a", "b", "c"].map(of)
        };
        let weight = ("weight", Value::Int(2));
        let fading = |it| [weight.clone(), ("hypernode.binpack.normal-pod.fading", Value::Float(it))];
        assert_eq!(score(&fading(0.5)), [152.0, 67.0, 181.0]);
        assert_eq!(score(&fading(1.0)), [122.0, 72.0, 156.0]);
        assert_eq!(score(&fading(0.0)), [200.0, 50.0, 200.0]);
        assert_eq!(score(&fading(-1.0)), score(std::slice::from_ref(&weight)), "out of range");
        let off = ("hypernode.binpack.normal-pod.enable", Value::Bool(false));
        assert_eq!(score(&[weight, off]), [0.0; 3]);
    }
}
