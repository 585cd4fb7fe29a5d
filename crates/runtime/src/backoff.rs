//! Waiting longer after each failure, with jitter.
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Doubles from `base` to `max`; each wait is drawn from its upper half, so that those who failed together do not come
/// back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    attempt: u32,
}

impl Backoff {
    /// A backoff that has not waited yet.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, attempt: 0 }
    }

    /// How long to wait now; the next answer is longer.
    pub fn next_wait(&mut self) -> Duration {
        let wait = wait_for(self.base, self.max, self.attempt);
        self.attempt = self.attempt.saturating_add(1);
        wait
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// The wait before attempt `attempt` (from 0).
pub fn wait_for(base: Duration, max: Duration, attempt: u32) -> Duration {
    let whole = base.saturating_mul(1 << attempt.min(20)).min(max);
    whole.div_f64(2.0) + whole.div_f64(2.0).mul_f64(jitter())
}

/// A number in 0..1. The standard library seeds each hasher at random, which is chance enough for a wait.
fn jitter() -> f64 {
    let bits = RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_start_over() {
        let (base, max) = (Duration::from_millis(100), Duration::from_secs(1));
        let mut backoff = Backoff::new(base, max);
        for whole in [100, 200, 400, 800, 1000, 1000] {
            let wait = backoff.next_wait().as_millis();
            assert!(wait >= whole / 2 && wait <= whole, "{wait} is not within {}..={whole}", whole / 2);
        }
        backoff.reset();
        assert!(backoff.next_wait() <= base);
    }

    #[test]
    fn many_failures_do_not_overflow() {
        assert!(wait_for(Duration::from_secs(1), Duration::from_secs(5), u32::MAX) <= Duration::from_secs(5));
    }
}
