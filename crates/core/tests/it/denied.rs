//! Binds that the API server refuses: tried again after a while, and in nobody's way meanwhile.
use phalanx_cluster::event::{BindFailure, BindFault, Dequeue, Event, PodGroupInfo, QueueInfo};
use phalanx_core::Patience;
use phalanx_core::decision::Decision;

use crate::cluster::{Cluster, Cycle};
use phalanx_framework::testing::{group, member, node, pod, queue};

const WEBHOOK: &str = "admission webhook \"licence\" denied the request";

fn fails(cluster: &mut Cluster, pod: &str, fault: BindFault) {
    let failure = BindFailure { message: WEBHOOK.into(), fault };
    cluster.add(Event::BindFailed(pod.into(), failure));
}

/// A cycle, a second after the one before, in which binds of this pod are refused and others go well.
fn cycle(cluster: &mut Cluster, refused: &str) -> Cycle {
    let cycle = cluster.cycle();
    for (pod, node) in &cycle.bound {
        if pod == refused {
            fails(cluster, pod, BindFault::Denied);
        } else {
            cluster.start(pod, node);
        }
    }
    cycle
}

/// The seconds of those after the first cycle in which the pod was to be bound.
fn tries(cluster: &mut Cluster, refused: &str, seconds: usize) -> Vec<usize> {
    (0..seconds).filter(|_| cycle(cluster, refused).bound.contains_key(refused)).collect()
}

/// In all places where a job can wait: looked at in each cycle, or parked.
fn clusters() -> impl Iterator<Item = Cluster> {
    [Patience::none(), Patience { few: 0, ..Patience::default() }].into_iter().map(|patience| {
        let mut cluster = Cluster::new();
        cluster.set_patience(patience);
        cluster
    })
}

#[test]
fn a_refused_bind_waits_longer_each_time() {
    for mut cluster in clusters() {
        cluster.nodes(1, "cpu=4").gang(group("g", 2), 2, "cpu=1");
        // A cycle notices what was refused since the one before, and begins to count.
        assert_eq!(tries(&mut cluster, "g-1", 60), [0, 2, 5, 10, 19, 30, 41, 52]);
    }
}

#[test]
fn a_cycle_is_due_when_the_wait_is_over() {
    for mut cluster in clusters() {
        cluster.nodes(1, "cpu=4").add(pod("p", "cpu=1"));
        cycle(&mut cluster, "p");
        let mut binds = 0;
        let mut count = |all: &[Decision]| binds += usize::from(all.iter().any(is_bind));
        let first = cluster.hand_outs(&mut count).expect("the next try");
        let second = cluster.hand_outs(&mut count);
        assert!(first.0 == 3000 && second.is_none_or(|at| at > first), "{first:?} {second:?}");
        assert_eq!(binds, 1);
    }
}

#[test]
fn whoever_is_left_alone_is_in_backoff() {
    for (size, last) in [(1, "g-0"), (2, "g-1")] {
        for mut cluster in clusters() {
            cluster.nodes(1, "cpu=4").gang(group("g", size), size, "cpu=1").gang(
                group("large", 1),
                1,
                "cpu=9",
            );
            cycle(&mut cluster, last);
            cluster.cycle();
            let pending = cluster.pending();
            assert_eq!((pending.active, pending.backoff, pending.unschedulable), (0, 1, 1));
            assert_eq!(tries(&mut cluster, "nobody's", 5).len(), 0);
            let pending = cluster.pending();
            assert_eq!((pending.active, pending.backoff, pending.unschedulable), (0, 0, 1), "it is bound");
        }
    }
}

fn is_bind(decision: &Decision) -> bool {
    matches!(decision, Decision::Bind { .. })
}

