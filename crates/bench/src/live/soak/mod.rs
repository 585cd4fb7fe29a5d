//! `soak`: gangs come and end for minutes while the scheduler is killed and its connections are cut.
//!
//! The pods are those of `churn`. The scheduler is killed now and then and started again, and connections are cut and
//! held up; then the process stays. Its memory and its open files are compared before and after further cuts and holds.
//! What the API server holds is checked meanwhile, and once all pods have come.
mod faults;
mod sound;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use kube::Client;
use phalanx_e2e::Link;
use serde_json::{Value, json};

use super::churn::{self, Ledger, Stream, lock};
use super::latency::Times;
use super::usage::{open_files, rss};
use super::{Contestant, Setup};
use crate::machine;
use faults::{Faults, STAGES, Stage};
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
/// The use at the end of a calm stage is the median of so many samples.
const LAST_SAMPLES: usize = 6;
/// Memory, or open files, by which the second calm may exceed the first, in percent.
const GROWTH_MAX: f64 = 25.0;

/// What the process used at a time.
#[derive(Clone, Copy, Debug)]
struct Sample {
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
        faults.run_stages(&plane, duration, &samples),
        sound.look_until(&admin, began + duration),
    )?;
    let unbound = until_all_are_bound(&ledger).await;
    sound.at_the_end(&admin, unbound).await?;
    watcher.abort();
    let uncounted = sound.until_nothing_is_counted(&admin, runs).await?;
    let millis = std::mem::take(&mut lock(&ledger).millis);
    let usage = Usage::of(&lock(&samples), began, duration).context("no samples of memory and open files")?;
    sound.note_growth(&usage);
    for violation in &sound.violations {
        say!("violation: {violation}");
    }
    Ok(json!({
        "name": "soak", "nodes": options.nodes, "podsPerSecond": options.pods_per_second, "minutes": options.minutes,
        "seed": options.seed, "cores": machine::cores(), "created": created, "bound": millis.len(),
        "unbound": unbound, "kills": faults.kills, "cuts": faults.cuts, "holds": faults.holds,
        "latency": Times::new(millis).json(), "longestInPartSeconds": sound.longest.as_secs_f64(),
        "secondsUntilNothingIsCounted": uncounted.as_secs_f64(), "use": usage.json(),
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
    Sample { at: Instant::now(), rss: rss(pid), files: open_files(pid) }
}

/// What the process that stays used at the end of the calm before the last cuts and holds, and of the calm after them.
struct Usage {
    before: Sample,
    after: Sample,
    /// One of [`TOLD_EACH`] looks.
    series: Vec<Sample>,
}

impl Usage {
    /// `None` without samples in both calm stages.
    fn of(samples: &[Sample], began: Instant, duration: Duration) -> Option<Self> {
        let calms = STAGES.iter().filter(|(stage, _)| *stage == Stage::Calm);
        let mut at_ends = calms.map(|(_, share)| use_before(samples, began + duration.mul_f64(*share)));
        let (before, after) = (at_ends.next()??, at_ends.next()??);
        Some(Self { before, after, series: samples.iter().step_by(TOLD_EACH).copied().collect() })
    }

    fn growth(&self) -> [(&'static str, f64); 2] {
        let percent = |before: f64, after: f64| 100.0 * (after - before) / before.max(1.0);
        [
            ("resident memory", percent(self.before.rss as f64, self.after.rss as f64)),
            ("open files", percent(self.before.files as f64, self.after.files as f64)),
        ]
    }

    fn json(&self) -> Value {
        let rss: Vec<u64> = self.series.iter().map(|sample| sample.rss).collect();
        let files: Vec<usize> = self.series.iter().map(|sample| sample.files).collect();
        json!({
            "rssBytesBefore": self.before.rss, "rssBytesAfter": self.after.rss, "rssBytes": rss,
            "openFilesBefore": self.before.files, "openFilesAfter": self.after.files, "openFiles": files,
        })
    }
}

/// The median of each figure in the last samples before a time.
fn use_before(samples: &[Sample], end: Instant) -> Option<Sample> {
    let until = samples.partition_point(|sample| sample.at < end);
    let last = &samples[until.saturating_sub(LAST_SAMPLES)..until];
    Some(Sample {
        at: last.last()?.at,
        rss: median(last.iter().map(|sample| sample.rss))?,
        files: median(last.iter().map(|sample| sample.files))?,
    })
}

fn median<T: Ord>(values: impl Iterator<Item = T>) -> Option<T> {
    let mut sorted: Vec<T> = values.collect();
    sorted.sort();
    let middle = sorted.len() / 2;
    sorted.into_iter().nth(middle)
}

impl Sound {
    fn note_growth(&mut self, of: &Usage) {
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

    fn violations(rss: impl Fn(u64) -> u64) -> Vec<String> {
        let began = Instant::now();
        let at = |look: u64| began + SAMPLE_EVERY.mul_f64(look as f64 + 0.5);
        let samples: Vec<Sample> =
            (0..100).map(|look| Sample { at: at(look), rss: rss(look), files: 50 }).collect();
        let mut sound = Sound::default();
        sound.note_growth(&Usage::of(&samples, began, SAMPLE_EVERY * 100).unwrap());
        sound.violations
    }

    #[test]
    fn what_the_second_calm_uses_beyond_the_first_is_a_violation_and_a_peak_is_none() {
        assert_eq!(violations(|look| if look == 98 { 900 } else { 100 }), Vec::<String>::new());
        let growing = violations(|look| 100 + 2 * look);
        assert_eq!(growing, ["resident memory grew by 37 % while the load was the same"]);
    }
}
