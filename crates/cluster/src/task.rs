//! Tasks: pods, as the scheduler sees them.
use std::sync::Arc;

use super::devices::Linked;
use crate::annotation::Annotations;
use crate::event::{ControllerRef, PodRef, QueueGate, RunTime, Time};
use crate::id::{ClassId, JobId, NodeId, QueueId};
use crate::label::Labels;

/// The status of a task (Volcano's `TaskStatus`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Waits for a node.
    Pending,
    /// Given a node by a statement that is still open.
    Allocated,
    /// Nominated: given a node where resources are being released.
    Pipelined,
    /// Decided; the outbox is binding it.
    Binding,
    /// Bound; not running yet.
    Bound,
    /// Running.
    Running,
    /// Being deleted; uses its resources until it is gone.
    Releasing,
    /// Succeeded.
    Succeeded,
    /// Failed.
    Failed,
    /// The kubelet does not report.
    Unknown,
}

/// What a task takes from its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Nothing,
    /// Idle resources.
    Used,
    /// Idle resources, which are being released.
    Releasing,
    /// Future idle resources: idle ones, or ones being released.
    Pipelined,
}

impl Status {
    /// Number of statuses.
    pub const COUNT: usize = 10;

    /// Position in per-status counters.
    #[inline]
    pub fn index(self) -> usize {
        self as usize
    }

    /// What a task of this status takes from its node.
    #[inline]
    pub fn hold(self) -> Hold {
        match self {
            Status::Pending | Status::Succeeded | Status::Failed => Hold::Nothing,
            Status::Pipelined => Hold::Pipelined,
            Status::Releasing => Hold::Releasing,
            Status::Allocated | Status::Binding | Status::Bound | Status::Running | Status::Unknown => {
                Hold::Used
            }
        }
    }

    /// Whether the task counts for its gang: it is allocated, bound, running or succeeded.
    #[inline]
    pub fn is_ready(self) -> bool {
        self.is_allocated() || self == Status::Succeeded
    }

    /// Counts as allocated for shares and quota (Volcano's `AllocatedStatus`).
    #[inline]
    pub fn is_allocated(self) -> bool {
        matches!(self, Status::Allocated | Status::Binding | Status::Bound | Status::Running)
    }

    /// Whether the task is, or may become, a member of its gang: it has not failed and is not terminating.
    pub fn is_valid(self) -> bool {
        !matches!(self, Status::Releasing | Status::Failed | Status::Unknown)
    }

    /// Whether a task has a node, or will have one once resources are released.
    pub fn has_place(self) -> bool {
        self.is_ready() || self == Status::Pipelined
    }

    /// Whether the task was given or nominated to a node, and is not being bound.
    #[inline]
    pub fn has_new_place(self) -> bool {
        matches!(self, Status::Allocated | Status::Pipelined)
    }

    /// The word used in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Pending => "Pending",
            Status::Allocated => "Allocated",
            Status::Pipelined => "Pipelined",
            Status::Binding => "Binding",
            Status::Bound => "Bound",
            Status::Running => "Running",
            Status::Releasing => "Releasing",
            Status::Succeeded => "Succeeded",
            Status::Failed => "Failed",
            Status::Unknown => "Unknown",
        }
    }
}

/// Number of tasks by status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts([u32; Status::COUNT]);

impl Counts {
    /// Number of tasks of a status.
    #[inline]
    pub fn of(&self, status: Status) -> u32 {
        self.0[status.index()]
    }

    /// Number of tasks that count for their gang: allocated, bound, running or succeeded (Volcano's `ReadyTaskNum`).
    #[inline]
    pub fn ready(&self) -> u32 {
        use Status::{Allocated, Binding, Bound, Running, Succeeded};
        [Allocated, Binding, Bound, Running, Succeeded].iter().map(|status| self.of(*status)).sum()
    }

    /// Number of tasks that are, or may become, members: all but failed and terminating ones (Volcano's
    /// `ValidTaskNum`).
    #[inline]
    pub fn valid(&self) -> u32 {
        self.ready() + self.of(Status::Pipelined) + self.of(Status::Pending)
    }

    /// All tasks.
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    #[inline]
    pub(crate) fn moved(&mut self, from: Option<Status>, to: Option<Status>) {
        if let Some(from) = from {
            self.0[from.index()] -= 1;
        }
        if let Some(to) = to {
            self.0[to.index()] += 1;
        }
    }
}

/// Whether the eviction of a task was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refused {
    /// No.
    #[default]
    No,
    /// Since the last cycle.
    New,
    /// At this time, set by a cycle.
    At(Time),
}

/// What the object of a pod says that the scheduler only reads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodDetails {
    /// Index in the role.
    pub index: Option<u32>,
    /// Creation.
    pub created: Time,
    /// `volcano.sh/preemptable`; unset counts as true.
    pub preemptable: Option<bool>,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Labels.
    pub labels: Labels,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// The pod runs and is not ready.
    pub unready: bool,
    /// When the pod was bound to its node.
    pub scheduled: Option<Time>,
    /// How long it runs.
    pub run_time: Option<RunTime>,
    /// Its controller.
    pub controller: Option<Arc<ControllerRef>>,
}

/// What the object of a pod says that the scheduler writes, as last read or decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodWritten {
    /// `status.nominatedNodeName`.
    pub nominated: Option<Arc<str>>,
    /// The message of the condition PodScheduled.
    pub message: Option<Arc<str>>,
    /// The queue-admission gate.
    pub queue_gate: QueueGate,
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
// Fields that `place` reads and writes come first, close together in memory.
#[repr(C)]
pub struct Task {
    /// The job; `None` for a pod of another scheduler, which only uses resources.
    pub job: Option<JobId>,
    /// The node that the pod is on, or is nominated to.
    pub node: Option<NodeId>,
    /// Requests and constraints.
    pub class: ClassId,
    /// Position in the node's list of tasks.
    pub node_slot: u32,
    /// Priority.
    pub priority: i32,
    /// Position in the job's list of tasks.
    pub job_slot: u32,
    /// Status; changed by `Cluster::place` only.
    pub status: Status,
    /// Has scheduling gates.
    pub gated: bool,
    /// The usage figures of the node include the pod.
    pub measured: bool,
    /// Whether the pod has its priority as a number.
    pub own_priority: bool,
    /// Role: an index into the job's roles.
    pub role: u16,
    /// ResourceClaims.
    pub claims: Option<Arc<Linked>>,
    /// What the object says that the scheduler writes.
    pub written: PodWritten,
    /// What the object says that the scheduler only reads.
    pub details: PodDetails,
    /// Namespace, name and UID of the pod.
    pub pod: Arc<PodRef>,
    /// The PriorityClass of the priority, when the pod does not have a number.
    pub priority_class: Option<Arc<str>>,
    /// The status when the eviction was decided, until the API server shows the eviction.
    pub evicting: Option<Status>,
    /// Whether its eviction was refused lately.
    pub refused: Refused,
    /// By how much limits exceed requests, in cpu (milli) and memory (bytes).
    pub burst: [i64; 2],
    /// Set for a task that keeps the place of a moved pod: the queue that the place counts in.
    pub placeholder_in: Option<QueueId>,
}

impl Task {
    /// Whether the task is a pod, not the place kept for one.
    pub fn is_pod(&self) -> bool {
        self.placeholder_in.is_none()
    }

    /// Whether an action may give the task a node.
    #[inline]
    pub fn is_schedulable(&self) -> bool {
        matches!(self.status, Status::Pending | Status::Pipelined) && !self.gated
    }
}
