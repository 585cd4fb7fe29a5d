//! Waiting longer after each failure, with jitter.
use std::time::Duration;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;

/// Doubles from `base` to `max`. Each wait is drawn from its upper half, so that clients that failed together do not
/// retry together.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    max: Duration,
    attempt: u32,
    chance: Pcg64,
}

impl Backoff {
    /// A back-off that has not waited yet, with a seed of the operating system, so that two of them differ.
    pub fn new(base: Duration, max: Duration) -> Self {
        Self { base, max, attempt: 0, chance: rand::make_rng() }
    }

    /// How long to wait now; the next answer is longer.
    pub fn next_wait(&mut self) -> Duration {
        let wait = wait_for(self.base, self.max, self.attempt, &mut self.chance);
        self.attempt = self.attempt.saturating_add(1);
        wait
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }
}

/// The wait before attempt `attempt` (from 0).
pub fn wait_for(base: Duration, max: Duration, attempt: u32, chance: &mut impl Rng) -> Duration {
    let whole = base.saturating_mul(1 << attempt.min(20)).min(max);
    chance.random_range(whole.div_f64(2.0)..=whole)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

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
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(5));
        assert!(wait_for(base, max, u32::MAX, &mut Pcg64::seed_from_u64(1)) <= max);
    }

    #[test]
    fn waits_are_the_same_for_the_same_seed_only() {
        let waits = |seed| {
            let mut chance = Pcg64::seed_from_u64(seed);
            [0; 8].map(|attempt| wait_for(Duration::from_secs(1), Duration::MAX, attempt, &mut chance))
        };
        assert_eq!(waits(1), waits(1));
        assert_ne!(waits(1), waits(2));
        assert!(waits(1).windows(2).all(|pair| pair[0] != pair[1]), "{:?}", waits(1));
    }
}
