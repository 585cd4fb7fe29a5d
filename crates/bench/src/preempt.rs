//! `preempt`: a gang evicts its way into a full cluster in memory, and one that never fits is refused.

use anyhow::{Context, Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, parse};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use phalanx_framework::conf::Conf;
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::generate::{self, Gang};
use crate::machine;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods of low priority on each node, which they fill.
    #[arg(long, default_value_t = 4, allow_negative_numbers = true, value_parser = crate::count)]
    per_node: usize,
    /// Pods of a gang of low priority; 1 for none.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = crate::count)]
    victims: usize,
    /// Pods of the gang.
    #[arg(long, default_value_t = 512, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
    /// Pods of low priority that have to go for one pod of the gang.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = crate::count)]
    each: usize,
    /// Priority classes of the pods on a node, by turns.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = crate::count)]
    classes: usize,
    /// Runs; the fastest counts, since all else is the machine's noise.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

/// Cores of a node.
const CORES: usize = 32;

/// A scheduler.conf that evicts.
pub(crate) fn conf() -> Result<Conf> {
    let parsed = parse(include_str!("../../../config/preempt-and-reclaim.yaml"), &Known::builtin());
    parsed.conf.context("config/preempt-and-reclaim.yaml does not parse")
}

/// What a cycle with a gang that came into a full cluster took.
struct Ran {
    /// All of it.
    seconds: f64,
    evicted: usize,
    nominated: usize,
}

pub(crate) fn apply(cluster: &mut Cluster, events: impl Iterator<Item = Event>) {
    for event in events {
        cluster.apply(event);
    }
}

impl Options {
    /// A full cluster, known to its scheduler, and a gang that has just come.
    fn arrive(&self, conf: Conf, gang: &Gang<'_>) -> (Cluster, Scheduler) {
        let mut cluster = Cluster::new(ClusterOptions::default());
        cluster.apply(generate::default_queue());
        let low = |class: usize| (format!("low-{class}"), class as i32 + 1);
        for (name, value) in (0..self.classes).map(low).chain([("high".to_owned(), 1_000_000)]) {
            cluster.apply(Event::PriorityClass { name: name.into(), value, global_default: false });
        }
        apply(&mut cluster, generate::nodes(self.nodes));
        let pods = self.nodes * self.per_node;
        for (at, first) in (0..pods).step_by(self.victims).enumerate() {
            let cores = CORES / self.per_node;
            // Members are spread, so that no node is emptied by taking one gang.
            let on = (first..pods.min(first + self.victims)).map(|pod| pod % self.nodes).collect();
            let (name, class) = (format!("low-{at:06}"), low(first / self.nodes % self.classes).0);
            let victims = Gang { name: &name, class: &class, cores, gpus: 0, size: self.victims, on };
            apply(&mut cluster, victims.events());
        }
        let mut scheduler = Scheduler::new(conf, 0);
        scheduler.run(&mut cluster, Time(0));
        apply(&mut cluster, gang.events());
        (cluster, scheduler)
    }

    fn run_cycle(&self, conf: &Conf, gang: &Gang<'_>) -> Ran {
        let (mut cluster, mut scheduler) = self.arrive(conf.clone(), gang);
        let (seconds, outcome) = machine::measured(|| scheduler.run(&mut cluster, Time(1000)));
        let count = |is: fn(&Decision) -> bool| outcome.decisions.iter().filter(|one| is(one)).count();
        let evicted = count(|one| matches!(one, Decision::Evict { .. }));
        let nominated = count(|one| matches!(one, Decision::Nominate { node: Some(_), .. }));
        Ran { seconds, evicted, nominated }
    }

    /// The fastest cycle with the evicting actions, and what they add to one without.
    fn measure(&self, gang: &Gang<'_>) -> Result<(Ran, f64)> {
        let with = conf()?;
        let mut without = with.clone();
        without.actions.retain(|action| !["preempt", "reclaim"].contains(&action.as_str()));
        let fastest = |conf: &Conf| {
            let runs = (0..self.runs.max(1)).map(|_| self.run_cycle(conf, gang));
            runs.min_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("at least one run")
        };
        let (ran, plain) = (fastest(&with), fastest(&without));
        let added = (ran.seconds - plain.seconds).max(0.0);
        Ok((ran, added))
    }
}

fn chart(options: &Options, evicting: f64, refusing: f64) -> Chart {
    let victims = options.each * options.size;
    let bars = vec![
        Bar::ours(format!("{victims} pods are evicted for a gang of {}", options.size), evicting * 1e3),
        Bar::ours("a gang that never fits is refused", refusing * 1e3),
    ];
    let panel = format!(
        "what evicting adds to a cycle: {} nodes full with {} pods",
        options.nodes,
        options.nodes * options.per_node
    );
    Chart { title: "Preemption".to_owned(), panels: vec![Panel::new(panel, "milliseconds", bars)] }
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let cores = options.each * CORES / options.per_node;
    let gang = Gang { name: "gang", class: "high", cores, gpus: 0, size: options.size, on: Vec::new() };
    let (ran, added) = options.measure(&gang)?;
    let expected = options.each * options.size;
    ensure!(
        (ran.evicted, ran.nominated) == (expected, options.size),
        "{} pods were evicted for {} of {}; {expected} should have been",
        ran.evicted,
        ran.nominated,
        options.size
    );
    say!(
        "{expected} of {} pods evicted for a gang of {}: cycle {:.1} ms, of which evicting {:.1} ms",
        options.nodes * options.per_node,
        options.size,
        ran.seconds * 1e3,
        added * 1e3
    );
    let refused = |why: &str, class: &str, cores: usize, size: usize| -> Result<(f64, f64)> {
        let (ran, added) =
            options.measure(&Gang { name: "gang", class, cores, gpus: 0, size, on: Vec::new() })?;
        ensure!((ran.evicted, ran.nominated) == (0, 0), "somebody was evicted for a gang that is {why}");
        say!("refused, {why}: cycle {:.1} ms, of which evicting {:.1} ms", ran.seconds * 1e3, added * 1e3);
        Ok((ran.seconds, added))
    };
    let large = refused("larger than a node", "high", CORES + 1, options.size)?;
    let many = refused("one more than there are nodes", "high", CORES, options.nodes + 1)?;
    let equal = refused("no more important than those who run", "low-0", cores, options.size)?;
    Ok(json!({
        "name": "preempt", "nodes": options.nodes, "gangs": 1, "size": options.size,
        "pods": options.nodes * options.per_node, "evicted": ran.evicted,
        "seconds": ran.seconds, "evictingSeconds": added,
        "refusalSeconds": large.1.max(many.1), "refusalCycleSeconds": large.0.max(many.0),
        "noVictimsSeconds": equal.1,
        "chart": chart(options, added, large.1.max(many.1)),
        "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}
