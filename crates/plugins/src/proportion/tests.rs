use proptest::prelude::*;

use super::*;
use phalanx_cluster::event::{Event, GroupStatus, Phase, PodGroupInfo, QueueInfo, QueueState};
use phalanx_framework::testing::{
    cluster_of, eviction, group, job_of, member, node, queue, queue_of, resources, running, task_of,
};

fn cpu(cores: i64) -> String {
    format!("cpu={cores}")
}

/// A queue whose gang has this many running pods and this many pending pods, of one core each.
struct QueueRow {
    queue: QueueInfo,
    runs: u32,
    waits: u32,
}

fn row(queue: QueueInfo, runs: u32, waits: u32) -> QueueRow {
    QueueRow { queue, runs, waits }
}

/// One node of `cores`, and queues; a queue with pods has one gang, of the queue's name.
fn cluster(cores: i64, rows: &[QueueRow]) -> Cluster {
    let mut cluster = cluster_of([node("n", &format!("{} pods=9999", cpu(cores)))]);
    for QueueRow { queue, runs, waits } in rows {
        cluster.apply(queue.clone().into());
        if runs + waits == 0 {
            continue;
        }
        let status = GroupStatus { phase: Phase::Running, ..GroupStatus::default() };
        cluster.apply(PodGroupInfo { queue: queue.name.clone(), status, ..group(&queue.name, 1) }.into());
        for index in 0..runs + waits {
            let pod = member(&queue.name, index, "cpu=1");
            cluster.apply(if index < *runs { running(pod, "n") } else { pod }.into());
        }
    }
    cluster
}

fn with(name: &str, weight: u32, capability: &str, guarantee: &str) -> QueueInfo {
    QueueInfo { capability: resources(capability), guarantee: resources(guarantee), ..queue(name, weight) }
}

fn deserved(cluster: &Cluster, queues: &[&str]) -> Vec<i64> {
    let plugin = Proportion::open(cluster);
    let of =
        |name: &&str| plugin.attributes(cluster, queue_of(cluster, name)).unwrap().deserved.get(DimId::CPU);
    queues.iter().map(of).collect()
}

#[test]
fn deserved_follows_weights_between_guarantee_and_capability() {
    for (what, cores, rows, expected) in [
        ("1:3", 8, vec![row(queue("a", 1), 0, 9), row(queue("b", 3), 0, 9)], vec![2000, 6000]),
        (
            "what one queue does not request goes to the other",
            8,
            vec![row(queue("a", 1), 0, 9), row(queue("b", 3), 0, 1)],
            vec![7000, 1000],
        ),
        (
            "no more than the request",
            8,
            vec![row(queue("a", 1), 1, 1), row(queue("b", 3), 0, 1)],
            vec![2000, 1000],
        ),
        (
            "a capability",
            8,
            vec![row(with("a", 1, "cpu=1", ""), 0, 9), row(queue("b", 1), 0, 9)],
            vec![1000, 7000],
        ),
        (
            "a guarantee",
            8,
            vec![row(with("a", 1, "", "cpu=5"), 0, 9), row(queue("b", 1), 0, 9)],
            vec![5000, 3000],
        ),
        (
            "a guarantee without jobs",
            8,
            vec![row(with("a", 1, "", "cpu=5"), 0, 0), row(queue("b", 1), 0, 9)],
            vec![5000, 3000],
        ),
        (
            "guarantees beyond the total are cut in proportion",
            8,
            vec![row(with("a", 1, "", "cpu=12"), 0, 9), row(with("b", 1, "", "cpu=4"), 0, 9)],
            vec![6000, 2000],
        ),
        ("an empty cluster", 0, vec![row(queue("a", 1), 0, 9)], vec![0]),
        (
            "running pods count as requested",
            8,
            vec![row(queue("a", 1), 8, 0), row(queue("b", 1), 0, 8)],
            vec![4000, 4000],
        ),
        (
            "the remainder goes by name",
            1,
            vec![row(queue("c", 1), 0, 9), row(queue("a", 1), 0, 9), row(queue("b", 1), 0, 9)],
            vec![334, 333, 333],
        ),
    ] {
        let cluster = cluster(cores, &rows);
        let mut names: Vec<&str> = rows.iter().map(|row| &*row.queue.name).collect();
        names.sort_unstable();
        assert_eq!(deserved(&cluster, &names), expected, "{what}");
    }
}

