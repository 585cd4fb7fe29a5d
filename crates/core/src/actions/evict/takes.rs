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
use phalanx_cluster::{JobKind, World};

/// Cycles in which one took from another, until that one may take nothing back.
const OFTEN: u32 = 3;

/// How long a taking is remembered, in milliseconds.
const MEMORY: i64 = 600_000;

/// Who takes or loses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Party {
    Group(Key),
    Solos(QueueId, i32, Amounts),
}

impl Party {
    pub(super) fn of(world: &World, id: JobId) -> Self {
        let job = &world.jobs[id];
        match (job.kind, job.tasks.first()) {
            (JobKind::Solo, Some(task)) => {
                Self::Solos(job.queue, job.priority, world.request_of(*task).clone())
            }
            _ => Self::Group(job.key.clone()),
        }
    }
}

/// How often one took from another.
#[derive(Debug)]
struct Taking {
    cycles: u32,
    last: Time,
}

/// Takings of the last minutes.
#[derive(Debug, Default)]
pub(crate) struct Takes {
    /// By who took and who lost.
    known: FxHashMap<(Party, Party), Taking>,
    /// The same in the order of time, some of them outdated.
    ends: VecDeque<(Time, (Party, Party))>,
    /// Who took often, by who lost.
    often: FxHashMap<Party, Vec<Party>>,
}

/// Whom a job may not take from.
#[derive(Debug, Default)]
pub(super) struct Forbidden {
    parties: FxHashSet<Party>,
    /// When that may end.
    pub(super) until: Option<Time>,
}

impl Forbidden {
    pub(super) fn is_empty(&self) -> bool {
        self.parties.is_empty()
    }

    pub(super) fn has(&self, world: &World, job: JobId) -> bool {
        !self.is_empty() && self.parties.contains(&Party::of(world, job))
    }
}

impl Takes {
    /// A cycle begins: forgets what is long ago, and all of it where queues are others now.
    pub(crate) fn begin(&mut self, now: Time, queues_changed: bool) {
        if queues_changed {
            *self = Self::default();
        }
        while let Some((end, _)) = self.ends.front()
            && *end <= now
        {
            let Some((end, pair)) = self.ends.pop_front() else { return };
            if self.known.get(&pair).is_some_and(|taking| end_of(taking.last) == end) {
                self.forget(&pair);
            }
        }
    }

    fn forget(&mut self, pair: &(Party, Party)) {
        self.known.remove(pair);
        let (taker, loser) = pair;
        if let Some(takers) = self.often.get_mut(loser) {
            takers.retain(|known| known != taker);
            if takers.is_empty() {
                self.often.remove(loser);
            }
        }
    }

    /// One took from another.
    fn note(&mut self, taker: Party, loser: Party, now: Time) {
        let pair = (taker, loser);
        let taking = self.known.entry(pair.clone()).or_insert(Taking { cycles: 0, last: now });
        if taking.cycles > 0 && taking.last == now {
            return;
        }
        (taking.cycles, taking.last) = (taking.cycles.saturating_add(1), now);
        if taking.cycles == OFTEN {
            self.often.entry(pair.1.clone()).or_default().push(pair.0.clone());
        }
        self.ends.push_back((end_of(now), pair));
    }

    /// Whom one may not take from: it did often, and that one took as often from it, or from whom it lost to.
    pub(super) fn forbidden(&self, to: &Party) -> Forbidden {
        let mut found = Forbidden::default();
        let mut losers = vec![to];
        while let Some(loser) = losers.pop() {
            for taker in self.often.get(loser).into_iter().flatten() {
                if found.parties.insert(taker.clone()) {
                    losers.push(taker);
                }
                let last = self.known.get(&(taker.clone(), loser.clone())).map(|taking| end_of(taking.last));
                found.until = found.until.into_iter().chain(last).min();
            }
        }
        found.parties.retain(|party| self.often.get(party).is_some_and(|takers| takers.contains(to)));
        if found.parties.is_empty() { Forbidden::default() } else { found }
    }
}

/// A job has room that another held, or that was kept for it, in this cycle.
pub(crate) fn note_taking(session: &mut Session<'_>, taker: JobId, loser: JobId) {
    let [taker, loser] = [taker, loser].map(|job| Party::of(session.world, job));
    session.past.takes.note(taker, loser, session.now);
}

fn end_of(taking: Time) -> Time {
    Time(taking.0.saturating_add(MEMORY))
}
