//! The cache of failed searches, so that a search that found nothing is not made again at once.
//!
//! A key says what was searched for: the kind of search, and the job or all jobs that request the same. An answer
//! stands
//! - as long as nothing has happened since ([`Cluster::news`](phalanx_cluster::Cluster::news)), and not longer than its
//!   [kind](SearchKind::lasts) says, for time alone may change it too;
//! - and until its back-off ends, whatever has happened. Failed searches of one cycle that took no more than
//!   [`FREE_STEPS`] together do not back off. Each search beyond does, by the back-off of the backlog: a second,
//!   doubled up to ten each time the search fails again.
//!
//! A change of nodes, queues or the configuration makes all answers void. A success makes the answer of its own key
//! void.
//!
//! A search that was cut short for lack of time is repeated after [`PAUSE_PER_MS`] times the time that it took, and
//! then gets twice as long: such searches take a hundredth of the scheduler's time at the most.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use crate::backoff::{Backoff, BackoffTimes};
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::{NoEviction, Whose};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{ClassId, JobId, QueueId, TaskId};
use phalanx_cluster::search_budget::Cut;

/// Steps that failed searches of a cycle may take before further ones back off: a few milliseconds.
const FREE_STEPS: u64 = 2_000;

/// How many milliseconds a search that was cut short waits for each millisecond that it took.
const PAUSE_PER_MS: u64 = 100;

/// Answers that were not asked for so long are dropped, in milliseconds.
const KEPT_MS: i64 = 60_000;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SearchKind {
    /// Victims that make room for a preemptor.
    Victims {
        /// The action that evicts.
        action: &'static str,
        /// Whose pods.
        whose: Whose,
    },
    /// Any pod that may be evicted, whatever the preemptor requests.
    AnyVictim {
        /// The action that evicts.
        action: &'static str,
    },
    /// Idle nodes on which a gang with a reservation could start.
    Start,
}

impl SearchKind {
    /// How many milliseconds an answer stands at most as long as nothing happens; 0 for the cycle in which it was
    /// found.
    fn lasts(self) -> i64 {
        match self {
            // Protection from eviction ends with time.
            SearchKind::Victims { .. } | SearchKind::AnyVictim { .. } => 0,
            SearchKind::Start => 10_000,
        }
    }
}

/// What is searched for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SearchKey {
    /// The kind of search.
    pub(crate) kind: SearchKind,
    /// The job, with its UID, where the answer does not hold for other jobs.
    pub(crate) job: Option<(JobId, Arc<str>)>,
    /// What is requested, where the answer depends on it.
    pub(crate) request: Option<RequestClass>,
}

/// What jobs that get the same answer have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestClass {
    /// The queue.
    pub(crate) queue: QueueId,
    /// The priority of the job.
    pub(crate) priority: i32,
    /// `volcano.sh/preemptable` of the job.
    pub(crate) preemptable: Option<bool>,
    /// What the job has, allocated and nominated.
    pub(crate) holds: [Amounts; 2],
    /// The tasks, in order.
    pub(crate) tasks: Vec<TaskRequest>,
    /// How many of the tasks are needed.
    pub(crate) wanted: usize,
    /// One more task or sub-group of a whole job is searched for, not a gang.
    pub(crate) grows: bool,
    /// A task of it, where the answer depends on other pods of its sub-group.
    pub(crate) own: Option<TaskId>,
}

/// One task of a [`RequestClass`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskRequest {
    /// The class of tasks; `None` where it does not matter.
    pub(crate) class: Option<ClassId>,
    /// The priority of the task.
    pub(crate) priority: i32,
    /// `preemptionPolicy: Never`.
    pub(crate) never_preempts: bool,
}

/// The answer to a failed search that is not to be made again yet.
#[derive(Clone, Debug)]
pub(crate) struct KnownFailure {
    /// When the back-off ends, if the search is in back-off.
    pub(crate) until: Option<Time>,
    /// What the search said, if it was for victims.
    pub(crate) why: Option<NoEviction>,
}

#[derive(Debug)]
struct FailedSearch {
    why: Option<NoEviction>,
    /// When it failed.
    at: Time,
    /// What had happened by then; the largest number where the answer stands for its back-off only.
    news: u64,
    backoff: Backoff,
    /// When the answer was asked for last.
    asked: Time,
    /// The milliseconds of the next turn of a search that was cut short.
    next_turn: Option<u64>,
}

