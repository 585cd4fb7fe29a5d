mod devices;
mod reclaim;

use phalanx_resource::DimId;
use proptest::prelude::*;

use super::*;
use phalanx_cluster::event::{Event, GroupStatus, Phase, PodGroupInfo, QueueInfo, Time};
use phalanx_framework::conf::{Arg, Args, Flags, Position, Value};
use phalanx_framework::testing::{
    cluster_of, eviction, group, job_of, member, node, queue, queue_of, resources, running, task_of,
};

/// `name < parent: capability | guarantee | deserved`, all but the name optional: `a < p: cpu=4 | cpu=1 | cpu=2`.
fn parse(text: &str) -> QueueInfo {
    let (head, figures) = text.split_once(':').unwrap_or((text, ""));
    let (name, parent) = head.split_once('<').unwrap_or((head, ""));
    let mut figures = figures.split('|').chain(["", "", ""]).map(resources);
    let mut next = || figures.next().expect("three figures");
    let (capability, guarantee, deserved) = (next(), next(), next());
    QueueInfo { parent: parent.trim().into(), capability, guarantee, deserved, ..queue(name.trim(), 1) }
}

/// One node of `cores`, queues, and gangs: name of queue and gang, running pods, pending pods, of one core each.
fn cluster(cores: i64, queues: &[&str], gangs: &[(&str, u32, u32)]) -> Cluster {
    let mut cluster = cluster_of([node("n", &format!("cpu={cores} memory={cores}Gi pods=9999"))]);
    for text in queues {
        cluster.apply(parse(text).into());
    }
    for (queue, runs, waits) in gangs {
        fill(&mut cluster, queue, *runs, *waits, "cpu=1");
    }
    cluster
}

fn fill(cluster: &mut Cluster, queue: &str, runs: u32, waits: u32, request: &str) {
    let status = GroupStatus { phase: Phase::Running, ..GroupStatus::default() };
    cluster.apply(PodGroupInfo { queue: queue.into(), status, ..group(queue, 1) }.into());
    for index in 0..runs + waits {
        let pod = member(queue, index, request);
        cluster.apply(if index < runs { running(pod, "n") } else { pod }.into());
    }
}

fn plugin(cluster: &Cluster, tree: bool, levels: i64) -> Capacity {
    let mut flags = Flags::default();
    flags.set(Flag::Hierarchy, tree);
    let mut args = Args::default();
    args.0.insert(LEVEL.into(), Arg { value: Value::Int(levels), at: Position::default() });
    Capacity::open(PluginContext {
        cluster,
        args: &args,
        flags,
        now: Time::default(),
        before: None,
        extender: None,
    })
}

fn cores(of: Option<i64>) -> Option<i64> {
    of.map(|milli| milli / 1000)
}

#[test]
fn limits_and_deserved_follow_capability_guarantee_and_parent() {
    // Name of the case, whether a tree, cores of the cluster, queues; then the limit and deserved cores of queues.
    type LimitRow<'a> = (&'a str, bool, i64, &'a [&'a str], &'a [(&'a str, Option<i64>, Option<i64>)]);
    let rows: &[LimitRow<'_>] = &[
        ("no quotas", false, 8, &["a"], &[("a", None, None)]),
        ("a capability", false, 8, &["a: cpu=4", "b"], &[("a", Some(4), None), ("b", None, None)]),
        ("guarantees of others", false, 8, &["a:|cpu=3", "b"], &[("a", None, Some(3)), ("b", Some(5), None)]),
        ("deserved within capability", false, 8, &["a: cpu=4||cpu=4"], &[("a", Some(4), Some(4))]),
        ("deserved beyond the total", false, 8, &["a:||cpu=20"], &[("a", None, Some(8))]),
        (
            "guarantees beyond the total",
            false,
            8,
            &["a:|cpu=12", "b:|cpu=4"],
            &[("a", Some(6), Some(6)), ("b", Some(2), Some(2))],
        ),
        (
            "a tree: the capability of the parent, less the guarantees of siblings",
            true,
            20,
            &["p: cpu=8", "a < p:|cpu=3|cpu=4", "b < p: cpu=7"],
            &[("p", Some(8), Some(4)), ("a", None, Some(4)), ("b", Some(5), None)],
        ),
        (
            "three levels",
            true,
            20,
            &["p: cpu=10", "q < p:|cpu=2|cpu=9", "r < p:|cpu=4|cpu=4", "a < q:||cpu=9", "b < q:|cpu=2"],
            &[
                ("q", Some(6), Some(6)),
                ("r", Some(8), Some(4)),
                ("a", Some(4), Some(4)),
                ("b", None, Some(2)),
            ],
        ),
        (
            "guarantees of topmost queues reduce their siblings",
            true,
            8,
            &["a:|cpu=3", "p", "b < p"],
            &[("a", None, Some(3)), ("p", Some(5), None), ("b", None, None)],
        ),
        ("deserving more than the cluster has", true, 8, &["a:||cpu=20"], &[("a", None, Some(20))]),
        (
            "a parent without figures has the sums of its children",
            true,
            8,
            &["p", "a < p:|cpu=1|cpu=2", "b < p:|cpu=2|cpu=3", "c"],
            &[("p", None, Some(5)), ("c", Some(5), None)],
        ),
        (
            "nothing is reserved for a queue with a fault",
            true,
            8,
            &["a: cpu=1|cpu=3", "r < s:|cpu=3", "s < r:|cpu=3", "o < missing:|cpu=3", "b"],
            &[("b", None, None)],
        ),
    ];
    for (what, tree, total, queues, expected) in rows {
        let cluster = cluster(*total, queues, &[]);
        let plugin = plugin(&cluster, *tree, 0);
        for (name, limit, deserved) in *expected {
            let attributes = plugin.of(queue_of(&cluster, name));
            assert_eq!(
                cores(attributes.allocatable_limits.get(DimId::CPU)),
                *limit,
                "limit of {name}: {what}"
            );
            assert_eq!(cores(attributes.deserved.get(DimId::CPU)), *deserved, "deserved of {name}: {what}");
        }
    }
}

