//! Replay: the cycles of a journal with inputs, run again.
use std::sync::Arc;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::Time;
use phalanx_conf::{Known, Parsed, parse};
use phalanx_core::RetryLimits;
use phalanx_core::Scheduler;
use phalanx_framework::conf::Conf;
use phalanx_framework::extender::ExtenderReplay;
use serde_json::Value;

use super::line::{Cycle, Line, Start};
use super::stopwatch::ReplayClock;

/// A journal that cannot be replayed, or not further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It has decisions only.
    #[error("the journal has no inputs: only one that is written with --journal-inputs can be replayed")]
    NoInputs,
    /// A scheduler.conf of another version.
    #[error("the recorded scheduler.conf cannot be used: {0}")]
    Conf(String),
    /// Lines are missing.
    #[error(
        "lines are missing after cycle {cycle} ({lines}): what follows, up to the next start, is not replayed"
    )]
    Dropped {
        /// How many.
        lines: u64,
        /// The last cycle before.
        cycle: u64,
    },
}

/// The first decision of a cycle that differs from the recorded one; `None` where there is none any more.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its position among the decisions of the cycle, from 1.
    pub position: usize,
    /// What was recorded.
    pub recorded: Option<Value>,
    /// What was decided now.
    pub replayed: Option<Value>,
}

/// A cycle that was run again.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// The cycle, with the decisions of now.
    pub cycle: Cycle<Value>,
    /// Where they differ from the recorded ones.
    pub difference: Option<Difference>,
}

/// A scheduler from its start on.
struct Life {
    cluster: Cluster,
    scheduler: Scheduler,
    clock: Arc<ReplayClock>,
    /// The last cycle.
    cycle: u64,
}

/// Runs the cycles of a journal again, line by line.
#[derive(Default)]
pub struct Replay {
    life: Option<Life>,
    began: bool,
}

impl Replay {
    /// Takes in a line. Returns the cycle that it ran, if it is the line of one. Lines without a start before them are
    /// left out: the file with the start is gone, or lines are missing since.
    pub fn take_in(&mut self, line: Line<Value>) -> Result<Option<Replayed>, ReplayError> {
        if let Line::Start(start) = &line {
            self.life = Some(Life::new(start)?);
            self.began = true;
        }
        let Some(life) = &mut self.life else { return Ok(None) };
        match line {
            Line::Start(_) => {}
            Line::Standby(standby) => life.cluster.stand_by(standby),
            Line::Conf(text) => life.scheduler.set_conf(conf(&text)?),
            Line::Events(events) => {
                for event in events {
                    life.cluster.apply(event);
                }
            }
            Line::Cycle(cycle) => return Ok(Some(life.run(cycle))),
            Line::Dropped(lines) => {
                let cycle = life.cycle;
                self.life = None;
                return Err(ReplayError::Dropped { lines, cycle });
            }
        }
        Ok(None)
    }

    /// Whether a start was taken in.
    pub fn began(&self) -> bool {
        self.began
    }
}

impl Life {
    fn new(start: &Start) -> Result<Self, ReplayError> {
        let text = start.conf.as_deref().filter(|_| start.inputs).ok_or(ReplayError::NoInputs)?;
        let mut scheduler = Scheduler::new(conf(text)?, start.seed);
        let clock = Arc::<ReplayClock>::default();
        scheduler.set_sampling(start.sampling);
        scheduler.set_retry_limits(RetryLimits { backoff: start.backoff, ..RetryLimits::default() });
        scheduler.set_stopwatch(clock.clone());
        Ok(Self { cluster: Cluster::new(start.cluster()), scheduler, clock, cycle: 0 })
    }

    fn run(&mut self, recorded: Cycle<Value>) -> Replayed {
        let Cycle { number, now, .. } = recorded;
        self.cycle = number;
        self.clock.set(recorded.stopwatch.clone());
        self.scheduler.set_extender(Arc::new(ExtenderReplay::new(recorded.extenders.clone())));
        let decisions = decide(&mut self.scheduler, &mut self.cluster, now);
        let difference = difference(&recorded.decisions, &decisions);
        Replayed { cycle: Cycle { decisions, ..recorded }, difference }
    }
}

/// Runs a cycle as the scheduling thread does, and counts the waiting jobs behind it as that does: counting takes in
/// what the cycle changed.
fn decide(scheduler: &mut Scheduler, cluster: &mut Cluster, now: Time) -> Vec<Value> {
    let outcome = scheduler.run(cluster, now);
    scheduler.pending(cluster);
    let json = |decision| serde_json::to_value(decision).unwrap_or_default();
    outcome.decisions.iter().map(json).collect()
}

fn difference(recorded: &[Value], replayed: &[Value]) -> Option<Difference> {
    let longest = recorded.len().max(replayed.len());
    let at = (0..longest).find(|at| recorded.get(*at) != replayed.get(*at))?;
    let (recorded, replayed) = (recorded.get(at).cloned(), replayed.get(at).cloned());
    Some(Difference { position: at + 1, recorded, replayed })
}

fn conf(text: &str) -> Result<Conf, ReplayError> {
    let Parsed { conf, problems } = parse(text, &Known::builtin());
    conf.ok_or_else(|| {
        ReplayError::Conf(
            problems.first().map(|problem| problem.in_file("scheduler.conf")).unwrap_or_default(),
        )
    })
}
