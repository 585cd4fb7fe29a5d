//! Gangs with a network topology are placed in one HyperNode, sub-groups whole.
use std::sync::Arc;

use phalanx_cluster::event::{
    Constraints, Event, HyperNodeInfo, HyperNodeMember, NetworkTopology, PodGroupInfo, PodInfo, PodPhase,
    SubGroupPolicy, TierLimit, Time,
};
use phalanx_core::decision::Decision;
use phalanx_framework::conf::{Conf, Flag};
use phalanx_framework::testing::{group, member, node, running};
use phalanx_testkit::invariants::{
    gangs_are_near, gangs_are_whole, no_node_is_overfull, sub_groups_are_whole,
};
use phalanx_testkit::{Cycle, TestCluster, one_tier, set_flag};
use proptest::prelude::*;

pub(crate) const PLUGINS: [&str; 5] =
    ["priority", "gang", "predicates", "nodeorder", "network-topology-aware"];

pub(crate) fn hyper_node(name: &str, tier: u32, members: &[&str]) -> HyperNodeInfo {
    let of = |name: &&str| {
        let name = (*name).into();
        if members[0].starts_with('n') {
            HyperNodeMember::Node(name)
        } else {
            HyperNodeMember::HyperNode(name)
        }
    };
    HyperNodeInfo {
        name: name.into(),
        uid: format!("uid-{name}").into(),
        tier,
        tier_name: Some(format!("t{tier}").into()),
        members: members.iter().map(of).collect(),
        invalid: None,
    }
}

/// Eight nodes of eight cores: two in each of s0 to s3, these two and two in s4 and s5, all in s6.
pub(crate) fn three_tiers() -> TestCluster {
    three_tiers_of(one_tier(&["enqueue", "allocate", "preempt"], &PLUGINS))
}

pub(crate) fn three_tiers_of(conf: Conf) -> TestCluster {
    let mut test = TestCluster::with(conf);
    for at in 0..8 {
        test.add(node(&format!("n{at}"), "cpu=8"));
    }
    for (name, tier, members) in [
        ("s0", 1, ["n0", "n1"]),
        ("s1", 1, ["n2", "n3"]),
        ("s2", 1, ["n4", "n5"]),
        ("s3", 1, ["n6", "n7"]),
        ("s4", 2, ["s0", "s1"]),
        ("s5", 2, ["s2", "s3"]),
        ("s6", 3, ["s4", "s5"]),
    ] {
        test.add(hyper_node(name, tier, &members));
    }
    test
}

/// Jobs go on without the member.
#[test]
fn a_member_that_is_left_out_is_told_once() {
    let mut test = three_tiers();
    test.add(hyper_node("s7", 4, &["s6", "none"]));
    let told = |cycle: &Cycle| {
        let told = cycle.decisions.iter().filter_map(|decision| match decision {
            Decision::HyperNodeInvalid { hyper_node, uid, message } => {
                Some(format!("{hyper_node} {uid} {message}"))
            }
            _ => None,
        });
        told.collect::<Vec<String>>()
    };
    assert_eq!(told(&test.cycle()), ["s7 uid-s7 member HyperNode none is left out: it does not exist"]);
    test.add(node("n8", "cpu=8"));
    assert_eq!(told(&test.cycle()), [""; 0]);
}

pub(crate) fn hard(tier: u32) -> NetworkTopology {
    NetworkTopology::Hard(TierLimit::Number(tier))
}

/// Has pods of so many cores run on nodes.
pub(crate) fn fill(test: &mut TestCluster, used: &[(u32, u32)]) {
    for (at, (node, cpu)) in used.iter().enumerate() {
        let pod = running(member("other", at as u32, &format!("cpu={cpu}")), &format!("n{node}"));
        test.add(pod);
    }
    test.add(group("other", 0));
}

fn nodes_of(cycle: &Cycle) -> Vec<String> {
    let mut nodes: Vec<String> = cycle.bound.values().cloned().collect();
    nodes.sort();
    nodes
}

