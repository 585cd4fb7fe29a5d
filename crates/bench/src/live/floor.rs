//! `floor`: gangs through a real API server, beside the bare client loop and kube-scheduler.
//!
//! Contestants take turns, each on a new control plane with equal nodes. The *floor* is a plain client that creates the
//! pods and binds them itself. Clocks start at the first create and stop when the last bind is seen. With several
//! rounds the figures are those of each contestant's median run, and `runs` has all of them.
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::{Contestant, Groups, Load, Measured};
use crate::chart::{Bar, Chart, Panel};
use crate::{Size, machine};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Requests in flight of the client that creates the pods, and of the bare loop that binds them.
    #[arg(long, default_value_t = 64, allow_negative_numbers = true, value_parser = crate::count)]
    in_flight: usize,
    /// Leave kube-scheduler out.
    #[arg(long)]
    without_kube_scheduler: bool,
    /// Rounds; contestants take turns in each.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = crate::count)]
    rounds: usize,
    /// Fail when Phalanx takes more than so many times as long as the bare loop, each in its fastest round.
    #[arg(long, value_parser = crate::above_0)]
    max_ratio: Option<f64>,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    say!(
        "{} pods in gangs of {size} on {nodes} nodes, {} requests in flight",
        gangs * size,
        options.in_flight
    );
    let mut runs = Runs::default();
    for round in 1..=options.rounds.max(1) {
        if options.rounds > 1 {
            say!("round {round}:");
        }
        runs.floor.push(run_one(Contestant::Floor, options).await?);
        runs.ours.push(run_one(Contestant::Phalanx, options).await?);
        if !options.without_kube_scheduler {
            runs.kube.push(run_one(Contestant::KubeScheduler, options).await?);
        }
    }
    runs.figures(options).context("no round")
}

/// The runs of all rounds, by contestant.
#[derive(Debug, Default)]
struct Runs {
    floor: Vec<Measured>,
    ours: Vec<Measured>,
    kube: Vec<Measured>,
}

impl Runs {
    fn figures(&self, options: &Options) -> Option<Value> {
        let Size { nodes, gangs, size } = options.size;
        let (floor, ours, kube) = (median(&self.floor)?, median(&self.ours)?, median(&self.kube));
        // The ratios of single rounds: a machine that is slow for a while is slow for both.
        let seconds = self.ratios(|run| run.seconds);
        let processor = self.ratios(|run| run.cpu.total());
        let all = |runs: &[Measured]| runs.iter().map(Measured::json).collect::<Vec<_>>();
        Some(json!({
            "name": "floor", "nodes": nodes, "gangs": gangs, "size": size, "pods": gangs * size,
            "cores": machine::cores(), "rounds": self.ours.len(),
            "ratios": seconds, "ratioToFloor": middle(&seconds)?, "processorRatioToFloor": middle(&processor)?,
            "fastestRatioToFloor": fastest(&self.ours)? / fastest(&self.floor)?,
            "seconds": ours.seconds, "peakRssBytes": ours.peak_rss, "createdAfterSeconds": ours.created,
            "firstBindAfterSeconds": ours.first_bind,
            "lastCreateToFirstBindSeconds": ours.first_bind - ours.created, "writesPerPod": ours.writes_per_pod(),
            "gangLastCreateToLastBindP50Seconds": ours.gang_waits.at(0.5) / 1e3,
            "floorSeconds": floor.seconds, "floorCreatedAfterSeconds": floor.created,
            "kubeSchedulerSeconds": kube.map(|kube| kube.seconds),
            "kubeSchedulerPeakRssBytes": kube.map(|kube| kube.peak_rss),
            "chart": chart(options, floor, ours, kube),
            "phalanx": ours.json(), "floor": floor.json(), "kubeScheduler": kube.map(Measured::json),
            "runs": {
                "floor": all(&self.floor), "phalanx": all(&self.ours), "kubeScheduler": all(&self.kube),
            },
        }))
    }

    /// The ratio of Phalanx to the floor in each round.
    fn ratios(&self, of: fn(&Measured) -> f64) -> Vec<f64> {
        self.floor.iter().zip(&self.ours).map(|(floor, ours)| of(ours) / of(floor)).collect()
    }
}

/// Whether the ratio is within `--max-ratio`.
pub(super) fn check(options: &Options, figures: &Value) -> Result<()> {
    let Some(most) = options.max_ratio else { return Ok(()) };
    let ratio = figures["fastestRatioToFloor"].as_f64().context("no fastestRatioToFloor")?;
    ensure!(ratio <= most, "{ratio:.2} times the floor, more than --max-ratio {most}");
    Ok(())
}

