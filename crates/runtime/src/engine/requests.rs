//! Who waits for a snapshot, and when one is made.
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_core::report::Snapshot;
use tokio::sync::oneshot;

/// A snapshot, and how long the scheduling thread took to make it.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The time.
    pub took: Duration,
}

/// How long who asks for a snapshot waits for a time at which no cycle is due.
const IDLE: Duration = Duration::from_secs(1);

/// Who waits for a snapshot. It is made while no cycle is due, if there is such a time soon.
#[derive(Debug, Default)]
pub struct SnapshotRequests {
    waiting: Vec<oneshot::Sender<Option<Taken>>>,
    /// Since when the first one waits.
    since: Option<Instant>,
    /// How long the last snapshot took.
    took: Duration,
}

impl SnapshotRequests {
    /// Somebody asks.
    pub(super) fn add(&mut self, tell: oneshot::Sender<Option<Taken>>, now: Instant) {
        self.waiting.push(tell);
        self.since.get_or_insert(now);
    }

    /// Whether to answer now, where the next cycle is due then.
    pub(super) fn are_due(&self, cycle: Option<Instant>, now: Instant) -> bool {
        let idle = cycle.is_none_or(|due| due.saturating_duration_since(now) >= self.took);
        self.since.is_some_and(|since| idle || now.saturating_duration_since(since) >= IDLE)
    }

    /// Tells all who asked.
    pub(super) fn answer(&mut self, taken: Option<&Taken>) {
        self.since = None;
        self.took = taken.map_or(self.took, |taken| taken.took);
        for tell in self.waiting.drain(..) {
            // Who asked may have gone.
            let _ = tell.send(taken.cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_waits_for_a_time_without_cycles_but_not_for_ever() {
        let (start, took) = (Instant::now(), Duration::from_millis(40));
        let mut asked = SnapshotRequests { took, ..SnapshotRequests::default() };
        assert!(!asked.are_due(None, start), "nobody asks");
        asked.add(oneshot::channel().0, start);
        assert!(asked.are_due(None, start), "no cycle is due");
        assert!(asked.are_due(Some(start + took), start), "it is done before the next cycle");
        assert!(!asked.are_due(Some(start + took / 2), start));
        assert!(asked.are_due(Some(start + IDLE), start + IDLE), "cycles follow each other");
        asked.answer(None);
        assert!(!asked.are_due(None, start), "nobody asks any more");
    }
}
