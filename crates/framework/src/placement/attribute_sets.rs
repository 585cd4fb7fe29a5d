//! Attribute sets: what nodes have of the attributes that filters and scorers read. Nodes with equal sets are the same
//! node to every rule by attributes.
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::plugin::{Attribute, Values};
use phalanx_cluster::event::Taint;
use phalanx_cluster::id::{ImageId, NodeId, Slots};
use phalanx_cluster::{Cluster, HyperNodeId, Node};

/// The values of an attribute that make a difference to a rule.
#[derive(Debug)]
enum ReadValues {
    These(FxHashSet<Arc<str>>),
    All,
}

impl ReadValues {
    /// Adds values; `matters` says of a value whether a node has it. Returns whether nodes that were equal may differ
    /// now.
    fn learn(&mut self, values: &Values, mut matters: impl FnMut(&Arc<str>) -> bool) -> bool {
        match (&mut *self, values) {
            (ReadValues::All, _) => false,
            (ReadValues::These(_), Values::All) => {
                *self = ReadValues::All;
                true
            }
            (ReadValues::These(set), Values::These(list)) => {
                let new = list.iter().filter(|value| set.insert(Arc::clone(value)));
                new.filter(|value| matters(value)).count() > 0
            }
        }
    }

    fn of(&self, value: &Arc<str>) -> AttributeValue {
        match self {
            ReadValues::These(set) if !set.contains(value) => AttributeValue::Irrelevant,
            ReadValues::These(_) | ReadValues::All => AttributeValue::Value(value.clone()),
        }
    }
}

/// What a node has of one attribute.
#[derive(Debug, PartialEq, Eq, Hash)]
enum AttributeValue {
    /// A value that makes no difference to any rule.
    Irrelevant,
    Value(Arc<str>),
}

/// What a node has of all attributes that rules read.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AttributeSet {
    ready: bool,
    unschedulable: bool,
    taints: Vec<Taint>,
    /// The name, where a rule reads it.
    name: Option<AttributeValue>,
    /// The labels that rules read, sorted by key.
    labels: Vec<(Arc<str>, AttributeValue)>,
    /// The images that rules read and their sizes in bytes, sorted by image.
    images: Vec<(ImageId, i64)>,
    /// The HyperNodes, where a rule reads them.
    hyper_nodes: Vec<HyperNodeId>,
}

/// The labels of nodes: values by key.
#[derive(Debug, Default)]
struct NodeLabels(FxHashMap<Arc<str>, FxHashSet<Arc<str>>>);

impl NodeLabels {
    fn of(nodes: &Slots<NodeId, Node>) -> Self {
        let mut labels = Self::default();
        nodes.iter().for_each(|(_, node)| labels.add(node));
        labels
    }

    fn add(&mut self, node: &Node) {
        for (key, value) in &node.labels {
            match self.0.get_mut(key) {
                Some(values) if values.contains(value) => {}
                Some(values) => drop(values.insert(value.clone())),
                None => drop(self.0.insert(key.clone(), [value.clone()].into_iter().collect())),
            }
        }
    }
}

/// An attribute set and the number of nodes that have it.
#[derive(Debug)]
struct AttributeSetUse {
    attribute_set: Arc<AttributeSet>,
    nodes: u32,
}

/// The attribute sets of all nodes, by dense number.
#[derive(Debug, Default)]
pub(super) struct AttributeSets {
    name: Option<ReadValues>,
    labels: FxHashMap<Arc<str>, ReadValues>,
    images: FxHashSet<ImageId>,
    /// A rule reads HyperNodes.
    hyper_nodes: bool,
    /// The labels of all nodes, once a rule reads labels: what no node has makes no difference, whoever reads it.
    node_labels: Option<NodeLabels>,
    ids: FxHashMap<Arc<AttributeSet>, u32>,
    entries: Vec<AttributeSetUse>,
    free: Vec<u32>,
    stamp: u64,
}

impl AttributeSets {
    /// A number that changes when an attribute set comes or goes.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// One more than the largest number in use.
    pub(super) fn bound(&self) -> usize {
        self.entries.len()
    }

    /// The number of attributes that rules read.
    pub(super) fn attributes(&self) -> usize {
        self.labels.len() + self.images.len()
    }

    /// Adds an attribute and the values that make a difference. Returns whether nodes that were equal may differ now;
    /// then every node has to join again.
    pub(super) fn learn(
        &mut self,
        nodes: &Slots<NodeId, Node>,
        attribute: &Attribute,
        values: &Values,
    ) -> bool {
        let none = || ReadValues::These(FxHashSet::default());
        match attribute {
            Attribute::Name => self.name.get_or_insert_with(none).learn(values, |_| true),
            Attribute::Label(key) => {
                let on_nodes = self.node_labels.get_or_insert_with(|| NodeLabels::of(nodes)).0.get(key);
                let new = !self.labels.contains_key(key);
                let read = self.labels.entry(key.clone()).or_insert_with(none);
                let matters = |value: &Arc<str>| on_nodes.is_some_and(|values| values.contains(value));
                let differ = read.learn(values, matters);
                on_nodes.is_some() && (new || differ)
            }
            Attribute::Image(image) => self.images.insert(*image),
            Attribute::HyperNodes => !std::mem::replace(&mut self.hyper_nodes, true),
        }
    }

    /// Forgets all attribute sets, but not which attributes rules read.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.entries.clear();
        self.free.clear();
        self.node_labels = None;
        self.stamp += 1;
    }

    /// Counts a node in, and returns the number of its attribute set.
    pub(super) fn join(&mut self, cluster: &Cluster, id: NodeId) -> u32 {
        let node = &cluster.nodes[id];
        if let Some(labels) = &mut self.node_labels {
            labels.add(node);
        }
        let mut attribute_set = self.attribute_set_of(node);
        if self.hyper_nodes {
            attribute_set.hyper_nodes.extend(cluster.hyper_nodes.by_tier(id));
        }
        if let Some(&id) = self.ids.get(&attribute_set) {
            self.entries[id as usize].nodes += 1;
            return id;
        }
        self.stamp += 1;
        let attribute_set = Arc::new(attribute_set);
        let entry = AttributeSetUse { attribute_set: attribute_set.clone(), nodes: 1 };
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            id
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.ids.insert(attribute_set, id);
        id
    }

    /// Counts a node out of an attribute set.
    pub(super) fn leave(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        entry.nodes -= 1;
        if entry.nodes == 0 {
            self.ids.remove(&entry.attribute_set);
            self.free.push(id);
            self.stamp += 1;
        }
    }

    fn attribute_set_of(&self, node: &Node) -> AttributeSet {
        let label =
            |(key, value): &(Arc<str>, Arc<str>)| Some((key.clone(), self.labels.get(key)?.of(value)));
        AttributeSet {
            ready: node.ready,
            unschedulable: node.unschedulable,
            taints: node.taints.clone(),
            name: self.name.as_ref().map(|read| read.of(&node.name)),
            labels: node.labels.iter().filter_map(label).collect(),
            images: node.images.iter().filter(|(image, _)| self.images.contains(image)).copied().collect(),
            hyper_nodes: Vec::new(),
        }
    }
}
