//! A queue, its state and its shares.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Resources, Time};
use crate::annotation::Annotations;

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "Volcano's states; an empty state is read as Open")]
pub enum QueueState {
    #[default]
    Open,
    Closed,
    Closing,
    Unknown,
}

impl QueueState {
    /// The text in Volcano's API.
    pub fn name(self) -> &'static str {
        match self {
            QueueState::Open => "Open",
            QueueState::Closed => "Closed",
            QueueState::Closing => "Closing",
            QueueState::Unknown => "Unknown",
        }
    }
}

/// `dequeueStrategy`: what happens if the first job of a queue cannot be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Dequeue {
    /// The jobs after it are tried.
    #[default]
    Traverse,
    /// The jobs after it wait.
    Fifo,
}

/// Which groups of nodes (label `volcano.sh/nodegroup-name`) a queue's pods may or should use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeGroups {
    /// Required.
    pub required: Vec<Arc<str>>,
    /// Preferred, the best group first.
    pub preferred: Vec<Arc<str>>,
    /// Required anti-affinity.
    pub anti_required: Vec<Arc<str>>,
    /// Preferred anti-affinity.
    pub anti_preferred: Vec<Arc<str>>,
}

/// Limits of a queue by node group (annotation `volcano.sh/nodegroup-resource-limits`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum GroupLimits {
    /// Limits by group, sorted; a group or a resource that is not named has no limit.
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
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
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
    /// Limits by node group.
    pub group_limits: GroupLimits,
    /// An invalid field: the queue's jobs wait with this reason.
    pub invalid: Option<Arc<str>>,
}
