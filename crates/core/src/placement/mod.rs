//! Placement by class: nodes ordered once per class, and caught up from the log of touched nodes.
//!
//! A class asks the fixed filters and scorers once per node, in parallel and without locks: per-node scores (map),
//! normalised per scorer over the nodes that pass (reduce). What depends on room is asked again only for nodes
//! that were touched. The best node is then the root of a tournament: a gang of k equal tasks costs k paths of it.
#[cfg(test)]
mod tests;
mod tournament;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use crate::diagnosis::{FitError, Unfit};
use crate::id::{ClassId, Id, NodeId};
use crate::plugin::{NodeRules, NodeScorer};
use crate::tiers::Tiers;
use crate::world::{Class, Node, World};
use tournament::{Rating, Tournament};

/// Below this many nodes a pass over them is not worth a second thread.
const PARALLEL_FROM: usize = 512;
/// Scores are compared as millionths, so that rounding in the last bit decides nothing.
const SCORE_UNIT: f64 = 1e6;
/// A node that will do only later rates below every node that will do now.
const LATER: i64 = 1 << 61;

/// When a node has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// At once.
    Now,
    /// When what is being released is gone.
    Later,
}

/// A node for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The node.
    pub node: NodeId,
    /// When it has room.
    pub room: Room,
}

/// What the fixed rules say of a node.
#[derive(Clone, Debug, Default)]
struct Fixed {
    unfit: Option<Unfit>,
    exists: bool,
    score: i64,
    lot: u64,
    /// The node's version when it was rated.
    seen: u64,
}

/// The nodes of a class, in order.
struct ClassNodes {
    serial: u64,
    rules: NodeRules,
    fixed: Vec<Fixed>,
    statics: u64,
    cursor: u64,
    tournament: Tournament,
}

/// The ordered nodes of every class that was asked for; lives across sessions.
pub struct Placement {
    seed: u64,
    classes: FxHashMap<ClassId, ClassNodes>,
}

impl Placement {
    /// With a seed for ties.
    pub fn new(seed: u64) -> Self {
        Self { seed, classes: FxHashMap::default() }
    }

    /// Forgets all: the plugins changed.
    pub fn reset(&mut self) {
        self.classes.clear();
    }

    /// Forgets classes that are no more.
    pub fn retain(&mut self, world: &World) {
        self.classes
            .retain(|id, nodes| world.classes.get(*id).is_some_and(|class| class.serial.0 == nodes.serial));
    }

    /// The best node for a task of the class: one with room now, if there is any.
    pub fn best(&mut self, world: &World, tiers: &Tiers, class: ClassId) -> Option<Spot> {
        let nodes = self.fresh(world, tiers, class);
        let (at, rating) = nodes.tournament.best()?;
        Some(Spot { node: NodeId::from_index(at), room: room_of(rating) })
    }

    /// Whether, and when, one node has room for a task of the class.
    pub fn room(&mut self, world: &World, tiers: &Tiers, class: ClassId, node: NodeId) -> Option<Room> {
        let rating = self.fresh(world, tiers, class).tournament.rating(node.index());
        (rating != Rating::NONE).then(|| room_of(rating))
    }

    /// Why no node will do.
    pub fn explain(&mut self, world: &World, tiers: &Tiers, class: ClassId) -> FitError {
        let nodes = self.fresh(world, tiers, class);
        let request = &world.classes[class].request;
        let mut error = FitError::default();
        for (id, node) in world.nodes.iter().filter(|(_, node)| node.exists) {
            error.nodes += 1;
            if let Some(unfit) = &nodes.fixed[id.index()].unfit {
                error.add(unfit.clone(), None);
                continue;
            }
            error.add_short(node, request);
            if let Some(unfit) = nodes.rules.room_filters.iter().find_map(|rule| rule.check(node, true).err())
            {
                error.add(unfit, None);
            }
        }
        error
    }

    /// The nodes of a class as they are now.
    fn fresh(&mut self, world: &World, tiers: &Tiers, id: ClassId) -> &ClassNodes {
        let seed = self.seed;
        let class = &world.classes[id];
        let nodes = self
            .classes
            .entry(id)
            .and_modify(|nodes| {
                if nodes.serial != class.serial.0 || nodes.statics != world.statics_stamp() {
                    *nodes = ClassNodes::build(world, tiers, id, seed);
                }
            })
            .or_insert_with(|| ClassNodes::build(world, tiers, id, seed));
        nodes.catch_up(world, class);
        nodes
    }
}

fn room_of(rating: Rating) -> Room {
    if rating.score < -(LATER / 2) { Room::Later } else { Room::Now }
}

impl ClassNodes {
    fn build(world: &World, tiers: &Tiers, id: ClassId, seed: u64) -> Self {
        let rules = tiers.rules(world, id);
        let mut nodes = Self {
            serial: world.classes[id].serial.0,
            fixed: rate_fixed(world, &rules, seed),
            rules,
            statics: world.statics_stamp(),
            cursor: 0,
            tournament: Tournament::default(),
        };
        nodes.rate_all(world, &world.classes[id]);
        nodes
    }

