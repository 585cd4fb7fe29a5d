//! fragmentation: prefers nodes on which a pod leaves the least that the typical pod cannot use.
//!
//! What is free of a resource on a node is of no use to a pod for which the node lacks something else, or enough of
//! the resource. The fragments of a node are that amount, for a pod drawn by chance from the list of typical pods.
//! Score: `100 * fragmentation.weight / (1 + exp(growth of the fragments, in units of the resource))`. Source:
//! Fragmentation Gradient Descent (Weng et al., "Beware of Fragmentation", USENIX ATC 2023); here the devices of a node
//! count together, and labels that typical pods require do not count.
use phalanx_cluster::id::ClassId;
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec, Args, Rule, quantity};
use phalanx_framework::plugin::{NodeRules, Plugin, PluginContext, PluginDef, ResourceScorer};
use phalanx_resource::{Amounts, DimId, Quantity};

pub(super) const DEF: PluginDef = PluginDef {
    name: "fragmentation",
    summary: "Scores nodes higher the less a pod leaves on them that the typical pod cannot use.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Fragmentation::new(opening)),
};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const ARGS: &[ArgSpec] = &[
    arg("fragmentation.weight", ArgKind::WEIGHT, "1", "Weight of the score; 0 switches it off."),
    arg("fragmentation.resource", ArgKind::Text(&[Rule::RESOURCES]), "nvidia.com/gpu", "The resource."),
    arg(
        "fragmentation.pods",
        ArgKind::Sections(POD),
        "",
        "Typical pods that request the resource; without any, the plugin has no opinion.",
    ),
];

const POD: &[ArgSpec] = &[
    arg(
        "part",
        ArgKind::Float(&[Rule::at_least(0)]),
        "1",
        "How many such pods there are, against the others.",
    ),
    arg(
        "requests",
        ArgKind::Section(&[arg("*", ArgKind::Quantity, "0", "A resource.")]),
        "",
        "What it requests.",
    ),
];

struct Fragmentation {
    weight: i64,
    resource: String,
    pods: Vec<TypicalPod>,
}

/// A typical pod.
struct TypicalPod {
    part: f64,
    requests: Vec<(String, Quantity)>,
}

impl Fragmentation {
    fn new(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        Self {
            weight: args.weight("fragmentation.weight", 1),
            resource: args.text("fragmentation.resource").unwrap_or("nvidia.com/gpu").to_owned(),
            pods: args.sections("fragmentation.pods").iter().map(TypicalPod::new).collect(),
        }
    }
}

impl TypicalPod {
    fn new(args: &Args) -> Self {
        let request = |(name, arg): (&String, _)| Some((name.clone(), quantity(arg)?));
        let requests = args.section("requests");
        let requests = requests.0.iter().map(|(name, arg)| (name, &arg.value)).filter_map(request).collect();
        Self { part: args.float("part", 1.0), requests }
    }

    /// Requests by dimension; `None` if no node has one of them.
    fn amounts(&self, cluster: &Cluster) -> Option<Vec<(DimId, i64)>> {
        let dims = &cluster.dims;
        let amount = |(name, amount): &(String, Quantity)| {
            let dim = dims.get(name)?;
            Some((dim, dims.amount(dim, *amount)))
        };
        self.requests.iter().map(amount).collect()
    }
}

impl Plugin for Fragmentation {
    fn scorers(&self, cluster: &Cluster, class: ClassId, rules: &mut NodeRules) {
        let Some(resource) = cluster.dims.get(&self.resource) else { return };
        let total: f64 = self.pods.iter().map(|pod| pod.part).sum();
        if self.weight == 0 || total <= 0.0 {
            return;
        }
        let one = "1".parse().map_or(1, |one| cluster.dims.amount(resource, one)).max(1);
        let kind = |pod: &TypicalPod| Some((pod.part / total, pod.amounts(cluster)?));
        let kinds: Vec<_> = self.pods.iter().filter_map(kind).collect();
        rules.resource_scorers.push(Box::new(FragmentationScorer {
            resource,
            lost: 1.0 - kinds.iter().map(|(part, _)| part).sum::<f64>(),
            kinds,
            request: cluster.classes[class].request.clone(),
            unit: one as f64,
            factor: 100.0 * self.weight as f64,
        }));
    }
}

struct FragmentationScorer {
    resource: DimId,
    /// Parts and requests of typical pods.
    kinds: Vec<(f64, Vec<(DimId, i64)>)>,
    /// The part of pods that fit on no node.
    lost: f64,
    request: Amounts,
    unit: f64,
    factor: f64,
}

impl FragmentationScorer {
    /// What is free in fragments on a node with so much less idle.
    fn fragments(&self, node: &Node, less: impl Fn(DimId) -> i64) -> f64 {
        let idle = |dim: DimId| node.idle.get(dim) - less(dim);
        let free = idle(self.resource).max(0);
        if free == 0 {
            return 0.0;
        }
        let fits = |requests: &[(DimId, i64)]| requests.iter().all(|(dim, amount)| *amount <= idle(*dim));
        let useless = self.kinds.iter().filter(|(_, requests)| !fits(requests)).map(|(part, _)| part);
        (self.lost + useless.sum::<f64>()) * free as f64 / self.unit
    }
}

impl ResourceScorer for FragmentationScorer {
    fn score(&self, node: &Node) -> f64 {
        let growth = self.fragments(node, |dim| self.request.get(dim)) - self.fragments(node, |_| 0);
        self.factor / (1.0 + growth.exp())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: i64 = 1_000;

    fn node(cpu: i64, memory: i64) -> Node {
        Node { idle: Amounts::from_iter([(DimId::CPU, cpu), (DimId::MEMORY, memory)]), ..Node::default() }
    }

    /// Fragments of cpu, for pods half of which request 1 and half of which request 4 CPUs with as many bytes.
    fn scorer(cpu: i64, memory: i64) -> FragmentationScorer {
        let kind = |amount: i64| (0.5, vec![(DimId::CPU, amount * CPU), (DimId::MEMORY, amount)]);
        FragmentationScorer {
            resource: DimId::CPU,
            kinds: vec![kind(1), kind(4)],
            lost: 0.0,
            request: Amounts::from_iter([(DimId::CPU, cpu * CPU), (DimId::MEMORY, memory)]),
            unit: CPU as f64,
            factor: 100.0,
        }
    }

    #[test]
    fn fragments_are_what_the_typical_pod_cannot_use() {
        let none = |_| 0;
        for (cpu, memory, expected) in [(8, 8, 0.0), (3, 8, 1.5), (8, 3, 4.0), (8, 0, 8.0), (0, 8, 0.0)] {
            assert_eq!(scorer(1, 1).fragments(&node(cpu * CPU, memory), none), expected, "{cpu} {memory}");
        }
    }

    /// On 4 CPUs a pod of 1 CPU leaves 3 of no use to half of the pods; on 3 it takes 1 of 3 such; 1 it uses up.
    #[test]
    fn a_pod_goes_where_fragments_grow_least() {
        let score = |cpu: i64| scorer(1, 1).score(&node(cpu * CPU, 8));
        let grown = |growth: f64| 100.0 / (1.0 + growth.exp());
        assert_eq!(
            [score(4), score(3), score(1), score(8)],
            [grown(1.5), grown(-0.5), grown(-0.5), grown(0.0)]
        );
    }
}
