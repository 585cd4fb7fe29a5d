//! `network-best`: batches of gangs on small clusters that are used in part; how many get one HyperNode of their lowest
//! tier, and how low their tiers are, beside the best that any assignment of the batch comes to.
use std::collections::HashSet;

use anyhow::{Result, ensure};
use clap::Args;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Dxsm;
use serde_json::{Value, json};

use super::load::draw;
use super::play::Play;
use super::shape::{Free, Shape, TIERS};
use super::{Nearness, chart};
use crate::chart::{Bar, Panel};
use crate::machine;

/// Eight nodes of four GPUs: two of them in each HyperNode of tier 1, four in each of tier 2.
const SHAPE: Shape = Shape { nodes: 8, gpus: 4, fanout: [2, 2] };
/// Sizes of gangs; each is drawn half as often as the one before.
const SIZES: [usize; 6] = [2, 3, 4, 6, 8, 12];

#[derive(Args)]
pub(crate) struct Options {
    /// Batches.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    batches: usize,
    /// The parts of the free GPUs that a batch requests, in percent.
    #[arg(long, value_delimiter = ',', default_value = "60,80,95")]
    loads: Vec<u32>,
    /// Draws what is used, and the gangs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A cluster that is used in part, and gangs that arrive together.
struct Batch {
    /// A node for each GPU that is used.
    used: Vec<usize>,
    sizes: Vec<usize>,
}

impl Batch {
    fn draw(load: u32, rng: &mut Pcg64Dxsm) -> Self {
        let part = rng.random_range(0.0..0.5);
        let gpus = (0..SHAPE.nodes).flat_map(|node| [node; SHAPE.gpus]);
        let used: Vec<usize> = gpus.filter(|_| rng.random::<f64>() < part).collect();
        let mut left = (SHAPE.nodes * SHAPE.gpus - used.len()) * load as usize / 100;
        let mut sizes = Vec::new();
        while left >= SIZES[0] {
            let fitting: Vec<usize> = SIZES.iter().copied().filter(|size| *size <= left).collect();
            let size = draw(&fitting, rng);
            left -= size;
            sizes.push(size);
        }
        Self { used, sizes }
    }

    fn free(&self) -> Free {
        let mut free = Free::new(SHAPE);
        free.take(&self.used);
        free
    }
}

/// What came of gangs: counts of batches add up.
#[derive(Clone, Copy, Default)]
struct Outcome {
    /// Gangs in one HyperNode of the lowest tier in which they fit the empty cluster.
    in_lowest: usize,
    /// The tiers of all that were placed.
    tiers: usize,
    placed: usize,
}

fn placed_by_phalanx(batch: &Batch, nearness: Nearness) -> Outcome {
    let mut play = Play::new(SHAPE);
    play.fill(&batch.used);
    for (gang, size) in batch.sizes.iter().enumerate() {
        play.arrive(gang, *size, gang as i64, nearness);
    }
    let mut outcome = Outcome::default();
    for start in play.cycles(batch.sizes.len() as i64) {
        let tier = SHAPE.tier_of(&start.nodes);
        outcome.placed += 1;
        outcome.tiers += tier;
        outcome.in_lowest += usize::from(tier <= SHAPE.lowest_tier(start.nodes.len()));
    }
    outcome
}

/// A search over all assignments of gangs to HyperNodes.
///
/// Pods with one GPU each can be placed when in each HyperNode the gangs that are assigned to it or below it request no
/// more than is free there, so nodes need not be looked at.
struct Search<'a> {
    sizes: &'a [usize],
    /// What a gang costs by its size and tier, beyond the least that it can cost.
    cost: &'a dyn Fn(usize, usize) -> usize,
    /// A position, what is left in each HyperNode and what the gangs from there on may cost, where they cost more.
    failed: HashSet<(usize, Left, usize)>,
}

/// The GPUs that are left in each HyperNode, by tier.
type Left = [Vec<usize>; TIERS];

impl Search<'_> {
    /// The least that all gangs cost.
    fn least(&mut self, left: &Left) -> usize {
        let most = self.sizes.len() * TIERS;
        (0..=most).find(|most| self.fits(0, left, *most)).expect("a HyperNode of all nodes has room for all")
    }

    /// Whether the gangs from a position on can be placed at this cost.
    fn fits(&mut self, at: usize, left: &Left, most: usize) -> bool {
        let Some(size) = self.sizes.get(at).copied() else { return true };
        let key = (at, left.clone(), most);
        if self.failed.contains(&key) {
            return false;
        }
        for tier in 1..=TIERS {
            let Some(rest) = most.checked_sub((self.cost)(size, tier)) else { continue };
            for domain in 0..SHAPE.count(tier) {
                if without(left, tier, domain, size).is_some_and(|left| self.fits(at + 1, &left, rest)) {
                    return true;
                }
            }
        }
        self.failed.insert(key);
        false
    }
}

