//! Sub-groups of gangs: room for them is counted whole, reasons name them, evictions and repairs keep them whole.
use phalanx_cluster::event::{Event, Key, NetworkTopology, PdbInfo, PodGroupInfo, PodInfo, SubGroupPolicy};
use phalanx_cluster::label::Selector;
use phalanx_framework::conf::Flag;
use phalanx_framework::testing::{group, job_of, leaving, member, node, running};
use phalanx_testkit::rates::{self, Rate};
use phalanx_testkit::{Cycle, TestCluster, one_tier, set_flag};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use crate::hyper_nodes::{PLUGINS, fill, hard, hyper_node, part, policy, three_tiers, three_tiers_of};

/// A gang of sub-groups of two pods, so many of which it requires.
fn gang(test: &mut TestCluster, pods: u32, info: PodGroupInfo, requests: &str) {
    let name = info.key.name.clone();
    test.add(info);
    for at in 0..pods {
        test.add(part(&name, at, at / 2, requests));
    }
}

fn with(sub_groups: SubGroupPolicy, topology: Option<NetworkTopology>, min_member: u32) -> PodGroupInfo {
    PodGroupInfo { topology, sub_groups: vec![sub_groups], ..group("g", min_member) }
}

#[test]
fn a_placed_gang_tells_where_its_sub_groups_are_and_why_it_is_in_no_lower_tier() {
    let mut test = three_tiers();
    gang(&mut test, 4, with(policy(2, 2, Some(hard(1))), Some(hard(2)), 4), "cpu=6");
    assert_eq!(test.cycle().bound.len(), 4);
    let snapshot = test.snapshot();
    let (inspection, job) = (snapshot.open(), job_of(&snapshot.cluster, "g"));
    let placed = inspection.placed_sub_groups(job);
    let places = placed.iter().map(|it| format!("{} of {} in {}", it.name, it.policy, it.domain.hyper_node));
    assert_eq!(places.collect::<Vec<_>>(), ["0 of p in s0", "1 of p in s1"]);
    let lower = inspection.lower_tier(job).unwrap();
    assert_eq!((lower.domain.tier, lower.fits, lower.wanted), (1, 2, 4));
}

/// One node of each HyperNode of tier 1 is free, and each sub-group needs two.
#[test]
fn the_reason_names_a_sub_group_without_room_also_where_the_gang_has_a_topology() {
    for of_gang in [None, Some(hard(3))] {
        let mut test = three_tiers();
        fill(&mut test, &[(1, 8), (3, 8), (5, 8), (7, 8)]);
        gang(&mut test, 4, with(policy(2, 2, Some(hard(1))), of_gang, 4), "cpu=8");
        assert_eq!(test.cycle().bound.len(), 0);
        let reason = &test.reasons("g")[0];
        let end = "of subGroupPolicy p: networkTopology: no HyperNode has room for 2 pod(s): HyperNode s0 has room for \
                   1, lacks cpu 8";
        assert!(reason.ends_with(end), "{reason}");
    }
}

#[test]
fn the_reason_names_the_sub_group_that_lacks_the_least() {
    // Room for three pods of four cores in s0, and for none elsewhere.
    let full = [(0, 4), (2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8)];
    for (topology, of_gang, reason) in [
        (
            Some(hard(1)),
            None,
            "sub-group 1 of subGroupPolicy p beside 1 other sub-group(s): networkTopology: no HyperNode has room for 2 pod(s): \
             HyperNode s0 has room for 1, lacks cpu 4",
        ),
        (
            Some(hard(1)),
            Some(hard(2)),
            "networkTopology: no HyperNode has room for 4 pod(s): HyperNode s0 has room for 2, lacks cpu 4",
        ),
        (None, None, "g-3: 0/8 nodes are available: 8 Insufficient cpu."),
    ] {
        let mut test = three_tiers();
        fill(&mut test, &full);
        gang(&mut test, 4, with(policy(2, 2, topology), of_gang, 4), "cpu=4");
        assert_eq!(test.cycle().bound.len(), 0);
        assert_eq!(test.reasons("g")[0], reason);
    }
}

