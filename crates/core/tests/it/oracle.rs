//! Preemption against brute force on tiny clusters: victims must be needed, and a refusal must be true.
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use phalanx_cluster::event::{
    Constraints, Event, Key, NodeInfo, PdbInfo, PodGroupInfo, PodInfo, PodPhase, PodRules, PodTerm,
};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{group, member, node, running};
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{RACK, Topology, has, labels, topology};
use phalanx_testkit::{TestCluster, cases, one_tier, set_flag};

/// A pod that has its node.
#[derive(Clone, Debug)]
struct Placed {
    name: String,
    gang: usize,
    node: usize,
    cores: i64,
    preemptable: Option<bool>,
    /// The pod is bound and has not started yet.
    bound: bool,
    /// Which of the two disruption budgets select it.
    budgets: [bool; 2],
    /// Which of the two colours it has.
    colours: [bool; 2],
    /// Its anti-affinity keeps pods of the first colour out of this domain.
    keeps_away: Option<Topology>,
}

/// Pod rules of the members.
#[derive(Clone, Debug, Default)]
struct Rules {
    /// The colours of the members.
    colours: [bool; 2],
    /// Affinity: a pod of this colour is in the domain, or no domain has one.
    with: Option<(usize, Topology)>,
    /// Anti-affinity: no pod of this colour is in the domain.
    without: Option<(usize, Topology)>,
}

/// A gang, running or waiting.
#[derive(Clone, Debug)]
struct Gang {
    priority: i32,
    min: u32,
}

/// A cluster with one waiting gang.
#[derive(Clone, Debug)]
struct Case {
    /// Cores of each node.
    nodes: Vec<i64>,
    gangs: Vec<Gang>,
    pods: Vec<Placed>,
    allowed: [u32; 2],
    asks: Gang,
    cores: i64,
    /// The nodes that the gang may use; `None` for all.
    only: Option<usize>,
    rules: Rules,
    /// `enablePreemptable` of plugin gang.
    keeps_gangs: bool,
}

const PRIORITIES: [i32; 3] = [1, 5, 10];

fn gang() -> impl Strategy<Value = Gang> {
    (prop::sample::select(&PRIORITIES[..]), 0u32..4).prop_map(|(priority, min)| Gang { priority, min })
}

prop_compose! {
    fn rules()(
        colours in any::<[bool; 2]>(),
        with in prop::option::weighted(0.4, (0usize..2, topology())),
        without in prop::option::weighted(0.3, (0usize..2, topology())),
    ) -> Rules {
        Rules { colours, with, without }
    }
}

/// Gang, node, cores, whether the pod may be evicted, and random booleans.
type Spec = (usize, usize, i64, Option<bool>, [bool; 5], Option<Topology>);

fn placed() -> impl Strategy<Value = Spec> {
    let (preemptable, keeps_away) =
        (prop::option::weighted(0.2, any::<bool>()), prop::option::weighted(0.15, topology()));
    (0usize..4, 0usize..3, 1i64..3, preemptable, any::<[bool; 5]>(), keeps_away)
}

/// Up to seven pods: few enough that the scheduler tries every set of victims.
fn case() -> impl Strategy<Value = Case> {
    sized(0i64..6, 0..8)
}

/// More pods than the scheduler tries every set of, on full nodes.
fn larger() -> impl Strategy<Value = Case> {
    sized(3i64..7, 9..14)
}