#[test]
fn a_gang_gets_the_lowest_tier_that_fits_and_there_the_tightest_hyper_node() {
    let soft = Some(NetworkTopology::Soft);
    // used cores by node, topology, pods, cores each => nodes
    for (used, topology, pods, cpu, expected) in [
        (vec![(2, 1), (3, 1)], Some(hard(1)), 4, 3, "n2 n2 n3 n3"),
        (vec![(0, 7), (2, 7), (4, 1)], Some(hard(1)), 4, 3, "n4 n4 n5 n5"),
        // No two of tier 1, so tier 2; s5 is fuller.
        (vec![(0, 8), (2, 8), (4, 8), (6, 8), (5, 1)], Some(hard(2)), 4, 3, "n5 n5 n7 n7"),
        (vec![(0, 8), (2, 8), (4, 8), (6, 8)], Some(hard(1)), 4, 3, ""),
        (vec![(0, 8), (2, 8), (4, 8), (6, 8)], soft.clone(), 4, 3, "n1 n1 n3 n3"),
        (vec![], soft.clone(), 16, 4, "n0 n0 n1 n1 n2 n2 n3 n3 n4 n4 n5 n5 n6 n6 n7 n7"),
        (vec![], Some(hard(2)), 16, 4, ""),
        (vec![], Some(hard(2)), 8, 4, "n0 n0 n1 n1 n2 n2 n3 n3"),
        (vec![], soft, 2, 4, "n0 n1"),
    ] {
        let mut test = three_tiers();
        fill(&mut test, &used);
        let case = format!("{used:?} {topology:?} {pods} of {cpu}");
        test.gang(PodGroupInfo { topology, ..group("g", pods) }, pods, &format!("cpu={cpu}"));
        let cycle = test.cycle();
        let nodes = nodes_of(&cycle);
        if expected == "n0 n1" {
            assert_eq!(nodes.len(), 2, "{case}");
            assert!(nodes.iter().all(|node| node == "n0" || node == "n1"), "{case}: {nodes:?}");
        } else {
            assert_eq!(nodes.join(" "), expected, "{case}: {:?}", test.reasons("g"));
        }
    }
}

#[test]
fn the_reason_names_the_hyper_node_with_the_most_room() {
    let mut test = three_tiers();
    fill(&mut test, &[(0, 8), (2, 8), (4, 8), (6, 5)]);
    test.gang(PodGroupInfo { topology: Some(hard(1)), ..group("g", 4) }, 4, "cpu=3");
    test.cycle();
    assert_eq!(
        test.reasons("g")[0],
        "networkTopology: no HyperNode has room for 4 pod(s): HyperNode s3 has room for 3, lacks cpu 3"
    );
}

#[test]
fn of_hyper_nodes_with_equal_room_the_reason_names_the_one_that_lacks_the_least() {
    let mut test = three_tiers();
    fill(&mut test, &[(0, 8), (1, 7), (2, 8), (3, 7), (4, 5), (5, 7), (6, 8), (7, 8)]);
    test.gang(PodGroupInfo { topology: Some(hard(1)), ..group("g", 2) }, 2, "cpu=4");
    test.cycle();
    assert_eq!(
        test.reasons("g")[0],
        "networkTopology: no HyperNode has room for 2 pod(s): HyperNode s2 has room for 0, lacks cpu 4"
    );
}

#[test]
fn the_reason_names_only_resources_that_are_short() {
    // Pods of one core and one GPU on nodes with two free GPUs: cores are short once a node would hold nine.
    for (pods, reason) in [
        (8, "HyperNode s has room for 4, lacks nvidia.com/gpu 4"),
        (18, "HyperNode s has room for 4, lacks cpu 2, nvidia.com/gpu 14"),
    ] {
        let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &PLUGINS));
        for name in ["n0", "n1"] {
            test.add(node(name, "cpu=8 nvidia.com/gpu=2"));
        }
        test.add(hyper_node("s", 1, &["n0", "n1"]));
        let topology = Some(hard(1));
        test.gang(PodGroupInfo { topology, ..group("g", pods) }, pods, "cpu=1 nvidia.com/gpu=1");
        test.cycle();
        assert!(test.reasons("g")[0].ends_with(reason), "{:?}", test.reasons("g"));
    }
}

#[test]
fn the_reason_says_that_node_filters_refuse_the_pods_of_a_hyper_node() {
    let mut test = three_tiers();
    let ssd = Constraints { node_selector: vec![("disk".into(), "ssd".into())], ..Constraints::default() };
    test.add(PodGroupInfo { topology: Some(hard(1)), ..group("g", 1) });
    test.add(PodInfo { constraints: Arc::new(ssd), ..member("g", 0, "cpu=1") });
    test.cycle();
    assert_eq!(
        test.reasons("g")[0],
        "networkTopology: no HyperNode has room for 1 pod(s): HyperNode s0 has room for 0, and node filters leave no \
         other node of it"
    );
}

