//! `view`: what the page shows of a full cluster with gangs that wait: how long it takes to make, and its bytes.
use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::Time;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_view::{History, Seen, View, page};
use serde_json::{Value, json};

use crate::core::helm_conf;
use crate::generate::{self, Gang};
use crate::machine;

/// Cores of a node, each of which a running pod has.
const CORES: usize = 32;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each, all of which running pods have
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Gangs that wait
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true, value_parser = crate::count)]
    gangs: usize,
    /// Pods of a gang
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
    /// Views; the fastest counts
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let conf = helm_conf()?;
    let mut cluster = cluster(options);
    let mut scheduler = Scheduler::new(conf.clone(), 0);
    let (mut history, now) = (History::default(), Time(1_000));
    let outcome = scheduler.run(&mut cluster, now);
    let (noting, ()) = machine::measured(|| history.note(&outcome.decisions, now));
    let (mut making, mut writing, mut view, mut text) =
        (f64::INFINITY, f64::INFINITY, View::default(), String::new());
    for _ in 0..options.runs {
        let seconds;
        (seconds, view) = machine::measured(|| {
            let groups = scheduler.report(&cluster).groups;
            View::of(Seen { cluster: &cluster, conf: &conf, groups: &groups, history: &history, now })
        });
        making = making.min(seconds);
        let seconds;
        (seconds, text) = machine::measured(|| view.to_json());
        writing = writing.min(seconds);
    }
    ensure!(view.gangs.waiting as usize == options.gangs, "found {} gangs that wait", view.gangs.waiting);
    say!(
        "{} nodes, {} gangs of {} waiting: a view {:.1} ms, its JSON {:.1} ms and {} bytes",
        options.nodes,
        options.gangs,
        options.size,
        making * 1e3,
        writing * 1e3,
        text.len()
    );
    Ok(json!({
        "name": "view", "nodes": options.nodes, "gangs": options.gangs, "size": options.size,
        "seconds": making, "jsonSeconds": writing, "bytes": text.len(), "pageBytes": page(&view).len(),
        "noteSeconds": noting, "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

fn cluster(options: &Options) -> Cluster {
    let mut cluster = Cluster::new(ClusterOptions::default());
    cluster.apply(generate::default_queue());
    generate::nodes(options.nodes).for_each(|event| {
        cluster.apply(event);
    });
    let gang = |name: &str, size: usize, on: Vec<usize>| {
        Gang { name, class: "", cores: 1, gpus: 0, size, on }.events().collect::<Vec<_>>()
    };
    let running = (0..options.nodes).map(|at| gang(&format!("runs-{at}"), CORES, vec![at; CORES]));
    let waiting = (0..options.gangs).map(|at| gang(&format!("waits-{at}"), options.size, Vec::new()));
    for event in running.chain(waiting).flatten() {
        cluster.apply(event);
    }
    cluster
}
