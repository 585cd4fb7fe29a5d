//! usage: filters and scores nodes by measured usage.
//!
//! Figures come from the source under `metrics` and count for five minutes; a node without figures passes the filter,
//! and scores 0.
//! - A node is refused while its measured use of cpu or memory, in percent of its allocatable, is above the threshold.
//! - Score: `100 * weight` times the mean of the unused parts of cpu and memory, by their weights.
//! - For the score, the use of pods that were scheduled after the measurement is estimated: `request_ratio` of their
//!   requests and `burst_ratio` of the part of their limits above the requests, at most their limits; `be_cpu` and
//!   `be_mem` for a pod that requests nothing. Where the estimate takes the use of a node to `risk_threshold`, it
//!   counts `risk_factor` times.
//!
//! Source: Volcano's usage plugin. Difference: Volcano applies the risk factor pod by pod, in the order of their
//! arrival.
use std::sync::Arc;

use phalanx_resource::DimId;

use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{ClassId, JobId};
use phalanx_cluster::{Cluster, Newcomers, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec, Args, Rule, Value, quantity};
use phalanx_framework::plugin::{NodeRules, Plugin, PluginContext, PluginDef, ResourceScorer};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const PERCENT: ArgKind = ArgKind::Int(&[Rule::between(0, 100)]);
const PART: ArgKind = ArgKind::Float(&[Rule::between(0, 1)]);

const ARGS: &[ArgSpec] = &[
    arg("usage.weight", ArgKind::WEIGHT, "5", "Weight of the score."),
    arg("cpu.weight", ArgKind::WEIGHT, "1", "Weight of cpu in the score."),
    arg("memory.weight", ArgKind::WEIGHT, "1", "Weight of memory in the score."),
    arg(
        "thresholds",
        ArgKind::Section(&[
            arg("cpu", PERCENT, "80", "Percent of cpu."),
            arg("mem", PERCENT, "80", "Percent of memory."),
        ]),
        "{cpu: 80, mem: 80}",
        "Nodes with a use above a threshold take no pods; enablePredicate: false switches the filter off.",
    ),
    arg(
        "estimator",
        ArgKind::Section(ESTIMATOR),
        "",
        "Estimates the use of pods that are not in the figures yet.",
    ),
];

const ESTIMATOR: &[ArgSpec] = &[
    arg("request_ratio", PART, "0.7", "The part of the requests that pods are estimated to use."),
    arg(
        "burst_ratio",
        PART,
        "0",
        "The part of the limits above the requests that pods are estimated to use.",
    ),
    arg(
        "risk_threshold",
        PART,
        "0.6",
        "The use of a node from which on the estimate counts `risk_factor` times.",
    ),
    arg(
        "risk_factor",
        ArgKind::Float(&[Rule::at_least(1)]),
        "1.2",
        "The factor of the estimate on such a node.",
    ),
    arg(
        "be_cpu",
        ArgKind::Quantity,
        "250m",
        "The estimated cpu of a pod that requests nothing; a whole number is in millicores.",
    ),
    arg("be_mem", ArgKind::Quantity, "200Mi", "The estimated memory of such a pod; a whole number is in Mi."),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "usage",
    summary: "Keeps pods off nodes with a high measured use, and prefers nodes with a low one.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(UsageAware::open(opening)),
};

/// The highest score before its weight.
const MAX_SCORE: f64 = 100.0;
const MEASURED: [DimId; 2] = [DimId::CPU, DimId::MEMORY];

#[derive(Clone, Copy, Debug, PartialEq)]
struct UsageAware {
    weight: f64,
    /// Of cpu and memory, like all pairs below.
    weights: [f64; 2],
    /// Parts of the allocatable, from 0 to 1.
    thresholds: [f64; 2],
    request_ratio: f64,
    burst_ratio: f64,
    risk_threshold: f64,
    risk_factor: f64,
    /// In millicores and bytes.
    best_effort: [f64; 2],
}

