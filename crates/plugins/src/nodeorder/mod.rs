//! nodeorder: kube-scheduler's scores of nodes.
//!
//! Each score is 0 to 100 times its weight. *requested* includes the pod itself:
//! - least requested: the mean over cpu and memory of `(allocatable - requested) * 100 / allocatable`, in integers;
//! - most requested: the mean of `requested * 100 / allocatable`;
//! - balanced: `50 + (50 + with - without) / 2`, where `with` and `without` are `(1 - deviation) * 100` of the used
//!   parts of cpu and memory, with the pod and without it; 0 for a pod that requests neither;
//! - node affinity: the sum of the weights of matching preferred terms; the largest sum of all nodes counts 100;
//! - taint toleration: 100 less the share of untolerated PreferNoSchedule taints;
//! - pod affinity: the weights of the pod's preferred terms for each matching pod in the node's topology domains, and
//!   the weights of terms of pods there that match the pod; the smallest sum of all nodes counts 0, the largest 100;
//! - topology spread: the fewer matching pods in the node's domains the higher, for constraints with ScheduleAnyway;
//! - image locality: by the sizes of the pod's images that are on the node (file `image_locality`).
//!
//! Least and most requested count 100 millicores and 200 MiB for a pod without requests. Source: the NodeResourcesFit,
//! NodeResourcesBalancedAllocation, NodeAffinity, TaintToleration, InterPodAffinity, PodTopologySpread and
//! ImageLocality plugins of kube-scheduler 1.36.
mod image_locality;
mod inter_pod_affinity;
mod pod_topology_spread;

use std::sync::Arc;

use phalanx_resource::DimId;

use phalanx_cluster::matching::{node_term_matches, tolerates};

use super::predicates::node_term_reads;
use phalanx_cluster::event::{Constraints, TaintEffect};
use phalanx_cluster::id::{ClassId, TaskId};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec};
use phalanx_framework::placement::{BucketAmounts, NodeAmounts, balance, floor, percent};
use phalanx_framework::plugin::{
    NodeRules, NodeScorer, Plugin, PluginContext, PluginDef, ResourceScorer, TaskRules,
};

pub(super) const DEF: PluginDef = PluginDef {
    name: "nodeorder",
    summary: "Scores nodes by idle resources, balance, preferred affinity, soft taints, spread and images.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(NodeOrder::new(opening)),
};

const fn weight(name: &'static str, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind: ArgKind::ANY_WEIGHT, default, doc }
}

const ARGS: &[ArgSpec] = &[
    weight("leastrequested.weight", "1", "Weight of unrequested cpu and memory."),
    weight("mostrequested.weight", "0", "Weight of requested cpu and memory."),
    weight("balancedresource.weight", "1", "Weight of an even use of cpu and memory."),
    weight("nodeaffinity.weight", "2", "Weight of preferred node affinity."),
    weight("tainttoleration.weight", "3", "Weight of the absence of untolerated PreferNoSchedule taints."),
    weight("podaffinity.weight", "2", "Weight of preferred pod affinity and anti-affinity."),
    weight("imagelocality.weight", "1", "Weight of images that are on the node."),
    weight(
        "podtopologyspread.weight",
        "2",
        "Weight of an even spread over topologies, for constraints with ScheduleAnyway.",
    ),
];

/// The highest score before its weight.
const MAX_SCORE: i64 = 100;
const HALF: f64 = MAX_SCORE as f64 / 2.0;
const DIMS: [DimId; 2] = [DimId::CPU, DimId::MEMORY];

#[derive(Clone, Copy)]
struct NodeOrder {
    least: i64,
    most: i64,
    balanced: i64,
    affinity: i64,
    taints: i64,
    pod_affinity: i64,
    spread: i64,
    image_locality: i64,
}

impl NodeOrder {
    fn new(opening: PluginContext<'_>) -> Self {
        let weight = |key, default| opening.args.weight(key, default);
        Self {
            least: weight("leastrequested.weight", 1),
            most: weight("mostrequested.weight", 0),
            balanced: weight("balancedresource.weight", 1),
            affinity: weight("nodeaffinity.weight", 2),
            taints: weight("tainttoleration.weight", 3),
            pod_affinity: weight("podaffinity.weight", 2),
            spread: weight("podtopologyspread.weight", 2),
            image_locality: weight("imagelocality.weight", 1),
        }
    }
}

