//! Queues in a tree, invalid queues, and the order in which a queue serves its jobs.
use phalanx_cluster::event::{Dequeue, Event, Phase, PodGroupInfo, QueueInfo, QueueState, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::decision::Decision;
use phalanx_framework::conf::{Arg, Conf, Flag, Position, Value};
use phalanx_resource::DimId;
use proptest::prelude::*;

use phalanx_framework::testing::{group, member, queue, resources};
use phalanx_testkit::random::script;
use phalanx_testkit::{Cycle, TestCluster, helm};

/// Volcano's default with plugin capacity, in a tree, instead of proportion.
fn tree() -> Conf {
    let mut conf = flat();
    for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
        plugin.flags.set(Flag::Hierarchy, plugin.name == "capacity");
    }
    conf
}

/// The same in a flat list.
fn flat() -> Conf {
    let mut conf = helm();
    for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
        if plugin.name == "proportion" {
            plugin.name = "capacity".into();
        }
    }
    conf
}

fn below(parent: &str, name: &str) -> QueueInfo {
    QueueInfo { parent: parent.into(), ..queue(name, 1) }
}

fn capped(capability: &str, queue: QueueInfo) -> QueueInfo {
    QueueInfo { capability: resources(capability), ..queue }
}

/// A gang of the queue's name with minMember 1, of pods that request one core.
fn load(test: &mut TestCluster, queue: &str, pods: u32) {
    test.gang(PodGroupInfo { queue: queue.into(), ..group(queue, 1) }, pods, "cpu=1");
}

fn bound(cycle: &Cycle, queues: &[&str]) -> Vec<usize> {
    queues.iter().map(|name| cycle.bound_of(name)).collect()
}

/// Problems of queues that a cycle reported.
fn told(cycle: &Cycle) -> Vec<(&str, &str)> {
    let told = cycle.decisions.iter().filter_map(|decision| match decision {
        Decision::QueueInvalid { queue, message, .. } => Some((&**queue, &**message)),
        _ => None,
    });
    told.collect()
}

// ---------------------------------------------------------------- limits

/// company (10) has eng (7: web 4, ml) and ops; other has nothing above it but root.
fn company() -> TestCluster {
    let mut test = TestCluster::with(tree());
    test.add(capped("cpu=10", queue("company", 1)));
    test.add(capped("cpu=7", below("company", "eng")));
    test.add(capped("cpu=4", below("eng", "web")));
    test.add(below("eng", "ml")).add(below("company", "ops")).add(queue("other", 1));
    test
}

#[test]
fn no_queue_in_three_levels_exceeds_a_capability_above_it() {
    for (what, load_of, expected) in [
        ("its own capability", [9, 0, 0, 0], [4, 0, 0, 0]),
        ("its parent's", [0, 9, 0, 0], [0, 7, 0, 0]),
        ("the top's", [0, 0, 20, 0], [0, 0, 10, 0]),
        ("no capability but the cluster", [0, 0, 0, 30], [0, 0, 0, 20]),
        ("all want all", [20, 20, 20, 20], [4, 3, 3, 10]),
    ] {
        let mut test = company();
        test.nodes(2, "cpu=10");
        for (name, pods) in ["web", "ml", "ops", "other"].iter().zip(load_of) {
            load(&mut test, name, pods);
        }
        // In turns, so that no queue gets all resources before the others are served.
        let mut sums = vec![0; 4];
        loop {
            let cycle = test.run();
            if cycle.bound.is_empty() {
                break;
            }
            let got = bound(&cycle, &["web", "ml", "ops", "other"]);
            sums.iter_mut().zip(got).for_each(|(sum, got)| *sum += got);
        }
        let eng = sums[0] + sums[1];
        assert!(sums[0] <= 4 && eng <= 7 && eng + sums[2] <= 10, "{what}: {sums:?}");
        if load_of == [20; 4] {
            assert_eq!(sums.iter().sum::<usize>(), 20, "{what}: {sums:?}");
        } else {
            assert_eq!(sums, expected, "{what}");
        }
    }
}

