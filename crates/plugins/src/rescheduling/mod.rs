//! rescheduling: evicts pods from nodes with a high measured use while nodes with a low one exist.
//!
//! Works with the action `shuffle`, in the first cycle of each `interval` (intervals are counted from 1970) and in the
//! first cycle of the process. Strategy `lowNodeUtilization`, in percent of a node's allocatable: a node is *low* when
//! it is below all `thresholds` and not cordoned, and *high* when it is above any of the `targetThresholds`. When there
//! are nodes of both kinds, pods are evicted from the high nodes, the busiest node first: pods of lower priority first,
//! among equals those that request nothing first; until the node is below its targets, or what the low nodes can take
//! up to their targets is used up; and only pods that fit on another node. Use of cpu and memory is measured (source:
//! `metrics`), pods are counted; a node without figures is neither low nor high.
//!
//! Source: Volcano's rescheduling plugin. Differences: Volcano reads figures of `metricsPeriod`, though its cache has
//! those of `10m` only, and ignores the thresholds of pods.
use std::cmp::Ordering;

use phalanx_resource::DimId;
use rustc_hash::FxHashMap;

use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Args, Otherwise, Rule};
use phalanx_framework::plugin::{Plugin, PluginContext, PluginDef, Rebalancer};

const fn arg(name: &'static str, kind: ArgKind, default: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind, default, doc }
}

const ARGS: &[ArgSpec] = &[
    arg("interval", ArgKind::Duration(&[Rule::at_least(1)]), "5m", "How often pods are moved."),
    arg(
        "metricsPeriod",
        ArgKind::Duration(&[Rule::IDLE]),
        "5m",
        "Accepted for Volcano's sake; the latest figures count.",
    ),
    arg("strategies", ArgKind::Sections(STRATEGY), "[{name: lowNodeUtilization}]", "What to move, and when."),
];

const STRATEGY: &[ArgSpec] = &[
    arg("name", ArgKind::Text(&[STRATEGIES]), "", "The name of the strategy."),
    arg("params", ArgKind::Section(PARAMS), "", "The parameters of the strategy."),
];

const PARAMS: &[ArgSpec] = &[
    arg("thresholds", ArgKind::Section(PERCENTS), "", "A node that is below all of them is low."),
    arg("targetThresholds", ArgKind::Section(PERCENTS), "", "A node that is above any of them is high."),
    arg("nodeFit", ArgKind::Bool, "true", "Accepted for Volcano's sake, where it has no effect either."),
    arg(
        "thresholdPriorityClassName",
        ArgKind::Text(&[]),
        "system-cluster-critical",
        "Accepted for Volcano's sake, where it has no effect either.",
    ),
];

/// The use of a node is between 0 and 100, so all nodes are on the same side of a threshold outside that range.
const PERCENT: ArgKind = ArgKind::Int(&[Rule::new(
    Allowed::Between(0, 100),
    Otherwise::Does("all nodes are on the same side of the threshold"),
)]);

const STRATEGIES: Rule =
    Rule::new(Allowed::Words(&[LOW_NODE_UTILIZATION]), Otherwise::Does("the strategy has no effect"));

const PERCENTS: &[ArgSpec] = &[
    arg("cpu", PERCENT, "100", "Percent of cpu in use."),
    arg("memory", PERCENT, "100", "Percent of memory in use."),
    arg("pods", PERCENT, "100", "Percent of the node's number of pods."),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "rescheduling",
    summary: "Evicts pods from nodes with a high measured use while nodes with a low one exist.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Rescheduling::open(opening)),
};

const INTERVAL_MS: i64 = 5 * 60_000;
const LOW_NODE_UTILIZATION: &str = "lowNodeUtilization";
const DIMS: [DimId; 3] = [DimId::CPU, DimId::MEMORY, DimId::PODS];

/// Utilization of cpu, memory and pods, 0 for none and 1 for all.
type Utilization = [f64; 3];

