//! `journal`: what a journal adds to the thread of the cycle, how large it gets, and how long a replay takes.
use std::fs;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_framework::extender::NoExtender;
use phalanx_runtime::journal::{Journal, JournalOptions, Reader, Replay, Start};
use serde_json::{Value, json};

use crate::{Size, core, generate, machine};

/// Events that the scheduling thread takes in at once.
const BATCH: usize = 500;

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Runs of each kind, in turn; the fastest counts.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Decisions,
    Inputs,
}

/// Processor seconds of one kind, the fewest of all runs, and bytes.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Of the scheduling thread, to take in the events.
    load: f64,
    /// Of the same, for the cycles.
    cycle: f64,
    /// Of all threads for both.
    all: f64,
    bytes: u64,
    /// Pods that were bound, and statuses.
    decisions: usize,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    let folder = std::env::temp_dir().join(format!("phalanx-bench-journal-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let path = folder.join("journal");
    let kinds = [Kind::Nothing, Kind::Decisions, Kind::Inputs];
    let mut fastest = [Figures { load: f64::MAX, cycle: f64::MAX, all: f64::MAX, bytes: 0, decisions: 0 }; 3];
    for _ in 0..options.runs {
        for (kind, best) in kinds.into_iter().zip(&mut fastest) {
            let _ = fs::remove_file(&path);
            let figures = one(options.size, kind, &path)?;
            best.load = best.load.min(figures.load);
            best.cycle = best.cycle.min(figures.cycle);
            best.all = best.all.min(figures.all);
            (best.bytes, best.decisions) = (figures.bytes, figures.decisions);
        }
    }
    let (replay, replayed) = machine::measured(|| replay(&path));
    replayed?;
    fs::remove_dir_all(&folder)?;
    let of = |kind: usize| {
        let Figures { load, cycle, all, bytes, decisions } = fastest[kind];
        json!({ "loadSeconds": load, "cycleSeconds": cycle, "allThreadsSeconds": all, "bytes": bytes, "decisions": decisions,
            "loadRatio": load / fastest[0].load, "cycleRatio": cycle / fastest[0].cycle })
    };
    for (kind, figures) in kinds.iter().zip(fastest) {
        let Figures { load, cycle, all, bytes, decisions } = figures;
        let (load, cycle, all) = (load * 1e3, cycle * 1e3, all * 1e3);
        say!(
            "{kind:?}: load {load:.1} ms, cycle {cycle:.1} ms, all threads {all:.1} ms, {bytes} bytes, {decisions} decisions"
        );
    }
    say!("replay {:.1} ms", replay * 1e3);
    Ok(json!({
        "name": "journal", "nodes": nodes, "gangs": gangs, "size": size, "nothing": of(0), "decisions": of(1),
        "inputs": of(2), "replaySeconds": replay, "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}

/// A scheduler that takes in a cluster and runs a cycle and one after it, with a journal.
fn one(size: Size, kind: Kind, path: &Path) -> Result<Figures> {
    let options = ClusterOptions::default();
    let mut journal = match kind {
        Kind::Nothing => Journal::default(),
        Kind::Decisions | Kind::Inputs => Journal::open(journal(path, kind), Arc::default())?,
    };
    journal.start(Start {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        inputs: true,
        seed: 0,
        default_queue: options.default_queue.clone(),
        group_wait: options.group_wait,
        sampling: None,
        backoff: phalanx_core::BackoffTimes::default(),
        conf: Some(core::HELM.into()),
    });
    let mut cluster = Cluster::new(options);
    let mut scheduler = Scheduler::new(core::helm_conf()?, 0);
    journal.equip(&mut scheduler, Arc::new(NoExtender));
    let batches = batches(size);
    let started = machine::used_by_all();
    let (load, ()) = machine::used(|| {
        for batch in batches {
            journal.events(&batch);
            for event in batch {
                cluster.apply(event);
            }
        }
    });
    let mut decided = 0;
    let (cycle, ()) = machine::used(|| {
        for now in [Time(0), Time(1000)] {
            let outcome = scheduler.run_handing_out(&mut cluster, now, &mut |some| {
                journal.decided(&some);
                decided += some.len();
            });
            decided += outcome.decisions.len();
            journal.decided(&outcome.decisions);
            journal.cycle(outcome.cycle, now);
            scheduler.pending(&mut cluster);
        }
    });
    ensure!(decided >= size.gangs, "{decided} decisions: the cluster is too small");
    drop(journal);
    let all = machine::used_by_all() - started;
    Ok(Figures {
        load,
        cycle,
        all,
        bytes: fs::metadata(path).map_or(0, |file| file.len()),
        decisions: decided,
    })
}

fn journal(path: &Path, kind: Kind) -> JournalOptions {
    JournalOptions { path: path.to_owned(), max_bytes: 1 << 40, max_backups: 0, inputs: kind == Kind::Inputs }
}

fn batches(size: Size) -> Vec<Vec<Event>> {
    let kinds = generate::Kinds { count: 1, distinct_requests: false };
    let queue = std::iter::once(generate::default_queue());
    let events: Vec<Event> =
        queue.chain(generate::nodes(size.nodes)).chain(generate::gangs(size, kinds)).collect();
    events.chunks(BATCH).map(<[Event]>::to_vec).collect()
}

fn replay(path: &Path) -> Result<()> {
    let (mut replay, mut cycles) = (Replay::default(), 0);
    for line in Reader::new(path) {
        if let Some(cycle) = replay.take_in(line?)? {
            ensure!(cycle.difference.is_none(), "cycle {} differs", cycle.cycle.number);
            cycles += 1;
        }
    }
    (cycles == 2).then_some(()).with_context(|| format!("{cycles} cycles were replayed, not 2"))
}