#[test]
fn the_reason_names_the_ancestor_queue_that_is_full() {
    let mut test = company();
    test.nodes(2, "cpu=10");
    load(&mut test, "ml", 7);
    assert_eq!(test.run().bound_of("ml"), 7);
    test.gang(PodGroupInfo { queue: "web".into(), ..group("web", 1) }, 1, "cpu=1");
    assert!(test.cycle().bound.is_empty());
    assert_eq!(
        test.reasons("web"),
        ["queue eng would exceed its capability: cpu (1 more) (plugin capacity)"]
    );
}

#[test]
fn the_allocated_status_of_a_parent_includes_its_children() {
    let mut test = company();
    test.nodes(1, "cpu=10").add(queue("root", 1));
    load(&mut test, "web", 2);
    load(&mut test, "ops", 1);
    let cycle = test.cycle();
    let cpu = |name: &str| {
        cycle.decisions.iter().find_map(|decision| match decision {
            Decision::QueueStatus { queue, allocated } if **queue == *name => {
                Some(allocated.iter().find(|(name, _)| &**name == "cpu")?.1.clone())
            }
            _ => None,
        })
    };
    let got = ["root", "company", "eng", "web", "ml", "ops", "other"].map(cpu);
    let expected = [Some("3"), Some("3"), Some("2"), Some("2"), None, Some("1"), None];
    assert_eq!(got, expected.map(|text| text.map(str::to_owned)));
}

#[test]
fn guarantees_of_sibling_queues_are_kept_free_at_every_level() {
    let guaranteed =
        |guarantee: &str, queue: QueueInfo| QueueInfo { guarantee: resources(guarantee), ..queue };
    let mut test = TestCluster::with(tree());
    test.nodes(2, "cpu=5");
    test.add(guaranteed("cpu=3", queue("kept", 1))).add(queue("team", 1));
    test.add(guaranteed("cpu=2", below("team", "quiet"))).add(below("team", "loud"));
    load(&mut test, "loud", 10);
    assert_eq!(test.run().bound_of("loud"), 5);
    load(&mut test, "quiet", 4);
    load(&mut test, "kept", 4);
    assert_eq!(bound(&test.run(), &["quiet", "kept"]), [2, 3]);
}

#[test]
fn queues_get_their_deserved_before_any_queue_gets_more() {
    let mut test = TestCluster::with(tree());
    test.nodes(2, "cpu=6");
    test.add(deserving("cpu=9", queue("p", 1))).add(deserving("cpu=3", queue("q", 1)));
    test.add(deserving("cpu=6", below("p", "a")))
        .add(deserving("cpu=3", below("p", "b")))
        .add(below("q", "c"));
    // Gangs of one, so that queues take turns.
    for name in ["a", "b", "c"] {
        for at in 0..12 {
            let gang = PodGroupInfo { queue: name.into(), ..group(&format!("{name}{at}"), 1) };
            test.gang(gang, 1, "cpu=1");
        }
    }
    let cycle = test.cycle();
    let of = |queue: &str| cycle.bound.keys().filter(|pod| pod.starts_with(queue)).count();
    assert_eq!([of("a"), of("b"), of("c")], [6, 3, 3]);
    assert_eq!(test.deserved("a", "cpu").as_deref(), Some("6"));
}

#[test]
fn a_job_is_admitted_within_the_capability_of_each_ancestor() {
    let mut test = company();
    test.nodes(4, "cpu=10");
    let asking = |name: &str, queue: &str, cpu: &str| PodGroupInfo {
        queue: queue.into(),
        min_resources: Some(resources(cpu)),
        ..group(name, 1)
    };
    test.add(asking("first", "ml", "cpu=5")).add(asking("second", "web", "cpu=3"));
    test.cycle();
    assert_eq!((test.phase("first"), test.phase("second")), (Phase::Inqueue, Phase::Pending));
    assert_eq!(
        test.reasons("second"),
        ["resource quota of queue eng insufficient: insufficient cpu (1 more) (plugin capacity)"]
    );
}

// ---------------------------------------------------------------- queues that cannot be used

