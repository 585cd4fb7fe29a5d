//! What an action evicts for, and which pods.
use crate::decision::Cause;
use crate::session::Session;
use phalanx_cluster::diagnosis::Whose;
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::plugin::EvictionKind;

/// The argument by which whole gangs may be evicted.
pub(crate) const WHOLE: &str = "allowWholeBundle";

/// What an action evicts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EvictionMode {
    /// For a more important job of the same queue.
    Preempt,
    /// For a more important task of the same job.
    WithinJob,
    /// For a job of another queue.
    Reclaim,
    /// As `Preempt`, gangs as a whole.
    GangPreempt,
    /// As `Reclaim`, gangs as a whole.
    GangReclaim,
}

impl EvictionMode {
    /// The action's name.
    pub(super) fn action(self) -> &'static str {
        match self {
            EvictionMode::Preempt | EvictionMode::WithinJob => "preempt",
            EvictionMode::Reclaim => "reclaim",
            EvictionMode::GangPreempt => "gangpreempt",
            EvictionMode::GangReclaim => "gangreclaim",
        }
    }

    pub(super) fn kind(self) -> EvictionKind {
        match self {
            EvictionMode::Preempt | EvictionMode::WithinJob | EvictionMode::GangPreempt => {
                EvictionKind::Preempt
            }
            EvictionMode::Reclaim | EvictionMode::GangReclaim => EvictionKind::Reclaim,
        }
    }

    /// Whether one job preempts another.
    pub(super) fn preempts_other_jobs(self) -> bool {
        self.kind() == EvictionKind::Preempt && self != EvictionMode::WithinJob
    }

    /// Whether gangs are taken as a whole.
    pub(super) fn evicts_whole_gangs(self) -> bool {
        matches!(self, EvictionMode::GangPreempt | EvictionMode::GangReclaim)
    }

    /// Whether gangs may be broken, by those actions if nothing is left of them.
    pub(super) fn may_break(self, session: &Session<'_>) -> bool {
        !self.evicts_whole_gangs() || session.conf.action_args(self.action()).bool(WHOLE, true)
    }

    /// Whether a task of this status may be a victim.
    pub(super) fn may_evict_status(self, status: Status) -> bool {
        status == Status::Running || (self.kind() == EvictionKind::Preempt && status == Status::Bound)
    }

    /// Whether a queue may have to give for one.
    pub(super) fn may_evict_from_queue(self, cluster: &Cluster, by: QueueId, from: QueueId) -> bool {
        match self.kind() {
            EvictionKind::Preempt => by == from,
            EvictionKind::Reclaim => by != from && cluster.keeps_its_pods(from, by).is_none(),
        }
    }

    /// Whose pods may have to go.
    pub(super) fn whose(self) -> Whose {
        match (self, self.kind()) {
            (EvictionMode::WithinJob, _) => Whose::Job,
            (_, EvictionKind::Preempt) => Whose::Queue,
            (_, EvictionKind::Reclaim) => Whose::OtherQueues,
        }
    }

    /// Whether a job may have to give for one.
    pub(super) fn may_evict_from_job(self, by: JobId, from: JobId) -> bool {
        (self == EvictionMode::WithinJob) == (by == from)
    }

    /// Why pods are evicted, as it is written on events.
    pub(super) fn cause(self, session: &Session<'_>, job: JobId) -> Cause {
        let cluster = &*session.cluster;
        let job = &cluster.jobs[job];
        let verb = match self.kind() {
            EvictionKind::Preempt => "preempted",
            EvictionKind::Reclaim => "reclaimed",
        };
        let queue = &cluster.queues[job.queue].name;
        let reason = format!("{verb} by {} (priority {}) in queue {queue}", job.key, job.priority);
        Cause { action: self.action(), by: Some(job.key.clone()), reason: reason.into() }
    }
}