#[test]
fn a_queue_that_takes_no_jobs_deserves_what_its_pods_hold() {
    for (what, cores, rows, expected) in [
        (
            "a guarantee above the capability is a fault: the queue deserves what its pods hold",
            8,
            vec![row(with("a", 1, "cpu=2", "cpu=5"), 1, 9), row(queue("b", 1), 0, 9)],
            vec![1000, 7000],
        ),
        (
            "a closed queue deserves what its pods hold",
            8,
            vec![
                row(QueueInfo { state: QueueState::Closed, ..queue("a", 9) }, 2, 9),
                row(queue("b", 1), 0, 9),
            ],
            vec![2000, 6000],
        ),
        (
            "a queue with a parent deserves what its pods hold",
            8,
            vec![
                row(QueueInfo { parent: "b".into(), ..with("a", 9, "", "cpu=7") }, 2, 9),
                row(queue("b", 1), 0, 9),
            ],
            vec![2000, 6000],
        ),
    ] {
        assert_eq!(deserved(&cluster(cores, &rows), &["a", "b"]), expected, "{what}");
    }
}

#[test]
fn a_queue_is_overused_and_takes_no_task_beyond_its_deserved() {
    for (runs, overused, allocatable) in
        [(0, false, true), (1, false, true), (2, true, false), (3, true, false)]
    {
        let cluster = cluster(8, &[row(queue("a", 1), runs, 9), row(queue("b", 3), 0, 9)]);
        let (plugin, id) = (Proportion::open(&cluster), queue_of(&cluster, "a"));
        assert_eq!(plugin.overused(&cluster, id).is_some(), overused, "{runs} run");
        let task = task_of(&cluster, "a-8");
        assert_eq!(plugin.allocatable(&cluster, id, task).is_ok(), allocatable, "{runs} run");
    }
}

#[test]
fn refusals_name_the_excess_and_the_weight() {
    let cluster = cluster(8, &[row(queue("a", 1), 2, 9), row(queue("b", 3), 0, 9)]);
    let (plugin, id) = (Proportion::open(&cluster), queue_of(&cluster, "a"));
    let refusal = plugin.allocatable(&cluster, id, task_of(&cluster, "a-9")).unwrap_err();
    assert_eq!(
        refusal.text(&cluster.dims),
        "queue a would exceed its deserved: cpu (1 more) (plugin proportion): what jobs of other queues ask for, waiting ones \
         included, leaves it 2 of 8 cpu by weight; it may have more when they ask for less, or with a larger weight"
    );
    let refusal = plugin.overused(&cluster, id).unwrap();
    assert_eq!(
        refusal.text(&cluster.dims),
        "queue a is overused: it holds all that its weight gives it beside what other queues ask for (plugin proportion)"
    );
}

#[test]
fn a_single_queue_is_never_overused() {
    let cluster = cluster(4, &[row(queue("a", 1), 4, 9)]);
    let (plugin, id) = (Proportion::open(&cluster), queue_of(&cluster, "a"));
    assert_eq!(plugin.overused(&cluster, id), None);
    assert_eq!(plugin.allocatable(&cluster, id, task_of(&cluster, "a-9")), Ok(()));
}

#[test]
fn queues_are_ordered_by_priority_then_share() {
    let mut first = queue("first", 1);
    first.priority = 1;
    let cluster = cluster(
        20,
        &[row(queue("a", 1), 3, 9), row(queue("b", 3), 4, 9), row(first, 4, 9), row(queue("idle", 1), 0, 0)],
    );
    let plugin = Proportion::open(&cluster);
    let mut order = ["a", "b", "first", "idle"].map(|name| queue_of(&cluster, name));
    order.sort_by(|a, b| plugin.queue_order(&cluster, *a, *b));
    let names = order.map(|id| cluster.queues[id].name.to_string());
    assert_eq!(names, ["first", "idle", "b", "a"]);
}

#[test]
fn reclaim_leaves_a_queue_its_deserved() {
    let cluster = cluster(8, &[row(queue("a", 1), 7, 0), row(queue("b", 3), 1, 9)]);
    let plugin = Proportion::open(&cluster);
    let of = |name: &str, count: u32| -> Vec<TaskId> {
        (0..count).map(|index| task_of(&cluster, &format!("{name}-{index}"))).collect()
    };
    let by = task_of(&cluster, "b-9");
    assert_eq!(
        plugin.evictable(&cluster, eviction(EvictionKind::Reclaim, by), &of("a", 7)),
        Some(of("a", 5))
    );
    assert_eq!(
        plugin.evictable(&cluster, eviction(EvictionKind::Reclaim, by), &of("b", 1)),
        Some(Vec::new())
    );
}

fn asking(name: &str, phase: Phase, min_resources: &str) -> PodGroupInfo {
    let status = GroupStatus { phase, ..GroupStatus::default() };
    let min_resources = Some(resources(min_resources));
    PodGroupInfo { queue: "q".into(), status, min_resources, ..group(name, 1) }
}

fn admits(plugin: &Proportion, cluster: &Cluster, name: &str) -> bool {
    plugin.job_enqueueable(cluster, job_of(cluster, name)) == EnqueueVote::Permit
}

