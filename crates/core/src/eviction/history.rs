//! Who took from whom lately, so that nobody takes from each other for ever.
//!
//! Rules say who may take from whom, and each of them ends by itself; all of them together, with gangs, several resources and
//! trees of queues, need not. What ends them whatever they say: a job that took from another in three cycles within ten minutes,
//! and lost as often to it or, through others, to who lost to it, takes no more from it for that long. So the takings that go
//! on for ever make an order of jobs in which only those above take from those below: the first of them loses nothing, so it
//! has all it will have after a while and takes no more, then the second, and so on. Who only lost may take.
//!
//! Who takes over what is kept for another takes it from that one.
//!
//! Pods without a PodGroup are made again under other names; those of a queue that are as important and ask for the same count
//! as one.
use std::collections::VecDeque;

use phalanx_resource::Amounts;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::session::Session;
use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, JobKind};

/// Cycles in which one took from another, until that one may take nothing back.
const OFTEN: u32 = 3;

/// How long a record is remembered, in milliseconds.
const MEMORY: i64 = 600_000;

/// Who takes or loses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum JobIdentity {
    Group(Key),
    Solos(QueueId, i32, Amounts),
}

impl JobIdentity {
    pub(super) fn of(cluster: &Cluster, id: JobId) -> Self {
        let job = &cluster.jobs[id];
        match (job.kind, job.tasks.first()) {
            (JobKind::Solo, Some(task)) => {
                Self::Solos(job.queue, job.priority, cluster.request_of(*task).clone())
            }
            _ => Self::Group(job.key.clone()),
        }
    }
}

/// How often one took from another.
#[derive(Debug)]
struct Record {
    cycles: u32,
    last: Time,
}

/// Takings of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct EvictionHistory {
    /// By who took and who lost.
    known: FxHashMap<(JobIdentity, JobIdentity), Record>,
    /// The same in the order of time, some of them outdated.
    ends: VecDeque<(Time, (JobIdentity, JobIdentity))>,
    /// Who took often, by who lost.
    often: FxHashMap<JobIdentity, Vec<JobIdentity>>,
}

/// Whom a job may not take from.
#[derive(Debug, Default)]
pub(super) struct ProtectedJobs {
    parties: FxHashSet<JobIdentity>,
    /// When that may end.
    pub(super) until: Option<Time>,
}

impl ProtectedJobs {
    pub(super) fn is_empty(&self) -> bool {
        self.parties.is_empty()
    }

    pub(super) fn has(&self, cluster: &Cluster, job: JobId) -> bool {
        !self.is_empty() && self.parties.contains(&JobIdentity::of(cluster, job))
    }
}

impl EvictionHistory {
    /// A cycle begins: forgets what is long ago, and all of it where queues are others now.
    pub(crate) fn begin(&mut self, now: Time, queues_changed: bool) {
        if queues_changed {
            *self = Self::default();
        }
        while let Some((end, _)) = self.ends.front()
            && *end <= now
        {
            let Some((end, pair)) = self.ends.pop_front() else { return };
            if self.known.get(&pair).is_some_and(|record| end_of(record.last) == end) {
                self.forget(&pair);
            }
        }
    }

    fn forget(&mut self, pair: &(JobIdentity, JobIdentity)) {
        self.known.remove(pair);
        let (preemptor, victim) = pair;
        if let Some(preemptors) = self.often.get_mut(victim) {
            preemptors.retain(|known| known != preemptor);
            if preemptors.is_empty() {
                self.often.remove(victim);
            }
        }
    }

    /// One took from another.
    fn note(&mut self, preemptor: JobIdentity, victim: JobIdentity, now: Time) {
        let pair = (preemptor, victim);
        let record = self.known.entry(pair.clone()).or_insert(Record { cycles: 0, last: now });
        if record.cycles > 0 && record.last == now {
            return;
        }
        (record.cycles, record.last) = (record.cycles.saturating_add(1), now);
        if record.cycles == OFTEN {
            self.often.entry(pair.1.clone()).or_default().push(pair.0.clone());
        }
        self.ends.push_back((end_of(now), pair));
    }

    /// Whom one may not take from: it did often, and that one took as often from it, or from whom it lost to.
    pub(super) fn protected(&self, to: &JobIdentity) -> ProtectedJobs {
        let mut found = ProtectedJobs::default();
        let mut victims = vec![to];
        while let Some(victim) = victims.pop() {
            for preemptor in self.often.get(victim).into_iter().flatten() {
                if found.parties.insert(preemptor.clone()) {
                    victims.push(preemptor);
                }
                let last =
                    self.known.get(&(preemptor.clone(), victim.clone())).map(|record| end_of(record.last));
                found.until = found.until.into_iter().chain(last).min();
            }
        }
        found.parties.retain(|party| self.often.get(party).is_some_and(|preemptors| preemptors.contains(to)));
        if found.parties.is_empty() { ProtectedJobs::default() } else { found }
    }
}

/// A job has room that another held, or that was kept for it, in this cycle.
pub(crate) fn record_eviction(session: &mut Session<'_>, preemptor: JobId, victim: JobId) {
    let [preemptor, victim] = [preemptor, victim].map(|job| JobIdentity::of(session.cluster, job));
    session.past.history.note(preemptor, victim, session.now);
}

fn end_of(record: Time) -> Time {
    Time(record.0.saturating_add(MEMORY))
}
