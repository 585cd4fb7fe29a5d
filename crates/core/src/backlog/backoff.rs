//! Back-off: one second after a failed try, then two, up to ten.
use phalanx_cluster::event::Time;

/// The first back-off, doubled with each further try.
const FIRST_MS: i64 = 1000;
/// The longest back-off.
const LAST_MS: i64 = 10_000;

/// The end of the back-off after a number of failed tries.
pub(crate) fn backoff(now: Time, tries: u8) -> Time {
    let wait = FIRST_MS << tries.saturating_sub(1).min(8);
    Time(now.0.saturating_add(wait.min(LAST_MS)))
}

/// Failed tries in a row, and the back-off after the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Backoff {
    tries: u8,
    pub(super) until: Time,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { tries: 0, until: Time(i64::MIN) }
    }
}

impl Backoff {
    /// Counts a failed try.
    pub(super) fn extend(&mut self, now: Time) {
        self.tries = self.tries.saturating_add(1);
        self.restart(now);
    }

    /// Has the back-off begin now, with the length that it has.
    pub(super) fn restart(&mut self, now: Time) {
        self.until = backoff(now, self.tries);
    }
}
