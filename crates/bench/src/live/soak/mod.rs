//! `soak`: gangs come and end for minutes while the scheduler is killed and its connections are cut.
//!
//! The pods are those of `churn`. In the first half of the time the scheduler is killed now and then and started again;
//! in the second half the process stays, so that its memory and its open files can be compared. Connections are cut and
//! held up all the time. What the API server holds is checked meanwhile, and once all pods have come.
mod faults;
mod sound;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use kube::Client;
use phalanx_e2e::Link;
use serde_json::{Value, json};

use super::churn::{self, Ledger, Stream, lock};
use super::latency::Times;
use super::usage::{open_files, rss};
use super::{Contestant, Setup};
use crate::machine;
use faults::Faults;
use sound::Sound;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods created in a second.
    #[arg(long, default_value_t = 100.0, value_parser = crate::above_0)]
    pods_per_second: f64,
    /// How long pods are created.
    #[arg(long, default_value_t = 10.0, value_parser = crate::above_0)]
    minutes: f64,
    /// How long a pod runs before it is deleted, in seconds.
    #[arg(long, default_value_t = 30, allow_negative_numbers = true, value_parser = crate::count)]
    runtime: usize,
    /// Of the faults and their times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

/// How long after the last creation all pods are bound, and how long after the last deletion nothing is counted.
const SETTLED: Duration = Duration::from_mins(3);
/// Between two looks at memory and open files.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
/// Of so many looks one is printed.
const TOLD_EACH: usize = 6;
/// A process that starts takes so long until its memory is that of its work.
const WARM: Duration = Duration::from_secs(30);
/// Memory, or open files, by which the last quarter of a life may exceed the one after its start, in percent.
const GROWTH_MAX: f64 = 25.0;

/// What a process used at a time of its life.
#[derive(Clone, Copy, Debug)]
struct Sample {
    pid: u32,
    at: Instant,
    rss: u64,
    files: usize,
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let Setup { plane } = Setup::new(options.nodes).await?;
    let link = Link::to(&plane.url()).await?;
    let duration = Duration::from_secs_f64(options.minutes * 60.0);
    let faults = Faults::start(&plane, link, options).await?;
    let admin = plane.client();
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let runs = Duration::from_secs(options.runtime as u64);
    let pods = (options.pods_per_second * duration.as_secs_f64()) as usize;
    let stream = Stream { rate: options.pods_per_second, pods, runs };
    let watcher = tokio::spawn(churn::watch(plane.client(), Arc::clone(&ledger), runs, Contestant::Phalanx));
    let (samples, mut sound) = (Mutex::new(Vec::new()), Sound::default());
    let began = Instant::now();
    let (created, faults, ()) = tokio::try_join!(
        churn::create(&admin, Contestant::Phalanx, stream, &ledger),
        faults.until(&plane, began + duration, &samples),
        sound.look_until(&admin, began + duration),
    )?;
    let unbound = until_all_are_bound(&ledger).await;
    sound.at_the_end(&admin, unbound).await?;
    watcher.abort();
    let uncounted = sound.until_nothing_is_counted(&admin, runs).await?;
    let millis = std::mem::take(&mut lock(&ledger).millis);
    let use_of = Use::of(&lock(&samples));
    sound.note_growth(&use_of);
    for violation in &sound.violations {
        say!("violation: {violation}");
    }
    Ok(json!({
        "name": "soak", "nodes": options.nodes, "podsPerSecond": options.pods_per_second, "minutes": options.minutes,
        "seed": options.seed, "cores": machine::cores(), "created": created, "bound": millis.len(),
        "unbound": unbound, "kills": faults.kills, "cuts": faults.cuts, "holds": faults.holds,
        "latency": Times::new(millis).json(), "longestInPartSeconds": sound.longest.as_secs_f64(),
        "secondsUntilNothingIsCounted": uncounted.as_secs_f64(), "use": use_of.json(),
        "violations": sound.violations.len(), "seconds": began.elapsed().as_secs_f64(),
    }))
}

/// Fails where a promise was broken.
pub(super) fn check(figures: &Value) -> Result<()> {
    ensure!(figures["violations"] == 0, "{} violations, see above", figures["violations"]);
    Ok(())
}

