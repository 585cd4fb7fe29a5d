//! `shapes`: the same number of pods as many small gangs and as few large ones, with and without gangs, with a client
//! that is limited to so many requests a second and with one that is not.
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use super::{Contestant, Groups, Load, Measured};
use crate::chart::{Bar, Chart, Panel};
use crate::{Size, machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods in all.
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true, value_parser = crate::count)]
    pods: usize,
    /// Numbers of gangs; each must divide the number of pods.
    #[arg(long, value_delimiter = ',', default_value = "10000,500,20,1", value_parser = crate::count)]
    gangs: Vec<usize>,
    /// Requests in flight of the client.
    #[arg(long, default_value_t = 64, allow_negative_numbers = true, value_parser = crate::count)]
    in_flight: usize,
    /// Requests a second of the limited client, and of the scheduler beside it; 0 leaves those runs out.
    #[arg(long, default_value_t = 1000.0, value_parser = crate::above_0)]
    rate: f64,
    /// Leave the runs without gangs out.
    #[arg(long)]
    only_gangs: bool,
    /// Leave kube-scheduler out.
    #[arg(long)]
    without_kube_scheduler: bool,
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let mut rates = vec![None];
    if options.rate > 0.0 {
        rates.push(Some(options.rate));
    }
    let (mut runs, mut panels) = (Vec::new(), Vec::new());
    for rate in rates {
        let client = rate
            .map_or("unlimited client".to_owned(), |rate| format!("client limited to {rate:.0} requests/s"));
        say!("{client}");
        let (mut bars, mut worked) = (Vec::new(), Vec::new());
        for (label, contestant, load) in options.runs(rate) {
            say!("{label}");
            let measured = contestant.run(load, &limits(contestant, rate)).await?;
            runs.push(record(&label, rate, &measured));
            let bar = if contestant == Contestant::Phalanx { Bar::ours } else { Bar::other };
            bars.push(bar(label.clone(), measured.seconds));
            worked.push(bar(label, measured.cpu.total()));
        }
        panels.push(Panel::new(format!("{client}: first create to last bind"), "seconds", bars));
        panels.push(Panel::new(format!("{client}: processor time of all that took part"), "seconds", worked));
    }
    let title = format!("{} pods as gangs of different sizes on {} nodes", options.pods, options.nodes);
    Ok(json!({
        "name": "shapes", "nodes": options.nodes, "pods": options.pods, "cores": machine::cores(), "runs": runs,
        "chart": Chart { title, panels },
    }))
}

impl Options {
    fn runs(&self, rate: Option<f64>) -> Vec<(String, Contestant, Load)> {
        let load = |count: usize, groups: Groups| {
            let size = Size { nodes: self.nodes, gangs: count, size: self.pods / count.max(1) };
            Load { size, groups, in_flight: self.in_flight, rate }
        };
        let mut runs = vec![("bare loop".to_owned(), Contestant::Floor, load(1, Groups::None))];
        for count in &self.gangs {
            let of = self.pods / (*count).max(1);
            let mut ours = |label, groups| runs.push((label, Contestant::Phalanx, load(*count, groups)));
            ours(format!("Phalanx, {count} gangs of {of}"), Groups::Gangs);
            if !self.only_gangs && of > 1 {
                ours(format!("Phalanx, {count} groups of {of}, minMember 1"), Groups::Loose);
            }
        }
        if !self.only_gangs {
            runs.push(("Phalanx, no PodGroups".to_owned(), Contestant::Phalanx, load(1, Groups::None)));
        }
        if !self.without_kube_scheduler {
            runs.push((
                "kube-scheduler, no PodGroups".to_owned(),
                Contestant::KubeScheduler,
                load(1, Groups::None),
            ));
        }
        runs
    }
}

fn limits(contestant: Contestant, rate: Option<f64>) -> Vec<String> {
    let flag =
        rate.filter(|_| contestant == Contestant::Phalanx).map(|rate| format!("--kube-api-qps={rate}"));
    flag.into_iter().collect()
}

fn record(label: &str, rate: Option<f64>, measured: &Measured) -> Value {
    let mut record = measured.json();
    record["label"] = json!(label);
    record["rate"] = json!(rate);
    record
}
