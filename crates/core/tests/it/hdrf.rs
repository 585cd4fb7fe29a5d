//! Plugin drf with `enableHierarchy`: queues ordered by their annotations.
use phalanx_cluster::annotation::{HIERARCHY, HIERARCHY_WEIGHTS};
use phalanx_cluster::event::{PodGroupInfo, QueueInfo, QueueState, Time};
use phalanx_cluster::id::TaskId;
use phalanx_core::SchedulerState;
use phalanx_core::session::Session;
use phalanx_framework::conf::{Conf, Flag};

use phalanx_framework::plugin::EvictionKind;
use phalanx_framework::testing::{eviction, group, member, queue, running, task_of};
use phalanx_testkit::{TestCluster, helm, set_flag};

fn conf() -> Conf {
    let mut conf = helm();
    for tier in &mut conf.tiers {
        tier.plugins.retain(|plugin| plugin.name != "proportion");
    }
    set_flag(&mut conf, "drf", Flag::Hierarchy, true);
    conf
}

fn at(name: &str, hierarchy: &str, weights: &str) -> QueueInfo {
    let pairs = [(HIERARCHY, hierarchy), (HIERARCHY_WEIGHTS, weights)];
    QueueInfo {
        annotations: pairs.map(|(key, value)| (key.into(), value.into())).into_iter().collect(),
        ..queue(name, 1)
    }
}

/// Queues, each with a gang of its name that has this many pods and minMember 1.
fn test(room: &str, queues: &[(QueueInfo, u32, &str)]) -> TestCluster {
    let mut test = TestCluster::with(conf());
    test.nodes(1, room);
    for (queue, pods, request) in queues {
        test.add(queue.clone());
        test.gang(PodGroupInfo { queue: queue.name.clone(), ..group(&queue.name, 0) }, *pods, request);
    }
    test
}

fn bound(test: &mut TestCluster, names: &[&str]) -> Vec<usize> {
    let cycle = test.cycle();
    names.iter().map(|name| cycle.bound_of(name)).collect()
}

/// Examples of the paper on hierarchical dominant resource fairness, as in Volcano's tests.
#[test]
fn dominant_shares_are_fair_at_each_level_of_the_tree() {
    let rescaling = [
        (at("sci", "root/sci", "100/50"), 10, "cpu=1 memory=1G"),
        (at("dev", "root/eng/dev", "100/50/50"), 10, "cpu=1"),
        (at("prod", "root/eng/prod", "100/50/50"), 10, "memory=1G"),
    ];
    let mut it = test("cpu=10 memory=10G pods=50", &rescaling);
    assert_eq!(bound(&mut it, &["sci", "dev", "prod"]), [5, 5, 5]);
    let blocking = [
        (at("n1", "root/n1", "100/25"), 30, "cpu=1"),
        (at("n2", "root/n2", "100/25"), 30, "cpu=1"),
        (at("n31", "root/n3/n31", "100/25/50"), 30, "cpu=1"),
        (at("n32", "root/n3/n32", "100/25/50"), 30, "memory=1G"),
        (at("n4", "root/n4", "100/25"), 30, "memory=1G"),
    ];
    let mut it = test("cpu=30 memory=30G pods=500", &blocking);
    assert_eq!(bound(&mut it, &["n1", "n2", "n31", "n32", "n4"]), [10, 10, 10, 15, 15]);
}

#[test]
fn weights_count_at_every_level() {
    for (weights, expected) in [
        (["1/1", "1/1/1", "1/1/1"], [6, 3, 3]),
        (["1/1", "1/2/1", "1/2/1"], [4, 4, 4]),
        // The share of an inner queue follows from its child with the smallest share, whatever the weights are.
        (["1/1", "1/1/2", "1/1/1"], [5, 5, 2]),
        (["1/1", "1/0.5/1", "1/0.5/1"], [6, 3, 3]),
    ] {
        let queues = [
            (at("sci", "root/sci", weights[0]), 20, "cpu=1"),
            (at("dev", "root/eng/dev", weights[1]), 20, "cpu=1"),
            (at("prod", "root/eng/prod", weights[2]), 20, "cpu=1"),
        ];
        let mut it = test("cpu=12 pods=99", &queues);
        assert_eq!(bound(&mut it, &["sci", "dev", "prod"]), expected, "{weights:?}");
    }
}

#[test]
fn unrequested_resources_go_to_sibling_queues_first() {
    let queues = [
        (at("sci", "root/sci", "1/1"), 20, "cpu=1"),
        (at("dev", "root/eng/dev", "1/1/1"), 20, "cpu=1"),
        (at("prod", "root/eng/prod", "1/1/1"), 1, "cpu=1"),
    ];
    let mut it = test("cpu=12 pods=99", &queues);
    assert_eq!(bound(&mut it, &["sci", "dev", "prod"]), [6, 5, 1]);
}

