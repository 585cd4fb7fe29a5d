//! Tasks: pods, as the scheduler sees them.
use std::sync::Arc;

use super::devices::Linked;
use crate::annotation::Annotations;
use crate::event::{PodRef, QueueGate, Time};
use crate::id::{ClassId, JobId, NodeId, QueueId};
use crate::label::Labels;

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Status {
    /// Waits for a node.
    Pending,
    /// Given a node by a statement that is still open.
    Allocated,
    /// Nominated: given a node where room is being freed.
    Pipelined,
    /// Decided; the outbox is binding it.
    Binding,
    /// Bound; not running yet.
    Bound,
    /// Running.
    Running,
    /// Being deleted; holds its room until it is gone.
    Releasing,
    /// Ended well.
    Succeeded,
    /// Ended badly.
    Failed,
    /// The kubelet cannot be asked.
    Unknown,
}

/// What a status takes from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// Nothing.
    Nothing,
    /// Idle room.
    Used,
    /// Idle room that will be free soon.
    Releasing,
    /// Future room: what is idle or being released.
    Pipelined,
}

impl Status {
    /// How many there are.
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

    /// Counts as allocated for shares and quota (Volcano's `AllocatedStatus`).
    #[inline]
    pub fn is_allocated(self) -> bool {
        matches!(self, Status::Allocated | Status::Binding | Status::Bound | Status::Running)
    }

    /// It is, or may still become, a member of its gang: it has not ended badly and is not terminating.
    pub fn is_valid(self) -> bool {
        !matches!(self, Status::Releasing | Status::Failed | Status::Unknown)
    }

    /// It has a place that it is not being bound to: one that was just given or promised to it.
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

/// How many tasks have each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Counts([u32; Status::COUNT]);

impl Counts {
    /// Tasks of one status.
    #[inline]
    pub fn of(&self, status: Status) -> u32 {
        self.0[status.index()]
    }

    /// Tasks that need nothing more to count for their gang: allocated, bound, running or succeeded.
    #[inline]
    pub fn ready(&self) -> u32 {
        use Status::{Allocated, Binding, Bound, Running, Succeeded};
        [Allocated, Binding, Bound, Running, Succeeded].iter().map(|status| self.of(*status)).sum()
    }

    /// Tasks that are, or may still become, members: all but those that ended badly or are leaving.
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
    /// It was not.
    #[default]
    No,
    /// Since the last cycle.
    New,
    /// Then, as a cycle noted.
    At(Time),
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
// In this order, for what every move touches is to lie close together.
#[repr(C)]
pub struct Task {
    /// Its gang; `None` for a pod of another scheduler, which only counts as usage.
    pub job: Option<JobId>,
    /// The node it is on, or is meant for.
    pub node: Option<NodeId>,
    /// Its requests and constraints.
    pub class: ClassId,
    /// Its place in the node's list.
    pub node_slot: u32,
    /// Priority.
    pub priority: i32,
    /// Its place in the job's list.
    pub job_slot: u32,
    /// Its index in its role.
    pub index: Option<u32>,
    /// Creation.
    pub created: Time,
    /// Where it stands; changed by `Cluster::place` only.
    pub status: Status,
    /// Has scheduling gates.
    pub gated: bool,
    /// Its gate to its queue, as last read or decided.
    pub queue_gate: QueueGate,
    /// What it uses is in its node's figures.
    pub measured: bool,
    /// Whether the pod carries its priority as a number.
    pub own_priority: bool,
    /// Its role: an index into the job's roles.
    pub role: u16,
    /// Its claims to devices.
    pub claims: Option<Arc<Linked>>,
    /// `status.nominatedNodeName`, or the node last nominated by us.
    pub nominated: Option<Arc<str>>,
    /// Its name outside.
    pub pod: Arc<PodRef>,
    /// The PriorityClass the priority comes from, when the pod does not carry a number.
    pub priority_class: Option<Arc<str>>,
    /// May be evicted; unset counts as yes.
    pub preemptable: Option<bool>,
    /// Never preempts others.
    pub never_preempts: bool,
    /// The status it had when its eviction was decided, until that is seen outside.
    pub evicting: Option<Status>,
    /// Whether its eviction was refused lately.
    pub refused: Refused,
    /// Labels.
    pub labels: Labels,
    /// It runs and is not ready.
    pub unready: bool,
    /// When it was given its node.
    pub scheduled: Option<Time>,
    /// The message of the PodScheduled condition that was last read or decided.
    pub message: Option<Arc<str>>,
    /// What its limits are above its requests, of cpu (milli) and memory (bytes).
    pub burst: [i64; 2],
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// It is no pod, but the place of one that was moved, which counts in this queue.
    pub seat_in: Option<QueueId>,
}

impl Task {
    /// Whether there is a pod; else it is a place that is kept for one.
    pub fn is_pod(&self) -> bool {
        self.seat_in.is_none()
    }

    /// May be given a node by an action.
    #[inline]
    pub fn is_schedulable(&self) -> bool {
        matches!(self.status, Status::Pending | Status::Pipelined) && !self.gated
    }
}
