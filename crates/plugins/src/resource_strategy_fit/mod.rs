//! resource-strategy-fit: each resource is packed or spread by a strategy of its own.
//!
//! - Score: the mean, by weight, over the requested resources that have a strategy, of the part of the node that would be
//!   in use (`MostAllocated`) or free (`LeastAllocated`), times 100, times `resourceStrategyFitWeight`; nothing on a node
//!   that would have too little of one of them. A name with a `*` at its end stands for all names that begin so; the
//!   longest one counts, and a full name before it. A pod's annotations replace the strategies: one type for all
//!   resources, and weights as JSON; with weights that cannot be read its nodes score alike.
//! - `sra`: nodes that have few of the listed, scarce resources score higher: `100 * weight * (1 - present / all)` by
//!   weights of the resources, for nodes that have all that is requested.
//! - `proportional`: a pod that requests none of the listed resources must leave, for each idle unit of them, `cpu` cores
//!   and `memory` gigabytes (10^9) idle.
//!
//! Source: Volcano's resource-strategy-fit plugin.
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId, Dims};

use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::{Scoring, Strategy, Time};
use phalanx_cluster::id::{ClassId, JobId};
use phalanx_cluster::{Class, Node, World};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Args, Otherwise, Rule};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{
    NodeRules, ObjectField, Plugin, PluginContext, PluginDef, ResourceFilter, ResourceScorer,
};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const ARGS: &[ArgSpec] = &[
    arg("resourceStrategyFitWeight", ArgKind::WEIGHT, "10", "Weight of the score; 0 switches it off."),
    arg(
        "resources",
        ArgKind::Section(&[arg(
            "*",
            ArgKind::Section(RESOURCE),
            "",
            "A resource, or the beginning of its name and *.",
        )]),
        "{cpu: {type: LeastAllocated, weight: 1}, memory: {type: LeastAllocated, weight: 1}}",
        "Strategies by resource.",
    ),
    arg(
        "sra",
        ArgKind::Section(SRA),
        "",
        "Keeps pods off nodes with scarce resources that they do not need.",
    ),
    arg(
        "proportional",
        ArgKind::Section(PROPORTIONAL),
        "",
        "Keeps cpu and memory for the idle scarce resources of a node.",
    ),
];

const TYPES: Rule = Rule::new(Allowed::Words(&["LeastAllocated", "MostAllocated"]), Otherwise::Default);

const RESOURCE: &[ArgSpec] = &[
    arg("type", ArgKind::Text(&[TYPES]), "LeastAllocated", "LeastAllocated spreads, MostAllocated packs."),
    arg("weight", ArgKind::POSITIVE_WEIGHT, "1", "Weight of the resource."),
];

const SRA: &[ArgSpec] = &[
    arg("enable", ArgKind::Bool, "false", "Switches it on."),
    arg("resources", ArgKind::Names(&[Rule::RESOURCES]), "", "The scarce resources."),
    arg("weight", ArgKind::WEIGHT, "0", "Weight of the score; 0 switches it off."),
    arg(
        "resourceWeight",
        ArgKind::Section(&[arg("*", ArgKind::WEIGHT, "1", "Weight of a resource.")]),
        "",
        "Weights by resource.",
    ),
];

const PROPORTIONAL: &[ArgSpec] = &[
    arg("enable", ArgKind::Bool, "false", "Switches it on."),
    arg("resources", ArgKind::Names(&[Rule::RESOURCES]), "", "The scarce resources."),
    arg(
        "resourceProportion",
        ArgKind::Section(&[arg(
            "*",
            ArgKind::Float(&[Rule::at_least(0)]),
            "1",
            "`RESOURCE.cpu` and `RESOURCE.memory`.",
        )]),
        "",
        "Cores and gigabytes to keep for each idle unit.",
    ),
];

