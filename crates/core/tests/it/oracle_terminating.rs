//! `allocate` against brute force where pods terminate and some members of a gang have affinity to others: a
//! reservation is whole and leads to a start, and nearly every gang that fits gets its nodes.
use std::sync::Arc;

use phalanx_cluster::event::{Constraints, PodInfo, PodRules, PodSelector, PodTerm};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use phalanx_framework::testing::{group, leaving, member, node, pod, running};
use phalanx_testkit::rates::{Rate, holds};
use phalanx_testkit::small::{self, Held, Host, Member, Rules, Set, Small, Topology};
use phalanx_testkit::{TestCluster, cases};

#[derive(Clone, Debug)]
struct Case {
    small: Small,
    /// Pods that are being deleted.
    gone: Set,
}

fn held(at: usize, cores: i64) -> Held {
    Held { name: format!("g0-{at}"), gang: 0, node: at, asks: [cores, 0], rules: Rules::default() }
}

prop_compose! {
    /// A member, perhaps with affinity to a colour, which it then has itself.
    fn asking()(
        cores in 1i64..5,
        with in prop::option::of(0usize..2),
        without in prop::option::weighted(0.1, (0usize..2, small::topology())),
        mut colours in any::<[bool; 2]>(),
    ) -> Member {
        if let Some(colour) = with {
            colours[colour] = true;
        }
        let with = with.map(|colour| (colour, Topology::Rack));
        Member { asks: [cores, 0], only: None, rules: Rules { colours, with, without, ..Rules::default() } }
    }
}

prop_compose! {
    /// Nodes in racks, each with at most one pod, which runs on or terminates.
    fn case(nodes: usize, racks: usize, most: usize)(
        hosts in prop::collection::vec((1i64..6, 0..racks), 1..=nodes),
        others in prop::collection::vec((0i64..5, any::<bool>()), nodes),
        members in prop::collection::vec(asking(), 2..=most),
        spare in prop::bool::weighted(0.3),
    ) -> Case {
        let room = hosts.iter().map(|(room, _)| *room);
        let there = others.into_iter().zip(room).map(|((cores, leaves), room)| (cores.min(room), leaves)).enumerate();
        let (pods, leaves): (Vec<Held>, Vec<bool>) = there
            .filter(|(_, (cores, _))| *cores > 0)
            .map(|(at, (cores, leaves))| (held(at, cores), leaves))
            .unzip();
        let gone = leaves.iter().enumerate().fold(0, |set, (at, leaves)| set | Set::from(*leaves) << at);
        let hosts = hosts.into_iter().map(|(cores, rack)| Host { room: [cores, 0], rack: Some(rack) }).collect();
        let min = members.len() - usize::from(spare && members.len() > 2);
        Case { small: Small { hosts, pods, members, min }, gone }
    }
}

fn check(case: &Case, rate: &Rate) -> TestCaseResult {
    let small = &case.small;
    let mut test = small.with_leaving(case.gone);
    let cycle = test.cycle();
    let places = small.places(&cycle);
    if places.iter().all(Option::is_none) {
        if small.fits(case.gone, &|_| true) {
            rate.not_placed();
        }
        return Ok(());
    }
    rate.served();
    prop_assert!(places.iter().flatten().count() >= small.min, "a part is placed: {places:?}");
    prop_assert!(small.leads_to(case.gone, &|_| true, &places), "{places:?}");
    if cycle.bound_of("asks") > 0 {
        prop_assert!(cycle.bound_of("asks") >= small.min, "a part starts: {:?}", cycle.bound);
        prop_assert!(small.fits(0, &|_| true), "it starts before pods are gone: {:?}", cycle.bound);
        return Ok(());
    }
    if small.fits(0, &|_| true) {
        rate.costly();
    }
    keeps_reservation(case, &mut test)
}

/// A reservation changes to better nodes only, a few times, and leads to a start.
fn keeps_reservation(case: &Case, test: &mut TestCluster) -> TestCaseResult {
    // Without a change the cycles decide nothing.
    for _ in 0..2 {
        let cycle = test.cycle();
        prop_assert!(cycle.nominated.is_empty() && cycle.bound.is_empty(), "{:?}", cycle.decisions);
    }
    // After changes that do not help the gang it moves to better places only, and these moves end.
    let moves = |at: usize| {
        test.add(group(&format!("other-{at}"), 1));
        !test.cycle().nominated.is_empty()
    };
    let moves: Vec<bool> = (0..case.small.members.len() + 2).map(moves).collect();
    prop_assert!(!moves.ends_with(&[true]), "{moves:?}");
    for pod in case.small.pods_of(case.gone) {
        test.gone(&pod.name);
    }
    let bound = test.cycle().bound_of("asks");
    prop_assert!(bound >= case.small.min, "{bound} start: {:?}", test.reasons("asks"));
    Ok(())
}

#[test]
fn reservations_on_nodes_of_terminating_pods_are_sound_and_nearly_complete() {
    holds("terminating pods", cases(2000), case(4, 3, 4), check);
}

#[test]
fn reservations_on_many_nodes_in_many_racks_are_sound_and_nearly_complete() {
    holds("terminating pods in many racks", cases(2000), case(12, 6, 3), check);
}

#[test]
fn reservations_of_gangs_of_five_are_sound_and_nearly_complete() {
    holds("terminating pods, gangs of five", cases(2000), case(6, 3, 5), check);
}

/// As many gangs as find their places in one cycle, if each search takes a hundredth of the steps of the cycle.
const GANGS: usize = 100;

/// A gang of two: the second member has affinity to the label that both have, so it has to be placed first.
fn pair(test: &mut TestCluster, name: &str) {
    let pods = PodSelector {
        namespaces: vec!["ns".into()],
        labels: Some(small::has(name)),
        ..PodSelector::default()
    };
    let affinity = vec![PodTerm { topology_key: small::RACK.into(), pods }];
    let seeks = Some(Arc::new(PodRules { affinity, ..PodRules::default() }));
    test.add(group(name, 2));
    for (index, pod_rules) in [None, seeks].into_iter().enumerate() {
        let labels = [(name.into(), "".into())].into_iter().collect();
        let constraints = Arc::new(Constraints { pod_rules, ..Constraints::default() });
        test.add(PodInfo { labels, constraints, ..member(name, index as u32, "cpu=4") });
    }
}

#[test]
fn nominations_of_100_gangs_are_found_within_the_steps_of_one_cycle() {
    let mut test = TestCluster::with(small::allocating());
    let pairs: Vec<String> = (0..GANGS).map(|at| format!("pair-{at:03}")).collect();
    for at in 0..2 * GANGS {
        let mut info = node(&format!("n{at}"), "cpu=4");
        info.labels.push((small::RACK.into(), format!("r{at}").into()));
        test.add(info);
        test.add(leaving(running(pod(&format!("old-{at}"), "cpu=3"), &format!("n{at}"))));
    }
    for name in &pairs {
        pair(&mut test, name);
    }
    for turn in 0..3 {
        let cycle = test.cycle();
        assert_eq!(cycle.nominated.len(), if turn == 0 { 2 * GANGS } else { 0 }, "in cycle {turn}");
        for name in &pairs {
            assert_eq!(
                test.reasons(name),
                ["2 pod(s) are nominated and wait for terminating pods"],
                "{name}"
            );
        }
    }
}
