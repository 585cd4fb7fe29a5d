//! Problems of queues.
use std::sync::Arc;

use phalanx_resource::{DimId, Dims};

use super::list;

/// Problems of queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueFault {
    /// A field is invalid or contradicts another field.
    Field(Arc<str>),
    /// The queue is its own parent.
    Loop,
    /// The queue is among its own ancestors, of which this is the first.
    Ring(Arc<str>),
    /// The queue's parent does not exist.
    NoParent(Arc<str>),
    /// An ancestor has a problem.
    Above {
        /// The ancestor.
        ancestor: Arc<str>,
        /// The problem of the ancestor.
        fault: Box<QueueFault>,
    },
    /// The queue has both jobs and child queues.
    NotLeaf {
        /// The plugin that does not support this.
        plugin: &'static str,
        /// The number of child queues.
        children: u32,
    },
    /// The queue has a parent, which the configured plugin does not support.
    Tree {
        /// The plugin.
        plugin: &'static str,
        /// The parent.
        parent: Arc<str>,
    },
    /// The queue root has a parent.
    Top(Arc<str>),
    /// The queue has a parent whose limits no configured plugin enforces.
    Unheld(Arc<str>),
    /// The sum of the children's amounts exceeds that of the queue.
    Children {
        /// The field: `guarantee` or `deserved`.
        what: &'static str,
        /// The excess by resource.
        over: Vec<(DimId, i64)>,
    },
    /// An amount of devices of the queue has no effect.
    Devices {
        /// The amount: `capability of deviceclass/gpu.example.com`.
        quota: Arc<str>,
        /// The reason.
        why: &'static str,
    },
    /// The queue's capability exceeds that of an ancestor.
    Wider {
        /// The ancestor.
        ancestor: Arc<str>,
        /// The excess by resource.
        over: Vec<(DimId, i64)>,
    },
}

impl QueueFault {
    /// The message.
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
