//! Nominations: room that is being released is reserved for the nominated pods.
use phalanx_cluster::event::{Event, PodGroupInfo, QueueInfo, Time};

use phalanx_framework::testing::{group, leaving, member, node, pod, queue, resources, running};
use phalanx_testkit::TestCluster;

/// One node of four cores whose four pods are terminating.
fn leaving_four() -> TestCluster {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4");
    for at in 0..4 {
        test.add(leaving(running(pod(&format!("old-{at}"), "cpu=1"), "n0")));
    }
    test
}

#[test]
fn a_gang_keeps_its_reservation_until_all_of_its_room_is_free() {
    let mut test = leaving_four();
    test.gang(group("g", 3), 3, "cpu=1");
    let cycle = test.cycle();
    assert!(cycle.bound.is_empty());
    assert_eq!(cycle.nominated.len(), 3);
    assert_eq!(test.reasons("g"), ["3 pod(s) are nominated and wait for terminating pods"]);
    // A gang that is first in job order and would fit: but the room is reserved.
    test.gang(PodGroupInfo { created: Time(-1), ..group("big", 2) }, 2, "cpu=1");
    for gone in ["old-0", "old-1"] {
        test.gone(gone);
        let cycle = test.cycle();
        assert_eq!((cycle.names(), cycle.nominated.len()), (vec![], 0), "after {gone}");
    }
    test.gone("old-2");
    assert_eq!(test.run().bound_of("g"), 3);
    test.gone("old-3");
    assert!(test.run().bound.is_empty(), "one core is not enough for two pods");
}

#[test]
fn a_gang_reserves_idle_and_future_idle_room_together() {
    let mut test = leaving_four();
    test.add(node("n1", "cpu=2")).gang(group("g", 4), 4, "cpu=1");
    let cycle = test.cycle();
    assert!(cycle.bound.is_empty());
    assert_eq!(cycle.nominated.values().filter(|node| node.as_deref() == Some("n1")).count(), 2);
    // n1 has two idle cores, but they are reserved.
    test.add(pod("late", "cpu=1"));
    assert!(test.cycle().bound.is_empty());
    test.gone("old-0").gone("old-1").gone("old-2");
    assert_eq!(test.run().names(), ["g-0", "g-1", "g-2", "g-3", "late"]);
}

#[test]
fn a_nomination_is_written_once() {
    let mut test = leaving_four();
    test.gang(group("g", 1), 3, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 3);
    assert_eq!(test.cycle().decisions, []);
    assert_eq!(test.cycle().decisions, []);
}

#[test]
fn surplus_members_keep_their_nominations() {
    let mut test = leaving_four();
    test.add(node("n1", "cpu=1")).gang(group("g", 1), 5, "cpu=1");
    let cycle = test.run();
    assert_eq!((cycle.bound.len(), cycle.nominated.len()), (1, 4));
    let early = PodGroupInfo { created: Time(-1), ..group("early", 1) };
    test.gang(early, 3, "cpu=1");
    test.gone("old-0");
    let cycle = test.run();
    assert_eq!((cycle.bound_of("g"), cycle.bound_of("early")), (1, 0), "{cycle:?}");
    assert!(cycle.nominated.is_empty(), "the others' nominations stay as they are: {cycle:?}");
}

#[test]
fn nominations_to_a_deleted_node_are_removed() {
    let mut test = leaving_four();
    test.gang(group("g", 3), 3, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 3);
    test.add(Event::NodeGone("n0".into()));
    let cycle = test.cycle();
    assert_eq!(cycle.nominated.values().collect::<Vec<_>>(), [&None, &None, &None]);
    test.add(node("n1", "cpu=4"));
    assert_eq!(test.cycle().bound_of("g"), 3);
}

/// The controllers put a pod into a PodGroup that they made; the pod is read before its nomination is on it.
#[test]
fn a_pod_that_joins_a_pod_group_keeps_its_nomination() {
    let mut test = leaving_four();
    test.add(pod("late", "cpu=1"));
    assert_eq!(test.cycle().nominated["late"].as_deref(), Some("n0"));
    test.add(group("g", 1)).change("late", |pod| {
        pod.group = Some("g".into());
        pod.life.nominated = None;
    });
    assert!(test.cycle().nominated.is_empty(), "it is nominated still");
    test.add(Event::NodeGone("n0".into()));
    assert_eq!(test.cycle().nominated["late"], None);
}