/// What is left once a gang is assigned to a HyperNode, which takes from those above too; `None` if it does not fit.
fn without(left: &Left, tier: usize, domain: usize, size: usize) -> Option<Left> {
    let node = domain * SHAPE.width(tier);
    let mut left = left.clone();
    for above in tier..=TIERS {
        let of = &mut left[above - 1][node / SHAPE.width(above)];
        *of = of.checked_sub(size)?;
    }
    Some(left)
}

/// The best that any assignment of the batch comes to: the most gangs in one HyperNode of their lowest tier, and,
/// apart from that, the least sum of tiers.
fn best(batch: &Batch) -> Outcome {
    let free = batch.free();
    let left = [1, 2, 3].map(|tier| free.of_tier(tier).to_vec());
    let mut sizes = batch.sizes.clone();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let least = |cost: &dyn Fn(usize, usize) -> usize| {
        Search { sizes: &sizes, cost, failed: HashSet::new() }.least(&left)
    };
    let lowest = |size: &usize| SHAPE.lowest_tier(*size);
    let outside = least(&|size, tier| usize::from(tier > lowest(&size)));
    let above = least(&|size, tier| tier.saturating_sub(lowest(&size)));
    let placed = sizes.len();
    Outcome { in_lowest: placed - outside, tiers: sizes.iter().map(lowest).sum::<usize>() + above, placed }
}

/// The rows: none, soft, hard and the best.
fn rows(batches: &[Batch]) -> Result<[(&'static str, Outcome); 4]> {
    let mut rows = [
        ("none", Outcome::default()),
        ("soft", Outcome::default()),
        ("hard", Outcome::default()),
        ("best", Outcome::default()),
    ];
    for batch in batches {
        let best = best(batch);
        let placed = Nearness::ALL.map(|(_, nearness)| placed_by_phalanx(batch, nearness));
        for ((name, sum), outcome) in rows.iter_mut().zip(placed.into_iter().chain([best])) {
            ensure!(outcome.in_lowest <= best.in_lowest, "{name} is better than the best: {:?}", batch.sizes);
            let whole = outcome.placed == batch.sizes.len();
            ensure!(
                !whole || outcome.tiers >= best.tiers,
                "{name} is better than the best: {:?}",
                batch.sizes
            );
            sum.in_lowest += outcome.in_lowest;
            sum.tiers += outcome.tiers;
            sum.placed += outcome.placed;
        }
    }
    Ok(rows)
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let (mut figures, mut bars, mut tier_bars) = (Vec::new(), Vec::new(), Vec::new());
    for load in &options.loads {
        let mut rng = Pcg64Dxsm::seed_from_u64(options.seed);
        let batches: Vec<Batch> = (0..options.batches).map(|_| Batch::draw(*load, &mut rng)).collect();
        let gangs: usize = batches.iter().map(|batch| batch.sizes.len()).sum();
        for (name, outcome) in rows(&batches)? {
            let near = outcome.in_lowest as f64 * 100.0 / gangs.max(1) as f64;
            let tier = outcome.tiers as f64 / outcome.placed.max(1) as f64;
            say!(
                "load {load} %, {name}: {near:.1} % of {gangs} gangs in one HyperNode of their lowest tier, mean tier {tier:.3}, {} placed",
                outcome.placed
            );
            let label = format!("load {load} %, {name}");
            let is_best = name == "best";
            let bar = |value: f64| if is_best { Bar::other(&label, value) } else { Bar::ours(&label, value) };
            bars.push(bar(near));
            if name != "hard" {
                tier_bars.push(bar(tier));
            }
            figures.push(json!({
                "load": load, "topology": name, "gangs": gangs, "placed": outcome.placed,
                "inLowestPercent": near, "meanTier": tier,
            }));
        }
    }
    let title = format!("{} batches on {} nodes", options.batches, SHAPE.nodes);
    let chart = chart(vec![
        Panel::new(format!("{title}: gangs in one HyperNode of their lowest tier"), "percent", bars),
        Panel::new(format!("{title}: mean tier of a gang"), "tiers", tier_bars),
    ]);
    Ok(json!({
        "name": "network-best", "nodes": SHAPE.nodes, "batches": options.batches, "seed": options.seed,
        "rows": figures, "chart": chart, "cores": machine::cores(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight GPUs are free in the first HyperNode of tier 1, and four in each of the others.
    #[test]
    fn the_best_assignment_is_found() {
        let used = (2..SHAPE.nodes).flat_map(|node| [node, node]).collect();
        let of = |sizes: &[usize]| {
            let batch = Batch { used: Vec::clone(&used), sizes: sizes.to_vec() };
            let best = best(&batch);
            (best.in_lowest, best.tiers)
        };
        assert_eq!(of(&[8, 8]), (1, 3));
        assert_eq!(of(&[4, 4, 8]), (3, 3), "gangs of four leave the only HyperNode for eight alone");
        assert_eq!(of(&[8, 12]), (1, 4), "twelve fit where the only HyperNode for eight is");
    }
}
