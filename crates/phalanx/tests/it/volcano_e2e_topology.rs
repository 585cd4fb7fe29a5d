//! The cases of Volcano's end-to-end tests on network topology (`test/e2e/hypernode`, commit ed72c7c8), by their
//! numbers there: three tiers over eight nodes, pods that take room, and one Job. Left out: 1.3, 2.2, 5.6 and 7.2, which
//! expect pods to be pending and look once, when they are created; 2.1, where two nodes are equally good; and 2.3, 5.3
//! and 9.5, where a pod is deleted, which are scenarios.
use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::run::{folder, phalanx_in};

/// The configuration of these tests.
const CONF: &str = "actions: 'enqueue, allocate, backfill, reclaim, preempt'
tiers:
- plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}, {name: sla}]
- plugins: [{name: overcommit}, {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion},
    {name: nodeorder}, {name: binpack}, {name: network-topology-aware}]
";
const NODES: usize = 8;
/// HyperNodes of tier 1, and above: members, and tier.
const HYPER_NODES: [(&str, &str, [&str; 2], u32); 7] = [
    ("s0", "Node", ["n0", "n1"], 1),
    ("s1", "Node", ["n2", "n3"], 1),
    ("s2", "Node", ["n4", "n5"], 1),
    ("s3", "Node", ["n6", "n7"], 1),
    ("s4", "HyperNode", ["s0", "s1"], 2),
    ("s5", "HyperNode", ["s2", "s3"], 2),
    ("s6", "HyperNode", ["s4", "s5"], 3),
];
const TIER_1: &str = "networkTopology: {mode: hard, highestTierAllowed: 1}";
const TIER_2: &str = "networkTopology: {mode: hard, highestTierAllowed: 2}";
const SOFT: &str = "networkTopology: {mode: soft}";
const ANY: &str = "";

/// What the Job asks for.
struct Ask {
    topology: &'static str,
    pods: usize,
    cpu: u32,
    min_available: usize,
    partitions: Option<Partitions>,
}

#[derive(Clone, Copy)]
struct Partitions {
    total: usize,
    min: Option<usize>,
    topology: &'static str,
}

/// How many of its pods are placed on these nodes together; none beside.
type Placed = &'static [(&'static [usize], usize)];

/// All pods start together or not at all.
fn whole(topology: &'static str, pods: usize, cpu: u32) -> Ask {
    Ask { topology, pods, cpu, min_available: pods, partitions: None }
}

/// The same in partitions of equal size.
fn partitioned(topology: &'static str, pods: usize, cpu: u32, total: usize, of: &'static str) -> Ask {
    Ask { partitions: Some(Partitions { total, min: None, topology: of }), ..whole(topology, pods, cpu) }
}

/// Fewer pods, and fewer partitions of two pods in a HyperNode of tier 1, are enough to start.
fn minimum(topology: &'static str, pods: usize, cpu: u32, min_available: usize, min: usize) -> Ask {
    let partitions = Partitions { total: pods / 2, min: Some(min), topology: TIER_1 };
    Ask { topology, pods, cpu, min_available, partitions: Some(partitions) }
}

/// Other pods take a little CPU on the nodes, as the agents of that cluster do.
fn cluster(taken: &[(usize, u32)]) -> String {
    let mut text = String::new();
    for node in 0..NODES {
        let allocatable = "allocatable: {cpu: 7900m, memory: 64Gi, pods: 110}";
        write!(
            text,
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: n{node}}}\nstatus: {{{allocatable}}}\n"
        )
        .unwrap();
    }
    for (name, kind, members, tier) in HYPER_NODES {
        let members =
            members.map(|member| format!("{{type: {kind}, selector: {{exactMatch: {{name: {member}}}}}}}"));
        write!(
            text,
            "---\napiVersion: topology.volcano.sh/v1alpha1\nkind: HyperNode\nmetadata: {{name: {name}}}\n\
             spec: {{tier: {tier}, members: [{}]}}\n",
            members.join(", ")
        )
        .unwrap();
    }
    for (index, (node, cpu)) in taken.iter().enumerate() {
        write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: other-{index}}}\nspec: {{schedulerName: volcano, \
             nodeName: n{node}, containers: [{{name: main, resources: {{requests: {{cpu: {cpu}}}}}}}]}}\n\
             status: {{phase: Running}}\n"
        )
        .unwrap();
    }
    text
}

fn job(ask: &Ask) -> String {
    let partitions = ask.partitions.map_or(String::new(), |partitions| {
        let (total, size) = (partitions.total, ask.pods / partitions.total);
        let min = partitions.min.map_or(String::new(), |min| format!("minPartitions: {min}, "));
        let topology = partitions.topology;
        format!("partitionPolicy: {{{min}totalPartitions: {total}, partitionSize: {size}, {topology}}}, ")
    });
    let Ask { topology, pods, cpu, min_available, .. } = ask;
    let separator = if topology.is_empty() { "" } else { ", " };
    format!(
        "---\napiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {{name: train}}\n\
         spec: {{schedulerName: volcano, minAvailable: {min_available}{separator}{topology}, tasks: [{{name: w, \
         replicas: {pods}, {partitions}template: {{spec: {{containers: [{{name: main, image: train, \
         resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}]}}\n"
    )
}

/// Pods of the Job by node.
fn placed(taken: &[(usize, u32)], ask: &Ask) -> BTreeMap<usize, usize> {
    let folder = folder(&[("m.yaml", &(cluster(taken) + &job(ask))), ("scheduler.conf", CONF)]);
    let args = ["simulate", "-f", "m.yaml", "--scheduler-conf", "scheduler.conf", "-o", "json"];
    let mut nodes = BTreeMap::new();
    for node in phalanx_in(folder.path(), &args, "").json()["bindings"].as_object().unwrap().values() {
        let node = node.as_str().unwrap().trim_start_matches('n').parse().unwrap();
        *nodes.entry(node).or_default() += 1;
    }
    nodes
}

