//! The time that cycles decide at.
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use phalanx_cluster::event::{NodeUsage, Time};
use phalanx_core::decision::Decision;

use crate::outbox::request::Moment;

/// Where the time is read: the clocks of the machine, or clocks that a test or a simulation sets.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// The clock that this function reads.
    pub fn new(read: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The time.
    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(Moment::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Follows the wall clock forward and never goes back, so that no back-off and no reservation lasts longer because
/// somebody sets the clock. While the wall clock is behind, time goes on at half its speed until the wall clock has
/// caught up.
pub struct CycleClock {
    read: Clock,
    /// The last reading; `wall` is the time that was returned.
    last: Moment,
    /// By how much the returned time was ahead of the wall clock.
    ahead_ms: i64,
}

impl fmt::Debug for CycleClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CycleClock").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Default for CycleClock {
    fn default() -> Self {
        Self::new(Clock::default())
    }
}

impl CycleClock {
    /// On these clocks.
    pub fn new(read: Clock) -> Self {
        let last = read.now();
        Self { read, last, ahead_ms: 0 }
    }

    /// The moment on the monotonic clock.
    pub fn instant(&self) -> Instant {
        self.read.now().instant
    }

    /// The time of a cycle that begins now.
    pub fn now(&mut self) -> Time {
        let Moment { instant, wall } = self.read.now();
        let passed = instant.saturating_duration_since(self.last.instant);
        let after = |passed| self.last.wall.checked_add(passed).unwrap_or(wall);
        let given = if wall < after(passed) { after(passed / 2).max(wall) } else { wall };
        self.last = Moment { instant, wall: given };
        self.ahead_ms = milliseconds(given) - milliseconds(wall);
        Time(milliseconds(given))
    }

    /// A figure of a node carries wall time; plugins compare it with the time of the cycle.
    pub fn take_in(&mut self, usage: &mut NodeUsage) {
        self.now();
        for time in [Some(&mut usage.since), usage.at.as_mut()].into_iter().flatten() {
            time.0 = time.0.saturating_add(self.ahead_ms);
        }
    }

    /// Times that are written to objects are wall time: this one is that of a cycle's conditions.
    pub fn hand_out(&self, now: Time, decisions: &mut [Decision]) {
        for decision in decisions.iter_mut().filter(|_| self.ahead_ms != 0) {
            let Decision::PodGroupStatus { status, .. } = decision else { continue };
            let made = status.conditions.iter_mut().filter(|condition| condition.since == now);
            made.for_each(|condition| condition.since = Time(now.0.saturating_sub(self.ahead_ms)));
        }
    }
}

fn milliseconds(time: Timestamp) -> i64 {
    time.as_millisecond()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use phalanx_cluster::event::Measure;

    use super::*;

    const HOUR_MS: i64 = 3_600_000;

    /// Clocks that are set by hand.
    struct Hands(Arc<Mutex<Moment>>);

    impl Hands {
        fn new() -> (Self, CycleClock) {
            let wall = Timestamp::from_millisecond(1_000 * HOUR_MS).unwrap();
            let moment = Arc::new(Mutex::new(Moment { instant: Instant::now(), wall }));
            let shown = Arc::clone(&moment);
            (Self(moment), CycleClock::new(Clock::new(move || *shown.lock().unwrap())))
        }

        fn pass(&self, time: Duration) {
            let mut moment = self.0.lock().unwrap();
            moment.instant += time;
            moment.wall = moment.wall.checked_add(time).unwrap();
        }

        fn set(&self, by_ms: i64) {
            let mut moment = self.0.lock().unwrap();
            moment.wall = Timestamp::from_millisecond(milliseconds(moment.wall) + by_ms).unwrap();
        }

        fn wall(&self) -> Time {
            Time(milliseconds(self.0.lock().unwrap().wall))
        }
    }

    #[test]
    fn time_is_wall_time_while_nobody_sets_the_clock_back() {
        let (hands, mut clock) = Hands::new();
        for set in [0, 0, HOUR_MS, 5] {
            hands.pass(Duration::from_secs(3));
            hands.set(set);
            assert_eq!(clock.now(), hands.wall());
        }
    }

    #[test]
    fn a_back_off_ends_soon_though_the_clock_steps_back_an_hour() {
        let (hands, mut clock) = Hands::new();
        let due = Time(clock.now().0 + 10_000);
        hands.set(-HOUR_MS);
        for second in 1..=20 {
            let before = clock.now();
            hands.pass(Duration::from_secs(1));
            assert!(clock.now() > before, "time goes on");
            assert_eq!(clock.now() >= due, second == 20, "after {second} s");
        }
        hands.pass(Duration::from_hours(2));
        assert_eq!(clock.now(), hands.wall(), "and the wall clock has caught up");
    }

    #[test]
    fn readings_close_together_do_not_stop_the_clock() {
        let (hands, mut clock) = Hands::new();
        hands.set(-HOUR_MS);
        let before = clock.now();
        for _ in 0..10_000 {
            hands.pass(Duration::from_micros(300));
            clock.now();
        }
        assert_eq!(clock.now().0 - before.0, 1_500);
    }

    #[test]
    fn figures_do_not_grow_old_because_the_clock_steps_back() {
        let (hands, mut clock) = Hands::new();
        hands.set(-HOUR_MS);
        let wall = hands.wall();
        let (cpu, memory) = (Measure::Part(1), Measure::Part(1));
        let mut usage =
            NodeUsage { node: "n".into(), cpu, memory, since: Time(wall.0 - 30_000), at: Some(wall) };
        clock.take_in(&mut usage);
        assert_eq!((usage.at, usage.since), (Some(clock.now()), Time(clock.now().0 - 30_000)));
    }
}
