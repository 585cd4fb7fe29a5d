//! Binds that the API server refuses: they are tried again after a back-off and delay no other job.
use phalanx_cluster::event::{BindFailure, BindFault, Dequeue, Event, PodGroupInfo, QueueInfo};
use phalanx_core::RetryLimits;
use phalanx_core::decision::Decision;

use phalanx_framework::testing::{group, member, node, pod, queue};
use phalanx_testkit::{Cycle, TestCluster};

const WEBHOOK: &str = "admission webhook \"licence\" denied the request";

fn fails(test: &mut TestCluster, pod: &str, fault: BindFault) {
    let failure = BindFailure { message: WEBHOOK.into(), fault };
    test.add(Event::BindFailed(pod.into(), failure));
}

/// A cycle one second later, in which binds of this pod are refused and other binds succeed.
fn cycle(test: &mut TestCluster, refused: &str) -> Cycle {
    let cycle = test.cycle();
    for (pod, node) in &cycle.bound {
        if pod == refused {
            fails(test, pod, BindFault::Denied);
        } else {
            test.start(pod, node);
        }
    }
    cycle
}

/// The seconds, counted from the first cycle, in which the pod was to be bound.
fn tries(test: &mut TestCluster, refused: &str, seconds: usize) -> Vec<usize> {
    (0..seconds).filter(|_| cycle(test, refused).bound.contains_key(refused)).collect()
}

/// Clusters in which a waiting job is tried in each cycle, and clusters in which it is unschedulable.
fn clusters() -> impl Iterator<Item = TestCluster> {
    [RetryLimits::unlimited(), RetryLimits { all_up_to: 0, ..RetryLimits::default() }].into_iter().map(
        |patience| {
            let mut test = TestCluster::new();
            test.set_retry_limits(patience);
            test
        },
    )
}

#[test]
fn a_refused_bind_has_a_back_off_that_grows() {
    for mut test in clusters() {
        test.nodes(1, "cpu=4").gang(group("g", 2), 2, "cpu=1");
        // The back-off of a refused bind begins with the next cycle.
        assert_eq!(tries(&mut test, "g-1", 60), [0, 2, 5, 10, 19, 30, 41, 52]);
    }
}

#[test]
fn a_cycle_is_due_when_the_back_off_ends() {
    for mut test in clusters() {
        test.nodes(1, "cpu=4").add(pod("p", "cpu=1"));
        cycle(&mut test, "p");
        let mut binds = 0;
        let mut count = |all: &[Decision]| binds += usize::from(all.iter().any(is_bind));
        let first = test.hand_outs(&mut count).expect("the next try");
        let second = test.hand_outs(&mut count);
        assert!(first.0 == 3000 && second.is_none_or(|at| at > first), "{first:?} {second:?}");
        assert_eq!(binds, 1);
    }
}

#[test]
fn a_job_with_a_refused_bind_is_in_the_pool_backoff() {
    for (size, last) in [(1, "g-0"), (2, "g-1")] {
        for mut test in clusters() {
            test.nodes(1, "cpu=4").gang(group("g", size), size, "cpu=1").gang(group("large", 1), 1, "cpu=9");
            cycle(&mut test, last);
            test.cycle();
            let pending = test.pending();
            assert_eq!((pending.active, pending.backoff, pending.unschedulable), (0, 1, 1));
            assert_eq!(tries(&mut test, "none", 5).len(), 0);
            let pending = test.pending();
            assert_eq!((pending.active, pending.backoff, pending.unschedulable), (0, 0, 1), "it is bound");
        }
    }
}

fn is_bind(decision: &Decision) -> bool {
    matches!(decision, Decision::Bind { .. })
}

