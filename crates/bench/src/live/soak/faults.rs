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

/// What happens in a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Kills, cuts and holds.
    Kills,
    /// Cuts and holds: the process stays.
    Cuts,
    /// Nothing: connections that nobody needs any more are closed, and what the process uses can be compared.
    Calm,
}

/// The stages, each with the share of the run at which it ends.
pub(super) const STAGES: [(Stage, f64); 4] =
    [(Stage::Kills, 0.4), (Stage::Calm, 0.6), (Stage::Cuts, 0.8), (Stage::Calm, 1.0)];

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

    /// Runs one stage after the other, for `duration` in all. The process that runs at the end is returned.
    pub(super) async fn run_stages(
        mut self,
        plane: &Plane,
        duration: Duration,
        samples: &Mutex<Vec<Sample>>,
    ) -> Result<Self> {
        let began = Instant::now();
        for (stage, share) in STAGES {
            let end = began + duration.mul_f64(share);
            while Instant::now() < end {
                let next = if stage == Stage::Calm { end } else { Instant::now() + self.draw(BETWEEN) };
                self.sample_until(next.min(end), samples).await;
                if Instant::now() < end {
                    self = self.fault(stage, end, plane, samples).await?;
                }
            }
        }
        Ok(self)
    }

    /// One fault of a stage that has some.
    async fn fault(
        mut self,
        stage: Stage,
        end: Instant,
        plane: &Plane,
        samples: &Mutex<Vec<Sample>>,
    ) -> Result<Self> {
        match self.chance.random_range(0..3) {
            0 if stage == Stage::Kills => return self.kill(plane).await,
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
        Ok(self)
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
