//! `floor`: gangs through a real API server, beside the bare client loop and kube-scheduler.
//!
//! Contestants take turns, each on a new control plane with equal nodes. The *floor* is a plain client that creates the
//! pods and binds them itself. Clocks start at the first create and stop when the last bind is seen.
mod client;
mod contestant;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use crate::{Size, machine};
use contestant::{Contestant, Measured};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Requests in flight of the client that creates the pods, and of the bare loop that binds them.
    #[arg(long, default_value_t = 64)]
    in_flight: usize,
    /// Leave kube-scheduler out.
    #[arg(long)]
    without_kube_scheduler: bool,
    /// Further arguments for `phalanx scheduler`.
    #[arg(last = true)]
    scheduler_args: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(measure(options))
}

async fn measure(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    let pods = gangs * size;
    println!("{pods} pods in gangs of {size} on {nodes} nodes, {} requests in flight", options.in_flight);
    let floor = run_one(Contestant::Floor, options).await?;
    let ours = run_one(Contestant::Phalanx, options).await?;
    let kube = if options.without_kube_scheduler {
        None
    } else {
        Some(run_one(Contestant::KubeScheduler, options).await?)
    };
    Ok(json!({
        "name": "floor", "nodes": nodes, "gangs": gangs, "size": size, "pods": pods, "cores": machine::cores(),
        "seconds": ours.seconds, "peakRssBytes": ours.peak_rss, "createdAfterSeconds": ours.created,
        "firstBindAfterSeconds": ours.first_bind,
        "floorSeconds": floor.seconds, "floorCreatedAfterSeconds": floor.created,
        "ratioToFloor": ours.seconds / floor.seconds,
        "kubeSchedulerSeconds": kube.as_ref().map(|kube| kube.seconds),
        "kubeSchedulerPeakRssBytes": kube.as_ref().map(|kube| kube.peak_rss),
    }))
}

async fn run_one(contestant: Contestant, options: &Options) -> Result<Measured> {
    let measured = contestant.run(options).await?;
    println!(
        "{:<16} {:6.2} s (all created after {:.2} s, first bind after {:.2} s)",
        contestant.name(),
        measured.seconds,
        measured.created,
        measured.first_bind
    );
    Ok(measured)
}
