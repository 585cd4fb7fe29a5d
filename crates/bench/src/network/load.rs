//! `network-load`: gangs arrive and finish in virtual time; how near to each other their pods are, and how long they
//! wait, without a topology, with a soft and with a hard one.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use phalanx_cluster::event::{Event, Key, PodGroupInfo, PodInfo, PodLife, PodPhase, Time};
use phalanx_cluster::id::{JobId, NodeId};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Dxsm;
use serde_json::{Value, json};

use super::{FANOUT, Nearness, conf, hyper_nodes};
use crate::{generate, machine};

/// GPUs of a node; each pod requests one.
const GPUS: usize = 8;
/// Sizes of gangs; each is drawn half as often as the one before.
const SIZES: [usize; 7] = [8, 16, 32, 64, 128, 256, 512];
/// The mean time that a gang runs, in milliseconds.
const RUNS_MS: f64 = 3_600_000.0;

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes of eight GPUs.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Gangs that arrive, of 8 to 512 pods with a GPU each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    gangs: usize,
    /// The parts of all GPUs that the gangs would use if none waited, in percent.
    #[arg(long, value_delimiter = ',', default_value = "60,80,95")]
    loads: Vec<u32>,
    /// Draws sizes, arrivals and run times.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A gang that arrives.
#[derive(Clone, Debug)]
struct Arrival {
    at: i64,
    size: usize,
    runs: i64,
}

fn arrivals(options: &Options, load: u32) -> Vec<Arrival> {
    let mut rng = Pcg64Dxsm::seed_from_u64(options.seed);
    let mut exponential = |mean: f64| -mean * (1.0 - rng.random::<f64>()).ln();
    let weights: Vec<f64> = (0..SIZES.len()).map(|at| 0.5f64.powi(at as i32)).collect();
    let total: f64 = weights.iter().sum();
    let mean_size: f64 = weights.iter().zip(SIZES).map(|(weight, size)| weight / total * size as f64).sum();
    let gpus = (options.nodes * GPUS) as f64 * f64::from(load) / 100.0;
    let mean_gap = mean_size * RUNS_MS / gpus;
    let mut sizes = Pcg64Dxsm::seed_from_u64(options.seed ^ 1);
    let mut size = || {
        let mut left = sizes.random::<f64>() * total;
        let of = |weight: &f64| {
            left -= weight;
            left < 0.0
        };
        SIZES[weights.iter().position(of).unwrap_or(SIZES.len() - 1)]
    };
    let mut at = 0.0;
    let arrival = |_| {
        at += exponential(mean_gap);
        Arrival { at: at as i64, size: size(), runs: exponential(RUNS_MS) as i64 + 1 }
    };
    (0..options.gangs).map(arrival).collect()
}

/// What came of the gangs.
#[derive(Default)]
struct Figures {
    /// Gangs that fit one HyperNode of tier 1, and how many of them were in one.
    small: (usize, usize),
    /// Tiers of the lowest HyperNodes that held a gang.
    tiers: Vec<u32>,
    waits_ms: Vec<i64>,
    /// Tiers between pods of neighbouring ranks, and how many pairs these are.
    ranks: (u64, u64),
    /// The same with the ranks of each gang drawn at random.
    drawn: (u64, u64),
}

struct Run {
    cluster: Cluster,
    scheduler: Scheduler,
    pods: BTreeMap<Arc<str>, PodInfo>,
    /// When gangs end, by number.
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    figures: Figures,
}

impl Run {
    fn new(nodes: usize) -> Self {
        let mut cluster = Cluster::new(ClusterOptions::default());
        cluster.apply(generate::default_queue());
        generate::gpu_nodes(nodes, GPUS).for_each(|event| _ = cluster.apply(event));
        for event in hyper_nodes(nodes) {
            cluster.apply(event);
        }
        Self {
            cluster,
            scheduler: Scheduler::new(conf(), 0),
            pods: BTreeMap::new(),
            ends: BinaryHeap::new(),
            figures: Figures::default(),
        }
    }

