//! `backlog`: gangs that wait must not slow those that fit, nor those that finish.
mod like;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, PodInfo, PodLife, PodPhase, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::decision::Decision;
use phalanx_core::{Outcome, RetryLimits, Scheduler};
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::generate::{self, Gang};
use crate::machine;
use like::Like;

/// Cores of a node.
const CORES: usize = 32;
/// Pods of each gang that waits for pods to finish.
const MEMBERS: usize = 5;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Gangs that wait. Powers of ten below it are measured too.
    #[arg(long, default_value_t = 100_000, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    waiting: usize,
    /// Pods of the gang that fits.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
    /// Gangs that fit, one after the other; the fastest cycle counts.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
    /// Pods that finish, one in a cycle; the mean cycle counts.
    #[arg(long, default_value_t = 300, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    finish: usize,
    /// What the gangs that wait are like.
    #[arg(long, value_enum, default_value_t = Like::Equal)]
    like: Like,
    /// Milliseconds from one cycle to the next.
    #[arg(long, default_value_t = 100)]
    every: i64,
    /// Tries all waiting gangs in each cycle, for comparison.
    #[arg(long)]
    thorough: bool,
}

/// The figures for a number of waiting gangs.
struct Step {
    waiting: usize,
    /// A cycle for a gang that fits.
    fits: f64,
    /// A cycle in which a pod has finished: the mean, and the longest.
    finish: f64,
    worst: f64,
    /// The first cycle, in which all were refused.
    first: f64,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let mut counts = vec![0];
    counts.extend((3..).map(|power| 10_usize.pow(power)).take_while(|count| *count < options.waiting));
    counts.extend(Some(options.waiting).filter(|waiting| *waiting > 0));
    let mut steps = Vec::new();
    for waiting in counts {
        let (fits, first) = fastest(options, waiting)?;
        let (finish, worst) = while_finishing(options, waiting)?;
        say!(
            "{waiting} gangs waiting: a gang of {} on {} nodes {:.3} ms, a cycle after a pod has finished {:.3} ms, the longest {:.3} ms, the first cycle {:.0} ms",
            options.size,
            options.nodes,
            fits * 1e3,
            finish * 1e3,
            worst * 1e3,
            first * 1e3
        );
        steps.push(Step { waiting, fits, finish, worst, first });
    }
    Ok(result(options, &steps))
}

fn result(options: &Options, steps: &[Step]) -> Value {
    let (alone, behind) = (&steps[0], &steps[steps.len() - 1]);
    let list: Vec<Value> = steps
        .iter()
        .map(|step| json!({ "waiting": step.waiting, "fitsSeconds": step.fits, "finishSeconds": step.finish, "worstFinishSeconds": step.worst, "firstCycleSeconds": step.first }))
        .collect();
    json!({
        "name": "backlog", "nodes": options.nodes, "waiting": options.waiting, "size": options.size,
        "like": format!("{:?}", options.like), "thorough": options.thorough,
        "aloneSeconds": alone.fits, "behindBacklogSeconds": behind.fits, "ratio": behind.fits / alone.fits,
        "firstCycleSeconds": behind.first, "finishSeconds": behind.finish, "worstFinishSeconds": behind.worst, "steps": list,
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(), "chart": chart(options, steps),
    })
}

fn chart(options: &Options, steps: &[Step]) -> Chart {
    let bars = |of: fn(&Step) -> f64| {
        steps.iter().map(|step| Bar::ours(format!("{} waiting", step.waiting), of(step) * 1e3)).collect()
    };
    let fits = format!("A cycle for a gang of {} that fits", options.size);
    Chart {
        title: format!("{} nodes, and gangs that cannot be placed", options.nodes),
        panels: vec![
            Panel::new(fits, "ms", bars(|step| step.fits)),
            Panel::new("A cycle after a pod has finished", "ms", bars(|step| step.finish)),
        ],
    }
}