struct Rescheduling {
    /// Empty when this cycle evicts no pods.
    strategies: Vec<LowNodeUtilization>,
}

impl Rescheduling {
    fn open(opening: PluginContext<'_>) -> Self {
        let args = opening.args;
        let interval = Some(args.duration_ms("interval", INTERVAL_MS)).filter(|interval| *interval > 0);
        if !opening.begins(interval.unwrap_or(INTERVAL_MS)) {
            return Self { strategies: Vec::new() };
        }
        let named = args.sections("strategies");
        if named.is_empty() {
            return Self { strategies: vec![LowNodeUtilization::read(&Args::default())] };
        }
        let known = named.iter().filter(|strategy| strategy.text("name") == Some(LOW_NODE_UTILIZATION));
        let read = |strategy: &Args| LowNodeUtilization::read(&strategy.section("params"));
        Self { strategies: known.map(read).collect() }
    }
}

impl Plugin for Rescheduling {
    fn rebalancer(&self) -> Option<&dyn Rebalancer> {
        (!self.strategies.is_empty()).then_some(self as &dyn Rebalancer)
    }
}

impl Rebalancer for Rescheduling {
    fn victims(&self, cluster: &Cluster, of: &[TaskId]) -> Vec<TaskId> {
        let mut victims: Vec<TaskId> = Vec::new();
        for strategy in &self.strategies {
            let left: Vec<TaskId> = of.iter().copied().filter(|task| !victims.contains(task)).collect();
            victims.extend(strategy.victims(cluster, &left));
        }
        victims
    }

    fn needs_other_node(&self) -> bool {
        true
    }
}

struct LowNodeUtilization {
    low: Utilization,
    target: Utilization,
}

/// A node with measured use.
struct MeasuredNode<'w> {
    id: NodeId,
    node: &'w Node,
    parts: Utilization,
}

impl LowNodeUtilization {
    fn read(params: &Args) -> Self {
        let percents = |key| {
            let section = params.section(key);
            ["cpu", "memory", "pods"].map(|name| section.float(name, 100.0) / 100.0)
        };
        Self { low: percents("thresholds"), target: percents("targetThresholds") }
    }