#[test]
fn a_task_must_fit_the_capability_of_each_ancestor() {
    let queues = &["p: cpu=6", "q < p: cpu=5", "a < q: cpu=4", "b < q", "c < p", "d"];
    for (what, gangs, task, refusal) in [
        ("within all capabilities", vec![("a", 3, 1)], "a-3", None),
        (
            "its own capability exceeded",
            vec![("a", 4, 1)],
            "a-4",
            Some("queue a would exceed its capability: cpu (1 more)"),
        ),
        (
            "its parent's capability exceeded",
            vec![("a", 3, 1), ("b", 2, 0)],
            "a-3",
            Some("queue q would exceed its capability: cpu (1 more)"),
        ),
        (
            "the capability of the topmost ancestor exceeded",
            vec![("a", 3, 1), ("c", 3, 0)],
            "a-3",
            Some("queue p would exceed its capability: cpu (1 more)"),
        ),
        ("pods of another tree branch do not count", vec![("a", 3, 1), ("d", 9, 0)], "a-3", None),
    ] {
        let cluster = cluster(20, queues, &gangs);
        let plugin = plugin(&cluster, true, 0);
        let task = task_of(&cluster, task);
        let got = plugin.allocatable(&cluster, queue_of(&cluster, "a"), task);
        let text = got.err().map(|refusal| refusal.text(&cluster.dims));
        assert_eq!(text, refusal.map(|text| format!("{text} (plugin capacity)")), "{what}");
    }
}

#[test]
fn the_refusal_names_the_guarantee_of_another_queue() {
    let cluster = cluster(4, &["a:|cpu=3", "b"], &[("b", 1, 1)]);
    let got =
        plugin(&cluster, true, 0).allocatable(&cluster, queue_of(&cluster, "b"), task_of(&cluster, "b-1"));
    assert_eq!(
        got.unwrap_err().text(&cluster.dims),
        "queue b would exceed its part beside the guarantees of others (the largest: queue a): cpu (1 more) (plugin capacity)"
    );
}

#[test]
fn a_capability_of_pods_limits_the_number_of_pods() {
    let cluster = cluster(9, &["a: pods=2"], &[("a", 2, 1)]);
    let plugin = plugin(&cluster, false, 0);
    let got = plugin.allocatable(&cluster, queue_of(&cluster, "a"), task_of(&cluster, "a-2"));
    assert_eq!(
        got.unwrap_err().text(&cluster.dims),
        "queue a would exceed its capability: pods (1 more) (plugin capacity)"
    );
}

fn order(cluster: &Cluster, plugin: &Capacity, names: &[&str]) -> Vec<String> {
    let mut order: Vec<QueueId> = names.iter().map(|name| queue_of(cluster, name)).collect();
    order.sort_by(|a, b| plugin.queue_order(cluster, *a, *b));
    order.into_iter().map(|id| cluster.queues[id].name.to_string()).collect()
}

#[test]
fn queues_are_ordered_by_priority_then_share_then_deserving() {
    let mut cluster = cluster(
        20,
        &["half:||cpu=4", "full:||cpu=2", "none", "first"],
        &[("half", 2, 1), ("full", 2, 1), ("none", 0, 1), ("first", 5, 1)],
    );
    cluster.apply(QueueInfo { priority: 1, ..queue("first", 1) }.into());
    let plugin = plugin(&cluster, false, 0);
    assert_eq!(
        order(&cluster, &plugin, &["none", "full", "half", "first"]),
        ["first", "half", "full", "none"]
    );
}

