//! The faults: kills, cuts and holds at times drawn from a seed.
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use phalanx_e2e::{Link, Phalanx, Plane};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::churn::lock;
use super::super::scheduler_args;
use super::{Options, SAMPLE_EVERY, Sample, sample};

/// Between two faults, in seconds.
const BETWEEN: std::ops::Range<f64> = 5.0..25.0;
/// How long a process stays down, in seconds.
const DOWN: std::ops::Range<f64> = 0.0..5.0;
/// How long nothing arrives while connections stay, in seconds.
const HELD: std::ops::Range<f64> = 1.0..20.0;

/// Faults so far, and what they befall.
pub(super) struct Faults {
    link: Link,
    args: Vec<String>,
    running: Phalanx,
    chance: Pcg64,
    pub(super) kills: usize,
    pub(super) cuts: usize,
    pub(super) holds: usize,
}

impl Faults {
    /// Starts the scheduler behind the link.
    pub(super) async fn start(plane: &Plane, link: Link, options: &Options) -> Result<Self> {
        let mut args = scheduler_args(&options.scheduler_args);
        args.push(link.flag());
        let running = start(plane, &args).await?;
        let chance = Pcg64::seed_from_u64(options.seed);
        Ok(Self { link, args, running, chance, kills: 0, cuts: 0, holds: 0 })
    }

    /// Faults happen until a time; the process that runs then goes on. Kills happen in the first half of the time.
    pub(super) async fn until(
        mut self,
        plane: &Plane,
        end: Instant,
        samples: &Mutex<Vec<Sample>>,
    ) -> Result<Self> {
        let half = Instant::now() + end.saturating_duration_since(Instant::now()) / 2;
        loop {
            let at = Instant::now() + self.draw(BETWEEN);
            self.sample_until(at.min(end), samples).await;
            if Instant::now() >= end {
                return Ok(self);
            }
            match self.chance.random_range(0..3) {
                0 if Instant::now() < half => self = self.kill(plane).await?,
                0 | 1 => {
                    self.link.cut();
                    self.cuts += 1;
                }
                _ => {
                    self.link.hold();
                    self.holds += 1;
                    let until = Instant::now() + self.draw(HELD);
                    self.sample_until(until.min(end), samples).await;
                    self.link.let_go();
                }
            }
        }
    }

    fn draw(&mut self, seconds: std::ops::Range<f64>) -> Duration {
        Duration::from_secs_f64(self.chance.random_range(seconds))
    }

    async fn sample_until(&self, until: Instant, samples: &Mutex<Vec<Sample>>) {
        while Instant::now() < until {
            lock(samples).push(sample(self.running.pid()));
            let left = until.saturating_duration_since(Instant::now());
            tokio::time::sleep(left.min(SAMPLE_EVERY)).await;
        }
    }

    /// SIGKILL, as when the node is gone or the memory is out.
    async fn kill(self, plane: &Plane) -> Result<Self> {
        let Self { link, args, running, mut chance, kills, cuts, holds } = self;
        tokio::task::spawn_blocking(|| drop(running)).await?;
        tokio::time::sleep(Duration::from_secs_f64(chance.random_range(DOWN))).await;
        let running = start(plane, &args).await?;
        Ok(Self { link, args, running, chance, kills: kills + 1, cuts, holds })
    }
}

async fn start(plane: &Plane, args: &[String]) -> Result<Phalanx> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Phalanx::start(plane, &args).await
}
