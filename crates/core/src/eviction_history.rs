//! The eviction history: which job evicted which lately, so that jobs do not evict each other for ever.
//!
//! Rules say which job may evict which, and each of them ends by itself; all of them together, with gangs, several
//! resources and trees of queues, need not. What ends evictions whatever the rules: a job that evicted another in three
//! cycles within ten minutes, and was evicted as often by it or, through others, by a job that it evicted, evicts that
//! job no more for that long. So the evictions that go on make an order of jobs in which only those above evict those
//! below: the first of them loses nothing, so it has all it will have after a while and evicts no more, then the
//! second, and so on. A job that was only evicted is free to evict.
//!
//! Taking over a reservation counts as an eviction. A gang that evicted a job in three cycles within ten minutes and
//! has not started evicts that job no more for that long either: what other pods did to its places would go on (pod
//! affinity, spread).
//!
//! Pods without a PodGroup are made again under other names; those of a queue with equal priority and requests count as
//! one job.
use phalanx_resource::Amounts;
use rustc_hash::{FxHashMap, FxHashSet};

use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, JobKind};

/// Cycles in which a job evicted another, until that counts.
const OFTEN: u32 = 3;

/// How long a record is remembered, in milliseconds.
const MEMORY_MS: i64 = 600_000;

/// What stands for a job that evicts or is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum JobIdentity {
    Group(Key),
    Solos(QueueId, i32, Amounts),
}

impl JobIdentity {
    fn of(cluster: &Cluster, id: JobId) -> Self {
        let job = &cluster.jobs[id];
        match (job.kind, job.tasks.first()) {
            (JobKind::Solo, Some(task)) => {
                Self::Solos(job.queue, job.priority, cluster.request_of(*task).clone())
            }
            _ => Self::Group(job.key.clone()),
        }
    }
}

/// How often a job evicted another.
#[derive(Debug)]
struct Record {
    cycles: u32,
    last: Time,
}

/// A preemptor, and the job that lost tasks or its reservation to it.
type Pair = (JobIdentity, JobIdentity);

/// Evictions of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct EvictionHistory {
    known: FxHashMap<Pair, Record>,
    /// Preemptors that evicted often, by victim.
    often: FxHashMap<JobIdentity, Vec<JobIdentity>>,
}

/// The jobs that a job may not evict.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtectedJobs {
    jobs: FxHashSet<JobIdentity>,
    /// When that may end.
    pub(crate) until: Option<Time>,
}

impl ProtectedJobs {
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn has(&self, cluster: &Cluster, job: JobId) -> bool {
        !self.is_empty() && self.jobs.contains(&JobIdentity::of(cluster, job))
    }
}

impl EvictionHistory {
    /// A cycle begins: forgets what is long ago, and all of it where queues changed.
    pub(crate) fn begin(&mut self, now: Time, queues_changed: bool) {
        let before = self.known.len();
        self.known.retain(|_, record| !queues_changed && end_of(record.last) > now);
        if self.known.len() == before {
            return;
        }
        self.often.clear();
        for ((preemptor, victim), _) in self.known.iter().filter(|(_, record)| record.cycles >= OFTEN) {
            self.often.entry(victim.clone()).or_default().push(preemptor.clone());
        }
    }

    /// A job has the room of a task of another job, or of its reservation.
    pub(crate) fn note(&mut self, cluster: &Cluster, preemptor: JobId, victim: JobId, now: Time) {
        let pair = (JobIdentity::of(cluster, preemptor), JobIdentity::of(cluster, victim));
        let record = self.known.entry(pair.clone()).or_insert(Record { cycles: 0, last: now });
        if record.cycles > 0 && record.last == now {
            return;
        }
        (record.cycles, record.last) = (record.cycles.saturating_add(1), now);
        if record.cycles == OFTEN {
            self.often.entry(pair.1).or_default().push(pair.0);
        }
    }

    /// The jobs that a gang may not evict so that it starts: besides those that no pod of it may evict, those that it
    /// evicted often without a start.
    pub(crate) fn protected_from_gang(&self, cluster: &Cluster, job: JobId) -> ProtectedJobs {
        let mut found = self.protected_from(cluster, job);
        let to = JobIdentity::of(cluster, job);
        if matches!(to, JobIdentity::Group(_)) {
            let is_often =
                |(preemptor, _): &Pair, record: &Record| *preemptor == to && record.cycles >= OFTEN;
            let often = self.known.iter().filter(|(pair, record)| is_often(pair, record));
            for ((_, victim), record) in often {
                found.jobs.insert(victim.clone());
                found.until = found.until.into_iter().chain([end_of(record.last)]).min();
            }
        }
        found
    }

    /// The jobs that a job may not evict: it did often, and was evicted as often by them, or by jobs that they evicted.
    pub(crate) fn protected_from(&self, cluster: &Cluster, job: JobId) -> ProtectedJobs {
        let to = &JobIdentity::of(cluster, job);
        let mut found = ProtectedJobs::default();
        let mut victims = vec![to];
        while let Some(victim) = victims.pop() {
            for preemptor in self.often.get(victim).into_iter().flatten() {
                if found.jobs.insert(preemptor.clone()) {
                    victims.push(preemptor);
                }
                let last =
                    self.known.get(&(preemptor.clone(), victim.clone())).map(|record| end_of(record.last));
                found.until = found.until.into_iter().chain(last).min();
            }
        }
        found.jobs.retain(|job| self.often.get(job).is_some_and(|preemptors| preemptors.contains(to)));
        if found.jobs.is_empty() { ProtectedJobs::default() } else { found }
    }
}

fn end_of(record: Time) -> Time {
    Time(record.0.saturating_add(MEMORY_MS))
}
