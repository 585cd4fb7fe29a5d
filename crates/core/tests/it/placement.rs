//! Placement by class (NodeRanking) against the plain rule, which rates every node anew and takes the best.
mod around;

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_cluster::annotation::NODEGROUP_NAME;
use phalanx_cluster::event::{
    Constraints, Event, HostPort, HyperNodeInfo, HyperNodeMember, Measure, NamespaceInfo, NodeGroups,
    NodeInfo, NodeTerm, NodeUsage, Operator, PodInfo, QueueInfo, Requirement, Taint, TaintEffect, Time,
    Toleration, TolerationOperator,
};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Cluster, Node, Status, Task};
use phalanx_framework::conf::{Conf, PluginConf, Tier};
use phalanx_framework::placement::{
    BestNode, Fit, Limits, NodeRanking, SCORE_MILLIONTHS, Sampling, tie_break,
};
use phalanx_framework::testing::{args, cluster_of, node, pod, queue, running};
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;

const SEED: u64 = 7;
/// Few nodes, so that random pods meet.
const NODES: usize = 6;
/// Enough that a topology domain is large by the limits in force.
const MANY_NODES: usize = 30;
const HYPER_NODES: usize = 5;
const PLAIN: usize = 7;
const KINDS: usize = PLAIN + around::RULES;

// ---------------------------------------------------------------- the plain rule

/// A node's rank: idle resources before future idle ones, then score, then tie-break.
type Rank = (bool, i64, u64);

fn in_millionths(score: f64) -> i64 {
    (score * SCORE_MILLIONTHS).round() as i64
}

/// The rank of every feasible node.
fn ranks(cluster: &Cluster, tiers: &Tiers, task: TaskId) -> Vec<(NodeId, Rank)> {
    let class = cluster.tasks[task].class;
    let rules = tiers.scoped_rules(cluster, class, task);
    let fit = |node: &Node| node.exists && rules.filters.iter().all(|filter| filter(node).is_ok());
    let nodes: Vec<(NodeId, &Node)> = cluster.nodes.iter().filter(|(_, node)| fit(node)).collect();
    let mut fixed = vec![0; nodes.len()];
    for scorer in &rules.scorers {
        let mut scores: Vec<f64> = nodes.iter().map(|(_, node)| scorer.score(node)).collect();
        scorer.normalise(&mut scores);
        for (sum, score) in fixed.iter_mut().zip(scores) {
            *sum += in_millionths(score);
        }
    }
    let ids: Vec<NodeId> = nodes.iter().map(|(id, _)| *id).collect();
    for (sum, score) in fixed.iter_mut().zip(around::scores(cluster, task, &ids)) {
        *sum += score;
    }
    let request = &cluster.classes[class].request;
    let rank = |((id, node), fixed): (&(NodeId, &Node), i64)| {
        let passes = |fit| rules.resource_filters.iter().all(|filter| filter(node, fit).is_ok());
        let now = node.fits_now(request) && passes(Fit::Idle) && around::fits(cluster, task, *id, false);
        let later =
            node.fits_later(request) && passes(Fit::FutureIdle) && around::fits(cluster, task, *id, true);
        if !now && !later {
            return None;
        }
        let room: f64 = rules.resource_scorers.iter().map(|scorer| scorer.score(node)).sum();
        let scorers = || rules.hyper_node_scorers.iter();
        let near: i64 = cluster
            .hyper_nodes
            .by_tier(*id)
            .flat_map(|it| scorers().map(move |scorer| in_millionths(scorer.added(cluster, it))))
            .sum();
        Some((*id, (now, fixed + in_millionths(room) + near, tie_break(SEED, &node.name))))
    };
    nodes.iter().zip(fixed).filter_map(rank).collect()
}

fn room(now: bool) -> Fit {
    if now { Fit::Idle } else { Fit::FutureIdle }
}

// ---------------------------------------------------------------- random clusters