#[test]
fn a_queue_in_a_broken_tree_blocks_its_own_jobs_only() {
    let mut test = TestCluster::with(tree());
    test.nodes(2, "cpu=20");
    test.add(below("ring-b", "ring-a")).add(below("ring-a", "ring-b")).add(below("ring-b", "hangs"));
    test.add(below("self", "self")).add(below("missing", "orphan")).add(below("orphan", "grandchild"));
    test.add(capped("cpu=1", QueueInfo { deserved: resources("cpu=2"), ..queue("odd", 1) }))
        .add(below("odd", "under"));
    test.add(QueueInfo { state: QueueState::Closed, ..queue("closed", 1) });
    test.add(QueueInfo { state: QueueState::Closing, ..queue("closing", 1) });
    test.add(QueueInfo { state: QueueState::Unknown, ..queue("unknown", 1) });
    test.add(queue("parent", 1)).add(below("parent", "leaf"));
    test.add(QueueInfo { invalid: Some("spec.weight: wrong".into()), ..queue("wrong", 1) });
    let rows = [
        ("ring-a", "queue ring-a is invalid: its parents lead back to it, by way of ring-b"),
        ("ring-b", "queue ring-b is invalid: its parents lead back to it, by way of ring-a"),
        (
            "hangs",
            "queue hangs is invalid: queue ring-b above it is invalid: its parents lead back to it, by way of ring-a",
        ),
        ("self", "queue self is invalid: it is its own parent"),
        ("orphan", "queue orphan is invalid: its parent missing does not exist"),
        (
            "grandchild",
            "queue grandchild is invalid: queue orphan above it is invalid: its parent missing does not exist",
        ),
        ("odd", "queue odd is invalid: deserved of cpu is 2, more than capability 1"),
        (
            "under",
            "queue under is invalid: queue odd above it is invalid: deserved of cpu is 2, more than capability 1",
        ),
        ("closed", "queue closed is Closed"),
        ("closing", "queue closing is Closing"),
        ("unknown", "queue unknown is Unknown"),
        ("missing", "queue missing does not exist"),
        ("wrong", "queue wrong is invalid: spec.weight: wrong"),
        (
            "parent",
            "queue parent is invalid: it has 1 queue(s) below it, so jobs cannot be in it (plugin capacity)",
        ),
    ];
    for (name, _) in rows {
        load(&mut test, name, 1);
    }
    load(&mut test, "leaf", 1);
    load(&mut test, "default", 1);
    assert_eq!(test.cycle().names(), ["default-0", "leaf-0"]);
    for (name, why) in rows {
        assert_eq!(test.reasons(name), [why]);
    }
}

#[test]
fn jobs_start_after_a_broken_tree_is_mended() {
    let mut test = TestCluster::with(tree());
    test.nodes(1, "cpu=20");
    test.add(below("b", "a")).add(below("a", "b")).add(below("missing", "c"));
    for name in ["a", "c"] {
        load(&mut test, name, 2);
    }
    assert!(test.run().bound.is_empty());
    test.add(capped("cpu=1", queue("b", 1))).add(capped("cpu=1", queue("missing", 1)));
    assert_eq!(bound(&test.run(), &["a", "c"]), [1, 1]);
    test.add(Event::QueueGone { name: "missing".into(), uid: "".into() }).add(below("root", "a"));
    assert_eq!(bound(&test.run(), &["a", "c"]), [1, 0]);
    assert_eq!(test.reasons("c"), ["queue c is invalid: its parent missing does not exist"]);
}

