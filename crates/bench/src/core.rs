//! `core`: one session in memory, with the plugins of Volcano's Helm chart.
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use phalanx_cluster::event::Time;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, Parsed, Severity, parse};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::Conf;
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::{Size, generate, machine, supply};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Kinds of pods that no two gangs share, up to the number of gangs.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = crate::count)]
    classes: usize,
    /// The classes differ in the cpu they request too, so that hardly two nodes stay alike.
    #[arg(long)]
    distinct_requests: bool,
    /// Volumes, claims and devices on every node, for which no pod asks.
    #[arg(long)]
    supply: bool,
    /// A scheduler.conf instead of Helm's.
    #[arg(long)]
    conf: Option<PathBuf>,
    /// Runs; the fastest counts, since all else is the machine's noise.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

/// The scheduler.conf that Volcano's Helm chart installs.
pub(crate) const HELM: &str = include_str!("../../../config/helm-default.yaml");

/// The tiers Volcano's Helm chart installs.
pub(crate) fn helm_conf() -> Result<Conf> {
    let parsed = parse(HELM, &Known::builtin());
    parsed.conf.context("config/helm-default.yaml does not parse")
}

/// The tiers of a file, or Helm's.
pub(crate) fn conf_of(path: Option<&Path>) -> Result<Conf> {
    let Some(path) = path else { return helm_conf() };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let Parsed { conf, problems } = parse(&text, &Known::builtin());
    let first = problems.iter().find(|problem| problem.severity == Severity::Error);
    conf.with_context(|| {
        first.map(|problem| problem.in_file(&path.display().to_string())).unwrap_or_default()
    })
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    let mut fastest = f64::INFINITY;
    let mut idle = f64::INFINITY;
    let mut load_seconds = 0.0;
    for _ in 0..options.runs.max(1) {
        let started = Instant::now();
        let mut cluster = Cluster::new(ClusterOptions::default());
        let mut scheduler = Scheduler::new(conf_of(options.conf.as_deref())?, 0);
        cluster.apply(generate::default_queue());
        let kinds = generate::Kinds { count: options.classes, distinct_requests: options.distinct_requests };
        generate::nodes(nodes).for_each(|event| _ = cluster.apply(event));
        if options.supply {
            supply::events(nodes).for_each(|event| _ = cluster.apply(event));
            // Which devices match which requests is computed once, when the devices are first seen.
            scheduler.run(&mut cluster, Time(0));
        }
        generate::gangs(options.size, kinds).for_each(|event| _ = cluster.apply(event));
        load_seconds = started.elapsed().as_secs_f64();
        let (seconds, outcome) = machine::measured(|| scheduler.run(&mut cluster, Time(0)));
        fastest = fastest.min(seconds);
        let started = Instant::now();
        scheduler.run(&mut cluster, Time(0));
        idle = idle.min(started.elapsed().as_secs_f64());
        let bound: usize = outcome.decisions.iter().map(bound).sum();
        ensure!(
            bound == gangs * size,
            "{bound} of {} pods were placed: the cluster is too small",
            gangs * size
        );
    }
    let pods = gangs * size;
    say!("{pods} pods in gangs of {size} on {nodes} nodes: session {:.1} ms", fastest * 1e3);
    Ok(json!({
        "name": "core", "nodes": nodes, "gangs": gangs, "size": size, "classes": options.classes,
        "distinctRequests": options.distinct_requests, "supply": options.supply, "pods": pods,
        "seconds": fastest, "microsecondsPerPod": fastest * 1e6 / pods.max(1) as f64, "loadSeconds": load_seconds,
        "idleCycleSeconds": idle, "chart": chart(options, fastest),
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

fn chart(options: &Options, seconds: f64) -> Chart {
    let Size { nodes, gangs, size } = options.size;
    let label = match (options.classes, options.distinct_requests) {
        (1, _) => "all pods alike".to_owned(),
        (kinds, false) => format!("{kinds} kinds of pods, equal requests"),
        (kinds, true) => format!("{kinds} kinds of pods, unlike requests"),
    };
    let panel = format!("{} pods in gangs of {size} on {nodes} nodes", gangs * size);
    let panels = vec![Panel::new(panel, "milliseconds", vec![Bar::ours(label, seconds * 1e3)])];
    Chart { title: "One session".to_owned(), panels }
}

pub(crate) fn bound(decision: &Decision) -> usize {
    match decision {
        Decision::Bind { pods, .. } => pods.len(),
        _ => 0,
    }
}
