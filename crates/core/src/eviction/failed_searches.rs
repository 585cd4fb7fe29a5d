//! Searches for victims that came to nothing: where they take long, they are not all made again in the next cycle.
//!
//! A *no* that took a look at a hundred thousand pods would be found again in each cycle that begins for something else. So the
//! answer to a long search stands for a time that follows from what it took, longer each time it is given again. And where
//! short ones are many, as with hundreds of queues, they take turns: in each cycle those are made again whose answers are the
//! oldest, as many as take a small part of the scheduler's time. What few short ones take is not worth that: all are made
//! again each time. A change of queues, nodes or the configuration ends it all at once; an eviction the rests, not the turns.
use rustc_hash::FxHashMap;

use super::Like;
use phalanx_cluster::diagnosis::{NoEviction, Protected};
use phalanx_cluster::event::Time;
use std::sync::Arc;

/// A search of fewer steps does not rest, and if all together take no more they take no turns: a few milliseconds.
const SHORT: u64 = 2_000;

/// For so many steps an answer stands for a millisecond: a step takes two microseconds, and ten where plugins are asked about all.
const STEPS_PER_MS: u64 = 4;

/// But not longer than this, in milliseconds. In so much time all have their turns, if they do not take too much.
const LONGEST: u64 = 10_000;

/// How many steps those that take turns may make in a millisecond that passed since the last cycle: a tenth of the time.
const TURNS_PER_MS: u64 = 50;

/// Milliseconds until those that were passed over are asked again, if nothing happens before.
const BETWEEN_TURNS: i64 = 1_000;

/// Answers to jobs that did not ask for so many milliseconds are forgotten.
const FORGOTTEN: i64 = 60_000;

/// And the oldest of more than this.
const MOST: usize = 4_096;

/// Where there are turns, what keeps pods from being evicted is counted anew after so many milliseconds, or up to twice as many.
const TOLD: i64 = 60_000;

/// A pod that is counted for that takes a fraction of a step.
const COUNTED: u64 = 4;

/// The answer to a search.
#[derive(Debug)]
struct Known {
    why: NoEviction,
    /// What it took.
    steps: u64,
    /// Counts searches: the lower it is, the older is the answer.
    turn: u64,
    /// It stands until then.
    until: Time,
    /// How often in a row.
    times: u32,
    asked: Time,
    /// When it was counted what keeps pods from being evicted.
    told: Time,
}

/// Answers that are known.
#[derive(Debug, Default)]
pub(crate) struct FailedSearches {
    known: FxHashMap<Like, Known>,
    /// The Cluster's nodes as they were.
    nodes: u64,
    now: Time,
    turn: u64,
    /// Whose answers are not older than this are not asked in this cycle; missing when all are.
    due: Option<u64>,
    /// When those that were passed over are to be asked again.
    wake: Option<Time>,
}

impl FailedSearches {
    /// A cycle begins: forgets what does not stand any more.
    pub(crate) fn begin(&mut self, now: Time, nodes: u64, queues_changed: bool) {
        self.wake = None;
        let passed = now.0.saturating_sub(std::mem::replace(&mut self.now, now).0);
        let nodes_changed = std::mem::replace(&mut self.nodes, nodes) != nodes;
        if queues_changed || nodes_changed {
            self.known.clear();
        }
        self.known.retain(|_, known| now.0.saturating_sub(known.asked.0) < FORGOTTEN);
        let mut turns: Vec<(u64, u64)> =
            self.known.values().filter(|it| it.until <= now).map(|it| (it.turn, it.steps)).collect();
        turns.sort_unstable();
        let all: u64 = turns.iter().map(|(_, steps)| steps).sum();
        let passed = u64::try_from(passed).unwrap_or_default().min(LONGEST);
        let mut left = SHORT.max((all / LONGEST).min(TURNS_PER_MS).saturating_mul(passed));
        self.due = turns.iter().find_map(|(turn, steps)| {
            let goes = left > 0;
            left = left.saturating_sub(*steps);
            (!goes).then_some(*turn)
        });
        let many = self.known.len().saturating_sub(MOST);
        if many > 0 {
            let mut turns: Vec<u64> = self.known.values().map(|known| known.turn).collect();
            let (_, first, _) = turns.select_nth_unstable(many);
            let first = *first;
            self.known.retain(|_, known| known.turn >= first);
        }
    }

    /// Somebody was evicted for a job like this: others may be evicted now for the next one, and for others.
    pub(super) fn evicted(&mut self, like: &Like) {
        self.known.remove(like);
        if self.due.is_none() {
            self.known.clear();
        }
        let now = self.now;
        self.known.values_mut().for_each(|known| (known.until, known.times) = (now, 0));
    }

    /// The answer to a job like this, and when it stands no more, if that is known; nothing when it is to be searched for.
    pub(super) fn answer(&mut self, like: &Like) -> Option<(Option<Time>, NoEviction)> {
        let known = self.known.get_mut(like)?;
        known.asked = self.now;
        let rests = known.until > self.now;
        if !rests {
            if self.due.is_none_or(|due| known.turn < due) {
                return None;
            }
            // It is asked in each cycle, or in turn.
            self.wake = Some(Time(self.now.0.saturating_add(BETWEEN_TURNS)));
        }
        Some((rests.then_some(known.until), known.why.clone()))
    }

    /// When a cycle is due for those that were passed over.
    pub(crate) fn wake(&self) -> Option<Time> {
        self.wake
    }

    /// What was counted for a job like this of the pods that run, as long as that is good enough.
    pub(super) fn told(&self, like: &Like) -> Option<Arc<Protected>> {
        let known = self.known.get(like).filter(|_| self.due.is_some())?;
        let told = sheltered(&known.why)?;
        let stands = TOLD + known.turn as i64 % TOLD;
        (self.now.0.saturating_sub(known.told.0) < stands).then(|| Arc::clone(told))
    }

    /// A search of so many steps ended with this answer.
    pub(super) fn note(&mut self, like: &Like, steps: u64, why: &NoEviction) {
        self.turn += 1;
        let (now, before) = (self.now, self.known.get(like));
        let same = |before: &&Known| {
            sheltered(&before.why).zip(sheltered(why)).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
        };
        let told = before.filter(same).map_or(now, |before| before.told);
        let times = before.map_or(0, |before| before.times + 1);
        let rests = if steps >= SHORT { (steps << times.min(8)) / STEPS_PER_MS } else { 0 };
        let counted: u32 = sheltered(why).map_or(0, |it| it.pods.values().sum());
        let known = Known {
            why: why.clone(),
            steps: steps + u64::from(counted) / COUNTED,
            turn: self.turn,
            until: Time(now.0.saturating_add(rests.min(LONGEST) as i64)),
            times,
            asked: now,
            told,
        };
        self.known.insert(like.clone(), known);
    }
}

fn sheltered(why: &NoEviction) -> Option<&Arc<Protected>> {
    match why {
        NoEviction::NoVictims(told) | NoEviction::NotEnough(told) | NoEviction::NotFound(_, told) => {
            Some(told)
        }
        _ => None,
    }
}