#[test]
fn a_topology_that_cannot_be_met_is_said() {
    let named = |name: &str| Some(NetworkTopology::Hard(TierLimit::Name(name.into())));
    for (topology, reason) in [
        (Some(hard(0)), Some("networkTopology: no HyperNode has tier 0 or a lower one")),
        (named("t9"), Some("networkTopology: no HyperNode has tierName t9, expected one such as t1, t2, t3")),
        (named("t1"), None),
    ] {
        let mut test = three_tiers();
        test.gang(PodGroupInfo { topology, ..group("g", 1) }, 1, "cpu=1");
        test.cycle();
        assert_eq!(test.reasons("g").first().map(String::as_str), reason);
    }
    let mut test = TestCluster::new();
    test.add(node("n0", "cpu=8"));
    test.gang(PodGroupInfo { topology: Some(hard(1)), ..group("g", 1) }, 1, "cpu=1");
    test.cycle();
    assert_eq!(
        test.reasons("g"),
        [
            "networkTopology of mode hard needs plugin network-topology-aware in scheduler.conf, with its enabledHyperNodeGradient"
        ]
    );
}

/// Two trees: a, of tier 1, and b, of tier 3 with racks of tier 1 in rows of tier 2. Both roots are blocks.
fn two_trees() -> TestCluster {
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate"], &PLUGINS));
    for at in 0..6 {
        test.add(node(&format!("n{at}"), "cpu=8"));
    }
    for (name, tier, tier_name, members) in [
        ("a", 1, "block", &["n0", "n1"][..]),
        ("r0", 1, "rack", &["n2", "n3"]),
        ("r1", 1, "rack", &["n4", "n5"]),
        ("row", 2, "row", &["r0", "r1"]),
        ("b", 3, "block", &["row"]),
    ] {
        test.add(HyperNodeInfo { tier_name: Some(tier_name.into()), ..hyper_node(name, tier, members) });
    }
    test
}

#[test]
fn a_tier_name_may_be_another_tier_in_another_tree() {
    // tierName, pods of six cores => nodes
    for (name, pods, expected) in [
        ("block", 4, "n2 n3 n4 n5"),
        ("block", 2, "n0 n1"),
        ("row", 2, "n2 n3"),
        ("block", 6, ""),
        ("rack", 3, ""),
    ] {
        let mut test = two_trees();
        let topology = Some(NetworkTopology::Hard(TierLimit::Name(name.into())));
        test.gang(PodGroupInfo { topology, ..group("g", pods) }, pods, "cpu=6");
        let nodes = nodes_of(&test.cycle());
        assert_eq!(nodes.join(" "), expected, "{name} {pods}: {:?}", test.reasons("g"));
    }
}

#[test]
fn a_pod_that_is_created_again_goes_back_to_its_hyper_node() {
    let mut test = three_tiers();
    fill(&mut test, &[(4, 1)]);
    test.gang(PodGroupInfo { topology: Some(hard(1)), ..group("g", 2) }, 2, "cpu=6");
    let first = nodes_of(&test.cycle());
    assert_eq!(first, ["n4", "n5"]);
    test.gone("g-0");
    test.add(member("g", 2, "cpu=6"));
    let second = test.cycle();
    assert!(["n4", "n5"].contains(&&*second.bound["g-2"]), "{:?}", second.bound);
}

/// The pods that are evicted for a gang of two with this topology, of which those with these numbers may be.
fn evicted_on(racks: u32, topology: NetworkTopology, victims: &[u32]) -> Vec<String> {
    let mut evicted = full_racks(racks, topology, victims).cycle().evicted;
    evicted.sort();
    evicted
}

