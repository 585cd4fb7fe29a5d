//! `explain`: what the API of the scheduler costs, on a full cluster with a backlog: the snapshot that it is made of,
//! an answer, a comparison (`whatif`), and cycles while answers are made on another thread. Cycles and snapshots are
//! told in processor time of the scheduling thread. As a control, cycles are told too while the other thread copies
//! memory that is no part of the scheduler.
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, PodInfo, PodLife, PodPhase, Time};
use phalanx_cluster::search_budget::Stopwatch;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_core::report::Snapshot;
use phalanx_explain::{Patience, Question, Subject, Top};
use phalanx_sim::{AddedNodes, Changes, ReadOptions, WhatIf};
use serde_json::{Value, json};

use crate::core::helm_conf;
use crate::generate::{self, Gang};
use crate::machine;

/// Cores of a node.
const CORES: usize = 32;
/// Cores of each pod.
const POD_CORES: usize = 4;
/// How long the API of the scheduler looks for changes that would let a job run, and how often it takes a snapshot.
const REMEDIES: Duration = Duration::from_millis(600);
const SNAPSHOT_EVERY: Duration = Duration::from_secs(1);
/// From one cycle to the next.
const PAUSE: Duration = Duration::from_millis(10);
/// The memory that the control copies: more than the caches of a processor hold.
const COPIED: usize = 64 << 20;
/// Nodes that `whatif` adds.
const ADDED_NODES: u32 = 10;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each, full of running pods of 4 cores.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Gangs that wait.
    #[arg(long, default_value_t = 10_000, allow_negative_numbers = true, value_parser = crate::count)]
    gangs: usize,
    /// Pods of each gang.
    #[arg(long, default_value_t = 4, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
    /// Cycles, in each of which a gang is bound since pods have finished.
    #[arg(long, default_value_t = 200, allow_negative_numbers = true, value_parser = crate::count)]
    cycles: usize,
}

#[derive(Debug)]
struct Watch(Instant);

impl Stopwatch for Watch {
    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// A cluster, its scheduler, and the running pods that may finish.
struct Live {
    cluster: Cluster,
    scheduler: Scheduler,
    now: Time,
    running: Vec<PodInfo>,
}

impl Live {
    fn new(options: &Options) -> Result<Self> {
        let (mut cluster, mut running) = (Cluster::new(ClusterOptions::default()), Vec::new());
        cluster.apply(generate::default_queue());
        for node in generate::nodes(options.nodes) {
            cluster.apply(node);
        }
        let gang = |name: String, on: Vec<usize>| {
            let gang = Gang { name: &name, class: "", cores: POD_CORES, gpus: 0, size: options.size, on };
            gang.events().collect::<Vec<_>>()
        };
        let per_node = CORES / POD_CORES;
        for at in 0..options.nodes * per_node / options.size {
            let on = (0..options.size).map(|pod| (at * options.size + pod) / per_node).collect();
            for event in gang(format!("runs-{at:06}"), on) {
                running.extend(if let Event::Pod(pod) = &event { Some((**pod).clone()) } else { None });
                cluster.apply(event);
            }
        }
        for event in (0..options.gangs).flat_map(|at| gang(format!("waits-{at:06}"), Vec::new())) {
            cluster.apply(event);
        }
        running.reverse();
        let mut live = Self { cluster, scheduler: Scheduler::new(helm_conf()?, 0), now: Time(0), running };
        live.scheduler.run(&mut live.cluster, live.now);
        Ok(live)
    }