/// A change; numbers pick the object.
#[derive(Clone, Debug)]
enum Step {
    Node(Box<NodeInfo>),
    NodeGone(usize),
    /// In tenths of what the node can give.
    Usage(usize, [u32; 2]),
    /// The number of a HyperNode, its tier, its nodes and the number of one below it.
    HyperNode(usize, u32, Vec<usize>, usize),
    HyperNodeGone(usize),
    /// The groups of nodes that the queue requires and prefers.
    Groups(Option<[&'static str; 2]>),
    /// Kind and labels.
    Pod(usize, usize),
    Foreign(usize, usize, usize),
    /// The team of a namespace.
    Team(&'static str, Option<&'static str>),
    PodGone(usize),
    Place(usize),
    PutOn(usize, usize),
    Leave(usize),
    TakeBack(usize),
    EndCycle,
}

fn name(at: usize) -> String {
    format!("n{at}")
}

fn taint(key: &str, effect: TaintEffect) -> Taint {
    Taint { key: key.into(), value: "".into(), effect }
}

fn node_info() -> impl Strategy<Value = NodeInfo> {
    let size = (1u32..5, 1u32..9, prop_oneof![3 => Just(0u32), 1 => 1u32..3], 1u32..6);
    let label = |values: &'static [&'static str]| prop::option::of(prop::sample::select(values));
    let effect = prop::sample::select(vec![TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule]);
    let taints = prop::collection::vec(
        (prop::sample::select(vec!["x", "y"]), effect).prop_map(|(key, effect)| taint(key, effect)),
        0..2,
    );
    let group = label(&["g", "h", "i"]);
    let health = (prop::bool::weighted(0.9), prop::bool::weighted(0.15));
    (size, label(&["a", "b", "c"]), label(&["1", "5"]), group, taints, health).prop_map(
        |((cpu, memory, gpus, pods), zone, cores, group, taints, (ready, unschedulable))| {
            let mut info = node("", &format!("cpu={cpu} memory={memory}Gi x/gpu={gpus} pods={pods}"));
            info.labels.extend(zone.map(|zone| ("zone".into(), zone.into())));
            info.labels.extend(group.map(|group| (NODEGROUP_NAME.into(), group.into())));
            info.labels.extend(cores.map(|cores| ("cores".into(), cores.into())));
            NodeInfo { taints, unschedulable, ready, ..info }
        },
    )
}

/// The node under a name that only it has, in a label too.
fn named(at: usize, mut info: NodeInfo) -> NodeInfo {
    info.name = name(at).into();
    info.labels.retain(|(key, _)| &**key != "kubernetes.io/hostname");
    info.labels.push(("kubernetes.io/hostname".into(), name(at).into()));
    info.labels.sort();
    info
}

fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    Requirement { key: key.into(), operator, values: values.iter().map(|value| (*value).into()).collect() }
}

fn term(labels: Vec<Requirement>) -> NodeTerm {
    NodeTerm { labels, fields: vec![] }
}

/// Pods of different kinds: the kind determines requests and constraints.
fn pod_of(kind: usize, look: usize, name: &str) -> PodInfo {
    let requests =
        ["cpu=1", "cpu=1 memory=1Gi", "cpu=500m memory=3Gi", "x/gpu=1 cpu=1", "", "cpu=1", "memory=1Gi"];
    let tolerate = |key: &str| Toleration {
        key: key.into(),
        operator: TolerationOperator::Exists,
        value: "".into(),
        effect: None,
    };
    let constraints = match kind {
        1 => Constraints {
            node_selector: vec![("zone".into(), "a".into())],
            tolerations: vec![tolerate("x")],
            ..Constraints::default()
        },
        2 => Constraints {
            preferred_nodes: vec![
                (10, term(vec![requirement("zone", Operator::In, &["a", "b"])])),
                (30, term(vec![requirement("cores", Operator::Gt, &["3"])])),
            ],
            ..Constraints::default()
        },
        4 => Constraints {
            node_affinity: Some(vec![
                term(vec![requirement("kubernetes.io/hostname", Operator::NotIn, &["n1"])]),
                term(vec![requirement("cores", Operator::Exists, &[])]),
            ]),
            tolerations: vec![tolerate("")],
            ..Constraints::default()
        },
        5 => Constraints {
            host_ports: vec![HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 }],
            ..Constraints::default()
        },
        6 => Constraints {
            node_affinity: Some(vec![NodeTerm {
                labels: vec![],
                fields: vec![requirement("metadata.name", Operator::In, &["n2", "n3"])],
            }]),
            ..Constraints::default()
        },
        ruled if ruled >= PLAIN => Constraints {
            pod_rules: Some(Arc::new(around::rules(ruled - PLAIN))),
            node_selector: if ruled % 3 == 0 { vec![("zone".into(), "a".into())] } else { vec![] },
            tolerations: if ruled % 2 == 0 { vec![tolerate("x")] } else { vec![] },
            ..Constraints::default()
        },
        _ => Constraints::default(),
    };
    let mut pod = pod(name, requests[kind % PLAIN]);
    let (namespace, labels) = around::look(look);
    Arc::make_mut(&mut pod.pod).namespace = namespace.into();
    PodInfo { constraints: Arc::new(constraints), labels, ..pod }
}