/// Racks of two nodes, each with a pod that fills it, and a gang of two of higher priority.
fn full_racks(racks: u32, topology: NetworkTopology, victims: &[u32]) -> TestCluster {
    let mut test = TestCluster::with(one_tier(&["allocate", "gangpreempt"], &PLUGINS));
    for at in 0..2 * racks {
        test.add(node(&format!("n{at}"), "cpu=8"));
    }
    for rack in 0..racks {
        let nodes = [format!("n{}", 2 * rack), format!("n{}", 2 * rack + 1)];
        test.add(hyper_node(&format!("r{rack:02}"), 1, &nodes.each_ref().map(String::as_str)));
    }
    let names: Vec<String> = (0..racks).map(|rack| format!("r{rack:02}")).collect();
    test.add(hyper_node("spine", 2, &names.iter().map(String::as_str).collect::<Vec<_>>()));
    for at in 0..2 * racks {
        let (name, may_go) = (format!("v{at}"), victims.contains(&at));
        test.add(PodGroupInfo { preemptable: Some(may_go), ..group(&name, 1) });
        test.add(running(member(&name, 0, "cpu=8"), &format!("n{at}")));
    }
    test.add(Event::PriorityClass { name: "high".into(), value: 10, global_default: false });
    let priority_class = Some("high".into());
    test.add(PodGroupInfo { topology: Some(topology), priority_class, ..group("g", 2) });
    for at in 0..2 {
        test.add(PodInfo { priority: Some(10), ..member("g", at, "cpu=8") });
    }
    test
}

#[test]
fn a_gang_for_which_no_hyper_node_can_be_freed_is_told_what_protects_the_pods() {
    let mut test = full_racks(4, hard(1), &[]);
    test.cycle();
    let reasons = test.reasons("g").join("; ");
    assert!(reasons.contains("there is no pod that may be evicted for it"), "{reasons}");
}

#[test]
fn victims_are_found_in_the_last_of_many_hyper_nodes() {
    assert_eq!(evicted_on(12, hard(1), &[18, 19]), ["v18-0", "v19-0"]);
    assert_eq!(evicted_on(12, hard(2), &[3, 18]), ["v18-0", "v3-0"], "no rack is enough");
    assert_eq!(evicted_on(12, hard(1), &[3, 18]), [""; 0], "no rack is enough, and no more is allowed");
}

#[test]
fn victims_for_a_soft_topology_are_in_one_hyper_node_where_that_is_enough() {
    assert_eq!(evicted_on(4, NetworkTopology::Soft, &[1, 2, 4, 5]), ["v4-0", "v5-0"]);
    assert_eq!(evicted_on(4, NetworkTopology::Soft, &[1, 2, 4]).len(), 2, "in two racks");
}

/// Ranks 0 to 3 in one HyperNode and 4 to 7 in another, in whatever order the pods are created.
#[test]
fn neighbouring_ranks_are_near_to_each_other() {
    for (step, topology) in
        [(1, hard(2)), (3, hard(2)), (5, NetworkTopology::Soft), (7, NetworkTopology::Soft)]
    {
        let mut test = three_tiers();
        test.add(PodGroupInfo { topology: Some(topology), ..group("g", 8) });
        for at in 0..8 {
            test.add(PodInfo { created: Time(i64::from(at)), ..member("g", at * step % 8, "cpu=4") });
        }
        let cycle = test.cycle();
        assert_eq!(cycle.bound.len(), 8, "{:?}", test.reasons("g"));
        let leaf = |rank: u32| cycle.bound[&format!("g-{rank}")][1..].parse::<u32>().map(|node| node / 2);
        let leaves: Vec<_> = (0..8).map(leaf).collect();
        let changes = leaves.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!(changes, 1, "{leaves:?}");
    }
}

pub(crate) fn policy(size: u32, min: u32, topology: Option<NetworkTopology>) -> SubGroupPolicy {
    SubGroupPolicy {
        name: "p".into(),
        keys: vec!["part".into()],
        size,
        min,
        topology,
        ..SubGroupPolicy::default()
    }
}

pub(crate) fn part(name: &str, index: u32, part: u32, requests: &str) -> PodInfo {
    let labels = [("part".into(), Arc::from(part.to_string()))].into_iter().collect();
    PodInfo { labels, ..member(name, index, requests) }
}

