//! Kinds of nodes: those that no rule by attributes can tell apart.
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::plugin::{Attribute, Values};
use phalanx_cluster::Node;
use phalanx_cluster::event::Taint;

/// Of an attribute that is read, the values that make a difference.
#[derive(Debug)]
enum Known {
    These(FxHashSet<Arc<str>>),
    All,
}

/// What a node has of an attribute that is read.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Trait {
    Nothing,
    /// A value nobody asks for.
    Other,
    Value(Arc<str>),
    Size(i64),
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Kind {
    ready: bool,
    unschedulable: bool,
    taints: Vec<Taint>,
    /// In the order of the attributes that are read.
    traits: Vec<Trait>,
}

#[derive(Debug)]
struct Entry {
    kind: Arc<Kind>,
    nodes: u32,
}

/// The kinds that there are, by dense number.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    read: BTreeMap<Attribute, Known>,
    ids: FxHashMap<Arc<Kind>, u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    stamp: u64,
}

impl Kinds {
    /// Changes when a kind comes or goes.
    pub(super) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// One more than the largest number in use.
    pub(super) fn bound(&self) -> usize {
        self.entries.len()
    }

    /// Takes note that a difference matters. True when it did not before: then all nodes have to join anew.
    pub(super) fn learn(&mut self, attribute: &Attribute, values: &Values) -> bool {
        let new = !self.read.contains_key(attribute);
        let known = self.read.entry(attribute.clone()).or_insert_with(|| Known::These(FxHashSet::default()));
        let more = match (&mut *known, values) {
            (Known::All, _) => false,
            (Known::These(_), Values::All) => {
                *known = Known::All;
                true
            }
            (Known::These(set), Values::These(list)) => {
                list.iter().filter(|value| set.insert(Arc::clone(value))).count() > 0
            }
        };
        new || more
    }

    /// Forgets all kinds, not what matters.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.entries.clear();
        self.free.clear();
        self.stamp += 1;
    }

    /// Counts a node in, and returns its kind.
    pub(super) fn join(&mut self, node: &Node) -> u32 {
        let kind = self.kind_of(node);
        if let Some(&id) = self.ids.get(&kind) {
            self.entries[id as usize].nodes += 1;
            return id;
        }
        self.stamp += 1;
        let kind = Arc::new(kind);
        let entry = Entry { kind: kind.clone(), nodes: 1 };
        let id = if let Some(id) = self.free.pop() {
            self.entries[id as usize] = entry;
            id
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.ids.insert(kind, id);
        id
    }

    /// Counts a node out.
    pub(super) fn leave(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        entry.nodes -= 1;
        if entry.nodes == 0 {
            self.ids.remove(&entry.kind);
            self.free.push(id);
            self.stamp += 1;
        }
    }

    fn kind_of(&self, node: &Node) -> Kind {
        let of = |(attribute, known): (&Attribute, &Known)| {
            let value = match attribute {
                Attribute::Name => Some(&node.name),
                Attribute::Label(key) => node.label_value(key),
                Attribute::Image(image) => {
                    return node.image_size(*image).map_or(Trait::Nothing, Trait::Size);
                }
            };
            match (value, known) {
                (None, _) => Trait::Nothing,
                (Some(value), Known::These(set)) if !set.contains(value) => Trait::Other,
                (Some(value), _) => Trait::Value(value.clone()),
            }
        };
        Kind {
            ready: node.ready,
            unschedulable: node.unschedulable,
            taints: node.taints.clone(),
            traits: self.read.iter().map(of).collect(),
        }
    }
}
