//! Back-off: one second after a failed try, then two, up to ten.
use phalanx_cluster::event::Time;

/// The first back-off, doubled with each further try.
const FIRST_MS: i64 = 1000;
/// The longest back-off.
const LAST_MS: i64 = 10_000;

/// Failed tries in a row, and the back-off after the last of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    tries: u8,
    pub(crate) until: Time,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::pause(Time(i64::MIN))
    }
}

impl Backoff {
    /// A pause without a failed try.
    pub(crate) fn pause(until: Time) -> Self {
        Self { tries: 0, until }
    }

    /// Counts a failed try.
    pub(crate) fn extend(&mut self, now: Time) {
        self.tries = self.tries.saturating_add(1);
        self.restart(now);
    }

    /// Has the back-off begin now, with the length that it has.
    pub(crate) fn restart(&mut self, now: Time) {
        let wait = FIRST_MS << self.tries.saturating_sub(1).min(8);
        self.until = Time(now.0.saturating_add(wait.min(LAST_MS)));
    }

    /// The end of the back-off, if it is not over.
    pub(crate) fn end(self, now: Time) -> Option<Time> {
        (self.until > now).then_some(self.until)
    }
}
