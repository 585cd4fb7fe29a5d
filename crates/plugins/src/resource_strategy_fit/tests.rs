use std::sync::Arc;

use super::*;
use phalanx_cluster::event::{Constraints, PodInfo, Time};
use phalanx_framework::conf::Value;
use phalanx_framework::placement::Fit;
use phalanx_framework::testing::{cluster_of, node, opened, pod, running, task_of};

/// A cluster with node `n`, a pod on it, and the pending pod `p`.
fn cluster(allocatable: &str, used: &str, waiting: PodInfo) -> Cluster {
    let mut cluster = cluster_of([node("n", allocatable)]);
    cluster.apply(running(pod("used", used), "n").into());
    cluster.apply(waiting.into());
    cluster
}

fn rules(cluster: &Cluster, list: &[(&str, Value)]) -> NodeRules {
    let plugin = opened(ResourceStrategyFit::open, cluster, Time(0), list);
    let class = cluster.tasks[task_of(cluster, "p")].class;
    let mut rules = NodeRules::default();
    plugin.filters(cluster, class, &mut rules);
    plugin.scorers(cluster, class, &mut rules);
    rules
}

fn score(cluster: &Cluster, list: &[(&str, Value)]) -> f64 {
    let node = &cluster.nodes[cluster.node_named("n").unwrap()];
    rules(cluster, list).resource_scorers.iter().map(|scorer| scorer.score(node)).sum()
}

fn strategy(kind: &str, weight: i64) -> Value {
    [("type", kind.into()), ("weight", weight.into())].into()
}

const GPU: &str = "nvidia.com/gpu";

#[test]
fn the_score_is_the_weighted_mean_over_requested_resources() {
    let cluster = cluster(
        "cpu=10 memory=10Gi nvidia.com/gpu=8",
        "cpu=4",
        pod("p", "cpu=1 memory=5Gi nvidia.com/gpu=2"),
    );
    let most = || strategy("MostAllocated", 1);
    let cases: Vec<(Vec<(&str, Value)>, f64)> = vec![
        // By default cpu 5/10 free and memory 5/10 free.
        (vec![], 500.0),
        (vec![("resourceStrategyFitWeight", 1.into())], 50.0),
        (vec![("resourceStrategyFitWeight", (-3).into())], 500.0),
        (vec![("resourceStrategyFitWeight", 0.into())], 0.0),
        (vec![("resources", [(GPU, most())].into())], 250.0),
        // (0.25 * 3 + 0.5) / 4
        (vec![("resources", [(GPU, strategy("MostAllocated", 3)), ("cpu", most())].into())], 312.5),
        (vec![("resources", [(GPU, strategy("LeastAllocated", 1))].into())], 750.0),
        // Weights below 1 count as 1, unknown types as LeastAllocated.
        (vec![("resources", [(GPU, strategy("Other", -2))].into())], 750.0),
        // The longest prefix counts, and a full name before it.
        (
            vec![(
                "resources",
                [("nvidia.com/*", most()), ("nvidia*", strategy("LeastAllocated", 1))].into(),
            )],
            250.0,
        ),
        (vec![("resources", [("nvidia.com/*", most()), (GPU, strategy("LeastAllocated", 1))].into())], 750.0),
        // A star alone has no meaning.
        (vec![("resources", [("*", most())].into())], 0.0),
        (vec![("resources", [("amd.com/gpu", most())].into())], 0.0),
    ];
    for (list, expected) in cases {
        assert_eq!(score(&cluster, &list), expected, "{list:?}");
    }
}

#[test]
fn a_node_with_too_little_of_a_resource_scores_zero() {
    let full = cluster("cpu=4 memory=10Gi", "cpu=4", pod("p", "cpu=1 memory=1Gi"));
    assert_eq!(score(&full, &[]), 0.0);
    let without = cluster("cpu=4", "cpu=1", pod("p", "cpu=1 memory=1Gi"));
    assert_eq!(score(&without, &[]), 250.0, "a resource that the node does not have counts 0");
}

