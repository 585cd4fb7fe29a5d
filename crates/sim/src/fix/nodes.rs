//! States, taints, labels and sizes of nodes that keep a job out.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_cluster::event::{
    Event, NodeInfo, Operator, PodInfo, Requirement, Taint, TaintEffect, Toleration, TolerationOperator,
};

use super::limits::amounts;
use super::{Fix, Waiting, such_as};
use crate::changes::alike;
use crate::report::figures;

/// Taints that are tried.
const TAINTS_MAX: usize = 8;

/// The resource of which each pod needs one.
const PODS: &str = "pods";

/// The value of a label of which only the key counts.
const ANY: &str = "any";

impl Waiting<'_> {
    /// States, taints and labels of nodes with which the job would run.
    pub(super) fn states_of_nodes(&self) -> Vec<String> {
        let usable = |change: fn(&mut NodeInfo)| move |node: &NodeInfo| changed(node, change);
        let mut found: Vec<String> = Vec::new();
        let cordoned = self.nodes_that(|node| node.unschedulable);
        found.extend(self.nodes_changed(&cordoned, "uncordoned", usable(|node| node.unschedulable = false)));
        let away = self.nodes_that(|node| !node.ready);
        found.extend(self.nodes_changed(&away, "ready", usable(|node| node.ready = true)));
        found.extend(self.helping(self.tolerations()));
        found.extend(self.labels());
        found.extend(self.larger_node());
        found.extend(self.a_node());
        found
    }

    fn nodes_that(&self, is: fn(&NodeInfo) -> bool) -> Vec<&NodeInfo> {
        self.objects.nodes.values().filter(|node| is(node)).collect()
    }

    fn nodes_changed(
        &self,
        nodes: &[&NodeInfo],
        state: &str,
        change: impl Fn(&NodeInfo) -> Event,
    ) -> Option<String> {
        let events = |count: usize| nodes[..count].iter().map(|node| change(node)).collect();
        let count = self.fewest(nodes.len(), events)?;
        let were = if count == 1 { "were" } else { "were all" };
        Some(format!("if {} {were} {state}", such_as("node", count, &nodes.first()?.name)))
    }

    /// Tolerations of the taints that keep pods off nodes.
    fn tolerations(&self) -> Vec<Fix> {
        let taints = self.objects.nodes.values().flat_map(|node| &node.taints);
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
    fn labels(&self) -> Option<String> {
        let pods = self.waiting_pods();
        let mut wanted: Vec<(Arc<str>, Option<Arc<str>>)> = Vec::new();
        for pod in &pods {
            for label in asked(pod) {
                if !wanted.iter().any(|(key, _)| *key == label.0) {
                    wanted.push(label);
                }
            }
        }
        let lacks = |node: &&NodeInfo| !missing(node, &wanted).is_empty();
        let mut nodes: Vec<&NodeInfo> = self.objects.nodes.values().filter(lacks).collect();
        nodes.sort_by_key(|node| (!self.has_room(node, &pods), missing(node, &wanted).len()));
        let labelled = |count: usize| nodes[..count].iter().map(|node| with_labels(node, &wanted)).collect();
        let count = self.fewest(nodes.len(), labelled)?;
        let first = nodes.first()?;
        let each = missing(first, &wanted).into_iter().map(|(key, value)| match value {
            Some(value) => format!("{key}={value}"),
            None => key.to_string(),
        });
        let each: Vec<String> = each.collect();
        let noun = if each.len() == 1 { "label" } else { "labels" };
        Some(format!("if {} had {noun} {}", such_as("node", count, &first.name), each.join(", ")))
    }

    /// Where there is no node: one that is just large enough.
    fn a_node(&self) -> Option<String> {
        let requested = self.request().filter(|_| self.objects.nodes.is_empty())?;
        let mut allocatable = requested.clone();
        allocatable.retain(|(name, _)| **name != *PODS);
        let shown = amounts(&allocatable);
        allocatable.push((PODS.into(), "110".parse().ok()?));
        let node = NodeInfo { name: "explain".into(), ready: true, allocatable, ..NodeInfo::default() };
        self.tried(Fix::new(format!("with a node that has {shown}"), vec![node.into()]))
    }

    /// Whether a node has room for one of the pods now.
    fn has_room(&self, node: &NodeInfo, pods: &[&PodInfo]) -> bool {
        let of_name = self.cluster.nodes.iter().find(|(_, it)| it.exists && it.name == node.name);
        let task = pods.first().and_then(|pod| self.cluster.task_of(&pod.pod.uid));
        let (Some((_, node)), Some(task)) = (of_name, task) else { return false };
        self.cluster.classes[self.cluster.tasks[task].class].request.fits(&node.idle)
    }

    /// Where no node is large enough: the nearest one with as much as it lacks, or more nodes like that.
    fn larger_node(&self) -> Option<String> {
        let lack = self.job.lack.as_ref().filter(|lack| lack.too_large)?;
        let like = self.objects.nodes.get(&lack.node)?;
        let mut larger = like.clone();
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
        let missing = figures(lack.missing.iter().map(|(name, amount)| (name, amount)));
        if (self.helps)(None, vec![larger.clone().into()]) {
            return Some(format!("if node {} had {missing} more", like.name));
        }
        let added = |count: usize| {
            (1..=count).map(|number| Event::Node(alike(&larger, number as u32))).collect::<Vec<_>>()
        };
        let count = self.fewest((self.job.waiting as usize).min(1_024), added)?;
        let nodes = if count == 1 { "node" } else { "nodes" };
        Some(format!("with {count} {nodes} like {} that had {missing} more", like.name))
    }
}

fn changed(node: &NodeInfo, change: fn(&mut NodeInfo)) -> Event {
    let mut node = node.clone();
    change(&mut node);
    node.into()
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
    node: &NodeInfo,
    wanted: &'w [(Arc<str>, Option<Arc<str>>)],
) -> Vec<&'w (Arc<str>, Option<Arc<str>>)> {
    let has = |(key, value): &&(Arc<str>, Option<Arc<str>>)| {
        node.labels.iter().any(|(known, is)| known == key && value.as_ref().is_none_or(|value| value == is))
    };
    wanted.iter().filter(|label| !has(label)).collect()
}

fn with_labels(node: &NodeInfo, wanted: &[(Arc<str>, Option<Arc<str>>)]) -> Event {
    let mut labelled = node.clone();
    for (key, value) in missing(node, wanted) {
        labelled.labels.retain(|(known, _)| known != key);
        labelled.labels.push((key.clone(), value.clone().unwrap_or_else(|| ANY.into())));
    }
    labelled.labels.sort_unstable();
    labelled.into()
}
