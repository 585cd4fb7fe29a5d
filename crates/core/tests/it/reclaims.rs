//! reclaim and preempt for gangs whose members request different resources: each member counts, not the last one only.
use phalanx_cluster::event::{Event, PodGroupInfo, QueueInfo};
use phalanx_framework::conf::Conf;

use phalanx_framework::testing::{group, member, queue, resources, running};
use phalanx_testkit::{TestCluster, one_tier};

fn conf(action: &str) -> Conf {
    one_tier(&["allocate", action, "backfill"], &["priority", "gang", "capacity", "predicates", "nodeorder"])
}

fn of(queue: &str, group: PodGroupInfo) -> PodGroupInfo {
    PodGroupInfo { queue: queue.into(), ..group }
}

/// Queues `a` and `b` that deserve this, and pods of `b` on the only node.
fn two_queues(room: &str, deserved: [&str; 2], pods: &[&str]) -> TestCluster {
    let mut test = TestCluster::with(conf("reclaim"));
    test.nodes(1, room);
    for (name, deserved) in ["a", "b"].iter().zip(deserved) {
        test.add(QueueInfo { deserved: resources(deserved), ..queue(name, 1) });
    }
    test.add(of("b", group("held", 0)));
    for (at, requests) in pods.iter().enumerate() {
        test.add(running(member("held", at as u32, requests), "n0"));
    }
    test
}

fn asks(test: &mut TestCluster, min: u32, members: &[&str]) {
    test.add(of("a", group("gang", min)));
    for (at, requests) in members.iter().enumerate() {
        test.add(member("gang", at as u32, requests));
    }
}

#[test]
fn resources_that_one_member_requests_are_reclaimed() {
    const GPU: &str = "example.com/gpu=1";
    for members in [["cpu=1", GPU], [GPU, "cpu=1"]] {
        let deserved = ["cpu=2 example.com/gpu=1", "example.com/gpu=1"];
        let mut test = two_queues("cpu=4 example.com/gpu=2", deserved, &[GPU, GPU]);
        asks(&mut test, 2, &members);
        assert_eq!(test.cycle().evicted.len(), 1, "{members:?}: {:?}", test.reasons("gang"));
    }
}

#[test]
fn no_pod_is_reclaimed_for_members_beyond_deserved() {
    // minMember, members => evicted. The queue deserves one card, and all cores.
    const GPU: &str = "example.com/gpu=1";
    for (min, members, evicted) in [
        (1, &[GPU][..], 1),
        (2, &[GPU, GPU], 0),
        (2, &["cpu=1", GPU], 1),
        (3, &[GPU, "cpu=1", GPU], 0),
        (3, &[GPU, GPU, "cpu=1"], 0),
        // The first member fits no node, and the other two exceed its deserved amount.
        (2, &["cpu=5", GPU, GPU], 0),
    ] {
        let deserved = ["cpu=9 example.com/gpu=1", "cpu=1"];
        let mut test = two_queues("cpu=4 example.com/gpu=2", deserved, &[GPU, GPU]);
        asks(&mut test, min, members);
        assert_eq!(test.cycle().evicted.len(), evicted, "{members:?}: {:?}", test.reasons("gang"));
    }
}

#[test]
fn a_gang_with_a_best_effort_member_reclaims_for_the_others() {
    let mut test = TestCluster::with(conf("preempt"));
    for (name, value) in [("low", 1), ("high", 9)] {
        test.add(Event::PriorityClass { name: name.into(), value, global_default: false });
    }
    test.nodes(1, "cpu=1");
    let of_class = |name: &str, min, class: &str| PodGroupInfo {
        priority_class: Some(class.into()),
        ..group(name, min)
    };
    test.add(of_class("low", 0, "low")).add(running(member("low", 0, "cpu=1"), "n0"));
    test.add(of_class("high", 2, "high")).add(member("high", 0, "cpu=1")).add(member("high", 1, ""));
    assert_eq!(test.cycle().evicted, ["low-0"], "{:?}", test.reasons("high"));
}
