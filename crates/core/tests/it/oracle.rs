//! Preemption against brute force on tiny clusters: victims must be needed, and a refusal must be true.
use std::ops::Range;

use phalanx_cluster::event::{Event, Key, PdbInfo, PodGroupInfo, PodInfo, PodPhase};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::group;
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{
    self, Gang, Held, Host, Losses, Member, Rules, Set, Small, has, labels, topology,
};
use phalanx_testkit::{TestCluster, cases, one_tier, set_flag};

/// What evictions ask about a running pod.
#[derive(Clone, Debug)]
struct Running {
    preemptable: Option<bool>,
    /// The pod is bound and has not started yet.
    bound: bool,
    /// Which of the two disruption budgets select it.
    budgets: [bool; 2],
}

/// A cluster with running gangs and one waiting gang.
#[derive(Clone, Debug)]
struct Case {
    small: Small,
    /// By pod.
    running: Vec<Running>,
    gangs: Vec<Gang>,
    /// What the disruption budgets allow.
    allowed: [u32; 2],
    /// The priority of the waiting gang.
    priority: i32,
    /// `enablePreemptable` of plugin gang.
    keeps_gangs: bool,
}

const PRIORITIES: [i32; 3] = [1, 5, 10];

prop_compose! {
    fn gang()(priority in prop::sample::select(&PRIORITIES[..]), min in 0u32..4) -> Gang {
        Gang { queue: 0, priority, min }
    }
}

/// Pod rules of the members: affinity, and anti-affinity by host or rack.
fn rules() -> impl Strategy<Value = Rules> {
    small::rules(0.4, 0.3, 0.0)
}

/// A running pod before it has a node.
#[derive(Clone, Debug)]
struct Filler {
    gang: usize,
    node: usize,
    cores: i64,
    running: Running,
    rules: Rules,
}

prop_compose! {
    fn filler()(
        (gang, node, cores) in (0usize..4, 0usize..3, 1i64..3),
        preemptable in prop::option::weighted(0.2, any::<bool>()),
        (bound, one, other) in any::<(bool, bool, bool)>(),
        colours in any::<[bool; 2]>(),
        keeps_away in prop::option::weighted(0.15, topology()),
    ) -> Filler {
        let without = keeps_away.map(|topology| (0, topology));
        let running = Running { preemptable, bound, budgets: [one, one && other] };
        Filler { gang, node, cores, running, rules: Rules { colours, without, ..Rules::default() } }
    }
}

/// Nodes with this many cores: the first two are in one rack, the next two in another.
fn hosts(cores: &[i64]) -> Vec<Host> {
    cores.iter().enumerate().map(|(at, cores)| Host { room: [*cores, 0], rack: Some(at / 2) }).collect()
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
        fillers in prop::collection::vec(filler(), count),
        allowed in [0u32..4, 0u32..9],
        asks in gang(),
        cores in 1i64..5,
        only in prop::option::weighted(0.3, 0usize..3),
        rules in rules(),
        keeps_gangs in any::<bool>(),
    ) -> Case {
        let (hosts, mut free) = (hosts(&nodes), nodes);
        let (mut pods, mut running) = (Vec::new(), Vec::new());
        for (at, filler) in fillers.into_iter().enumerate() {
            let (gang, node) = (filler.gang % gangs.len(), filler.node % hosts.len());
            if free[node] >= filler.cores {
                free[node] -= filler.cores;
                let name = format!("g{gang}-{at}");
                pods.push(Held { name, gang, node, asks: [filler.cores, 0], rules: filler.rules });
                running.push(filler.running);
            }
        }
        let min = asks.min.max(1) as usize;
        let members = vec![Member { asks: [cores, 0], only, rules }; min];
        let small = Small { hosts, pods, members, min };
        Case { small, running, gangs, allowed, priority: asks.priority, keeps_gangs }
    }
}

