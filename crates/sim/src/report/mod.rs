//! The report of a simulation and its formats.
mod comparison;
mod comparison_page;
mod hyper_nodes;
mod json;
mod page;
pub(crate) mod table;

use std::collections::BTreeMap;
use std::fmt;

use phalanx_view::shape;
use serde::Serialize;

use phalanx_resource::for_people;

pub use comparison::{Comparison, GroupEnd, Sides};
pub(crate) use hyper_nodes::HyperNodeOutcome;
pub use table::Detail;

/// The report of a simulation. Serialised, it is the object that `-o json` prints; skipped fields are for tables and
/// pages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Pods bound in this run, `namespace/name` to node.
    pub bindings: BTreeMap<String, String>,
    /// Pods evicted in this run, in the order of the decisions.
    pub evictions: Vec<String>,
    /// The evictions with their preemptors and reasons.
    pub eviction_causes: Vec<Eviction>,
    /// Pods with a nomination of this run, `namespace/name` to node.
    pub nominations: BTreeMap<String, String>,
    /// PodGroups, by `namespace/name`.
    pub pod_groups: BTreeMap<String, GroupOutcome>,
    /// Jobs of Volcano, by `namespace/name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub jobs: BTreeMap<String, JobOutcome>,
    /// CronJobs of Volcano, by `namespace/name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cron_jobs: BTreeMap<String, CronJobOutcome>,
    /// JobFlows of Volcano, by `namespace/name`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub job_flows: BTreeMap<String, JobFlowOutcome>,
    /// Waiting pods without a PodGroup, by `namespace/name`.
    pub pods: BTreeMap<String, PodOutcome>,
    /// The nodes of pods of this scheduler without a PodGroup, by `namespace/name`.
    #[serde(skip)]
    pub singles: BTreeMap<String, String>,
    /// Queues, by name.
    pub queues: BTreeMap<String, QueueOutcome>,
    /// HyperNodes, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub hyper_nodes: BTreeMap<String, HyperNodeOutcome>,
    /// The queues when the most was allocated, if nothing is any more.
    #[serde(skip)]
    pub busiest: Option<BusiestQueues>,
    /// Figures of the run.
    pub stats: Stats,
    /// Nodes with their used resources, by name.
    #[serde(skip)]
    pub nodes: BTreeMap<String, NodeOutcome>,
}

/// An evicted pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Eviction {
    /// `namespace/name`.
    pub pod: String,
    /// The action that evicted it.
    pub action: &'static str,
    /// The preemptor: a PodGroup, or a pod without one; missing for a moved pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason, as in the event on the pod.
    pub reason: String,
}

/// The node that lacks the least for a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lack {
    /// The missing resources, in canonical quantities.
    pub missing: BTreeMap<String, String>,
    /// The name.
    pub missing_on: String,
    /// No node could hold the pod even if it were empty; missing if some node could.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub too_large: bool,
    /// The text in conditions.
    #[serde(skip)]
    pub text: String,
}

/// The text of `simulate` and `explain`.
impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The outcome of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupOutcome {
    /// The phase.
    pub phase: String,
    /// The reasons of a waiting PodGroup; empty for others.
    pub reasons: Vec<String>,
    /// A problem of its annotations, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What the nearest node lacks, if nodes lack room.
    #[serde(flatten)]
    pub lack: Option<Lack>,
    /// The lowest HyperNode that holds all its pods with nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_node: Option<String>,
    /// The lowest HyperNode of each sub-group, by the entry of `subGroupPolicy` and the values of `matchLabelKeys`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sub_groups: BTreeMap<String, String>,
    /// What is free on nodes that have too little of a resource each, a line for each such resource; of the first gangs
    /// that wait only.
    #[serde(skip)]
    pub fragments: Vec<String>,
    /// Its queue.
    #[serde(skip)]
    pub queue: String,
    /// `minMember`.
    #[serde(skip)]
    pub min_member: u32,
    /// Members by node, including those that succeeded.
    #[serde(skip)]
    pub nodes: BTreeMap<String, u32>,
    /// Members of this scheduler without a node, and those that its Job makes once it is admitted.
    #[serde(skip)]
    pub waiting: u32,
}

