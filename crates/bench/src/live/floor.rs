//! `floor`: gangs through a real API server, beside the bare client loop and kube-scheduler.
//!
//! Contestants take turns, each on a new control plane with equal nodes. The *floor* is a plain client that creates the
//! pods and binds them itself. Clocks start at the first create and stop when the last bind is seen. With several
//! rounds the figures are those of each contestant's fastest one, since all else is the machine's noise.
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
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Run Phalanx over a pool of HTTP/1.1 connections too.
    #[arg(long)]
    http1_too: bool,
    /// Leave kube-scheduler out.
    #[arg(long)]
    without_kube_scheduler: bool,
    /// Rounds; contestants take turns in each.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Fail when Phalanx takes more than so many times as long as the bare loop, each in its fastest round.
    #[arg(long)]
    max_ratio: Option<f64>,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    let pods = gangs * size;
    say!("{pods} pods in gangs of {size} on {nodes} nodes, {} requests in flight", options.in_flight);
    let (mut floors, mut ours, mut kubes, mut pools) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds.max(1) {
        floors.push(run_one(Contestant::Floor, options).await?);
        ours.push(run_one(Contestant::Phalanx, options).await?);
        if options.http1_too {
            say!("HTTP/1.1:");
            let args: Vec<String> =
                options.scheduler_args.iter().cloned().chain(["--http2=false".to_owned()]).collect();
            pools.push(Contestant::Phalanx.run(options.load(Contestant::Phalanx), &args).await?);
        }
        if !options.without_kube_scheduler {
            kubes.push(run_one(Contestant::KubeScheduler, options).await?);
        }
    }
    let ratios: Vec<f64> =
        floors.iter().zip(&ours).map(|(floor, ours)| ours.seconds / floor.seconds).collect();
    let floor = fastest(&floors).context("no round")?;
    let best = fastest(&ours).context("no round")?;
    let kube = fastest(&kubes);
    Ok(json!({
        "name": "floor", "nodes": nodes, "gangs": gangs, "size": size, "pods": pods, "cores": machine::cores(),
        "rounds": options.rounds, "ratios": ratios,
        "seconds": best.seconds, "peakRssBytes": best.peak_rss, "createdAfterSeconds": best.created,
        "firstBindAfterSeconds": best.first_bind, "lastCreateToFirstBindSeconds": best.first_bind - best.created,
        "writesPerPod": best.writes_per_pod(),
        "floorSeconds": floor.seconds, "floorCreatedAfterSeconds": floor.created,
        "ratioToFloor": best.seconds / floor.seconds, "processorRatioToFloor": best.cpu.total() / floor.cpu.total(),
        "kubeSchedulerSeconds": kube.map(|kube| kube.seconds),
        "kubeSchedulerPeakRssBytes": kube.map(|kube| kube.peak_rss),
        "phalanxOverHttp1": fastest(&pools).map(Measured::json),
        "chart": chart(options, floor, best, kube),
        "phalanx": best.json(), "floor": floor.json(), "kubeScheduler": kube.map(Measured::json),
    }))
}

/// Whether the figures are as good as was asked for.
pub(super) fn check(options: &Options, figures: &Value) -> Result<()> {
    let Some(most) = options.max_ratio else { return Ok(()) };
    let ratio = figures["ratioToFloor"].as_f64().context("no ratioToFloor")?;
    ensure!(ratio <= most, "{ratio:.2} times the floor, more than --max-ratio {most}");
    Ok(())
}

fn fastest(runs: &[Measured]) -> Option<&Measured> {
    runs.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds))
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
    use clap::Parser;

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
            super::check(&options, &json!({"ratioToFloor": ratio})).map_err(|error| error.to_string())
        };
        assert_eq!(check(&[], 9.0), Ok(()));
        assert_eq!(check(&["--max-ratio", "1.6"], 1.6), Ok(()));
        let told = "1.61 times the floor, more than --max-ratio 1.6";
        assert_eq!(check(&["--max-ratio", "1.6"], 1.61), Err(told.into()));
    }
}
