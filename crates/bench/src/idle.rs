//! `idle`: what a cycle costs when little happens, in a cluster full of running pods.
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_core::Scheduler;
use phalanx_core::event::{Event, PodInfo, PodPhase, Time};
use phalanx_core::world::{World, WorldOptions};
use serde_json::{Value, json};

use crate::core::helm_conf;
use crate::{generate, machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Running pods of 1 core each, every one a job of its own.
    #[arg(long, default_value_t = 150_000)]
    running: usize,
    /// New pods, one after the other; the fastest cycle counts.
    #[arg(long, default_value_t = 10)]
    runs: usize,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let mut world = World::new(WorldOptions::default());
    world.apply(generate::default_queue());
    for event in
        generate::nodes(options.nodes).chain((0..options.running).map(|at| on_node(at, options.nodes)))
    {
        world.apply(event);
    }
    let mut scheduler = Scheduler::new(helm_conf()?, 0);
    let mut cycle = |world: &mut World| {
        let started = Instant::now();
        let outcome = scheduler.run(world, Time(0));
        (started.elapsed().as_secs_f64(), outcome.decisions.len())
    };
    let (first, _) = cycle(&mut world);
    let (mut nothing, mut one) = (f64::INFINITY, f64::INFINITY);
    for run in 0..options.runs.max(1) {
        let (seconds, decisions) = cycle(&mut world);
        ensure!(decisions == 0, "{decisions} decisions though nothing has happened");
        nothing = nothing.min(seconds);
        world.apply(generate::solo(options.running + run).into());
        let (seconds, decisions) = cycle(&mut world);
        ensure!(decisions > 0, "the new pod was not placed");
        one = one.min(seconds);
    }
    say!("{} running pods on {} nodes: one more takes {:.2} ms", options.running, options.nodes, one * 1e3);
    Ok(json!({
        "name": "idle", "nodes": options.nodes, "running": options.running, "firstCycleSeconds": first,
        "nothingNewSeconds": nothing, "onePodSeconds": one,
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

fn on_node(at: usize, nodes: usize) -> Event {
    let node = Some(format!("node-{:06}", at % nodes).into());
    PodInfo { phase: PodPhase::Running, node, ..generate::solo(at) }.into()
}