impl Plugin for NodeOrder {
    fn scorers(&self, cluster: &Cluster, class: ClassId, rules: &mut NodeRules) {
        self.topology_scorers(cluster, class, rules);
        let class = &cluster.classes[class];
        if self.least != 0 || self.most != 0 || self.balanced != 0 {
            rules.resource_scorers.push(Box::new(ResourceAllocationScorer::new(
                *self,
                class.nonzero,
                DIMS.map(|dim| class.request.get(dim)),
            )));
        }
        if self.affinity != 0 && !class.constraints.preferred_nodes.is_empty() {
            let terms = class.constraints.preferred_nodes.iter();
            rules.reads.extend(terms.flat_map(|(_, term)| node_term_reads(term)));
            rules.scorers.push(Box::new(PreferredNodeAffinity {
                constraints: class.constraints.clone(),
                weight: self.affinity,
            }));
        }
        if self.taints != 0 {
            rules.scorers.push(Box::new(PreferredTaints {
                constraints: class.constraints.clone(),
                weight: self.taints,
            }));
        }
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        (self.image_locality != 0).then_some(self as &dyn TaskRules)
    }
}

impl TaskRules for NodeOrder {
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        if self.image_locality == 0 { 0 } else { image_locality::scope(cluster, cluster.class_of(task)) }
    }

    fn task_scorers(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        if self.image_locality != 0 {
            image_locality::scorer(cluster, cluster.class_of(task), self.image_locality, rules);
        }
    }
}

impl NodeOrder {
    fn topology_scorers(&self, cluster: &Cluster, id: ClassId, rules: &mut NodeRules) {
        let class = &cluster.classes[id];
        if self.pod_affinity != 0 && class.profile.is_some() {
            rules.topology_scorers.push(Box::new(inter_pod_affinity::InterPodAffinityScorer {
                class: id,
                weight: self.pod_affinity,
            }));
        }
        if self.spread != 0 && class.carried.spread.iter().any(|spread| !spread.required) {
            rules.topology_scorers.push(Box::new(pod_topology_spread::PodTopologySpreadScorer {
                class: id,
                weight: self.spread,
            }));
        }
    }
}

/// Least requested, most requested and balanced. All numbers are integers.
struct ResourceAllocationScorer {
    least: f64,
    most: f64,
    /// 0 for a pod that requests neither cpu nor memory.
    balanced: f64,
    nonzero: [f64; 2],
    request: [f64; 2],
}

impl ResourceAllocationScorer {
    fn new(weights: NodeOrder, nonzero: [i64; 2], request: [i64; 2]) -> Self {
        Self {
            least: weights.least as f64,
            most: weights.most as f64,
            balanced: if request == [0, 0] { 0.0 } else { weights.balanced as f64 },
            nonzero: nonzero.map(|amount| amount as f64),
            request: request.map(|amount| amount as f64),
        }
    }

    #[inline]
    fn of(&self, amounts: &NodeAmounts) -> f64 {
        let NodeAmounts { allocatable, used, nonzero_used, balance: without, .. } = *amounts;
        let requested = sum(nonzero_used, self.nonzero);
        let mut score = 0.0;
        if self.least != 0.0 {
            let left = |at: usize| {
                if requested[at] > allocatable[at] { 0.0 } else { allocatable[at] - requested[at] }
            };
            score += self.least * mean([0, 1].map(left), allocatable);
        }
        if self.most != 0.0 {
            let taken = |at: usize| requested[at].min(allocatable[at]);
            score += self.most * mean([0, 1].map(taken), allocatable);
        }
        if self.balanced != 0.0 {
            let gain = balance(sum(used, self.request), allocatable) - without;
            score += self.balanced * (HALF + floor((HALF + gain) / 2.0));
        }
        score
    }
}