impl UsageAware {
    fn open(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let weight =
            |key, default| Some(args.weight(key, default)).filter(|weight| *weight >= 0).unwrap_or(default);
        let (limits, estimator) = (args.section("thresholds"), args.section("estimator"));
        let threshold =
            |key| Some(limits.int(key, 80)).filter(|percent| (0..=100).contains(percent)).unwrap_or(80);
        let part = |key, default| ratio(&estimator, key, default);
        Self {
            weight: weight("usage.weight", 5) as f64,
            weights: [weight("cpu.weight", 1), weight("memory.weight", 1)].map(|weight| weight as f64),
            thresholds: [threshold("cpu"), threshold("mem")].map(|percent| percent as f64 / 100.0),
            request_ratio: part("request_ratio", 0.7),
            burst_ratio: part("burst_ratio", 0.0),
            risk_threshold: part("risk_threshold", 0.6),
            risk_factor: Some(estimator.float("risk_factor", 1.2))
                .filter(|factor| *factor >= 1.0)
                .unwrap_or(1.2),
            best_effort: [
                best_effort(&estimator, "be_cpu", 1e-3).unwrap_or(0.25) * 1e3,
                best_effort(&estimator, "be_mem", f64::from(1 << 20)).unwrap_or(f64::from(200 << 20)),
            ],
        }
    }

    /// The estimated use of pods scheduled after the measurement, in millicores and bytes.
    fn estimate(&self, newcomers: &Newcomers, risk: f64) -> [f64; 2] {
        [0, 1].map(|at| {
            let (request, burst) = (newcomers.request[at] as f64, newcomers.burst[at] as f64);
            let used = (request * self.request_ratio + burst * self.burst_ratio) * risk;
            used.min(request + burst) + newcomers.best_effort as f64 * self.best_effort[at] * risk
        })
    }

    /// The mean of two figures by the weights of cpu and memory; 0 when both weights are 0.
    fn mean(&self, figures: [f64; 2]) -> f64 {
        let sum: f64 = self.weights.iter().sum();
        if sum == 0.0 { 0.0 } else { (figures[0] * self.weights[0] + figures[1] * self.weights[1]) / sum }
    }

    /// The measured use of a node plus the estimate, as parts of its allocatable.
    fn load(&self, node: &Node, measured: [f64; 2], newcomers: &Newcomers) -> [f64; 2] {
        let with = |risk: f64| {
            let estimate = self.estimate(newcomers, risk);
            [0, 1].map(|at| {
                let whole = node.allocatable.get(MEASURED[at]);
                if whole <= 0 { 0.0 } else { (measured[at] + estimate[at] / whole as f64).clamp(0.0, 1.0) }
            })
        };
        let load = with(1.0);
        if self.mean(load) >= self.risk_threshold { with(self.risk_factor) } else { load }
    }
}

fn ratio(args: &Args, key: &str, default: f64) -> f64 {
    Some(args.float(key, default)).filter(|ratio| (0.0..=1.0).contains(ratio)).unwrap_or(default)
}

/// A quantity, or a whole number in multiples of `unit`.
fn best_effort(args: &Args, key: &str, unit: f64) -> Option<f64> {
    match args.get(key)? {
        Value::Int(number) => Some(*number as f64 * unit).filter(|amount| *amount >= 0.0),
        value => quantity(value).map(|quantity| quantity.milli() as f64 / 1e3),
    }
}

impl Plugin for UsageAware {
    /// Figures come and go without a change of an object.
    fn refusal_holds_until(&self, _: &Cluster, _: JobId) -> Option<Time> {
        None
    }

    fn filters(&self, _: &Cluster, _: ClassId, rules: &mut NodeRules) {
        let thresholds = self.thresholds;
        let texts: [Arc<str>; 2] = ["cpu", "memory"]
            .map(|name| format!("the {name} load of the node exceeds the upper limit").into());
        rules.resource_filter(move |node, _| {
            let Some(usage) = &node.usage else { return Ok(()) };
            let over = usage.parts().iter().zip(&thresholds).position(|(part, threshold)| part > threshold);
            over.map_or(Ok(()), |at| Err(Unfit::Other(texts[at].clone())))
        });
    }