impl GroupOutcome {
    /// Members with a node.
    pub fn placed(&self) -> u32 {
        self.nodes.values().sum()
    }
}

/// The outcome of a Job of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobOutcome {
    /// The phase.
    pub phase: String,
    /// How often it or a part of it was restarted.
    pub retries: i32,
    /// Why it gets no pods, or the last warning about it; empty for others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Its pods that exist, at its end those that existed last.
    pub pods: PodCounts,
    /// The phases it went through, in order of time.
    pub history: Vec<PhaseChange>,
}

/// Pods of a Job by phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodCounts {
    /// Waiting, or starting.
    pub pending: i32,
    /// Running.
    pub running: i32,
    /// Ended well.
    pub succeeded: i32,
    /// Failed.
    pub failed: i32,
}

impl PodCounts {
    /// Pending, running, succeeded, failed.
    fn in_order(self) -> [i32; 4] {
        [self.pending, self.running, self.succeeded, self.failed]
    }
}

/// A Job enters a phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PhaseChange {
    /// Seconds of virtual time since the begin of the run.
    pub seconds: i64,
    /// The phase.
    pub phase: String,
    /// The action and what caused it, as in the event on the Job; empty where the counts of pods lead to the phase.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cause: String,
}

impl fmt::Display for PhaseChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} s {}", self.seconds, self.phase)?;
        if self.cause.is_empty() { Ok(()) } else { write!(f, " ({})", self.cause) }
    }
}

/// The outcome of a CronJob of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CronJobOutcome {
    /// How many Jobs it has started.
    pub started: u32,
    /// How many of them have not ended.
    pub active: usize,
    /// The time of the schedule for which it started the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
}

/// The outcome of a JobFlow of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobFlowOutcome {
    /// The phase.
    pub phase: String,
    /// Its Jobs that have completed.
    pub completed: Vec<String>,
    /// The last warning about it; empty for others.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The number of its steps.
    #[serde(skip)]
    pub steps: usize,
}

/// The outcome of a waiting pod without a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PodOutcome {
    /// The reasons.
    pub reasons: Vec<String>,
    /// What the nearest node lacks, if nodes lack room.
    #[serde(flatten)]
    pub lack: Option<Lack>,
}

/// The outcome of a queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueOutcome {
    /// The resources of its pods, in canonical quantities.
    pub allocated: BTreeMap<String, String>,
    /// The deserved amounts.
    pub deserved: BTreeMap<String, String>,
    /// The weight.
    #[serde(skip)]
    pub weight: u32,
    /// The largest ratio of allocated to deserved over the resources; missing without deserved amounts.
    #[serde(skip)]
    pub share: Option<f64>,
    /// A problem of the queue, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// The queues at the time at which the most was allocated.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusiestQueues {
    /// Seconds of virtual time since the begin of the run.
    pub seconds: f64,
    /// Queues, by name.
    pub queues: BTreeMap<String, QueueOutcome>,
}

/// Figures of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stats {
    /// Pods bound in this run.
    pub bound: usize,
    /// Scheduling cycles.
    pub cycles: u32,
    /// Nodes.
    pub nodes: usize,
    /// Pods of this scheduler without a node, and those that controllers of Jobs make once these are admitted.
    pub pending: usize,
    /// Pods in the input, including those of other schedulers.
    pub pods: usize,
    /// Time spent in scheduling sessions, in seconds: the only figure that differs between runs.
    pub session_seconds: f64,
    /// Virtual time of the run, in seconds.
    pub virtual_seconds: f64,
}

/// The use of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOutcome {
    /// Pods on the node, including those that succeeded.
    pub pods: u32,
    /// Used and total amounts of resources, in the order of the Cluster.
    pub resources: Vec<Usage>,
}

