//! Queues.
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings};

use super::tree::{ROOT, Sums};
use crate::annotation::Annotations;
use crate::event::{Dequeue, NodeGroups, QueueState, Time};
use crate::id::QueueId;
use crate::written::Written;

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Name.
    pub name: Arc<str>,
    /// The Queue object.
    pub object: QueueObject,
    /// Where the queue is in the tree of queues.
    pub tree: QueueLinks,
    /// Creation.
    pub created: Time,
    /// Weight, at least 1.
    pub weight: u32,
    /// `spec.capability`: the most that its jobs may have.
    pub capability: Ceilings,
    /// `spec.deserved`; a missing resource has no figure.
    pub deserved: Ceilings,
    /// `spec.guarantee`: resources that no other queue may use.
    pub guarantee: Amounts,
    /// Other queues may reclaim its resources.
    pub reclaimable: bool,
    /// Priority.
    pub priority: i32,
    /// State.
    pub state: QueueState,
    /// Whether a first job that cannot be placed blocks the others.
    pub dequeue: Dequeue,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// Affinity of its pods to node groups, if any.
    pub node_groups: Option<NodeGroups>,
    /// Limits by node group.
    pub group_limits: Vec<(Arc<str>, Ceilings)>,
    /// Why the limits cannot be read.
    pub group_limits_fault: Option<Arc<str>>,
    /// Number of jobs.
    pub jobs: u32,
    /// Sums of requests of its own jobs.
    pub own: Sums,
    /// Sums of requests of its jobs and those of all queues below.
    pub subtree: Sums,
}

/// The Queue object, as it was read last or written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueObject {
    /// The Queue object exists; otherwise only jobs or queues that name it were seen.
    pub exists: bool,
    /// The UID.
    pub uid: Arc<str>,
    /// Why a field cannot be honoured.
    pub invalid: Option<Arc<str>>,
    /// The last event: why its jobs wait, or what is odd about its quotas.
    pub told: Option<Arc<str>>,
    /// `status.allocated` as last read or decided.
    pub written: Written<Vec<(Arc<str>, String)>>,
    /// What `written` was last compared with.
    pub rendered: Rendered,
}

/// Where a queue is in the tree of queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueLinks {
    /// Name of the parent; `root` when none is given.
    pub parent: Arc<str>,
    /// The parent, with or without object; `None` for `root` and for a queue without object.
    pub parent_id: Option<QueueId>,
    /// The parent, unless the queue is in a cycle of parents.
    pub up: Option<QueueId>,
    /// Number of queues with this parent.
    pub children: u32,
}

/// The amounts, and devices by class, that `written` is the text of: it is not rendered again for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rendered(Option<(Amounts, ByClass)>);

/// Number of devices by class.
type ByClass = Vec<(Arc<str>, u32)>;

impl Rendered {
    /// Stores what a text was rendered from.
    pub fn new(amounts: &Amounts, devices: ByClass) -> Self {
        Self(Some((amounts.clone(), devices)))
    }

    /// Whether the text was rendered from these amounts and devices.
    pub fn is_of(&self, amounts: &Amounts, devices: &[(Arc<str>, u32)]) -> bool {
        self.0.as_ref().is_some_and(|(known, of)| known == amounts && of == devices)
    }
}

impl Queue {
    /// Whether it is the root of the tree.
    #[inline]
    pub fn is_root(&self) -> bool {
        &*self.name == ROOT
    }

    /// Sum of requests of allocated and nominated tasks of its own jobs.
    pub fn held(&self) -> Amounts {
        let mut held = self.own.allocated.clone();
        held.add(&self.own.pipelined);
        held
    }

    /// Sum of requests of allocated, nominated and pending tasks of its own jobs.
    pub fn request(&self) -> Amounts {
        let mut request = self.held();
        request.add(&self.own.pending);
        request
    }
}