    fn arrive(&mut self, number: usize, arrival: &Arrival, nearness: Nearness) {
        let name = format!("gang-{number:06}");
        let gang =
            generate::Gang { name: &name, class: "", cores: 1, gpus: 1, size: arrival.size, on: Vec::new() };
        for event in gang.events() {
            self.cluster.apply(match event {
                Event::PodGroup(group) => {
                    let topology = nearness.topology();
                    PodGroupInfo { topology, created: Time(arrival.at), ..*group }.into()
                }
                Event::Pod(pod) => {
                    self.pods.insert(pod.pod.uid.clone(), (*pod).clone());
                    Event::Pod(pod)
                }
                event => event,
            });
        }
    }

    /// Runs cycles until one binds nothing.
    fn cycles(&mut self, now: i64, arrivals: &[Arrival]) {
        loop {
            let outcome = self.scheduler.run(&mut self.cluster, Time(now));
            let mut bound = Vec::new();
            for decision in outcome.decisions {
                let Decision::Bind { pods, .. } = decision else { continue };
                for binding in &pods {
                    let mut pod = self.pods[&binding.pod.uid].clone();
                    pod.life =
                        PodLife { phase: PodPhase::Running, node: Some(binding.node.clone()), ..pod.life };
                    self.cluster.apply(Event::Bound(pod.pod.uid.clone()));
                    self.cluster.apply(pod.into());
                }
                bound.extend(pods.first().map(|binding| binding.pod.name.clone()));
            }
            if bound.is_empty() {
                return;
            }
            for pod in bound {
                let number: usize = pod[5..11].parse().unwrap_or(0);
                self.started(number, now, &arrivals[number]);
            }
        }
    }

    fn started(&mut self, number: usize, now: i64, arrival: &Arrival) {
        self.ends.push(Reverse((now + arrival.runs, number)));
        self.figures.waits_ms.push(now - arrival.at);
        let key = Key::new("default", &format!("gang-{number:06}"));
        let Some(job) = self.cluster.job_named(phalanx_cluster::JobKind::Group, &key) else { return };
        let nodes = self.cluster.nodes_of(self.cluster.jobs[job].tasks.iter());
        let lowest = self.cluster.domains_around(&nodes, None).into_iter().next();
        let tier = lowest.map_or(4, |id| self.cluster.hyper_nodes.get(id).tier);
        self.figures.tiers.push(tier);
        self.ranked(number, job);
        if arrival.size <= FANOUT[0] * GPUS {
            self.figures.small.0 += 1;
            self.figures.small.1 += usize::from(tier == 1);
        }
    }

