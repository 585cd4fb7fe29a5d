//! Detects a scheduling thread that hangs: then nothing is scheduled, though servers answer and the lease is renewed.
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A piece of work that takes so long means that the thread hangs: longer than any cycle takes, with the time of
/// extenders.
pub const HANGS_AFTER: Duration = Duration::from_mins(2);

/// The work of the scheduling thread.
#[derive(Clone, Copy, Debug, Default)]
struct Beat {
    /// Since when it has been at one piece of work; none while it waits for something to do.
    since: Option<Instant>,
    cycle: u64,
}

/// Written by the scheduling thread, and read by health checks, the lease and extenders.
#[derive(Debug)]
pub struct Pulse {
    limit: Duration,
    beat: Mutex<Beat>,
}

impl Default for Pulse {
    fn default() -> Self {
        Self::new(HANGS_AFTER)
    }
}

impl Pulse {
    /// Of a thread that hangs when one piece of work takes so long.
    pub fn new(limit: Duration) -> Self {
        Self { limit, beat: Mutex::default() }
    }

    /// A piece of work begins.
    pub fn work(&self) {
        self.beat().since = Some(Instant::now());
    }

    /// A cycle begins.
    pub fn cycle(&self) {
        let mut beat = self.beat();
        *beat = Beat { since: Some(Instant::now()), cycle: beat.cycle + 1 };
    }

    /// There is nothing to do.
    pub fn rest(&self) {
        self.beat().since = None;
    }

    /// The number of the cycle.
    pub fn cycles(&self) -> u64 {
        self.beat().cycle
    }

    /// The message for a thread that hangs; `None` while the thread works.
    pub fn hangs(&self) -> Option<String> {
        let since = self.beat().since?;
        (since.elapsed() >= self.limit)
            .then(|| format!("the scheduling thread has been at one piece of work for {:?}", self.limit))
    }

    /// The beat is consistent also after a panic.
    fn beat(&self) -> MutexGuard<'_, Beat> {
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