/// Racks of a node each, or of more: name, nodes with their cores and the cores that are used.
fn racks(test: &mut TestCluster, racks: &[(String, Vec<(u32, u32)>)]) {
    for (rack, nodes) in racks {
        let name = |at: usize| format!("n-{rack}-{at}");
        for (at, (cores, used)) in nodes.iter().enumerate() {
            test.add(node(&name(at), &format!("cpu={cores}")));
            if *used > 0 {
                let pod = member(&format!("o-{rack}"), at as u32, &format!("cpu={used}"));
                test.add(running(pod, &name(at)));
            }
        }
        test.add(group(&format!("o-{rack}"), 0));
        let names: Vec<String> = (0..nodes.len()).map(name).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        test.add(hyper_node(rack, 1, &names));
    }
}

#[test]
fn room_is_asked_for_all_sub_groups_that_are_required() {
    // Of 20 racks, 18 full ones and an emptier one have room for three pods of four cores.
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &PLUGINS));
    let mut all: Vec<_> = (0..18).map(|at| (format!("r{at:02}"), vec![(16, 10); 3])).collect();
    all.push(("r18".into(), vec![(16, 8), (20, 12)]));
    all.push(("r19".into(), vec![(7, 0); 3]));
    racks(&mut test, &all);
    gang(&mut test, 4, with(policy(2, 2, None), Some(hard(1)), 2), "cpu=4");
    let cycle = test.cycle();
    assert_eq!(cycle.bound.len(), 4, "{:?}", test.reasons("g"));
    assert!(cycle.bound.values().all(|node| node.starts_with("n-r18")), "{:?}", cycle.bound);
}

#[test]
fn room_is_counted_in_whole_sub_groups() {
    // Spines of two racks have room for four pods, and 18 of them for three pods in one rack and one in the other.
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &PLUGINS));
    let one = |spine: u32| {
        let second = if spine < 18 { vec![(16, 12)] } else { vec![(7, 0); 2] };
        let first = if spine < 18 { vec![(16, 4)] } else { vec![(7, 0); 2] };
        [(format!("a{spine:02}"), first), (format!("b{spine:02}"), second)]
    };
    let mut all: Vec<_> = (0..19).flat_map(one).collect();
    all.extend(["a19", "b19", "c19", "d19"].map(|rack| (rack.to_owned(), vec![(7, 0), (3, 0), (3, 0)])));
    racks(&mut test, &all);
    for spine in 0..20 {
        let names: Vec<String> = all.iter().map(|(rack, _)| rack.clone()).collect();
        let of = |rack: &&String| rack.ends_with(&format!("{spine:02}"));
        let below: Vec<&str> = names.iter().filter(of).map(String::as_str).collect();
        test.add(hyper_node(&format!("s{spine:02}"), 2, &below));
    }
    gang(&mut test, 4, with(policy(2, 2, Some(hard(1))), Some(hard(2)), 4), "cpu=4");
    let cycle = test.cycle();
    assert_eq!(cycle.bound.len(), 4, "{:?}", test.reasons("g"));
    assert!(cycle.bound.values().all(|node| node[3..].starts_with("18")), "{:?}", cycle.bound);
}

#[test]
fn a_repair_keeps_a_node_near_the_rest_of_a_gang_with_a_soft_topology() {
    let mut test = three_tiers();
    fill(&mut test, &[(0, 7), (1, 7), (2, 7), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8)]);
    test.add(PodGroupInfo { topology: Some(NetworkTopology::Soft), ..group("g", 3) });
    for at in 0..2 {
        test.add(running(member("g", at, "cpu=1"), &format!("n{at}")));
    }
    test.add(member("g", 2, "cpu=2"));
    let cycle = test.cycle();
    let node = cycle.nominated["g-2"].as_deref();
    assert!(node == Some("n0") || node == Some("n1"), "n2 lacks less, but is far: {node:?}");
}

