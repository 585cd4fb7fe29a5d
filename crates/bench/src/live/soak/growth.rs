//! What a process that stays uses more at the end than before.
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::usage::{open_files, rss};
use super::faults::{STAGES, Stage};

/// Of so many looks one is printed.
const TOLD_EACH: usize = 6;
/// The use at the end of a calm stage is the median of so many samples.
const LAST_SAMPLES: usize = 6;
/// Memory, or open files, by which the second calm may exceed the first, in percent;
const GROWTH_MAX: f64 = 25.0;
/// and in any case, as a small process allocates and connects in steps: so many bytes,
const MORE_BYTES: f64 = 16e6;
/// and so many files.
const MORE_FILES: f64 = 10.0;

/// What a process used at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    at: Instant,
    rss: u64,
    files: usize,
}

impl Sample {
    /// Now, of the process with this number.
    pub(super) fn of(pid: u32) -> Self {
        Self { at: Instant::now(), rss: rss(pid), files: open_files(pid) }
    }
}

/// What a process that stays used at the end of the calm before the last cuts and holds, and of the calm after them.
pub(super) struct Usage {
    before: Sample,
    after: Sample,
    /// One of [`TOLD_EACH`] looks.
    series: Vec<Sample>,
}

impl Usage {
    /// `None` without samples in both calm stages.
    pub(super) fn of(samples: &[Sample], began: Instant, duration: Duration) -> Option<Self> {
        let calms = STAGES.iter().filter(|(stage, _)| *stage == Stage::Calm);
        let mut at_ends = calms.map(|(_, share)| use_before(samples, began + duration.mul_f64(*share)));
        let (before, after) = (at_ends.next()??, at_ends.next()??);
        Some(Self { before, after, series: samples.iter().step_by(TOLD_EACH).copied().collect() })
    }

    /// What grew too much.
    pub(super) fn violations(&self, process: &str) -> Vec<String> {
        let figures = [
            ("resident memory", self.before.rss as f64, self.after.rss as f64, MORE_BYTES),
            ("open files", self.before.files as f64, self.after.files as f64, MORE_FILES),
        ];
        let grown = figures.into_iter().filter_map(|(what, before, after, more)| {
            let percent = 100.0 * (after - before) / before.max(1.0);
            let grown = percent > GROWTH_MAX && after - before > more;
            grown.then(|| {
                format!("{what} of the {process} grew by {percent:.0} % while the load was the same")
            })
        });
        grown.collect()
    }

    pub(super) fn json(&self) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(megabytes: impl Fn(u64) -> u64) -> Vec<String> {
        let (began, every) = (Instant::now(), Duration::from_secs(5));
        let at = |look: u64| began + every.mul_f64(look as f64 + 0.5);
        let sample = |look: u64| Sample { at: at(look), rss: megabytes(look) * 1_000_000, files: 50 };
        let samples: Vec<Sample> = (0..100).map(sample).collect();
        Usage::of(&samples, began, every * 100).unwrap().violations("scheduler")
    }

    #[test]
    fn what_the_second_calm_uses_beyond_the_first_is_a_violation_and_a_peak_is_none() {
        assert_eq!(violations(|look| if look == 98 { 900 } else { 100 }), Vec::<String>::new());
        let growing = violations(|look| 100 + 2 * look);
        assert_eq!(growing, ["resident memory of the scheduler grew by 37 % while the load was the same"]);
    }

    #[test]
    fn a_small_process_may_grow_by_a_few_megabytes() {
        assert_eq!(violations(|look| 10 + look / 10), Vec::<String>::new());
    }
}
