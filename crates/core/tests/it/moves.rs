//! Pods that `shuffle` moves, and the places that are kept for their successors.
use std::sync::Arc;

use phalanx_cluster::event::{Event, Measure, NodeInfo, NodeUsage, PodGroupInfo, PodInfo, QueueInfo, Time};
use phalanx_core::RetryLimits;
use phalanx_framework::conf::{ActionConf, Conf, PluginConf, Tier, Value};

use phalanx_framework::testing::{args, group, leaving, member, node, pod, queue, resources, running};
use phalanx_testkit::TestCluster;

fn shuffle(name: &str, value: Value) -> ActionConf {
    ActionConf { name: "shuffle".into(), args: args(&[(name, value)]), ..ActionConf::default() }
}

/// Pods are moved from nodes above 80 % of use in the first cycle; a place is kept for three seconds.
fn conf() -> Conf {
    let percents = |percent: i64| Value::from([("cpu", percent.into())]);
    let params = Value::from([("thresholds", percents(30)), ("targetThresholds", percents(80))]);
    let strategies = Value::List(vec![[("name", "lowNodeUtilization".into()), ("params", params)].into()]);
    let plugin = |name: &str, list: &[(&str, Value)]| PluginConf {
        name: name.into(),
        args: args(list),
        ..PluginConf::default()
    };
    let plugins = vec![
        plugin("gang", &[]),
        plugin("predicates", &[]),
        plugin("capacity", &[]),
        plugin("rescheduling", &[("strategies", strategies)]),
    ];
    Conf {
        actions: ["enqueue", "allocate", "backfill", "shuffle"].map(Into::into).into(),
        tiers: vec![Tier { plugins }],
        configurations: vec![shuffle("keepPlace", "3s".into())],
        ..Conf::default()
    }
}

fn labelled(pod: PodInfo) -> PodInfo {
    PodInfo { labels: [("app".into(), "web".into())].into_iter().collect(), ..pod }
}

fn used(node: &str, percent: u32) -> Event {
    let part = Measure::Part(percent * 10_000);
    Event::NodeUsage(NodeUsage {
        node: node.into(),
        cpu: part,
        memory: Measure::Part(0),
        since: Time(0),
        at: None,
    })
}

/// The pod runs on `busy`, which is cordoned; `idle` has as much room.
fn busy_with(info: PodInfo) -> TestCluster {
    let mut test = TestCluster::with(conf());
    test.add(NodeInfo { unschedulable: true, ..node("busy", "cpu=2 memory=4Gi") })
        .add(node("idle", "cpu=2 memory=4Gi"));
    test.add(used("busy", 95)).add(used("idle", 0)).add(running(info, "busy"));
    test
}

/// The same when the pod `web-0` is to be moved and another pod waits.
fn moved() -> TestCluster {
    let mut test = busy_with(labelled(pod("web-0", "cpu=2")));
    assert_eq!(test.cycle().evicted, ["web-0"]);
    test.add(pod("other", "cpu=2"));
    test
}

#[test]
fn the_new_place_of_a_moved_pod_is_kept_for_its_successor() {
    let mut test = moved();
    assert!(test.cycle().bound.is_empty());
    test.change("web-0", |pod| pod.life.deleting = true);
    assert!(test.cycle().bound.is_empty());
    test.gone("web-0");
    assert!(test.cycle().bound.is_empty(), "the place is not the other's");
    test.add(labelled(pod("web-1", "cpu=2")));
    let cycle = test.run();
    assert_eq!(cycle.bound, [("web-1".to_owned(), "idle".to_owned())].into());
}

#[test]
fn a_successor_created_before_the_moved_pod_is_gone_gets_the_place() {
    let mut test = moved();
    test.change("web-0", |pod| pod.life.deleting = true);
    test.add(labelled(pod("web-1", "cpu=2")));
    assert_eq!(test.run().names(), ["web-1"]);
}