impl ResourceScorer for ResourceAllocationScorer {
    fn score(&self, node: &Node) -> f64 {
        self.of(&NodeAmounts::of(node))
    }

    fn add_scores(&self, buckets: &BucketAmounts, slots: &[u32], sums: &mut [f64]) {
        for (slot, sum) in slots.iter().zip(sums) {
            *sum += self.of(buckets.amounts(*slot));
        }
    }
}

fn sum(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

/// The mean percentage over the resources that the node has.
#[inline]
fn mean(parts: [f64; 2], wholes: [f64; 2]) -> f64 {
    let [a, b] = [0, 1].map(|at| if wholes[at] > 0.0 { percent(parts[at], wholes[at]) } else { 0.0 });
    if wholes[0] > 0.0 && wholes[1] > 0.0 { floor((a + b) / 2.0) } else { a + b }
}

struct PreferredNodeAffinity {
    constraints: Arc<Constraints>,
    weight: i64,
}

impl NodeScorer for PreferredNodeAffinity {
    fn score(&self, node: &Node) -> f64 {
        let matching =
            self.constraints.preferred_nodes.iter().filter(|(_, term)| node_term_matches(term, node));
        f64::from(matching.map(|(weight, _)| *weight).sum::<i32>())
    }

    fn normalise(&self, scores: &mut [f64]) {
        let largest = scores.iter().copied().fold(0.0, f64::max);
        for score in scores {
            *score = if largest == 0.0 { 0.0 } else { (*score * MAX_SCORE as f64 / largest).floor() };
            *score *= self.weight as f64;
        }
    }
}

struct PreferredTaints {
    constraints: Arc<Constraints>,
    weight: i64,
}

impl NodeScorer for PreferredTaints {
    fn score(&self, node: &Node) -> f64 {
        let prefer =
            |effect: Option<TaintEffect>| effect.is_none_or(|effect| effect == TaintEffect::PreferNoSchedule);
        let tolerations: Vec<_> = self
            .constraints
            .tolerations
            .iter()
            .filter(|toleration| prefer(toleration.effect))
            .cloned()
            .collect();
        let soft = node.taints.iter().filter(|taint| taint.effect == TaintEffect::PreferNoSchedule);
        soft.filter(|taint| !tolerates(&tolerations, taint)).count() as f64
    }

    fn normalise(&self, scores: &mut [f64]) {
        let most = scores.iter().copied().fold(0.0, f64::max);
        let full = MAX_SCORE as f64;
        for score in scores {
            *score = if most == 0.0 { full } else { full - (*score * full / most).floor() };
            *score *= self.weight as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use phalanx_resource::Amounts;

    use super::*;
    use phalanx_cluster::event::{NodeTerm, Operator, Requirement, Taint, Toleration, TolerationOperator};

    const WEIGHTS: NodeOrder = NodeOrder {
        least: 0,
        most: 0,
        balanced: 0,
        affinity: 0,
        taints: 0,
        pod_affinity: 0,
        spread: 0,
        image_locality: 0,
    };

    /// A node of 4 cores and 10,000 bytes with some in use.
    fn node(cpu: i64, memory: i64) -> Node {
        let amounts = |cpu, memory| Amounts::from_iter([(DimId::CPU, cpu), (DimId::MEMORY, memory)]);
        Node {
            allocatable: amounts(4000, 10_000),
            idle: amounts(4000 - cpu, 10_000 - memory),
            nonzero_used: [cpu, memory],
            ..Node::default()
        }
    }

    fn scorer(weights: NodeOrder, request: [i64; 2]) -> ResourceAllocationScorer {
        ResourceAllocationScorer::new(weights, request, request)
    }

    /// Figures by hand: ((4000-3000)*100/4000 + (10000-5000)*100/10000) / 2 = (25+50)/2 = 37.
    #[test]
    fn least_and_most_requested_are_means_of_integer_percents() {
        let least = NodeOrder { least: 1, ..WEIGHTS };
        assert_eq!(scorer(least, [3000, 5000]).score(&node(0, 0)), 37.0);
        assert_eq!(scorer(least, [3000, 5000]).score(&node(2000, 0)), 25.0);
        let most = NodeOrder { most: 2, ..WEIGHTS };
        assert_eq!(scorer(most, [3000, 5000]).score(&node(0, 0)), 2.0 * 62.0);
        assert_eq!(scorer(most, [9000, 5000]).score(&node(0, 0)), 2.0 * 75.0);
    }

    /// By hand: with 3000/4000 and 5000/10000 the deviation is 0.125, so 87; before it was 100: 50 + (50 - 13) / 2 =
    /// 68.
    #[test]
    fn balanced_scores_the_change_by_the_pod() {
        let balanced = NodeOrder { balanced: 1, ..WEIGHTS };
        assert_eq!(scorer(balanced, [3000, 5000]).score(&node(0, 0)), 68.0);
        assert_eq!(scorer(balanced, [1000, 2500]).score(&node(0, 0)), 75.0);
        assert_eq!(scorer(balanced, [2000, 0]).score(&node(0, 5000)), 87.0);
        assert_eq!(scorer(balanced, [0, 0]).score(&node(0, 5000)), 0.0);
    }

    proptest::proptest! {
        /// kube-scheduler computes in integers.
        #[test]
        fn resource_scores_equal_those_in_integers(
            used in proptest::array::uniform2(0i64..12_000),
            request in proptest::array::uniform2(0i64..12_000),
        ) {
            let (whole, node) = ([4000, 10_000], node(used[0], used[1]));
            let taken = [0, 1].map(|at| used[at] + request[at]);
            let percent = |at: usize, part: i64| part * 100 / whole[at];
            let least = (0..2).map(|at| if taken[at] > whole[at] { 0 } else { percent(at, whole[at] - taken[at]) });
            let most = (0..2).map(|at| percent(at, taken[at].min(whole[at])));
            let weights = NodeOrder { least: 3, most: 5, ..WEIGHTS };
            let expected = 3 * (least.sum::<i64>() / 2) + 5 * (most.sum::<i64>() / 2);
            proptest::prop_assert_eq!(scorer(weights, request).score(&node), expected as f64);
        }
    }

    #[test]
    fn weights_of_preferred_terms_add_up_and_the_best_node_scores_100() {
        let term = |value: &str| {
            let requirement =
                Requirement { key: "zone".into(), operator: Operator::In, values: vec![value.into()] };
            NodeTerm { labels: vec![requirement], fields: vec![] }
        };
        let preferred_nodes = vec![(30, term("a")), (10, term("b"))];
        let constraints = Arc::new(Constraints { preferred_nodes, ..Constraints::default() });
        let scorer = PreferredNodeAffinity { constraints, weight: 2 };
        let zone = |value: &str| Node { labels: vec![("zone".into(), value.into())], ..Node::default() };
        let mut scores: Vec<f64> = ["a", "b", "c"].iter().map(|value| scorer.score(&zone(value))).collect();
        assert_eq!(scores, [30.0, 10.0, 0.0]);
        scorer.normalise(&mut scores);
        assert_eq!(scores, [200.0, 66.0, 0.0]);
    }

    #[test]
    fn untolerated_soft_taints_lower_the_score() {
        let taint =
            |key: &str| Taint { key: key.into(), value: "".into(), effect: TaintEffect::PreferNoSchedule };
        let toleration = |key: &str, effect| Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect,
        };
        let tolerations = vec![toleration("x", None), toleration("y", Some(TaintEffect::NoSchedule))];
        let constraints = Arc::new(Constraints { tolerations, ..Constraints::default() });
        let scorer = PreferredTaints { constraints, weight: 3 };
        let with =
            |keys: &[&str]| Node { taints: keys.iter().map(|key| taint(key)).collect(), ..Node::default() };
        let mut scores: Vec<f64> =
            [&["x"][..], &["y"], &["y", "z"]].iter().map(|keys| scorer.score(&with(keys))).collect();
        assert_eq!(scores, [0.0, 1.0, 2.0]);
        scorer.normalise(&mut scores);
        assert_eq!(scores, [300.0, 150.0, 0.0]);
    }
}
