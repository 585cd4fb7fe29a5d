//! Changes of jobs, queues and nodes, which the backlog takes in.
use crate::id::{AnyClaimId, ClassId, JobId, NodeId, QueueId, TaskId};
use crate::marks::Dirty;
use crate::{Cluster, Stamp, Status, Task};

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
        self.recheck_queues();
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
        self.recheck_queues();
        self.devices_moved_about();
    }

    /// Logs the nodes reserved for a job that changed: jobs that precede it now may take them.
    pub(crate) fn log_reserved_nodes(&mut self, job: JobId) {
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

    /// Nodes touched since a cursor; `None` when entries since then were dropped.
    pub fn touched_since(&self, cursor: u64) -> Option<&[NodeId]> {
        self.changes.touched.since(cursor)
    }

    /// Queues of tasks that were moved since a cursor; `None` when entries since then were dropped.
    pub fn moved_since(&self, cursor: u64) -> Option<&[QueueId]> {
        self.changes.moved.since(cursor)
    }

    /// The end of the log that [`moved_since`](Self::moved_since) reads.
    pub fn moved_end(&self) -> u64 {
        self.changes.moved.end()
    }

    /// Counts an event that may let a job start which could not before.
    pub fn note_retry_event(&mut self) {
        self.changes.retry_events += 1;
    }

    /// The number of events that may let a job start which could not before.
    pub fn retry_events(&self) -> u64 {
        self.changes.retry_events
    }

    /// The clock when a Node was last added, changed or removed.
    pub fn nodes_stamp(&self) -> u64 {
        self.changes.nodes
    }

    /// The end of the log that [`touched_since`](Self::touched_since) reads.
    pub fn touched_end(&self) -> u64 {
        self.changes.touched.end()
    }

    /// Logs the class of a task that is its first pending one.
    pub(crate) fn seek(&mut self, task: TaskId) {
        let Self { tasks, classes, changes, .. } = self;
        let Task { class, status, .. } = tasks[task];
        if status == Status::Pending && classes[class].sought.0 == 0 {
            changes.clock += 1;
            classes[class].sought = Stamp(changes.clock);
            changes.sought.push(class);
        }
    }

    /// Classes whose first task became pending since a cursor; all classes that had a pending task when entries since
    /// then were dropped.
    pub fn sought_since(&self, cursor: u64) -> Vec<ClassId> {
        match self.changes.sought.since(cursor) {
            Some(list) => list.iter().copied().filter(|id| self.is_sought(*id)).collect(),
            None => self.classes.iter().map(|(id, _)| id).filter(|id| self.is_sought(*id)).collect(),
        }
    }

    pub(crate) fn is_sought(&self, class: ClassId) -> bool {
        self.classes.get(class).is_some_and(|class| class.sought.0 > 0)
    }

    /// The end of the log of such classes.
    pub fn sought_end(&self) -> u64 {
        self.changes.sought.end()
    }
}
