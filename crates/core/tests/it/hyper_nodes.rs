//! Gangs with a network topology are placed in one HyperNode, sub-groups whole.
use std::sync::Arc;

use phalanx_cluster::event::{
    HyperNodeInfo, HyperNodeMember, NetworkTopology, PodGroupInfo, SubGroupPolicy, TierLimit,
};
use phalanx_framework::testing::{group, member, node, running};
use phalanx_testkit::{Cycle, TestCluster, one_tier};

const PLUGINS: [&str; 5] = ["priority", "gang", "predicates", "nodeorder", "network-topology-aware"];

fn hyper_node(name: &str, tier: u32, members: &[&str]) -> HyperNodeInfo {
    let of = |name: &&str| match name.starts_with('n') {
        true => HyperNodeMember::Node((*name).into()),
        false => HyperNodeMember::HyperNode((*name).into()),
    };
    HyperNodeInfo {
        name: name.into(),
        tier,
        tier_name: Some(format!("t{tier}").into()),
        members: members.iter().map(of).collect(),
        invalid: None,
    }
}

/// Eight nodes of eight cores: two in each of s0 to s3, these two and two in s4 and s5, all in s6.
fn three_tiers() -> TestCluster {
    let mut test = TestCluster::with(one_tier(&["enqueue", "allocate", "preempt"], &PLUGINS));
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

fn hard(tier: u32) -> Option<NetworkTopology> {
    Some(NetworkTopology::Hard(TierLimit::Number(tier)))
}

/// Has pods of so many cores run on nodes.
fn fill(test: &mut TestCluster, used: &[(u32, u32)]) {
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
        (vec![(2, 1), (3, 1)], hard(1), 4, 3, "n2 n2 n3 n3"),
        (vec![(0, 7), (2, 7), (4, 1)], hard(1), 4, 3, "n4 n4 n5 n5"),
        // No two of tier 1, so tier 2; s5 is fuller.
        (vec![(0, 8), (2, 8), (4, 8), (6, 8), (5, 1)], hard(2), 4, 3, "n5 n5 n7 n7"),
        (vec![(0, 8), (2, 8), (4, 8), (6, 8)], hard(1), 4, 3, ""),
        (vec![(0, 8), (2, 8), (4, 8), (6, 8)], soft.clone(), 4, 3, "n1 n1 n3 n3"),
        (vec![], soft.clone(), 16, 4, "n0 n0 n1 n1 n2 n2 n3 n3 n4 n4 n5 n5 n6 n6 n7 n7"),
        (vec![], hard(2), 16, 4, ""),
        (vec![], hard(2), 8, 4, "n0 n0 n1 n1 n2 n2 n3 n3"),
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
    test.gang(PodGroupInfo { topology: hard(1), ..group("g", 4) }, 4, "cpu=3");
    test.cycle();
    assert_eq!(
        test.reasons("g")[0],
        "networkTopology: no HyperNode has room for 4 pod(s): HyperNode s3 has room for 3"
    );
}

#[test]
fn a_topology_that_cannot_be_met_is_said() {
    let named = |name: &str| Some(NetworkTopology::Hard(TierLimit::Name(name.into())));
    for (topology, reason) in [
        (hard(0), Some("networkTopology: no HyperNode has tier 0 or a lower one")),
        (named("t9"), Some("networkTopology: no HyperNode has tierName t9")),
        (named("t1"), None),
    ] {
        let mut test = three_tiers();
        test.gang(PodGroupInfo { topology, ..group("g", 1) }, 1, "cpu=1");
        test.cycle();
        assert_eq!(test.reasons("g").first().map(String::as_str), reason);
    }
    let mut test = TestCluster::new();
    test.add(node("n0", "cpu=8"));
    test.gang(PodGroupInfo { topology: hard(1), ..group("g", 1) }, 1, "cpu=1");
    test.cycle();
    assert_eq!(
        test.reasons("g"),
        ["networkTopology of mode hard needs plugin network-topology-aware in scheduler.conf"]
    );
}

#[test]
fn a_pod_that_is_created_again_goes_back_to_its_hyper_node() {
    let mut test = three_tiers();
    fill(&mut test, &[(4, 1)]);
    test.gang(PodGroupInfo { topology: hard(1), ..group("g", 2) }, 2, "cpu=6");
    let first = nodes_of(&test.cycle());
    assert_eq!(first, ["n4", "n5"]);
    test.gone("g-0");
    test.add(member("g", 2, "cpu=6"));
    assert_eq!(nodes_of(&test.cycle()).len(), 1);
    let node = test.pod("g-2").life.node.clone();
    assert!(node.is_none() || node.as_deref() == Some("n4") || node.as_deref() == Some("n5"), "{node:?}");
}

fn policy(size: u32, min: u32, topology: Option<NetworkTopology>) -> SubGroupPolicy {
    SubGroupPolicy {
        name: "p".into(),
        keys: vec!["part".into()],
        size,
        min,
        topology,
        ..SubGroupPolicy::default()
    }
}

fn part(name: &str, index: u32, part: u32, requests: &str) -> phalanx_cluster::event::PodInfo {
    let labels = [("part".into(), Arc::from(part.to_string()))].into_iter().collect();
    phalanx_cluster::event::PodInfo { labels, ..member(name, index, requests) }
}

#[test]
fn sub_groups_are_placed_whole_and_each_in_a_hyper_node_of_its_own_topology() {
    let mut test = three_tiers();
    // Room for three pods in s0 and s1 each, and for none elsewhere.
    fill(&mut test, &[(0, 3), (2, 3), (4, 6), (5, 6), (6, 6), (7, 6)]);
    let sub_groups = vec![policy(2, 2, hard(1))];
    test.add(PodGroupInfo { topology: hard(2), sub_groups, ..group("g", 4) });
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
    let sub_groups = vec![policy(2, 1, hard(1))];
    test.add(PodGroupInfo { sub_groups, ..group("g", 2) });
    for at in 0..6 {
        test.add(part("g", at, at / 2, "cpu=4"));
    }
    assert_eq!(test.cycle().bound.len(), 4);
    let mut test = three_tiers();
    fill(&mut test, &[(0, 2), (2, 8), (3, 8), (4, 8), (5, 8), (6, 8), (7, 8)]);
    test.add(PodGroupInfo { sub_groups: vec![policy(2, 1, hard(1))], ..group("g", 2) });
    for at in 0..6 {
        test.add(part("g", at, at / 2, "cpu=4"));
    }
    assert_eq!(test.cycle().bound.len(), 2, "room for three pods is room for one sub-group");
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
    test.add(phalanx_cluster::event::Event::PriorityClass {
        name: "high".into(),
        value: 10,
        global_default: false,
    });
    let gang = PodGroupInfo { topology: hard(1), priority_class: Some("high".into()), ..group("g", 2) };
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
