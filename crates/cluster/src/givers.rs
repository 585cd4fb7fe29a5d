//! Jobs of which a pod runs, or is bound, by queue and priority: potential victims are found without a look at other jobs.
use std::collections::{BTreeMap, BTreeSet};

use super::{Cluster, Job, Status};
use crate::id::{Id, JobId, QueueId};

/// Where a job of which a pod runs stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Giver {
    queue: QueueId,
    priority: i32,
    /// It has more pods than it needs.
    surplus: bool,
}

/// Which jobs of equal importance may have to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EqualPriority {
    /// All of them.
    All,
    /// Those with more pods than they need.
    WithSurplus,
    /// None of them.
    None,
}

/// By priority, then by id.
type Ranked = BTreeSet<(i32, JobId)>;

/// Those of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfQueue {
    all: Ranked,
    /// Those with more pods than they need.
    surplus: Ranked,
}

/// All jobs of which a pod runs, or is bound.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Givers {
    queues: BTreeMap<QueueId, OfQueue>,
}

impl Givers {
    /// Something of a job changed that decides where it stands.
    #[inline]
    pub(super) fn update(&mut self, id: JobId, job: &mut Job) {
        let stands = job.as_giver();
        if job.giver != stands {
            let stood = std::mem::replace(&mut job.giver, stands);
            self.take_out(id, stood);
            self.put_in(id, stands);
        }
    }

    fn take_out(&mut self, id: JobId, stood: Option<Giver>) {
        let Some(Giver { queue, priority, surplus }) = stood else { return };
        let Some(of) = self.queues.get_mut(&queue) else { return };
        of.all.remove(&(priority, id));
        if surplus {
            of.surplus.remove(&(priority, id));
        }
        if of.all.is_empty() {
            self.queues.remove(&queue);
        }
    }

    fn put_in(&mut self, id: JobId, stands: Option<Giver>) {
        let Some(Giver { queue, priority, surplus }) = stands else { return };
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
    fn as_giver(&self) -> Option<Giver> {
        let stands = || Giver {
            queue: self.queue,
            priority: self.priority,
            surplus: self.counts.ready() > self.min_member,
        };
        self.runs().then(stands)
    }
}

impl Cluster {
    /// Queues of which a pod runs, or is bound, by id.
    pub fn giving_queues(&self) -> impl Iterator<Item = QueueId> + '_ {
        self.givers.queues.keys().copied()
    }

    /// Jobs of a queue of which a pod runs, the least important first.
    pub fn givers(&self, queue: QueueId) -> impl Iterator<Item = JobId> + '_ {
        self.givers.queues.get(&queue).into_iter().flat_map(|of| &of.all).map(|(_, job)| *job)
    }

    /// Those of them that are less important than this, and some that are as important.
    pub fn givers_below(
        &self,
        queue: QueueId,
        priority: i32,
        equals: EqualPriority,
    ) -> impl Iterator<Item = JobId> + '_ {
        let first = (priority, JobId::from_index(0));
        let last = (priority, JobId::from_index(u32::MAX as usize));
        let of = self.givers.queues.get(&queue).into_iter();
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

    /// A job's queue, importance or minMember changed.
    pub(super) fn note_giver(&mut self, id: JobId) {
        self.givers.update(id, &mut self.jobs[id]);
    }

    /// Whether those that are known are those that there are.
    pub(super) fn check_givers(&self, note: &mut impl FnMut(bool, String)) {
        let mut anew = Givers::default();
        for (id, job) in self.jobs.iter() {
            note(job.giver == job.as_giver(), format!("where {} stands among those that run", job.key));
            anew.put_in(id, job.as_giver());
        }
        note(anew == self.givers, "jobs that run".to_owned());
    }
}
