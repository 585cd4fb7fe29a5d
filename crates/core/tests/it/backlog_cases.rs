//! What activates an unschedulable job: single cases, each against a scheduler that tries all jobs in each cycle.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{
    Constraints, Dequeue, Disk, DiskKind, Event, HostPort, Key, PdbInfo, PodGroupInfo, PodInfo, PodPhase,
    QueueInfo, QueueState, Time,
};
use phalanx_cluster::label::Selector;
use phalanx_core::RetryLimits;
use phalanx_framework::conf::{Conf, PluginConf};

use crate::backlog::patient;
use phalanx_framework::testing::{group, member, node, pod, queue, running};
use phalanx_testkit::settings::{by_age, named};
use phalanx_testkit::{Cycle, TestCluster, helm};

/// A configuration with these plugins beside those that every cluster needs.
fn conf_with(plugins: &str) -> Conf {
    let text = format!(
        "actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n{plugins}  \
         - name: predicates\n  - name: nodeorder\n"
    );
    named("case", &text).conf
}

fn tree() -> Conf {
    conf_with("  - name: capacity\n    enableHierarchy: true\n")
}

/// The nodes of pods at the end, which a backlog does not change.
fn ends_alike(
    conf: &Conf,
    patience: RetryLimits,
    run: impl Fn(&mut TestCluster),
) -> BTreeMap<String, String> {
    let end = |patience: RetryLimits| {
        let mut test = TestCluster::with(conf.clone());
        test.set_retry_limits(patience);
        run(&mut test);
        let nodes = test.pod_names().into_iter().filter_map(|pod| {
            let node = test.pod(&pod).life.node?.to_string();
            Some((pod, node))
        });
        nodes.collect::<BTreeMap<_, _>>()
    };
    let (backlog, all) = (end(patience), end(RetryLimits::unlimited()));
    assert_eq!(backlog, all);
    all
}

fn class(name: &str, value: i32) -> Event {
    Event::PriorityClass { name: name.into(), value, global_default: false }
}

/// Two full nodes; a gang of one and then a gang of two, whose pods need a node each. The first node is being released
/// and reserved for the first gang; then the second node is being released.
fn frees_one_by_one(test: &mut TestCluster) {
    test.nodes(2, "cpu=2 memory=8Gi pods=10");
    test.add(running(pod("x", "cpu=2"), "n0")).add(running(pod("y", "cpu=2"), "n1"));
    test.cycle();
    for (name, size) in [("low", 1), ("high", 2)] {
        let class = Some(Arc::from(name));
        let created = Time(i64::from(size));
        test.add(PodGroupInfo { priority_class: class.clone(), created, ..group(name, size) });
        for at in 0..size {
            test.add(PodInfo { priority_class: class.clone(), ..member(name, at, "cpu=2") });
        }
    }
    test.cycle();
    test.change("x", |pod| pod.life.deleting = true);
    assert_eq!(test.cycle().nominated["low-0"].as_deref(), Some("n0"));
    test.change("y", |pod| pod.life.deleting = true);
    test.cycle();
    test.cycle();
}

/// A queue `leaf` below queue `top`, and gangs in it that wait for room, and then until `top` opens again.
fn closes_and_opens(test: &mut TestCluster, top: &str, gangs: usize) {
    let (parent, top) = (top.into(), queue(top, 1));
    test.add(top.clone()).add(QueueInfo { parent, ..queue("leaf", 1) });
    test.add(node("n0", "cpu=1 memory=800Gi pods=1000"));
    for at in 0..gangs {
        let info = PodGroupInfo { queue: "leaf".into(), ..group(&format!("g{at}"), 1) };
        test.gang(info, 1, "cpu=2");
    }
    test.run();
    test.add(QueueInfo { state: QueueState::Closed, ..top.clone() });
    test.run();
    test.add(node("n1", "cpu=800 memory=800Gi pods=1000"));
    assert!(test.run().bound.is_empty());
    test.add(top);
    test.run();
}