/// Returns how many pods are not bound after [`SETTLED`].
async fn until_all_are_bound(ledger: &Mutex<Ledger>) -> usize {
    let deadline = Instant::now() + SETTLED;
    while Instant::now() < deadline && !lock(ledger).created.is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    lock(ledger).created.len()
}

fn sample(pid: u32) -> Sample {
    Sample { pid, at: Instant::now(), rss: rss(pid), files: open_files(pid) }
}

/// What the last process used in the first quarter of its life after its start, and in the last quarter: the least of
/// each, for after a hold there are connections of before and after for a while.
struct Use {
    seconds: f64,
    rss: (u64, u64),
    files: (usize, usize),
    most_files: usize,
    /// Resident memory, of each sixth look.
    series: Vec<u64>,
}

impl Use {
    fn of(samples: &[Sample]) -> Self {
        let last = samples.last().map(|sample| sample.pid);
        let life: Vec<&Sample> = samples.iter().filter(|sample| Some(sample.pid) == last).collect();
        let begin = life.first().map(|sample| sample.at + WARM);
        let life: Vec<&Sample> = life.into_iter().filter(|sample| Some(sample.at) >= begin).collect();
        let quarter = life.len().div_ceil(4);
        let (first, end) = (&life[..quarter], &life[life.len() - quarter..]);
        let rss = |of: &[&Sample]| of.iter().map(|sample| sample.rss).min().unwrap_or_default();
        let files = |of: &[&Sample]| of.iter().map(|sample| sample.files).min().unwrap_or_default();
        let lasted = life.first().zip(life.last()).map_or(0.0, |(a, b)| (b.at - a.at).as_secs_f64());
        Self {
            seconds: lasted,
            rss: (rss(first), rss(end)),
            files: (files(first), files(end)),
            most_files: life.iter().map(|sample| sample.files).max().unwrap_or_default(),
            series: life.iter().step_by(TOLD_EACH).map(|sample| sample.rss).collect(),
        }
    }

    fn growth(&self) -> [(&'static str, f64); 2] {
        let percent = |first: f64, last: f64| 100.0 * (last - first) / first.max(1.0);
        [
            ("resident memory", percent(self.rss.0 as f64, self.rss.1 as f64)),
            ("open files", percent(self.files.0 as f64, self.files.1 as f64)),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "seconds": self.seconds, "rssBytesFirstQuarter": self.rss.0, "rssBytesLastQuarter": self.rss.1,
            "rssBytes": self.series, "openFilesFirstQuarter": self.files.0,
            "openFilesLastQuarter": self.files.1, "mostOpenFiles": self.most_files,
        })
    }
}

impl Sound {
    fn note_growth(&mut self, of: &Use) {
        for (what, percent) in of.growth().into_iter().filter(|(_, percent)| *percent > GROWTH_MAX) {
            self.violations.push(format!("{what} grew by {percent:.0} % while the load was the same"));
        }
    }

    /// Looks again and again.
    async fn look_until(&mut self, admin: &Client, end: Instant) -> Result<()> {
        while Instant::now() < end {
            self.look(admin).await?;
            tokio::time::sleep(sound::EVERY).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(pid: u32, rss: impl Fn(u64) -> u64) -> Vec<Sample> {
        let began = Instant::now();
        let at = |look: u64| began + Duration::from_secs(5 * look);
        (0..40).map(|look| Sample { pid, at: at(look), rss: rss(look), files: 50 }).collect()
    }

    #[test]
    fn what_grows_in_the_last_life_is_a_violation_and_a_peak_is_none() {
        let grown = |rss: &dyn Fn(u64) -> u64| {
            let mut sound = Sound::default();
            sound.note_growth(&Use::of(&[life(1, |_| 1), life(2, rss)].concat()));
            sound.violations
        };
        assert_eq!(grown(&|look| if look == 35 { 900 } else { 100 }), Vec::<String>::new());
        let steady = grown(&|look| 100 + 2 * look);
        assert_eq!(steady, ["resident memory grew by 45 % while the load was the same"]);
    }
}