prop_compose! {
    fn sized(cores_of_nodes: Range<i64>, count: Range<usize>)(
        nodes in prop::collection::vec(cores_of_nodes, 1..4),
        gangs in prop::collection::vec(gang(), 1..4),
        pods in prop::collection::vec(placed(), count),
        allowed in [0u32..4, 0u32..9],
        asks in gang(),
        cores in 1i64..5,
        only in prop::option::weighted(0.3, 0usize..3),
        rules in rules(),
        keeps_gangs in any::<bool>(),
    ) -> Case {
        let mut free = nodes.clone();
        let mut placed = Vec::new();
        for (at, (gang, node, cores, preemptable, coins, keeps_away)) in pods.into_iter().enumerate() {
            let (gang, node) = (gang % gangs.len(), node % nodes.len());
            if free[node] >= cores {
                free[node] -= cores;
                let [bound, one, other, red, blue] = coins;
                let (budgets, colours) = ([one, one && other], [red, blue]);
                let name = format!("g{gang}-{at}");
                placed.push(Placed { name, gang, node, cores, preemptable, bound, budgets, colours, keeps_away });
            }
        }
        let asks = Gang { min: asks.min.max(1), ..asks };
        Case { nodes, gangs, pods: placed, allowed, asks, cores, only, rules, keeps_gangs }
    }
}

/// Gang, whether the pod may be evicted, and random booleans.
type Filler = (usize, bool, [bool; 2]);

prop_compose! {
    /// Full nodes whose pods share a surplus that is smaller than the gang could use.
    fn crowded()(
        nodes in prop::collection::vec(prop::sample::select(vec![1i64, 1, 2, 3, 3]), 5..8),
        surplus in prop::collection::vec(0usize..3, 2..5),
        pods in prop::collection::vec((0usize..4, prop::bool::weighted(0.9), any::<[bool; 2]>()), 14),
        allowed in [0u32..4, 1u32..9],
        (min, cores) in (1u32..3, 2i64..4),
        rules in (prop::bool::weighted(0.1), rules()),
    ) -> Case {
        let place = nodes.iter().enumerate().flat_map(|(at, cores)| (0..*cores).map(move |_| at));
        let pod = |(at, (node, (gang, free, coins))): (usize, (usize, Filler))| {
            let gang = gang % surplus.len();
            let [one, other] = coins;
            let preemptable = (!free).then_some(false);
            Placed {
                name: format!("g{gang}-{at}"), gang, node, cores: 1, preemptable, bound: false,
                budgets: [one && other, false], colours: coins, keeps_away: None,
            }
        };
        let pods: Vec<Placed> = place.zip(pods).enumerate().map(pod).collect();
        let gang = |(at, surplus): (usize, &usize)| {
            let members = pods.iter().filter(|pod| pod.gang == at).count();
            Gang { priority: 1, min: members.saturating_sub(*surplus) as u32 }
        };
        let gangs = surplus.iter().enumerate().map(gang).collect();
        let rules = if rules.0 { rules.1 } else { Rules::default() };
        let asks = Gang { priority: 10, min };
        Case { nodes, gangs, pods, allowed, asks, cores, only: None, rules, keeps_gangs: true }
    }
}