#[test]
fn contradictory_amounts_of_a_queue_are_reported_on_that_queue() {
    let of = |capability: &str, guarantee: &str, deserved: &str| QueueInfo {
        capability: resources(capability),
        guarantee: resources(guarantee),
        deserved: resources(deserved),
        ..queue("q", 1)
    };
    for (queue, expected) in [
        (of("cpu=3", "cpu=1", "cpu=2"), None),
        (of("cpu=3", "cpu=3", "cpu=3"), None),
        (of("memory=1Gi", "cpu=1", ""), None),
        (of("", "cpu=3", "cpu=2"), Some("guarantee of cpu is 3, more than deserved 2")),
        (of("cpu=1", "cpu=1500m", ""), Some("guarantee of cpu is 1500m, more than capability 1")),
        (of("memory=1Gi", "", "memory=2Gi"), Some("deserved of memory is 2Gi, more than capability 1Gi")),
        (of("example.com/gpu=-1", "", ""), Some("capability of example.com/gpu is -1, expected 0 or more")),
        (of("", "cpu=-2", ""), Some("guarantee of cpu is -2, expected 0 or more")),
        (
            of("cpu=2 memory=1Gi", "cpu=4 memory=3Gi", "cpu=3 memory=4Gi"),
            Some(
                "guarantee of cpu is 4, more than deserved 3 and capability 2; deserved of cpu is 3, more than capability 2; \
                 guarantee of memory is 3Gi, more than capability 1Gi; deserved of memory is 4Gi, more than capability 1Gi",
            ),
        ),
    ] {
        for conf in [tree(), flat(), helm()] {
            let mut test = TestCluster::with(conf);
            test.nodes(1, "cpu=8").add(queue.clone());
            load(&mut test, "q", 1);
            let cycle = test.cycle();
            assert_eq!(told(&cycle), expected.map(|why| ("q", why)).into_iter().collect::<Vec<_>>());
            let reasons: Vec<String> =
                expected.map(|why| format!("queue q is invalid: {why}")).into_iter().collect();
            assert_eq!(test.reasons("q"), reasons);
        }
    }
}

#[test]
fn a_problem_of_a_queue_is_reported_once_and_again_when_it_changes() {
    let mut test = TestCluster::with(tree());
    test.add(below("missing", "q"));
    assert_eq!(told(&test.cycle()), [("q", "its parent missing does not exist")]);
    assert_eq!(told(&test.cycle()), []);
    test.add(below("noone", "q"));
    assert_eq!(told(&test.cycle()), [("q", "its parent noone does not exist")]);
    test.add(queue("q", 1));
    assert_eq!(told(&test.cycle()), []);
    test.add(below("noone", "q"));
    assert_eq!(told(&test.cycle()), [("q", "its parent noone does not exist")]);
}

#[test]
fn children_with_more_deserved_than_their_parent_are_reported_and_served() {
    let mut test = TestCluster::with(tree());
    test.nodes(1, "cpu=8").add(deserving("cpu=3", queue("p", 1)));
    test.add(deserving("cpu=2", below("p", "a"))).add(deserving("cpu=2", below("p", "b")));
    load(&mut test, "a", 1);
    let cycle = test.cycle();
    assert_eq!(told(&cycle), [("p", "its children have more deserved than it has itself: cpu (1 more)")]);
    assert_eq!(cycle.bound_of("a"), 1);
}

#[test]
fn a_flat_plugin_refuses_child_queues_and_names_the_plugin_for_trees() {
    for (conf, plugin) in [(helm(), "proportion"), (flat(), "capacity")] {
        let mut test = TestCluster::with(conf);
        test.nodes(1, "cpu=8");
        test.add(queue("top", 1)).add(QueueInfo { guarantee: resources("cpu=6"), ..below("top", "child") });
        for name in ["top", "child", "default"] {
            load(&mut test, name, 3);
        }
        let cycle = test.run();
        assert_eq!(bound(&cycle, &["top", "child", "default"]), [3, 0, 3]);
        let why = format!(
            "it has parent top, but plugin {plugin} is flat here; a tree needs plugin capacity with enableHierarchy: true"
        );
        assert_eq!(told(&cycle), [("child", &*why)]);
        assert_eq!(test.reasons("child"), [format!("queue child is invalid: {why}")]);
    }
}

// ---------------------------------------------------------------- order of service

/// Three gangs in the order of their names; `big` never fits.
fn in_order(dequeue: Dequeue, conf: Conf) -> TestCluster {
    let mut test = TestCluster::with(conf);
    test.nodes(1, "cpu=4").add(QueueInfo { dequeue, ..queue("q", 1) });
    for (at, (name, cpu)) in
        [("ahead", "cpu=1"), ("big", "cpu=9"), ("small", "cpu=1")].into_iter().enumerate()
    {
        let gang = PodGroupInfo { queue: "q".into(), created: Time(at as i64), ..group(name, 1) };
        test.gang(gang, 1, cpu);
    }
    test
}

