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
/// Nodes that `whatif` adds, and how often it is asked.
const ADDED_NODES: u32 = 10;
const COMPARISONS: usize = 5;

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
    /// Answers that are made while cycles run; more cycles run until there are so many.
    #[arg(long, default_value_t = 20, allow_negative_numbers = true, value_parser = crate::count)]
    answers: usize,
    /// Fail if an answer or a comparison takes longer, in milliseconds.
    #[arg(long)]
    max_ms: Option<f64>,
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

/// An answer.
struct Answered {
    seconds: f64,
    /// Changes that would let the job run.
    found: usize,
    /// The time for finding them was over before all were tried.
    unfinished: bool,
}

/// Answers, until there are no more snapshots.
fn answer(snapshots: &Receiver<Arc<Snapshot>>, question: &Question, answered: &Sender<Answered>) {
    for snapshot in snapshots {
        let Some(answer) = answer_of(&snapshot, question) else { return };
        if answered.send(answer).is_err() {
            return;
        }
    }
}

fn answer_of(snapshot: &Snapshot, question: &Question) -> Option<Answered> {
    let watch = Watch(Instant::now());
    let patience = Patience { limit: Some((&watch, REMEDIES)) };
    let answer = question.answer(snapshot, &[], &patience)?;
    let seconds = watch.elapsed().as_secs_f64();
    let remedies = answer.jobs.iter().map(|job| &job.remedies);
    let found = remedies.clone().map(|of| of.found.len()).sum();
    Some(Answered { seconds, found, unfinished: remedies.clone().any(|of| of.unfinished) })
}

/// Copies memory to and fro until it is told to stop.
fn copy(stop: &AtomicBool) {
    let (from, mut to) = (vec![1_u8; COPIED], vec![0_u8; COPIED]);
    while !stop.load(Ordering::Relaxed) {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
    }
}

/// Seconds of comparisons of the cluster with the same cluster and more nodes, and the processor time of each.
fn comparisons(snapshot: &Snapshot) -> Result<Vec<[f64; 2]>> {
    let added = vec![AddedNodes { like: "node-000000".to_owned(), count: ADDED_NODES }];
    let question = WhatIf { nodes: Changes { added, ..Changes::default() }, ..WhatIf::default() };
    let each = |_| {
        let before = machine::used_by_all();
        let (seconds, answer) = machine::measured(|| question.answer(snapshot, &ReadOptions::default()));
        answer.map_err(|why| anyhow::anyhow!("no comparison: {why}"))?;
        Ok([seconds, machine::used_by_all() - before])
    };
    (0..COMPARISONS).map(each).collect()
}

/// The mean and the longest cycle, and the longest snapshot between cycles where they are taken.
#[derive(Default)]
struct Cycles {
    count: usize,
    seconds: f64,
    longest: f64,
    snapshot: f64,
}

impl Cycles {
    fn one(&mut self, live: &mut Live, options: &Options) -> Result<()> {
        let seconds = live.cycle(options.size)?;
        self.count += 1;
        self.seconds += seconds;
        self.longest = self.longest.max(seconds);
        std::thread::sleep(PAUSE);
        Ok(())
    }

    fn mean(&self) -> f64 {
        self.seconds / self.count as f64
    }
}

fn cycles(live: &mut Live, options: &Options) -> Result<Cycles> {
    let mut cycles = Cycles::default();
    (0..options.cycles).try_for_each(|_| cycles.one(live, options))?;
    Ok(cycles)
}

/// Cycles while another thread copies memory.
fn cycles_beside_copies(live: &mut Live, options: &Options) -> Result<Cycles> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| copy(&stop));
        let cycles = cycles(live, options);
        stop.store(true, Ordering::Relaxed);
        cycles
    })
}

/// Cycles while another thread answers, with a snapshot each second.
fn cycles_while_asked(
    live: &mut Live,
    options: &Options,
    question: &Question,
) -> Result<(Cycles, Vec<Answered>)> {
    let ((send, snapshots), (answered, answers)) = (channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(move || answer(&snapshots, question, &answered));
        let (mut cycles, mut made, mut last) = (Cycles::default(), Vec::new(), None::<Instant>);
        while cycles.count < options.cycles || made.len() < options.answers {
            if last.is_none_or(|last| last.elapsed() >= SNAPSHOT_EVERY) {
                let (seconds, copy) = machine::used(|| live.scheduler.snapshot(&live.cluster));
                cycles.snapshot = cycles.snapshot.max(seconds);
                last = Some(Instant::now());
                send.send(Arc::new(copy)).context("an answer failed")?;
            }
            cycles.one(live, options)?;
            made.extend(answers.try_iter());
        }
        drop(send);
        made.extend(answers.iter());
        Ok((cycles, made))
    })
}

/// The slowest of some.
fn slowest(seconds: impl Iterator<Item = f64>) -> f64 {
    seconds.fold(0.0, f64::max)
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
    let alone = answer_of(&snapshot, &question).context("the gang is not known")?;
    let comparisons = comparisons(&snapshot)?;
    drop(snapshot);
    let quiet = cycles(&mut live, options)?;
    let copying = cycles_beside_copies(&mut live, options)?;
    let (asked, answers) = cycles_while_asked(&mut live, options, &question)?;
    let answer = slowest(answers.iter().map(|answer| answer.seconds));
    let (found, unfinished) = (
        answers.iter().filter(|answer| answer.found > 0).count(),
        answers.iter().filter(|answer| answer.unfinished).count(),
    );
    let [whatif, whatif_used] = [0, 1].map(|at| slowest(comparisons.iter().map(|one| one[at])));
    for (what, of) in
        [("nobody asks", &quiet), ("another thread copies memory", &copying), ("somebody asks", &asked)]
    {
        say!("while {what}: a cycle {:.3} ms, the longest {:.3} ms", of.mean() * 1e3, of.longest * 1e3);
    }
    say!("a snapshot {:.1} ms at most, top {:.1} ms", asked.snapshot * 1e3, top * 1e3);
    say!(
        "{} answers, the slowest {:.0} ms, {:.0} ms with no cycles",
        answers.len(),
        answer * 1e3,
        alone.seconds * 1e3
    );
    say!("{found} found a change that helps, {unfinished} had no time to try all");
    say!(
        "whatif {COMPARISONS} times, the slowest {:.0} ms, {:.0} ms of processor time",
        whatif * 1e3,
        whatif_used * 1e3
    );
    if let Some(most) = options.max_ms {
        ensure!(answer.max(whatif) * 1e3 <= most, "an answer or a comparison took longer than {most} ms");
    }
    Ok(json!({
        "name": "explain", "nodes": options.nodes, "gangs": options.gangs, "size": options.size,
        "seconds": answer, "answers": answers.len(), "found": found, "unfinished": unfinished,
        "aloneSeconds": alone.seconds, "snapshotSeconds": asked.snapshot, "topSeconds": top,
        "whatifSeconds": whatif, "whatifProcessorSeconds": whatif_used,
        "cycleWhileCopyingSeconds": copying.mean(), "longestCycleWhileCopyingSeconds": copying.longest,
        "cycleSeconds": quiet.mean(), "longestCycleSeconds": quiet.longest,
        "cycleWhileAskedSeconds": asked.mean(), "longestCycleWhileAskedSeconds": asked.longest,
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}