impl Case {
    fn conf(&self) -> Conf {
        let plugins = ["priority", "gang", "conformance", "predicates", "nodeorder"];
        let mut conf = one_tier(&["allocate", "preempt"], &plugins);
        set_flag(&mut conf, "gang", Flag::Preemptable, self.keeps_gangs);
        conf
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf());
        for value in PRIORITIES {
            test.add(Event::PriorityClass { name: format!("p{value}").into(), value, global_default: false });
        }
        for (at, cores) in self.nodes.iter().enumerate() {
            let NodeInfo { mut labels, .. } = node(&format!("n{at}"), "");
            labels.push((RACK.into(), format!("r{}", domain(Topology::Rack, at)).into()));
            test.add(NodeInfo { labels, ..node(&format!("n{at}"), &format!("cpu={cores}")) });
        }
        let of = |name: &str, gang: &Gang| PodGroupInfo {
            priority_class: Some(format!("p{}", gang.priority).into()),
            ..group(name, gang.min)
        };
        for (at, gang) in self.gangs.iter().enumerate() {
            test.add(of(&format!("g{at}"), gang));
        }
        for pod in &self.pods {
            test.add(pod.info());
        }
        for (at, allowed) in self.allowed.iter().enumerate() {
            test.add(budget(at, *allowed));
        }
        test.add(of("asks", &self.asks));
        for index in 0..self.asks.min {
            test.add(self.asking(index));
        }
        test
    }

    fn asking(&self, index: u32) -> PodInfo {
        let only = |at: usize| ("kubernetes.io/hostname".into(), format!("n{at}").into());
        let constraints = Constraints {
            node_selector: self.only.map(only).into_iter().collect(),
            pod_rules: self.rules.info(),
            ..Constraints::default()
        };
        PodInfo {
            constraints: Arc::new(constraints),
            labels: labels(&self.rules.colours, "colour").collect(),
            ..member("asks", index, &format!("cpu={}", self.cores))
        }
    }

    /// Whether the gang fits once these pods are gone.
    fn fits(&self, gone: &[&Placed]) -> bool {
        let stays = |pod: &&Placed| gone.iter().all(|other| other.name != pod.name);
        let stay: Vec<&Placed> = self.pods.iter().filter(stays).collect();
        self.way(&stay, &mut Vec::new())
    }

    /// Whether the remaining members can be placed one after the other.
    fn way(&self, stay: &[&Placed], members: &mut Vec<usize>) -> bool {
        members.len() == self.asks.min as usize
            || (0..self.nodes.len()).any(|at| {
                self.takes(stay, members, at) && {
                    members.push(at);
                    let found = self.way(stay, members);
                    members.pop();
                    found
                }
            })
    }

    /// Whether a node can hold one more member.
    fn takes(&self, stay: &[&Placed], members: &[usize], at: usize) -> bool {
        let held: i64 = stay.iter().filter(|pod| pod.node == at).map(|pod| pod.cores).sum();
        let own = members.iter().filter(|node| **node == at).count() as i64;
        self.only.is_none_or(|only| only == at)
            && held + (own + 1) * self.cores <= self.nodes[at]
            && self.keeps_rules(stay, members, at)
    }

    fn keeps_rules(&self, stay: &[&Placed], members: &[usize], at: usize) -> bool {
        let Rules { colours, with, without } = &self.rules;
        // Nodes that have a pod of the colour, once for each.
        let coloured = |colour: usize| {
            let others = stay.iter().filter(move |pod| pod.colours[colour]).map(|pod| pod.node);
            others.chain(members.iter().copied().filter(move |_| colours[colour]))
        };
        let near = |(colour, topology): (usize, Topology)| {
            coloured(colour).any(|node| domain(topology, node) == domain(topology, at))
        };
        let first = |colour: usize| colours[colour] && coloured(colour).next().is_none();
        let kept_out = |pod: &&Placed| {
            pod.keeps_away
                .is_some_and(|topology| colours[0] && domain(topology, pod.node) == domain(topology, at))
        };
        with.is_none_or(|with| near(with) || first(with.0))
            && !without.is_some_and(near)
            && !stay.iter().any(kept_out)
    }

    /// Whether these pods may be evicted together for the gang.
    fn may_go(&self, gone: &[&Placed]) -> bool {
        let alone = |pod: &&Placed| {
            let budgets = pod.budgets.iter().filter(|meant| **meant).count();
            self.gangs[pod.gang].priority < self.asks.priority
                && pod.preemptable != Some(false)
                && (pod.bound || budgets < 2)
        };
        let whole = |(at, gang): (usize, &Gang)| {
            let of = |pods: &mut dyn Iterator<Item = &Placed>| pods.filter(|pod| pod.gang == at).count();
            let (had, lost) = (of(&mut self.pods.iter()), of(&mut gone.iter().copied()));
            !self.keeps_gangs || lost <= had.saturating_sub(gang.min as usize)
        };
        let within = |(at, allowed): (usize, &u32)| {
            gone.iter().filter(|pod| pod.budgets[at] && !pod.bound).count() <= *allowed as usize
        };
        gone.iter().all(alone)
            && self.gangs.iter().enumerate().all(whole)
            && self.allowed.iter().enumerate().all(within)
    }

    /// A set of pods that may be evicted and without which the gang fits. Each part of such a set may be evicted too.
    fn way_out<'a>(&'a self, at: usize, gone: &mut Vec<&'a Placed>) -> bool {
        let Some(next) = self.pods.get(at) else { return self.fits(gone) };
        gone.push(next);
        let found = self.may_go(gone) && self.way_out(at + 1, gone);
        if !found {
            gone.pop();
        }
        found || self.way_out(at + 1, gone)
    }
}