#[test]
fn jobs_in_a_fifo_queue_wait_for_its_first_job() {
    let mut test = in_order(Dequeue::Traverse, tree());
    assert_eq!(test.cycle().names(), ["ahead-0", "small-0"]);
    let mut test = in_order(Dequeue::Fifo, tree());
    test.gang(group("elsewhere", 1), 1, "cpu=1");
    assert_eq!(test.run().names(), ["ahead-0", "elsewhere-0"]);
    assert_eq!(test.reasons("small"), ["it is behind ns/big in queue q, whose dequeueStrategy is fifo"]);
    test.gone("big-0").add(Event::PodGroupGone(group("big", 1).key));
    assert_eq!(test.cycle().names(), ["small-0"]);
}

#[test]
fn waiting_surplus_of_a_running_gang_blocks_no_job_of_a_fifo_queue() {
    let mut test = TestCluster::with(tree());
    test.nodes(1, "cpu=4").add(QueueInfo { dequeue: Dequeue::Fifo, ..queue("q", 1) });
    let first = PodGroupInfo { queue: "q".into(), ..group("first", 1) };
    let second = PodGroupInfo { queue: "q".into(), created: Time(5), ..group("second", 1) };
    test.gang(first, 2, "cpu=3").gang(second, 1, "cpu=1");
    assert_eq!(test.run().names(), ["first-0", "second-0"]);
}

#[test]
fn a_fifo_queue_admits_jobs_in_order() {
    for (dequeue, expected) in [(Dequeue::Traverse, Phase::Inqueue), (Dequeue::Fifo, Phase::Pending)] {
        let mut test = TestCluster::with(tree());
        test.nodes(1, "cpu=4").add(capped("cpu=4", QueueInfo { dequeue, ..queue("q", 1) }));
        for (at, (name, cpu)) in [("big", "cpu=9"), ("small", "cpu=1")].into_iter().enumerate() {
            let min_resources = Some(resources(cpu));
            test.add(PodGroupInfo {
                queue: "q".into(),
                created: Time(at as i64),
                min_resources,
                ..group(name, 1)
            });
        }
        test.cycle();
        assert_eq!(test.phase("small"), expected, "{dequeue:?}");
    }
}

#[test]
fn best_effort_pods_in_a_fifo_queue_wait_for_the_first_job() {
    for (dequeue, expected) in [(Dequeue::Traverse, 1), (Dequeue::Fifo, 0)] {
        let mut test = in_order(dequeue, tree());
        let idle = PodGroupInfo { queue: "q".into(), created: Time(9), ..group("idle", 1) };
        test.gang(idle, 1, "");
        assert_eq!(test.cycle().bound_of("idle"), expected, "{dequeue:?}");
    }
}

// ---------------------------------------------------------------- eviction

/// The tree with reclaim and preempt, where plugin capacity alone decides on victims.
fn evicting(levels: i64) -> Conf {
    let mut conf = tree();
    conf.actions.extend(["reclaim", "preempt"].map(Into::into));
    for plugin in conf.tiers.iter_mut().flat_map(|tier| &mut tier.plugins) {
        plugin.flags.set(Flag::Reclaimable, plugin.name == "capacity");
        if plugin.name == "capacity" {
            let level = Arg { value: Value::Int(levels), at: Position::default() };
            plugin.args.0.insert("ancestorReclaimLevel".into(), level);
        }
    }
    conf
}

fn deserving(deserved: &str, queue: QueueInfo) -> QueueInfo {
    QueueInfo { deserved: resources(deserved), ..queue }
}

fn evicted(cycle: &Cycle, queues: &[&str]) -> Vec<usize> {
    let of = |queue: &&str| {
        let prefix = format!("{queue}-");
        let is_of = |decision: &&Decision| matches!(decision, Decision::Evict { pod, .. } if pod.name.starts_with(&prefix));
        cycle.decisions.iter().filter(is_of).count()
    };
    queues.iter().map(of).collect()
}

/// Two teams of two queues each; the pods of `far`, `near` and `other` fill the cluster.
fn full(levels: i64) -> TestCluster {
    let mut test = TestCluster::with(evicting(levels));
    test.nodes(1, "cpu=9")
        .add(deserving("cpu=6", queue("team", 1)))
        .add(deserving("cpu=3", queue("rest", 1)));
    test.add(deserving("cpu=3", below("team", "by"))).add(deserving("cpu=2", below("team", "near")));
    test.add(deserving("cpu=1", below("rest", "far"))).add(below("rest", "other"));
    for (name, pods) in [("near", 4), ("far", 4), ("other", 1)] {
        load(&mut test, name, pods);
    }
    assert_eq!(test.run().bound.len(), 9);
    test
}