#[test]
fn a_parent_queue_that_opens_activates_jobs_of_its_descendants() {
    for (top, conf) in [("top", tree()), ("root", tree()), ("root", helm())] {
        let many = ends_alike(&conf, RetryLimits::default(), |it| closes_and_opens(it, top, 160));
        assert_eq!(many.len(), 160, "{top}");
        assert_eq!(ends_alike(&conf, patient(), |it| closes_and_opens(it, top, 1)).len(), 1, "{top}");
    }
}

#[test]
fn a_queue_that_is_created_again_activates_its_jobs() {
    let ends = ends_alike(&helm(), patient(), |test| {
        test.nodes(1, "cpu=1 pods=9").add(queue("q", 1));
        test.gang(PodGroupInfo { queue: "q".into(), ..group("g", 1) }, 1, "cpu=2");
        test.run();
        test.add(Event::QueueGone { name: "q".into(), uid: "".into() });
        test.run();
        test.run();
        test.add(node("n1", "cpu=2 pods=9"));
        test.run();
        test.add(queue("q", 1));
        test.run();
    });
    assert_eq!(ends["g-0"], "n1");
}

#[test]
fn a_job_is_tried_on_room_reserved_for_lower_priority() {
    let ends = ends_alike(&helm(), patient(), |test| {
        test.add(class("high", 10));
        frees_one_by_one(test);
        test.gone("x").gone("y");
        test.run();
        test.run();
    });
    assert_eq!(ends.keys().collect::<Vec<_>>(), ["high-0", "high-1"]);
}

#[test]
fn a_job_is_tried_on_room_reserved_for_a_job_whose_priority_fell() {
    let ends = ends_alike(&helm(), patient(), |test| {
        test.add(class("low", 10)).add(class("high", 10));
        frees_one_by_one(test);
        test.add(class("low", 9));
        test.cycle();
        test.gone("x").gone("y");
        test.run();
        test.run();
    });
    assert_eq!(ends.keys().collect::<Vec<_>>(), ["high-0", "high-1"]);
}

#[test]
fn a_job_is_tried_when_fewer_scarce_resources_are_idle() {
    let conf = conf_with(
        "  - name: resource-strategy-fit\n    arguments:\n      proportional:\n        enable: true\n        resources: gpu\n        \
         resourceProportion: {gpu.cpu: 4, gpu.memory: 0}\n",
    );
    let ends = ends_alike(&conf, patient(), |test| {
        test.nodes(1, "cpu=40 memory=100Gi gpu=8 pods=100");
        test.gang(group("plain", 1), 1, "cpu=16");
        assert!(test.run().bound.is_empty(), "32 cores stay for the 8 units");
        test.gang(group("scarce", 1), 1, "cpu=8 gpu=8");
        test.run();
        test.run();
    });
    assert_eq!(ends.len(), 2);
}

#[test]
fn a_free_port_or_disk_activates_a_job_without_more_idle_resources() {
    let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
    let disk = Disk { of: DiskKind::Gce, name: "a".into(), monitors: Vec::new(), read_only: false };
    for constraints in [
        Constraints { host_ports: vec![port], ..Constraints::default() },
        Constraints { disks: vec![disk], ..Constraints::default() },
    ] {
        let with = |pod: PodInfo| PodInfo { constraints: Arc::new(constraints.clone()), ..pod };
        let foreign = |name: &str| PodInfo { ours: false, ..pod(name, "cpu=1") };
        let ends = ends_alike(&helm(), patient(), |test| {
            test.nodes(1, "cpu=4 memory=100Gi pods=100");
            test.add(running(with(foreign("a")), "n0"));
            test.cycle();
            test.add(with(pod("w", "cpu=1")));
            assert!(test.run().bound.is_empty());
            test.gone("a").add(running(foreign("b"), "n0"));
            test.run();
        });
        assert!(ends.contains_key("w"), "{constraints:?}");
    }
}

/// A gang of two that lost a member and reserves the rest of its node, and a pod that would fit there.
fn gathers(patience: RetryLimits) -> TestCluster {
    let mut test = TestCluster::new();
    test.set_retry_limits(patience);
    test.nodes(1, "cpu=4 memory=8Gi pods=10").add(group("b", 2));
    for at in 0..2 {
        test.add(running(member("b", at, "cpu=2"), "n0"));
    }
    test.outcome();
    test.gone("b-1").add(running(PodInfo { ours: false, ..pod("f", "cpu=1") }, "n0"));
    test.add(member("b", 2, "cpu=2")).add(pod("s", "cpu=1"));
    test
}

