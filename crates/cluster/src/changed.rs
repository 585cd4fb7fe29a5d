//! What changed in the Cluster since somebody asked: jobs, queues and nodes that the backlog has to look at.
use crate::id::{JobId, NodeId, QueueId};
use crate::likeness::Member;
use crate::marks::Dirty;
use crate::{Cluster, Status};

/// How much of a job changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobChange {
    /// Something for which a cycle has to look at the job.
    Major,
    /// Something that does not count for a job of which no pod waits.
    Minor,
}

/// What changed since [`Cluster::take_changes`] was called last.
#[derive(Clone, Debug, Default)]
pub struct Changed {
    /// Jobs that were removed. Another job may have the id by now.
    pub gone: Vec<JobId>,
    /// Jobs that were added or changed.
    pub jobs: Vec<(JobId, JobChange)>,
    /// Queues that were added, changed or removed.
    pub queues: Vec<QueueId>,
    /// Nodes on which capacity may have become free for a job, though the node did not change.
    pub freed: Vec<NodeId>,
    /// The order of jobs may be another one.
    pub order: bool,
}

/// The log of such changes, each once, so that it stays short while nobody takes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeLog {
    major: Dirty<JobId>,
    minor: Dirty<JobId>,
    /// The changes that are being made are minor ones.
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
    /// Something of a job changed.
    pub fn job_changed(&mut self, id: JobId) {
        self.inqueue.mark(id);
        self.changes.log.note(id);
    }

    /// What counts for all jobs changed: the configuration, say, and with it their order.
    pub fn all_jobs_changed(&mut self) {
        self.doubt_queues();
        self.changes.log.order = true;
        let Self { jobs, changes, .. } = self;
        jobs.ids().for_each(|id| changes.log.note(id));
    }

    /// Makes a change that does not count for a job of which no pod waits.
    pub(crate) fn in_passing(&mut self, change: impl FnOnce(&mut Self)) {
        self.changes.log.is_minor = true;
        change(self);
        self.changes.log.is_minor = false;
    }

    pub(crate) fn note_gone(&mut self, id: JobId) {
        self.inqueue.mark(id);
        self.changes.log.gone.mark(id);
    }

    /// A queue was added, changed or removed.
    pub(crate) fn queue_changed(&mut self, id: QueueId) {
        self.changes.log.queues.mark(id);
        self.doubt_queues();
        self.devices_moved_about();
    }

    /// A job changed: jobs that go before it now may have what is reserved for it.
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

    /// Whether anything changed that was not taken yet.
    pub fn has_changes(&self) -> bool {
        !self.changes.log.is_empty() || self.volumes.has_woken() || self.devices.has_woken()
    }

    /// Jobs that were removed since the changes were taken. Another job may have the id by now.
    pub fn gone_jobs(&self) -> impl Iterator<Item = JobId> {
        self.changes.log.gone.iter()
    }

    /// What changed since this was called last.
    pub fn take_changes(&mut self) -> Changed {
        let log = std::mem::take(&mut self.changes.log);
        let of = |list: Dirty<JobId>, change| list.into_iter().map(move |id| (id, change));
        let jobs = of(log.major, JobChange::Major).chain(of(log.minor, JobChange::Minor)).collect();
        Changed {
            gone: log.gone.into_iter().collect(),
            jobs,
            queues: log.queues.into_iter().collect(),
            freed: log.freed.into_iter().collect(),
            order: log.order,
        }
    }

    /// The jobs that [watch](Self::watch_claims) claims to which something happened since this was called last.
    pub fn take_watchers(&mut self) -> Vec<Member> {
        self.volumes.take_woken().into_iter().chain(self.devices.take_woken()).collect()
    }
}
