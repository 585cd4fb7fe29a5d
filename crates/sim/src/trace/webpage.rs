//! The report on a trace as one page without other files.
use std::sync::Arc;

use phalanx_view::{Section, escape, plain_page, plain_table as table};

use super::plot::{Line, plot};
use super::report::{Run, TraceReport, Waits};
use super::samples::Sample;
use super::table::{amount, duration, percent};

const STYLE: &str = include_str!("page.css");

/// The most queues with a plot of their own: those that had the most.
const QUEUES_MAX: usize = 12;

/// The waits of a run, by what a table groups them.
type WaitsOf = fn(&Run) -> Vec<(String, Waits)>;

impl TraceReport {
    /// The report as a page without links to anything outside, in the look of the page of a cluster.
    pub fn to_html(&self) -> String {
        let whole = self.amount(self.capacity.get(&self.resource).copied().unwrap_or_default());
        let title = format!("Phalanx trace: {} jobs on {whole} {}", self.jobs, self.resource);
        let parts = [
            ("runs", "Configurations", self.runs_html()),
            ("plays", "All plays: least, median, most", self.plays_html()),
            ("never", "Jobs that never started", self.never_started_html()),
            ("use", "Use", self.utilisation_html() + &self.utilisation_plots()),
            ("waiting", "Waiting", self.waiting_plot() + &self.waits_html()),
            ("queues", "Queues: what they have and deserve", self.queues_html() + &self.queue_plots()),
            ("fragments", "Fragments", self.fragments_plot()),
            ("evictions", "Evictions", self.evictions_html()),
        ];
        let sections = parts.into_iter().filter(|(_, _, body)| !body.is_empty());
        let sections = sections.map(|(id, title, body)| Section { id, title: title.to_owned(), body });
        plain_page(&title, STYLE, &sections.collect::<Vec<_>>())
    }

    fn never_started_html(&self) -> String {
        let rows = self.never_started_rows();
        if rows.is_empty() {
            return String::new();
        }
        table(&["Jobs", "Configuration", "Such as", "Why"], rows.into_iter())
    }

    fn utilisation_html(&self) -> String {
        let (mut heads, rows) = self.utilisation();
        for (head, name) in heads.iter_mut().zip(["Resource", "Capacity"]) {
            name.clone_into(head);
        }
        let heads: Vec<String> = heads.iter().map(|head| head.replace("MEAN, PEAK", "Mean, peak")).collect();
        let cards = self.on_cards();
        let cards: Vec<String> = cards.lines().map(|line| format!("<p>{}</p>\n", escape(line))).collect();
        table(&heads.iter().map(String::as_str).collect::<Vec<_>>(), rows.into_iter()) + &cards.concat()
    }

    fn plays_html(&self) -> String {
        let rows = self.spread_rows();
        if rows.is_empty() {
            return String::new();
        }
        let confs = self.runs.iter().map(|run| run.conf.as_str());
        table(&std::iter::once("Figure").chain(confs).collect::<Vec<_>>(), rows.into_iter())
    }

    fn queues_html(&self) -> String {
        let had = format!("Had ({})", self.resource);
        table(&["Queue", "Configuration", &had, "Deserved", "Short"], self.queue_rows().into_iter())
    }

    fn evictions_html(&self) -> String {
        let rows = self.runs.iter().flat_map(|run| {
            run.evictions
                .by_action
                .iter()
                .map(|(action, pods)| vec![run.conf.clone(), (*action).to_owned(), pods.to_string()])
        });
        let rows: Vec<Vec<String>> = rows.collect();
        if rows.is_empty() {
            return "<p>No pod was evicted.</p>\n".to_owned();
        }
        let heads = ["Configuration", "Action", "Evicted pods"];
        table(&heads, rows.into_iter()) + &self.evictions_plot()
    }

    fn evictions_plot(&self) -> String {
        let evicted = self.lines(|sample| sample.evicted as f64);
        plot("Pods evicted so far", &evicted, &amount, &duration)
    }

    fn runs_html(&self) -> String {
        let rows = self.runs.iter().map(|run| {
            let used = run.utilisation.get(&self.resource).copied().unwrap_or_default();
            vec![
                run.conf.clone(),
                percent(used.mean),
                percent(used.peak),
                percent(run.fragments.mean),
                run.waits.started.to_string(),
                run.waits.never.to_string(),
                run.waits.cell(run.waits.p50),
                run.waits.cell(run.waits.p99),
                run.waits.cell(run.waits.max),
                run.evictions.pods().to_string(),
                self.lost(run),
                self.first_wait(run),
            ]
        });
        let heads = [
            "Configuration",
            "Mean use while jobs arrived",
            "Peak",
            "In fragments",
            "Started",
            "Never",
            "Wait p50",
            "p99",
            "Max",
            "Evicted",
            "Work lost",
            "First wait",
        ];
        table(&heads, rows)
    }

