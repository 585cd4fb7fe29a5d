//! What came of playing a trace.
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::cards::OnCards;
use super::plays::MinMedianMax;
use super::samples::Sample;
use super::table::duration;

/// What came of playing a trace, for each configuration. Serialised, it is the object that `-o json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceReport {
    /// The resource of queues, fragments and the first wait.
    pub resource: Arc<str>,
    /// What nodes have, in cores, bytes and devices.
    pub capacity: BTreeMap<Arc<str>, f64>,
    /// Jobs of the trace.
    pub jobs: usize,
    /// How often each configuration played: traces times seeds.
    pub plays: usize,
    /// A run for each configuration: that of the first trace and seed.
    pub runs: Vec<Run>,
}

/// A trace under one configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The configuration.
    pub conf: String,
    /// Jobs that started: their minimum of pods was bound.
    pub started: usize,
    /// Jobs that finished.
    pub finished: usize,
    /// Virtual seconds until nothing was left to do.
    pub seconds: f64,
    /// Cycles of the scheduler.
    pub cycles: u32,
    /// Used parts of what nodes have.
    pub utilisation: BTreeMap<Arc<str>, Level>,
    /// What was free of the resource in fragments, as a part of what nodes have.
    pub fragments: Level,
    /// The first job that did not start in the cycle of its arrival; missing if all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_wait: Option<FirstWait>,
    /// Waiting of all jobs.
    pub waits: Waits,
    /// Why jobs never started, the most frequent reason first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub never_started: Vec<NeverStarted>,
    /// Waiting by the size of jobs, the smallest first.
    #[serde(serialize_with = "as_map")]
    pub waits_by_size: Vec<(String, Waits)>,
    /// Waiting by queue.
    #[serde(serialize_with = "as_map")]
    pub waits_by_queue: Vec<(String, Waits)>,
    /// Queues: the resource.
    pub queues: BTreeMap<Arc<str>, Fairness>,
    /// Evictions.
    pub evictions: Evictions,
    /// Where the resource is a device: its cards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cards: Option<OnCards>,
    /// Over all traces and seeds, by figure; empty for one play.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub spread: BTreeMap<&'static str, MinMedianMax>,
    /// The states of the cluster, at equal intervals.
    pub samples: Vec<Sample>,
    #[serde(skip)]
    pub(super) capacity: BTreeMap<Arc<str>, f64>,
    #[serde(skip)]
    pub(super) resource: Arc<str>,
    #[serde(skip)]
    pub(super) jobs: usize,
}

/// Keys in their own order.
fn as_map<S: Serializer>(waits: &[(String, Waits)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(waits.iter().map(|(key, waits)| (key, waits)))
}

/// A part of a whole over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Level {
    /// The mean over the samples while jobs arrived.
    pub mean: f64,
    /// The largest sample.
    pub peak: f64,
}

/// Jobs that never started, for the same kind of reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NeverStarted {
    /// How many jobs.
    pub jobs: usize,
    /// The first of them by name.
    pub example: String,
    /// Its reason.
    pub reason: String,
    /// What the nearest node lacks for it, if nodes lack room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<String>,
}

/// The first job that had to wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstWait {
    /// Its name.
    pub job: String,
    /// Jobs that had arrived, this one included.
    pub arrived: usize,
    /// Seconds since the begin.
    pub at: f64,
    /// What was used then, in cores, bytes and devices.
    pub allocated: BTreeMap<Arc<str>, f64>,
}

/// How long jobs waited, in seconds from their arrival until their minimum of pods was bound. Percentiles are over the
/// jobs that started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Waits {
    /// Jobs that started.
    pub started: usize,
    /// Jobs that never did.
    pub never: usize,
    /// Half of the jobs waited no longer.
    pub p50: f64,
    /// 90 of 100.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Waits {
    /// The columns of tables: how long half, 90 and 99 of 100 and all waited at the most.
    pub(super) fn cells(&self) -> [String; 4] {
        [self.p50, self.p90, self.p99, self.max].map(|seconds| self.cell(seconds))
    }

    /// A time; nothing where no job started.
    pub(super) fn cell(&self, seconds: f64) -> String {
        if self.started == 0 { "-".to_owned() } else { duration(seconds) }
    }

    /// From the waiting times of jobs that started, and the number of others.
    pub(super) fn of(mut waits: Vec<f64>, never: usize) -> Self {
        waits.sort_by(f64::total_cmp);
        // The nearest rank: the least value that so many of a hundred do not exceed.
        let percentile = |percent: usize| {
            let rank = (waits.len() * percent).div_ceil(100);
            waits.get(rank.saturating_sub(1)).copied().unwrap_or_default()
        };
        let [p50, p90, p99, max] = [50, 90, 99, 100].map(percentile);
        Self { started: waits.len(), never, p50, p90, p99, max }
    }
}

/// What a queue had of the resource and what it deserved, as means over the samples while jobs arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fairness {
    /// It had.
    pub allocated: f64,
    /// It deserved, where a plugin computes that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<f64>,
    /// It lacked, of what it deserved and its jobs requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short: Option<f64>,
}

/// Evictions of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evictions {
    /// Evicted pods, by action.
    pub by_action: BTreeMap<&'static str, usize>,
    /// What evicted pods of the trace had used since they were bound, all of which they do again: core hours, byte
    /// hours, device hours.
    pub lost_hours: BTreeMap<Arc<str>, f64>,
}

impl Run {
    /// The used part of the resource.
    pub(super) fn used(&self) -> Level {
        self.utilisation.get(&self.resource).copied().unwrap_or_default()
    }

    /// The used part of the resource when the first job had to wait.
    pub(super) fn first_wait_use(&self) -> Option<f64> {
        let whole = self.capacity.get(&self.resource).filter(|whole| **whole > 0.0)?;
        Some(self.first_wait.as_ref()?.allocated.get(&self.resource)? / whole)
    }

    /// The hours of the resource that were lost.
    pub(super) fn lost_hours(&self) -> f64 {
        self.evictions.lost_hours.get(&self.resource).copied().unwrap_or_default()
    }
}

impl Evictions {
    /// Evicted pods.
    pub fn pods(&self) -> usize {
        self.by_action.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occurred() {
        let waits = Waits::of((1..=200).rev().map(f64::from).collect(), 3);
        assert_eq!((waits.p50, waits.p90, waits.p99, waits.max), (100.0, 180.0, 198.0, 200.0));
        assert_eq!((waits.started, waits.never), (200, 3));
        assert_eq!(Waits::of(vec![7.0], 0).p50, 7.0);
        assert_eq!(Waits::of(Vec::new(), 2).max, 0.0);
    }
}
