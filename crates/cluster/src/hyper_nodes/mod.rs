//! HyperNodes: domains of nodes that are near to each other in the network, in tiers.
//!
//! The tree is built anew at the begin of a cycle when HyperNodes, or names or labels of nodes, have changed. A HyperNode
//! holds the nodes of its members and of the HyperNodes below it. Rules that keep the tree a tree:
//! - a HyperNode is below the first HyperNode that names it, by tier and name;
//! - a member HyperNode has a lower tier than the HyperNode that names it, so nothing is below itself.
//!
//! A member that breaks a rule, or does not exist, is left out.
mod faults;
mod limit;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_resource::Amounts;

use crate::count::Count;
use crate::event::{HyperNodeInfo, TierLimit};
use crate::id::{NodeId, Slots, TaskId};
use crate::{Cluster, Hold, Node, NodeSums};
pub use faults::HyperNodeFault;
pub use limit::within;
use tree::Tree;

/// What the regular expression of a member may take when it is prepared, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A HyperNode, by its place in the order of tiers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HyperNodeId(u32);

impl HyperNodeId {
    /// The place.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Nodes in the order of their ids.
pub type NodeSet = Arc<[NodeId]>;

/// A HyperNode and its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct HyperNode {
    /// Name.
    pub name: Arc<str>,
    /// Tier: nodes of a lower tier are nearer to each other.
    pub tier: u32,
    /// The name of its tier, which another tree may give to another tier.
    pub tier_name: Option<Arc<str>>,
    /// The HyperNode that it is a member of.
    pub parent: Option<HyperNodeId>,
    /// The HyperNodes that are its members, by name.
    pub children: Vec<HyperNodeId>,
    /// Its nodes, and those of the HyperNodes below it.
    pub nodes: NodeSet,
}

impl HyperNode {
    /// Whether a node is in it.
    pub fn holds(&self, node: NodeId) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }
}

/// All HyperNodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HyperNodes {
    objects: BTreeMap<Arc<str>, HyperNodeInfo>,
    tree: Tree,
    /// Sums over the nodes of each HyperNode.
    sums: Vec<NodeSums>,
    /// Objects, or names or labels of nodes, have changed since the tree was built.
    changed: bool,
}

