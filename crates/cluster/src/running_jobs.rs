//! Jobs of which a pod runs, or is bound, by queue and importance: who may have to give way, found without a look at the others.
use std::collections::{BTreeMap, BTreeSet};

use super::{Cluster, Job, Status};
use crate::id::{Id, JobId, QueueId};

/// Where a job of which a pod runs stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningJobKey {
    queue: QueueId,
    priority: i32,
    /// It has more pods than it needs.
    surplus: bool,
}

/// Which jobs of equal importance may have to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Equals {
    /// All of them.
    All,
    /// Those with more pods than they need.
    Surplus,
    /// None of them.
    None,
}

/// By priority, then by id.
type Ranked = BTreeSet<(i32, JobId)>;

/// Those of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
struct QueueRunningJobs {
    all: Ranked,
    /// Those with more pods than they need.
    surplus: Ranked,
}

/// All jobs of which a pod runs, or is bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunningJobs {
    queues: BTreeMap<QueueId, QueueRunningJobs>,
}

impl RunningJobs {
    /// Something of a job changed that decides where it stands.
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
    /// Whether a pod of it runs, or is bound.
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
    /// Queues of which a pod runs, or is bound, by id.
    pub fn queues_with_running_jobs(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.indexes.running.queues.keys().copied()
    }

    /// Jobs of a queue of which a pod runs, the least important first.
    pub fn running_jobs(&self, queue: QueueId) -> impl Iterator<Item = JobId> + '_ {
        self.indexes.running.queues.get(&queue).into_iter().flat_map(|of| &of.all).map(|(_, job)| *job)
    }

    /// Those of them that are less important than this, and some that are as important.
    pub fn running_jobs_below(
        &self,
        queue: QueueId,
        priority: i32,
        equals: Equals,
    ) -> impl Iterator<Item = JobId> + '_ {
        let first = (priority, JobId::from_index(0));
        let last = (priority, JobId::from_index(u32::MAX as usize));
        let of = self.indexes.running.queues.get(&queue).into_iter();
        of.flat_map(move |of| {
            let equal = match equals {
                Equals::All => Some(&of.all),
                Equals::Surplus => Some(&of.surplus),
                Equals::None => None,
            };
            of.all.range(..first).chain(equal.into_iter().flat_map(move |equal| equal.range(first..=last)))
        })
        .map(|(_, job)| *job)
    }

    /// A job's queue, importance or minMember changed.
    pub(super) fn note_running(&mut self, id: JobId) {
        self.indexes.running.update(id, &mut self.jobs[id]);
    }

    /// Whether those that are known are those that there are.
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