#[test]
fn a_repair_keeps_nodes_for_a_sub_group_as_a_whole() {
    let mut test = three_tiers();
    fill(&mut test, &[(1, 8), (4, 8), (5, 8), (6, 8), (7, 8)]);
    let sub_groups = vec![policy(2, 2, Some(hard(1)))];
    test.add(PodGroupInfo { sub_groups, ..group("g", 6) });
    // A pod of the lost sub-group would fit n2, beside which there can never be room for the other.
    for (at, cpu, on) in [(0, 4, "n0"), (1, 4, "n0")] {
        test.add(running(part("g", at, 0, &format!("cpu={cpu}")), on));
    }
    for at in [2, 3] {
        test.add(part("g", at, 1, "cpu=2"));
    }
    test.add(running(member("g", 4, "cpu=5"), "n2")).add(running(member("g", 5, "cpu=8"), "n3"));
    let cycle = test.cycle();
    let nodes: Vec<_> = cycle.nominated.values().flatten().cloned().collect();
    assert_eq!(nodes.len(), 2, "{:?}", test.reasons("g"));
    assert_eq!(nodes[0], nodes[1], "one node of eight may be kept");
}

#[test]
fn a_sub_group_takes_over_a_reservation_of_lower_priority() {
    let mut test = three_tiers_of(one_tier(&["enqueue", "allocate"], &PLUGINS));
    fill(&mut test, &[(2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8)]);
    for at in 0..2 {
        test.add(leaving(running(member("old", at, "cpu=8"), &format!("n{at}"))));
    }
    test.add(group("old", 0)).gang(group("low", 2), 2, "cpu=6");
    assert_eq!(test.cycle().nominated.len(), 2);
    prioritized(&mut test, "high", 10);
    let info = with(policy(2, 1, Some(hard(1))), None, 2);
    gang(&mut test, 2, PodGroupInfo { priority_class: Some("high".into()), ..info }, "cpu=6");
    let cycle = test.cycle();
    let of_gang = |pod: &str| matches!(cycle.nominated.get(pod), Some(Some(_)));
    assert!(of_gang("g-0") && of_gang("g-1"), "{cycle:?} {:?}", test.reasons("g"));
}

fn prioritized(test: &mut TestCluster, name: &str, value: i32) {
    test.add(Event::PriorityClass { name: name.into(), value, global_default: false });
}

/// Pods of low priority with so many cores on nodes, each of which may be evicted.
fn lows(test: &mut TestCluster, pods: &[(u32, u32)]) {
    prioritized(test, "low", 0);
    for (at, (node, cpu)) in pods.iter().enumerate() {
        let pod = running(member("low", at as u32, &format!("cpu={cpu}")), &format!("n{node}"));
        test.add(PodInfo { priority: Some(0), ..pod });
    }
    test.add(PodGroupInfo { priority_class: Some("low".into()), ..group("low", 0) });
}

/// Other pods, which may not be evicted.
fn fixed(test: &mut TestCluster, pods: &[(u32, u32)]) {
    prioritized(test, "top", 100);
    for (at, (node, cpu)) in pods.iter().enumerate() {
        let pod = running(member("other", at as u32, &format!("cpu={cpu}")), &format!("n{node}"));
        test.add(PodInfo { priority: Some(100), ..pod });
    }
    test.add(PodGroupInfo { priority_class: Some("top".into()), ..group("other", 0) });
}

