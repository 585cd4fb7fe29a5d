//! A small cluster in plain figures, for properties that compare the scheduler with brute force.
mod brute_force;

use std::sync::Arc;

use phalanx_cluster::event::{
    Constraints, NodeInfo, Operator, PodGroupInfo, PodInfo, PodRef, PodRules, PodSelector, PodTerm,
    Requirement, Spread,
};
use phalanx_cluster::label::Selector;
use phalanx_framework::conf::Conf;
use proptest::prelude::*;

pub use brute_force::{GangProtection, Losses, Places, Set};

use crate::{Cycle, TestCluster, one_tier};
use phalanx_framework::testing::{group, leaving, member, node, running};

/// A topology of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Each node is a domain.
    Host,
    /// Nodes with one value of the label `rack` are a domain.
    Rack,
}

/// The label of racks.
pub const RACK: &str = "rack";

impl Topology {
    fn key(self) -> &'static str {
        match self {
            Topology::Host => "kubernetes.io/hostname",
            Topology::Rack => RACK,
        }
    }

    /// Pods of a colour, by this topology.
    pub fn term(self, colour: usize) -> PodTerm {
        let labels = Some(has(&format!("colour-{colour}")));
        let pods = PodSelector { namespaces: vec!["ns".into()], labels, ..PodSelector::default() };
        PodTerm { topology_key: self.key().into(), pods }
    }
}

/// A label for each of two that is set.
pub fn labels(set: &[bool; 2], name: &str) -> impl Iterator<Item = (Arc<str>, Arc<str>)> {
    (0..2).filter(|at| set[*at]).map(move |at| (format!("{name}-{at}").into(), "".into()))
}

/// Pods that have this label.
pub fn has(label: &str) -> Selector {
    Selector(vec![Requirement { key: label.into(), operator: Operator::Exists, values: vec![] }])
}

/// Cores and cards.
pub type Figures = [i64; 2];

fn text([cores, cards]: Figures) -> String {
    format!("cpu={cores} nvidia.com/gpu={cards}")
}

/// A node.
#[derive(Clone, Debug)]
pub struct Host {
    /// What it can allocate.
    pub room: Figures,
    /// The value of the label `rack`, which some nodes lack.
    pub rack: Option<usize>,
}

/// A topology spread constraint with `DoNotSchedule`.
#[derive(Clone, Debug)]
pub struct Even {
    colour: usize,
    topology: Topology,
    skew: u32,
    domains: u32,
}

/// Labels and pod rules.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Which of the two colours it has.
    pub colours: [bool; 2],
    /// Affinity: the domain has a pod of this colour, or no pod has the colour except this one.
    pub with: Option<(usize, Topology)>,
    /// Anti-affinity: the domain has no pod of this colour.
    pub without: Option<(usize, Topology)>,
    /// Its topology spread constraints.
    pub spread: Vec<Even>,
}

/// A running pod.
#[derive(Clone, Debug)]
pub struct Held {
    /// The name of the pod.
    pub name: String,
    /// The number of its PodGroup, `g0`, `g1`, ...
    pub gang: usize,
    /// The position of its node.
    pub node: usize,
    /// What it requests.
    pub asks: Figures,
    /// Its labels and pod rules.
    pub rules: Rules,
}

/// A running gang.
#[derive(Clone, Copy, Debug)]
pub struct Gang {
    /// The number of its queue, `q0`, `q1`, ...
    pub queue: usize,
    /// Its priority.
    pub priority: i32,
    /// minMember.
    pub min: u32,
}

/// A member of the waiting gang.
#[derive(Clone, Debug, Default)]
pub struct Member {
    /// What it requests.
    pub asks: Figures,
    /// The only node that it may use; `None` for any node.
    pub only: Option<usize>,
    /// Its labels and pod rules.
    pub rules: Rules,
}

/// A cluster with running pods and one waiting gang.
#[derive(Clone, Debug)]
pub struct Small {
    /// The nodes.
    pub hosts: Vec<Host>,
    /// Pods that run.
    pub pods: Vec<Held>,
    /// The members of the gang.
    pub members: Vec<Member>,
    /// minMember of the gang.
    pub min: usize,
}

impl Small {
    /// The nodes as events.
    pub fn nodes(&self) -> impl Iterator<Item = NodeInfo> + '_ {
        self.hosts.iter().enumerate().map(|(at, host)| {
            let mut info = node(&format!("n{at}"), &text(host.room));
            info.labels.extend(host.rack.map(|rack| (RACK.into(), format!("r{rack}").into())));
            info
        })
    }

    /// The pods that run as events.
    pub fn running(&self) -> impl Iterator<Item = PodInfo> + '_ {
        self.pods.iter().map(Held::info)
    }

    /// The members of the gang as events.
    pub fn asking(&self) -> impl Iterator<Item = PodInfo> + '_ {
        self.members.iter().enumerate().map(|(at, member)| member.info(at as u32))
    }

    /// Adds nodes, gangs with their queues and minimums, preemptable and protected pods, and the waiting gang in the
    /// first queue.
    pub fn fill(&self, test: &mut TestCluster, gangs: &[Gang], preemptable: &[bool]) {
        for node in self.nodes() {
            test.add(node);
        }
        for (at, Gang { queue, min, .. }) in gangs.iter().enumerate() {
            test.add(PodGroupInfo { queue: format!("q{queue}").into(), ..group(&format!("g{at}"), *min) });
        }
        for (pod, free) in self.running().zip(preemptable) {
            test.add(PodInfo { preemptable: (!free).then_some(false), ..pod });
        }
        test.add(PodGroupInfo { queue: "q0".into(), ..group("asks", self.min as u32) });
        for pod in self.asking() {
            test.add(pod);
        }
    }

    /// The cluster with `allocate` alone, one queue, and terminating pods.
    pub fn with_leaving(&self, gone: Set) -> TestCluster {
        let mut test = TestCluster::with(allocating());
        for node in self.nodes() {
            test.add(node);
        }
        test.add(group("g0", 1));
        for (at, pod) in self.running().enumerate() {
            test.add(if gone & (1 << at) != 0 { leaving(pod) } else { pod });
        }
        test.add(group("asks", self.min as u32));
        for pod in self.asking() {
            test.add(pod);
        }
        test
    }

    /// The nodes to which members of the waiting gang are bound or nominated.
    pub fn places(&self, cycle: &Cycle) -> Places {
        let node = |at: usize| {
            let name = format!("asks-{at}");
            cycle.bound.get(&name).or_else(|| cycle.nominated.get(&name)?.as_ref())
        };
        (0..self.members.len()).map(|at| node(at)?.trim_start_matches('n').parse().ok()).collect()
    }
}