#[test]
fn leaves_are_ordered_by_their_ancestors_below_the_common_one() {
    // Queue p holds 3 of its deserved 6, queue q 4 of 6: the leaves of p go first, in the order of their own shares.
    let queues = &[
        "p:||cpu=6",
        "q:||cpu=6",
        "p1 < p:||cpu=3",
        "p2 < p:||cpu=3",
        "q1 < q:||cpu=4",
        "q2 < q:||cpu=2",
        "none",
    ];
    let cluster = cluster(20, queues, &[("p1", 2, 1), ("p2", 1, 1), ("q1", 4, 1), ("q2", 0, 1)]);
    let plugin = plugin(&cluster, true, 0);
    let expected = ["p2", "p1", "q2", "q1", "none", "p", "q"];
    let mut backwards = expected;
    backwards.reverse();
    assert_eq!(order(&cluster, &plugin, &backwards), expected);
}

fn asking(name: &str, queue: &str, phase: Phase, min_resources: &str) -> PodGroupInfo {
    let status = GroupStatus { phase, ..GroupStatus::default() };
    PodGroupInfo {
        queue: queue.into(),
        status,
        min_resources: Some(resources(min_resources)),
        ..group(name, 1)
    }
}

#[test]
fn inqueue_requests_count_in_each_ancestor() {
    let mut cluster = cluster(4, &["p: cpu=10", "a < p: cpu=8", "b < p", "c"], &[]);
    cluster.apply(asking("inqueue", "b", Phase::Inqueue, "cpu=4").into());
    for (name, queue, request) in
        [("six", "a", "cpu=6"), ("seven", "a", "cpu=7"), ("lots", "c", "cpu=99"), ("one", "b", "cpu=1")]
    {
        cluster.apply(asking(name, queue, Phase::Pending, request).into());
    }
    let mut plugin = plugin(&cluster, true, 0);
    let admits =
        |plugin: &Capacity, name: &str| match plugin.job_enqueueable(&cluster, job_of(&cluster, name)) {
            EnqueueVote::Permit => None,
            EnqueueVote::Reject(refusal) => Some(refusal.text(&cluster.dims)),
            EnqueueVote::Abstain => panic!("no verdict"),
        };
    let told = "resource quota of queue p insufficient: insufficient cpu (1 more) (plugin capacity)";
    assert_eq!(admits(&plugin, "seven").as_deref(), Some(told));
    // Queue c admits more than the cluster has, so that an autoscaler may add nodes.
    assert_eq!((admits(&plugin, "six"), admits(&plugin, "lots")), (None, None));
    plugin.job_enqueued(&cluster, job_of(&cluster, "six"));
    assert!(admits(&plugin, "one").is_some(), "the inqueue requests of p reach its capability");
    assert!(admits(&plugin, "lots").is_none());
}

#[test]
fn a_flat_queue_admits_no_more_than_the_cluster_has() {
    let mut cluster = cluster(4, &["a:|cpu=1", "b"], &[]);
    cluster.apply(asking("three", "b", Phase::Pending, "cpu=3").into());
    cluster.apply(asking("four", "b", Phase::Pending, "cpu=4").into());
    let plugin = plugin(&cluster, false, 0);
    assert_eq!(plugin.job_enqueueable(&cluster, job_of(&cluster, "three")), EnqueueVote::Permit);
    assert!(matches!(plugin.job_enqueueable(&cluster, job_of(&cluster, "four")), EnqueueVote::Reject(_)));
}