#[test]
fn pods_are_evicted_for_sub_groups_as_a_whole() {
    // Whether the second sub-group would fit with pods evicted => pods evicted.
    for (fits, expected) in [(true, vec!["low-0", "low-1"]), (false, vec![])] {
        let mut conf = one_tier(&["enqueue", "allocate", "preempt"], &PLUGINS);
        set_flag(&mut conf, "gang", Flag::JobStarving, false);
        let mut test = three_tiers_of(conf);
        lows(&mut test, if fits { &[(2, 8), (3, 8)] } else { &[(2, 8)] });
        let rest = [(4, 8), (5, 8), (6, 8), (7, 8), (3, 8)];
        fixed(&mut test, &rest[..if fits { 4 } else { 5 }]);
        prioritized(&mut test, "high", 10);
        let info = with(policy(2, 1, Some(hard(1))), None, 2);
        test.add(PodGroupInfo { priority_class: Some("high".into()), ..info });
        for at in 0..4 {
            let pod = PodInfo { priority: Some(10), ..part("g", at, at / 2, "cpu=6") };
            test.add(if at < 2 { running(pod, &format!("n{at}")) } else { pod });
        }
        let mut evicted = test.cycle().evicted;
        evicted.sort();
        assert_eq!(evicted, expected, "{:?}", test.reasons("g"));
        // Half of the room is not enough to start.
        for pod in evicted.iter().take(1) {
            test.gone(pod);
        }
        assert_eq!(test.cycle().bound.len(), 0);
        for pod in evicted.iter().skip(1) {
            test.gone(pod);
        }
        assert_eq!(test.cycle().bound.len(), evicted.len());
    }
}

/// A gang of equal pods in sub-groups, and pods that may be evicted for it and that may not, by node.
#[derive(Clone, Debug)]
struct Siege {
    /// Node and cores.
    lows: Vec<(u32, u32)>,
    fixed: Vec<(u32, u32)>,
    cpu: u32,
    size: u32,
    min: u32,
    groups: u32,
    /// Tier of the hard topology of the gang and of its sub-groups; 4 for none.
    tiers: (u32, u32),
    /// How many pods the PodDisruptionBudget lets go.
    allowed: u32,
}

fn siege() -> impl Strategy<Value = Siege> {
    let nodes = prop::collection::vec((0u32..4, 0u32..9), 8);
    let lows = prop::collection::vec((0u32..8, 2u32..7), 1..9);
    let gang = (2u32..7, 2u32..4, 1u32..4, 0u32..2, (2u32..5, 1u32..5), prop::option::of(1u32..6));
    (nodes, lows, gang).prop_map(|(nodes, lows, (cpu, size, min, more, tiers, allowed))| {
        let mut left = [8u32; 8];
        let mut take = |node: u32, cpu: u32| {
            let cpu = cpu.min(left[node as usize]);
            left[node as usize] -= cpu;
            (cpu > 0).then_some((node, cpu))
        };
        let lows = lows.into_iter().filter_map(|(node, cpu)| take(node, cpu)).collect();
        let fixed = nodes.iter().zip(0..).filter(|((kind, _), _)| *kind == 0);
        let fixed = fixed.filter_map(|((_, cpu), node)| take(node, *cpu)).collect();
        Siege { lows, fixed, cpu, size, min, groups: min + more, tiers, allowed: allowed.unwrap_or(100) }
    })
}

impl Siege {
    fn test(&self) -> TestCluster {
        let mut test = three_tiers();
        lows(&mut test, &self.lows);
        fixed(&mut test, &self.fixed);
        prioritized(&mut test, "high", 10);
        let (key, selector) = (Key::new("ns", "budget"), Some(Selector::default()));
        test.add(PdbInfo { key, selector, allowed: self.allowed, ..PdbInfo::default() });
        let topology = |tier: u32| (tier < 4).then(|| hard(tier));
        let sub_groups = vec![policy(self.size, self.min, topology(self.tiers.1))];
        test.add(PodGroupInfo {
            topology: topology(self.tiers.0),
            sub_groups,
            priority_class: Some("high".into()),
            ..group("g", self.size * self.min)
        });
        for at in 0..self.size * self.groups {
            let pod = part("g", at, at / self.size, &format!("cpu={}", self.cpu));
            test.add(PodInfo { priority: Some(10), ..pod });
        }
        test
    }