#[test]
fn a_place_for_a_successor_expires() {
    let mut test = moved();
    // The pod that waits for the place is not tried meanwhile.
    test.set_retry_limits(RetryLimits { all_up_to: 0, per_cycle: usize::MAX, ..RetryLimits::default() });
    test.gone("web-0");
    // Three seconds after the cycle that sees that the pod is gone.
    let bound: Vec<usize> = (0..5).map(|_| test.run().bound.len()).collect();
    assert_eq!(bound, [0, 0, 0, 1, 0]);
    test.add(labelled(pod("web-1", "cpu=2")));
    assert!(test.run().bound.is_empty(), "it came too late");
}

#[test]
fn the_place_of_a_pod_that_goes_on_terminating_expires_ten_times_later() {
    let mut test = moved();
    test.change("web-0", |pod| pod.life.deleting = true);
    let at = (0..40).position(|_| !test.run().bound.is_empty());
    assert_eq!(at, Some(29));
}

#[test]
fn a_cycle_is_due_when_a_place_for_a_successor_expires() {
    let mut test = moved();
    test.gone("web-0");
    assert_eq!(test.hand_outs(|_| {}), Some(Time(2_000 + 3_000)));
}

#[test]
fn a_place_that_no_successor_can_use_is_given_up() {
    let refused = |test: &mut TestCluster| {
        test.add(Event::EvictFailed("web-0".into(), "no".into()));
    };
    let cordoned = |test: &mut TestCluster| {
        test.add(NodeInfo { unschedulable: true, ..node("idle", "cpu=2 memory=4Gi") })
            .add(node("third", "cpu=2 memory=4Gi"));
    };
    let node_gone = |test: &mut TestCluster| {
        test.add(Event::NodeGone("idle".into())).add(node("idle", "cpu=2 memory=4Gi"));
    };
    let cases = [
        ("the eviction was refused", refused as fn(&mut TestCluster)),
        ("cordoned", cordoned),
        ("node gone", node_gone),
    ];
    for (name, happens) in cases {
        let mut test = moved();
        assert!(test.cycle().bound.is_empty(), "{name}");
        happens(&mut test);
        assert_eq!(test.run().names(), ["other"], "{name}");
    }
}

#[test]
fn the_successor_of_a_gang_member_is_of_the_same_gang() {
    let mut test = busy_with(member("g", 0, "cpu=2"));
    test.add(group("g", 1)).add(group("h", 1));
    assert_eq!(test.cycle().evicted, ["g-0"]);
    test.add(member("h", 0, "cpu=2")).gone("g-0");
    assert!(test.run().bound.is_empty());
    test.add(member("g", 1, "cpu=1"));
    assert!(test.run().bound.is_empty(), "it is of another class");
    test.add(member("g", 2, "cpu=2"));
    assert_eq!(test.run().names(), ["g-2"]);
}

#[test]
fn a_place_for_a_successor_ends_with_its_podgroup() {
    let mut test = busy_with(member("g", 0, "cpu=2"));
    test.add(group("g", 1));
    assert_eq!(test.cycle().evicted, ["g-0"]);
    test.add(pod("other", "cpu=2")).gone("g-0");
    let PodGroupInfo { key, .. } = group("g", 1);
    test.add(Event::PodGroupGone(key));
    assert_eq!(test.run().names(), ["other"]);
}

#[test]
fn the_successor_of_a_pod_without_labels_has_the_same_name() {
    let mut test = busy_with(pod("db-0", "cpu=2"));
    assert_eq!(test.cycle().evicted, ["db-0"]);
    test.gone("db-0").add(pod("other", "cpu=2"));
    assert!(test.run().bound.is_empty());
    let mut next = pod("db-0", "cpu=2");
    Arc::make_mut(&mut next.pod).uid = "second".into();
    test.add(next);
    assert_eq!(test.run().names(), ["db-0"]);
}

