//! Queues.
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings};

use crate::annotation::Annotations;
use crate::event::{QueueState, Time};

/// A queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Name.
    pub name: Arc<str>,
    /// The Queue object exists; otherwise only jobs that name it were seen.
    pub exists: bool,
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
    /// Its parent; `root` when none is given.
    pub parent: Arc<str>,
    /// Priority.
    pub priority: i32,
    /// State.
    pub state: QueueState,
    /// A field that cannot be honoured.
    pub invalid: Option<Arc<str>>,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// How many jobs it has.
    pub jobs: u32,
    /// What the allocated tasks of its jobs request.
    pub allocated: Amounts,
    /// What their nominated tasks request.
    pub pipelined: Amounts,
    /// What their pending tasks request.
    pub pending: Amounts,
    /// `status.allocated` as last read or decided.
    pub(crate) written: Vec<(Arc<str>, String)>,
}

impl Queue {
    /// Jobs may be admitted and placed.
    pub fn is_open(&self) -> bool {
        self.exists && self.state == QueueState::Open
    }

    /// What its jobs hold or are promised.
    pub fn held(&self) -> Amounts {
        let mut held = self.allocated.clone();
        held.add(&self.pipelined);
        held
    }

    /// All that its jobs ask for, held or not.
    pub fn request(&self) -> Amounts {
        let mut request = self.held();
        request.add(&self.pending);
        request
    }
}