/// A scheduler, and when its next cycle is.
struct Clocked {
    scheduler: Scheduler,
    now: Time,
    every: i64,
}

impl Clocked {
    fn new(options: &Options) -> Result<Self> {
        let mut scheduler = Scheduler::new(options.like.conf()?, 0);
        if options.thorough {
            scheduler.set_retry_limits(RetryLimits::unlimited());
        }
        Ok(Self { scheduler, now: Time(0), every: options.every })
    }

    fn run(&mut self, cluster: &mut Cluster) -> Outcome {
        let outcome = self.scheduler.run(cluster, self.now);
        self.now.0 += self.every;
        outcome
    }

    fn measured(&mut self, cluster: &mut Cluster) -> (f64, Outcome) {
        machine::measured(|| self.run(cluster))
    }
}

fn cluster(options: &Options) -> Cluster {
    let mut cluster = Cluster::new(ClusterOptions::default());
    cluster.apply(generate::default_queue());
    for event in Like::supply().chain(options.like.nodes(options.nodes, CORES)) {
        cluster.apply(event);
    }
    cluster
}

/// The fastest cycle for a gang that fits, and the first cycle, in which the gangs that are too large for any node were
/// refused.
fn fastest(options: &Options, waiting: usize) -> Result<(f64, f64)> {
    let mut cluster = cluster(options);
    for event in (0..waiting).flat_map(|at| options.like.never_fits(at, CORES)) {
        cluster.apply(event);
    }
    let mut scheduler = Clocked::new(options)?;
    let (first, _) = scheduler.measured(&mut cluster);
    let mut fastest = f64::INFINITY;
    for run in 0..options.runs.max(1) {
        let gang = Gang {
            name: &format!("fits-{run}"),
            class: "",
            cores: 1,
            gpus: 0,
            size: options.size,
            on: Vec::new(),
        };
        for event in gang.events() {
            cluster.apply(event);
        }
        let (seconds, outcome) = scheduler.measured(&mut cluster);
        fastest = fastest.min(seconds);
        let bound = |decision: &Decision| matches!(decision, Decision::Bind { pods, .. } if pods.len() == options.size);
        ensure!(outcome.decisions.iter().any(bound), "the gang was not placed");
    }
    Ok((fastest, first))
}

/// The mean and the longest cycle on a full cluster, where each waiting gang would fit an empty one and pods finish one
/// by one: now and then there is room for one more gang.
fn while_finishing(options: &Options, waiting: usize) -> Result<(f64, f64)> {
    let mut cluster = cluster(options);
    let running = options.nodes * CORES;
    let on = (0..running).map(|at| at % options.nodes).collect();
    let pods: Vec<Event> =
        Gang { name: "runs", class: "", cores: 1, gpus: 0, size: running, on }.events().collect();
    for event in pods.iter().cloned().chain((0..waiting).flat_map(|at| options.like.fits(at, MEMBERS))) {
        cluster.apply(event);
    }
    let mut scheduler = Clocked::new(options)?;
    scheduler.run(&mut cluster);
    let (mut seconds, mut worst, mut bound) = (0.0, 0.0_f64, 0);
    let pods =
        pods.into_iter().filter_map(|event| if let Event::Pod(pod) = event { Some(pod) } else { None });
    let finished = options.finish.clamp(1, running);
    for pod in pods.take(finished) {
        let life = PodLife { phase: PodPhase::Succeeded, ..pod.life };
        cluster.apply(PodInfo { life, ..*pod }.into());
        let (cycle, outcome) = scheduler.measured(&mut cluster);
        seconds += cycle;
        worst = worst.max(cycle);
        bound += outcome.decisions.iter().filter(|it| matches!(it, Decision::Bind { .. })).count();
    }
    let placeable = options.like.started_by(finished, MEMBERS).min(waiting);
    ensure!(bound == placeable, "{bound} gangs were placed, expected {placeable}");
    Ok((seconds / finished as f64, worst))
}
