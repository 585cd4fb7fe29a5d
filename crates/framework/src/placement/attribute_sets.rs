//! Attribute sets: what nodes have of the attributes that filters and scorers read. Nodes with equal sets are the same
//! node to every rule by attributes.
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::plugin::{Attribute, Values};
use phalanx_cluster::Node;
use phalanx_cluster::event::Taint;

/// The values of an attribute that make a difference to a rule.
#[derive(Debug)]
enum ReadValues {
    These(FxHashSet<Arc<str>>),
    All,
}

/// What a node has of one attribute.
#[derive(Debug, PartialEq, Eq, Hash)]
enum AttributeValue {
    Missing,
    /// A value that makes no difference to any rule.
    Irrelevant,
    Value(Arc<str>),
    ImageSize(i64),
}

/// What a node has of all attributes that rules read.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AttributeSet {
    ready: bool,
    unschedulable: bool,
    taints: Vec<Taint>,
    /// The values of the attributes in `AttributeSets::read`, in the same order.
    values: Vec<AttributeValue>,
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
    read: BTreeMap<Attribute, ReadValues>,
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

    /// Adds an attribute and the values that make a difference. Returns whether one of them is new; then every node has
    /// to join again.
    pub(super) fn learn(&mut self, attribute: &Attribute, values: &Values) -> bool {
        let new = !self.read.contains_key(attribute);
        let known =
            self.read.entry(attribute.clone()).or_insert_with(|| ReadValues::These(FxHashSet::default()));
        let more = match (&mut *known, values) {
            (ReadValues::All, _) => false,
            (ReadValues::These(_), Values::All) => {
                *known = ReadValues::All;
                true
            }
            (ReadValues::These(set), Values::These(list)) => {
                list.iter().filter(|value| set.insert(Arc::clone(value))).count() > 0
            }
        };
        new || more
    }

    /// Forgets all attribute sets, but not which attributes rules read.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.entries.clear();
        self.free.clear();
        self.stamp += 1;
    }

    /// Counts a node in, and returns the number of its attribute set.
    pub(super) fn join(&mut self, node: &Node) -> u32 {
        let attribute_set = self.attribute_set_of(node);
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
        let of = |(attribute, known): (&Attribute, &ReadValues)| {
            let value = match attribute {
                Attribute::Name => Some(&node.name),
                Attribute::Label(key) => node.label_value(key),
                Attribute::Image(image) => {
                    return node
                        .image_size(*image)
                        .map_or(AttributeValue::Missing, AttributeValue::ImageSize);
                }
            };
            match (value, known) {
                (None, _) => AttributeValue::Missing,
                (Some(value), ReadValues::These(set)) if !set.contains(value) => AttributeValue::Irrelevant,
                (Some(value), _) => AttributeValue::Value(value.clone()),
            }
        };
        AttributeSet {
            ready: node.ready,
            unschedulable: node.unschedulable,
            taints: node.taints.clone(),
            values: self.read.iter().map(of).collect(),
        }
    }
}