/// The use of a resource of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// The name.
    pub name: String,
    /// The amount that pods use, as a quantity.
    pub used: String,
    /// The total amount, as a quantity.
    pub allocatable: String,
    /// The used part, 0 to 1, or more where pods use more than the total.
    pub ratio: f64,
}

/// Waiting pods, or jobs, with the same kind of reason.
pub(crate) struct Alike<'r> {
    pub(crate) count: usize,
    /// The first pod and its reason.
    pub(crate) example: (&'r str, &'r str),
    /// What the nearest node lacks for the first pod; shown once, with the first of its reasons.
    pub(crate) lack: Option<&'r Lack>,
}

impl std::fmt::Display for Alike<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (pod, reason) = self.example;
        match self.count {
            1 => write!(f, "{pod} waits: {reason}"),
            count => write!(f, "{count} pods wait, such as {pod}: {reason}"),
        }
    }
}

/// Waiting pods by their reasons, regardless of the numbers in them: the most frequent first.
pub(crate) fn alike(pods: &BTreeMap<String, PodOutcome>) -> Vec<Alike<'_>> {
    let mut kinds: BTreeMap<String, Alike<'_>> = BTreeMap::new();
    for (pod, outcome) in pods {
        for (at, reason) in outcome.reasons.iter().enumerate() {
            let reason = without_name(pod, reason);
            let lack = outcome.lack.as_ref().filter(|_| at == 0);
            let kind = kinds.entry(shape(reason)).or_insert(Alike { count: 0, example: (pod, reason), lack });
            kind.count += 1;
        }
    }
    let mut kinds: Vec<Alike<'_>> = kinds.into_values().collect();
    // The sort is stable: kinds of equal size stay in the order of their text.
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds
}

/// A reason may begin with the pod's own name, which is left out.
fn without_name<'r>(pod: &str, reason: &'r str) -> &'r str {
    let name = pod.rsplit('/').next().unwrap_or(pod);
    reason.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(reason)
}

/// `cpu=4, memory=8Gi`; a dash for nothing.
fn amounts(amounts: &BTreeMap<String, String>) -> String {
    if amounts.is_empty() { "-".into() } else { figures(amounts) }
}

/// `cpu 2, memory 4Gi`.
pub(crate) fn figures<K: fmt::Display, V: fmt::Display>(amounts: impl IntoIterator<Item = (K, V)>) -> String {
    let each = amounts.into_iter().map(|(name, amount)| format!("{name} {amount}"));
    each.collect::<Vec<_>>().join(", ")
}

/// `cpu 22.5k, memory 56Ti`; a dash for nothing.
fn people(amounts: &BTreeMap<String, String>) -> String {
    let rounded = amounts.iter().map(|(name, amount)| (name, for_people(name, amount)));
    if amounts.is_empty() { "-".into() } else { figures(rounded) }
}

/// A fraction of 1 as a percentage.
fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_with_the_same_kind_of_reason_are_listed_together() {
        let pods = [
            ("a/p", "p: 0/9 nodes are available: 4 Insufficient cpu, 5 node(s) had untolerated taint(s)."),
            ("a/q", "q: 0/9 nodes are available: 2 node(s) had untolerated taint(s), 7 Insufficient cpu."),
            ("b/r", "queue x is overused: cpu (2 more)"),
        ];
        let outcome = |reason: &str| PodOutcome { reasons: vec![reason.to_owned()], ..PodOutcome::default() };
        let pods = pods.iter().map(|(pod, reason)| ((*pod).to_owned(), outcome(reason))).collect();
        let told: Vec<String> = alike(&pods).iter().map(ToString::to_string).collect();
        let expected = [
            "2 pods wait, such as a/p: 0/9 nodes are available: 4 Insufficient cpu, 5 node(s) had untolerated taint(s).",
            "b/r waits: queue x is overused: cpu (2 more)",
        ];
        assert_eq!(told, expected);
    }
}
