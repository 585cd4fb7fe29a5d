//! Queues: shares, limits, guarantees, and queues that cannot be used.
use phalanx_cluster::event::{PodGroupInfo, QueueInfo, QueueState};

use crate::cluster::{Cluster, Cycle};
use phalanx_framework::testing::{group, queue, resources};

/// A gang of the queue's name, of pods that need one core, each of which may run alone.
fn load(cluster: &mut Cluster, queue: &QueueInfo, pods: u32) {
    let group = PodGroupInfo { queue: queue.name.clone(), ..group(&queue.name, 1) };
    cluster.add(queue.clone()).gang(group, pods, "cpu=1");
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
        let mut cluster = Cluster::new();
        cluster.nodes(2, "cpu=4");
        load(&mut cluster, &queue("a", weights.0), pods.0);
        load(&mut cluster, &queue("b", weights.1), pods.1);
        let cycle = cluster.cycle();
        assert_eq!(
            bound(&cycle, &["a", "b"]),
            [expected.0, expected.1],
            "weights {weights:?}, pods {pods:?}"
        );
    }
}

#[test]
fn a_full_share_is_told_as_the_reason() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=8");
    load(&mut cluster, &queue("a", 1), 9);
    load(&mut cluster, &queue("b", 3), 9);
    cluster.cycle();
    assert_eq!(cluster.deserved("a", "cpu").as_deref(), Some("2"));
    assert_eq!(cluster.deserved("b", "cpu").as_deref(), Some("6"));
    assert_eq!(
        cluster.reasons("a"),
        [
            "queue a is overused: it holds all that its weight gives it beside what other queues ask for (plugin proportion)"
        ]
    );
}

#[test]
fn a_gang_that_would_exceed_its_queue_says_by_how_much() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=8");
    let tight = QueueInfo { capability: resources("cpu=3"), ..queue("tight", 1) };
    cluster.add(tight);
    cluster.gang(PodGroupInfo { queue: "tight".into(), ..group("g", 2) }, 2, "cpu=2");
    assert!(cluster.cycle().bound.is_empty());
    assert_eq!(
        cluster.reasons("g"),
        [
            "queue tight would exceed its capability: cpu (1 more) (plugin proportion)",
            "pod group is not ready: 1 of minMember 2 have room"
        ]
    );
}

#[test]
fn a_capability_is_never_exceeded() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=8");
    load(&mut cluster, &QueueInfo { capability: resources("cpu=2"), ..queue("a", 9) }, 8);
    load(&mut cluster, &queue("b", 1), 8);
    assert_eq!(bound(&cluster.run(), &["a", "b"]), [2, 6]);
    assert!(cluster.cycle().bound.is_empty());
}

#[test]
fn a_guarantee_is_kept_free() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=8");
    let guaranteed = QueueInfo { guarantee: resources("cpu=4"), ..queue("a", 1) };
    cluster.add(guaranteed.clone());
    load(&mut cluster, &queue("b", 9), 8);
    load(&mut cluster, &queue("c", 9), 8);
    let cycle = cluster.run();
    assert_eq!(cycle.bound.len(), 4);
    load(&mut cluster, &guaranteed, 8);
    assert_eq!(bound(&cluster.cycle(), &["a"]), [4]);
}

#[test]
fn the_queue_of_higher_priority_is_served_first() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=4");
    load(&mut cluster, &queue("a", 1), 4);
    let first = QueueInfo { priority: 5, ..queue("b", 1) };
    cluster.add(first);
    cluster.gang(PodGroupInfo { queue: "b".into(), ..group("b", 2) }, 2, "cpu=1");
    let cycle = cluster.cycle();
    assert_eq!((cycle.units[0], bound(&cycle, &["a", "b"])), (2, vec![2, 2]));
}

#[test]
fn a_queue_that_cannot_be_used_blocks_its_own_jobs_only() {
    let of = |queue: &str| PodGroupInfo { queue: queue.into(), ..group(queue, 1) };
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=8");
    cluster.add(QueueInfo { state: QueueState::Closed, ..queue("closed", 1) });
    cluster.add(QueueInfo { invalid: Some("weight is 0".into()), ..queue("broken", 1) });
    for name in ["closed", "broken", "missing", "default"] {
        cluster.gang(of(name), 1, "cpu=1");
    }
    assert_eq!(cluster.cycle().names(), ["default-0"]);
    for (name, why) in [
        ("closed", "queue closed is Closed"),
        ("broken", "queue broken is invalid: weight is 0"),
        ("missing", "queue missing does not exist"),
    ] {
        assert_eq!(cluster.reasons(name), [why]);
    }
    cluster.add(queue("closed", 1)).add(queue("broken", 1)).add(queue("missing", 1));
    assert_eq!(cluster.cycle().bound.len(), 3);
}

#[test]
fn a_job_that_moves_to_another_queue_is_counted_there() {
    let mut cluster = Cluster::new();
    cluster.nodes(1, "cpu=4");
    cluster.add(QueueInfo { capability: resources("cpu=1"), ..queue("small", 1) }).add(queue("large", 1));
    let of = |queue: &str| PodGroupInfo { queue: queue.into(), ..group("g", 1) };
    cluster.gang(of("small"), 3, "cpu=1");
    assert_eq!(cluster.run().bound.len(), 1);
    cluster.add(of("large"));
    assert_eq!(cluster.cycle().bound.len(), 2);
}
