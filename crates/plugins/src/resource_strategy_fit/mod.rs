//! resource-strategy-fit: each resource is packed or spread by a strategy of its own.
//!
//! - Score: the weighted mean, over the requested resources with a strategy, of the part of the node's allocatable that
//!   would be used (`MostAllocated`) or idle (`LeastAllocated`), times 100, times `resourceStrategyFitWeight`; 0 on a
//!   node with too little idle of one of them. A name that ends in `*` stands for all resources that begin with it; of
//!   several the longest counts, and a full name before any. Annotations of a pod replace the strategies: one type for
//!   all resources, and weights as JSON; with weights that cannot be read all nodes score alike.
//! - `sra` (file `sra`): nodes with few of the listed scarce resources score higher,
//!   `100 * weight * (1 - present / all)` by the weights of the resources, for nodes that have all requested resources.
//! - `proportional` (file `proportional`): a pod that requests none of the listed resources must leave, for each idle
//!   unit of them, `cpu` cores and `memory` gigabytes (10^9) idle.
//!
//! Source: Volcano's resource-strategy-fit plugin.
mod proportional;
mod sra;
#[cfg(test)]
mod tests;

use phalanx_resource::{DimId, Dims};

use phalanx_cluster::event::{Scoring, Strategy};
use phalanx_cluster::id::ClassId;
use phalanx_cluster::{Class, Cluster, Node};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Args, Otherwise, Rule};
use phalanx_framework::plugin::{NodeRules, ObjectField, Plugin, PluginContext, PluginDef, ResourceScorer};
use proportional::{ProportionalRate, ScarceResource, proportions};
use sra::{SraScorer, SraWeights};

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
            "The name of a resource, or the beginning of names and `*`.",
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
        "`LeastAllocated` or `MostAllocated`, for all resources of the pod; with another value all nodes score alike.",
    ),
    ObjectField::new(
        "volcano.sh/resource-strategy-weight",
        "annotation of a pod",
        "nodes score alike",
        "Weights for the scoring type: JSON such as `{\"cpu\": 2, \"nvidia.com/gpu\": 5}`.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "resource-strategy-fit",
    summary: "Packs some resources and spreads others, and keeps scarce ones for pods that request them.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(ResourceStrategyFit::open(opening)),
};

/// The highest score before its weight.
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

impl Plugin for ResourceStrategyFit {
    fn filters(&self, cluster: &Cluster, class: ClassId, rules: &mut NodeRules) {
        let request = &cluster.classes[class].request;
        let known = |rule: &ProportionalRate| Some((cluster.dims.get(&rule.name)?, rule.cpu, rule.memory));
        let kept: Vec<_> = self.proportional.iter().filter_map(known).collect();
        if kept.iter().any(|(dim, ..)| request.get(*dim) > 0) {
            return;
        }
        for (scarce, cpu, memory) in kept {
            let text = format!("proportional of resource {} check failed", cluster.dims.name(scarce));
            let request = [DimId::CPU, DimId::MEMORY].map(|dim| request.get(dim) as f64);
            let kept = ScarceResource { scarce, rates: [cpu, memory * 1e6], request, text: text.into() };
            rules.resource_filter(move |node, fit| kept.check(node, fit));
        }
    }

    fn scorers(&self, cluster: &Cluster, class: ClassId, rules: &mut NodeRules) {
        let class = &cluster.classes[class];
        let terms = self.terms(&cluster.dims, class);
        if self.weight > 0.0 && !terms.is_empty() {
            rules.resource_scorers.push(Box::new(StrategyScorer { terms, weight: self.weight }));
        }
        if self.sra.weight > 0.0 {
            let known = |(name, weight): &(String, f64)| Some((cluster.dims.get(name)?, *weight));
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
    /// From 0 to the weight; `None` when the node has too little idle.
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