#[test]
fn a_gated_successor_gets_its_place_when_its_gates_are_removed() {
    let mut test = moved();
    test.gone("web-0").add(PodInfo { gated: true, ..labelled(pod("web-1", "cpu=2")) });
    assert!(test.run().bound.is_empty());
    test.change("web-1", |pod| pod.gated = false);
    assert_eq!(test.run().names(), ["web-1"]);
}

#[test]
fn a_place_for_a_successor_counts_in_its_queue() {
    let capability = resources("cpu=2");
    let of_queue = |pod: PodInfo| PodInfo { queue: Some("q".into()), ..pod };
    let mut test = TestCluster::with(conf());
    test.add(QueueInfo { capability, ..queue("q", 1) });
    test.add(NodeInfo { unschedulable: true, ..node("busy", "cpu=2 memory=4Gi") })
        .add(node("idle", "cpu=4 memory=4Gi"));
    test.add(used("busy", 95)).add(used("idle", 0));
    test.add(running(of_queue(labelled(pod("web-0", "cpu=2"))), "busy"));
    assert_eq!(test.cycle().evicted, ["web-0"]);
    test.gone("web-0").add(of_queue(pod("mine", "cpu=1"))).add(pod("yours", "cpu=2"));
    assert_eq!(test.run().names(), ["yours"]);
    test.add(of_queue(labelled(pod("web-1", "cpu=2"))));
    assert_eq!(test.run().names(), ["web-1"]);
    // The queue is deleted, and its placeholder with it.
    let mut test = moved();
    test.add(Event::QueueGone { name: "default".into(), uid: "".into() }).gone("other").gone("web-0");
    test.cycle();
}

#[test]
fn no_place_is_kept_with_keep_place_zero() {
    let configurations = vec![shuffle("keepPlace", "0s".into())];
    let mut test = TestCluster::with(Conf { configurations, ..conf() });
    test.add(NodeInfo { unschedulable: true, ..node("busy", "cpu=2 memory=4Gi") })
        .add(node("idle", "cpu=2 memory=4Gi"));
    test.add(used("busy", 95)).add(used("idle", 0));
    test.add(running(labelled(pod("web-0", "cpu=2")), "busy"));
    assert_eq!(test.cycle().evicted, ["web-0"]);
    test.add(pod("other", "cpu=2"));
    assert_eq!(test.run().names(), ["other"]);
}

#[test]
fn no_pod_is_moved_without_steps_to_search_for_its_place() {
    let configurations = vec![shuffle("maxSteps", 0.into())];
    let mut test = TestCluster::with(Conf { configurations, ..conf() });
    test.add(node("busy", "cpu=2 memory=4Gi")).add(node("idle", "cpu=2 memory=4Gi"));
    test.add(used("busy", 95)).add(used("idle", 0)).add(running(pod("web-0", "cpu=2"), "busy"));
    assert!(test.cycle().evicted.is_empty());
}

#[test]
fn a_refused_move_is_tried_again_after_a_minute() {
    let mut often = conf();
    let rows = &mut often.tiers[0].plugins;
    let rescheduling = rows.iter_mut().find(|row| row.name == "rescheduling").expect("the plugin");
    rescheduling.args.0.extend(args(&[("interval", "1s".into())]).0);
    let mut test = TestCluster::with(often);
    test.add(node("busy", "cpu=2 memory=4Gi")).add(node("idle", "cpu=2 memory=4Gi"));
    test.add(used("busy", 95)).add(used("idle", 0)).add(running(pod("web-0", "cpu=2"), "busy"));
    assert_eq!(test.cycle().evicted, ["web-0"]);
    test.add(Event::EvictFailed("web-0".into(), "no".into()));
    let again = (0..70).position(|_| !test.cycle().evicted.is_empty());
    assert_eq!(again, Some(60));
}

#[test]
fn a_terminating_pod_is_not_moved() {
    let mut test = busy_with(pod("x", "cpu=1"));
    test.add(leaving(running(pod("x", "cpu=1"), "busy")));
    assert!(test.cycle().evicted.is_empty());
}