#[test]
fn a_queue_whose_annotations_cannot_be_read_blocks_its_own_jobs_only() {
    for (hierarchy, weights, why) in [
        (
            "root/a/b",
            "1/2",
            "volcano.sh/hierarchy-weights has 2 parts, expected 3, as many as volcano.sh/hierarchy",
        ),
        (
            "root/a",
            "",
            "volcano.sh/hierarchy-weights has 0 parts, expected 2, as many as volcano.sh/hierarchy",
        ),
        ("root/a", "1/x", "volcano.sh/hierarchy-weights has \"x\", expected numbers above 0"),
        ("root/a", "1/-2", "volcano.sh/hierarchy-weights has \"-2\", expected numbers above 0"),
        ("root/a", "1/NaN", "volcano.sh/hierarchy-weights has \"NaN\", expected numbers above 0"),
        ("root//a", "1/2/3", "volcano.sh/hierarchy has an empty part"),
    ] {
        let queues =
            [(at("good", "root/good", "1/1"), 4, "cpu=1"), (at("bad", hierarchy, weights), 4, "cpu=1")];
        let mut it = test("cpu=4", &queues);
        assert_eq!(bound(&mut it, &["good", "bad"]), [4, 0], "{hierarchy} {weights}");
        assert_eq!(it.reasons("bad"), [format!("queue bad is invalid: {why}")]);
    }
}

#[test]
fn of_two_queues_with_contradictory_annotations_one_is_refused() {
    for (what, one, other, expected) in [
        ("above another", ("root/x", "1/1"), ("root/x/y", "1/1/1"), [0, 2]),
        ("above another, by a part of a name", ("root/x", "1/1"), ("root/xy", "1/1"), [2, 2]),
        ("the same", ("root/x", "1/1"), ("root/x", "1/1"), [2, 2]),
        ("the same with another weight", ("root/x", "1/1"), ("root/x", "1/2"), [2, 0]),
        ("weights that differ further up", ("root/x/a", "1/1/1"), ("root/x/b", "1/2/1"), [2, 0]),
        ("at the root", ("root", "1"), ("root/x", "1/1"), [2, 2]),
    ] {
        let younger = QueueInfo { created: Time(1), ..at("other", other.0, other.1) };
        let mut it = test("cpu=9", &[(at("one", one.0, one.1), 2, "cpu=1"), (younger, 2, "cpu=1")]);
        assert_eq!(bound(&mut it, &["one", "other"]), expected, "{what}");
    }
}

#[test]
fn requests_of_a_closed_queue_do_not_count_in_shares() {
    let closed = QueueInfo { state: QueueState::Closed, ..at("prod", "root/eng/prod", "1/1/1") };
    let queues = [
        (at("sci", "root/sci", "1/1"), 20, "cpu=1"),
        (at("dev", "root/eng/dev", "1/1/1"), 2, "cpu=1"),
        (closed, 9, "cpu=1"),
    ];
    let mut it = test("cpu=12 pods=99", &queues);
    assert_eq!(bound(&mut it, &["sci", "dev", "prod"]), [10, 2, 0]);
}

#[test]
fn victims_leave_their_queue_no_smaller_share_than_the_preemptor() {
    let mut it = TestCluster::with(conf());
    it.nodes(1, "cpu=12 pods=99");
    for queue in [
        at("sci", "root/sci", "1/1"),
        at("dev", "root/eng/dev", "1/1/1"),
        at("prod", "root/eng/prod", "1/1/1"),
    ] {
        it.add(PodGroupInfo { queue: queue.name.clone(), ..group(&queue.name, 0) }).add(queue);
    }
    for index in 0..8 {
        it.add(running(member("dev", index, "cpu=1"), "n0"));
    }
    for index in 0..2 {
        it.add(running(member("sci", index, "cpu=1"), "n0"));
        it.add(running(member("prod", index, "cpu=1"), "n0"));
    }
    for (name, pending) in [("dev", 8), ("sci", 2), ("prod", 2)] {
        for index in pending..pending + 20 {
            it.add(member(name, index, "cpu=1"));
        }
    }
    let (mut conf, mut state) = (conf(), SchedulerState::new(1));
    for tier in &mut conf.tiers {
        tier.plugins.retain(|plugin| plugin.name == "drf");
    }
    let session = Session::open(&mut it.cluster, &conf, &mut state, Time(0));
    let victims = |by: &str, of: &str, count: u32| {
        let cluster = &*session.cluster;
        let of: Vec<TaskId> = (0..count).map(|index| task_of(cluster, &format!("{of}-{index}"))).collect();
        let eviction = eviction(EvictionKind::Reclaim, task_of(cluster, by));
        let mut said = session.tiers.every().filter_map(|it| it.evictable(cluster, eviction, &of));
        said.next().expect("an opinion").len()
    };
    // Within eng, dev loses pods while its share is larger than that of prod, which would have 3.
    assert_eq!(victims("prod-2", "dev", 8), 4);
    assert_eq!(victims("dev-8", "prod", 2), 0);
    assert_eq!(victims("dev-8", "sci", 2), 0);
    // No resource is left, so every queue is saturated and counts in full: sci would have 3, eng 10 less its victims.
    assert_eq!(victims("sci-2", "dev", 8), 6);
    assert_eq!(victims("sci-2", "prod", 2), 2);
}