#[track_caller]
fn check(case: &str, taken: &[(usize, u32)], ask: &Ask, expected: Placed) {
    let placed = placed(taken, ask);
    let on = |nodes: &[usize]| nodes.iter().filter_map(|node| placed.get(node)).sum::<usize>();
    for (nodes, pods) in expected {
        assert_eq!(on(nodes), *pods, "case {case}: pods on {nodes:?} of {placed:?}");
    }
    let all: usize = expected.iter().map(|(_, pods)| pods).sum();
    assert_eq!(placed.values().sum::<usize>(), all, "case {case}: {placed:?}");
}

/// So much CPU is taken on each node.
fn everywhere(cpu: u32) -> [(usize, u32); NODES] {
    std::array::from_fn(|node| (node, cpu))
}

const N0_AND_N1: &[usize] = &[0, 1];
const N2_AND_N3: &[usize] = &[2, 3];
const N4_AND_N5: &[usize] = &[4, 5];
const N6_AND_N7: &[usize] = &[6, 7];
const WAITS: Placed = &[];

#[test]
fn a_hard_topology_is_kept_at_its_tier() {
    let fuller = [(2, 1), (3, 1)];
    check("1.1", &fuller, &whole(TIER_1, 2, 2), &[(N2_AND_N3, 2)]);
    check("1.2", &[(2, 4), (3, 4), (4, 1)], &whole(TIER_1, 2, 4), &[(N4_AND_N5, 2)]);
}

#[test]
fn a_soft_topology_takes_the_lowest_tier_that_has_room() {
    let taken = [(0, 6), (2, 6), (4, 6), (6, 6), (1, 4), (3, 4), (5, 5), (7, 4)];
    check("3.1", &taken, &whole(SOFT, 2, 2), &[(&[5, 7], 2)]);
}

#[test]
fn partitions_of_a_job_in_one_hyper_node_of_tier_1() {
    check("4.1", &[(2, 1), (3, 1)], &partitioned(TIER_1, 4, 2, 2, TIER_1), &[(N2_AND_N3, 4)]);
    check("4.2", &everywhere(6), &partitioned(TIER_1, 2, 4, 2, TIER_1), WAITS);
    let one_of_two = std::array::from_fn::<_, NODES, _>(|node| (node, if node % 2 == 0 { 6 } else { 2 }));
    check("4.3", &one_of_two, &partitioned(TIER_1, 2, 4, 2, TIER_1), WAITS);
}

#[test]
fn partitions_of_tier_1_of_a_job_of_tier_2() {
    check("5.1", &[(2, 1), (3, 1)], &partitioned(TIER_2, 4, 2, 2, TIER_1), &[(N2_AND_N3, 4)]);
    let room_for_three = [(0, 3), (2, 3), (4, 6), (5, 6), (6, 6), (7, 6)];
    let each = partitioned(TIER_2, 4, 3, 2, TIER_1);
    check("5.2", &room_for_three, &each, &[(N0_AND_N1, 2), (N2_AND_N3, 2)]);
    let first_is_full = [(0, 6), (1, 6), (2, 1), (3, 1)];
    check("5.4", &first_is_full, &partitioned(TIER_2, 4, 2, 2, TIER_1), &[(N2_AND_N3, 4)]);
    check("5.5", &everywhere(6), &partitioned(TIER_2, 2, 4, 2, TIER_1), WAITS);
}

#[test]
fn soft_partitions_of_a_job_of_tier_2() {
    check("6.1", &[(2, 1), (3, 1)], &partitioned(TIER_2, 4, 2, 2, SOFT), &[(N2_AND_N3, 4)]);
    let fuller = [(0, 3), (1, 3), (2, 3), (3, 5), (4, 2), (6, 2)];
    check("6.2", &fuller, &partitioned(TIER_2, 4, 4, 2, SOFT), &[(&[4, 5, 6, 7], 4)]);
    let room_for_three = std::array::from_fn::<_, NODES, _>(|node| (node, if node % 4 == 0 { 6 } else { 2 }));
    check("6.3", &room_for_three, &partitioned(TIER_2, 4, 4, 2, SOFT), WAITS);
}

#[test]
fn partitions_of_tier_1_of_a_job_that_may_be_anywhere() {
    let far_apart = [(0, 4), (4, 4), (2, 6), (3, 6), (6, 6), (7, 6)];
    for (case, topology) in [("7.1", SOFT), ("8.1", ANY)] {
        let ask = partitioned(topology, 4, 3, 2, TIER_1);
        check(case, &far_apart, &ask, &[(N0_AND_N1, 2), (N4_AND_N5, 2)]);
    }
}

#[test]
fn fewer_partitions_and_pods_are_enough_to_start() {
    let fuller = [(2, 1), (3, 1)];
    check("9.1", &fuller, &minimum(TIER_1, 4, 3, 4, 2), &[(N2_AND_N3, 4)]);
    check("9.2", &fuller, &minimum(TIER_2, 8, 3, 4, 4), &[(N0_AND_N1, 4), (N2_AND_N3, 4)]);
    check("9.3", &[], &minimum(TIER_1, 12, 3, 6, 2), WAITS);
    check("9.4", &[], &minimum(TIER_1, 12, 3, 4, 4), WAITS);
    // Volcano's case asks for no nodes: of equal room, the fuller HyperNode.
    check("9.6", &[(6, 1), (7, 1)], &minimum(TIER_1, 8, 3, 4, 2), &[(N6_AND_N7, 4)]);
}