#[test]
fn a_cycle_is_due_when_the_reservation_of_a_repair_ends() {
    for patience in
        [RetryLimits::default(), RetryLimits { flush_ms: i64::MAX, ..RetryLimits::default() }, patient()]
    {
        let mut test = gathers(patience);
        let begin = Time(test.now.0 + 1000);
        assert_eq!(followed(&mut test, "s"), Time(begin.0 + 600_000), "ten minutes later");
        test.start("s", "n0");
        // After ten minutes for other jobs the gang may have a reservation again.
        assert_eq!(followed(&mut test, "b-2"), Time(begin.0 + 1_200_000));
    }
}

/// The time at which a pod gets a node, if cycles run only when one is due.
fn followed(test: &mut TestCluster, pod: &str) -> Time {
    for _ in 0..10 {
        let outcome = test.outcome();
        let cycle = Cycle::of(outcome.decisions);
        if cycle.bound.contains_key(pod) || cycle.nominated.get(pod).is_some_and(Option::is_some) {
            return test.now;
        }
        let next = outcome.wake.into_iter().chain(outcome.flush).chain(outcome.repair).min().expect("a time");
        test.now = Time(next.0.max(test.now.0) - 1000);
    }
    panic!("{pod} waits for ever");
}

#[test]
fn a_flush_is_due_while_any_job_waits() {
    let mut test = TestCluster::new();
    test.nodes(1, "cpu=1 pods=10");
    assert_eq!(test.outcome().flush, None, "no job waits");
    test.add(pod("w", "cpu=9"));
    let outcome = test.outcome();
    assert_eq!((outcome.wake, outcome.flush), (None, Some(Time(test.now().0 + 300_000))));
    test.gone("w");
    assert_eq!(test.outcome().flush, None, "it is gone");
}

#[test]
fn a_new_job_order_counts_for_unschedulable_jobs() {
    let ends = ends_alike(&by_age().conf, patient(), |test| {
        test.nodes(1, "cpu=1 pods=10").add(class("high", 10)).gang(group("runs", 1), 1, "cpu=1");
        test.run();
        for (name, class, created) in [("low", None, 1), ("high", Some("high".into()), 2)] {
            let group = PodGroupInfo { created: Time(created), priority_class: class, ..group(name, 1) };
            test.gang(group, 1, "cpu=1");
        }
        test.run();
        test.run();
        test.set_conf(conf_with(""));
        test.run();
        test.run();
        test.change("runs-0", |pod| pod.life.phase = PodPhase::Succeeded);
        test.run();
    });
    assert_eq!(ends.keys().collect::<Vec<_>>(), ["high-0", "runs-0"]);
}

/// The number of cycles until a gang gets its victim, which a budget protects no longer, behind this many other gangs
/// for which no pod may be evicted.
fn cycles_behind(others: u32) -> Option<usize> {
    let mut conf = helm();
    conf.actions.push("preempt".into());
    conf.tiers[0].plugins.push(PluginConf { name: "pdb".into(), ..PluginConf::default() });
    let mut test = TestCluster::with(conf);
    test.nodes(2, "cpu=4 memory=1000Gi pods=100").add(class("top", 20)).add(class("high", 10));
    let all = Some(Selector(Vec::new()));
    let budget = |allowed| PdbInfo {
        key: Key::new("ns", "all"),
        selector: all.clone(),
        allowed,
        ..PdbInfo::default()
    };
    test.add(budget(0));
    for at in 0..2 {
        test.add(running(pod(&format!("low{at}"), "cpu=3"), &format!("n{at}")));
    }
    let mut gang = |name: &str, class: &str, created: u32, size, request: &str| {
        let class: Option<Arc<str>> = Some(class.into());
        let created = Time(i64::from(created));
        test.add(PodGroupInfo { created, priority_class: class.clone(), ..group(name, size) });
        for at in 0..size {
            test.add(PodInfo { priority_class: class.clone(), ..member(name, at, request) });
        }
    };
    for at in 0..others {
        gang(&format!("g{at}"), "top", at, 2, &format!("cpu=3 memory={}Mi", 100 + at));
    }
    gang("last", "high", 0, 1, "cpu=3");
    for _ in 0..4 {
        assert!(test.cycle().evicted.is_empty());
    }
    test.add(budget(1));
    (1..=300).find(|_| !test.cycle().evicted.is_empty())
}

