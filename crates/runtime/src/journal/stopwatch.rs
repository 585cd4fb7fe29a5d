//! The stopwatch of searches, and its readings, which are inputs of a cycle.
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use phalanx_cluster::search_budget::Stopwatch;

/// How many milliseconds the stopwatch showed, and how often in a row.
pub type Reading = (u64, u64);

/// Measures how long searches take, in whole milliseconds: so the thousands of readings of a long search are written in
/// a few numbers.
#[derive(Debug)]
pub struct Clock {
    start: Instant,
    /// Readings since they were taken last, where they are wanted.
    readings: Option<Mutex<Vec<Reading>>>,
}

impl Clock {
    /// A clock that keeps its readings if they are wanted.
    pub fn new(keeps: bool) -> Self {
        Self { start: Instant::now(), readings: keeps.then(Mutex::default) }
    }

    /// Takes out the readings so far.
    pub fn take(&self) -> Vec<Reading> {
        let Some(readings) = &self.readings else { return Vec::new() };
        std::mem::take(&mut *readings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Stopwatch for Clock {
    fn elapsed(&self) -> Duration {
        let Some(readings) = &self.readings else { return self.start.elapsed() };
        let ms = self.start.elapsed().as_millis() as u64;
        let mut readings = readings.lock().unwrap_or_else(PoisonError::into_inner);
        match readings.last_mut().filter(|(shown, _)| *shown == ms) {
            Some((_, times)) => *times += 1,
            None => readings.push((ms, 1)),
        }
        Duration::from_millis(ms)
    }
}

/// Shows recorded readings again.
#[derive(Debug, Default)]
pub struct ReplayClock(Mutex<VecDeque<Reading>>);

impl ReplayClock {
    /// Sets the readings of the next cycle.
    pub fn set(&self, readings: Vec<Reading>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = readings.into();
    }
}

impl Stopwatch for ReplayClock {
    /// A cycle that reads more often than the recorded one gets the last reading again: its decisions will differ.
    fn elapsed(&self) -> Duration {
        let mut readings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((ms, times)) = readings.front_mut() else { return Duration::ZERO };
        let shown = Duration::from_millis(*ms);
        *times = times.saturating_sub(1);
        if *times == 0 && readings.len() > 1 {
            readings.pop_front();
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_stopwatch_shows_what_the_recorded_one_showed() {
        let clock = Clock::new(true);
        let until = Instant::now() + Duration::from_millis(5);
        let mut shown = Vec::new();
        while Instant::now() < until {
            shown.push(clock.elapsed());
        }
        let readings = clock.take();
        assert!(readings.len() <= 8, "a few numbers for {} readings: {readings:?}", shown.len());
        let replay = ReplayClock::default();
        replay.set(readings);
        assert!(shown.iter().all(|shown| *shown == replay.elapsed()));
        assert_eq!((clock.take(), Clock::new(false).take()), (vec![], vec![]));
    }
}
