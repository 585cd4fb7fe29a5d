//! The back-off after failed tries: a second, doubled with each further one up to ten.
use crate::event::Time;

/// The first back-off, doubled with each further try.
const FIRST_BACKOFF_MS: i64 = 1000;
/// The longest back-off.
const LAST_BACKOFF_MS: i64 = 10_000;

/// The end of the back-off after a number of failed tries.
pub fn backoff(now: Time, tries: u8) -> Time {
    let wait = FIRST_BACKOFF_MS << tries.saturating_sub(1).min(8);
    Time(now.0.saturating_add(wait.min(LAST_BACKOFF_MS)))
}

/// Failed tries in a row, and until when there is no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    tries: u8,
    until: Time,
}

impl Backoff {
    /// No back-off but for a pause.
    pub fn pause(until: Time) -> Self {
        Self { tries: 0, until }
    }

    /// The back-off after one more failed try.
    pub fn after_failure(self, now: Time) -> Self {
        let tries = self.tries.saturating_add(1);
        Self { tries, until: backoff(now, tries) }
    }

    /// The end of the back-off, if it is not over.
    pub fn until(self, now: Time) -> Option<Time> {
        (self.until > now).then_some(self.until)
    }
}