fn step(nodes: usize) -> impl Strategy<Value = Step> {
    let (pod, node, kind, look) = (0usize..5 * nodes, 0..nodes, kind(), 0..around::LOOKS);
    let team = prop::option::of(prop::sample::select(vec!["a", "b"]));
    prop_oneof![
        3 => (node.clone(), node_info())
            .prop_map(|(at, info)| Step::Node(Box::new(named(at, info)))),
        1 => node.clone().prop_map(Step::NodeGone),
        1 => (node.clone(), prop::array::uniform2(0u32..=10)).prop_map(|(at, parts)| Step::Usage(at, parts)),
        1 => prop::option::of(Just(["g", "h"])).prop_map(Step::Groups),
        2 => hyper_node(nodes),
        1 => (0..HYPER_NODES).prop_map(Step::HyperNodeGone),
        6 => (kind.clone(), look.clone()).prop_map(|(kind, look)| Step::Pod(kind, look)),
        2 => (kind, look, node.clone()).prop_map(|(kind, look, node)| Step::Foreign(kind, look, node)),
        1 => (prop::sample::select(vec!["ns", "other"]), team).prop_map(|(name, team)| Step::Team(name, team)),
        2 => pod.clone().prop_map(Step::PodGone),
        8 => pod.clone().prop_map(Step::Place),
        1 => (pod.clone(), node).prop_map(|(pod, node)| Step::PutOn(pod, node)),
        2 => pod.clone().prop_map(Step::Leave),
        2 => pod.prop_map(Step::TakeBack),
        1 => Just(Step::EndCycle),
    ]
}

fn hyper_node(nodes: usize) -> impl Strategy<Value = Step> {
    let members = (prop::collection::vec(0..nodes, 0..nodes / 2), 0..HYPER_NODES);
    (0..HYPER_NODES, 1u32..4, members)
        .prop_map(|(at, tier, (nodes, below))| Step::HyperNode(at, tier, nodes, below))
}

/// Half of the clusters have pods with pod rules, so that clusters without any are tried too.
fn kind() -> impl Strategy<Value = usize> + Clone {
    prop_oneof![0..PLAIN, PLAIN..KINDS]
}

/// Initial nodes, of at most so many, and steps, each with the kinds of pods to place after it.
fn script(nodes: usize) -> impl Strategy<Value = (Vec<NodeInfo>, Vec<(Step, u8)>)> {
    let start = prop::collection::vec(node_info(), 0..nodes)
        .prop_map(|list| list.into_iter().enumerate().map(|(at, info)| named(at, info)).collect());
    let asked = prop_oneof![2 => Just(0u8), 2 => any::<u8>()];
    (start, prop::collection::vec((step(nodes), asked), 1..40 + 3 * nodes))
}

fn tiers(cluster: &Cluster) -> Tiers {
    let args = args(&[("strict", false.into())]);
    let plugin =
        |name: &&str| PluginConf { name: (*name).into(), args: args.clone(), ..PluginConf::default() };
    let plugins = ["predicates", "nodeorder", "binpack", "usage", "nodegroup", "network-topology-aware"];
    let plugins = plugins.iter().map(plugin).collect();
    Tiers::open(PLUGINS, &Conf { tiers: vec![Tier { plugins }], ..Conf::default() }, cluster, Time(0))
}

