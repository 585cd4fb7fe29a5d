//! States, taints, labels and sizes of nodes that keep a job out.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cluster::event::{
    Event, NodeInfo, Operator, PodInfo, Requirement, Resources, Taint, TaintEffect, Toleration,
    TolerationOperator,
};
use phalanx_cluster::id::NodeId;
use phalanx_cluster::{Cluster, Node};

use super::fix::{Choice, Fix};
use super::limits::{a_little_less, amounts, parsed, sum};
use super::{TRIALS_MAX, Waiting, such_as};
use crate::answer;
use crate::text;

/// Taints that are tried.
const TAINTS_MAX: usize = 8;

/// The resource of which each pod needs one.
const PODS: &str = "pods";

/// A label that a pod asks nodes for: its key and, unless only the key counts, its value.
type Label = (Arc<str>, Option<Arc<str>>);

/// The value of a label of which only the key counts.
const ANY: &str = "any";

impl Waiting<'_> {
    /// States, taints and labels of nodes with which the job would run.
    pub(super) fn states_of_nodes(&self) -> Vec<Choice<'_>> {
        let cordoned = self.nodes_that(|node| node.unschedulable);
        let away = self.nodes_that(|node| !node.ready);
        let states = [
            self.nodes_changed(cordoned, "uncordoned", |node| node.unschedulable = false),
            self.nodes_changed(away, "ready", |node| node.ready = true),
        ];
        let tolerations = Choice::Each(self.tolerations());
        let labels = self.labels();
        let larger = Choice::First(self.larger_node());
        let node = self.a_node().map(Choice::one);
        let states = states.into_iter().flatten().map(Choice::one);
        states.chain([tolerations, labels, larger]).chain(node).collect()
    }

    fn nodes_that(&self, is: fn(&Node) -> bool) -> Vec<NodeId> {
        self.nodes.iter().copied().filter(|id| is(&self.cluster.nodes[*id])).collect()
    }

    fn nodes_changed(
        &self,
        nodes: Vec<NodeId>,
        state: &'static str,
        change: fn(&mut NodeInfo),
    ) -> Option<Fix<'_>> {
        let first = &self.cluster.nodes[*nodes.first()?].name;
        let text = move |count: usize| {
            let were = if count == 1 { "were" } else { "were all" };
            format!("if {} {were} {state}", such_as("node", count, first))
        };
        let changed = move |cluster: &Cluster, id: &NodeId| {
            let mut node = cluster.node_info(*id);
            change(&mut node);
            Event::from(node)
        };
        Some(Fix::counted(nodes.len(), text, move |cluster, count| {
            nodes[..count].iter().map(|id| changed(cluster, id)).collect()
        }))
    }

    /// Tolerations of the taints that keep pods off nodes.
    fn tolerations(&self) -> Vec<Fix<'_>> {
        let taints = self.nodes.iter().flat_map(|id| &self.cluster.nodes[*id].taints);
        let taints: BTreeSet<&Taint> =
            taints.filter(|taint| taint.effect != TaintEffect::PreferNoSchedule).collect();
        let tolerated = |taint: &&Taint| {
            let Taint { key, value, effect } = (*taint).clone();
            let toleration =
                Toleration { key, operator: TolerationOperator::Equal, value, effect: Some(effect) };
            Fix::new(
                format!("if its pods tolerated taint {{{}: {}}}", taint.key, taint.value),
                move |cluster| self.with_constraints(cluster, |it| it.tolerations.push(toleration.clone())),
            )
        };
        taints.iter().take(TAINTS_MAX).map(tolerated).collect()
    }

    /// The labels that a pod asks for, on as few nodes as possible. Where pods ask for unlike ones, those of several
    /// pods, each on one node of its own: a node cannot have two values of a label.
    fn labels(&self) -> Choice<'_> {
        let mut sets: Vec<Vec<Label>> = Vec::new();
        for set in self.waiting_pods().map(asked).filter(|set| !set.is_empty()) {
            if sets.len() < TRIALS_MAX && !sets.contains(&set) {
                sets.push(set);
            }
        }
        let (mut each, mut on_one_node) = (Vec::new(), Vec::new());
        for (number, set) in sets.iter().enumerate() {
            let nodes = self.nodes_without(set);
            let Some(node) = number.checked_rem(nodes.len()).map(|at| nodes[at]) else { continue };
            on_one_node.extend(self.labelled(set, vec![node]));
            each.extend(self.labelled(set, nodes));
        }
        if sets.len() > 1 { Choice::Together(each, on_one_node) } else { Choice::First(each) }
    }

    /// The nodes that lack some of these labels: those with room first, then those that lack fewer.
    fn nodes_without(&self, wanted: &[Label]) -> Vec<NodeId> {
        let lacks = |id: &NodeId| missing(&self.cluster.nodes[*id].labels, wanted).len();
        let mut nodes: Vec<NodeId> = self.nodes.iter().copied().filter(|id| lacks(id) > 0).collect();
        nodes.sort_by_cached_key(|id| (!self.has_room(*id), lacks(id)));
        nodes
    }

    /// These labels on the first of these nodes.
    fn labelled(&self, wanted: &[Label], nodes: Vec<NodeId>) -> Option<Fix<'_>> {
        let wanted = wanted.to_vec();
        let first = &self.cluster.nodes[*nodes.first()?];
        let each = missing(&first.labels, &wanted).into_iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.to_string(),
        });
        let each: Vec<String> = each.collect();
        let noun = if each.len() == 1 { "label" } else { "labels" };
        let text = move |count: usize| {
            format!("if {} had {noun} {}", such_as("node", count, &first.name), each.join(", "))
        };
        Some(Fix::counted(nodes.len(), text, move |cluster, count| {
            nodes[..count].iter().map(|id| with_labels(cluster.node_info(*id), &wanted)).collect()
        }))
    }

    /// Where there is no node: one that is just large enough.
    fn a_node(&self) -> Option<Fix<'_>> {
        if !self.nodes.is_empty() {
            return None;
        }
        let mut requested = self.request();
        requested.retain(|(name, _)| **name != *PODS);
        let text = format!("with a node that has {}", amounts(&requested));
        let node = |mut allocatable: Resources| {
            allocatable.push((PODS.into(), "110".parse().ok()?));
            let node = NodeInfo { name: "explain".into(), ready: true, allocatable, ..NodeInfo::default() };
            Some(vec![Event::from(node)])
        };
        let less = node(a_little_less(&requested))?;
        Some(Fix::events(text, node(requested)?).less(move |_| less.clone()))
    }

    /// Whether a node has room for one of the pods now.
    fn has_room(&self, node: NodeId) -> bool {
        let pod = self.waiting_pods().next().and_then(|pod| self.cluster.task_of(&pod.pod.uid));
        pod.is_some_and(|task| self.cluster.request_of(task).fits(&self.cluster.nodes[node].idle))
    }

    /// Where no node is large enough: the nearest one with as much as it lacks, or more nodes like that.
    fn larger_node(&self) -> Vec<Fix<'_>> {
        let Some(lack) = self.job.lack.as_ref().filter(|lack| lack.too_large) else { return Vec::new() };
        let Some(id) = self.cluster.node_named(&lack.node) else { return Vec::new() };
        let more = parsed(&lack.missing);
        let missing = text::amounts(&answer::amounts(&lack.missing));
        let with =
            |more: Resources| move |cluster: &Cluster| vec![larger(cluster.node_info(id), &more).into()];
        let one = Fix::new(format!("if node {} had {missing} more", lack.node), with(more.clone()));
        let one = one.less(with(a_little_less(&more)));
        let text = move |count: usize| {
            let nodes = if count == 1 { "node" } else { "nodes" };
            format!("with {count} {nodes} like {} that had {missing} more", lack.node)
        };
        let alike = larger(self.cluster.node_info(id), &more);
        let several = Fix::counted((self.job.waiting as usize).min(1_024), text, move |_, count| {
            (1..=count).map(|number| Event::Node(alike.alike(number as u32))).collect()
        });
        vec![one, several]
    }
}

