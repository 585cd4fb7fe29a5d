//! `restart` and `memory`: a scheduler starts beside a cluster that is full of running pods.
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;
use phalanx_e2e::Phalanx;
use serde_json::{Value, json};

use super::usage::{cpu_seconds, rss};
use super::{Setup, client, preload, scheduler_args};
use crate::chart::{Bar, Chart, Panel};
use crate::machine;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods that have their node.
    #[arg(long, default_value_t = 150_000, allow_negative_numbers = true, value_parser = crate::count)]
    pods: usize,
    /// PodGroups they belong to.
    #[arg(long, default_value_t = 87_000, allow_negative_numbers = true, value_parser = crate::count)]
    gangs: usize,
    /// Requests in flight while the cluster is filled.
    #[arg(long, default_value_t = 64, allow_negative_numbers = true, value_parser = crate::count)]
    in_flight: usize,
    /// Starts; the fastest counts.
    #[arg(long, default_value_t = 3, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

/// The options of `memory`: a smaller cluster unless told otherwise.
#[derive(Args)]
pub(crate) struct MemoryOptions {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods that have their node.
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true, value_parser = crate::count)]
    pods: usize,
    /// PodGroups they belong to.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true, value_parser = crate::count)]
    gangs: usize,
}

/// One start.
struct Started {
    /// From the start of the process to the first bind.
    seconds: f64,
    /// Processor time of the scheduler until then.
    cpu: f64,
    rss: u64,
    peak_rss: u64,
}

pub(super) async fn run(options: &Options) -> Result<Value> {
    measure(options, "restart").await
}

pub(super) async fn memory(options: &MemoryOptions) -> Result<Value> {
    let MemoryOptions { nodes, pods, gangs } = *options;
    let options = Options { nodes, pods, gangs, in_flight: 64, runs: 1, scheduler_args: Vec::new() };
    measure(&options, "memory").await
}

async fn measure(options: &Options, name: &str) -> Result<Value> {
    let Options { nodes, pods, gangs, .. } = *options;
    let started = Instant::now();
    let Setup { plane } = Setup::new(nodes).await?;
    preload::fill(&plane.client(), nodes, pods, gangs, options.in_flight).await?;
    say!(
        "{nodes} nodes, {pods} pods and {gangs} PodGroups are there after {:.0} s",
        started.elapsed().as_secs_f64()
    );
    let (list_seconds, list_bytes) = preload::bare_list(&plane.client()).await?;
    say!("bare list: {list_seconds:.2} s, {} MB", list_bytes / 1_000_000);
    let mut starts = Vec::new();
    for run in 0..options.runs.max(1) {
        let start = start(&plane, options, run).await?;
        say!(
            "process start to first bind {:.2} s ({:.2} s of processor time), resident {} MB, peak {} MB",
            start.seconds,
            start.cpu,
            start.rss / 1_000_000,
            start.peak_rss / 1_000_000
        );
        starts.push(start);
    }
    let best = starts.iter().min_by(|one, other| one.seconds.total_cmp(&other.seconds)).context("no run")?;
    let size = format!("{nodes} nodes, {pods} pods, {gangs} PodGroups");
    let panel = if name == "memory" {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let bars =
            vec![Bar::ours("resident", megabytes(best.rss)), Bar::ours("peak", megabytes(best.peak_rss))];
        Panel::new(size, "MB", bars)
    } else {
        let bars = vec![
            Bar::ours("Phalanx: start to first bind", best.seconds),
            Bar::other("bare list of the same", list_seconds),
        ];
        Panel::new(size, "seconds", bars)
    };
    let title = if name == "memory" { "Resident memory" } else { "Restart beside running pods" }.to_owned();
    Ok(json!({
        "name": name, "nodes": nodes, "pods": pods, "gangs": gangs, "cores": machine::cores(),
        "seconds": best.seconds, "cpuSeconds": best.cpu, "allSeconds": starts.iter().map(|start| start.seconds).collect::<Vec<_>>(),
        "bareListSeconds": list_seconds, "bareListBytes": list_bytes,
        "rssBytes": best.rss, "peakRssBytes": best.peak_rss, "chart": Chart { title, panels: vec![panel] },
    }))
}

/// A pod waits when the process starts; the clock stops when it is seen bound.
async fn start(plane: &phalanx_e2e::Plane, options: &Options, run: usize) -> Result<Started> {
    let name = format!("newcomer-{run}");
    let mut bound = client::Bound::watch_one(plane.client(), &name).await?;
    client::create_pod(&plane.client(), &name, "volcano").await?;
    let args = scheduler_args(&options.scheduler_args);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    // Built before the clock starts.
    tokio::task::spawn_blocking(phalanx_e2e::phalanx::binary).await??;
    let started = Instant::now();
    let phalanx = Phalanx::launch(plane, &args).await?;
    let seen = bound.wait_for(&name).await?;
    let cpu = cpu_seconds(phalanx.pid());
    // What was only needed to start is given back by then.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    Ok(Started {
        seconds: seen.saturating_duration_since(started).as_secs_f64(),
        cpu,
        rss: rss(phalanx.pid()),
        peak_rss: machine::peak_rss(Some(phalanx.pid())),
    })
}