#[test]
fn annotations_of_a_pod_replace_the_strategies() {
    let with = |scoring, weights: &[(&str, i64)]| {
        let weights = weights.iter().map(|(name, weight)| ((*name).into(), *weight)).collect();
        let strategy = Some(Strategy { scoring, weights });
        let constraints = Arc::new(Constraints { strategy, ..Constraints::default() });
        let cluster =
            cluster("cpu=10 memory=10Gi", "cpu=4", PodInfo { constraints, ..pod("p", "cpu=1 memory=1Gi") });
        score(&cluster, &[])
    };
    assert_eq!(with(Scoring::Most, &[("cpu", 1)]), 500.0);
    assert_eq!(with(Scoring::Most, &[("cpu", 1), ("memory", 3)]), 200.0);
    assert_eq!(with(Scoring::Least, &[("memory", 3)]), 900.0);
    assert_eq!(with(Scoring::Most, &[("nvidia.com/gpu", 3)]), 0.0);
    assert_eq!(with(Scoring::Unknown, &[("cpu", 1)]), 0.0);
    assert_eq!(with(Scoring::Most, &[]), 0.0);
}

#[test]
fn nodes_with_scarce_resources_score_lower() {
    let sra = |enable: bool, weight: i64| -> Vec<(&str, Value)> {
        let weights: Value = [(GPU, 3.into()), ("fpga", (-1).into())].into();
        let sra = [
            ("enable", enable.into()),
            ("weight", weight.into()),
            ("resources", "nvidia.com/gpu, fpga".into()),
            ("resourceWeight", weights),
        ];
        vec![("resourceStrategyFitWeight", 0.into()), ("sra", sra.into())]
    };
    for (allocatable, expected) in [
        ("cpu=4", 200.0),
        ("cpu=4 fpga=1", 150.0),
        ("cpu=4 nvidia.com/gpu=1", 50.0),
        ("cpu=4 nvidia.com/gpu=1 fpga=1", 0.0),
        ("memory=1Gi", 0.0),
    ] {
        // Another node has both resources, so that their names are known.
        let mut cluster = cluster(allocatable, "", pod("p", "cpu=1"));
        cluster.apply(node("other", "nvidia.com/gpu=1 fpga=1").into());
        assert_eq!(score(&cluster, &sra(true, 2)), expected, "{allocatable}");
        assert_eq!(score(&cluster, &sra(false, 2)), 0.0, "{allocatable}");
        assert_eq!(score(&cluster, &sra(true, 0)), 0.0, "{allocatable}");
    }
}

#[test]
fn cpu_and_memory_stay_idle_for_idle_gpus() {
    let proportional = |enable: bool| -> Vec<(&str, Value)> {
        let rates: Value =
            [("nvidia.com/gpu.cpu", 2.into()), ("nvidia.com/gpu.memory", (-4.0).into())].into();
        let section = [("enable", enable.into()), ("resources", GPU.into()), ("resourceProportion", rates)];
        vec![("proportional", section.into())]
    };
    let fits = |used: &str, request: &str, enable: bool| {
        let cluster = cluster("cpu=10 memory=10G nvidia.com/gpu=4", used, pod("p", request));
        let node = &cluster.nodes[cluster.node_named("n").unwrap()];
        let rules = rules(&cluster, &proportional(enable));
        rules.resource_filters.iter().all(|filter| filter(node, Fit::Idle).is_ok())
    };
    for (used, request, expected) in [
        // Four idle GPUs need 8 idle cores and 4 GB of idle memory.
        ("", "cpu=2", true),
        ("", "cpu=2100m", false),
        ("", "cpu=1 memory=6G", true),
        ("", "cpu=1 memory=6001M", false),
        ("nvidia.com/gpu=3", "cpu=8", true),
        ("nvidia.com/gpu=3", "cpu=8100m", false),
        ("", "cpu=10 nvidia.com/gpu=1", true),
    ] {
        assert_eq!(fits(used, request, true), expected, "{used} then {request}");
        assert!(fits(used, request, false), "{used} then {request}, switched off");
    }
}