const READS: &[ObjectField] = &[
    ObjectField::new(
        "volcano.sh/resource-strategy-scoring-type",
        "annotation of a pod",
        "the argument `resources`",
        "`LeastAllocated` or `MostAllocated`, for all that the pod requests; with another value its nodes score alike.",
    ),
    ObjectField::new(
        "volcano.sh/resource-strategy-weight",
        "annotation of a pod",
        "nodes score alike",
        "Weights beside the type: JSON such as `{\"cpu\": 2, \"nvidia.com/gpu\": 5}`.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "resource-strategy-fit",
    summary: "Packs some resources and spreads others, and keeps scarce ones for those who need them.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(ResourceStrategyFit::open(opening)),
};

/// What a score reaches at most, before its weight.
const MAX_SCORE: f64 = 100.0;

struct ResourceStrategyFit {
    weight: f64,
    resources: Vec<ResourceStrategy>,
    sra: SraWeights,
    proportional: Vec<ProportionalRate>,
}

/// The strategy of the resources of one name, or of all names with a prefix.
struct ResourceStrategy {
    name: String,
    prefix: bool,
    scoring: Scoring,
    weight: f64,
}

/// Weights of scarce resources.
#[derive(Default)]
struct SraWeights {
    weight: f64,
    resources: Vec<(String, f64)>,
}

/// What an idle unit of a resource keeps.
struct ProportionalRate {
    name: String,
    cpu: f64,
    memory: f64,
}

impl ResourceStrategyFit {
    fn open(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let weight = args.weight("resourceStrategyFitWeight", 10);
        Self {
            weight: if weight < 0 { 10.0 } else { weight as f64 },
            resources: rules(&args.section("resources")),
            sra: SraWeights::read(&args.section("sra")),
            proportional: proportions(&args.section("proportional")),
        }
    }

    /// The strategy for a resource: by its full name, else by the longest prefix.
    fn rule(&self, name: &str) -> Option<&ResourceStrategy> {
        let exact = self.resources.iter().find(|rule| !rule.prefix && rule.name == name);
        let by_prefix = self.resources.iter().filter(|rule| rule.prefix && name.starts_with(&rule.name));
        exact.or_else(|| by_prefix.max_by_key(|rule| rule.name.len()))
    }

    fn terms(&self, dims: &Dims, class: &Class) -> Vec<StrategyTerm> {
        let own = class.constraints.strategy.as_ref();
        let one = |(dim, request)| {
            let (scoring, weight) = match own {
                Some(strategy) => (strategy.scoring, weight_in(strategy, dims.name(dim))?),
                None => self.rule(dims.name(dim)).map(|rule| (rule.scoring, rule.weight))?,
            };
            Some(StrategyTerm { dim, request, scoring, weight })
        };
        class.request.iter().filter_map(one).collect()
    }
}

fn weight_in(strategy: &Strategy, name: &str) -> Option<f64> {
    strategy.weights.iter().find(|(each, _)| **each == *name).map(|(_, weight)| *weight as f64)
}

fn rules(resources: &Args) -> Vec<ResourceStrategy> {
    let rule = |(name, arg): (&String, &phalanx_framework::conf::Arg)| {
        let args = arg.section();
        let (name, prefix) = name.strip_suffix('*').map_or((name.as_str(), false), |prefix| (prefix, true));
        let scoring = match args.text("type") {
            Some("MostAllocated") => Scoring::Most,
            _ => Scoring::Least,
        };
        let weight = Some(args.weight("weight", 1)).filter(|weight| *weight > 0).unwrap_or(1) as f64;
        // A star alone, or one elsewhere than at the end, has no meaning in Volcano.
        let sound = !name.is_empty() && !name.contains('*');
        sound.then(|| ResourceStrategy { name: name.to_owned(), prefix, scoring, weight })
    };
    if resources.0.is_empty() {
        let least = |name: &str| ResourceStrategy {
            name: name.into(),
            prefix: false,
            scoring: Scoring::Least,
            weight: 1.0,
        };
        return vec![least("cpu"), least("memory")];
    }
    resources.0.iter().filter_map(rule).collect()
}

impl SraWeights {
    fn read(args: &Args) -> Self {
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

fn proportions(args: &Args) -> Vec<ProportionalRate> {
    if !args.bool("enable", false) {
        return Vec::new();
    }
    let rates = args.section("resourceProportion");
    let rate = |key: String| Some(rates.float(&key, 1.0)).filter(|rate| *rate >= 0.0).unwrap_or(1.0);
    let one = |name: String| ProportionalRate {
        cpu: rate(format!("{name}.cpu")),
        memory: rate(format!("{name}.memory")),
        name,
    };
    args.names("resources").into_iter().map(one).collect()
}

impl Plugin for ResourceStrategyFit {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn filters(&self, world: &World, class: ClassId, rules: &mut NodeRules) {
        let request = &world.classes[class].request;
        let known = |rule: &ProportionalRate| Some((world.dims.get(&rule.name)?, rule.cpu, rule.memory));
        let kept: Vec<_> = self.proportional.iter().filter_map(known).collect();
        if kept.iter().any(|(dim, ..)| request.get(*dim) > 0) {
            return;
        }
        for (scarce, cpu, memory) in kept {
            let text = format!("proportional of resource {} check failed", world.dims.name(scarce));
            let request = [DimId::CPU, DimId::MEMORY].map(|dim| request.get(dim) as f64);
            rules.resource_filters.push(Box::new(ProportionalFilter {
                scarce,
                // For each thousandth of a unit: thousandths of a core, and bytes.
                rates: [cpu, memory * 1e6],
                request,
                text: text.into(),
            }));
        }
    }

    fn scorers(&self, world: &World, class: ClassId, rules: &mut NodeRules) {
        let class = &world.classes[class];
        let terms = self.terms(&world.dims, class);
        if self.weight > 0.0 && !terms.is_empty() {
            rules.resource_scorers.push(Box::new(StrategyScorer { terms, weight: self.weight }));
        }
        if self.sra.weight > 0.0 {
            let known = |(name, weight): &(String, f64)| Some((world.dims.get(name)?, *weight));
            rules.resource_scorers.push(Box::new(SraScorer {
                request: class.request.clone(),
                resources: self.sra.resources.iter().filter_map(known).collect(),
                all: self.sra.resources.iter().map(|(_, weight)| weight).sum(),
                weight: self.sra.weight,
            }));
        }
    }
}

/// A requested resource and its strategy.
struct StrategyTerm {
    dim: DimId,
    request: i64,
    scoring: Scoring,
    weight: f64,
}

struct StrategyScorer {
    terms: Vec<StrategyTerm>,
    weight: f64,
}

impl StrategyTerm {
    /// From 0 to the weight; `None` when the node has too little.
    fn score(&self, node: &Node) -> Option<f64> {
        let allocatable = node.allocatable.get(self.dim);
        if allocatable == 0 {
            return Some(0.0);
        }
        let used = node.used(self.dim) + self.request;
        if used > allocatable {
            return None;
        }
        let part = match self.scoring {
            Scoring::Least => allocatable - used,
            Scoring::Most => used,
            Scoring::Unknown => 0,
        };
        Some(part as f64 * self.weight / allocatable as f64)
    }
}

impl ResourceScorer for StrategyScorer {
    fn score(&self, node: &Node) -> f64 {
        let sum: Option<f64> = self.terms.iter().map(|term| term.score(node)).sum();
        let weights: f64 = self.terms.iter().map(|term| term.weight).sum();
        let Some(sum) = sum else { return 0.0 };
        (if weights > 0.0 { sum / weights } else { sum }) * MAX_SCORE * self.weight
    }
}

struct SraScorer {
    request: Amounts,
    resources: Vec<(DimId, f64)>,
    /// The sum of all weights, also of resources that no node has.
    all: f64,
    weight: f64,
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

/// ProportionalFilter enough cpu and memory for the idle units of a scarce resource.
struct ProportionalFilter {
    scarce: DimId,
    rates: [f64; 2],
    request: [f64; 2],
    text: Arc<str>,
}

impl ResourceFilter for ProportionalFilter {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        if node.allocatable.get(self.scarce) == 0 {
            return Ok(());
        }
        let room = if fit == Fit::Idle { &node.idle } else { &node.future_idle() };
        let idle = [DimId::CPU, DimId::MEMORY].map(|dim| room.get(dim) as f64);
        let scarce = room.get(self.scarce) as f64;
        let enough = (0..2).all(|at| idle[at] - self.request[at] >= scarce * self.rates[at]);
        if enough { Ok(()) } else { Err(Unfit::Beside(self.text.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Constraints, PodInfo, Time};
    use phalanx_framework::conf::Value;
    use phalanx_framework::testing::{node, opened, pod, running, task_of, world_of};

    /// A world with node `n`, a pod on it, and the pod `p` that waits.
    fn world(allocatable: &str, used: &str, waiting: PodInfo) -> World {
        let mut world = world_of([node("n", allocatable)]);
        world.apply(running(pod("used", used), "n").into());
        world.apply(waiting.into());
        world
    }

    fn rules(world: &World, list: &[(&str, Value)]) -> NodeRules {
        let plugin = opened(ResourceStrategyFit::open, world, Time(0), list);
        let class = world.tasks[task_of(world, "p")].class;
        let mut rules = NodeRules::default();
        plugin.filters(world, class, &mut rules);
        plugin.scorers(world, class, &mut rules);
        rules
    }

    fn score(world: &World, list: &[(&str, Value)]) -> f64 {
        let node = &world.nodes[world.node_named("n").unwrap()];
        rules(world, list).resource_scorers.iter().map(|scorer| scorer.score(node)).sum()
    }

    fn strategy(kind: &str, weight: i64) -> Value {
        [("type", kind.into()), ("weight", weight.into())].into()
    }

    const GPU: &str = "nvidia.com/gpu";

    #[test]
    fn the_score_is_the_mean_over_the_requested_resources_by_weight() {
        let world = world(
            "cpu=10 memory=10Gi nvidia.com/gpu=8",
            "cpu=4",
            pod("p", "cpu=1 memory=5Gi nvidia.com/gpu=2"),
        );
        let most = || strategy("MostAllocated", 1);
        let cases: Vec<(Vec<(&str, Value)>, f64)> = vec![
            // By default cpu 5/10 free and memory 5/10 free.
            (vec![], 500.0),
            (vec![("resourceStrategyFitWeight", 1.into())], 50.0),
            (vec![("resourceStrategyFitWeight", (-3).into())], 500.0),
            (vec![("resourceStrategyFitWeight", 0.into())], 0.0),
            (vec![("resources", [(GPU, most())].into())], 250.0),
            // (0.25 * 3 + 0.5) / 4
            (vec![("resources", [(GPU, strategy("MostAllocated", 3)), ("cpu", most())].into())], 312.5),
            (vec![("resources", [(GPU, strategy("LeastAllocated", 1))].into())], 750.0),
            // Weights that are not above 0 count as 1, unknown types as LeastAllocated.
            (vec![("resources", [(GPU, strategy("Other", -2))].into())], 750.0),
            // The longest prefix counts, and a full name before it.
            (
                vec![(
                    "resources",
                    [("nvidia.com/*", most()), ("nvidia*", strategy("LeastAllocated", 1))].into(),
                )],
                250.0,
            ),
            (
                vec![("resources", [("nvidia.com/*", most()), (GPU, strategy("LeastAllocated", 1))].into())],
                750.0,
            ),
            // A star alone has no meaning.
            (vec![("resources", [("*", most())].into())], 0.0),
            (vec![("resources", [("amd.com/gpu", most())].into())], 0.0),
        ];
        for (list, expected) in cases {
            assert_eq!(score(&world, &list), expected, "{list:?}");
        }
    }

    #[test]
    fn a_node_with_too_little_of_one_scores_nothing() {
        let full = world("cpu=4 memory=10Gi", "cpu=4", pod("p", "cpu=1 memory=1Gi"));
        assert_eq!(score(&full, &[]), 0.0);
        let without = world("cpu=4", "cpu=1", pod("p", "cpu=1 memory=1Gi"));
        assert_eq!(score(&without, &[]), 250.0, "what the node has none of counts 0 of its weight");
    }

    #[test]
    fn a_pod_may_bring_its_own_strategy() {
        let with = |scoring, weights: &[(&str, i64)]| {
            let weights = weights.iter().map(|(name, weight)| ((*name).into(), *weight)).collect();
            let strategy = Some(Strategy { scoring, weights });
            let constraints = Arc::new(Constraints { strategy, ..Constraints::default() });
            let world =
                world("cpu=10 memory=10Gi", "cpu=4", PodInfo { constraints, ..pod("p", "cpu=1 memory=1Gi") });
            score(&world, &[])
        };
        assert_eq!(with(Scoring::Most, &[("cpu", 1)]), 500.0);
        assert_eq!(with(Scoring::Most, &[("cpu", 1), ("memory", 3)]), 200.0);
        assert_eq!(with(Scoring::Least, &[("memory", 3)]), 900.0);
        assert_eq!(with(Scoring::Most, &[("nvidia.com/gpu", 3)]), 0.0);
        assert_eq!(with(Scoring::Unknown, &[("cpu", 1)]), 0.0);
        assert_eq!(with(Scoring::Most, &[]), 0.0);
    }

    #[test]
    fn scarce_resources_keep_others_away() {
        let sra = |enable: bool, weight: i64| -> Vec<(&str, Value)> {
            let weights: Value = [(GPU, 3.into()), ("fpga", (-1).into())].into();
            let sra = [
                ("enable", enable.into()),
                ("weight", weight.into()),
                ("resources", "nvidia.com/gpu, fpga".into()),
                ("resourceWeight", weights),
            ];
            vec![("resourceStrategyFitWeight", 0.into()), ("sra", sra.into())]
        };
        for (allocatable, expected) in [
            ("cpu=4", 200.0),
            ("cpu=4 fpga=1", 150.0),
            ("cpu=4 nvidia.com/gpu=1", 50.0),
            ("cpu=4 nvidia.com/gpu=1 fpga=1", 0.0),
            ("memory=1Gi", 0.0),
        ] {
            // Both names are known wherever they are.
            let mut world = world(allocatable, "", pod("p", "cpu=1"));
            world.apply(node("other", "nvidia.com/gpu=1 fpga=1").into());
            assert_eq!(score(&world, &sra(true, 2)), expected, "{allocatable}");
            assert_eq!(score(&world, &sra(false, 2)), 0.0, "{allocatable}");
            assert_eq!(score(&world, &sra(true, 0)), 0.0, "{allocatable}");
        }
    }

    #[test]
    fn cpu_and_memory_are_kept_for_idle_gpus() {
        let proportional = |enable: bool| -> Vec<(&str, Value)> {
            let rates: Value =
                [("nvidia.com/gpu.cpu", 2.into()), ("nvidia.com/gpu.memory", (-4.0).into())].into();
            let section =
                [("enable", enable.into()), ("resources", GPU.into()), ("resourceProportion", rates)];
            vec![("proportional", section.into())]
        };
        let fits = |used: &str, request: &str, enable: bool| {
            let world = world("cpu=10 memory=10G nvidia.com/gpu=4", used, pod("p", request));
            let node = &world.nodes[world.node_named("n").unwrap()];
            let rules = rules(&world, &proportional(enable));
            rules.resource_filters.iter().all(|filter| filter.check(node, Fit::Idle).is_ok())
        };
        for (used, request, expected) in [
            // Four idle GPUs keep 8 cores and 4 GB.
            ("", "cpu=2", true),
            ("", "cpu=2100m", false),
            ("", "cpu=1 memory=6G", true),
            ("", "cpu=1 memory=6001M", false),
            ("nvidia.com/gpu=3", "cpu=8", true),
            ("nvidia.com/gpu=3", "cpu=8100m", false),
            ("", "cpu=10 nvidia.com/gpu=1", true),
        ] {
            assert_eq!(fits(used, request, true), expected, "{used} then {request}");
            assert!(fits(used, request, false), "{used} then {request}, switched off");
        }
    }
}