#[test]
fn sub_groups_are_placed_whole_and_each_in_a_hyper_node_of_its_own_topology() {
    let mut test = three_tiers();
    // Room for three pods in s0 and s1 each, and for none elsewhere.
    fill(&mut test, &[(0, 3), (2, 3), (4, 6), (5, 6), (6, 6), (7, 6)]);
    let sub_groups = vec![policy(2, 2, Some(hard(1)))];
    test.add(PodGroupInfo { topology: Some(hard(2)), sub_groups, ..group("g", 4) });
    for at in 0..4 {
        test.add(part("g", at, at / 2, "cpu=3"));
    }
    let cycle = test.cycle();
    assert_eq!(cycle.bound.len(), 4, "{:?}", test.reasons("g"));
    let leaf = |pod: &str| {
        let node = cycle.bound[pod].clone();
        if ["n0", "n1"].contains(&&*node) { "s0" } else { "s1" }
    };
    assert_eq!(leaf("g-0"), leaf("g-1"));
    assert_eq!(leaf("g-2"), leaf("g-3"));
    assert_ne!(leaf("g-0"), leaf("g-2"), "a hyperNode has room for three");
}

#[test]
fn a_gang_starts_with_min_sub_groups_and_grows_by_whole_sub_groups() {
    let mut test = three_tiers();
    fill(&mut test, &[(2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 6)]);
    // s0 has room for four pods of four cores, s3 for none.
    let sub_groups = vec![policy(2, 1, Some(hard(1)))];
    test.add(PodGroupInfo { sub_groups, ..group("g", 2) });
    for at in 0..6 {
        test.add(part("g", at, at / 2, "cpu=4"));
    }
    assert_eq!(test.cycle().bound.len(), 4);
    let mut test = three_tiers();
    fill(&mut test, &[(0, 2), (2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8)]);
    test.add(PodGroupInfo { sub_groups: vec![policy(2, 1, Some(hard(1)))], ..group("g", 2) });
    for at in 0..6 {
        test.add(part("g", at, at / 2, "cpu=4"));
    }
    assert_eq!(test.cycle().bound.len(), 2, "room for three pods is room for one sub-group");
}

#[test]
fn pods_beyond_the_size_of_a_sub_group_go_where_it_is() {
    let mut test = three_tiers();
    test.add(PodGroupInfo { sub_groups: vec![policy(2, 2, Some(hard(1)))], ..group("g", 6) });
    for at in 0..6 {
        test.add(part("g", at, at / 3, "cpu=4"));
    }
    let cycle = test.cycle();
    assert_eq!(cycle.bound.len(), 6, "{:?}", test.reasons("g"));
    gangs_are_near(&test.cluster, &cycle).unwrap();
}

#[test]
fn pods_of_a_sub_group_that_have_ended_count_as_placed() {
    let mut test = three_tiers();
    test.add(PodGroupInfo { sub_groups: vec![policy(3, 1, Some(hard(1)))], ..group("g", 3) });
    for at in 0..2 {
        let mut done = running(part("g", at, 0, "cpu=4"), "n0");
        done.life.phase = PodPhase::Succeeded;
        test.add(done);
    }
    test.add(part("g", 2, 0, "cpu=4"));
    assert_eq!(test.cycle().bound.len(), 1, "{:?}", test.reasons("g"));
}

#[test]
fn sub_groups_without_a_topology_are_spread_like_other_pods() {
    let mut test = three_tiers();
    test.add(PodGroupInfo { sub_groups: vec![policy(2, 4, None)], ..group("g", 8) });
    for at in 0..8 {
        test.add(part("g", at, at / 2, "cpu=1"));
    }
    let mut nodes = nodes_of(&test.cycle());
    nodes.dedup();
    assert_eq!(nodes.len(), 8);
}

#[test]
fn victims_are_evicted_in_one_hyper_node() {
    let mut test = three_tiers();
    for at in 0..8 {
        let mut pod = running(member("low", at, "cpu=6"), &format!("n{at}"));
        pod.priority = Some(0);
        test.add(pod);
    }
    test.add(group("low", 0));
    test.add(Event::PriorityClass { name: "high".into(), value: 10, global_default: false });
    let gang = PodGroupInfo { topology: Some(hard(1)), priority_class: Some("high".into()), ..group("g", 2) };
    test.add(gang);
    for at in 0..2 {
        let mut pod = member("g", at, "cpu=6");
        pod.priority = Some(10);
        test.add(pod);
    }
    let cycle = test.cycle();
    let mut evicted = cycle.evicted.clone();
    evicted.sort();
    assert_eq!(evicted, ["low-0", "low-1"], "{:?}", test.reasons("g"));
}

