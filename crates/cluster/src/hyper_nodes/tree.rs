//! The tree of HyperNodes, made from their objects and the nodes.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use regex::{RegexBuilder, RegexSetBuilder};
use rustc_hash::FxHashMap;

use super::faults::Faults;
use super::{HyperNode, HyperNodeId, PATTERN_BYTES_MAX};
use crate::Node;
use crate::event::{HyperNodeInfo, HyperNodeMember, Operator, Requirement};
use crate::id::{NodeId, Slots};
use crate::label::Selector;

/// The tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tree {
    /// By tier and name.
    pub(super) all: Vec<HyperNode>,
    /// The HyperNodes of each node, by tier and name.
    pub(super) of_nodes: FxHashMap<NodeId, Vec<HyperNodeId>>,
    pub(super) faults: Faults,
}

impl Tree {
    pub(super) fn build(objects: &BTreeMap<Arc<str>, HyperNodeInfo>, nodes: &Slots<NodeId, Node>) -> Self {
        let mut infos: Vec<&HyperNodeInfo> = objects.values().collect();
        infos.sort_by(|a, b| (a.tier, &a.name).cmp(&(b.tier, &b.name)));
        let mut tree = Self::default();
        let names = NodesByName::new(nodes, objects.values());
        let mut sets: Vec<Vec<NodeId>> = infos.iter().map(|info| tree.own_nodes(info, &names)).collect();
        tree.note_shared(&infos, &sets, nodes);
        tree.all = infos.iter().map(|info| HyperNode::without_nodes(info)).collect();
        tree.link(&infos);
        // Members have lower tiers, so they stand before the HyperNodes that name them.
        for at in 0..sets.len() {
            for child in &tree.all[at].children {
                let below = sets[child.0 as usize].clone();
                sets[at].extend(below);
            }
            sets[at].sort_unstable();
            sets[at].dedup();
        }
        for (at, set) in sets.into_iter().enumerate() {
            for node in &set {
                tree.of_nodes.entry(*node).or_default().push(HyperNodeId(at as u32));
            }
            tree.all[at].nodes = set.into();
        }
        tree
    }

    /// The nodes that are members of a HyperNode themselves. Members that select none are noted where there are nodes.
    fn own_nodes(&mut self, info: &HyperNodeInfo, names: &NodesByName<'_>) -> Vec<NodeId> {
        let mut own = Vec::new();
        for member in &info.members {
            let found = names.of(member);
            if found.is_empty() && !names.nodes.is_empty() {
                self.faults.selects_nothing(&info.name, member);
            }
            own.extend(found.into_iter().map(|(id, _)| id));
        }
        own
    }

    /// Notes nodes that are members of two HyperNodes of one tier. The tier may have another name in another tree, which
    /// may have the same nodes.
    fn note_shared(&mut self, infos: &[&HyperNodeInfo], sets: &[Vec<NodeId>], nodes: &Slots<NodeId, Node>) {
        let mut first_with: FxHashMap<(NodeId, u32, Option<&Arc<str>>), usize> = FxHashMap::default();
        let mut shared: BTreeMap<(usize, usize), Vec<&str>> = BTreeMap::new();
        for (at, (info, set)) in infos.iter().zip(sets).enumerate() {
            for node in set {
                let first = *first_with.entry((*node, info.tier, info.tier_name.as_ref())).or_insert(at);
                if first != at {
                    shared.entry((at, first)).or_default().push(&nodes[*node].name);
                }
            }
        }
        for ((at, first), mut names) in shared {
            names.sort_unstable();
            names.dedup();
            self.faults.shares(&infos[at].name, names[0], names.len(), &infos[first].name);
        }
    }

