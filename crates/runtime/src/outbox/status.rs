//! What is written in the status of an object.
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use phalanx_cluster::event::{GroupStatus, Key, PodRef};

/// The object of a status.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// A pod, by UID.
    Pod(Arc<str>),
    /// A PodGroup.
    PodGroup(Key),
    /// A queue.
    Queue(Arc<str>),
}

/// What changes in a pod's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodPatch {
    /// PodScheduled=False with this reason and message.
    pub condition: Option<(&'static str, Arc<str>)>,
    /// When that was decided.
    pub decided: Option<Instant>,
    /// The condition was not False before, as far as we know: its transition time is now.
    pub transition: bool,
    /// `nominatedNodeName`; `Some(None)` clears it.
    pub nominated: Option<Option<Arc<str>>>,
    /// DisruptionTarget=True: the pod was evicted; the message names the preemptor and the reason.
    pub disrupted: Option<Arc<str>>,
}

/// What changes in a queue's status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePatch {
    /// `allocated` by resource name; `None` takes a name out.
    pub allocated: Vec<(Arc<str>, Option<String>)>,
    /// The queue has no state in this version: it is Open. Whoever writes a state meanwhile is not overwritten.
    pub open: Option<Arc<str>>,
}

/// A queue's status as read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSeen {
    /// Its UID.
    pub uid: Arc<str>,
    /// Names in `allocated`.
    pub names: Vec<Arc<str>>,
    /// Its version, if it has no `state`.
    pub stateless: Option<Arc<str>>,
}

impl PodPatch {
    /// What this one does not say is taken from one before it.
    pub(super) fn over(self, older: &Self) -> Self {
        Self {
            transition: self.transition || older.transition,
            condition: self.condition.or_else(|| older.condition.clone()),
            decided: self.decided.or(older.decided),
            nominated: self.nominated.or_else(|| older.nominated.clone()),
            disrupted: self.disrupted.or_else(|| older.disrupted.clone()),
        }
    }
}

impl QueuePatch {
    /// These amounts as a patch of the present status.
    pub(super) fn renewed(self, seen: &QueueSeen) -> Self {
        seen.patch(self.allocated.into_iter().filter_map(|(name, amount)| Some((name, amount?))).collect())
    }
}

impl QueueSeen {
    pub(super) fn patch(&self, allocated: Vec<(Arc<str>, String)>) -> QueuePatch {
        let unused = self.names.iter().filter(|name| !allocated.iter().any(|(used, _)| used == *name));
        let unused: Vec<_> = unused.map(|name| (Arc::clone(name), None)).collect();
        let used = allocated.into_iter().map(|(name, amount)| (name, Some(amount)));
        QueuePatch { allocated: used.chain(unused).collect(), open: self.stateless.clone() }
    }
}

/// A PodGroup's status.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupWrite {
    /// The PodGroup.
    pub group: Key,
    /// Its UID.
    pub uid: Arc<str>,
    /// The version from which the status was made.
    pub version: Arc<str>,
    /// The version that is to be overwritten, or any when it is empty; once it is written, the one it made.
    pub stands: Arc<str>,
    /// The status.
    pub status: GroupStatus,
    /// Whether an event on the PodGroup says why it waits.
    pub told: bool,
    /// When it was decided.
    pub decided: Instant,
}

/// A status to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// Fields of a pod's status.
    Pod(Arc<PodRef>, PodPatch),
    /// A PodGroup's status.
    PodGroup(GroupWrite),
    /// Fields of a queue's status.
    Queue(Arc<str>, QueuePatch),
}

impl Write {
    /// Merges newer content over a write of the same object; fields that the newer content lacks are still written.
    pub(super) fn over(self, older: &Write) -> Self {
        match (self, older) {
            (Write::Pod(pod, patch), Write::Pod(_, before)) => Write::Pod(pod, patch.over(before)),
            (newer, _) => newer,
        }
    }

    /// Its object.
    pub fn target(&self) -> Target {
        match self {
            Write::Pod(pod, _) => Target::Pod(Arc::clone(&pod.uid)),
            Write::PodGroup(write) => Target::PodGroup(write.group.clone()),
            Write::Queue(queue, _) => Target::Queue(Arc::clone(queue)),
        }
    }
}

/// Its object, for the log.
impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Write::Pod(pod, _) => write!(f, "pod {pod}"),
            Write::PodGroup(GroupWrite { group, .. }) => write!(f, "podgroup {group}"),
            Write::Queue(queue, _) => write!(f, "queue {queue}"),
        }
    }
}