impl FailedSearch {
    /// Whether nothing has happened since, and the answer lasts.
    fn is_fresh(&self, kind: SearchKind, news: u64, now: Time) -> bool {
        self.news == news && now.0.saturating_sub(self.at.0) <= kind.lasts()
    }
}

/// The answers of failed searches, by what was searched for.
#[derive(Debug, Default)]
pub(crate) struct FailedSearches {
    known: FxHashMap<SearchKey, FailedSearch>,
    now: Time,
    /// The nodes of the Cluster, as they were in the last cycle.
    nodes: u64,
    /// Steps of searches that failed in this cycle.
    steps: u64,
    /// How long back-offs last.
    times: BackoffTimes,
}

impl SearchKey {
    /// A start of this job.
    pub(crate) fn start(cluster: &Cluster, job: JobId) -> Self {
        let uid = cluster.jobs[job].object.uid.clone();
        Self { kind: SearchKind::Start, job: Some((job, uid)), request: None }
    }
}

impl FailedSearches {
    /// A cycle begins.
    pub(crate) fn begin(&mut self, now: Time, nodes: u64, queues_changed: bool, times: BackoffTimes) {
        (self.now, self.steps, self.times) = (now, 0, times);
        let nodes_changed = std::mem::replace(&mut self.nodes, nodes) != nodes;
        let is_void = queues_changed || nodes_changed;
        let kept_since = Time(now.0.saturating_sub(KEPT_MS));
        self.known.retain(|_, known| match known.next_turn {
            Some(_) => known.backoff.end(kept_since).is_some(),
            None => !is_void && known.asked > kept_since,
        });
    }

    /// The answer to a search, if that stands; `None` when the search is to be made.
    pub(crate) fn answer(&mut self, key: &SearchKey, news: u64) -> Option<KnownFailure> {
        let known = self.known.get_mut(key)?;
        known.asked = self.now;
        let until = known.backoff.end(self.now);
        let stands = until.is_some() || known.is_fresh(key.kind, news, self.now);
        stands.then(|| KnownFailure { until, why: known.why.clone() })
    }

    /// Whether nothing has happened since a search failed.
    pub(crate) fn is_unchanged(&self, key: &SearchKey, news: u64) -> bool {
        self.known.get(key).is_some_and(|known| known.is_fresh(key.kind, news, self.now))
    }

    /// A search that took so many steps failed.
    pub(crate) fn note(&mut self, key: SearchKey, why: Option<NoEviction>, steps: u64, news: u64) {
        self.steps += steps;
        let now = self.now;
        let mut backoff = self.known.get(&key).map(|known| known.backoff).unwrap_or_default();
        let backs_off = steps > 0 && self.steps > FREE_STEPS;
        if backs_off {
            backoff.extend(now, self.times);
        } else {
            backoff = Backoff::default();
        }
        self.known.insert(key, FailedSearch { why, at: now, news, backoff, asked: now, next_turn: None });
    }

    /// A search was cut short after so many milliseconds. Returns when its next turn is.
    pub(crate) fn note_cut(&mut self, key: SearchKey, why: Option<NoEviction>, ms: u64) -> Time {
        let now = self.now;
        let until = Time(now.0.saturating_add_unsigned(ms.saturating_mul(PAUSE_PER_MS)));
        let (backoff, next_turn) = (Backoff::pause(until), Some(ms.saturating_mul(2)));
        self.known.insert(key, FailedSearch { why, at: now, news: u64::MAX, backoff, asked: now, next_turn });
        until
    }

    /// How a search was cut short whose next turn is to come.
    pub(crate) fn cut_before(&self, key: &SearchKey) -> Option<Cut> {
        let known = self.known.get(key).filter(|known| known.backoff.end(self.now).is_some())?;
        known.next_turn.map(|ms| Cut::Time(ms / 2))
    }

    /// The milliseconds of the next turn of a search that was cut short.
    pub(crate) fn next_turn(&self, key: &SearchKey) -> Option<u64> {
        self.known.get(key)?.next_turn
    }

    /// A search succeeded.
    pub(crate) fn forget(&mut self, key: &SearchKey) {
        self.known.remove(key);
    }
}