#[test]
fn a_queue_reclaims_what_it_deserves_from_near_queues_first() {
    let mut test = full(0);
    test.gang(PodGroupInfo { queue: "by".into(), ..group("by", 3) }, 3, "cpu=1");
    let cycle = test.cycle();
    assert_eq!(evicted(&cycle, &["near", "far", "other"]), [2, 1, 0]);
    assert_eq!(cycle.nominated.len(), 3);
}

#[test]
fn a_gang_beyond_the_deserved_of_its_queue_evicts_no_pods() {
    let mut test = full(0);
    test.gang(PodGroupInfo { queue: "by".into(), ..group("by", 4) }, 4, "cpu=1");
    assert_eq!(evicted(&test.cycle(), &["near", "far", "other"]), [0, 0, 0]);
}

#[test]
fn jobs_behind_the_first_of_a_fifo_queue_evict_no_pods() {
    for (dequeue, expected) in [(Dequeue::Traverse, 1), (Dequeue::Fifo, 0)] {
        let mut test = full(0);
        test.add(QueueInfo { dequeue, ..deserving("cpu=3", below("team", "by")) });
        test.gang(PodGroupInfo { queue: "by".into(), ..group("first", 1) }, 1, "cpu=9");
        test.gang(PodGroupInfo { queue: "by".into(), created: Time(1), ..group("second", 1) }, 1, "cpu=1");
        let evicted: usize = evicted(&test.cycle(), &["near", "far", "other"]).iter().sum();
        assert_eq!(evicted, expected, "{dequeue:?}");
    }
}

// ---------------------------------------------------------------- properties

/// A change of one of six queues: its parent (itself, another, a missing one, root), or its end.
fn moves() -> impl Strategy<Value = Vec<(usize, Option<usize>)>> {
    prop::collection::vec((0usize..6, prop::option::weighted(0.8, 0usize..8)), 1..40)
}

fn moved((at, parent): &(usize, Option<usize>)) -> Event {
    let name = format!("q{at}");
    match parent {
        None => Event::QueueGone { name: name.as_str().into(), uid: "".into() },
        Some(7) => queue(&name, 1).into(),
        Some(parent) => below(&format!("q{parent}"), &name).into(),
    }
}