prop_compose! {
    /// Full nodes whose pods share a surplus that is smaller than the gang could use.
    fn crowded()(
        nodes in prop::collection::vec(prop::sample::select(vec![1i64, 1, 2, 3, 3]), 5..8),
        surplus in prop::collection::vec(0usize..3, 2..5),
        fillers in prop::collection::vec((0usize..4, prop::bool::weighted(0.9), any::<[bool; 2]>()), 14),
        allowed in [0u32..4, 1u32..9],
        (min, cores) in (1usize..3, 2i64..4),
        rules in prop_oneof![9 => Just(Rules::default()), 1 => rules()],
    ) -> Case {
        let seats = nodes.iter().enumerate().flat_map(|(at, cores)| (0..*cores).map(move |_| at));
        let (mut pods, mut running) = (Vec::new(), Vec::new());
        for (at, (node, (gang, free, colours))) in seats.zip(fillers).enumerate() {
            let gang = gang % surplus.len();
            let rules = Rules { colours, ..Rules::default() };
            pods.push(Held { name: format!("g{gang}-{at}"), gang, node, asks: [1, 0], rules });
            let budgets = [colours[0] && colours[1], false];
            running.push(Running { preemptable: (!free).then_some(false), bound: false, budgets });
        }
        let gang = |(at, surplus): (usize, &usize)| {
            let members = pods.iter().filter(|pod| pod.gang == at).count();
            Gang { queue: 0, priority: 1, min: members.saturating_sub(*surplus) as u32 }
        };
        let gangs = surplus.iter().enumerate().map(gang).collect();
        let members = vec![Member { asks: [cores, 0], only: None, rules }; min];
        let small = Small { hosts: hosts(&nodes), pods, members, min };
        Case { small, running, gangs, allowed, priority: 10, keeps_gangs: true }
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
        for node in self.small.nodes() {
            test.add(node);
        }
        let of = |name: &str, priority: i32, min: u32| PodGroupInfo {
            priority_class: Some(format!("p{priority}").into()),
            ..group(name, min)
        };
        for (at, gang) in self.gangs.iter().enumerate() {
            test.add(of(&format!("g{at}"), gang.priority, gang.min));
        }
        for (pod, running) in self.small.running().zip(&self.running) {
            test.add(running.of(pod));
        }
        for (at, allowed) in self.allowed.iter().enumerate() {
            test.add(budget(at, *allowed));
        }
        test.add(of("asks", self.priority, self.small.min as u32));
        for pod in self.small.asking() {
            test.add(pod);
        }
        test
    }

    /// Whether the gang fits once these pods are gone.
    fn fits(&self, gone: Set) -> bool {
        self.small.fits(gone, &|_| true)
    }

    /// Whether these pods may be evicted together for the gang.
    fn may_go(&self, gone: Set) -> bool {
        let alone = |at: usize| {
            let Running { preemptable, bound, budgets } = &self.running[at];
            self.gangs[self.small.pods[at].gang].priority < self.priority
                && *preemptable != Some(false)
                && (*bound || *budgets != [true, true])
        };
        let within = |(at, allowed): (usize, &u32)| {
            let counts = |pod: &Running| pod.budgets[at] && !pod.bound;
            self.small.positions(gone).filter(|at| counts(&self.running[*at])).count() <= *allowed as usize
        };
        let losses = if self.keeps_gangs { Losses::Surplus } else { Losses::Any };
        self.small.positions(gone).all(alone)
            && self.small.may_lose(losses, gone, self.gangs.iter().map(|gang| gang.min))
            && self.allowed.iter().enumerate().all(within)
    }
}

impl Running {
    fn of(&self, mut pod: PodInfo) -> PodInfo {
        pod.preemptable = self.preemptable;
        let colours = pod.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
        pod.labels = colours.chain(labels(&self.budgets, "budget")).collect();
        if self.bound {
            pod.life.phase = PodPhase::Pending;
        }
        pod
    }
}

fn budget(at: usize, allowed: u32) -> PdbInfo {
    let name = format!("budget-{at}");
    PdbInfo { key: Key::new("ns", &name), selector: Some(has(&name)), allowed, ..PdbInfo::default() }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let (small, mut test) = (&case.small, case.test());
    let cycle = test.cycle();
    let evicted = small.set_of(&cycle.evicted);
    let places = small.places(&cycle);
    if places.iter().all(Option::is_none) {
        return small.is_refused(&test, &cycle, rate, |gone| case.may_go(*gone) && case.fits(*gone));
    }
    if evicted != 0 {
        rate.served();
    }
    prop_assert!(places.iter().all(Option::is_some), "{places:?}");
    prop_assert!(small.leads_to(evicted, &|_| true, &places), "{places:?} without {:?}", cycle.evicted);
    prop_assert!(case.may_go(evicted), "{:?}", cycle.evicted);
    for at in small.positions(evicted) {
        prop_assert!(!case.fits(evicted & !(1 << at)), "{} need not be evicted", small.pods[at].name);
    }
    small.starts_next(&mut test, &cycle)
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
