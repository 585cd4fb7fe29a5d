//! preempt against brute force for gangs with topology spread, affinity, anti-affinity or members of several sizes.
use phalanx_cluster::event::{Event, PodGroupInfo, PodInfo};
use phalanx_framework::conf::{Conf, Flag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::group;
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{
    self, Figures, Gang, GangProtection, Host, Losses, Member, Rules, Set, Small, Topology, filled, host,
};
use phalanx_testkit::{TestCluster, cases, one_tier, set_flag};

#[derive(Clone, Debug)]
struct Case {
    small: Small,
    gangs: Vec<Gang>,
    /// By pod.
    preemptable: Vec<bool>,
    protection: GangProtection,
}

/// Gang, node, requests and pod rules.
type Pod = (usize, usize, Figures, Rules);

fn asks() -> impl Strategy<Value = Figures> {
    prop_oneof![3 => (1i64..4).prop_map(|cores| [cores, 0]), 1 => (0i64..3, 1i64..3).prop_map(|(a, b)| [a, b])]
}

fn pods(rules: impl Strategy<Value = Rules>, most: usize) -> impl Strategy<Value = Vec<Pod>> {
    let one = (0usize..3, 0usize..4, prop_oneof![4 => Just([1, 0]), 1 => asks()], rules);
    prop::collection::vec(one, 0..=most)
}

fn built(
    (hosts, pods, mut members): (Vec<Host>, Vec<Pod>, Vec<Member>),
    alike: bool,
    min: usize,
    rest: Rest,
    whole_gangs: bool,
) -> Case {
    if alike {
        members = vec![members[0].clone(); members.len()];
    }
    let min = min.min(members.len());
    let small = Small { pods: filled(&hosts, pods), hosts, members, min };
    let protection = GangProtection { whole_gangs, minimums: rest.minimums };
    Case { preemptable: rest.preemptable[..small.pods.len()].to_vec(), small, gangs: rest.gangs, protection }
}

/// The running gangs, which of their pods may be evicted, and whether plugin gang protects minimums.
#[derive(Clone, Debug)]
struct Rest {
    gangs: Vec<Gang>,
    preemptable: Vec<bool>,
    minimums: bool,
}

prop_compose! {
    fn gang()(priority in prop::sample::select(vec![1, 1, 3, 5]), min in 0u32..3) -> Gang {
        Gang { queue: 0, priority, min }
    }
}

prop_compose! {
    fn rest()(
        gangs in prop::collection::vec(gang(), 3),
        preemptable in prop::collection::vec(prop::bool::weighted(0.85), 9),
        minimums in any::<bool>(),
    ) -> Rest {
        Rest { gangs, preemptable, minimums }
    }
}

prop_compose! {
    /// Members of one class or several, with pod rules.
    fn looking(with: f64, without: f64, spread: f64, whole_gangs: bool)(
        hosts in prop::collection::vec(host(), 1..5),
        pods in pods(small::rules(0.0, without / 3.0, 0.0), 7),
        members in prop::collection::vec(
            ((1i64..3, 0i64..2), prop::option::weighted(0.15, 0usize..3), small::rules(with, without, spread)), 1..4,
        ),
        (alike, min) in (prop::bool::weighted(0.7), 1usize..4),
        rest in rest(),
    ) -> Case {
        let member = |((cores, cards), only, rules): ((i64, i64), _, _)| {
            let cards = if cores == 2 { cards } else { 0 };
            Member { asks: [cores, cards], only, rules }
        };
        built((hosts, pods, members.into_iter().map(member).collect()), alike, min, rest, whole_gangs)
    }
}

prop_compose! {
    /// Members with topology spread on nodes whose pods partly have anti-affinity to them: pods that stay matter too.
    fn uneven()(
        hosts in prop::collection::vec((1i64..4, 0usize..2), 2..5),
        pods in prop::collection::vec(
            (0usize..3, 0usize..4, prop::bool::weighted(0.85), prop::option::weighted(0.2, Just((1, Topology::Host)))), 3..9,
        ),
        (evens, own) in (small::of_first_colour(), any::<bool>()),
        (cores, count) in (1i64..3, 1usize..3),
        rest in rest(),
    ) -> Case {
        let host = |(cores, rack)| Host { room: [cores, 0], rack: Some(rack) };
        let pod = |(gang, node, coloured, without): (_, _, _, _)| {
            (gang, node, [1, 0], Rules { colours: [coloured, false], without, ..Rules::default() })
        };
        let rules = Rules { colours: [own, true], spread: evens, ..Rules::default() };
        let member = Member { asks: [cores, 0], only: None, rules };
        let (hosts, pods) = (hosts.into_iter().map(host).collect(), pods.into_iter().map(pod).collect());
        built((hosts, pods, vec![member; count]), true, count, rest, false)
    }
}

prop_compose! {
    /// Members of several sizes, some of which may use one node only.
    fn unlike(whole_gangs: bool)(
        hosts in prop::collection::vec(host(), 1..5),
        pods in pods(Just(Rules::default()), 7),
        members in prop::collection::vec((asks(), prop::option::weighted(0.3, 0usize..3)), 2..5),
        min in 1usize..5,
        rest in rest(),
    ) -> Case {
        let member = |(asks, only)| Member { asks, only, rules: Rules::default() };
        built((hosts, pods, members.into_iter().map(member).collect()), false, min, rest, whole_gangs)
    }
}

impl Case {
    fn conf(&self) -> Conf {
        let action = if self.protection.whole_gangs { "gangpreempt" } else { "preempt" };
        let plugins = ["priority", "gang", "predicates", "nodeorder"];
        let mut conf = one_tier(&["allocate", action], &plugins);
        set_flag(&mut conf, "gang", Flag::Preemptable, self.protection.minimums);
        conf
    }

    fn test(&self) -> TestCluster {
        let mut test = TestCluster::with(self.conf());
        for value in [1, 3, 5, 10] {
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
        for (pod, free) in self.small.running().zip(&self.preemptable) {
            test.add(PodInfo { preemptable: (!free).then_some(false), ..pod });
        }
        test.add(of("asks", 5, self.small.min as u32));
        for pod in self.small.asking() {
            test.add(pod);
        }
        test
    }

    /// Whether these pods may be evicted together.
    fn may_go(&self, gone: Set) -> bool {
        self.small.positions(gone).all(|at| self.preemptable[at] && self.priority(at) < 5)
            && self.small.may_lose(self.protection.losses(), gone, self.mins())
    }

    fn mins(&self) -> impl Iterator<Item = u32> {
        self.gangs.iter().map(|gang| gang.min)
    }

    fn fits(&self, gone: Set) -> bool {
        self.small.fits(gone, &|_| true)
    }

    fn priority(&self, pod: usize) -> i32 {
        self.gangs[self.small.pods[pod].gang].priority
    }

    /// The victims one by one, and by gang.
    fn units(&self, evicted: Set) -> impl Iterator<Item = Set> {
        let pods = &self.small.pods;
        let of_gang = move |gang: usize| {
            let members = self.small.positions(evicted).filter(|at| pods[*at].gang == gang);
            members.fold(0, |set, at| set | 1 << at)
        };
        let gangs = (0..self.gangs.len()).map(of_gang).filter(|gang| *gang != 0);
        self.small.positions(evicted).map(|at| 1 << at).chain(gangs)
    }

    /// The highest priority among the victims.
    fn highest(&self, gone: Set) -> Option<i32> {
        self.small.positions(gone).map(|at| self.priority(at)).max()
    }

    /// A victim, and a pod of lower priority on its node that could be evicted instead without breaking another gang.
    fn lesser(&self, evicted: Set) -> Option<(usize, usize)> {
        let pods = &self.small.pods;
        let is_gone = |at: usize| evicted & (1 << at) != 0;
        let pairs = (0..pods.len()).flat_map(|one| (0..pods.len()).map(move |other| (one, other)));
        pairs
            .filter(|(one, other)| is_gone(*one) && !is_gone(*other) && !self.protection.whole_gangs)
            .filter(|(one, other)| pods[*one].node == pods[*other].node)
            .filter(|(one, other)| self.priority(*other) < self.priority(*one))
            .find(|(one, other)| {
                let instead = evicted & !(1 << one) | 1 << other;
                let broken = |gone: Set| self.small.broken(gone, self.mins());
                let no_more = broken(instead).iter().zip(broken(evicted)).all(|(new, old)| !*new || old);
                self.may_go(instead) && self.fits(instead) && no_more
            })
    }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let small = &case.small;
    let mut test = case.test();
    let cycle = test.cycle();
    let evicted = small.set_of(&cycle.evicted);
    let places = small.places(&cycle);
    if places.iter().all(Option::is_none) {
        return small.is_refused(&test, &cycle, rate, |gone| case.may_go(*gone) && case.fits(*gone));
    }
    if evicted != 0 {
        rate.served();
    }
    prop_assert!(small.leads_to(evicted, &|_| true, &places), "{places:?} without {:?}", cycle.evicted);
    prop_assert!(places.iter().flatten().count() >= small.min, "{places:?}");
    prop_assert!(case.may_go(evicted), "{:?}", cycle.evicted);
    for at in small.positions(evicted).filter(|_| !case.protection.whole_gangs) {
        prop_assert!(!case.fits(evicted & !(1 << at)), "{} need not go", small.pods[at].name);
    }
    // Each single pod and each whole gang whose eviction is not needed has to stay; where several together could stay,
    // that is counted.
    let kept = case.units(evicted).map(|unit| evicted & !unit);
    for gone in kept.filter(|gone| case.protection.whole_gangs && case.may_go(*gone)) {
        prop_assert!(!case.fits(gone), "{gone:b} is enough of {evicted:b}");
    }
    let is_enough = |gone: Set| case.may_go(gone) && case.fits(gone);
    if case.protection.whole_gangs && small.find_part(evicted, is_enough).is_some() {
        rate.costly();
    }
    if case.lesser(evicted).is_some() {
        rate.costly();
    }
    if small.broken(evicted, case.mins()).contains(&true) {
        let most = if case.protection.whole_gangs { u32::MAX } else { evicted.count_ones() };
        let is_better = |gone: &Set| {
            gone.count_ones() <= most
                && (case.protection.whole_gangs || case.highest(*gone) <= case.highest(evicted))
                && small.may_lose(Losses::Surplus, *gone, case.mins())
                && is_enough(*gone)
        };
        if small.find(is_better).is_some() {
            rate.costly();
        }
    }
    small.starts_next(&mut test, &cycle)
}

#[test]
fn preemption_by_spread_pods_is_sound_and_nearly_complete() {
    holds("spread", cases(2000), looking(0.0, 0.0, 0.95, false), check);
}

#[test]
fn preemption_for_uneven_spread_is_sound_and_nearly_complete() {
    holds("uneven spread", cases(2000), uneven(), check);
}

#[test]
fn preemption_by_pods_with_affinity_is_sound_and_nearly_complete() {
    holds("affinity", cases(2000), looking(0.5, 0.5, 0.0, false), check);
}

#[test]
fn preemption_by_pods_with_affinity_and_spread_is_sound_and_nearly_complete() {
    holds("affinity and spread", cases(2000), looking(0.3, 0.3, 0.5, false), check);
}

#[test]
fn preemption_by_gangs_of_unlike_members_is_sound_and_nearly_complete() {
    holds("unlike members", cases(2000), unlike(false), check);
}

#[test]
fn gangpreempt_by_gangs_of_unlike_members_is_sound_and_nearly_complete() {
    holds("gangpreempt, unlike members", cases(2000), unlike(true), check);
}

#[test]
fn gangpreempt_by_pods_with_affinity_and_spread_is_sound_and_nearly_complete() {
    holds("gangpreempt, affinity and spread", cases(2000), looking(0.3, 0.3, 0.3, true), check);
}