/// The place of a queue in the tree, by names.
fn places(cluster: &Cluster) -> Vec<String> {
    let mut places: Vec<String> = cluster
        .queues
        .iter()
        .map(|(id, queue)| {
            let way: Vec<&str> = cluster.queue_path(id).map(|above| &*cluster.queues[above].name).collect();
            let held = queue.subtree.pending.get(DimId::CPU);
            format!("{way:?} {held} {:?} {}", cluster.queue_fault(id), queue.tree.children)
        })
        .collect();
    places.sort();
    places
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(phalanx_testkit::cases(300)))]

    #[test]
    fn a_tree_does_not_depend_on_the_order_of_queue_events(moves in moves(), jobs in prop::collection::vec(0usize..6, 0..6)) {
        let jobs = || jobs.iter().enumerate().flat_map(|(at, queue)| {
            let name = format!("g{at}");
            let gang = PodGroupInfo { queue: format!("q{queue}").into(), ..group(&name, 1) };
            [Event::from(gang), member(&name, 0, &format!("cpu={}", 1 << at)).into()]
        });
        let mut lived = Cluster::new(ClusterOptions::default());
        for event in jobs().chain(moves.iter().map(moved)) {
            lived.apply(event);
            prop_assert_eq!(lived.check(), Vec::<String>::new());
        }
        let mut last = std::collections::BTreeMap::new();
        last.extend(moves.iter().map(|change| (change.0, change.1)));
        let mut made = Cluster::new(ClusterOptions::default());
        for change in last.into_iter().filter(|(_, parent)| parent.is_some()).rev() {
            made.apply(moved(&change));
        }
        for event in jobs() {
            made.apply(event);
        }
        prop_assert_eq!(places(&lived), places(&made));
        for id in lived.queues.ids() {
            prop_assert!(lived.queue_path(id).count() <= lived.queues.len(), "a way up that does not end");
        }
    }

    #[test]
    fn no_subtree_grows_above_its_capability(script in script(), parents in prop::collection::vec(0usize..5, 4)) {
        let mut script = script;
        for (at, queue) in script.queues.iter_mut().enumerate() {
            queue.parent = if parents[at] < at { format!("q{}", parents[at]).into() } else { "".into() };
        }
        let mut test = script.cluster_of(tree());
        for (happenings, fails) in &script.future {
            let before = test.cluster.clone();
            let cycle = test.cycle();
            for (id, queue) in test.cluster.queues.iter() {
                for (dim, limit) in queue.capability.iter() {
                    let (now, was) = (queue.subtree.held(dim), before.queues[id].subtree.held(dim));
                    prop_assert!(now <= limit.max(was), "{} holds {now} of {limit}", queue.name);
                }
            }
            script.go_on(&mut test, &cycle.bound, happenings, *fails);
            prop_assert_eq!(test.cluster.check(), Vec::<String>::new());
        }
    }

    /// Whatever other queues hold: one node, pods of one core, and guarantees that fit the node.
    #[test]
    fn every_queue_gets_its_guarantee(
        rows in prop::collection::vec((0usize..6, 0i64..4, 0u32..12), 2..7), spare in 0i64..6, conf in prop::bool::ANY,
    ) {
        let in_tree = conf;
        let mut test = TestCluster::with(if in_tree { tree() } else { flat() });
        let parent = |at: usize| Some(rows[at].0).filter(|parent| in_tree && *parent < at);
        let is_leaf = |at: usize| (0..rows.len()).all(|other| parent(other) != Some(at));
        let guarantee = |at: usize| if is_leaf(at) { rows[at].1 } else { 0 };
        let total: i64 = (0..rows.len()).map(guarantee).sum();
        test.nodes(1, &format!("cpu={} pods=999", total + spare));
        for at in 0..rows.len() {
            let parent = parent(at).map(|parent| format!("q{parent}")).unwrap_or_default();
            let guarantee = resources(&format!("cpu={}", guarantee(at)));
            test.add(QueueInfo { guarantee, ..below(&parent, &format!("q{at}")) });
        }
        let name = |at: usize| format!("q{at}");
        for at in (0..rows.len()).filter(|at| is_leaf(*at)) {
            load(&mut test, &name(at), rows[at].2);
            test.run();
        }
        for at in (0..rows.len()).filter(|at| is_leaf(*at)) {
            test.gang(PodGroupInfo { queue: name(at).into(), ..group(&format!("late{at}"), 1) }, 20, "cpu=1");
        }
        test.run();
        for at in (0..rows.len()).filter(|at| is_leaf(*at)) {
            let queue = &test.cluster.queues[test.cluster.queue_named(&name(at)).expect("a queue")];
            let held = queue.own.held(DimId::CPU) / 1000;
            prop_assert!(held >= guarantee(at), "{} holds {held} of its {}", queue.name, guarantee(at));
        }
    }

    #[test]
    fn an_invalid_queue_does_not_change_decisions_for_other_queues(
        script in script(), which in 0usize..4, pods in 1u32..9, guarantee in 0u32..9,
    ) {
        let broken = QueueInfo { guarantee: resources(&format!("cpu={guarantee}")), ..queue("broken", 9) };
        let broken = match which {
            0 => below("broken", "broken"),
            1 => below("missing", "broken"),
            2 => capped("cpu=1", QueueInfo { deserved: resources("cpu=7"), ..broken }),
            _ => QueueInfo { invalid: Some("wrong".into()), ..broken },
        };
        for conf in [tree(), flat(), helm()] {
            let plain = script.cluster_of(conf.clone()).cycle();
            let mut test = script.cluster_of(conf);
            test.add(broken.clone());
            load(&mut test, "broken", pods);
            let beside = test.cycle();
            prop_assert_eq!(&plain.bound, &beside.bound);
            prop_assert_eq!(&plain.nominated, &beside.nominated);
        }
    }
}