    fn scorers(&self, _: &Cluster, _: ClassId, rules: &mut NodeRules) {
        if self.weight > 0.0 {
            rules.resource_scorers.push(Box::new(UsageScorer(*self)));
        }
    }
}

/// Scores the unused parts.
struct UsageScorer(UsageAware);

impl ResourceScorer for UsageScorer {
    fn score(&self, node: &Node) -> f64 {
        let Some(usage) = &node.usage else { return 0.0 };
        let load = self.0.load(node, usage.parts(), &usage.newcomers);
        self.0.mean(load.map(|part| 1.0 - part)) * MAX_SCORE * self.0.weight
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Measure, NodeUsage, PodInfo, PodLife, Time};
    use phalanx_framework::placement::Fit;
    use phalanx_framework::testing::{cluster_of, node, opened, pod, resources, running, task_of};

    fn measured(cpu: &str, memory: &str, at: i64) -> NodeUsage {
        let amount = |text: &str| Measure::Amount(text.parse().unwrap());
        NodeUsage {
            node: "n".into(),
            cpu: amount(cpu),
            memory: amount(memory),
            since: Time(at - 30),
            at: Some(Time(at)),
        }
    }

    fn open(list: &[(&str, Value)]) -> UsageAware {
        opened(UsageAware::open, &cluster_of::<NodeUsage>([]), Time(0), list)
    }

    fn the_node(cluster: &Cluster) -> &Node {
        &cluster.nodes[cluster.node_named("n").unwrap()]
    }