    /// Links each HyperNode to the first one that names it.
    fn link(&mut self, infos: &[&HyperNodeInfo]) {
        let by_name: FxHashMap<Arc<str>, usize> =
            infos.iter().enumerate().map(|(at, info)| (info.name.clone(), at)).collect();
        for (at, info) in infos.iter().enumerate() {
            for member in &info.members {
                let HyperNodeMember::HyperNode(name) = member else { continue };
                match by_name.get(name) {
                    Some(child) => self.link_one(at, *child),
                    None => self.faults.left_out(&info.name, "HyperNode", name, "it does not exist"),
                }
            }
            self.all[at].children.sort_by_key(|child| infos[child.0 as usize].name.clone());
            self.all[at].children.dedup();
        }
    }

    fn link_one(&mut self, at: usize, child: usize) {
        let (parent, member) = (&self.all[at], &self.all[child]);
        let problem = if member.tier >= parent.tier {
            format!("it has tier {}, expected less than {}", member.tier, parent.tier)
        } else if let Some(other) = member.parent.filter(|other| other.0 as usize != at) {
            format!("it is a member of {} already", self.all[other.0 as usize].name)
        } else {
            self.all[child].parent = Some(HyperNodeId(at as u32));
            self.all[at].children.push(HyperNodeId(child as u32));
            return;
        };
        self.faults.left_out(&parent.name, "HyperNode", &member.name, &problem);
    }
}

impl HyperNode {
    fn without_nodes(info: &HyperNodeInfo) -> Self {
        Self {
            name: info.name.clone(),
            tier: info.tier,
            tier_name: info.tier_name.clone(),
            parent: None,
            children: Vec::new(),
            nodes: [].into(),
        }
    }
}

/// The nodes that exist, by name and by label.
struct NodesByName<'n> {
    nodes: BTreeMap<&'n str, (NodeId, &'n Node)>,
    /// By key and value, for keys by whose values a selector asks.
    labelled: FxHashMap<(&'n str, &'n str), Vec<(NodeId, &'n Node)>>,
    /// By the pattern that they match.
    matching: FxHashMap<Arc<str>, Vec<(NodeId, &'n Node)>>,
}

impl<'n> NodesByName<'n> {
    fn new<'o>(
        nodes: &'n Slots<NodeId, Node>,
        objects: impl Iterator<Item = &'o HyperNodeInfo> + Clone,
    ) -> Self {
        let members = objects.flat_map(|object| &object.members);
        let patterns = members.clone().filter_map(|member| match member {
            HyperNodeMember::NodePattern(pattern) => Some(pattern.clone()),
            _ => None,
        });
        let patterns: BTreeSet<Arc<str>> = patterns.collect();
        let selectors = members.filter_map(|member| match member {
            HyperNodeMember::NodeLabels(selector) => values_of(selector),
            _ => None,
        });
        let keys: BTreeSet<&str> = selectors.map(|requirement| &*requirement.key).collect();
        let existing = nodes.iter().filter(|(_, node)| node.exists);
        let nodes: BTreeMap<&str, _> = existing.map(|(id, node)| (&*node.name, (id, node))).collect();
        let mut labelled: FxHashMap<_, Vec<_>> = FxHashMap::default();
        for (id, node) in nodes.values() {
            for (key, value) in node.labels.iter().filter(|(key, _)| keys.contains(&**key)) {
                labelled.entry((&**key, &**value)).or_default().push((*id, *node));
            }
        }
        let matching = matching(patterns.into_iter().collect(), &nodes);
        Self { nodes, labelled, matching }
    }

    /// The nodes that a member of a HyperNode selects.
    fn of(&self, member: &HyperNodeMember) -> Vec<(NodeId, &'n Node)> {
        match member {
            HyperNodeMember::Node(name) => self.nodes.get(&**name).copied().into_iter().collect(),
            HyperNodeMember::NodePattern(pattern) => self.matching.get(pattern).cloned().unwrap_or_default(),
            HyperNodeMember::NodeLabels(selector) => self.selected(selector),
            HyperNodeMember::HyperNode(_) => Vec::new(),
        }
    }

    fn selected(&self, selector: &Selector) -> Vec<(NodeId, &'n Node)> {
        let matches = |(_, node): &(NodeId, &'n Node)| selector.matches_values(|key| node.label(key));
        let Some(Requirement { key, values, .. }) = values_of(selector) else {
            return self.nodes.values().copied().filter(matches).collect();
        };
        let values: BTreeSet<&str> = values.iter().map(|value| &**value).collect();
        let of_value = |value| self.labelled.get(&(&**key, value));
        values.into_iter().filter_map(of_value).flatten().copied().filter(matches).collect()
    }
}

/// The first requirement of a selector that names values: only nodes with one of them can match.
fn values_of(selector: &Selector) -> Option<&Requirement> {
    selector.0.iter().find(|requirement| requirement.operator == Operator::In)
}

/// The nodes that each pattern matches. All patterns are asked at once, since asking one after the other takes the time
/// of nodes × patterns.
fn matching<'n>(
    patterns: Vec<Arc<str>>,
    nodes: &BTreeMap<&'n str, (NodeId, &'n Node)>,
) -> FxHashMap<Arc<str>, Vec<(NodeId, &'n Node)>> {
    let size = PATTERN_BYTES_MAX.saturating_mul(patterns.len());
    let mut all = RegexSetBuilder::new(patterns.iter().map(|pattern| &**pattern));
    let all = all.size_limit(size).dfa_size_limit(size.max(PATTERN_BYTES_MAX)).build();
    let mut matching = vec![Vec::new(); patterns.len()];
    match all {
        Ok(all) => {
            for (name, found) in nodes {
                all.matches(name).into_iter().for_each(|at| matching[at].push(*found));
            }
        }
        // One of them is no regular expression.
        Err(_) => {
            for (pattern, matching) in patterns.iter().zip(&mut matching) {
                let matches = matcher(pattern);
                matching.extend(nodes.iter().filter(|(name, _)| matches(name)).map(|(_, found)| *found));
            }
        }
    }
    patterns.into_iter().zip(matching).collect()
}

