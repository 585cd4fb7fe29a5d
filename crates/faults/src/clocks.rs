//! Virtual time, as the clocks of processes show it.
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use phalanx_runtime::clock::Clock;
use phalanx_runtime::fence::BootTime;
use phalanx_runtime::outbox::request::Moment;

use crate::gangs::wall_ahead;
use crate::story::Micros;

/// The time of a run.
#[derive(Clone, Debug)]
pub struct Clocks {
    began: Instant,
    now: Arc<AtomicU64>,
    /// By how many seconds the wall clock of a process is ahead.
    ahead: Arc<AtomicI64>,
}

impl Clocks {
    /// At the begin of a run.
    pub fn new() -> Self {
        Self { began: Instant::now(), now: Arc::default(), ahead: Arc::default() }
    }

    /// The same time with a wall clock of its own.
    pub fn of_process(&self) -> Self {
        Self { ahead: Arc::default(), ..self.clone() }
    }

    /// The time.
    pub fn now(&self) -> Micros {
        self.now.load(Ordering::Relaxed)
    }

    /// Time passes.
    pub fn set(&self, now: Micros) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Somebody sets the wall clock.
    pub fn set_wall(&self, by_seconds: i64) {
        self.ahead.fetch_add(by_seconds, Ordering::Relaxed);
    }

    /// The monotonic clock.
    pub fn instant(&self) -> Instant {
        self.began + Duration::from_micros(self.now())
    }

    /// A time of the monotonic clock as time of the run.
    pub fn micros(&self, at: Instant) -> Micros {
        at.saturating_duration_since(self.began).as_micros() as Micros
    }

    /// The clock that goes on while the machine sleeps.
    pub fn boot(&self) -> BootTime {
        BootTime::at(Duration::from_micros(self.now()))
    }

    /// For the code of the scheduler.
    pub fn clock(&self) -> Clock {
        let clocks = self.clone();
        Clock::new(move || {
            let ahead = clocks.ahead.load(Ordering::Relaxed);
            Moment { instant: clocks.instant(), wall: wall_ahead(clocks.now(), ahead) }
        })
    }
}

impl Default for Clocks {
    fn default() -> Self {
        Self::new()
    }
}
