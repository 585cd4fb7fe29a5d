//! Times at which the backlog acts though nothing happens.
use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, JobId};

/// What a time is set for, each once for a job, class or queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TimerKind {
    /// The back-off of a job ends.
    JobBackoff,
    /// The back-off of a class that is otherwise tried in each cycle ends.
    ClassBackoff,
    /// The refusal of a job may end by itself.
    Retry,
    /// An unschedulable job is tried whatever happened.
    Flush,
    /// A class that the scan of a queue skipped is tried.
    Scan,
}

/// All timers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    times: FxHashMap<(TimerKind, usize), Time>,
    /// The entries of `times` in the order in which they are due.
    due: BTreeSet<(TimerKind, Time, usize)>,
}

impl Timers {
    /// Sets a timer, in place of the earlier one of its kind.
    pub(crate) fn set(&mut self, kind: TimerKind, id: impl Id, at: Time) {
        self.clear(kind, id);
        self.times.insert((kind, id.index()), at);
        self.due.insert((kind, at, id.index()));
    }

    /// Sets a timer, unless an earlier time is set.
    pub(crate) fn set_earlier(&mut self, kind: TimerKind, id: impl Id, at: Time) {
        if self.get(kind, id).is_none_or(|known| at < known) {
            self.set(kind, id, at);
        }
    }

    pub(crate) fn get(&self, kind: TimerKind, id: impl Id) -> Option<Time> {
        self.times.get(&(kind, id.index())).copied()
    }

    pub(crate) fn clear(&mut self, kind: TimerKind, id: impl Id) {
        if let Some(at) = self.times.remove(&(kind, id.index())) {
            self.due.remove(&(kind, at, id.index()));
        }
    }

    /// Clears all timers of a kind.
    pub(super) fn clear_all(&mut self, kind: TimerKind) {
        while self.take_due::<JobId>(kind, Time::NEVER).is_some() {}
    }

    /// The timers of a kind, by time.
    pub(crate) fn of<I: Id>(&self, kind: TimerKind) -> impl Iterator<Item = (Time, I)> {
        let of_kind = (kind, Time(i64::MIN), 0)..=(kind, Time::NEVER, usize::MAX);
        self.due.range(of_kind).map(|(_, at, id)| (*at, I::from_index(*id)))
    }

    /// The first time of a kind.
    pub(crate) fn next(&self, kind: TimerKind) -> Option<Time> {
        self.of::<JobId>(kind).next().map(|(at, _)| at)
    }

    /// Takes the first timer of a kind that is due.
    pub(crate) fn take_due<I: Id>(&mut self, kind: TimerKind, now: Time) -> Option<I> {
        let (_, id) = self.of(kind).next().filter(|(at, _)| *at <= now)?;
        self.clear(kind, id);
        Some(id)
    }

    /// Compares the order with the times.
    pub(super) fn check(&self, note: &mut impl FnMut(bool, String)) {
        let rebuilt = self.times.iter().map(|((kind, id), at)| (*kind, *at, *id)).collect();
        note(self.due == rebuilt, "timers of the backlog in order".to_owned());
    }
}