    fn score(cluster: &Cluster, list: &[(&str, Value)]) -> f64 {
        UsageScorer(open(list)).score(the_node(cluster))
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn arguments_out_of_range_have_their_default() {
        let thresholds = [("cpu", Value::from(101)), ("mem", (-1).into())].into();
        let estimator = [
            ("request_ratio", Value::from(1.5)),
            ("burst_ratio", (-0.1).into()),
            ("risk_threshold", 2.0.into()),
            ("risk_factor", 0.5.into()),
            ("be_cpu", "x".into()),
            ("be_mem", (-5).into()),
        ];
        let list = [
            ("usage.weight", (-1).into()),
            ("cpu.weight", (-1).into()),
            ("thresholds", thresholds),
            ("estimator", estimator.into()),
        ];
        assert_eq!(open(&list), open(&[]));
        assert_eq!(open(&[]).best_effort, [250.0, f64::from(200 << 20)]);
        let of = |cpu: Value, memory: Value| {
            open(&[("estimator", [("be_cpu", cpu), ("be_mem", memory)].into())]).best_effort
        };
        assert_eq!(of(100.into(), 1.into()), [100.0, f64::from(1 << 20)]);
        assert_eq!(of("1500m".into(), "1Ki".into()), [1500.0, 1024.0]);
    }

    #[test]
    fn nodes_above_a_threshold_are_refused_while_the_figures_are_fresh() {
        let check = |cluster: &Cluster, list: &[(&str, Value)]| {
            let plugin = open(list);
            let mut rules = NodeRules::default();
            let class = cluster.tasks[task_of(cluster, "p")].class;
            plugin.filters(cluster, class, &mut rules);
            let fits = rules.resource_filters[0](the_node(cluster), Fit::Idle);
            fits.err().map(|unfit| unfit.text(&cluster.dims))
        };
        let refused = |name: &str| Some(format!("the {name} load of the node exceeds the upper limit"));
        for (cpu, memory, expected) in [
            ("8", "8Gi", None),
            ("8001m", "0", refused("cpu")),
            ("0", "9Gi", refused("memory")),
            ("20", "20Gi", refused("cpu")),
        ] {
            let mut cluster = cluster_of([node("n", "cpu=10 memory=10Gi")]);
            cluster.apply(pod("p", "cpu=1").into());
            assert_eq!(check(&cluster, &[]), None, "no figures");
            cluster.apply(measured(cpu, memory, 1_000).into());
            assert_eq!(check(&cluster, &[]), expected, "{cpu} {memory}");
            let wide = [("thresholds", [("cpu", Value::from(100)), ("mem", 100.into())].into())];
            assert_eq!(check(&cluster, &wide).is_some(), cpu == "20", "{cpu} {memory}");
            cluster.expire_usage(Time(301_000));
            assert_eq!(check(&cluster, &[]), expected, "after five minutes");
            cluster.expire_usage(Time(301_001));
            assert_eq!(check(&cluster, &[]), None, "and a millisecond");
        }
    }

    #[test]
    fn the_score_is_the_weighted_mean_of_the_unused_parts() {
        let mut cluster = cluster_of([node("n", "cpu=10 memory=10Gi")]);
        assert_eq!(score(&cluster, &[]), 0.0, "no figures");
        cluster.apply(measured("2", "5Gi", 0).into());
        assert!(close(score(&cluster, &[]), 325.0));
        assert!(close(score(&cluster, &[("cpu.weight", 3.into()), ("usage.weight", 1.into())]), 72.5));
        assert!(close(score(&cluster, &[("cpu.weight", 0.into()), ("memory.weight", 0.into())]), 0.0));
        cluster.apply(NodeUsage { cpu: Measure::Part(100_000), ..measured("0", "0", 0) }.into());
        assert!(close(score(&cluster, &[("memory.weight", 0.into())]), 450.0));
    }

    #[test]
    fn the_use_of_pods_scheduled_after_the_measurement_is_estimated() {
        let estimate = |list: &[(&str, Value)], pods: Vec<PodInfo>| {
            let mut cluster = cluster_of([node("n", "cpu=10 memory=10Gi")]);
            for pod in pods {
                cluster.apply(pod.into());
            }
            cluster.apply(measured("0", "0", 1_000).into());
            assert_eq!(cluster.check(), Vec::<String>::new());
            let mut all: Vec<(&str, Value)> = vec![("memory.weight", 0.into()), ("usage.weight", 1.into())];
            all.extend(list.iter().cloned());
            100.0 - score(&cluster, &all)
        };
        let at = |scheduled, pod: PodInfo| {
            let pod = running(pod, "n");
            PodInfo { life: PodLife { scheduled, ..pod.life }, ..pod }
        };
        let with_limit = |text: &str| {
            let mut info = pod("p", "cpu=2");
            Arc::make_mut(&mut info.requests).limits = vec![resources(text)];
            at(Some(Time(999)), info)
        };
        let new = || vec![at(Some(Time(999)), pod("p", "cpu=2"))];
        let estimator = |key, value: f64| [("estimator", Value::from([(key, value.into())]))];
        // 2 of 10 cores, times 0.7.
        assert!(close(estimate(&[], new()), 14.0));
        assert!(
            close(estimate(&[], vec![at(Some(Time(970)), pod("p", "cpu=2"))]), 0.0),
            "scheduled before the measurement"
        );
        assert!(close(estimate(&[], vec![at(None, pod("p", "cpu=2"))]), 0.0));
        assert!(close(estimate(&estimator("request_ratio", 1.0), new()), 20.0));
        assert!(
            close(estimate(&estimator("burst_ratio", 0.5), new()), 14.0),
            "without limits nothing bursts"
        );
        assert!(close(estimate(&estimator("burst_ratio", 0.5), vec![with_limit("cpu=6")]), 34.0));
        assert!(
            close(estimate(&[], vec![at(Some(Time(999)), pod("p", ""))]), 2.5),
            "one that requests nothing"
        );
        assert!(close(estimate(&[], vec![at(Some(Time(999)), pod("p", "cpu=9"))]), 75.6), "9 * 0.7 * 1.2");
        let certain = Value::from([("request_ratio", 1.0.into()), ("risk_factor", 3.0.into())]);
        let seven = vec![at(Some(Time(999)), pod("p", "cpu=7"))];
        assert!(close(estimate(&[("estimator", certain)], seven), 70.0), "never above its limits");
    }
}
