//! The report on a trace as tables for a terminal.
use std::sync::Arc;

use super::cards::OnCards;
use super::plays::{FIGURES, Figure};
use super::report::{NeverStarted, Run, TraceReport, Waits};
use crate::report::table::{REASONS_MAX, columns};

/// The heads of the table of jobs that never started.
pub(super) const NEVER_STARTED: [&str; 4] = ["NEVER STARTED", "CONF", "SUCH AS", "WHY"];

impl TraceReport {
    /// The report as tables, in which runs stand side by side.
    pub fn to_table(&self) -> String {
        let parts = [
            self.runs_table(),
            self.spread_table(),
            self.utilisation_table(),
            self.waits_table("SIZE", &|run| run.waits_by_size.clone()),
            self.waits_table("QUEUE", &|run| run.waits_by_queue.clone()),
            self.queues_table(),
            self.first_waits(),
            columns(&NEVER_STARTED, self.never_started_rows()),
            self.on_cards(),
        ];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("\n")
    }

    fn runs_table(&self) -> String {
        let heads =
            ["CONF", "STARTED", "NEVER", "WAIT P50", "P90", "P99", "MAX", "EVICTED", "WORK LOST", "LASTED"];
        let row = |run: &Run| {
            let waits = &run.waits;
            let mut cells = vec![run.conf.clone(), waits.started.to_string(), waits.never.to_string()];
            cells.extend(waits.cells());
            cells.extend([run.evictions.pods().to_string(), self.lost(run), duration(run.seconds)]);
            cells
        };
        columns(&heads, self.runs.iter().map(row).collect())
    }

    /// The work that was lost, of the resource.
    pub(super) fn lost(&self, run: &Run) -> String {
        format!("{} h of {}", self.amount(run.lost_hours()), self.resource)
    }

    /// Over several traces and seeds: a row for each figure, a column for each configuration.
    pub(super) fn spread_rows(&self) -> Vec<Vec<String>> {
        let cell = |figure: &Figure, run: &Run| {
            let told = run.spread.get(figure.name).map(|spread| {
                [spread.min, spread.median, spread.max].map(|each| figure.text(each)).join(", ")
            });
            told.unwrap_or_else(|| "-".to_owned())
        };
        let figures =
            FIGURES.iter().filter(|figure| self.runs.iter().any(|run| run.spread.contains_key(figure.name)));
        let row = |figure: &Figure| {
            let cells = self.runs.iter().map(|run| cell(figure, run));
            std::iter::once(figure.label.to_owned()).chain(cells).collect()
        };
        figures.map(row).collect()
    }

    fn spread_table(&self) -> String {
        let rows = self.spread_rows();
        if rows.is_empty() {
            return String::new();
        }
        let of = format!("OF {} PLAYS", self.plays);
        let confs = self.runs.iter().map(|run| format!("MIN, MEDIAN, MAX ({})", run.conf));
        let heads: Vec<String> = std::iter::once(of).chain(confs).collect();
        columns(&heads.iter().map(String::as_str).collect::<Vec<_>>(), rows)
    }

    fn utilisation_table(&self) -> String {
        let (heads, rows) = self.utilisation();
        columns(&heads.iter().map(String::as_str).collect::<Vec<_>>(), rows)
    }

    /// Heads and rows of how much was in use under each configuration.
    pub(super) fn utilisation(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut heads = vec!["RESOURCE".to_owned(), "CAPACITY".to_owned()];
        heads.extend(self.runs.iter().map(|run| format!("MEAN, PEAK ({})", run.conf)));
        let row = |(name, whole): (&Arc<str>, &f64)| {
            let mut cells = vec![name.to_string(), capacity(name, *whole)];
            let level = |run: &Run| run.utilisation.get(name).copied().unwrap_or_default();
            cells.extend(self.runs.iter().map(|run| levels(level(run).mean, level(run).peak)));
            cells
        };
        let mut rows: Vec<Vec<String>> = self.capacity.iter().map(row).collect();
        let mut fragments = vec![format!("{} in fragments", self.resource), String::new()];
        fragments.extend(self.runs.iter().map(|run| levels(run.fragments.mean, run.fragments.peak)));
        rows.push(fragments);
        (heads, rows)
    }

    /// Jobs that never started, with the most frequent reasons of each configuration.
    pub(super) fn never_started_rows(&self) -> Vec<Vec<String>> {
        let row = |run: &Run, of: &NeverStarted| {
            let why = std::iter::once(of.reason.clone()).chain(of.lack.clone()).collect::<Vec<_>>().join(" ");
            vec![of.jobs.to_string(), run.conf.clone(), of.example.clone(), why]
        };
        let rows = self
            .runs
            .iter()
            .flat_map(|run| run.never_started.iter().take(REASONS_MAX).map(move |of| row(run, of)));
        rows.collect()
    }