    /// Counts how near pods of neighbouring ranks are, as they are and with ranks drawn at random.
    fn ranked(&mut self, number: usize, job: JobId) {
        let tasks = &self.cluster.tasks;
        let mut ranked = self.cluster.jobs[job].tasks.clone();
        ranked.sort_by_key(|task| tasks[*task].details.index);
        let mut nodes: Vec<NodeId> = ranked.iter().filter_map(|task| tasks[*task].node).collect();
        let distance = |nodes: &[NodeId]| {
            let apart = nodes.windows(2).map(|pair| u64::from(tiers_between(&self.cluster, pair)));
            (apart.sum::<u64>(), nodes.len().saturating_sub(1) as u64)
        };
        let ranks = distance(&nodes);
        nodes.shuffle(&mut Pcg64Dxsm::seed_from_u64(number as u64));
        let drawn = distance(&nodes);
        for (sum, more) in [(&mut self.figures.ranks, ranks), (&mut self.figures.drawn, drawn)] {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
    }

    fn end(&mut self, number: usize, size: usize) {
        let name = format!("gang-{number:06}");
        for index in 0..size {
            let uid: Arc<str> = format!("{name}-{index}").into();
            self.pods.remove(&uid);
            self.cluster.apply(Event::PodGone(uid));
        }
        self.cluster.apply(Event::PodGroupGone(Key::new("default", &name)));
    }
}

/// The tier of the lowest HyperNode that holds both nodes; 0 for one node.
fn tiers_between(cluster: &Cluster, pair: &[NodeId]) -> u32 {
    if pair[0] == pair[1] {
        return 0;
    }
    let lowest = cluster.domains_around(pair, None).into_iter().next();
    lowest.map_or(4, |id| cluster.hyper_nodes.get(id).tier)
}

fn play(options: &Options, arrivals: &[Arrival], nearness: impl Fn(usize) -> Nearness) -> Figures {
    let mut run = Run::new(options.nodes);
    let mut next = 0;
    while next < arrivals.len() || !run.ends.is_empty() {
        let arrives = arrivals.get(next).map_or(i64::MAX, |arrival| arrival.at);
        let ends = run.ends.peek().map_or(i64::MAX, |Reverse((at, _))| *at);
        let now = arrives.min(ends);
        if ends <= arrives {
            if let Some(Reverse((_, number))) = run.ends.pop() {
                run.end(number, arrivals[number].size);
            }
        } else {
            run.arrive(next, &arrivals[next], nearness(arrivals[next].size));
            next += 1;
        }
        run.cycles(now, arrivals);
    }
    run.figures
}

/// The name of a row, and the topology of gangs by their size.
type Row = (&'static str, fn(usize) -> Nearness);

/// The lowest tier in which a gang fits an empty cluster.
fn lowest_tier(size: usize) -> u32 {
    let leaf = FANOUT[0] * GPUS;
    if size <= leaf {
        1
    } else if size <= leaf * FANOUT[1] {
        2
    } else {
        3
    }
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let mut rows = Vec::new();
    for load in &options.loads {
        let arrivals = arrivals(options, *load);
        let nearness: [Row; 3] = [
            ("none", |_| Nearness::None),
            ("soft", |_| Nearness::Soft),
            ("hard", |size| Nearness::Hard(lowest_tier(size))),
        ];
        for (name, nearness) in nearness {
            let figures = play(options, &arrivals, nearness);
            let row = row(*load, name, figures);
            say!(
                "load {load} %, {name}: {:.1} % of gangs up to 128 pods in one HyperNode of tier 1, mean tier {:.2}, between neighbouring ranks {:.2} ({:.2} with ranks drawn at random), mean wait {:.0} s, 99 % within {:.0} s",
                row["inLowestPercent"].as_f64().unwrap_or(0.0),
                row["meanTier"].as_f64().unwrap_or(0.0),
                row["meanRankDistance"].as_f64().unwrap_or(0.0),
                row["meanRankDistanceDrawn"].as_f64().unwrap_or(0.0),
                row["meanWaitSeconds"].as_f64().unwrap_or(0.0),
                row["p99WaitSeconds"].as_f64().unwrap_or(0.0),
            );
            rows.push(row);
        }
    }
    Ok(json!({
        "name": "network-load", "nodes": options.nodes, "gangs": options.gangs, "seed": options.seed,
        "rows": rows, "cores": machine::cores(),
    }))
}

fn row(load: u32, name: &str, mut figures: Figures) -> Value {
    figures.waits_ms.sort_unstable();
    let started = figures.tiers.len();
    let mean = |sum: f64| sum / started.max(1) as f64;
    let tiers = figures.tiers.iter().map(|tier| f64::from(*tier)).sum();
    let waits: f64 = figures.waits_ms.iter().map(|ms| *ms as f64 / 1e3).sum();
    let p99 = figures.waits_ms.get(started * 99 / 100).copied().unwrap_or(0);
    let (small, near) = figures.small;
    let distance = |(sum, pairs): (u64, u64)| sum as f64 / pairs.max(1) as f64;
    json!({
        "meanRankDistance": distance(figures.ranks), "meanRankDistanceDrawn": distance(figures.drawn),
        "load": load, "topology": name, "started": started,
        "inLowestPercent": near as f64 * 100.0 / small.max(1) as f64,
        "meanTier": mean(tiers), "meanWaitSeconds": mean(waits), "p99WaitSeconds": p99 as f64 / 1e3,
    })
}