#[test]
fn each_waiting_job_gets_a_search_for_victims_in_turn() {
    for others in [0, 100, 320] {
        let cycles = cycles_behind(others);
        // Sixteen jobs are tried in each cycle, and a failed search may be cached for ten cycles.
        let most = others as usize / 16 + 12;
        assert!(cycles.is_some_and(|cycles| cycles <= most), "{others} others: {cycles:?}");
    }
}

/// A running gang of one with a waiting surplus pod.
fn would_grow(test: &mut TestCluster, name: &str, created: i64, holds: &str, wants: &str) {
    test.add(PodGroupInfo { created: Time(created), ..group(name, 1) });
    test.add(running(member(name, 0, holds), "n0")).add(member(name, 1, wants));
}

#[test]
fn running_gangs_with_waiting_surplus_are_unschedulable() {
    let mut test = TestCluster::new();
    test.set_retry_limits(RetryLimits { all_up_to: 0, per_cycle: 1, ..patient() });
    test.nodes(1, "cpu=21 pods=100").add(running(pod("f", "cpu=1"), "n0"));
    for at in 0..20 {
        would_grow(&mut test, &format!("g{at}"), 20 - at, "cpu=1", "cpu=1");
    }
    for _ in 0..3 {
        assert!(test.run().bound.is_empty());
        let pending = test.pending();
        assert_eq!((pending.active, pending.backoff, pending.unschedulable), (0, 0, 20));
    }
    test.change("f", |pod| pod.life.phase = PodPhase::Succeeded);
    assert_eq!(test.run().names(), ["g19-1"], "the eldest");
    test.add(node("n1", "cpu=1 pods=100"));
    assert_eq!(test.run().names(), ["g18-1"]);
}

#[test]
fn surplus_in_a_fifo_queue_waits_for_the_jobs_ahead() {
    for patience in [RetryLimits { all_up_to: 0, per_cycle: 1, ..patient() }, RetryLimits::unlimited()] {
        let mut test = TestCluster::new();
        test.set_retry_limits(patience);
        test.add(QueueInfo { dequeue: Dequeue::Fifo, ..queue("default", 1) });
        test.nodes(1, "cpu=21 pods=100").add(running(pod("f", "cpu=1"), "n0"));
        for at in 0..20 {
            would_grow(&mut test, &format!("g{at}"), 20 - at, "cpu=1", "cpu=1");
        }
        assert!(test.run().bound.is_empty());
        test.add(PodGroupInfo { created: Time(0), ..group("ahead", 1) }).add(member("ahead", 0, "cpu=3"));
        assert!(test.run().bound.is_empty());
        test.change("f", |pod| pod.life.phase = PodPhase::Succeeded);
        assert!(test.run().bound.is_empty(), "held up");
        test.gone("ahead-0");
        assert_eq!(test.run().names(), ["g19-1"], "the eldest");
        test.add(node("n1", "cpu=1 pods=100"));
        assert_eq!(test.run().names(), ["g18-1"]);
    }
}

#[test]
fn a_new_node_changes_the_order_of_unschedulable_jobs_by_share() {
    let ends = ends_alike(&helm(), patient(), |test| {
        test.add(node("n0", "cpu=10 memory=10Gi pods=100"));
        test.add(running(pod("f", "cpu=5 memory=4Gi"), "n0"));
        would_grow(test, "cores", 1, "cpu=4 memory=1Gi", "cpu=3");
        would_grow(test, "memory", 2, "cpu=1 memory=5Gi", "cpu=3");
        (0..3).for_each(|_| drop(test.run()));
        test.add(node("n1", "memory=90Gi pods=100"));
        test.run();
        test.change("f", |pod| pod.life.phase = PodPhase::Succeeded);
        test.run();
    });
    assert!(ends.contains_key("memory-1") && !ends.contains_key("cores-1"), "{ends:?}");
}
