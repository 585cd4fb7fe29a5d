//! States, taints, labels and sizes of nodes that keep a job out.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cluster::Node;
use phalanx_cluster::event::{
    Event, NodeInfo, Operator, PodInfo, Requirement, Taint, TaintEffect, Toleration, TolerationOperator,
};
use phalanx_cluster::id::NodeId;

use super::limits::amounts;
use super::{Fix, Remedy, Waiting, such_as};
use crate::answer;
use crate::text;

/// Taints that are tried.
const TAINTS_MAX: usize = 8;

/// The resource of which each pod needs one.
const PODS: &str = "pods";

/// The value of a label of which only the key counts.
const ANY: &str = "any";

impl Waiting<'_> {
    /// States, taints and labels of nodes with which the job would run.
    pub(super) fn states_of_nodes(&self) -> Vec<Remedy> {
        let mut found: Vec<Remedy> = Vec::new();
        let cordoned = self.nodes_that(|node| node.unschedulable);
        found.extend(self.nodes_changed(&cordoned, "uncordoned", |node| node.unschedulable = false));
        let away = self.nodes_that(|node| !node.ready);
        found.extend(self.nodes_changed(&away, "ready", |node| node.ready = true));
        found.extend(self.helping(self.tolerations()));
        found.extend(self.labels());
        found.extend(self.larger_node());
        found.extend(self.a_node());
        found
    }

    fn nodes_that(&self, is: fn(&Node) -> bool) -> Vec<NodeId> {
        self.nodes.iter().copied().filter(|id| is(&self.cluster.nodes[*id])).collect()
    }

    fn nodes_changed(&self, nodes: &[NodeId], state: &str, change: fn(&mut NodeInfo)) -> Option<Remedy> {
        let changed = |id: &NodeId| {
            let mut node = self.cluster.node_info(*id);
            change(&mut node);
            Event::from(node)
        };
        let count = self.fewest(nodes.len(), |count| nodes[..count].iter().map(changed).collect())?;
        let were = if count == 1 { "were" } else { "were all" };
        let nodes = such_as("node", count, &self.cluster.nodes[*nodes.first()?].name);
        Some(Remedy::new(format!("if {nodes} {were} {state}")))
    }

    /// Tolerations of the taints that keep pods off nodes.
    fn tolerations(&self) -> Vec<Fix> {
        let taints = self.nodes.iter().flat_map(|id| &self.cluster.nodes[*id].taints);
        let taints: BTreeSet<&Taint> =
            taints.filter(|taint| taint.effect != TaintEffect::PreferNoSchedule).collect();
        let tolerated = |taint: &&Taint| {
            let Taint { key, value, effect } = (*taint).clone();
            let toleration =
                Toleration { key, operator: TolerationOperator::Equal, value, effect: Some(effect) };
            let events = self.with_constraints(|it| {
                it.tolerations.push(toleration.clone());
            });
            Fix::new(format!("if its pods tolerated taint {{{}: {}}}", taint.key, taint.value), events)
        };
        taints.iter().take(TAINTS_MAX).map(tolerated).collect()
    }

    /// Labels that the pods ask for, on as few nodes as possible.
    fn labels(&self) -> Option<Remedy> {
        let mut wanted: Vec<(Arc<str>, Option<Arc<str>>)> = Vec::new();
        for label in self.waiting_pods().flat_map(asked) {
            if !wanted.iter().any(|(key, _)| *key == label.0) {
                wanted.push(label);
            }
        }
        let missing = |id: &NodeId| missing(&self.cluster.nodes[*id].labels, &wanted);
        let mut nodes: Vec<NodeId> =
            self.nodes.iter().copied().filter(|id| !missing(id).is_empty()).collect();
        nodes.sort_by_cached_key(|id| (!self.has_room(*id), missing(id).len()));
        let labelled = |id: &NodeId| with_labels(self.cluster.node_info(*id), &wanted);
        let count = self.fewest(nodes.len(), |count| nodes[..count].iter().map(labelled).collect())?;
        let first = nodes.first()?;
        let each = missing(first).into_iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.to_string(),
        });
        let each: Vec<String> = each.collect();
        let noun = if each.len() == 1 { "label" } else { "labels" };
        let nodes = such_as("node", count, &self.cluster.nodes[*first].name);
        Some(Remedy::new(format!("if {nodes} had {noun} {}", each.join(", "))))
    }

    /// Where there is no node: one that is just large enough.
    fn a_node(&self) -> Option<Remedy> {
        if !self.nodes.is_empty() {
            return None;
        }
        let mut allocatable = self.request();
        allocatable.retain(|(name, _)| **name != *PODS);
        let shown = amounts(&allocatable);
        allocatable.push((PODS.into(), "110".parse().ok()?));
        let node = NodeInfo { name: "explain".into(), ready: true, allocatable, ..NodeInfo::default() };
        self.tried(Fix::new(format!("with a node that has {shown}"), vec![node.into()]))
    }

    /// Whether a node has room for one of the pods now.
    fn has_room(&self, node: NodeId) -> bool {
        let pod = self.waiting_pods().next().and_then(|pod| self.cluster.task_of(&pod.pod.uid));
        pod.is_some_and(|task| self.cluster.request_of(task).fits(&self.cluster.nodes[node].idle))
    }

    /// Where no node is large enough: the nearest one with as much as it lacks, or more nodes like that.
    fn larger_node(&self) -> Option<Remedy> {
        let lack = self.job.lack.as_ref().filter(|lack| lack.too_large)?;
        let mut larger = self.cluster.node_info(self.cluster.node_named(&lack.node)?);
        for (name, amount) in &lack.missing {
            let more: i64 = amount.parse::<phalanx_resource::Quantity>().ok()?.milli();
            let known = larger.allocatable.iter().position(|(known, _)| known == name);
            let has = known.map_or(0, |at| larger.allocatable[at].1.milli());
            let sum = format!("{}m", has.checked_add(more)?).parse().ok()?;
            match known {
                Some(at) => larger.allocatable[at].1 = sum,
                None => larger.allocatable.push((name.clone(), sum)),
            }
        }
        let missing = text::amounts(&answer::amounts(&lack.missing));
        let with_more =
            Fix::new(format!("if node {} had {missing} more", lack.node), vec![larger.clone().into()]);
        if let Some(remedy) = self.tried(with_more) {
            return Some(remedy);
        }
        let added = |count: usize| {
            (1..=count).map(|number| Event::Node(larger.alike(number as u32))).collect::<Vec<_>>()
        };
        let count = self.fewest((self.job.waiting as usize).min(1_024), added)?;
        let nodes = if count == 1 { "node" } else { "nodes" };
        Some(Remedy::new(format!("with {count} {nodes} like {} that had {missing} more", lack.node)))
    }
}

