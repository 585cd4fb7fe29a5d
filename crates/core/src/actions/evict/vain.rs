//! Long searches for victims that came to nothing: they are not made again in the next cycle.
//!
//! A *no* that took a look at a hundred thousand pods would be found again in each cycle that begins for something else. It
//! stands for a time that follows from what it took, so that such searches take a small part of the scheduler's time; a short
//! one does not stand at all. A change of queues, nodes or the configuration, or an eviction, ends that at once.
use rustc_hash::FxHashMap;

use super::Like;
use crate::diagnosis::NoEviction;
use crate::event::Time;

/// A search of fewer steps is made again each time: a few milliseconds.
const SHORT: u64 = 2_000;

/// For so many steps its answer stands for a millisecond: a step takes two microseconds, and ten where plugins are asked about all.
const STEPS_PER_MS: u64 = 4;

/// But not longer than this, in milliseconds.
const LONGEST: u64 = 10_000;

/// Answers that stand for a while.
#[derive(Debug, Default)]
pub(crate) struct Vain {
    known: FxHashMap<Like, (Time, NoEviction)>,
    /// The World's nodes as they were.
    nodes: u64,
}

impl Vain {
    /// A cycle begins: forgets what does not stand any more.
    pub(crate) fn begin(&mut self, now: Time, nodes: u64, queues_changed: bool) {
        let nodes_changed = std::mem::replace(&mut self.nodes, nodes) != nodes;
        if queues_changed || nodes_changed {
            self.forget();
        }
        self.known.retain(|_, (until, _)| *until > now);
    }

    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// The answer to a job like this, and until when it stands.
    pub(super) fn get(&self, like: &Like) -> Option<&(Time, NoEviction)> {
        self.known.get(like)
    }

    /// A search of so many steps ended with this answer.
    pub(super) fn note(&mut self, like: &Like, steps: u64, now: Time, why: &NoEviction) {
        if steps >= SHORT {
            let ms = (steps / STEPS_PER_MS).min(LONGEST) as i64;
            self.known.insert(like.clone(), (Time(now.0.saturating_add(ms)), why.clone()));
        }
    }
}
