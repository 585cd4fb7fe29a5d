//! Why a node, or every node, is infeasible for a task.
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId, Dims};

use super::{RESOURCES_MAX, Refusal};
use crate::Node;
use crate::event::Taint;

/// The number of taints that a reason names.
const TAINTS_MAX: usize = 3;

/// Why a node is infeasible for a task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unfit {
    /// Not enough of a resource.
    Insufficient(DimId),
    /// The node has its maximum number of pods.
    TooManyPods,
    /// The room of the node is reserved for other pods.
    Reserved,
    /// The pod's node selector or required node affinity does not match.
    NodeAffinity,
    /// The first taint that the pod does not tolerate.
    Taint(Taint),
    /// The node is cordoned.
    Unschedulable,
    /// The node's condition Ready is not True.
    NotReady,
    /// A host port is taken.
    Ports,
    /// The pod's required affinity is not satisfied.
    PodAffinity,
    /// The pod's required anti-affinity is not satisfied.
    PodAntiAffinity,
    /// The required anti-affinity of a running pod rules the pod out.
    ExistingPodAntiAffinity,
    /// A topology spread constraint is not satisfied.
    Spread,
    /// The node lacks the label of a topology spread constraint.
    SpreadLabel,
    /// Not enough devices for the pod's claims; and matching devices that cannot be allocated.
    Devices(Option<Arc<str>>),
    /// A claim of the pod is allocated on other nodes.
    ClaimElsewhere,
    /// The reason of a plugin.
    Other(Arc<str>),
    /// A plugin's own reason about what else is on the node, or what would remain of it: without more room it may be
    /// gone.
    Beside(Arc<str>),
    /// No node is feasible, for this reason.
    Pod(Arc<str>),
}

impl Unfit {
    /// The text, that of kube-scheduler where it has one.
    pub fn text(&self, dims: &Dims) -> String {
        match self {
            Unfit::Insufficient(dim) => ["Insufficient ", dims.name(*dim)].concat(),
            Unfit::TooManyPods => "Too many pods".into(),
            Unfit::Reserved => "node(s) had resources reserved for other pods".into(),
            Unfit::NodeAffinity => "node(s) didn't match Pod's node affinity/selector".into(),
            Unfit::Taint(Taint { key, value, .. }) => {
                format!("node(s) had untolerated taint(s) {{{key}: {value}}}")
            }
            Unfit::Unschedulable => "node(s) were unschedulable".into(),
            Unfit::NotReady => "node(s) were not ready".into(),
            Unfit::Ports => "node(s) didn't have free ports for the requested pod ports".into(),
            Unfit::PodAffinity => "node(s) didn't match pod affinity rules".into(),
            Unfit::PodAntiAffinity => "node(s) didn't match pod anti-affinity rules".into(),
            Unfit::ExistingPodAntiAffinity => {
                "node(s) didn't satisfy existing pods anti-affinity rules".into()
            }
            Unfit::Spread => "node(s) didn't match pod topology spread constraints".into(),
            Unfit::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)".into()
            }
            Unfit::Devices(None) => "cannot allocate all claims".into(),
            Unfit::Devices(Some(left_out)) => format!("cannot allocate all claims ({left_out})"),
            Unfit::ClaimElsewhere => "resourceclaim not available on the node".into(),
            Unfit::Other(text) | Unfit::Beside(text) | Unfit::Pod(text) => text.to_string(),
        }
    }

    /// The resource of a shortage.
    pub fn of_dim(dim: DimId) -> Self {
        if dim == DimId::PODS { Unfit::TooManyPods } else { Unfit::Insufficient(dim) }
    }
}

/// What one node lacks for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// The node.
    pub node: Arc<str>,
    /// What it lacks.
    pub missing: Amounts,
    /// How far the node is from having room.
    pub distance: Distance,
}

/// The text before the name of the nearest node.
const LEAST_MISSING: &str = "least missing, on node ";

/// A message without its end, which says what the nearest node lacks and changes with every pod that starts or ends.
pub fn without_lack(message: &str) -> &str {
    let last = message.rsplit_once(';');
    let ends = last.filter(|(_, end)| end.trim_start().starts_with(LEAST_MISSING));
    ends.map_or(message, |(rest, _)| rest)
}

/// `cpu 2, memory 1Gi`, by name.
pub(super) fn named(amounts: &Amounts, dims: &Dims) -> String {
    let mut amounts: Vec<(&str, DimId, i64)> =
        amounts.iter().map(|(dim, amount)| (dims.name(dim), dim, amount)).collect();
    amounts.sort_unstable();
    let others = amounts.len().saturating_sub(RESOURCES_MAX);
    amounts.truncate(RESOURCES_MAX);
    let each =
        amounts.into_iter().map(|(name, dim, amount)| [name, " ", &dims.describe(dim, amount)].concat());
    let others = (others > 0).then(|| format!("{others} other resources"));
    each.chain(others).collect::<Vec<_>>().join(", ")
}

impl Shortage {
    /// Of the pods of a job, the shortage of the pod whose nearest node is the farthest.
    pub fn farthest(refusals: &[Refusal]) -> Option<&Self> {
        let nearest = refusals.iter().filter_map(|refusal| match refusal {
            Refusal::Nodes { error, .. } => error.nearest.as_deref(),
            _ => None,
        });
        nearest.max_by_key(|shortage| shortage.distance)
    }