/// The labels that a pod asks nodes for: of its selector, of the first term of its affinity that labels can satisfy, and
/// of its rules on other pods. Of the latter only the key counts.
fn asked(pod: &PodInfo) -> Vec<(Arc<str>, Option<Arc<str>>)> {
    let constraints = &pod.constraints;
    let selector = constraints.node_selector.iter().map(|(key, value)| (key.clone(), Some(value.clone())));
    let terms = constraints.node_affinity.iter().flatten();
    let mut satisfiable = terms.filter_map(|term| {
        let labels: Option<Vec<_>> = term.labels.iter().map(satisfying).collect();
        labels.filter(|labels| !labels.is_empty() && term.fields.is_empty())
    });
    let affinity = satisfiable.next().unwrap_or_default();
    let rules = constraints.pod_rules.iter().flat_map(|rules| {
        let spread = rules.spread.iter().filter(|spread| spread.required).map(|spread| &spread.term);
        rules.affinity.iter().chain(spread)
    });
    let keys = rules.map(|term| (term.topology_key.clone(), None));
    selector.chain(affinity).chain(keys).collect()
}

/// A label that satisfies a requirement, where one can.
fn satisfying(requirement: &Requirement) -> Option<(Arc<str>, Option<Arc<str>>)> {
    let key = requirement.key.clone();
    match requirement.operator {
        Operator::In => Some((key, Some(requirement.values.first()?.clone()))),
        Operator::Exists => Some((key, None)),
        _ => None,
    }
}

/// The labels that a node does not have.
fn missing<'w>(
    labels: &[(Arc<str>, Arc<str>)],
    wanted: &'w [(Arc<str>, Option<Arc<str>>)],
) -> Vec<&'w (Arc<str>, Option<Arc<str>>)> {
    let has = |(key, value): &&(Arc<str>, Option<Arc<str>>)| {
        labels.iter().any(|(known, is)| known == key && value.as_ref().is_none_or(|value| value == is))
    };
    wanted.iter().filter(|label| !has(label)).collect()
}

fn with_labels(mut node: NodeInfo, wanted: &[(Arc<str>, Option<Arc<str>>)]) -> Event {
    for (key, value) in missing(&node.labels, wanted) {
        node.labels.retain(|(known, _)| known != key);
        node.labels.push((key.clone(), value.clone().unwrap_or_else(|| ANY.into())));
    }
    node.labels.sort_unstable();
    node.into()
}
