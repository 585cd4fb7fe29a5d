//! What is wrong with a queue.
use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

use super::list;

/// What is wrong with a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueFault {
    /// A field cannot be honoured, or contradicts another.
    Field(Arc<str>),
    /// It is its own parent.
    Loop,
    /// Its parents, of which this is the first, lead back to it.
    Ring(Arc<str>),
    /// Its parent does not exist.
    NoParent(Arc<str>),
    /// A queue above it cannot be used.
    Above {
        /// That queue.
        ancestor: Arc<str>,
        /// What is wrong there.
        fault: Box<QueueFault>,
    },
    /// It has jobs of its own, and queues below it.
    NotLeaf {
        /// The plugin that minds.
        plugin: &'static str,
        /// How many queues name it as their parent.
        children: u32,
    },
    /// It has a parent, which the configured plugin does not honour.
    Tree {
        /// The plugin.
        plugin: &'static str,
        /// The parent.
        parent: Arc<str>,
    },
    /// It is the top of the tree, and has a parent all the same.
    Top(Arc<str>),
    /// It has a parent, whose limits no configured plugin holds.
    Unheld(Arc<str>),
    /// Its children have more of something in sum than it has itself.
    Children {
        /// Of what: `guarantee` or `deserved`.
        what: &'static str,
        /// By how much, by resource.
        over: Vec<(DimId, i64)>,
    },
    /// It has a quota of devices that has no effect.
    Devices {
        /// Of what: `capability of deviceclass/gpu.example.com`.
        quota: Arc<str>,
        /// Why.
        why: &'static str,
    },
    /// It may have more than a queue above it.
    Wider {
        /// That queue.
        ancestor: Arc<str>,
        /// By how much, by resource.
        over: Vec<(DimId, i64)>,
    },
}

impl QueueFault {
    /// Text for people.
    pub fn text(&self, dims: &Dims) -> String {
        match self {
            QueueFault::Field(why) => why.to_string(),
            QueueFault::Loop => "it is its own parent".to_owned(),
            QueueFault::Ring(parent) => format!("its parents lead back to it, by way of {parent}"),
            QueueFault::NoParent(parent) => format!("its parent {parent} does not exist"),
            QueueFault::Above { ancestor, fault } => {
                format!("queue {ancestor} above it is invalid: {}", fault.text(dims))
            }
            QueueFault::NotLeaf { plugin, children } => {
                format!("it has {children} queue(s) below it, so jobs cannot be in it (plugin {plugin})")
            }
            QueueFault::Tree { plugin, parent } => format!(
                "it has parent {parent}, but plugin {plugin} is flat here; a tree needs plugin capacity with enableHierarchy: true"
            ),
            QueueFault::Top(parent) => {
                format!("its parent {parent} has no effect, for it is the top of the tree")
            }
            QueueFault::Unheld(parent) => format!(
                "it has parent {parent}, whose limits no configured plugin holds; a tree needs plugin capacity with enableHierarchy: true"
            ),
            QueueFault::Children { what, over } => {
                format!("its children have more {what} than it has itself{}", list(": ", over, dims))
            }
            QueueFault::Devices { quota, why } => format!("its {quota} has no effect: {why}"),
            QueueFault::Wider { ancestor, over } => {
                format!("its capability is above that of queue {ancestor}{}", list(": ", over, dims))
            }
        }
    }
}