/// A cluster of nodes n0 to n7 with HyperNodes as in `three_tiers`, and gangs one after the other.
#[derive(Clone, Debug)]
struct Play {
    /// Cores of each node that other pods use, of eight.
    used: Vec<u32>,
    gangs: Vec<RandomGang>,
}

#[derive(Clone, Debug)]
struct RandomGang {
    pods: u32,
    cpu: u32,
    /// 0 to 3: hard with this tier; 4: soft; 5: none.
    topology: u32,
    /// The same of its sub-groups.
    of_sub_groups: u32,
    /// Pods of a sub-group; 0 for none.
    size: u32,
    priority: i32,
    /// A pod that ends before the next gang comes.
    ends: Option<u32>,
}

fn topology(number: u32) -> Option<NetworkTopology> {
    match number {
        0..=3 => Some(hard(number)),
        4 => Some(NetworkTopology::Soft),
        _ => None,
    }
}

fn random_gang() -> impl Strategy<Value = RandomGang> {
    let topologies = (1u32..6, 1u32..6, 0u32..4);
    (1u32..9, 1u32..9, topologies, 0i32..3, prop::option::of(0u32..8)).prop_map(
        |(pods, cpu, (topology, of_sub_groups, size), priority, ends)| RandomGang {
            pods,
            cpu,
            topology,
            of_sub_groups,
            size,
            priority,
            ends,
        },
    )
}

fn play() -> impl Strategy<Value = Play> {
    (prop::collection::vec(0u32..9, 8), prop::collection::vec(random_gang(), 1..6))
        .prop_map(|(used, gangs)| Play { used, gangs })
}

impl Play {
    fn test(&self, conf: Conf) -> TestCluster {
        let mut test = three_tiers_of(conf);
        for (node, cpu) in self.used.iter().enumerate().filter(|(_, cpu)| **cpu > 0) {
            test.add(running(member("other", node as u32, &format!("cpu={cpu}")), &format!("n{node}")));
        }
        test.add(group("other", 0));
        test
    }
}

impl RandomGang {
    fn add(&self, test: &mut TestCluster, name: &str) {
        let class = format!("class-{}", self.priority);
        test.add(Event::PriorityClass {
            name: class.as_str().into(),
            value: self.priority,
            global_default: false,
        });
        let sub_groups = (self.size > 0).then(|| policy(self.size, 1, topology(self.of_sub_groups)));
        test.add(PodGroupInfo {
            topology: topology(self.topology),
            sub_groups: sub_groups.into_iter().collect(),
            priority_class: Some(class.as_str().into()),
            ..group(name, self.pods)
        });
        for at in 0..self.pods {
            let pod = part(name, at, at / self.size.max(1), &format!("cpu={}", self.cpu));
            test.add(PodInfo { priority: Some(self.priority), ..pod });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(300)))]

    #[test]
    fn gangs_are_whole_and_near_whatever_happens(play in play(), evicts: bool, starve: bool, slow: bool) {
        let actions = ["enqueue", "allocate", "preempt"];
        let mut conf = one_tier(&actions[..2 + usize::from(evicts)], &PLUGINS);
        // Gangs that run grow by evictions too.
        set_flag(&mut conf, "gang", Flag::JobStarving, !starve);
        let mut test = play.test(conf);
        let mut evicted: Vec<String> = Vec::new();
        for (at, gang) in play.gangs.iter().enumerate() {
            let name = format!("g{at}");
            gang.add(&mut test, &name);
            for _ in 0..2 {
                let before = test.cluster.clone();
                let cycle = test.cycle();
                no_node_is_overfull(&before, &test.cluster)?;
                gangs_are_whole(&test.cluster, &cycle)?;
                gangs_are_near(&test.cluster, &cycle)?;
                sub_groups_are_whole(&test.cluster, &cycle)?;
                prop_assert_eq!(test.cluster.check(), Vec::<String>::new());
                for (pod, node) in &cycle.bound {
                    test.start(pod, node);
                }
                evicted.extend(cycle.evicted);
                let gone = if slow { 1.min(evicted.len()) } else { evicted.len() };
                for pod in evicted.drain(..gone) {
                    test.gone(&pod);
                }
            }
            if let Some(pod) = gang.ends.map(|pod| format!("{name}-{pod}")).filter(|pod| test.pod_names().contains(pod) && !evicted.contains(pod)) {
                test.gone(&pod);
            }
        }
    }
}
