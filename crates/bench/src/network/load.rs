//! `network-load`: gangs arrive and finish in virtual time; how near to each other their pods are, and how long they
//! wait, without a topology, with a soft and with a hard one.
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use anyhow::Result;
use clap::Args;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Dxsm;
use serde_json::{Value, json};

use super::play::{Play, Start};
use super::shape::Shape;
use super::{Nearness, chart};
use crate::chart::{Bar, Panel};
use crate::machine;

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
    /// Gangs that arrive first and are not counted: they fill the cluster.
    #[arg(long, default_value_t = 0)]
    warm_up: usize,
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

fn arrivals(options: &Options, gpus: usize, load: u32) -> Vec<Arrival> {
    let mut rng = Pcg64Dxsm::seed_from_u64(options.seed);
    let mut exponential = |mean: f64| -mean * (1.0 - rng.random::<f64>()).ln();
    let mut sizes = Pcg64Dxsm::seed_from_u64(options.seed ^ 1);
    let mean_gap = mean_size(&SIZES) * RUNS_MS / (gpus as f64 * f64::from(load) / 100.0);
    let mut at = 0.0;
    let arrival = |_| {
        at += exponential(mean_gap);
        let size = draw(&SIZES, &mut sizes);
        Arrival { at: at as i64, size, runs: exponential(RUNS_MS) as i64 + 1 }
    };
    (0..options.gangs).map(arrival).collect()
}

/// The mean of sizes of which each is drawn half as often as the one before.
fn mean_size(sizes: &[usize]) -> f64 {
    let weights = || (0..sizes.len()).map(|at| 0.5f64.powi(at as i32));
    let total: f64 = weights().sum();
    weights().zip(sizes).map(|(weight, size)| weight / total * *size as f64).sum()
}

/// Draws one of the sizes, each half as often as the one before.
pub(super) fn draw(sizes: &[usize], rng: &mut Pcg64Dxsm) -> usize {
    let weights = || (0..sizes.len()).map(|at| 0.5f64.powi(at as i32));
    let mut left = rng.random::<f64>() * weights().sum::<f64>();
    let is_drawn = |weight: f64| {
        left -= weight;
        left < 0.0
    };
    sizes[weights().position(is_drawn).unwrap_or(sizes.len() - 1)]
}

/// What came of the gangs that were placed.
struct Figures {
    shape: Shape,
    /// GPUs in use when each counted gang arrived.
    used: Vec<usize>,
    placed: Vec<Placed>,
    /// Tiers between pods of neighbouring ranks, and how many pairs these are.
    ranks: (u64, u64),
    /// The same with the ranks of each gang drawn at random.
    drawn: (u64, u64),
}

struct Placed {
    size: usize,
    tier: usize,
    /// The lowest tier of which a HyperNode had room for it when it was placed.
    lowest: usize,
    wait_ms: i64,
}