    fn victims(&self, cluster: &Cluster, of: &[TaskId]) -> Vec<TaskId> {
        let nodes: Vec<MeasuredNode<'_>> =
            cluster.nodes.iter().filter_map(|(id, node)| loaded(id, node)).collect();
        let (low, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(|it| self.is_low(it));
        let mut high: Vec<MeasuredNode<'_>> =
            others.into_iter().filter(|it| exceeds(it.parts, self.target)).collect();
        if low.is_empty() || high.is_empty() {
            return Vec::new();
        }
        let mut capacity = self.capacity_of(&low);
        high.sort_by(busiest_first);
        let mut pods: FxHashMap<NodeId, Vec<TaskId>> = FxHashMap::default();
        for task in of.iter().copied().filter(|task| cluster.tasks[*task].details.preemptable != Some(false))
        {
            if let Some(node) = cluster.tasks[task].node {
                pods.entry(node).or_default().push(task);
            }
        }
        let mut victims = Vec::new();
        for node in high {
            let mut pods = pods.remove(&node.id).unwrap_or_default();
            pods.sort_by(|a, b| least_important_first(cluster, *a, *b));
            self.pick_victims(cluster, node, pods, &mut capacity, &mut victims);
        }
        victims
    }

    fn is_low(&self, it: &MeasuredNode<'_>) -> bool {
        !it.node.unschedulable && it.parts.iter().zip(&self.low).all(|(part, threshold)| part < threshold)
    }

    /// What the low nodes can take, up to their targets.
    fn capacity_of(&self, low: &[MeasuredNode<'_>]) -> Utilization {
        let of = |at: usize| {
            let each = low
                .iter()
                .map(|it| (self.target[at] - it.parts[at]) * it.node.allocatable.get(DIMS[at]) as f64);
            each.sum()
        };
        [0, 1, 2].map(of)
    }

    /// Picks pods of a node while it is above a target and the low nodes have capacity left.
    fn pick_victims(
        &self,
        cluster: &Cluster,
        mut it: MeasuredNode<'_>,
        pods: Vec<TaskId>,
        capacity: &mut Utilization,
        victims: &mut Vec<TaskId>,
    ) {
        for task in pods {
            let above = it.parts.iter().zip(&self.target).any(|(part, target)| part >= target);
            if !above || capacity.iter().any(|amount| *amount <= 0.0) {
                return;
            }
            for (at, dim) in DIMS.into_iter().enumerate() {
                let request = cluster.request_of(task).get(dim) as f64;
                capacity[at] -= request;
                it.parts[at] -= request / it.node.allocatable.get(dim).max(1) as f64;
            }
            victims.push(task);
        }
    }
}

fn loaded(id: NodeId, node: &Node) -> Option<MeasuredNode<'_>> {
    let [cpu, memory] = node.usage.as_ref()?.parts();
    let pods = node.used(DimId::PODS) as f64 / node.allocatable.get(DimId::PODS).max(1) as f64;
    Some(MeasuredNode { id, node, parts: [cpu, memory, pods] })
}

fn exceeds(parts: Utilization, target: Utilization) -> bool {
    parts.iter().zip(&target).any(|(part, target)| part > target)
}

fn busiest_first(a: &MeasuredNode<'_>, b: &MeasuredNode<'_>) -> Ordering {
    let load = |it: &MeasuredNode<'_>| it.parts[0] + it.parts[1];
    load(b).total_cmp(&load(a)).then_with(|| a.node.name.cmp(&b.node.name))
}

fn least_important_first(cluster: &Cluster, a: TaskId, b: TaskId) -> Ordering {
    let (one, other) = (&cluster.tasks[a], &cluster.tasks[b]);
    let best_effort = |task| cluster.class_of(task).best_effort;
    let by_class = best_effort(b).cmp(&best_effort(a));
    one.priority.cmp(&other.priority).then(by_class).then_with(|| one.pod.cmp(&other.pod))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Measure, NodeInfo, NodeUsage, PodInfo, Time};
    use phalanx_framework::conf::Value;
    use phalanx_framework::testing::{cluster_of, node, opened, pod, running};

    fn used(name: &str, cpu: u32, memory: u32) -> NodeUsage {
        let part = |percent: u32| Measure::Part(percent * 10_000);
        NodeUsage { node: name.into(), cpu: part(cpu), memory: part(memory), since: Time(0), at: None }
    }

    /// Nodes of ten cores (name, cpu and memory use in percent, number of pods), with pods `NODE-0`, ... of one core.
    fn cluster(nodes: &[(&str, u32, u32, u32)]) -> Cluster {
        let mut cluster = cluster_of::<NodeInfo>([]);
        for (name, cpu, memory, pods) in nodes {
            cluster.apply(node(name, "cpu=10 memory=10Gi pods=10").into());
            cluster.apply(used(name, *cpu, *memory).into());
            for index in 0..*pods {
                cluster.apply(running(pod(&format!("{name}-{index}"), "cpu=1 memory=1Gi"), name).into());
            }
        }
        cluster
    }

    fn strategy(low: i64, target: i64) -> Value {
        let percents = |percent: i64| Value::from([("cpu", percent.into()), ("memory", percent.into())]);
        let params = Value::from([("thresholds", percents(low)), ("targetThresholds", percents(target))]);
        Value::List(vec![[("name", LOW_NODE_UTILIZATION.into()), ("params", params)].into()])
    }

