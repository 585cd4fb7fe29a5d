//! A queue, its state and its shares.
use std::sync::Arc;

use super::{Resources, Time};
use crate::annotation::Annotations;

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "Volcano's states; an empty state is read as Open")]
pub enum QueueState {
    #[default]
    Open,
    Closed,
    Closing,
    Unknown,
}

impl QueueState {
    /// As Volcano writes it.
    pub fn name(self) -> &'static str {
        match self {
            QueueState::Open => "Open",
            QueueState::Closed => "Closed",
            QueueState::Closing => "Closing",
            QueueState::Unknown => "Unknown",
        }
    }
}

/// What happens when the first job of a queue cannot be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dequeue {
    /// Those behind it are tried.
    #[default]
    Traverse,
    /// Those behind it wait.
    Fifo,
}

/// Which groups of nodes (label `volcano.sh/nodegroup-name`) a queue's pods may or should use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeGroups {
    /// May be used, and best.
    pub required: Vec<Arc<str>>,
    /// May be used, and better than others; the best first.
    pub preferred: Vec<Arc<str>>,
    /// May not be used.
    pub anti_required: Vec<Arc<str>>,
    /// May be used when nothing else will do.
    pub anti_preferred: Vec<Arc<str>>,
}

/// What a queue may have of each group of nodes (annotation `volcano.sh/nodegroup-resource-limits`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupLimits {
    /// By group, sorted; a group or a resource that is not named has no limit.
    Each(Vec<(Arc<str>, Resources)>),
    /// The annotation cannot be read, for this reason.
    Unreadable(Arc<str>),
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct QueueInfo {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Creation.
    pub created: Time,
    /// Weight, at least 1.
    pub weight: u32,
    /// `capability`: a missing resource has no limit.
    pub capability: Resources,
    /// `deserved`.
    pub deserved: Resources,
    /// `guarantee.resource`.
    pub guarantee: Resources,
    /// `reclaimable`; true unless it is set to false.
    pub reclaimable: bool,
    /// `parent`; empty means `root`.
    pub parent: Arc<str>,
    /// `priority`.
    pub priority: i32,
    /// `status.state`.
    pub state: QueueState,
    /// `dequeueStrategy`.
    pub dequeue: Dequeue,
    /// `status.allocated` on the object.
    pub allocated: Resources,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// `affinity`; `None` when there is none, which is not the same as an empty one.
    pub node_groups: Option<NodeGroups>,
    /// What it may have of each group of nodes.
    pub group_limits: GroupLimits,
    /// A field that cannot be honoured: the queue's jobs wait with this reason.
    pub invalid: Option<Arc<str>>,
}