impl Figures {
    fn add(&mut self, start: &Start, wait_ms: i64) {
        let mut nodes = start.nodes.clone();
        let (size, tier) = (nodes.len(), self.shape.tier_of(&nodes));
        self.placed.push(Placed { size, tier, lowest: start.lowest, wait_ms });
        let ranks = self.between_ranks(&nodes);
        nodes.shuffle(&mut Pcg64Dxsm::seed_from_u64(start.gang as u64));
        let drawn = self.between_ranks(&nodes);
        for (sum, more) in [(&mut self.ranks, ranks), (&mut self.drawn, drawn)] {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
    }

    /// The tiers of the lowest HyperNodes that hold two neighbours, 0 for one node, and how many pairs these are.
    fn between_ranks(&self, nodes: &[usize]) -> (u64, u64) {
        let tiers = |pair: &[usize]| if pair[0] == pair[1] { 0 } else { self.shape.tier_of(pair) as u64 };
        (nodes.windows(2).map(tiers).sum(), nodes.len().saturating_sub(1) as u64)
    }

    /// How many of these gangs are in one HyperNode of the lowest tier in which they fit the empty cluster, in percent.
    fn in_lowest(&self, of: impl Fn(&Placed) -> bool) -> f64 {
        let (mut all, mut near) = (0, 0);
        for it in self.placed.iter().filter(|it| of(it)) {
            all += 1;
            near += usize::from(it.tier <= self.shape.lowest_tier(it.size));
        }
        f64::from(near as u32) * 100.0 / f64::from(all.max(1))
    }

    fn mean(&self, of: impl Fn(&Placed) -> f64) -> f64 {
        self.placed.iter().map(of).sum::<f64>() / self.placed.len().max(1) as f64
    }

    fn row(&self, load: u32, name: &str) -> Value {
        let mut waits: Vec<i64> = self.placed.iter().map(|it| it.wait_ms).collect();
        waits.sort_unstable();
        let p99 = waits.get(waits.len() * 99 / 100).copied().unwrap_or(0);
        let by_size = SIZES.map(|size| {
            let gangs = self.placed.iter().filter(|it| it.size == size).count();
            json!({"size": size, "gangs": gangs, "inLowestPercent": self.in_lowest(|it| it.size == size)})
        });
        let distance = |(sum, pairs): (u64, u64)| sum as f64 / pairs.max(1) as f64;
        let used = self.used.iter().sum::<usize>() as f64 / self.used.len().max(1) as f64;
        json!({
            "load": load, "topology": name, "started": self.placed.len(),
            "meanUsePercent": 100.0 * used / (self.shape.nodes * self.shape.gpus) as f64,
            "inLowestPercent": self.in_lowest(|_| true), "bySize": by_size,
            "meanTier": self.mean(|it| it.tier as f64),
            "meanLowestTierWithRoom": self.mean(|it| it.lowest as f64),
            "aboveLowestWithRoom": self.placed.iter().filter(|it| it.tier > it.lowest).count(),
            "meanWaitSeconds": self.mean(|it| it.wait_ms as f64 / 1e3), "p99WaitSeconds": p99 as f64 / 1e3,
            "meanRankDistance": distance(self.ranks), "meanRankDistanceDrawn": distance(self.drawn),
        })
    }
}

fn play(shape: Shape, arrivals: &[Arrival], warm_up: usize, nearness: Nearness) -> Figures {
    let mut play = Play::new(shape);
    let mut figures = Figures { shape, used: Vec::new(), placed: Vec::new(), ranks: (0, 0), drawn: (0, 0) };
    let mut used = 0;
    let mut running: Vec<Option<Start>> = vec![None; arrivals.len()];
    let mut ends: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut next = 0;
    while next < arrivals.len() || !ends.is_empty() {
        let arrives = arrivals.get(next).map_or(i64::MAX, |arrival| arrival.at);
        let first_end = ends.peek().map_or(i64::MAX, |Reverse((at, _))| *at);
        let now = arrives.min(first_end);
        if first_end <= arrives {
            if let Some(start) = ends.pop().and_then(|Reverse((_, gang))| running[gang].take()) {
                play.end(&start);
                used -= start.nodes.len();
            }
        } else {
            play.arrive(next, arrivals[next].size, now, nearness);
            figures.used.extend((next >= warm_up).then_some(used));
            next += 1;
        }
        for start in play.cycles(now) {
            let arrival = &arrivals[start.gang];
            ends.push(Reverse((now + arrival.runs, start.gang)));
            used += start.nodes.len();
            if start.gang >= warm_up {
                figures.add(&start, now - arrival.at);
            }
            running[start.gang].replace(start.clone());
        }
    }
    figures
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let shape = Shape::large(options.nodes, 8);
    let mut rows = Vec::new();
    for load in &options.loads {
        let arrivals = arrivals(options, shape.nodes * shape.gpus, *load);
        for (name, nearness) in Nearness::ALL {
            let row = play(shape, &arrivals, options.warm_up, nearness).row(*load, name);
            let figure = |key: &str| row[key].as_f64().unwrap_or(0.0);
            say!(
                "load {load} %, {name}: {:.0} % in use, {:.1} % of gangs in one HyperNode of their lowest tier, mean tier {:.2} of {:.2} with room, between neighbouring ranks {:.2} ({:.2} with ranks drawn at random), mean wait {:.0} s, 99 % within {:.0} s",
                figure("meanUsePercent"),
                figure("inLowestPercent"),
                figure("meanTier"),
                figure("meanLowestTierWithRoom"),
                figure("meanRankDistance"),
                figure("meanRankDistanceDrawn"),
                figure("meanWaitSeconds"),
                figure("p99WaitSeconds"),
            );
            rows.push(row);
        }
    }
    let chart = chart(vec![
        panel(options, &rows, "inLowestPercent", "gangs in one HyperNode of their lowest tier", "percent"),
        panel(options, &rows, "meanTier", "mean tier of a gang", "tiers"),
        panel(
            options,
            &rows,
            "meanWaitSeconds",
            "mean wait of a gang that runs an hour in the mean",
            "seconds",
        ),
    ]);
    Ok(json!({
        "name": "network-load", "nodes": options.nodes, "gangs": options.gangs, "warmUp": options.warm_up,
        "seed": options.seed,
        "rows": rows, "chart": chart, "cores": machine::cores(),
    }))
}

fn panel(options: &Options, rows: &[Value], key: &str, title: &str, unit: &str) -> Panel {
    let bar = |row: &Value| {
        let label = format!("load {} %, {}", row["load"], row["topology"].as_str().unwrap_or_default());
        Bar::ours(label, row[key].as_f64().unwrap_or(0.0))
    };
    Panel::new(format!("{} nodes: {title}", options.nodes), unit, rows.iter().map(bar).collect())
}
