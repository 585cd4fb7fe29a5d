//! Admission: which jobs become Inqueue, and the reasons of the other jobs.
use phalanx_cluster::event::{Phase, PodGroupInfo, QueueInfo, Time};

use phalanx_framework::testing::{group, member, queue, resources};
use phalanx_testkit::{TestCluster, one_tier};

fn asking(name: &str, min_resources: &str, created: i64) -> PodGroupInfo {
    let min_resources = Some(resources(min_resources));
    PodGroupInfo { min_resources, created: Time(created), ..group(name, 1) }
}

#[test]
fn jobs_are_admitted_up_to_the_cluster_times_the_factor() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=10");
    for (at, (name, request)) in
        [("a", "cpu=6"), ("b", "cpu=5"), ("c", "cpu=2"), ("d", "cpu=1")].iter().enumerate()
    {
        test.add(asking(name, request, at as i64));
    }
    // 12 in all: c would be the 13th, d fits again.
    test.add(QueueInfo { weight: 1, ..queue("default", 1) });
    test.cycle();
    let phases = ["a", "b", "c", "d"].map(|name| test.phase(name));
    assert_eq!(phases, [Phase::Inqueue, Phase::Pending, Phase::Inqueue, Phase::Inqueue]);
}

#[test]
fn the_reason_of_a_job_larger_than_the_cluster_names_what_is_missing() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=10").add(asking("g", "cpu=14 nvidia.com/gpu=1", 0));
    test.add(member("g", 0, "cpu=14"));
    assert!(test.cycle().bound.is_empty());
    assert_eq!(test.phase("g"), Phase::Pending);
    let expected = "resource in cluster is overused: insufficient cpu (2 more), nvidia.com/gpu (1 more) (plugin overcommit)";
    assert_eq!(test.reasons("g"), [expected]);
    test.nodes(2, "cpu=14 nvidia.com/gpu=8");
    assert_eq!(test.cycle().bound.len(), 1);
}

#[test]
fn the_reason_of_a_job_larger_than_its_queue_names_the_capability() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=10").add(QueueInfo { capability: resources("cpu=4"), ..queue("q", 1) });
    test.add(PodGroupInfo { queue: "q".into(), ..asking("g", "cpu=5", 0) });
    test.add(PodGroupInfo { queue: "q".into(), ..asking("h", "cpu=4", 1) });
    test.cycle();
    let expected = "resource quota of queue q insufficient: insufficient cpu (1 more) (plugin proportion)";
    assert_eq!(test.reasons("g"), [expected]);
    assert_eq!(test.phase("h"), Phase::Inqueue, "a refused job does not delay others");
}

#[test]
fn a_job_without_min_resources_is_always_admitted() {
    let mut test = TestCluster::new();
    test.gang(group("g", 1), 1, "cpu=99");
    test.cycle();
    assert_eq!(test.phase("g"), Phase::Inqueue);
}

#[test]
fn a_group_that_falls_back_to_pending_is_admitted_in_a_cycle_of_its_own() {
    for actions in [&["allocate"][..], &["enqueue", "allocate"]] {
        let mut test = TestCluster::with(one_tier(actions, &["priority", "gang", "predicates"]));
        test.nodes(1, "cpu=4").gang(group("g", 1), 1, "cpu=1");
        let node = test.cycle().bound["g-0"].clone();
        test.start("g-0", &node);
        test.cycle();
        assert_eq!(test.phase("g"), Phase::Running);
        test.gone("g-0");
        let outcome = test.outcome();
        assert_eq!(test.phase("g"), Phase::Pending, "{actions:?}");
        assert_eq!(outcome.wake, Some(test.now()), "nothing else has to happen: {actions:?}");
        test.cycle();
        assert_eq!(test.phase("g"), Phase::Inqueue, "{actions:?}");
    }
}
