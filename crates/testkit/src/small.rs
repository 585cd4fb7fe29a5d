//! A small cluster in plain figures, and brute force over all placements.
use std::collections::HashSet;
use std::sync::Arc;

use phalanx_cluster::event::{
    Constraints, NodeInfo, Operator, PodGroupInfo, PodInfo, PodRules, PodSelector, PodTerm, Requirement,
    Spread,
};
use phalanx_cluster::label::Selector;
use phalanx_framework::conf::Conf;
use proptest::prelude::*;

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
    /// Its PodGroup.
    pub group: String,
    /// The position of its node.
    pub node: usize,
    /// What it requests.
    pub asks: Figures,
    /// Its labels and pod rules.
    pub rules: Rules,
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

/// A set of pods, by bits.
pub type Set = u32;

/// For each member its node, if it has one.
pub type Places = Vec<Option<usize>>;

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
    pub fn fill(&self, test: &mut TestCluster, gangs: &[(usize, u32)], preemptable: &[bool]) {
        for node in self.nodes() {
            test.add(node);
        }
        for (at, (queue, min)) in gangs.iter().enumerate() {
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

    /// All pods that run.
    pub fn all(&self) -> Set {
        (1 << self.pods.len()) - 1
    }

    /// The pods of these names.
    pub fn set_of<'a>(&self, names: impl IntoIterator<Item = &'a String>) -> Set {
        let at =
            |name: &String| self.pods.iter().position(|pod| pod.name == *name).expect("a pod that was there");
        names.into_iter().fold(0, |set, name| set | 1 << at(name))
    }

    /// The pods of a set.
    pub fn pods_of(&self, set: Set) -> impl Iterator<Item = &Held> {
        self.pods.iter().enumerate().filter(move |(at, _)| set & (1 << at) != 0).map(|(_, pod)| pod)
    }

    /// For each gang with a minimum: its number of pods, and the number without these pods.
    fn left(&self, gone: Set, mins: impl Iterator<Item = u32>) -> impl Iterator<Item = [usize; 3]> {
        let of = |at: usize, set: Set| self.pods_of(set).filter(|pod| pod.group == format!("g{at}")).count();
        mins.enumerate().map(move |(at, min)| [min as usize, of(at, self.all()), of(at, self.all() & !gone)])
    }

    /// Whether all gangs keep their minimum without these pods.
    pub fn is_spare(&self, gone: Set, mins: impl Iterator<Item = u32>) -> bool {
        self.left(gone, mins).all(|[min, had, left]| left == had || left >= min)
    }

    /// For each gang, whether it falls below its minimum without these pods.
    pub fn broken(&self, gone: Set, mins: impl Iterator<Item = u32>) -> Vec<bool> {
        self.left(gone, mins).map(|[min, had, left]| had >= min && left < min).collect()
    }

    /// Whether a gang falls below its minimum without these pods; a gang without any pod left counts if `whole` is set.
    pub fn breaks(&self, gone: Set, mins: impl Iterator<Item = u32>, whole: bool) -> bool {
        self.left(gone, mins).any(|[min, had, left]| had >= min && left < min && (whole || left > 0))
    }

    /// Whether the gang fits without these pods. `may` decides on each placement.
    pub fn fits(&self, gone: Set, may: &dyn Fn(&[Option<usize>]) -> bool) -> bool {
        self.reach(gone, may, &|places| places.iter().flatten().count() >= self.min)
    }

    /// Whether members can be placed on these nodes one after the other.
    pub fn leads_to(&self, gone: Set, may: &dyn Fn(&[Option<usize>]) -> bool, end: &Places) -> bool {
        self.reach(gone, may, &|places| places == &end[..])
    }

    fn reach(
        &self,
        gone: Set,
        may: &dyn Fn(&[Option<usize>]) -> bool,
        is_end: &dyn Fn(&[Option<usize>]) -> bool,
    ) -> bool {
        let stay: Vec<&Held> = self.pods_of(self.all() & !gone).collect();
        let (mut seen, mut ways) = (HashSet::new(), vec![vec![None; self.members.len()]]);
        while let Some(places) = ways.pop() {
            if is_end(&places) {
                return true;
            }
            for (member, node) in
                (0..places.len()).flat_map(|member| (0..self.hosts.len()).map(move |node| (member, node)))
            {
                if places[member].is_none() && self.takes(&stay, &places, member, node) {
                    let mut next = places.clone();
                    next[member] = Some(node);
                    if may(&next) && seen.insert(next.clone()) {
                        ways.push(next);
                    }
                }
            }
        }
        false
    }

    fn domain(&self, topology: Topology, node: usize) -> Option<usize> {
        match topology {
            Topology::Host => Some(node),
            Topology::Rack => self.hosts[node].rack,
        }
    }

    fn takes(&self, stay: &[&Held], places: &[Option<usize>], member: usize, node: usize) -> bool {
        let it = &self.members[member];
        let placed = || {
            places.iter().zip(&self.members).filter_map(|(node, of)| Some((&of.rules, &of.asks, (*node)?)))
        };
        let there = || stay.iter().map(|pod| (&pod.rules, &pod.asks, pod.node)).chain(placed());
        let free = |dim: usize| {
            let held: i64 = there().filter(|(_, _, at)| *at == node).map(|(_, asks, _)| asks[dim]).sum();
            self.hosts[node].room[dim] - held
        };
        let near = |topology, at: usize| {
            let here = self.domain(topology, node);
            here.is_some() && here == self.domain(topology, at)
        };
        let in_company = |(colour, topology): (usize, Topology)| {
            let company = || there().filter(move |(rules, ..)| rules.colours[colour]);
            // A pod in no domain satisfies no affinity.
            let any = company().any(|(_, _, at)| self.domain(topology, at).is_some());
            self.domain(topology, node).is_some()
                && (company().any(|(_, _, at)| near(topology, at)) || (!any && it.rules.colours[colour]))
        };
        let kept_out = there().any(|(rules, _, at)| {
            rules.without.is_some_and(|(colour, topology)| it.rules.colours[colour] && near(topology, at))
        });
        let keeps_out = it.rules.without.is_some_and(|(colour, topology)| {
            there().any(|(rules, _, at)| rules.colours[colour] && near(topology, at))
        });
        it.only.is_none_or(|only| only == node)
            && (0..2).all(|dim| it.asks[dim] == 0 || it.asks[dim] <= free(dim))
            && it.rules.with.is_none_or(in_company)
            && !kept_out
            && !keeps_out
            && it.rules.spread.iter().all(|even| {
                let coloured: Vec<usize> =
                    there().filter(|(rules, ..)| rules.colours[even.colour]).map(|(_, _, at)| at).collect();
                self.is_even(it, even, &coloured, node)
            })
    }

    fn is_even(&self, it: &Member, even: &Even, coloured: &[usize], node: usize) -> bool {
        let counts = |at: usize| {
            it.only.is_none_or(|only| only == at)
                && it.rules.spread.iter().all(|other| self.domain(other.topology, at).is_some())
        };
        let domains: HashSet<Option<usize>> =
            (0..self.hosts.len()).filter(|at| counts(*at)).map(|at| self.domain(even.topology, at)).collect();
        let pods = |domain: Option<usize>| {
            coloured.iter().filter(|at| counts(**at) && self.domain(even.topology, **at) == domain).count()
                as u32
        };
        let least = if domains.len() < even.domains as usize {
            0
        } else {
            domains.iter().map(|domain| pods(*domain)).min().unwrap_or(0)
        };
        let own = u32::from(it.rules.colours[even.colour]);
        counts(node) && pods(self.domain(even.topology, node)) + own <= least + even.skew
    }
}

/// A configuration whose only action is allocate.
pub fn allocating() -> Conf {
    one_tier(&["allocate"], &["gang", "predicates", "nodeorder"])
}

impl Held {
    fn info(&self) -> PodInfo {
        let mut pod = running(member(&self.group, 0, &text(self.asks)), &format!("n{}", self.node));
        pod.pod.name = self.name.as_str().into();
        pod.pod.uid = self.name.as_str().into();
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
            held.push(Held { name: format!("g{gang}-{at}"), group: format!("g{gang}"), node, asks, rules });
        }
    }
    held
}
