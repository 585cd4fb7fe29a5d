//! Which gate stopped a waiting job.
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::JobId;

use super::Inspection;

/// A gate on the way of a job, in the order in which a cycle comes to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gate {
    /// Its object is missing or cannot be used.
    Object,
    /// Its queue takes no jobs, or another job of the queue comes first.
    Queue,
    /// Too few of its pods exist or may start.
    Gang,
    /// It was not admitted (action `enqueue`).
    Enqueue,
    /// Its queue may not hold more.
    Quota,
    /// Too few nodes have room for it.
    Nodes,
    /// It has nodes and waits until terminating pods release them.
    Release,
    /// It was refused a short time ago, and is tried again later.
    BackOff,
    /// No action of the configuration serves it.
    Configuration,
}

impl Gate {
    /// The gate that a refusal is raised at; `None` for one that says why no pod was evicted.
    pub fn of(refusal: &Refusal) -> Option<Self> {
        use Refusal as R;
        Some(match refusal {
            R::NoPodGroup(_) | R::Invalid(_) | R::AwaitsPodGroup { .. } => Self::Object,
            R::QueueMissing(_) | R::QueueNotOpen { .. } | R::QueueInvalid { .. } | R::Behind { .. } => {
                Self::Queue
            }
            R::NotEnoughTasks { .. } | R::NotEnoughPodsOfTask { .. } | R::SubGroups(_) | R::Gated(_) => {
                Self::Gang
            }
            R::Enqueue { .. } | R::InqueueLimit { .. } | R::ResourceQuota { .. } => Self::Enqueue,
            R::Overused { .. } | R::Quota { .. } | R::RequestsNothing { .. } => Self::Quota,
            R::Topology(_)
            | R::Nodes { .. }
            | R::KeptForRepair { .. }
            | R::Outranked(_)
            | R::Partial { .. }
            | R::Search(_)
            | R::Extender { .. } => Self::Nodes,
            R::Reserved(_) => Self::Release,
            R::BindDenied { .. } => Self::BackOff,
            R::NoAction { .. } => Self::Configuration,
            // Another gate has stopped the job before.
            R::Eviction { .. } | R::NotEntitled { .. } => return None,
        })
    }
}

impl Inspection<'_> {
    /// The first gate that stopped a job in the last cycle that looked at it.
    pub fn gate(&self, job: JobId) -> Option<Gate> {
        let told = self.refusals(job).iter().filter_map(Gate::of).min();
        told.or_else(|| self.back_off(job).map(|_| Gate::BackOff))
    }
}