/// A cluster under test with its NodeRanking.
struct Play {
    cluster: Cluster,
    placement: NodeRanking,
    pods: usize,
}

impl Play {
    fn new(nodes: Vec<NodeInfo>) -> Self {
        Self::with_limits(nodes, Limits::default())
    }

    fn with_limits(nodes: Vec<NodeInfo>, limits: Limits) -> Self {
        Self { cluster: cluster_of(nodes), placement: NodeRanking::with_limits(SEED, limits), pods: 0 }
    }

    fn pick(&self, number: usize) -> Option<TaskId> {
        let tasks: Vec<TaskId> = self.cluster.tasks.ids().collect();
        (!tasks.is_empty()).then(|| tasks[number % tasks.len()])
    }

    fn name_pod(&mut self) -> String {
        self.pods += 1;
        format!("p{}", self.pods)
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Node(info) => self.apply(Event::Node((**info).clone())),
            Step::NodeGone(at) => self.apply(Event::NodeGone(name(*at).into())),
            Step::Usage(at, parts) => {
                let [cpu, memory] = parts.map(|tenths| Measure::Part(tenths * 100_000));
                let usage = NodeUsage { node: name(*at).into(), cpu, memory, since: Time(0), at: None };
                self.apply(usage.into());
            }
            Step::HyperNode(at, tier, nodes, below) => {
                let mut members: Vec<_> =
                    nodes.iter().map(|node| HyperNodeMember::Node(name(*node).into())).collect();
                members.push(HyperNodeMember::HyperNode(format!("h{below}").into()));
                let name = format!("h{at}").into();
                self.apply(HyperNodeInfo { name, tier: *tier, members, ..HyperNodeInfo::default() }.into());
                self.cluster.follow_hyper_nodes();
            }
            Step::HyperNodeGone(at) => self.apply(Event::HyperNodeGone(format!("h{at}").into())),
            Step::Groups(groups) => {
                let of = |[required, preferred]: [&str; 2]| NodeGroups {
                    required: vec![required.into()],
                    preferred: vec![preferred.into()],
                    ..NodeGroups::default()
                };
                let node_groups = groups.map(of);
                self.apply(QueueInfo { node_groups, ..queue("default", 1) }.into());
            }
            Step::Pod(kind, look) => {
                let pod = pod_of(*kind, *look, &self.name_pod());
                self.apply(pod.into());
            }
            Step::Team(name, team) => {
                let labels = team.map(|team| ("team".into(), team.into())).into_iter().collect();
                self.apply(NamespaceInfo { name: (*name).into(), labels }.into());
            }
            Step::Foreign(kind, look, node) => {
                let pod = PodInfo { ours: false, ..pod_of(*kind, *look, &self.name_pod()) };
                self.apply(running(pod, &name(*node)).into());
            }
            Step::PodGone(number) => {
                if let Some(task) = self.pick(*number) {
                    let uid = self.cluster.tasks[task].pod.uid.clone();
                    self.apply(Event::PodGone(uid));
                }
            }
            Step::Place(number) => self.place(*number),
            Step::PutOn(number, node) => {
                let node = self.cluster.node_named(&name(*node));
                self.change(*number, |status, _| {
                    (status == Status::Pending).then_some((Status::Allocated, node?))
                });
            }
            Step::Leave(number) => {
                self.change(*number, |status, node| {
                    (status != Status::Pipelined).then_some((Status::Releasing, node?))
                });
            }
            Step::TakeBack(number) => self.take_back(*number),
            Step::EndCycle => {
                self.cluster.follow_hyper_nodes();
                self.placement.begin_cycle(&self.cluster);
            }
        }
    }

    fn apply(&mut self, event: Event) {
        self.cluster.apply(event);
    }

    fn change(&mut self, number: usize, to: impl Fn(Status, Option<NodeId>) -> Option<(Status, NodeId)>) {
        let Some(task) = self.pick(number) else { return };
        let it = &self.cluster.tasks[task];
        if let Some((status, node)) = to(it.status, it.node) {
            self.cluster.place(task, status, Some(node));
        }
    }

    fn place(&mut self, number: usize) {
        let Some(task) = self.pick(number).filter(|task| self.cluster.tasks[*task].status == Status::Pending)
        else {
            return;
        };
        let tiers = tiers(&self.cluster);
        let class = tiers.scoped_class(&self.cluster, task);
        if let Some(spot) = self.placement.best(&self.cluster, &tiers, class) {
            let status = if spot.fit == Fit::Idle { Status::Allocated } else { Status::Pipelined };
            self.cluster.place(task, status, Some(spot.node));
        }
    }

    fn take_back(&mut self, number: usize) {
        let Some(task) = self.pick(number) else { return };
        if matches!(self.cluster.tasks[task].status, Status::Allocated | Status::Pipelined) {
            self.cluster.place(task, Status::Pending, None);
        }
    }

    /// Takes the steps, and compares NodeRanking with the plain rule after each.
    fn compare(mut self, steps: &[(Step, u8)]) -> TestCaseResult {
        for (step, asked) in steps {
            self.step(step);
            self.check(*asked)?;
        }
        self.check(u8::MAX)?;
        // Steps undo placements also on nodes that are gone.
        let mut problems = self.cluster.check();
        problems.retain(|problem| !problem.ends_with("is kept for nothing"));
        prop_assert_eq!(problems, Vec::<String>::new());
        Ok(())
    }

    /// Compares NodeRanking with the plain rule for a task of each class in a set (by slot).
    fn check(&mut self, asked: u8) -> TestCaseResult {
        let Self { cluster, placement, .. } = self;
        let tiers = tiers(cluster);
        for (_, class) in cluster.classes.ids().enumerate().filter(|(at, _)| asked & (1 << (at % 8)) != 0) {
            let of_class = |(_, task): &(TaskId, &Task)| task.class == class;
            let mut tasks = cluster.tasks.iter().filter(of_class);
            let Some((task, _)) = (if asked.is_multiple_of(3) { tasks.last() } else { tasks.next() }) else {
                continue;
            };
            let class = tiers.scoped_class(cluster, task);
            let ranks = ranks(cluster, &tiers, task);
            let best = ranks.iter().max_by_key(|(_, rank)| *rank);
            let best = best.map(|(node, (now, ..))| BestNode { node: *node, fit: room(*now) });
            prop_assert_eq!(placement.best(cluster, &tiers, class), best, "the best for {:?}", class);
            for node in cluster.nodes.ids() {
                let of_node = ranks.iter().find(|(id, _)| *id == node);
                let expected = of_node.map(|(_, (now, ..))| room(*now));
                prop_assert_eq!(
                    placement.fit(cluster, &tiers, class, node),
                    expected,
                    "{:?} for {:?}",
                    node,
                    class
                );
            }
        }
        Ok(())
    }
}