    fn catch_up(&mut self, world: &World, class: &Class) {
        match world.touched_since(self.cursor) {
            Some(touched) if touched.len() < self.fixed.len().max(64) => {
                for node in touched {
                    self.rate(world, class, *node);
                }
                self.cursor = world.touched_end();
            }
            _ => self.rate_all(world, class),
        }
    }

    fn rate(&mut self, world: &World, class: &Class, id: NodeId) {
        // A node that is gone changed its attributes too: then the whole class was built anew.
        let Some(node) = world.nodes.get(id) else { return };
        let fixed = &mut self.fixed[id.index()];
        if fixed.seen == node.version.0 {
            return;
        }
        fixed.seen = node.version.0;
        self.tournament.update(id.index(), rate(&self.rules, fixed, node, class));
    }

    fn rate_all(&mut self, world: &World, class: &Class) {
        let Self { rules, fixed, .. } = self;
        let one = |(at, fixed): (usize, &mut Fixed)| match world.nodes.get(NodeId::from_index(at)) {
            Some(node) => {
                fixed.seen = node.version.0;
                rate(rules, fixed, node, class)
            }
            None => Rating::NONE,
        };
        let ratings = if fixed.len() < PARALLEL_FROM {
            fixed.iter_mut().enumerate().map(one).collect()
        } else {
            fixed.par_iter_mut().enumerate().with_min_len(PARALLEL_FROM / 2).map(one).collect()
        };
        self.tournament.rebuild(ratings);
        self.cursor = world.touched_end();
    }
}

/// Rates one node by what is on it.
fn rate(rules: &NodeRules, fixed: &Fixed, node: &Node, class: &Class) -> Rating {
    if !fixed.exists || fixed.unfit.is_some() {
        return Rating::NONE;
    }
    let passes = |later| rules.room_filters.iter().all(|rule| rule.check(node, later).is_ok());
    let offset = if node.fits_now(&class.request) && passes(false) {
        0
    } else if node.fits_later(&class.request) && passes(true) {
        -LATER
    } else {
        return Rating::NONE;
    };
    let score: f64 = rules.room_scorers.iter().map(|rule| rule.score(node)).sum();
    Rating { score: fixed.score + in_units(score) + offset, lot: fixed.lot }
}

fn in_units(score: f64) -> i64 {
    (score * SCORE_UNIT).round() as i64
}

/// Asks the fixed rules about every node: filters and raw scores per node, then a reduction per scorer.
fn rate_fixed(world: &World, rules: &NodeRules, seed: u64) -> Vec<Fixed> {
    let slots: Vec<Option<&Node>> =
        (0..world.nodes.bound()).map(|at| world.nodes.get(NodeId::from_index(at))).collect();
    let one = |node: Option<&Node>| fixed_of(node, rules, seed);
    let mut fixed: Vec<Fixed> = if slots.len() < PARALLEL_FROM {
        slots.iter().copied().map(one).collect()
    } else {
        slots.par_iter().copied().with_min_len(PARALLEL_FROM / 2).map(one).collect()
    };
    for scorer in &rules.scorers {
        add_scores(&slots, &mut fixed, scorer.as_ref());
    }
    fixed
}

fn fixed_of(node: Option<&Node>, rules: &NodeRules, seed: u64) -> Fixed {
    let Some(node) = node.filter(|node| node.exists) else { return Fixed::default() };
    let unfit = rules.filters.iter().find_map(|filter| filter.check(node).err());
    Fixed { unfit, exists: true, score: 0, lot: lot(seed, &node.name), seen: 0 }
}

fn add_scores(slots: &[Option<&Node>], fixed: &mut [Fixed], scorer: &dyn NodeScorer) {
    let passes = |fixed: &Fixed| fixed.exists && fixed.unfit.is_none();
    let feasible: Vec<(usize, &Node)> = slots
        .iter()
        .enumerate()
        .filter_map(|(at, node)| Some((at, (*node)?)))
        .filter(|(at, _)| passes(&fixed[*at]))
        .collect();
    let raw = |(_, node): &(usize, &Node)| scorer.score(node);
    let mut scores: Vec<f64> = if feasible.len() < PARALLEL_FROM {
        feasible.iter().map(raw).collect()
    } else {
        feasible.par_iter().with_min_len(PARALLEL_FROM / 2).map(raw).collect()
    };
    scorer.normalise(&mut scores);
    for ((at, _), score) in feasible.iter().zip(scores) {
        fixed[*at].score += in_units(score);
    }
}

/// A node's draw: FNV-1a of its name, mixed with the seed (splitmix64), so that it depends on nothing else.
fn lot(seed: u64, name: &str) -> u64 {
    let fnv = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut mixed = (fnv ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
