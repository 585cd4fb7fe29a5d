//! Back-off: one second after a failed try, then two, up to ten, unless other times are configured.
use phalanx_cluster::event::Time;

/// How long back-offs last (kube-scheduler's `podInitialBackoffSeconds` and `podMaxBackoffSeconds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackoffTimes {
    /// The first back-off in milliseconds, doubled with each further try.
    pub initial_ms: i64,
    /// The longest back-off in milliseconds.
    pub max_ms: i64,
}

impl Default for BackoffTimes {
    fn default() -> Self {
        Self { initial_ms: 1_000, max_ms: 10_000 }
    }
}

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
    pub(crate) fn extend(&mut self, now: Time, times: BackoffTimes) {
        self.tries = self.tries.saturating_add(1);
        self.restart(now, times);
    }

    /// Has the back-off begin now, with the length that it has.
    pub(crate) fn restart(&mut self, now: Time, times: BackoffTimes) {
        let wait = times.initial_ms.saturating_mul(1 << self.tries.saturating_sub(1).min(30));
        self.until = Time(now.0.saturating_add(wait.min(times.max_ms)));
    }

    /// The end of the back-off, if it is not over.
    pub(crate) fn end(self, now: Time) -> Option<Time> {
        (self.until > now).then_some(self.until)
    }
}