fn limits() -> impl Strategy<Value = Limits> {
    prop_oneof![Just(Limits::default()), Just(Limits::SMALL)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(2_000) / 40))]

    #[test]
    fn placement_by_class_chooses_as_a_comparison_of_many_nodes(
        (nodes, steps) in script(MANY_NODES),
        limits in limits(),
    ) {
        Play::with_limits(nodes, limits).compare(&steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(2_000)))]

    #[test]
    fn placement_by_class_chooses_as_a_comparison_of_all_nodes(
        (nodes, steps) in script(NODES),
        limits in limits(),
    ) {
        Play::with_limits(nodes, limits).compare(&steps)?;
    }

    #[test]
    fn the_chosen_node_does_not_depend_on_the_order_of_node_events(
        nodes in prop::collection::vec(node_info(), 1..NODES),
        kinds in prop::collection::vec(0..KINDS, 1..20),
    ) {
        let nodes: Vec<NodeInfo> = nodes.into_iter().enumerate().map(|(at, info)| named(at, info)).collect();
        let chosen = |nodes: Vec<NodeInfo>| -> Vec<Option<Arc<str>>> {
            let mut play = Play::new(nodes);
            let place = |(at, kind): (usize, &usize)| {
                let pod = pod_of(*kind, at % around::LOOKS, &format!("p{at}"));
                play.apply(pod.into());
                play.place(at);
                let node = play.cluster.tasks[play.pick(at)?].node?;
                Some(play.cluster.nodes[node].name.clone())
            };
            kinds.iter().enumerate().map(place).collect()
        };
        let reversed = nodes.iter().rev().cloned().collect();
        prop_assert_eq!(chosen(nodes), chosen(reversed));
    }
}

