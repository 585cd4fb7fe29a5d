//! Figures of several runs of one configuration: the least, the median and the most.
use serde::Serialize;

use super::report::Run;
use super::table::{amount, duration, percent};

/// A figure over several runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MinMedianMax {
    /// The least.
    pub min: f64,
    /// The median: of an even number of runs the lower one in the middle, a figure that occurred.
    pub median: f64,
    /// The most.
    pub max: f64,
}

/// How a figure is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Part,
    Seconds,
    Count,
}

/// A figure of a run.
pub(super) struct Figure {
    /// In JSON.
    pub(super) name: &'static str,
    /// For people.
    pub(super) label: &'static str,
    unit: Unit,
    of: fn(&Run) -> Option<f64>,
}

/// The figures that are told of several runs.
pub(super) const FIGURES: [Figure; 14] = [
    Figure {
        name: "firstWaitUse",
        label: "use at the first wait",
        unit: Unit::Part,
        of: Run::first_wait_use,
    },
    Figure { name: "useMean", label: "use, mean", unit: Unit::Part, of: |run| Some(run.used().mean) },
    Figure { name: "usePeak", label: "use, peak", unit: Unit::Part, of: |run| Some(run.used().peak) },
    Figure {
        name: "fragmentsMean",
        label: "fragments, mean",
        unit: Unit::Part,
        of: |run| Some(run.fragments.mean),
    },
    Figure {
        name: "fragmentsPeak",
        label: "fragments, peak",
        unit: Unit::Part,
        of: |run| Some(run.fragments.peak),
    },
    Figure { name: "started", label: "started", unit: Unit::Count, of: |run| Some(run.started as f64) },
    Figure {
        name: "never",
        label: "never started",
        unit: Unit::Count,
        of: |run| Some(run.waits.never as f64),
    },
    Figure { name: "waitP50", label: "wait p50", unit: Unit::Seconds, of: |run| Some(run.waits.p50) },
    Figure { name: "waitP90", label: "wait p90", unit: Unit::Seconds, of: |run| Some(run.waits.p90) },
    Figure { name: "waitP99", label: "wait p99", unit: Unit::Seconds, of: |run| Some(run.waits.p99) },
    Figure { name: "waitMax", label: "wait max", unit: Unit::Seconds, of: |run| Some(run.waits.max) },
    Figure {
        name: "splitOverCards",
        label: "pods on parts of several cards",
        unit: Unit::Count,
        of: |run| Some(run.cards?.split as f64),
    },
    Figure {
        name: "evicted",
        label: "evicted pods",
        unit: Unit::Count,
        of: |run| Some(run.evictions.pods() as f64),
    },
    Figure { name: "lostHours", label: "hours lost", unit: Unit::Count, of: |run| Some(run.lost_hours()) },
];

impl Figure {
    /// `1 min 5 s`, `93.8%`, `12`.
    pub(super) fn text(&self, figure: f64) -> String {
        match self.unit {
            Unit::Part => percent(figure),
            Unit::Seconds => duration(figure),
            Unit::Count => amount(figure),
        }
    }

    /// Over several runs; nothing where no run has it.
    pub(super) fn over(&self, runs: &[Run]) -> Option<MinMedianMax> {
        MinMedianMax::of(runs.iter().filter_map(self.of).collect())
    }
}

impl MinMedianMax {
    pub(super) fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let median = *figures.get(figures.len().saturating_sub(1) / 2)?;
        Some(Self { min: *figures.first()?, median, max: *figures.last()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_a_figure_that_occurred() {
        for (figures, expected) in
            [(vec![3.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 3.0], 2.0), (vec![5.0], 5.0)]
        {
            assert_eq!(
                MinMedianMax::of(figures.clone()).map(|spread| spread.median),
                Some(expected),
                "{figures:?}"
            );
        }
        assert_eq!(MinMedianMax::of(Vec::new()), None);
    }
}