    /// How many pods fit a range of nodes when these pods of low priority are gone, which are bits.
    fn room(&self, nodes: std::ops::Range<u32>, gone: u32) -> u32 {
        let of = |node: u32| {
            let lows = self.lows.iter().enumerate().filter(|(at, _)| gone & (1 << at) == 0);
            let all = lows.map(|(_, pod)| pod).chain(&self.fixed);
            (8 - all.filter(|(on, _)| *on == node).map(|(_, cpu)| cpu).sum::<u32>()) / self.cpu
        };
        nodes.map(of).sum()
    }

    /// Whether the gang fits a HyperNode of its topology.
    fn fits(&self, gone: u32) -> bool {
        let width = width(self.tiers.0);
        (0..8).step_by(width as usize).any(|first| self.fits_in(first..first + width, gone))
    }

    fn fits_in(&self, nodes: std::ops::Range<u32>, gone: u32) -> bool {
        let inner = width(self.tiers.1).min(nodes.len() as u32);
        let first = nodes.step_by(inner as usize);
        first.map(|at| self.room(at..at + inner, gone) / self.size).sum::<u32>() >= self.min
    }

    /// The nodes of the smallest HyperNode of the gang's topology in which its pods are; without a topology, all.
    fn around(&self, cycle: &Cycle) -> std::ops::Range<u32> {
        let nominated = cycle.nominated.iter().filter_map(|(pod, node)| Some((pod, node.as_ref()?)));
        let places = cycle.bound.iter().chain(nominated).filter(|(pod, _)| pod.starts_with("g-"));
        let nodes: Vec<u32> = places.map(|(_, node)| node[1..].parse().expect("a number")).collect();
        let tiers = if self.tiers.0 < 4 { 1..=3 } else { 4..=4 };
        let holds_all = |width: &u32| nodes.iter().all(|node| node / width == nodes[0] / width);
        let width = tiers.map(width).find(holds_all).expect("a HyperNode");
        let first = nodes[0] / width * width;
        first..first + width
    }

    /// How many pods have to go at the least.
    fn least(&self) -> Option<u32> {
        let sets = (0u32..1 << self.lows.len()).filter(|set| self.fits(*set));
        sets.map(u32::count_ones).min().filter(|least| *least <= self.allowed)
    }

    fn check(&self, rate: &Rate) -> TestCaseResult {
        let mut test = self.test();
        let cycle = test.cycle();
        let (got, wanted) = (places(&cycle), (self.size * self.min) as usize);
        let Some(least) = self.least() else {
            prop_assert_eq!((got, cycle.evicted.len()), (0, 0), "brute force finds none");
            return Ok(());
        };
        if least == 0 {
            return Ok(());
        }
        if got < wanted {
            rate.not_placed();
            return Ok(());
        }
        prop_assert!(cycle.evicted.len() as u32 >= least);
        rate.served();
        // Without any one of them the gang does not fit the HyperNode in which it is.
        let at = |pod: &String| pod[4..].parse::<u32>().expect("a number");
        let gone: u32 = cycle.evicted.iter().map(|pod| 1 << at(pod)).sum();
        let inside = self.around(&cycle);
        for pod in &cycle.evicted {
            prop_assert!(
                !self.fits_in(inside.clone(), gone & !(1 << at(pod))),
                "{} is evicted for nothing",
                pod
            );
        }
        Ok(())
    }
}

/// How many nodes a HyperNode of a tier has; without a tier all of them.
fn width(tier: u32) -> u32 {
    [2, 4, 8, 8][tier as usize - 1]
}

/// How many pods of the gang are bound or nominated.
fn places(cycle: &Cycle) -> usize {
    let nominated = cycle.nominated.iter().filter(|(pod, node)| pod.starts_with("g-") && node.is_some());
    cycle.bound_of("g") + nominated.count()
}