#[test]
fn a_nominated_pod_binds_to_another_node_that_is_idle_now() {
    let mut test = leaving_four();
    test.gang(group("g", 3), 3, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 3);
    test.add(node("n1", "cpu=4"));
    let cycle = test.cycle();
    assert_eq!(cycle.bound.values().collect::<Vec<_>>(), ["n1", "n1", "n1"]);
}

#[test]
fn a_gang_that_can_no_longer_start_gives_up_its_reservation() {
    let mut test = leaving_four();
    test.gang(group("g", 3), 3, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 3);
    test.gone("g-2").gang(group("next", 4), 4, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(cycle.nominated["g-0"], None);
    assert_eq!(cycle.nominated["next-0"].as_deref(), Some("n0"));
}

#[test]
fn a_nomination_is_kept_after_a_restart() {
    let mut test = leaving_four();
    test.gang(group("g", 2), 2, "cpu=1");
    for name in ["g-0", "g-1"] {
        test.change(name, |pod| pod.life.nominated = Some("n0".into()));
    }
    // As after a restart: pods are new to the Cluster and have nominations.
    let mut restarted = TestCluster::new();
    restarted.nodes(1, "cpu=4").add(group("g", 2));
    for at in 0..4 {
        restarted.add(leaving(running(pod(&format!("old-{at}"), "cpu=1"), "n0")));
    }
    for index in 0..2 {
        let mut member = member("g", index, "cpu=1");
        member.life.nominated = Some("n0".into());
        restarted.add(member);
    }
    let cycle = restarted.cycle();
    assert!(cycle.nominated.is_empty(), "it is on the pods already: {cycle:?}");
    restarted.gone("old-0").gone("old-1");
    assert_eq!(restarted.cycle().bound_of("g"), 2);
}

/// After a restart, or when this process becomes the leader.
#[test]
fn a_nomination_is_kept_against_jobs_that_come_first_in_the_order() {
    for leader_before in [false, true] {
        let mut test = TestCluster::new();
        test.cluster.stand_by(leader_before);
        test.add(group("g", 3));
        for index in 0..3 {
            let mut member = member("g", index, "cpu=1");
            member.life.nominated = Some("n0".into());
            test.add(member);
        }
        let urgent = PodGroupInfo { created: Time(-1), ..group("urgent", 2) };
        test.gang(urgent, 2, "cpu=1").nodes(1, "cpu=4");
        for at in 0..4 {
            test.add(leaving(running(pod(&format!("old-{at}"), "cpu=1"), "n0")));
        }
        test.cluster.stand_by(false);
        assert!(test.cycle().nominated.is_empty(), "it is on the pods already");
        test.gone("old-0").gone("old-1");
        assert_eq!(test.run().names(), Vec::<&str>::new());
        test.gone("old-2").gone("old-3");
        assert_eq!(test.run().names(), ["g-0", "g-1", "g-2"]);
    }
}

#[test]
fn a_nomination_that_cannot_be_kept_is_removed_from_the_pod() {
    let nominated = |name: &str, node: &str| {
        let mut pod = pod(name, "cpu=1");
        pod.life.nominated = Some(node.into());
        pod
    };
    let mut test = leaving_four();
    test.add(nominated("nowhere", "n9"));
    for at in 0..5 {
        test.add(nominated(&format!("p{at}"), "n0"));
    }
    let cycle = test.cycle();
    let ended: Vec<_> = cycle.nominated.iter().map(|(pod, node)| (pod.as_str(), node.as_deref())).collect();
    assert_eq!(ended, [("nowhere", None), ("p4", None)], "four fit");
}

fn important(name: &str, min_member: u32, class: &str) -> PodGroupInfo {
    PodGroupInfo { priority_class: Some(class.into()), ..group(name, min_member) }
}

fn with_classes(mut test: TestCluster) -> TestCluster {
    for (name, value) in [("low", 1), ("mid", 5), ("high", 9)] {
        test.add(Event::PriorityClass { name: name.into(), value, global_default: false });
    }
    test
}

#[test]
fn a_reservation_is_revoked_for_a_job_of_higher_priority_in_the_queue() {
    for (class, takes) in [("high", true), ("mid", false), ("low", false)] {
        let mut test = with_classes(leaving_four());
        test.gang(important("g", 3, "mid"), 3, "cpu=1");
        assert_eq!(test.cycle().nominated.len(), 3);
        let first = PodGroupInfo { created: Time(-1), ..important("new", 2, class) };
        test.gang(first, 2, "cpu=1");
        let cycle = test.cycle();
        let case = format!("{class}: {cycle:?}");
        assert_eq!(cycle.nominated.contains_key("new-0"), takes, "{case}");
        assert_eq!(cycle.nominated.get("g-0"), takes.then_some(&None), "{case}");
        for gone in ["old-0", "old-1", "old-2"] {
            test.gone(gone);
        }
        let cycle = test.run();
        assert_eq!(
            (cycle.bound_of("new"), cycle.bound_of("g")),
            if takes { (2, 0) } else { (0, 3) },
            "{case}"
        );
    }
}

#[test]
fn no_more_nominations_are_revoked_than_needed() {
    let mut test = with_classes(leaving_four());
    test.gang(important("lower", 1, "low"), 1, "cpu=1").gang(important("low", 1, "low"), 1, "cpu=1");
    test.gang(important("mid", 2, "mid"), 2, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 4);
    test.gang(important("new", 1, "high"), 1, "cpu=1");
    let cycle = test.cycle();
    let lost: Vec<&str> =
        cycle.nominated.iter().filter(|(_, node)| node.is_none()).map(|(name, _)| &**name).collect();
    assert_eq!(
        (lost, cycle.nominated.len()),
        (vec!["lower-0"], 2),
        "the least important that is served last"
    );
    assert!(cycle.nominated["new-0"].is_some());
}

#[test]
fn a_job_of_higher_priority_binds_to_reserved_room_that_is_free() {
    let mut test = with_classes(TestCluster::new());
    test.nodes(2, "cpu=1").add(leaving(running(pod("old", "cpu=1"), "n0")));
    test.gang(important("g", 2, "low"), 2, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 2);
    test.gang(important("new", 1, "high"), 1, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(cycle.bound["new-0"], "n1");
    assert_eq!(cycle.nominated.values().collect::<Vec<_>>(), [&None, &None]);
    let cycle = test.cycle();
    assert!(cycle.bound.is_empty() && cycle.nominated.is_empty(), "and that is all: {cycle:?}");
}

#[test]
fn a_nomination_read_after_a_restart_is_revoked_for_higher_priority() {
    let mut test = with_classes(TestCluster::new());
    test.nodes(1, "cpu=1").gang(important("m", 1, "mid"), 1, "cpu=1");
    test.change("m-0", |pod| pod.life.nominated = Some("n0".into()));
    test.gang(important("h", 1, "high"), 1, "cpu=1");
    assert_eq!(test.run().names(), ["h-0"]);
}

/// The node has room, and the queue would have some after evictions that were lost.
#[test]
fn a_nomination_read_after_a_restart_does_not_exceed_the_capability_of_the_queue() {
    let in_queue = |name| PodGroupInfo { queue: "q".into(), ..group(name, 1) };
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=9").add(QueueInfo { capability: resources("cpu=7"), ..queue("q", 1) });
    test.add(in_queue("old")).add(in_queue("new"));
    for index in 0..2 {
        test.add(running(member("old", index, "cpu=3"), "n0"));
    }
    let mut nominated = member("new", 0, "cpu=2");
    nominated.life.nominated = Some("n0".into());
    test.add(nominated);
    let cycle = test.run();
    assert!(cycle.bound.is_empty());
    assert_eq!(cycle.nominated["new-0"], None);
    test.gone("old-0");
    assert_eq!(test.run().names(), ["new-0"]);
}

#[test]
fn a_gang_does_not_start_in_its_reservation_when_the_capability_of_its_queue_has_shrunk() {
    let q = |cpu: &str| QueueInfo { capability: resources(cpu), ..queue("q", 1) };
    let mut test = leaving_four();
    test.add(q("cpu=4")).gang(PodGroupInfo { queue: "q".into(), ..group("g", 3) }, 3, "cpu=1");
    assert_eq!(test.cycle().nominated.len(), 3);
    test.add(q("cpu=2")).gone("old-0").gone("old-1").gone("old-2");
    assert!(test.run().bound.is_empty());
    assert_eq!(test.run().bound_of("g"), 0);
    assert_eq!(test.add(q("cpu=3")).run().bound_of("g"), 3);
}

#[test]
fn a_reservation_in_another_queue_is_not_revoked() {
    let mut test = with_classes(leaving_four());
    test.add(queue("q", 3)).gang(important("g", 1, "mid"), 4, "cpu=1");
    let promised = test.cycle().nominated.len();
    let other = PodGroupInfo { queue: "q".into(), ..important("new", 4, "high") };
    test.gang(other, 4, "cpu=1");
    assert!(promised > 0 && !test.cycle().nominated.contains_key("new-0"));
}