/// A configuration whose only action is allocate.
pub fn allocating() -> Conf {
    one_tier(&["allocate"], &["gang", "predicates", "nodeorder"])
}

impl Held {
    fn info(&self) -> PodInfo {
        let mut pod =
            running(member(&format!("g{}", self.gang), 0, &text(self.asks)), &format!("n{}", self.node));
        let name: Arc<str> = self.name.as_str().into();
        pod.pod = Arc::new(PodRef { uid: Arc::clone(&name), name, ..PodRef::clone(&pod.pod) });
        pod.labels = labels(&self.rules.colours, "colour").collect();
        pod.constraints = Arc::new(Constraints { pod_rules: self.rules.info(), ..Constraints::default() });
        pod
    }
}

impl Member {
    fn info(&self, index: u32) -> PodInfo {
        let only = |at: usize| ("kubernetes.io/hostname".into(), format!("n{at}").into());
        let constraints = Constraints {
            node_selector: self.only.map(only).into_iter().collect(),
            pod_rules: self.rules.info(),
            ..Constraints::default()
        };
        PodInfo {
            constraints: Arc::new(constraints),
            labels: labels(&self.rules.colours, "colour").collect(),
            ..member("asks", index, &text(self.asks))
        }
    }
}

impl Rules {
    /// The rules as they stand on a pod.
    pub fn info(&self) -> Option<Arc<PodRules>> {
        let terms = |one: Option<(usize, Topology)>| -> Vec<PodTerm> {
            one.into_iter().map(|(colour, topology)| topology.term(colour)).collect()
        };
        let spread = |even: &Even| Spread {
            term: even.topology.term(even.colour),
            max_skew: even.skew,
            required: true,
            min_domains: even.domains,
            honor_affinity: true,
            honor_taints: false,
        };
        let rules = PodRules {
            affinity: terms(self.with),
            anti_affinity: terms(self.without),
            spread: self.spread.iter().map(spread).collect(),
            ..PodRules::default()
        };
        Some(Arc::new(rules)).filter(|rules| !rules.is_empty())
    }
}

/// A topology.
pub fn topology() -> impl Strategy<Value = Topology> {
    prop::sample::select(vec![Topology::Host, Topology::Rack])
}

prop_compose! {
    /// A node.
    pub fn host()(cores in 0i64..6, cards in 0i64..3, rack in prop::option::weighted(0.9, 0usize..2)) -> Host {
        Host { room: [cores, cards], rack }
    }
}

prop_compose! {
    /// A topology spread constraint.
    pub fn even()(colour in 0usize..2, topology in topology(), skew in 1u32..3, domains in 1u32..4) -> Even {
        Even { colour, topology, skew, domains }
    }
}

/// Spread of pods of the first colour, by one topology or by both.
pub fn of_first_colour() -> impl Strategy<Value = Vec<Even>> {
    prop::collection::vec(even().prop_map(|even| Even { colour: 0, domains: 1, ..even }), 1..3).prop_map(
        |mut evens| {
            evens.dedup_by_key(|even| even.topology);
            evens
        },
    )
}

/// The probability of each kind of rule: affinity, anti-affinity, spread.
pub fn rules(with: f64, without: f64, spread: f64) -> impl Strategy<Value = Rules> {
    (
        any::<[bool; 2]>(),
        prop::option::weighted(with.max(1e-9), (0usize..2, topology())),
        prop::option::weighted(without.max(1e-9), (0usize..2, topology())),
        prop::option::weighted(spread.max(1e-9), prop::collection::vec(even(), 1..3)),
    )
        .prop_map(|(colours, with, without, spread)| {
            let mut spread = spread.unwrap_or_default();
            // The API server takes one constraint by topology.
            spread.dedup_by_key(|even| even.topology);
            Rules { colours, with, without, spread }
        })
}

/// Pods on hosts that have room for them; gangs `g0`, `g1`, ... by number.
pub fn filled(hosts: &[Host], pods: Vec<(usize, usize, Figures, Rules)>) -> Vec<Held> {
    let mut free: Vec<Figures> = hosts.iter().map(|host| host.room).collect();
    let mut held = Vec::new();
    for (at, (gang, node, asks, rules)) in pods.into_iter().enumerate() {
        let node = node % hosts.len();
        if (0..2).all(|dim| free[node][dim] >= asks[dim]) {
            (0..2).for_each(|dim| free[node][dim] -= asks[dim]);
            held.push(Held { name: format!("g{gang}-{at}"), gang, node, asks, rules });
        }
    }
    held
}