#[test]
fn contradicting_quotas_get_a_warning() {
    for (what, queues, expected) in [
        ("no contradiction", vec!["p: cpu=9|cpu=3|cpu=6", "a < p: cpu=9|cpu=3|cpu=6"], None),
        (
            "guarantees",
            vec!["p:|cpu=3|cpu=9", "a < p:|cpu=2", "b < p:|cpu=2"],
            Some("its children have more guarantee than it has itself: cpu (1 more)"),
        ),
        (
            "guarantees beyond a capability",
            vec!["p: cpu=3", "a < p:|cpu=2", "b < p:|cpu=2"],
            Some("its children have more guarantee than it has itself: cpu (1 more)"),
        ),
        (
            "deserved",
            vec!["p:||cpu=3", "a < p:||cpu=2", "b < p:||cpu=2"],
            Some("its children have more deserved than it has itself: cpu (1 more)"),
        ),
        ("a child with a fault does not count", vec!["p:||cpu=3", "a < p: cpu=1||cpu=4"], None),
        ("devices of a class", vec!["p: deviceclass/gpu.example.com=2"], None),
        ("deserved devices", vec!["p: deviceclass/gpu=2||deviceclass/gpu=1"], None),
        (
            "devices that are deserved twice",
            vec!["p:||deviceclass/gpu=1", "a < p:||deviceclass/gpu=2"],
            Some("its children have more deserved than it has itself: deviceclass/gpu (1 more)"),
        ),
        (
            "parts of devices",
            vec!["p: cores.deviceclass/gpu=200"],
            Some(
                "its capability of cores.deviceclass/gpu has no effect: claims to a part of a device are not supported",
            ),
        ),
        (
            "a capability above an ancestor's",
            vec!["top: cpu=3", "q < top", "p < q: cpu=4"],
            Some("its capability is above that of queue top: cpu (1 more)"),
        ),
    ] {
        let cluster = cluster(20, &queues, &[]);
        let warning = plugin(&cluster, true, 0).queue_warning(&cluster, queue_of(&cluster, "p"));
        assert_eq!(warning.map(|fault| fault.text(&cluster.dims)).as_deref(), expected, "{what}");
    }
}

#[test]
fn queues_with_children_in_a_tree_and_with_parents_in_a_list_are_refused() {
    let queues = &["p", "a < p", "empty", "b < empty"];
    let cluster = cluster(9, queues, &[("p", 0, 1), ("a", 0, 1)]);
    for (tree, name, expected) in [
        (true, "p", Some("it has 1 queue(s) below it, so jobs cannot be in it (plugin capacity)")),
        (true, "a", None),
        (true, "empty", None),
        (false, "p", None),
        (
            false,
            "a",
            Some(
                "it has parent p, but plugin capacity is flat here; \
                 a tree needs plugin capacity with enableHierarchy: true",
            ),
        ),
    ] {
        let fault = plugin(&cluster, tree, 0).queue_valid(&cluster, queue_of(&cluster, name)).err();
        assert_eq!(
            fault.map(|fault| fault.text(&cluster.dims)).as_deref(),
            expected,
            "{name} in a tree: {tree}"
        );
    }
}

/// Parent (an earlier queue, else root), capability, guarantee and deserved amount.
type QuotaRow = (usize, Option<i64>, i64, Option<i64>);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn guarantees_fit_and_limits_do_not_depend_on_queue_order(total in 0i64..40, rows in prop::collection::vec(
        (0usize..6, prop::option::of(0i64..20), 0i64..6, prop::option::of(0i64..20)), 1..7)) {
        let (forward, backward) = (tree_of(total, &rows, false), tree_of(total, &rows, true));
        let (plugin, other) = (plugin(&forward, true, 0), plugin(&backward, true, 0));
        for (id, queue) in forward.queues.iter() {
            let (attributes, reversed) = (plugin.of(id), other.of(queue_of(&backward, &queue.name)));
            prop_assert_eq!(&attributes.deserved, &reversed.deserved, "depends on the order of queues");
            prop_assert_eq!(&attributes.allocatable_limits, &reversed.allocatable_limits, "depends on the order of queues");
            for (dim, limit) in attributes.allocatable_limits.iter() {
                prop_assert!(limit <= queue.capability.get(dim).unwrap_or(i64::MAX));
            }
            let children = forward.queues.ids().filter(|child| forward.queue_above(*child) == Some(id));
            let usable = children.filter(|child| forward.queue_fault(*child).is_none());
            let kept: i64 = usable.map(|child| plugin.of(child).guarantee.get(DimId::CPU)).sum();
            let room = plugin.of(id).allocatable_limits.get(DimId::CPU).unwrap_or(total * 1000);
            prop_assert!(queue.is_root() || kept <= room, "guarantees below {}: {kept} of {room}", queue.name);
        }
    }
}

fn tree_of(total: i64, rows: &[QuotaRow], backwards: bool) -> Cluster {
    let figure = |amount: Option<i64>| amount.map(|cores| format!("cpu={cores}")).unwrap_or_default();
    let row = |(at, (parent, capability, guarantee, deserved)): (usize, &QuotaRow)| QueueInfo {
        parent: if *parent < at { format!("q{parent}").into() } else { "".into() },
        capability: resources(&figure(*capability)),
        guarantee: resources(&figure(Some(*guarantee))),
        deserved: resources(&figure(*deserved)),
        ..queue(&format!("q{at}"), 1)
    };
    let mut queues: Vec<Event> = rows.iter().enumerate().map(row).map(Event::from).collect();
    if backwards {
        queues.reverse();
    }
    cluster_of(std::iter::once(Event::from(node("n", &format!("cpu={total}")))).chain(queues))
}