    fn waits_html(&self) -> String {
        let kinds: [(&str, &str, WaitsOf); 2] = [
            ("Waiting by size of the job", "Pods", |run| run.waits_by_size.clone()),
            ("Waiting by queue", "Queue", |run| run.waits_by_queue.clone()),
        ];
        let mut html = String::new();
        for (title, key, of) in kinds {
            let heads = [key, "Configuration", "Started", "Never", "p50", "p90", "p99", "Max"];
            let keys: Vec<String> =
                self.runs.first().map(of).unwrap_or_default().into_iter().map(|(key, _)| key).collect();
            let cells = keys.iter().enumerate().flat_map(|(place, key)| {
                self.runs.iter().filter_map(move |run| {
                    let (_, waits) = of(run).into_iter().nth(place)?;
                    let mut cells = vec![
                        key.clone(),
                        run.conf.clone(),
                        waits.started.to_string(),
                        waits.never.to_string(),
                    ];
                    cells.extend(waits.cells());
                    Some(cells)
                })
            });
            html.extend([format!("<h3>{title}</h3>\n"), table(&heads, cells)]);
        }
        html
    }

    /// A line for each run.
    fn lines(&self, of: impl Fn(&Sample) -> f64) -> Vec<Line> {
        let line = |(colour, run): (usize, &Run)| Line {
            colour,
            dashed: false,
            name: run.conf.clone(),
            points: run.samples.iter().map(|sample| (sample.at, of(sample))).collect(),
        };
        self.runs.iter().enumerate().map(line).collect()
    }

    fn utilisation_plots(&self) -> String {
        let mut resources: Vec<(&Arc<str>, f64)> =
            self.capacity.iter().map(|(name, whole)| (name, *whole)).collect();
        resources.sort_by_key(|(name, _)| **name != self.resource);
        let plots = resources.into_iter().map(|(name, whole)| {
            let part = |sample: &Sample| sample.allocated.get(name).copied().unwrap_or_default() / whole;
            plot(&format!("{name} in use"), &self.lines(part), &percent, &duration)
        });
        format!("<div class=\"plots\">{}</div>\n", plots.collect::<String>())
    }

    fn waiting_plot(&self) -> String {
        let lines = self.lines(|sample| sample.waiting as f64);
        plot("Jobs that wait", &lines, &amount, &duration)
    }

    fn fragments_plot(&self) -> String {
        let whole = self.capacity.get(&self.resource).copied().unwrap_or(1.0);
        let lines = self.lines(|sample| sample.fragments / whole);
        let title = format!("{} that is free and no use to the typical task", self.resource);
        plot(&title, &lines, &percent, &duration)
    }

    fn queue_plots(&self) -> String {
        let Some(first) = self.runs.first() else { return String::new() };
        let mut names: Vec<(&Arc<str>, f64)> =
            first.queues.iter().map(|(name, queue)| (name, queue.allocated)).collect();
        names.retain(|(name, _)| {
            self.runs.iter().any(|run| run.queues.get(*name).is_some_and(|it| it.allocated > 0.0))
        });
        names.sort_by(|a, b| b.1.total_cmp(&a.1));
        let left = names.len().saturating_sub(QUEUES_MAX);
        let plots = names.into_iter().take(QUEUES_MAX).map(|(name, _)| {
            let of = |sample: &Sample| sample.queues.get(name).copied().unwrap_or_default();
            let mut lines = self.lines(|sample| of(sample).allocated);
            let deserved = self.lines(|sample| of(sample).deserved.unwrap_or_default());
            let deserved = deserved.into_iter().filter(|line| line.points.iter().any(|(_, of)| *of > 0.0));
            lines.extend(deserved.map(|line| Line {
                dashed: true,
                name: format!("{}: deserved", line.name),
                ..line
            }));
            plot(&format!("{name}: {}", self.resource), &lines, &|figure| self.amount(figure), &duration)
        });
        let plots: String = plots.collect();
        let more = if left == 0 {
            String::new()
        } else {
            format!("<p>{left} queues that had less are left out.</p>")
        };
        format!("<div class=\"plots\">{plots}</div>{more}\n")
    }
}