    fn waits_table(&self, head: &str, of: &dyn Fn(&Run) -> Vec<(String, Waits)>) -> String {
        let heads = [head, "CONF", "STARTED", "NEVER", "WAIT P50", "P90", "P99", "MAX"];
        let mut rows = Vec::new();
        for (place, (key, _)) in self.runs.first().map(of).unwrap_or_default().iter().enumerate() {
            for run in &self.runs {
                let Some((_, waits)) = of(run).into_iter().nth(place) else { continue };
                let mut cells =
                    vec![key.clone(), run.conf.clone(), waits.started.to_string(), waits.never.to_string()];
                cells.extend(waits.cells());
                rows.push(cells);
            }
        }
        columns(&heads, rows)
    }

    fn queues_table(&self) -> String {
        let of = format!("HAD ({})", self.resource);
        columns(&["QUEUE", "CONF", &of, "DESERVED", "SHORT"], self.queue_rows())
    }

    /// What queues had and deserved, and what they were short of.
    pub(super) fn queue_rows(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        let figure =
            |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| self.amount(figure));
        for name in self.runs.first().into_iter().flat_map(|run| run.queues.keys()) {
            for run in &self.runs {
                let Some(queue) = run.queues.get(name) else { continue };
                let had = self.amount(queue.allocated);
                let figures = [had, figure(queue.deserved), figure(queue.short)];
                rows.push([name.to_string(), run.conf.clone()].into_iter().chain(figures).collect());
            }
        }
        rows
    }

    /// The first waits, a line for each run.
    pub(super) fn first_waits(&self) -> String {
        let line = |run: &Run| format!("{}: {}\n", run.conf, self.first_wait(run));
        self.runs.iter().map(line).collect::<Vec<_>>().concat()
    }

    /// How many pods are on parts of several cards, which a node could not give them.
    pub(super) fn on_cards(&self) -> String {
        let lines = self.runs.iter().filter_map(|run| {
            let OnCards { bound, split } = run.cards.filter(|cards| cards.split > 0)?;
            let resource = &self.resource;
            Some(format!(
                "{}: {split} of {bound} pods with {resource} fit their node, and no single card of it\n",
                run.conf
            ))
        });
        lines.collect()
    }

    /// An amount of the resource.
    pub(super) fn amount(&self, figure: f64) -> String {
        capacity(&self.resource, figure)
    }

    /// How full the cluster was when the first job had to wait.
    pub(super) fn first_wait(&self, run: &Run) -> String {
        let Some(first) = &run.first_wait else { return "no job had to wait".to_owned() };
        let used = first.allocated.get(&self.resource).copied().unwrap_or_default();
        let whole = self.capacity.get(&self.resource).copied().unwrap_or_default();
        format!(
            "the first job to wait is {}, number {} of {}, after {}: {} of {} {} are in use ({})",
            first.job,
            first.arrived,
            self.jobs,
            duration(first.at),
            self.amount(used),
            self.amount(whole),
            self.resource,
            percent(used / whole.max(f64::MIN_POSITIVE)),
        )
    }
}

fn levels(mean: f64, peak: f64) -> String {
    format!("{}, {}", percent(mean), percent(peak))
}

pub(super) fn percent(part: f64) -> String {
    format!("{:.1}%", part * 100.0)
}

/// `12`, `12.5`, `0.25`.
pub(super) fn amount(figure: f64) -> String {
    let text = format!("{figure:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What nodes have of a resource; memory in binary units.
pub(super) fn capacity(name: &str, whole: f64) -> String {
    if name == "memory" || name == "ephemeral-storage" {
        return phalanx_resource::describe_bytes(whole as i64);
    }
    amount(whole)
}

/// `5 s`, `3 min 5 s`, `2 h 30 min`, `4 d 3 h`: two parts at most.
pub(super) fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let units = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let Some(first) = units.iter().position(|(length, _)| whole >= *length) else { return "0 s".to_owned() };
    let (length, name) = units[first];
    let rest = units.get(first + 1).map(|(next, name)| (whole % length / next, *name));
    match rest.filter(|(count, _)| *count > 0) {
        Some((count, next)) => format!("{} {name} {count} {next}", whole / length),
        None => format!("{} {name}", whole / length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_amounts_are_told_for_people() {
        for (seconds, expected) in [
            (0.2, "0 s"),
            (59.6, "1 min"),
            (65.0, "1 min 5 s"),
            (9_000.0, "2 h 30 min"),
            (356_400.0, "4 d 3 h"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
        for (figure, expected) in [(12.0, "12"), (12.5, "12.5"), (0.254, "0.25"), (100.0, "100")] {
            assert_eq!(amount(figure), expected);
        }
    }
}
