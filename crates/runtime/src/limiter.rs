//! A token bucket for requests, for operators who set `--kube-api-qps`.
use std::time::{Duration, Instant};

/// Lets `burst` requests through at once and `qps` a second after that.
#[derive(Clone, Debug)]
pub struct Limiter {
    qps: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl Limiter {
    /// A full bucket. `qps` must be positive; a burst below one request is one.
    pub fn new(qps: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self { qps, burst, tokens: burst, filled: now }
    }

    /// When there is no token: the time of the next one.
    pub fn wait(&mut self, now: Instant) -> Option<Instant> {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.qps).min(self.burst);
        self.filled = now;
        (self.tokens < 1.0).then(|| now + Duration::from_secs_f64((1.0 - self.tokens) / self.qps))
    }

    /// Spends a token.
    pub fn spend(&mut self) {
        self.tokens -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(limiter: &mut Limiter, requests: usize, now: Instant) -> usize {
        let mut pass = || limiter.wait(now).is_none().then(|| limiter.spend()).is_some();
        (0..requests).filter(|_| pass()).count()
    }

    #[test]
    fn requests_beyond_the_burst_pass_at_the_rate() {
        let start = Instant::now();
        let mut limiter = Limiter::new(10.0, 3, start);
        assert_eq!(passed(&mut limiter, 5, start), 3);
        let next = limiter.wait(start).expect("the bucket is empty");
        assert!((next - start).abs_diff(Duration::from_millis(100)) < Duration::from_millis(1));
        let second = start + Duration::from_millis(1050);
        assert_eq!(passed(&mut limiter, 20, second), 3, "never more than the burst");
    }
}