    /// As many pods finish as a gang has, and a cycle binds a gang in their place. In seconds.
    fn cycle(&mut self, size: usize) -> Result<f64> {
        for _ in 0..size {
            let pod = self.running.pop().context("no more running pods: fewer --cycles")?;
            let life = PodLife { phase: PodPhase::Succeeded, ..pod.life.clone() };
            self.cluster.apply(PodInfo { life, ..pod }.into());
        }
        self.now.0 += 1_000;
        let (seconds, outcome) = machine::used(|| self.scheduler.run(&mut self.cluster, self.now));
        let bound = outcome.decisions.iter().any(|one| matches!(one, Decision::Bind { .. }));
        ensure!(bound, "no gang was bound");
        Ok(seconds)
    }
}

/// The time of each answer, until there are no more snapshots.
fn answer(snapshots: &Receiver<Arc<Snapshot>>, question: &Question, answered: &Sender<f64>) {
    for snapshot in snapshots {
        let watch = Watch(Instant::now());
        let patience = Patience { limit: Some((&watch, REMEDIES)) };
        let answer = question.answer(&snapshot, &[], &patience);
        if answer.is_none() || answered.send(watch.elapsed().as_secs_f64()).is_err() {
            return;
        }
    }
}

/// Copies memory to and fro until it is told to stop.
fn copy(stop: &AtomicBool) {
    let (from, mut to) = (vec![1_u8; COPIED], vec![0_u8; COPIED]);
    while !stop.load(Ordering::Relaxed) {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
}

/// The seconds of a comparison of the cluster with the same cluster and more nodes, and those of processor time.
fn compared(snapshot: &Snapshot) -> Result<[f64; 2]> {
    let added = vec![AddedNodes { like: "node-000000".to_owned(), count: ADDED_NODES }];
    let question = WhatIf { nodes: Changes { added, ..Changes::default() }, ..WhatIf::default() };
    let begin = Instant::now();
    let mut clock = || begin.elapsed().as_secs_f64();
    let (used, (seconds, answer)) = machine::used(|| {
        machine::measured(|| question.answer(snapshot, &ReadOptions::default(), &mut clock))
    });
    answer.map_err(|why| anyhow::anyhow!("no comparison: {why}"))?;
    Ok([seconds, used])
}

/// The mean and the longest cycle, and the longest snapshot between cycles where they are taken.
struct Cycles {
    mean: f64,
    longest: f64,
    snapshot: f64,
}

fn cycles(live: &mut Live, options: &Options, to: Option<&Sender<Arc<Snapshot>>>) -> Result<Cycles> {
    let (mut all, mut snapshot, mut last) = (Vec::new(), 0.0_f64, None::<Instant>);
    for _ in 0..options.cycles {
        if let Some(to) = to
            && last.is_none_or(|last| last.elapsed() >= SNAPSHOT_EVERY)
        {
            let (seconds, copy) = machine::used(|| live.scheduler.snapshot(&live.cluster));
            snapshot = snapshot.max(seconds);
            last = Some(Instant::now());
            to.send(Arc::new(copy)).context("the other thread ended")?;
        }
        all.push(live.cycle(options.size)?);
        std::thread::sleep(PAUSE);
    }
    let longest = all.iter().copied().fold(0.0, f64::max);
    Ok(Cycles { mean: all.iter().sum::<f64>() / all.len() as f64, longest, snapshot })
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let mut live = Live::new(options)?;
    let question = Question {
        subject: Subject::PodGroup,
        namespace: "default".to_owned(),
        name: format!("waits-{:06}", options.gangs - 1),
    };
    let snapshot = live.scheduler.snapshot(&live.cluster);
    let (top, _) = machine::measured(|| Top::of(&snapshot, None));
    let [compared, compared_used] = compared(&snapshot)?;
    drop(snapshot);
    let quiet = cycles(&mut live, options, None)?;
    let stop = AtomicBool::new(false);
    let copying = std::thread::scope(|scope| {
        scope.spawn(|| copy(&stop));
        let copying = cycles(&mut live, options, None);
        stop.store(true, Ordering::Relaxed);
        copying
    })?;
    let ((send, snapshots), (answered, answers)) = (channel(), channel());
    let thread = std::thread::spawn(move || answer(&snapshots, &question, &answered));
    let asked = cycles(&mut live, options, Some(&send))?;
    drop(send);
    let answers: Vec<f64> = answers.iter().collect();
    thread.join().map_err(|_| anyhow::anyhow!("an answer failed"))?;
    let slowest = answers.iter().copied().fold(0.0, f64::max);
    for (what, of) in
        [("nobody asks", &quiet), ("another thread copies memory", &copying), ("somebody asks", &asked)]
    {
        say!("while {what}: a cycle {:.3} ms, the longest {:.3} ms", of.mean * 1e3, of.longest * 1e3);
    }
    say!("a snapshot {:.1} ms at most, top {:.1} ms", asked.snapshot * 1e3, top * 1e3);
    say!("{} answers, the slowest {:.0} ms", answers.len(), slowest * 1e3);
    say!("whatif {:.0} ms, {:.0} ms of processor time", compared * 1e3, compared_used * 1e3);
    Ok(json!({
        "name": "explain", "nodes": options.nodes, "gangs": options.gangs, "size": options.size,
        "seconds": slowest, "answers": answers.len(), "snapshotSeconds": asked.snapshot, "topSeconds": top,
        "whatifSeconds": compared, "whatifProcessorSeconds": compared_used,
        "cycleWhileCopyingSeconds": copying.mean, "longestCycleWhileCopyingSeconds": copying.longest,
        "cycleSeconds": quiet.mean, "longestCycleSeconds": quiet.longest,
        "cycleWhileAskedSeconds": asked.mean, "longestCycleWhileAskedSeconds": asked.longest,
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}
