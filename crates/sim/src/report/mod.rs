//! What came of a simulation, and how it is shown.
mod html;
mod json;
mod table;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

/// What came of a simulation. Serialised, it is the object that `-o json` prints; what is skipped there is for people.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Pods bound in this run, `namespace/name` to node.
    pub bindings: BTreeMap<String, String>,
    /// Pods evicted in this run, in the order of the decisions.
    pub evictions: Vec<String>,
    /// The same with for whom and why.
    pub eviction_causes: Vec<Eviction>,
    /// Pods to which this run promised a node that others have to leave first.
    pub nominations: BTreeMap<String, String>,
    /// PodGroups, by `namespace/name`.
    pub pod_groups: BTreeMap<String, GroupOutcome>,
    /// Pods without a PodGroup that wait, by `namespace/name`.
    pub pods: BTreeMap<String, PodOutcome>,
    /// Queues, by name.
    pub queues: BTreeMap<String, QueueOutcome>,
    /// Figures of the run.
    pub stats: Stats,
    /// Nodes with what is used on them, by name.
    #[serde(skip)]
    pub nodes: BTreeMap<String, NodeOutcome>,
}

/// A pod that was evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Eviction {
    /// `namespace/name`.
    pub pod: String,
    /// The action that evicted it.
    pub action: &'static str,
    /// The PodGroup, or the pod without one, that got its room; missing when it was moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// As the event on the pod has it on a cluster.
    pub reason: String,
}

/// The node that lacks the least of the room that is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lack {
    /// What it lacks, in canonical quantities.
    pub missing: BTreeMap<String, String>,
    /// Its name.
    pub missing_on: String,
    /// No node could hold the pod even if it were empty; missing when some node could.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub too_large: bool,
    /// As conditions say it.
    #[serde(skip)]
    pub text: String,
}

/// As `simulate` and `explain` say it.
impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Where a PodGroup ended up.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupOutcome {
    /// Its phase.
    pub phase: String,
    /// Why it waits; empty when it does not.
    pub reasons: Vec<String>,
    /// What is odd about its annotations; missing when all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Where nodes lack room: what the nearest of them to having it lacks.
    #[serde(flatten)]
    pub lack: Option<Lack>,
    /// Its queue.
    #[serde(skip)]
    pub queue: String,
    /// `minMember`.
    #[serde(skip)]
    pub min_member: u32,
    /// Members on each node, those that succeeded too.
    #[serde(skip)]
    pub nodes: BTreeMap<String, u32>,
    /// Members of ours without a node.
    #[serde(skip)]
    pub waiting: u32,
}

impl GroupOutcome {
    /// Members that have a node.
    pub fn placed(&self) -> u32 {
        self.nodes.values().sum()
    }
}

/// Why a pod without a PodGroup waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PodOutcome {
    /// The reasons.
    pub reasons: Vec<String>,
    /// Where nodes lack room: what the nearest of them to having it lacks.
    #[serde(flatten)]
    pub lack: Option<Lack>,
}

/// What a queue has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct QueueOutcome {
    /// What its pods hold, in canonical quantities.
    pub allocated: BTreeMap<String, String>,
    /// What it deserves.
    pub deserved: BTreeMap<String, String>,
    /// Its weight.
    #[serde(skip)]
    pub weight: u32,
    /// The largest ratio of allocated to deserved over the resources; missing when nothing is deserved.
    #[serde(skip)]
    pub share: Option<f64>,
    /// Why its jobs wait, or what is odd about its quotas; missing when all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
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
    /// Pods of ours that have no node.
    pub pending: usize,
    /// Pods in the input, of other schedulers too.
    pub pods: usize,
    /// Time spent in scheduling sessions, in seconds: the only figure that is not the same in every run.
    pub session_seconds: f64,
    /// Time that passed in the simulated cluster, in seconds.
    pub virtual_seconds: f64,
}

/// What is used on a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeOutcome {
    /// Pods on it, those that succeeded too.
    pub pods: u32,
    /// Resources with what is used and what there is, in the order of the Cluster.
    pub resources: Vec<Usage>,
}

/// A resource of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Its name.
    pub name: String,
    /// What pods hold, as a quantity.
    pub used: String,
    /// What there is, as a quantity.
    pub allocatable: String,
    /// The part in use, 0 to 1, or more where pods hold more than there is.
    pub ratio: f64,
}

/// Pods that wait for the same kind of reason.
struct Alike<'r> {
    count: usize,
    /// The first of them and its own words.
    example: (&'r str, &'r str),
    /// What the nearest node lacks for that one; told once, with the first of its reasons.
    lack: Option<&'r Lack>,
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
fn alike(pods: &BTreeMap<String, PodOutcome>) -> Vec<Alike<'_>> {
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
    // Stable: kinds of one size stay in the order of their text.
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    kinds
}

/// A reason may begin with the pod's own name, which its reader knows.
fn without_name<'r>(pod: &str, reason: &'r str) -> &'r str {
    let name = pod.rsplit('/').next().unwrap_or(pod);
    reason.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(reason)
}

/// The parts of a reason without their numbers, in an order of their own.
fn shape(reason: &str) -> String {
    let number =
        |word: &&str| !word.trim_start_matches('(').starts_with(|letter: char| letter.is_ascii_digit());
    let words = |part: &str| part.split_whitespace().filter(number).collect::<Vec<_>>().join(" ");
    let mut parts: Vec<String> = reason.trim_end_matches('.').split([',', ':']).map(words).collect();
    parts.sort();
    parts.join(", ")
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

/// A share of 1 as people write it.
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
