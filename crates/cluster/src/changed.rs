//! Changes of jobs, queues and nodes, which the backlog takes in.
use crate::id::{AnyClaimId, JobId, NodeId, QueueId};
use crate::marks::Dirty;
use crate::{Cluster, Status};

/// How much of a job changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// A change that a cycle has to try the job for.
    Major,
    /// A change that does not count for a job without waiting pods.
    Minor,
}

/// What changed since [`Cluster::take_changes`] was called last.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Removed jobs. Another job may have the id by now.
    pub gone: Vec<JobId>,
    /// Added or changed jobs.
    pub jobs: Vec<(JobId, JobChange)>,
    /// Added, changed or removed queues.
    pub queues: Vec<QueueId>,
    /// Nodes that did not change but may have free capacity for jobs now.
    pub freed: Vec<NodeId>,
    /// Volume and device claims that changed.
    pub claims: Vec<AnyClaimId>,
    /// The order of jobs may have changed.
    pub order: bool,
}

/// Changes since the last [`Cluster::take_changes`], each once, so that the log stays short when no cycle runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ChangeLog {
    major: Dirty<JobId>,
    minor: Dirty<JobId>,
    /// Changes count as minor ones now.
    is_minor: bool,
    gone: Dirty<JobId>,
    queues: Dirty<QueueId>,
    freed: Dirty<NodeId>,
    order: bool,
}

impl ChangeLog {
    #[inline]
    pub(crate) fn note(&mut self, job: JobId) {
        let list = if self.is_minor { &mut self.minor } else { &mut self.major };
        list.mark(job);
    }

    fn is_empty(&self) -> bool {
        let Self { major, minor, gone, queues, freed, order, .. } = self;
        major.is_empty()
            && minor.is_empty()
            && gone.is_empty()
            && queues.is_empty()
            && freed.is_empty()
            && !order
    }
}

impl Cluster {
    /// Logs a change of a job.
    pub fn job_changed(&mut self, id: JobId) {
        self.indexes.inqueue.mark(id);
        self.changes.log.note(id);
    }

    /// Logs a change of all jobs and their order, such as by a new configuration.
    pub fn all_jobs_changed(&mut self) {
        self.doubt_queues();
        self.changes.log.order = true;
        let Self { jobs, changes, .. } = self;
        jobs.ids().for_each(|id| changes.log.note(id));
    }

    /// Makes changes that are logged as minor ones.
    pub(crate) fn in_passing(&mut self, change: impl FnOnce(&mut Self)) {
        self.changes.log.is_minor = true;
        change(self);
        self.changes.log.is_minor = false;
    }

    pub(crate) fn note_gone(&mut self, id: JobId) {
        self.indexes.inqueue.mark(id);
        self.changes.log.gone.mark(id);
    }

    /// Logs that a queue was added, changed or removed.
    pub(crate) fn queue_changed(&mut self, id: QueueId) {
        self.changes.log.queues.mark(id);
        self.doubt_queues();
        self.devices_moved_about();
    }

    /// Logs the nodes reserved for a job that changed: jobs that precede it now may take them.
    pub(crate) fn doubt_reservations(&mut self, job: JobId) {
        let Self { jobs, tasks, changes, .. } = self;
        if jobs[job].counts.of(Status::Pipelined) > 0 {
            let pipelined = |id: &&crate::id::TaskId| tasks[**id].status == Status::Pipelined;
            let reserved = jobs[job].tasks.iter().filter(pipelined).filter_map(|id| tasks[*id].node);
            for node in reserved {
                changes.log.freed.mark(node);
            }
        }
    }

    /// Whether there are changes that were not taken.
    pub fn has_changes(&self) -> bool {
        !(self.changes.log.is_empty()
            && self.volumes.changed.is_empty()
            && self.devices.changed_claims.is_empty())
    }

    /// Jobs removed since changes were taken. Another job may have the id by now.
    pub fn gone_jobs(&self) -> impl Iterator<Item = JobId> {
        self.changes.log.gone.iter()
    }

    /// Takes the changes since the last call.
    pub fn take_changes(&mut self) -> Changed {
        let log = std::mem::take(&mut self.changes.log);
        let volumes = self.volumes.changed.take().into_iter().map(AnyClaimId::Volume);
        let devices = self.devices.changed_claims.take().into_iter().map(AnyClaimId::Device);
        let of = |list: Dirty<JobId>, change| list.into_iter().map(move |id| (id, change));
        let jobs = of(log.major, JobChange::Major).chain(of(log.minor, JobChange::Minor)).collect();
        Changed {
            gone: log.gone.into_iter().collect(),
            jobs,
            queues: log.queues.into_iter().collect(),
            freed: log.freed.into_iter().collect(),
            claims: volumes.chain(devices).collect(),
            order: log.order,
        }
    }
}