/// The run in the middle by its time; of an even number the faster of the two.
fn median(runs: &[Measured]) -> Option<&Measured> {
    let mut runs: Vec<&Measured> = runs.iter().collect();
    runs.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    runs.get(runs.len().checked_sub(1)? / 2).copied()
}

/// The figure in the middle; of an even number the smaller of the two.
fn middle(figures: &[f64]) -> Option<f64> {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().checked_sub(1)? / 2).copied()
}

fn fastest(runs: &[Measured]) -> Option<f64> {
    runs.iter().map(|run| run.seconds).min_by(f64::total_cmp)
}

async fn run_one(contestant: Contestant, options: &Options) -> Result<Measured> {
    contestant.run(options.load(contestant), &options.scheduler_args).await
}

impl Options {
    fn load(&self, contestant: Contestant) -> Load {
        let groups = if contestant == Contestant::Phalanx { Groups::Gangs } else { Groups::None };
        Load { size: self.size, groups, in_flight: self.in_flight, rate: None }
    }
}

fn chart(options: &Options, floor: &Measured, ours: &Measured, kube: Option<&Measured>) -> Chart {
    let Size { nodes, gangs, size } = options.size;
    let bars = |of: fn(&Measured) -> f64| {
        let mut bars = vec![Bar::other("bare loop", of(floor)), Bar::ours("Phalanx", of(ours))];
        bars.extend(kube.map(|kube| Bar::other("kube-scheduler, no gangs", of(kube))));
        bars
    };
    Chart {
        title: format!("{} pods in gangs of {size} on {nodes} nodes, end to end", gangs * size),
        panels: vec![
            Panel::new("first create to last bind", "seconds", bars(|run| run.seconds)),
            Panel::new("processor time of all that took part", "seconds", bars(|run| run.cpu.total())),
            Panel::new("API writes a pod until the last bind", "writes", bars(Measured::writes_per_pod)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::super::latency::Times;
    use super::super::usage::Cpu;
    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_ratio_above_the_bound_fails() {
        let check = |args: &[&str], ratio: f64| {
            let options = Cli::parse_from(["floor"].iter().chain(args)).options;
            super::check(&options, &json!({"fastestRatioToFloor": ratio})).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[], 9.0), Ok(()));
        assert_eq!(check(&["--max-ratio", "1.6"], 1.6), Ok(()));
        let told = "1.61 times the floor, more than --max-ratio 1.6";
        assert_eq!(check(&["--max-ratio", "1.6"], 1.61), Err(told.into()));
    }

    fn run(seconds: f64) -> Measured {
        Measured {
            seconds,
            created: seconds / 2.0,
            first_bind: seconds / 4.0,
            gang_waits: Times::new(Vec::new()),
            peak_rss: 0,
            cpu: Cpu { plane: seconds, ..Cpu::default() },
            writes: BTreeMap::new(),
            pods: 1,
        }
    }

    #[test]
    fn of_several_rounds_the_median_counts() {
        let options = Cli::parse_from(["floor", "--rounds", "3"]).options;
        let runs = |seconds: &[f64]| seconds.iter().copied().map(run).collect();
        let runs = Runs {
            floor: runs(&[10.0, 20.0, 12.0]),
            ours: runs(&[11.0, 30.0, 12.0]),
            kube: runs(&[40.0, 50.0, 30.0]),
        };
        let figures = runs.figures(&options).unwrap();
        let all = |of: &str| -> Vec<f64> {
            let runs = figures["runs"][of].as_array().unwrap().iter();
            runs.map(|run| run["seconds"].as_f64().unwrap()).collect()
        };
        assert_eq!(figures["rounds"], 3);
        assert_eq!(all("phalanx"), [11.0, 30.0, 12.0]);
        assert_eq!(all("floor"), [10.0, 20.0, 12.0]);
        assert_eq!(all("kubeScheduler"), [40.0, 50.0, 30.0]);
        assert_eq!(figures["ratios"], json!([1.1, 1.5, 1.0]));
        let medians =
            ["seconds", "floorSeconds", "kubeSchedulerSeconds", "ratioToFloor", "fastestRatioToFloor"];
        assert_eq!(medians.map(|it| figures[it].as_f64().unwrap()), [12.0, 12.0, 40.0, 1.1, 1.1]);
        assert_eq!(figures["chart"]["panels"][0]["bars"][1]["value"], 12.0);
    }
}