#[test]
fn a_gang_with_a_refused_member_has_a_reason_and_other_jobs_start() {
    for dequeue in [Dequeue::Fifo, Dequeue::Traverse] {
        for mut test in clusters() {
            test.add(QueueInfo { dequeue, ..queue("default", 1) });
            test.nodes(1, "cpu=2").gang(group("g", 2), 2, "cpu=1");
            cycle(&mut test, "g-1");
            // There is room for one pod: without the back-off the broken gang would get it first.
            test.add(pod("other", "cpu=1"));
            assert_eq!(test.cycle().names(), ["other"], "{dequeue:?}");
            let expected = format!("the API server refused to bind g-1, tried again soon: {WEBHOOK}");
            assert_eq!(test.reasons("g"), [expected]);
        }
    }
}

#[test]
fn refusals_of_several_members_count_as_one_attempt() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=9").gang(group("g", 3), 3, "cpu=1");
    assert_eq!(test.cycle().bound.len(), 3);
    for pod in ["g-0", "g-1", "g-2"] {
        fails(&mut test, pod, BindFault::Denied);
        assert!(test.cycle().bound.len() <= 3);
    }
    // The back-off began with the last refusal and has the length of a first or second one, not of a third.
    assert!((0..2).any(|_| test.cycle().bound.len() == 3));
}

#[test]
fn a_change_of_the_pod_or_its_podgroup_ends_the_back_off() {
    type Change = fn(&mut TestCluster);
    let changes: [(&str, Change); 5] = [
        ("its pod", |test| {
            test.change("g-1", |pod| pod.labels = [("licence".into(), "paid".into())].into_iter().collect());
        }),
        ("its PodGroup", |test| {
            test.add(PodGroupInfo { priority_class: Some("none".into()), min_member: 1, ..group("g", 2) });
        }),
        ("another pod of it", |test| {
            test.add(member("g", 2, "cpu=100"));
        }),
        ("a pod of it is gone", |test| {
            test.add(member("g", 2, "cpu=100")).gone("g-2");
        }),
        ("another PodGroup of its name", |test| {
            test.add(PodGroupInfo { uid: "another".into(), ..group("g", 2) });
        }),
    ];
    for (what, change) in changes {
        let mut test = TestCluster::new();
        test.nodes(1, "cpu=9").gang(group("g", 2), 2, "cpu=1");
        tries(&mut test, "g-1", 15);
        cycle(&mut test, "g-1");
        assert!(!cycle(&mut test, "g-1").bound.contains_key("g-1"), "{what}");
        change(&mut test);
        assert_eq!(tries(&mut test, "g-1", 6), [0, 2, 5], "{what}");
    }
}

#[test]
fn an_event_without_a_change_does_not_end_the_back_off() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=9").gang(group("g", 2), 2, "cpu=1");
    tries(&mut test, "g-1", 15);
    for _ in 0..3 {
        test.change("g-1", |pod| pod.life.unscheduled_message = Some("our own words".into()));
        test.add(group("g", 2)).add(node("n1", "cpu=9"));
        assert!(!cycle(&mut test, "g-1").bound.contains_key("g-1"));
    }
}

#[test]
fn a_successful_bind_resets_the_back_off() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=9").gang(group("g", 2), 2, "cpu=1");
    assert_eq!(tries(&mut test, "g-1", 19), [0, 2, 5, 10]);
    let bound = (0..12).find(|_| test.run().bound.contains_key("g-1"));
    assert!(bound.is_some(), "let through at last");
    test.gone("g-1").add(member("g", 1, "cpu=1"));
    assert_eq!(tries(&mut test, "g-1", 6), [0, 2, 5], "it begins anew");
}

#[test]
fn a_bind_to_a_deleted_node_has_no_back_off() {
    let mut test = TestCluster::new();
    test.nodes(2, "cpu=1").add(pod("p", "cpu=1"));
    let bound = test.cycle().bound["p"].clone();
    test.add(Event::NodeGone(bound.as_str().into()));
    fails(&mut test, "p", BindFault::Place);
    assert_eq!(test.cycle().names(), ["p"]);
}