/// Matches no name by a pattern that is no regular expression: crate `cache` leaves such members out, and says so.
fn matcher(pattern: &str) -> impl Fn(&str) -> bool {
    let regex = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build();
    move |name| regex.as_ref().is_ok_and(|regex| regex.is_match(name))
}

impl HyperNodeInfo {
    /// With new nodes that are to be where another node is: where the HyperNode has that node by its name or by a
    /// pattern, as labels of nodes that are alike are alike. `None` where nothing changes.
    pub fn with_nodes_beside(&self, node: &str, new: &[Arc<str>]) -> Option<Self> {
        let has = |member: &HyperNodeMember| match member {
            HyperNodeMember::Node(name) => **name == *node,
            HyperNodeMember::NodePattern(pattern) => matcher(pattern)(node),
            HyperNodeMember::NodeLabels(_) | HyperNodeMember::HyperNode(_) => false,
        };
        let mut info = self.members.iter().any(has).then(|| self.clone())?;
        info.members.extend(new.iter().cloned().map(HyperNodeMember::Node));
        Some(info)
    }
}

/// How many members each HyperNode has itself, see [`crate::Cluster::members_of_hyper_nodes`].
pub(super) fn members(
    objects: &BTreeMap<Arc<str>, HyperNodeInfo>,
    nodes: &Slots<NodeId, Node>,
) -> BTreeMap<Arc<str>, usize> {
    let nodes = NodesByName::new(nodes, objects.values());
    let count = |info: &HyperNodeInfo| {
        let named = info.members.iter().filter_map(|member| match member {
            HyperNodeMember::Node(name) | HyperNodeMember::HyperNode(name) => Some(&**name),
            HyperNodeMember::NodePattern(_) | HyperNodeMember::NodeLabels(_) => None,
        });
        let selected = info.members.iter().flat_map(|member| nodes.of(member)).map(|(_, node)| &*node.name);
        selected.chain(named).collect::<BTreeSet<&str>>().len()
    };
    objects.iter().map(|(name, info)| (Arc::clone(name), count(info))).collect()
}
