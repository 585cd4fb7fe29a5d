//! `refusal`: how long a gang that cannot fit waits for its *no*, in a cluster full of pods that could be evicted.

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::generate::{self, Gang};
use crate::machine;
use crate::preempt::{self, apply};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 8 GPUs each.
    #[arg(long, default_value_t = 500, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods of the gang, of 8 GPUs each.
    #[arg(long, default_value_t = 10, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
    /// Runs; the fastest counts, since all else is the machine's noise.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

/// GPUs of a node, and of each pod of the gang.
const GPUS: usize = 8;

/// Why the gang cannot fit.
#[derive(Clone, Copy)]
struct Case {
    what: &'static str,
    /// How many fewer nodes can be emptied than the gang has pods; where it is the number of pods, no node can.
    short: fn(usize) -> usize,
    /// The pods that cannot be evicted hold a GPU of a node, and others hold the other seven.
    full: bool,
}

const CASES: [Case; 3] = [
    Case { what: "a GPU is held on each node, the others are idle", short: |size| size, full: false },
    Case { what: "a GPU is held on each node, the others can be taken", short: |size| size, full: true },
    Case { what: "one node too few can be emptied", short: |_| 1, full: true },
];

impl Options {
    /// The cluster without the gang: a pod of one GPU for each GPU in use.
    fn cluster(&self, case: Case) -> Cluster {
        let mut cluster = Cluster::new(ClusterOptions::default());
        cluster.apply(generate::default_queue());
        for (name, value) in [("low", 1), ("high", 1000)] {
            cluster.apply(Event::PriorityClass { name: name.into(), value, global_default: false });
        }
        apply(&mut cluster, generate::gpu_nodes(self.nodes, GPUS));
        let freed = self.size - (case.short)(self.size);
        for node in 0..self.nodes {
            for gpu in 0..if case.full { GPUS } else { 1 } {
                let class = if gpu == 0 && node >= freed { "high" } else { "low" };
                let name = format!("{class}-{node:06}-{gpu}");
                let pod = Gang { name: &name, class, cores: 1, gpus: 1, size: 1, on: vec![node] };
                apply(&mut cluster, pod.events());
            }
        }
        cluster
    }

    /// The cycle that refuses the gang, in seconds.
    fn refuse(&self, case: Case) -> Result<f64> {
        let mut cluster = self.cluster(case);
        let mut scheduler = Scheduler::new(preempt::conf()?, 0);
        scheduler.run(&mut cluster, Time(0));
        let gang =
            Gang { name: "gang", class: "high", cores: 1, gpus: GPUS, size: self.size, on: Vec::new() };
        apply(&mut cluster, gang.events());
        let (seconds, outcome) = machine::measured(|| scheduler.run(&mut cluster, Time(1000)));
        let said = outcome.decisions.iter().any(|one| matches!(one, Decision::PodGroupUnschedulable { .. }));
        let moved = |one: &Decision| matches!(one, Decision::Evict { .. } | Decision::Bind { .. });
        ensure!(said && !outcome.decisions.iter().any(moved), "the gang was not refused: {}", case.what);
        Ok(seconds)
    }

    fn fastest(&self, case: Case) -> Result<f64> {
        (0..self.runs.max(1)).try_fold(f64::INFINITY, |best, _| Ok(self.refuse(case)?.min(best)))
    }
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    ensure!((1..=options.nodes).contains(&options.size), "--size is a number from 1 to --nodes");
    let gpus = GPUS * options.size;
    let mut bars = Vec::new();
    let mut slowest = 0.0_f64;
    for case in CASES {
        let seconds = options.fastest(case)?;
        say!("{gpus} GPUs on {} nodes refused, {}: {:.2} ms", options.nodes, case.what, seconds * 1e3);
        bars.push(Bar::ours(case.what, seconds * 1e3));
        slowest = slowest.max(seconds);
    }
    let title = format!("a gang of {gpus} GPUs that cannot fit on {} nodes: its cycle", options.nodes);
    let chart =
        Chart { title: "Time to no".to_owned(), panels: vec![Panel::new(title, "milliseconds", bars)] };
    Ok(json!({
        "name": "refusal", "nodes": options.nodes, "gangs": 1, "size": options.size, "seconds": slowest,
        "chart": chart, "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}