impl HyperNodes {
    pub(crate) fn set(&mut self, info: HyperNodeInfo) -> bool {
        let same = self.objects.get(&info.name) == Some(&info);
        self.changed |= !same;
        self.objects.insert(info.name.clone(), info);
        !same
    }

    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let known = self.objects.remove(name).is_some();
        self.changed |= known;
        known
    }

    /// A node came, went or has other labels.
    pub(crate) fn node_changed(&mut self) {
        self.changed = true;
    }

    /// What is allocatable of a node changes.
    pub(crate) fn count_allocatable(&mut self, node: NodeId, amounts: &Amounts, count: Count) {
        for domain in self.tree.of_nodes.get(&node).into_iter().flatten() {
            count.add(&mut self.sums[domain.index()].allocatable, amounts);
        }
    }

    /// The objects, by name.
    pub fn objects(&self) -> impl Iterator<Item = &HyperNodeInfo> {
        self.objects.values()
    }

    /// The number of HyperNodes in the tree.
    pub fn len(&self) -> usize {
        self.tree.all.len()
    }

    /// HyperNodes by tier and name.
    pub fn iter(&self) -> impl Iterator<Item = (HyperNodeId, &HyperNode)> {
        (0..).map(HyperNodeId).zip(&self.tree.all)
    }

    /// A HyperNode.
    pub fn get(&self, id: HyperNodeId) -> &HyperNode {
        &self.tree.all[id.index()]
    }

    /// Sums over the nodes of a HyperNode.
    pub fn sums(&self, id: HyperNodeId) -> &NodeSums {
        &self.sums[id.index()]
    }

    /// The HyperNodes that a node is in, by tier and name.
    pub fn of_node(&self, node: NodeId) -> &[HyperNodeId] {
        self.tree.of_nodes.get(&node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The first HyperNode of each tier that a node is in, the lowest first.
    pub fn by_tier(&self, node: NodeId) -> impl Iterator<Item = HyperNodeId> {
        let lists = self.of_node(node).chunk_by(|a, b| self.get(*a).tier == self.get(*b).tier);
        lists.filter_map(|list| list.first().copied())
    }

    /// The lowest and the highest tier.
    pub fn tiers(&self) -> Option<(u32, u32)> {
        Some((self.tree.all.first()?.tier, self.tree.all.last()?.tier))
    }

    /// Whether a hard network topology with this limit allows a HyperNode: its tier is low enough, or it or a HyperNode
    /// above it has the name of the tier.
    pub(crate) fn allows(&self, limit: &TierLimit, id: HyperNodeId) -> bool {
        match limit {
            TierLimit::Number(tier) => self.get(id).tier <= *tier,
            TierLimit::Name(name) => self.with_those_above(id).any(|it| it.tier_name.as_ref() == Some(name)),
        }
    }

    /// Whether there are HyperNodes, and all have lower tiers than this limit.
    pub(crate) fn all_are_below(&self, limit: &TierLimit) -> bool {
        let highest = self.tree.all.last().map(|it| it.tier);
        matches!((limit, highest), (TierLimit::Number(tier), Some(highest)) if highest < *tier)
    }

    /// Whether a HyperNode is another one or below it.
    pub fn is_within(&self, id: HyperNodeId, other: HyperNodeId) -> bool {
        self.with_those_above(id).any(|it| std::ptr::eq(it, self.get(other)))
    }

    /// A HyperNode and those above it.
    fn with_those_above(&self, id: HyperNodeId) -> impl Iterator<Item = &HyperNode> {
        std::iter::successors(Some(self.get(id)), |it| it.parent.map(|parent| self.get(parent)))
    }

    /// The names of tiers, in order.
    pub(crate) fn tier_names(&self) -> impl Iterator<Item = &Arc<str>> {
        let names: BTreeSet<&Arc<str>> =
            self.tree.all.iter().filter_map(|it| it.tier_name.as_ref()).collect();
        names.into_iter()
    }

    /// Whether there are no HyperNodes.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl Cluster {
    /// Builds the tree of HyperNodes anew, if HyperNodes, or names or labels of nodes, have changed. To be called when a
    /// cycle begins. Returns the faults that were not there before.
    pub fn follow_hyper_nodes(&mut self) -> Vec<HyperNodeFault> {
        let changed = std::mem::take(&mut self.hyper_nodes.changed);
        if !changed || self.hyper_nodes.is_empty() && self.hyper_nodes.tree.all.is_empty() {
            return Vec::new();
        }
        let tree = Tree::build(&self.hyper_nodes.objects, &self.nodes);
        self.hyper_nodes.sums = sums(&tree, &self.nodes);
        if tree == self.hyper_nodes.tree {
            return Vec::new();
        }
        let before = std::mem::replace(&mut self.hyper_nodes.tree, tree);
        // Rules read which HyperNodes a node is in.
        for node in self.nodes.ids().collect::<Vec<_>>() {
            self.touch_statics(node);
            self.touch_node(node);
        }
        let limited = |(id, job): (_, &crate::Job)| job.asks_topology().then_some(id);
        let jobs: Vec<_> = self.jobs.iter().filter_map(limited).collect();
        for job in jobs {
            self.job_changed(job);
        }
        self.hyper_nodes.new_faults(&before.faults)
    }

    /// How many members the HyperNodes have themselves, by name, as Volcano counts them: each name of an `exactMatch`
    /// once, whether it exists or not, and the nodes of the other selectors.
    pub fn members_of_hyper_nodes(&self) -> BTreeMap<Arc<str>, usize> {
        tree::members(&self.hyper_nodes.objects, &self.nodes)
    }

    /// Counts a task in the sums of the HyperNodes of its node.
    pub(crate) fn count_in_hyper_nodes(&mut self, id: TaskId, node: NodeId, hold: Hold, count: Count) {
        if self.hyper_nodes.sums.is_empty() || !matches!(hold, Hold::Used | Hold::Releasing) {
            return;
        }
        let request = &self.classes[self.tasks[id].class].request;
        let HyperNodes { tree, sums, .. } = &mut self.hyper_nodes;
        for domain in tree.of_nodes.get(&node).into_iter().flatten() {
            count.add(&mut sums[domain.index()].used, request);
        }
    }

    pub(crate) fn check_hyper_nodes(&self, note: &mut crate::check::Note<'_>) {
        let HyperNodes { objects, tree, sums: known, changed } = &self.hyper_nodes;
        if *changed || objects.is_empty() {
            return;
        }
        note(*tree == Tree::build(objects, &self.nodes), "tree of HyperNodes".to_owned());
        note(*known == sums(tree, &self.nodes), "sums of HyperNodes".to_owned());
    }
}

fn sums(tree: &Tree, nodes: &Slots<NodeId, Node>) -> Vec<NodeSums> {
    let of = |it: &HyperNode| {
        let mut sums = NodeSums::default();
        for node in it.nodes.iter().map(|id| &nodes[*id]) {
            sums.allocatable.add(&node.allocatable);
            sums.used.add(&node.allocatable);
            sums.used.sub(&node.idle);
        }
        sums
    };
    tree.all.iter().map(of).collect()
}
