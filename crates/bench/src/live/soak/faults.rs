//! The faults: kills, cuts and holds at times drawn from a seed.
use std::time::{Duration, Instant};

use anyhow::Result;
use phalanx_e2e::{Link, Phalanx, Plane};
use phalanx_faults::story::Role;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::super::scheduler_args;
use super::Options;
use super::growth::Sample;

/// Between two faults, in seconds.
const BETWEEN: std::ops::Range<f64> = 5.0..25.0;
/// How long a process stays down, in seconds.
const DOWN: std::ops::Range<f64> = 0.0..5.0;
/// How long nothing arrives while connections stay, in seconds.
const HELD: std::ops::Range<f64> = 1.0..20.0;
/// Between two looks at memory and open files.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);

/// What happens in a part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Kills, cuts and holds.
    Kills,
    /// Cuts and holds: the processes stay.
    Cuts,
    /// Nothing: connections that nobody needs any more are closed, and what a process uses can be compared.
    Calm,
}

/// The stages, each with the share of the run at which it ends.
pub(super) const STAGES: [(Stage, f64); 4] =
    [(Stage::Kills, 0.4), (Stage::Calm, 0.6), (Stage::Cuts, 0.8), (Stage::Calm, 1.0)];

/// A process that is killed, and what it used.
pub(super) struct Process {
    pub(super) role: Role,
    args: Vec<String>,
    /// Absent while it is down.
    running: Option<Phalanx>,
    pub(super) kills: usize,
    pub(super) samples: Vec<Sample>,
}

/// Faults so far, and what they befall.
pub(super) struct Faults {
    link: Link,
    pub(super) processes: [Process; 2],
    chance: Pcg64,
    pub(super) cuts: usize,
    pub(super) holds: usize,
}

impl Process {
    async fn start(role: Role, mut args: Vec<String>, link: &Link, plane: &Plane) -> Result<Self> {
        args.push(link.flag());
        let mut process = Self { role, args, running: None, kills: 0, samples: Vec::new() };
        process.start_again(plane).await?;
        Ok(process)
    }

    async fn start_again(&mut self, plane: &Plane) -> Result<()> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let started = match self.role {
            Role::Scheduler => Phalanx::start(plane, &args).await,
            Role::Controllers => Phalanx::start_controllers(plane, &args).await,
        };
        self.running = Some(started?);
        Ok(())
    }

    /// SIGKILL, as when the node is gone or the memory is out.
    async fn kill(&mut self, down: Duration, plane: &Plane) -> Result<()> {
        let running = self.running.take();
        tokio::task::spawn_blocking(|| drop(running)).await?;
        tokio::time::sleep(down).await;
        self.kills += 1;
        self.start_again(plane).await
    }

    fn sample(&mut self) {
        self.samples.extend(self.running.as_ref().map(|running| Sample::of(running.pid())));
    }
}

impl Faults {
    /// Starts the processes behind the link.
    pub(super) async fn start(plane: &Plane, link: Link, options: &Options) -> Result<Self> {
        let args = scheduler_args(&options.scheduler_args);
        let processes = [
            Process::start(Role::Scheduler, args, &link, plane).await?,
            Process::start(Role::Controllers, Vec::new(), &link, plane).await?,
        ];
        Ok(Self { link, processes, chance: Pcg64::seed_from_u64(options.seed), cuts: 0, holds: 0 })
    }

    /// Runs one stage after the other, for `duration` in all.
    pub(super) async fn run_stages(&mut self, plane: &Plane, duration: Duration) -> Result<()> {
        let began = Instant::now();
        for (stage, share) in STAGES {
            let end = began + duration.mul_f64(share);
            while Instant::now() < end {
                let next = if stage == Stage::Calm { end } else { Instant::now() + self.draw(BETWEEN) };
                self.sample_until(next.min(end)).await;
                if Instant::now() < end {
                    self.fault(stage, end, plane).await?;
                }
            }
            // Both calm stages begin with new connections.
            if stage != Stage::Calm {
                self.cut();
            }
        }
        Ok(())
    }

    /// One fault of a stage that has some.
    async fn fault(&mut self, stage: Stage, end: Instant, plane: &Plane) -> Result<()> {
        match self.chance.random_range(0..3) {
            0 if stage == Stage::Kills => return self.kill(plane).await,
            0 | 1 => self.cut(),
            _ => {
                self.link.hold();
                self.holds += 1;
                let until = Instant::now() + self.draw(HELD);
                self.sample_until(until.min(end)).await;
                self.link.let_go();
            }
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.link.cut();
        self.cuts += 1;
    }

    /// The processes take turns.
    async fn kill(&mut self, plane: &Plane) -> Result<()> {
        let down = self.draw(DOWN);
        let [first, second] = &mut self.processes;
        let next = if first.kills <= second.kills { first } else { second };
        next.kill(down, plane).await
    }

    fn draw(&mut self, seconds: std::ops::Range<f64>) -> Duration {
        Duration::from_secs_f64(self.chance.random_range(seconds))
    }

    async fn sample_until(&mut self, until: Instant) {
        while Instant::now() < until {
            self.processes.iter_mut().for_each(Process::sample);
            let left = until.saturating_duration_since(Instant::now());
            tokio::time::sleep(left.min(SAMPLE_EVERY)).await;
        }
    }
}