/// A node with more of some resources.
fn larger(mut node: NodeInfo, more: &Resources) -> NodeInfo {
    for (name, amount) in more {
        match node.allocatable.iter_mut().find(|(known, _)| known == name) {
            Some((_, has)) => *has = sum(*has, *amount).unwrap_or(*has),
            None => node.allocatable.push((name.clone(), *amount)),
        }
    }
    node
}

/// The labels that a pod asks nodes for: of its selector, of the first term of its affinity that labels can satisfy,
/// and of its rules on other pods. Of the latter only the key counts.
fn asked(pod: &PodInfo) -> Vec<Label> {
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
fn satisfying(requirement: &Requirement) -> Option<Label> {
    let key = requirement.key.clone();
    match requirement.operator {
        Operator::In => Some((key, Some(requirement.values.first()?.clone()))),
        Operator::Exists => Some((key, None)),
        _ => None,
    }
}

/// The labels that a node does not have.
fn missing<'w>(labels: &[(Arc<str>, Arc<str>)], wanted: &'w [Label]) -> Vec<&'w Label> {
    let has = |(key, value): &&Label| {
        labels.iter().any(|(known, is)| known == key && value.as_ref().is_none_or(|value| value == is))
    };
    wanted.iter().filter(|label| !has(label)).collect()
}

fn with_labels(mut node: NodeInfo, wanted: &[Label]) -> Event {
    for (key, value) in missing(&node.labels, wanted) {
        node.labels.retain(|(known, _)| known != key);
        node.labels.push((key.clone(), value.clone().unwrap_or_else(|| ANY.into())));
    }
    node.labels.sort_unstable();
    node.into()
}