#[test]
fn ties_between_equal_nodes_are_broken_by_the_seed() {
    let mut play = Play::new((0..4).map(|at| node(&name(at), "cpu=1 memory=8Gi")).collect());
    let mut by_lot: Vec<String> = (0..4).map(name).collect();
    by_lot.sort_by_key(|name| std::cmp::Reverse(tie_break(SEED, name)));
    let take = |at| {
        play.apply(pod_of(0, 0, &format!("p{at}")).into());
        play.place(at);
        let node = play.cluster.tasks[play.pick(at).unwrap()].node.unwrap();
        play.cluster.nodes[node].name.to_string()
    };
    assert_eq!((0..4).map(take).collect::<Vec<_>>(), by_lot);
}

/// Chi-squared with 7 degrees of freedom exceeds 24.3 once in a thousand times.
#[test]
fn each_of_the_equal_nodes_is_as_likely_over_seeds() {
    const EQUALS: usize = 8;
    const SEEDS: u64 = 8_000;
    let cluster = cluster_of((0..EQUALS).map(|at| node(&name(at), "cpu=1 memory=8Gi")));
    let mut play = Play { cluster, placement: NodeRanking::new(0), pods: 0 };
    play.apply(pod_of(0, 0, "p").into());
    let task = play.pick(0).unwrap();
    let tiers = tiers(&play.cluster);
    let mut taken = [0u64; EQUALS];
    for seed in 0..SEEDS {
        let spot = NodeRanking::new(seed)
            .best(&play.cluster, &tiers, tiers.scoped_class(&play.cluster, task))
            .unwrap();
        taken[phalanx_cluster::id::Id::index(spot.node)] += 1;
    }
    let expected = SEEDS as f64 / EQUALS as f64;
    let chi: f64 = taken.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum();
    assert!(chi < 24.3, "{taken:?}: {chi}");
}

#[test]
fn a_sample_begins_after_the_last_one_and_prefers_idle_nodes() {
    let sampling = Sampling { percentage: 25, minimum_percentage: 5, minimum_nodes: 1 };
    let mut play = Play::new((0..4).map(|at| node(&name(at), "cpu=1 memory=8Gi")).collect());
    play.placement.set_sampling(Some(sampling));
    let mut take = |kind| {
        let pod = pod_of(kind, 0, &play.name_pod());
        play.apply(pod.into());
        play.step(&Step::EndCycle);
        play.place(play.pods - 1);
        let node = play.cluster.tasks[play.pick(play.pods - 1).unwrap()].node?;
        Some(play.cluster.nodes[node].name.to_string())
    };
    let taken = [0, 6, 0, 0, 0, 0].map(&mut take).map(Option::unwrap_or_default);
    assert_eq!(taken, ["n0", "n2", "n3", "n1", "n2", ""], "the second pod will have n2 or n3 only");
}

#[test]
fn unlike_nodes_that_fill_several_batches_are_compared_as_one_by_one() {
    let unlike = |at: usize| node(&name(at), &format!("cpu={} memory=8Gi", 1 + at));
    for limits in [Limits::default(), Limits::SMALL] {
        let mut play = Play::with_limits((0..300).map(unlike).collect(), limits);
        for pod in 0..20 {
            play.apply(pod_of(pod % 3, 0, &format!("p{pod}")).into());
            play.check(u8::MAX).unwrap();
            play.place(pod);
        }
    }
}
