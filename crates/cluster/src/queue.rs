//! Queues.
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings};

use super::tree::{ROOT, Sums};
use crate::annotation::Annotations;
use crate::event::{Dequeue, NodeGroups, QueueState, Time};
use crate::id::QueueId;

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Name.
    pub name: Arc<str>,
    /// The Queue object exists; otherwise only jobs or queues that name it were seen.
    pub exists: bool,
    /// The Queue's UID.
    pub uid: Arc<str>,
    /// Creation.
    pub created: Time,
    /// Weight, at least 1.
    pub weight: u32,
    /// What its jobs may have at most.
    pub capability: Ceilings,
    /// `spec.deserved`; a missing resource has no figure.
    pub deserved: Ceilings,
    /// What is kept for it.
    pub guarantee: Amounts,
    /// Others may reclaim from it.
    pub reclaimable: bool,
    /// Its parent's name; `root` when none is given.
    pub parent: Arc<str>,
    /// The queue of that name, whether or not it has an object; none for `root` and for a queue without object.
    pub parent_id: Option<QueueId>,
    /// The same, unless it is in a ring.
    pub up: Option<QueueId>,
    /// How many queues name it as their parent.
    pub children: u32,
    /// Priority.
    pub priority: i32,
    /// State.
    pub state: QueueState,
    /// What happens when its first job cannot be placed.
    pub dequeue: Dequeue,
    /// A field that cannot be honoured.
    pub invalid: Option<Arc<str>>,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// Which groups of nodes its pods may or should use; `None` when it does not say.
    pub node_groups: Option<NodeGroups>,
    /// What it may have of each group of nodes.
    pub group_limits: Vec<(Arc<str>, Ceilings)>,
    /// Why that cannot be read.
    pub group_limits_fault: Option<Arc<str>>,
    /// How many jobs it has.
    pub jobs: u32,
    /// What its own jobs' tasks request.
    pub own: Sums,
    /// What they and those of all queues below it request.
    pub subtree: Sums,
    /// What was last told about it: why its jobs wait, or what is odd about its quotas.
    pub told: Option<Arc<str>>,
    /// `status.allocated` as last read or decided.
    pub written: Vec<(Arc<str>, String)>,
    /// What `written` was last compared with.
    pub rendered: Rendered,
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
    /// It is the top of the tree.
    #[inline]
    pub fn is_root(&self) -> bool {
        &*self.name == ROOT
    }

    /// What its jobs hold or are promised.
    pub fn held(&self) -> Amounts {
        let mut held = self.own.allocated.clone();
        held.add(&self.own.pipelined);
        held
    }

    /// All that its jobs ask for, held or not.
    pub fn request(&self) -> Amounts {
        let mut request = self.held();
        request.add(&self.own.pending);
        request
    }
}
