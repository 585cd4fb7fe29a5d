//! Jobs with a running or bound pod, by queue and priority: where potential victims are, found without a pass over all
//! jobs.
use std::collections::{BTreeMap, BTreeSet};

use super::{Cluster, Job, Status};
use crate::id::{Id, JobId, QueueId};

/// The place of a running job in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningJobKey {
    queue: QueueId,
    priority: i32,
    /// The job has surplus pods.
    surplus: bool,
}

/// Which jobs of equal priority are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualPriority {
    /// All of them.
    All,
    /// Running jobs with surplus pods.
    WithSurplus,
    /// None of them.
    None,
}

/// By priority, then by id.
type Ranked = BTreeSet<(i32, JobId)>;

/// The running jobs of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
struct QueueRunningJobs {
    all: Ranked,
    /// Running jobs with surplus pods.
    surplus: Ranked,
}

/// All jobs with a running or bound pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunningJobs {
    queues: BTreeMap<QueueId, QueueRunningJobs>,
}

impl RunningJobs {
    /// Moves a job to its place in the index after a change.
    #[inline]
    pub(super) fn update(&mut self, id: JobId, job: &mut Job) {
        let after = job.running_key();
        if job.running_key != after {
            let before = std::mem::replace(&mut job.running_key, after);
            self.take_out(id, before);
            self.put_in(id, after);
        }
    }

    fn take_out(&mut self, id: JobId, before: Option<RunningJobKey>) {
        let Some(RunningJobKey { queue, priority, surplus }) = before else { return };
        let Some(of) = self.queues.get_mut(&queue) else { return };
        of.all.remove(&(priority, id));
        if surplus {
            of.surplus.remove(&(priority, id));
        }
        if of.all.is_empty() {
            self.queues.remove(&queue);
        }
    }

    fn put_in(&mut self, id: JobId, after: Option<RunningJobKey>) {
        let Some(RunningJobKey { queue, priority, surplus }) = after else { return };
        let of = self.queues.entry(queue).or_default();
        of.all.insert((priority, id));
        if surplus {
            of.surplus.insert((priority, id));
        }
    }
}

impl Job {
    /// Whether any pod is running or bound.
    #[inline]
    fn runs(&self) -> bool {
        self.counts.of(Status::Running) + self.counts.of(Status::Bound) > 0
    }

    #[inline]
    fn running_key(&self) -> Option<RunningJobKey> {
        let after = || RunningJobKey {
            queue: self.queue,
            priority: self.priority,
            surplus: self.counts.ready() > self.min_member,
        };
        self.runs().then(after)
    }
}

impl Cluster {
    /// Queues with a running or bound pod, by id.
    pub fn queues_with_running_jobs(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.indexes.running.queues.keys().copied()
    }

    /// Jobs of a queue with a running or bound pod, lowest priority first.
    pub fn running_jobs(&self, queue: QueueId) -> impl Iterator<Item = JobId> + '_ {
        self.indexes.running.queues.get(&queue).into_iter().flat_map(|of| &of.all).map(|(_, job)| *job)
    }

    /// Jobs of a queue with a running or bound pod and lower priority, then some with equal priority.
    pub fn running_jobs_below(
        &self,
        queue: QueueId,
        priority: i32,
        equals: EqualPriority,
    ) -> impl Iterator<Item = JobId> + '_ {
        let first = (priority, JobId::from_index(0));
        let last = (priority, JobId::from_index(u32::MAX as usize));
        let of = self.indexes.running.queues.get(&queue).into_iter();
        of.flat_map(move |of| {
            let equal = match equals {
                EqualPriority::All => Some(&of.all),
                EqualPriority::WithSurplus => Some(&of.surplus),
                EqualPriority::None => None,
            };
            of.all.range(..first).chain(equal.into_iter().flat_map(move |equal| equal.range(first..=last)))
        })
        .map(|(_, job)| *job)
    }

    /// Updates the index after a change of a job's queue, priority or `minMember`.
    pub(super) fn note_running(&mut self, id: JobId) {
        self.indexes.running.update(id, &mut self.jobs[id]);
    }

    /// Compares with a rebuilt index.
    pub(super) fn check_running_jobs(&self, note: &mut crate::check::Note<'_>) {
        let mut anew = RunningJobs::default();
        for (id, job) in self.jobs.iter() {
            note(
                job.running_key == job.running_key(),
                format!("where {} after among those that run", job.key),
            );
            anew.put_in(id, job.running_key());
        }
        note(anew == self.indexes.running, "jobs that run".to_owned());
    }
}
