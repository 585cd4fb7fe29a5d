//! `idle`: what a cycle costs when little happens, in a cluster full of running pods.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, PodGroupInfo, PodInfo, PodLife, PodPhase, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::core::conf_of;
use crate::generate::Gang;
use crate::{furnished, generate, machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Running pods of 1 core each, every one a job of its own.
    #[arg(long, default_value_t = 150_000, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    running: usize,
    /// Kinds of running pods: they differ in a toleration.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = crate::count)]
    classes: usize,
    /// Gangs of ten pods of 8 cores that wait: no node has so much left.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    waiting: usize,
    /// Queues over which the running pods, and the gangs that wait, are spread. New ones are of the one that always
    /// exists.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    queues: usize,
    /// New pods, one after the other; the median cycle counts.
    #[arg(long, default_value_t = 10, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
    /// A scheduler.conf instead of Helm's.
    #[arg(long)]
    conf: Option<PathBuf>,
    /// Helm's with each plugin in turn, in a cluster where each has something to look at.
    #[arg(long)]
    each_plugin: bool,
    /// Fails when a cycle for one new pod takes longer, in milliseconds.
    #[arg(long, value_parser = crate::above_0)]
    max_ms: Option<f64>,
}

impl Options {
    /// The queue of a job; none is the one that always exists.
    fn queue(&self, job: usize) -> Option<Arc<str>> {
        (self.queues > 0).then(|| queue_name(job % self.queues).into())
    }
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let result = if options.each_plugin { run_each(options)? } else { run_one(options)? };
    for (_, value) in result["plugins"]
        .as_object()
        .into_iter()
        .flatten()
        .chain([(&String::new(), &result["onePodSeconds"])])
    {
        let (ms, most) = (value.as_f64().unwrap_or(0.0) * 1e3, options.max_ms.unwrap_or(f64::INFINITY));
        ensure!(ms <= most, "a cycle for one new pod took {ms:.3} ms, more than {most} ms");
    }
    Ok(result)
}

fn run_each(options: &Options) -> Result<Value> {
    let mut cluster = Cluster::new(ClusterOptions::default());
    furnished::cluster(options.nodes, options.running).for_each(|event| _ = cluster.apply(event));
    let mut pods = options.running;
    let mut plugins = serde_json::Map::new();
    for (name, conf) in furnished::confs(&conf_of(options.conf.as_deref())?) {
        let mut scheduler = Scheduler::new(conf, 0);
        scheduler.run(&mut cluster, Time(0));
        let mut one = f64::INFINITY;
        for _ in 0..options.runs.max(1) {
            scheduler.run(&mut cluster, Time(0));
            cluster.apply(generate::solo(pods).into());
            pods += 1;
            let started = Instant::now();
            let outcome = scheduler.run(&mut cluster, Time(0));
            one = one.min(started.elapsed().as_secs_f64());
            ensure!(!outcome.decisions.is_empty(), "the new pod was not placed with {name}");
        }
        say!("with {name}: {:.4} ms", one * 1e3);
        plugins.insert(name.to_owned(), one.into());
    }
    Ok(json!({
        "name": "idle", "nodes": options.nodes, "running": options.running, "plugins": plugins,
        "chart": chart_each(options, &plugins), "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

fn chart_each(options: &Options, plugins: &serde_json::Map<String, Value>) -> Chart {
    let bars = plugins.iter().map(|(name, one)| Bar::ours(name.clone(), one.as_f64().unwrap_or(0.0) * 1e3));
    let panel =
        format!("{} running pods, each a gang of its own, on {} nodes", options.running, options.nodes);
    Chart {
        title: "A cycle for one new pod, with each plugin".to_owned(),
        panels: vec![Panel::new(panel, "milliseconds", bars.collect())],
    }
}

fn run_one(options: &Options) -> Result<Value> {
    let mut cluster = Cluster::new(ClusterOptions::default());
    cluster.apply(generate::default_queue());
    (0..options.queues).for_each(|at| _ = cluster.apply(generate::queue(&queue_name(at))));
    for event in generate::nodes(options.nodes).chain((0..options.running).map(|at| on_node(at, options))) {
        cluster.apply(event);
    }
    for at in 0..options.waiting {
        let gang =
            Gang { name: &format!("gang-{at}"), class: "", cores: 8, gpus: 0, size: 10, on: Vec::new() };
        gang.events().for_each(|event| _ = cluster.apply(in_queue(event, options.queue(at))));
    }
    let mut scheduler = Scheduler::new(conf_of(options.conf.as_deref())?, 0);
    let started = Instant::now();
    scheduler.run(&mut cluster, Time(0));
    let first = started.elapsed().as_secs_f64();
    let (mut now, mut nothing, mut ones) = (Time(0), Vec::new(), Vec::new());
    let mut cycle = |cluster: &mut Cluster| {
        now = Time(now.0 + 1_000);
        machine::measured(|| scheduler.run(cluster, now).decisions.len())
    };
    for run in 0..options.runs.max(1) {
        // The first of the two cycles sees the earlier decisions.
        _ = cycle(&mut cluster);
        let (seconds, decisions) = cycle(&mut cluster);
        ensure!(decisions == 0, "{decisions} decisions though nothing has happened");
        nothing.push(seconds);
        cluster.apply(generate::solo(options.running + run).into());
        let (seconds, decisions) = cycle(&mut cluster);
        ensure!(decisions > 0, "the new pod was not placed");
        ones.push(seconds);
    }
    let ([nothing, _], [one, worst]) = (median_and_worst(nothing), median_and_worst(ones));
    say!(
        "{} running pods on {} nodes: one more takes {:.4} ms, {:.4} ms at worst; the first cycle {:.1} ms",
        options.running,
        options.nodes,
        one * 1e3,
        worst * 1e3,
        first * 1e3
    );
    Ok(json!({
        "name": "idle", "nodes": options.nodes, "running": options.running, "classes": options.classes,
        "firstCycleSeconds": first,
        "waiting": options.waiting, "queues": options.queues, "nothingNewSeconds": nothing, "onePodSeconds": one,
        "worstOnePodSeconds": worst, "chart": chart(options, first, one),
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

fn median_and_worst(mut seconds: Vec<f64>) -> [f64; 2] {
    seconds.sort_by(f64::total_cmp);
    [seconds.len() / 2, seconds.len() - 1].map(|at| seconds[at])
}

fn chart(options: &Options, first: f64, one: f64) -> Chart {
    let bars = vec![
        Bar::other("the first cycle, which looks at all", first * 1e3),
        Bar::ours("a cycle for one new pod", one * 1e3),
    ];
    let panel =
        format!("{} running pods, each a job of its own, on {} nodes", options.running, options.nodes);
    Chart {
        title: "A cycle when little happens".to_owned(),
        panels: vec![Panel::new(panel, "milliseconds", bars)],
    }
}

fn on_node(at: usize, options: &Options) -> Event {
    let node = Some(format!("node-{:06}", at % options.nodes).into());
    let constraints = generate::constraints(at % options.classes.max(1));
    let queue = options.queue(at);
    let life = PodLife { phase: PodPhase::Running, node, ..PodLife::default() };
    PodInfo { life, constraints, queue, ..generate::solo(at) }.into()
}

fn in_queue(event: Event, queue: Option<Arc<str>>) -> Event {
    match (event, queue) {
        (Event::PodGroup(group), Some(queue)) => PodGroupInfo { queue, ..*group }.into(),
        (event, _) => event,
    }
}

fn queue_name(at: usize) -> String {
    format!("queue-{at:05}")
}