#[test]
fn a_gang_with_a_refused_member_says_so_and_holds_up_nobody() {
    for dequeue in [Dequeue::Fifo, Dequeue::Traverse] {
        for mut cluster in clusters() {
            cluster.add(QueueInfo { dequeue, ..queue("default", 1) });
            cluster.nodes(1, "cpu=2").gang(group("g", 2), 2, "cpu=1");
            cycle(&mut cluster, "g-1");
            // There is room for one: the broken gang would have it first.
            cluster.add(pod("other", "cpu=1"));
            assert_eq!(cluster.cycle().names(), ["other"], "{dequeue:?}");
            let expected = format!("the API server refused to bind g-1, tried again soon: {WEBHOOK}");
            assert_eq!(cluster.reasons("g"), [expected]);
        }
    }
}

#[test]
fn pods_that_are_refused_one_after_the_other_are_one_try() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=9").gang(group("g", 3), 3, "cpu=1");
    assert_eq!(cluster.cycle().bound.len(), 3);
    for pod in ["g-0", "g-1", "g-2"] {
        fails(&mut cluster, pod, BindFault::Denied);
        assert!(cluster.cycle().bound.len() <= 3);
    }
    // The last wait began with the last refusal, and is the first or second, not the third.
    assert!((0..2).any(|_| cluster.cycle().bound.len() == 3));
}

#[test]
fn a_change_ends_the_wait() {
    type Change = fn(&mut Cluster);
    let changes: [(&str, Change); 5] = [
        ("its pod", |cluster| {
            cluster
                .change("g-1", |pod| pod.labels = [("licence".into(), "paid".into())].into_iter().collect());
        }),
        ("its PodGroup", |cluster| {
            cluster.add(PodGroupInfo { priority_class: Some("none".into()), min_member: 1, ..group("g", 2) });
        }),
        ("another pod of it", |cluster| {
            cluster.add(member("g", 2, "cpu=100"));
        }),
        ("a pod of it is gone", |cluster| {
            cluster.add(member("g", 2, "cpu=100")).gone("g-2");
        }),
        ("another PodGroup of its name", |cluster| {
            cluster.add(PodGroupInfo { uid: "another".into(), ..group("g", 2) });
        }),
    ];
    for (what, change) in changes {
        let mut cluster = Cluster::new();
        cluster.nodes(1, "cpu=9").gang(group("g", 2), 2, "cpu=1");
        tries(&mut cluster, "g-1", 15);
        cycle(&mut cluster, "g-1");
        assert!(!cycle(&mut cluster, "g-1").bound.contains_key("g-1"), "{what}");
        change(&mut cluster);
        assert_eq!(tries(&mut cluster, "g-1", 6), [0, 2, 5], "{what}");
    }
}

#[test]
fn what_says_nothing_new_does_not_end_the_wait() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=9").gang(group("g", 2), 2, "cpu=1");
    tries(&mut cluster, "g-1", 15);
    for _ in 0..3 {
        cluster.change("g-1", |pod| pod.unscheduled_message = Some("our own words".into()));
        cluster.add(group("g", 2)).add(node("n1", "cpu=9"));
        assert!(!cycle(&mut cluster, "g-1").bound.contains_key("g-1"));
    }
}

#[test]
fn a_success_ends_the_wait() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=9").gang(group("g", 2), 2, "cpu=1");
    assert_eq!(tries(&mut cluster, "g-1", 19), [0, 2, 5, 10]);
    let bound = (0..12).find(|_| cluster.run().bound.contains_key("g-1"));
    assert!(bound.is_some(), "let through at last");
    cluster.gone("g-1").add(member("g", 1, "cpu=1"));
    assert_eq!(tries(&mut cluster, "g-1", 6), [0, 2, 5], "it begins anew");
}

#[test]
fn a_pod_whose_node_is_gone_does_not_wait() {
    let mut cluster = Cluster::new();
    cluster.nodes(2, "cpu=1").add(pod("p", "cpu=1"));
    let bound = cluster.cycle().bound["p"].clone();
    cluster.add(Event::NodeGone(bound.as_str().into()));
    fails(&mut cluster, "p", BindFault::Place);
    assert_eq!(cluster.cycle().names(), ["p"]);
}
