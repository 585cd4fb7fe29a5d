//! `latency`: one pod at a time on an idle cluster, from the answer to its creation until it is seen bound.
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};

use super::{Contestant, Setup, client, preemption};
use crate::chart::{Bar, Chart, Panel};
use crate::machine;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods, one after the other.
    #[arg(long, default_value_t = 300, allow_negative_numbers = true, value_parser = crate::count)]
    pods: usize,
    /// The break between two of them, in milliseconds.
    #[arg(long, default_value_t = 20)]
    pause: u64,
    /// Beside a preemption that takes the scheduler a long search and finds nothing, on a full cluster.
    #[arg(long)]
    beside_preemption: bool,
    /// Leave kube-scheduler out.
    #[arg(long)]
    without_kube_scheduler: bool,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

impl Options {
    /// Arguments of `phalanx scheduler`.
    fn arguments(&self) -> Vec<String> {
        let conf = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/preempt-and-reclaim.yaml");
        let evicts = self.beside_preemption.then(|| ["--scheduler-conf", conf].map(str::to_owned));
        evicts.into_iter().flatten().chain(self.scheduler_args.iter().cloned()).collect()
    }

    fn situation(&self) -> &'static str {
        if self.beside_preemption { "beside a hard preemption" } else { "one pod at a time" }
    }
}

/// Milliseconds, sorted.
#[derive(Clone, Debug)]
pub(super) struct Times(Vec<f64>);

impl Times {
    pub(super) fn new(mut millis: Vec<f64>) -> Self {
        millis.sort_unstable_by(f64::total_cmp);
        Self(millis)
    }

    pub(super) fn at(&self, share: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get((last as f64 * share).round() as usize).copied().unwrap_or_default()
    }

    pub(super) fn json(&self) -> Value {
        json!({"p50Millis": self.at(0.5), "p90Millis": self.at(0.9), "p99Millis": self.at(0.99), "maxMillis": self.at(1.0)})
    }
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    let ours = one(Contestant::Phalanx, options).await?;
    let kube = if options.without_kube_scheduler {
        None
    } else {
        Some(one(Contestant::KubeScheduler, options).await?)
    };
    let bars = bars(("Phalanx", &ours), kube.as_ref().map(|kube| ("kube-scheduler", kube)));
    let title =
        format!("From a pod's creation to its node, {}, {} nodes", options.situation(), options.nodes);
    let chart = Chart { title, panels: vec![Panel::new("created to seen bound", "milliseconds", bars)] };
    Ok(json!({
        "name": "latency", "nodes": options.nodes, "pods": options.pods, "cores": machine::cores(),
        "besidePreemption": options.beside_preemption,
        "seconds": ours.at(0.99) / 1e3, "phalanx": ours.json(), "kubeScheduler": kube.map(|kube| kube.json()),
        "chart": chart,
    }))
}

/// Median and 99th percentile of Phalanx and, where it took part, of kube-scheduler.
pub(super) fn bars((name, ours): (&str, &Times), kube: Option<(&str, &Times)>) -> Vec<Bar> {
    let of = |name: &str, times: &Times, bar: fn(String, f64) -> Bar| {
        [("median", 0.5), ("99th of 100", 0.99)]
            .map(|(what, share)| bar(format!("{name}, {what}"), times.at(share)))
    };
    let kube = kube.map(|(name, times)| of(name, times, Bar::other));
    of(name, ours, Bar::ours).into_iter().chain(kube.into_iter().flatten()).collect()
}

async fn one(contestant: Contestant, options: &Options) -> Result<Times> {
    let Setup { plane } = Setup::new(options.nodes).await?;
    let admin = plane.client();
    if options.beside_preemption {
        preemption::begin(&admin, options.nodes).await?;
    }
    let running = contestant.start(&plane, &options.arguments()).await?;
    client::warm_up(&admin, contestant.scheduler_name()).await?;
    let mut bound = client::Bound::watch(plane.client()).await?;
    let mut times = Vec::with_capacity(options.pods);
    for index in 0..options.pods {
        tokio::time::sleep(Duration::from_millis(options.pause)).await;
        let name = format!("one-{index}");
        client::create_pod(&admin, &name, contestant.scheduler_name()).await?;
        let created = Instant::now();
        let seen = bound.wait_for(&name).await.with_context(|| format!("pod {name}"))?;
        times.push(seen.saturating_duration_since(created).as_secs_f64() * 1e3);
    }
    drop(running);
    let times = Times::new(times);
    say!("{:<16} {}", contestant.name(), times.json());
    Ok(times)
}