    /// `least missing, on node n1: cpu 2, memory 1Gi`.
    pub fn text(&self, dims: &Dims) -> String {
        let missing = named(&self.missing, dims);
        let beyond = if self.is_beyond_all() { " (no node that it may use is large enough)" } else { "" };
        [LEAST_MISSING, &self.node, ": ", &missing, beyond].concat()
    }

    /// Whether no node could hold the task even if it were empty.
    pub fn is_beyond_all(&self) -> bool {
        self.distance.reach != Reach::Whole
    }
}

/// How much of a task an empty node could hold; the most comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// The whole task.
    Whole,
    /// A part of each requested resource.
    Part,
    /// Nothing of a requested resource.
    Lacking,
}

impl Reach {
    fn of(node: &Node, request: &Amounts) -> Self {
        if request.fits(&node.allocatable) {
            return Self::Whole;
        }
        let has = |(dim, amount): (DimId, i64)| amount <= 0 || node.allocatable.get(dim) > 0;
        if request.iter().all(has) { Self::Part } else { Self::Lacking }
    }
}

/// How far a node is from having room for a task: nearer ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Distance {
    reach: Reach,
    /// More room would not help: the node is infeasible for another reason too.
    refused_too: bool,
    /// The missing part of the requests in thousandths, summed over resources.
    share: u128,
}

impl Distance {
    /// The distance of a node that lacks something; `None` for a node with enough room.
    pub fn of(node: &Node, request: &Amounts, refused_too: bool) -> Option<Self> {
        let share = |(dim, missing): (DimId, i64)| 1000 * missing as u128 / request.get(dim) as u128;
        let share = request.short(&node.idle).map(share).reduce(u128::saturating_add)?;
        Some(Self { reach: Reach::of(node, request), refused_too, share })
    }
}

/// Why no node is feasible.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FitError {
    /// The number of nodes.
    pub nodes: u32,
    /// The HyperNode that they are in, where no other was looked at.
    pub inside: Option<Arc<str>>,
    /// The number of nodes by reason; a node counts once for each of its reasons.
    pub reasons: BTreeMap<Unfit, u32>,
    /// The node that lacks the least, where nodes lack room.
    pub nearest: Option<Box<Shortage>>,
}

impl FitError {
    /// Counts nodes for a reason.
    pub fn add(&mut self, nodes: u32, unfit: Unfit) {
        *self.reasons.entry(unfit).or_default() += nodes;
    }

    /// Counts nodes for each resource that they lack, as this node does.
    pub fn add_short(&mut self, nodes: u32, node: &Node, request: &Amounts) {
        if request.fits(&node.idle) && !node.fits_now(request) {
            self.add(nodes, Unfit::Reserved);
        }
        for (dim, _) in request.short(&node.idle) {
            self.add(nodes, Unfit::of_dim(dim));
        }
    }

    /// `0/5 nodes are available: 2 Too many pods, 3 Insufficient cpu.`, as kube-scheduler says it.
    pub fn text(&self, dims: &Dims) -> String {
        let mut reasons: Vec<String> = self
            .reasons
            .iter()
            .filter(|(unfit, _)| !matches!(unfit, Unfit::Taint(_) | Unfit::Insufficient(_)))
            .map(|(unfit, nodes)| match unfit {
                Unfit::Pod(text) => text.to_string(),
                unfit => [&nodes.to_string(), " ", &*unfit.text(dims)].concat(),
            })
            .collect();
        reasons.extend(self.taints(dims));
        reasons.extend(self.shortages(dims));
        reasons.sort();
        let colon = if reasons.is_empty() { "" } else { ": " };
        let inside = self.inside.as_ref().map(|name| format!(" of HyperNode {name}")).unwrap_or_default();
        format!("0/{} nodes{inside} are available{colon}{}.", self.nodes, reasons.join(", "))
    }

    /// The resources of which there is not enough on the most nodes by name, and how many others there are.
    fn shortages(&self, dims: &Dims) -> Vec<String> {
        let short = self.reasons.iter().filter(|(unfit, _)| matches!(unfit, Unfit::Insufficient(_)));
        let mut short: Vec<(String, u32)> = short.map(|(unfit, nodes)| (unfit.text(dims), *nodes)).collect();
        short.sort_by(|(a, on_a), (b, on_b)| on_b.cmp(on_a).then_with(|| a.cmp(b)));
        let (others, most) = (short.iter().skip(RESOURCES_MAX), short.get(RESOURCES_MAX));
        let others =
            most.map(|(_, nodes)| format!("{nodes} Insufficient {} other resources", others.count()));
        short.truncate(RESOURCES_MAX);
        let each = short.into_iter().map(|(text, nodes)| [&nodes.to_string(), " ", &*text].concat());
        each.chain(others).collect()
    }

    /// The taints of the most nodes by name, and the number of nodes with other taints.
    fn taints(&self, dims: &Dims) -> Vec<String> {
        let mut nodes: BTreeMap<String, u32> = BTreeMap::new();
        let taints = self.reasons.iter().filter(|(unfit, _)| matches!(unfit, Unfit::Taint(_)));
        taints.for_each(|(unfit, count)| *nodes.entry(unfit.text(dims)).or_default() += count);
        let mut taints: Vec<(String, u32)> = nodes.into_iter().collect();
        taints.sort_by_key(|(_, count)| Reverse(*count));
        let others: u32 = taints.iter().skip(TAINTS_MAX).map(|(_, count)| count).sum();
        taints.truncate(TAINTS_MAX);
        let others = (others > 0).then(|| format!("{others} node(s) had other untolerated taint(s)"));
        taints.into_iter().map(|(text, count)| format!("{count} {text}")).chain(others).collect()
    }
}