#[test]
fn pods_are_evicted_for_sub_groups_where_that_helps() {
    rates::holds("evictions for sub-groups", phalanx_testkit::cases(600), siege(), Siege::check);
}

#[test]
fn victims_leave_as_many_sub_groups_whole_as_are_required() {
    for action in ["preempt", "gangpreempt"] {
        let mut test = three_tiers_of(one_tier(&["allocate", action], &PLUGINS));
        fixed(&mut test, &[(4, 8), (5, 8), (6, 8), (7, 8)]);
        let sub_groups = vec![policy(2, 1, None)];
        test.add(PodGroupInfo { sub_groups, ..group("v", 2) });
        for at in 0..4 {
            let pod = part("v", at, at % 2, "cpu=8");
            test.add(running(PodInfo { priority: Some(0), ..pod }, &format!("n{at}")));
        }
        prioritized(&mut test, "high", 10);
        test.add(PodGroupInfo { priority_class: Some("high".into()), ..group("g", 2) });
        for at in 0..2 {
            test.add(PodInfo { priority: Some(10), ..member("g", at, "cpu=8") });
        }
        let mut evicted = test.cycle().evicted;
        evicted.sort();
        assert_eq!(evicted, ["v-1", "v-3"], "{action}: {:?}", test.reasons("g"));
    }
}

/// A gang of two equal sub-groups of unlike pods, each in a rack of two nodes.
#[derive(Clone, Debug)]
struct Unlike {
    /// Cores that are used of the eight of each node.
    used: Vec<u32>,
    /// Cores of the pods of a sub-group.
    pods: Vec<u32>,
}

impl Unlike {
    /// Whether the sub-groups from this one on find places, each in one rack.
    fn fits(&self, idle: &[u32], group: usize) -> bool {
        let pods = &self.pods;
        let mut ways = (0..4).flat_map(|rack| (0u32..1 << pods.len()).map(move |way| (rack, way)));
        group == 2
            || ways.any(|(rack, way)| {
                let mut left = idle.to_vec();
                let node = |at: usize| 2 * rack + (way >> at & 1) as usize;
                let takes = |(at, cpu): (usize, &u32)| {
                    let fits = left[node(at)] >= *cpu;
                    left[node(at)] = left[node(at)].saturating_sub(*cpu);
                    fits
                };
                pods.iter().enumerate().all(takes) && self.fits(&left, group + 1)
            })
    }

    fn check(&self, rate: &Rate) -> TestCaseResult {
        let mut test = three_tiers_of(one_tier(&["enqueue", "allocate"], &PLUGINS));
        let used: Vec<(u32, u32)> =
            (0..).zip(self.used.iter().copied()).filter(|(_, cpu)| *cpu > 0).collect();
        fill(&mut test, &used);
        let size = self.pods.len() as u32;
        let sub_groups = vec![policy(size, 2, Some(hard(1)))];
        test.add(PodGroupInfo { sub_groups, ..group("g", 2 * size) });
        for (at, cpu) in self.pods.repeat(2).into_iter().enumerate() {
            test.add(part("g", at as u32, at as u32 / size, &format!("cpu={cpu}")));
        }
        let bound = test.cycle().bound.len();
        let fits = self.fits(&self.used.iter().map(|used| 8 - used).collect::<Vec<_>>(), 0);
        prop_assert!(fits || bound == 0);
        prop_assert!(bound == 0 || bound == 2 * size as usize);
        match (fits, bound > 0) {
            (true, true) => rate.served(),
            (true, false) => rate.not_placed(),
            _ => {}
        }
        Ok(())
    }
}

#[test]
fn sub_groups_of_unlike_pods_are_placed() {
    let unlike = (prop::collection::vec(0u32..8, 8), prop::collection::vec(1u32..8, 2..4));
    let unlike = unlike.prop_map(|(used, pods)| Unlike { used, pods });
    rates::holds("sub-groups of unlike pods", phalanx_testkit::cases(600), unlike, Unlike::check);
}