impl Placed {
    fn info(&self) -> PodInfo {
        let group: Arc<str> = format!("g{}", self.gang).into();
        let mut pod = running(member(&group, 0, &format!("cpu={}", self.cores)), &format!("n{}", self.node));
        pod.pod.name = self.name.as_str().into();
        pod.pod.uid = self.name.as_str().into();
        pod.preemptable = self.preemptable;
        pod.labels = labels(&self.budgets, "budget").chain(labels(&self.colours, "colour")).collect();
        let apart = self
            .keeps_away
            .map(|topology| PodRules { anti_affinity: vec![topology.term(0)], ..PodRules::default() });
        pod.constraints = Arc::new(Constraints { pod_rules: apart.map(Arc::new), ..Constraints::default() });
        if self.bound {
            pod.life.phase = PodPhase::Pending;
        }
        pod
    }
}

/// The domain of a node: the first two are in one rack.
fn domain(topology: Topology, node: usize) -> usize {
    match topology {
        Topology::Host => node,
        Topology::Rack => node / 2,
    }
}

impl Rules {
    fn info(&self) -> Option<Arc<PodRules>> {
        let terms = |one: Option<(usize, Topology)>| -> Vec<PodTerm> {
            one.into_iter().map(|(colour, topology)| topology.term(colour)).collect()
        };
        let rules = PodRules {
            affinity: terms(self.with),
            anti_affinity: terms(self.without),
            ..PodRules::default()
        };
        Some(Arc::new(rules)).filter(|rules| !rules.is_empty())
    }
}

fn budget(at: usize, allowed: u32) -> PdbInfo {
    let name = format!("budget-{at}");
    PdbInfo { key: Key::new("ns", &name), selector: Some(has(&name)), allowed, ..PdbInfo::default() }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let mut test = case.test();
    let cycle = test.cycle();
    let by_name: BTreeMap<&str, &Placed> = case.pods.iter().map(|pod| (pod.name.as_str(), pod)).collect();
    let evicted: Vec<&Placed> = cycle.evicted.iter().map(|name| by_name[name.as_str()]).collect();
    let served = cycle.bound_of("asks") + cycle.nominated.len();
    if served == 0 {
        prop_assert!(evicted.is_empty(), "{evicted:?} for nothing");
        let mut gone = Vec::new();
        if case.way_out(0, &mut gone) {
            rate.missed(&test.reasons("asks"))?;
        }
        return Ok(());
    }
    if !evicted.is_empty() {
        rate.served();
    }
    prop_assert_eq!(served, case.asks.min as usize, "{:?}", &cycle);
    prop_assert!(case.fits(&evicted) && case.may_go(&evicted), "{evicted:?}");
    for kept in &evicted {
        let rest: Vec<&Placed> = evicted.iter().copied().filter(|pod| pod.name != kept.name).collect();
        prop_assert!(!case.fits(&rest), "{kept:?} need not be evicted");
    }
    // Once the victims are gone the gang starts without further evictions.
    for pod in &cycle.evicted {
        test.gone(pod);
    }
    let next = test.cycle();
    prop_assert_eq!(cycle.bound_of("asks") + next.bound_of("asks"), case.asks.min as usize);
    prop_assert!(next.evicted.is_empty());
    Ok(())
}

#[test]
fn preemption_by_a_gang_is_sound_and_nearly_complete() {
    holds("few pods", cases(20000), case(), check);
}

#[test]
fn preemption_among_more_pods_is_sound_and_nearly_complete() {
    holds("more pods", cases(5000), larger(), check);
}

#[test]
fn preemption_on_full_nodes_with_little_surplus_is_sound_and_nearly_complete() {
    holds("full nodes, little surplus", cases(5000), crowded(), check);
}
