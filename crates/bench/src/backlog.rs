//! `backlog`: gangs that never fit must not slow those that do.
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::event::{Event, Time};
use phalanx_core::world::{World, WorldOptions};
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::core::helm_conf;
use crate::generate::{self, Gang};
use crate::machine;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000)]
    nodes: usize,
    /// Gangs of one pod larger than any node.
    #[arg(long, default_value_t = 100_000)]
    waiting: usize,
    /// Pods of the gang that fits.
    #[arg(long, default_value_t = 100)]
    size: usize,
    /// Gangs that fit, one after the other; the fastest cycle counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let (alone, _) = fastest(options, 0)?;
    let (behind, first) = fastest(options, options.waiting)?;
    say!(
        "a gang of {} on {} nodes: {:.2} ms, with {} gangs waiting {:.2} ms",
        options.size,
        options.nodes,
        alone * 1e3,
        options.waiting,
        behind * 1e3
    );
    Ok(json!({
        "name": "backlog", "nodes": options.nodes, "waiting": options.waiting, "size": options.size,
        "aloneSeconds": alone, "behindBacklogSeconds": behind, "ratio": behind / alone, "firstCycleSeconds": first,
        "chart": chart(options, alone, behind),
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

fn chart(options: &Options, alone: f64, behind: f64) -> Chart {
    let bars = vec![
        Bar::ours("nobody else waits", alone * 1e3),
        Bar::ours(format!("{} gangs wait that never fit", options.waiting), behind * 1e3),
    ];
    let panel = format!("a cycle for a gang of {} on {} nodes", options.size, options.nodes);
    Chart { title: "A backlog".to_owned(), panels: vec![Panel::new(panel, "milliseconds", bars)] }
}

/// The fastest cycle for a gang that fits, and the one in which all others were refused first.
fn fastest(options: &Options, waiting: usize) -> Result<(f64, f64)> {
    let mut world = World::new(WorldOptions::default());
    world.apply(generate::default_queue());
    for event in generate::nodes(options.nodes).chain((0..waiting).flat_map(never_fits)) {
        world.apply(event);
    }
    let mut scheduler = Scheduler::new(helm_conf()?, 0);
    let started = Instant::now();
    scheduler.run(&mut world, Time(0));
    let first = started.elapsed().as_secs_f64();
    let mut fastest = f64::INFINITY;
    for run in 0..options.runs.max(1) {
        let gang =
            Gang { name: &format!("fits-{run}"), class: "", cores: 1, size: options.size, on: Vec::new() };
        for event in gang.events() {
            world.apply(event);
        }
        let started = Instant::now();
        let outcome = scheduler.run(&mut world, Time(0));
        fastest = fastest.min(started.elapsed().as_secs_f64());
        let bound = |decision: &Decision| matches!(decision, Decision::Bind { pods, .. } if pods.len() == options.size);
        ensure!(outcome.decisions.iter().any(bound), "the gang was not placed");
    }
    Ok((fastest, first))
}

fn never_fits(at: usize) -> Vec<Event> {
    let gang = Gang { name: &format!("large-{at:06}"), class: "", cores: 64, size: 1, on: Vec::new() };
    gang.events().collect()
}
