//! Queues: shares, limits, guarantees, and invalid queues.
use phalanx_cluster::event::{PodGroupInfo, PodInfo, QueueInfo, QueueState};

use phalanx_framework::testing::{group, node, pod, queue, resources, running};
use phalanx_testkit::{Cycle, TestCluster};

/// A gang of the queue's name with minMember 1, of pods that request one core.
fn load(test: &mut TestCluster, queue: &QueueInfo, pods: u32) {
    let group = PodGroupInfo { queue: queue.name.clone(), ..group(&queue.name, 1) };
    test.add(queue.clone()).gang(group, pods, "cpu=1");
}

fn bound(cycle: &Cycle, queues: &[&str]) -> Vec<usize> {
    queues.iter().map(|name| cycle.bound_of(name)).collect()
}

#[test]
fn queues_share_by_weight_under_contention() {
    for (weights, pods, expected) in [
        ((1, 3), (8, 8), (2, 6)),
        ((1, 3), (8, 2), (6, 2)),
        ((1, 1), (8, 8), (4, 4)),
        ((1, 3), (8, 0), (8, 0)),
        ((1, 3), (1, 8), (1, 7)),
    ] {
        let mut test = TestCluster::new();
        test.nodes(2, "cpu=4");
        load(&mut test, &queue("a", weights.0), pods.0);
        load(&mut test, &queue("b", weights.1), pods.1);
        let cycle = test.cycle();
        assert_eq!(
            bound(&cycle, &["a", "b"]),
            [expected.0, expected.1],
            "weights {weights:?}, pods {pods:?}"
        );
    }
}

#[test]
fn the_reason_of_a_job_in_a_queue_at_its_share_says_so() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=8");
    load(&mut test, &queue("a", 1), 9);
    load(&mut test, &queue("b", 3), 9);
    test.cycle();
    assert_eq!(test.deserved("a", "cpu").as_deref(), Some("2"));
    assert_eq!(test.deserved("b", "cpu").as_deref(), Some("6"));
    assert_eq!(
        test.reasons("a"),
        [
            "queue a is overused: it holds all that its weight gives it beside what other queues ask for (plugin proportion)"
        ]
    );
}

#[test]
fn the_reason_of_a_gang_above_its_queue_says_by_how_much() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=8");
    let tight = QueueInfo { capability: resources("cpu=3"), ..queue("tight", 1) };
    test.add(tight);
    test.gang(PodGroupInfo { queue: "tight".into(), ..group("g", 2) }, 2, "cpu=2");
    assert!(test.cycle().bound.is_empty());
    assert_eq!(
        test.reasons("g"),
        [
            "queue tight would exceed its capability: cpu (1 more) (plugin proportion)",
            "pod group is not ready: 1 of minMember 2 have room"
        ]
    );
}

#[test]
fn a_capability_is_never_exceeded() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=8");
    load(&mut test, &QueueInfo { capability: resources("cpu=2"), ..queue("a", 9) }, 8);
    load(&mut test, &queue("b", 1), 8);
    assert_eq!(bound(&test.run(), &["a", "b"]), [2, 6]);
    assert!(test.cycle().bound.is_empty());
}

#[test]
fn a_pod_whose_pod_group_is_not_known_yet_counts_in_the_queue_that_it_names() {
    let of_tight = |pod: PodInfo| PodInfo { queue: Some("tight".into()), ..pod };
    let mut test = TestCluster::new();
    test.add(node("n", "cpu=8")).add(QueueInfo { capability: resources("cpu=3"), ..queue("tight", 1) });
    test.add(running(of_tight(pod("one", "cpu=2")), "n")).add(of_tight(pod("two", "cpu=2")));
    assert!(test.run().bound.is_empty());
    test.change("one", |pod| pod.group = Some("made".into()));
    assert!(test.run().bound.is_empty());
}

#[test]
fn the_guarantee_of_a_queue_is_kept_free() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=8");
    let guaranteed = QueueInfo { guarantee: resources("cpu=4"), ..queue("a", 1) };
    test.add(guaranteed.clone());
    load(&mut test, &queue("b", 9), 8);
    load(&mut test, &queue("c", 9), 8);
    let cycle = test.run();
    assert_eq!(cycle.bound.len(), 4);
    load(&mut test, &guaranteed, 8);
    assert_eq!(bound(&test.cycle(), &["a"]), [4]);
}

#[test]
fn the_queue_of_higher_priority_is_served_first() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4");
    load(&mut test, &queue("a", 1), 4);
    let first = QueueInfo { priority: 5, ..queue("b", 1) };
    test.add(first);
    test.gang(PodGroupInfo { queue: "b".into(), ..group("b", 2) }, 2, "cpu=1");
    let cycle = test.cycle();
    assert_eq!((cycle.units[0], bound(&cycle, &["a", "b"])), (2, vec![2, 2]));
}

#[test]
fn an_invalid_queue_blocks_its_own_jobs_only() {
    let of = |queue: &str| PodGroupInfo { queue: queue.into(), ..group(queue, 1) };
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=8");
    test.add(QueueInfo { state: QueueState::Closed, ..queue("closed", 1) });
    test.add(QueueInfo { invalid: Some("weight is 0".into()), ..queue("broken", 1) });
    for name in ["closed", "broken", "missing", "default"] {
        test.gang(of(name), 1, "cpu=1");
    }
    assert_eq!(test.cycle().names(), ["default-0"]);
    for (name, why) in [
        ("closed", "queue closed is Closed"),
        ("broken", "queue broken is invalid: weight is 0"),
        ("missing", "queue missing does not exist"),
    ] {
        assert_eq!(test.reasons(name), [why]);
    }
    test.add(queue("closed", 1)).add(queue("broken", 1)).add(queue("missing", 1));
    assert_eq!(test.cycle().bound.len(), 3);
}

#[test]
fn a_job_that_moves_to_another_queue_is_counted_there() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=4");
    test.add(QueueInfo { capability: resources("cpu=1"), ..queue("small", 1) }).add(queue("large", 1));
    let of = |queue: &str| PodGroupInfo { queue: queue.into(), ..group("g", 1) };
    test.gang(of("small"), 3, "cpu=1");
    assert_eq!(test.run().bound.len(), 1);
    test.add(of("large"));
    assert_eq!(test.cycle().bound.len(), 2);
}