    fn victims(cluster: &Cluster, strategies: Value) -> String {
        let plugin = opened(Rescheduling::open, cluster, Time(0), &[("strategies", strategies)]);
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        let victims = plugin.victims(cluster, &all);
        victims.iter().map(|task| &*cluster.tasks[*task].pod.name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_are_evicted_from_high_nodes_while_low_nodes_have_capacity() {
        for (nodes, expected) in [
            // From 80 to below 70 percent; the low node has capacity for 7 - 1 cores.
            (vec![("high", 80, 50, 5), ("low", 10, 10, 0)], "high-0 high-1"),
            (vec![("high", 80, 95, 5), ("low", 10, 10, 0)], "high-0 high-1 high-2"),
            (vec![("high", 80, 50, 5), ("middle", 50, 50, 0)], ""),
            (vec![("low", 10, 10, 5), ("idle", 0, 0, 0)], ""),
            (vec![("high", 80, 80, 5)], ""),
            // The busiest node first, and no more pods than the low node can take.
            (vec![("h1", 80, 80, 5), ("h2", 95, 90, 5), ("low", 29, 10, 0)], "h2-0 h2-1 h2-2 h1-0 h1-1"),
            (vec![("h2", 99, 99, 9), ("h1", 98, 98, 9), ("low", 29, 29, 0)], "h2-0 h2-1 h2-2 h1-0 h1-1"),
        ] {
            assert_eq!(victims(&cluster(&nodes), strategy(30, 70)), expected, "{nodes:?}");
        }
    }

    #[test]
    fn victims_go_by_priority_and_only_preemptable_pods_are_victims() {
        let mut cluster = cluster(&[("high", 95, 50, 0), ("low", 0, 0, 0)]);
        let with = |name: &str, priority, requests: &str| PodInfo {
            priority: Some(priority),
            ..running(pod(name, requests), "high")
        };
        for info in [
            with("a", 5, "cpu=1"),
            with("b", 1, "cpu=1"),
            with("c", 1, ""),
            PodInfo { preemptable: Some(false), ..with("d", 0, "cpu=1") },
            with("e", 9, "cpu=1"),
        ] {
            cluster.apply(info.into());
        }
        assert_eq!(victims(&cluster, strategy(30, 70)), "c b a e");
    }

    #[test]
    fn cordoned_and_unmeasured_nodes_are_not_low() {
        let mut cluster = cluster(&[("high", 95, 50, 3), ("low", 0, 0, 0)]);
        cluster.apply(node("unmeasured", "cpu=10").into());
        cluster.apply(NodeInfo { unschedulable: true, ..node("low", "cpu=10 memory=10Gi pods=10") }.into());
        assert_eq!(victims(&cluster, strategy(30, 70)), "");
    }

    #[test]
    fn the_default_and_unknown_strategies_evict_no_pods() {
        let cluster = cluster(&[("high", 100, 100, 3), ("low", 0, 0, 0)]);
        assert_eq!(victims(&cluster, Value::List(vec![])), "");
        assert_eq!(victims(&cluster, Value::List(vec![[("name", "other".into())].into()])), "");
        assert_ne!(victims(&cluster, strategy(30, 70)), "");
    }

    #[test]
    fn pods_are_evicted_once_in_an_interval() {
        let cluster = cluster(&[("high", 95, 50, 3), ("low", 0, 0, 0)]);
        let moves = |before: Option<i64>, now: i64| {
            let args = phalanx_framework::testing::args(&[
                ("interval", "10s".into()),
                ("strategies", strategy(30, 70)),
            ]);
            let (flags, before) = (phalanx_framework::conf::Flags::default(), before.map(Time));
            let opening = PluginContext {
                cluster: &cluster,
                args: &args,
                flags,
                now: Time(now),
                before,
                extender: None,
            };
            !Rescheduling::open(opening)
                .victims(&cluster, &cluster.tasks.ids().collect::<Vec<_>>())
                .is_empty()
        };
        assert_eq!([moves(None, 5), moves(Some(5), 9_999), moves(Some(9_999), 10_000)], [true, false, true]);
    }
}