#[test]
fn a_job_is_enqueueable_within_the_real_capability_of_its_queue() {
    // The cluster has 10 cores, queue o is guaranteed 3, queue q has capability 6: the realCapability of q is 6.
    let mut cluster =
        cluster_of([Event::from(node("n", "cpu=10 memory=10Gi")), with("o", 1, "", "cpu=3").into()]);
    cluster.apply(with("q", 1, "cpu=6", "").into());
    cluster.apply(asking("inqueue", Phase::Inqueue, "cpu=1").into());
    // minResources 2, 3 running: 1 core is elastic.
    cluster.apply(asking("running", Phase::Running, "cpu=2").into());
    for index in 0..3 {
        cluster.apply(running(member("running", index, "cpu=1"), "n").into());
    }
    for (name, request) in
        [("three", "cpu=3"), ("more", "cpu=3001m"), ("other", "memory=10Gi"), ("lots", "memory=11Gi")]
    {
        cluster.apply(asking(name, Phase::Pending, request).into());
    }
    let mut plugin = Proportion::open(&cluster);
    let expected = [("three", true), ("more", false), ("other", true), ("lots", false)];
    for (name, admitted) in expected {
        assert_eq!(admits(&plugin, &cluster, name), admitted, "{name}");
    }
    plugin.job_enqueued(&cluster, job_of(&cluster, "three"));
    assert!(!admits(&plugin, &cluster, "three") && admits(&plugin, &cluster, "other"));
}

#[test]
fn guarantees_of_other_queues_limit_enqueueing_without_a_capability() {
    let mut cluster = cluster_of([Event::from(node("n", "cpu=10")), with("o", 1, "", "cpu=3").into()]);
    cluster.apply(queue("q", 1).into());
    cluster.apply(asking("seven", Phase::Pending, "cpu=7").into());
    cluster.apply(asking("eight", Phase::Pending, "cpu=8").into());
    let plugin = Proportion::open(&cluster);
    assert!(admits(&plugin, &cluster, "seven"));
    let EnqueueVote::Reject(refusal) = plugin.job_enqueueable(&cluster, job_of(&cluster, "eight")) else {
        panic!("admitted");
    };
    assert_eq!(
        refusal.text(&cluster.dims),
        "resource quota of queue q beside the guarantees of others (the largest: queue o) insufficient: insufficient cpu (1 more) (plugin proportion)"
    );
}

/// Weight, capability and guarantee in cores, and the number of pending pods of one core.
type WeightRow = (u32, Option<i64>, i64, u32);

/// The cores of the cluster, and queues with any figures, also contradictory ones.
fn rows() -> impl Strategy<Value = (i64, Vec<WeightRow>)> {
    let one = (1u32..5, prop::option::of(0i64..12), prop_oneof![Just(0i64), 0i64..8], 0u32..12);
    (0i64..30, prop::collection::vec(one, 1..6))
}

fn cluster_of_rows(cores: i64, rows: &[WeightRow], order: impl Iterator<Item = usize>) -> Cluster {
    let build = |at: usize| {
        let (weight, capability, guarantee, waits) = rows[at];
        let capability = capability.map(cpu).unwrap_or_default();
        row(with(&format!("q{at}"), weight, &capability, &cpu(guarantee)), 0, waits)
    };
    cluster(cores, &order.map(build).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn deserved_keeps_guarantee_capability_request_and_total((cores, rows) in rows()) {
        let names: Vec<String> = (0..rows.len()).map(|at| format!("q{at}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let cluster = cluster_of_rows(cores, &rows, 0..rows.len());
        let plugin = Proportion::open(&cluster);
        let got = deserved(&cluster, &names);
        let backwards = cluster_of_rows(cores, &rows, (0..rows.len()).rev());
        prop_assert_eq!(&got, &deserved(&backwards, &names), "the order of queues matters");
        prop_assert!(got.iter().sum::<i64>() <= cores * 1000);
        let is_faulty = |at: usize| rows[at].1.is_some_and(|capability| capability < rows[at].2);
        let guarantee = |at: usize| if is_faulty(at) { 0 } else { rows[at].2 * 1000 };
        let feasible = (0..rows.len()).map(guarantee).sum::<i64>() <= cores * 1000;
        let mut demand = 0;
        for (at, got) in got.iter().enumerate() {
            let real = plugin.of(queue_of(&cluster, names[at])).real_capability.get(DimId::CPU);
            let request = if is_faulty(at) { 0 } else { i64::from(rows[at].3) * 1000 };
            prop_assert!(*got <= request.min(real).max(guarantee(at)));
            prop_assert!(real <= rows[at].1.map_or(i64::MAX, |cap| cap * 1000));
            prop_assert!(!feasible || *got >= guarantee(at));
            demand += request.min(real).max(guarantee(at));
        }
        prop_assert!(!feasible || got.iter().sum::<i64>() == demand.min(cores * 1000), "an amount that is requested is not divided");
    }
}
