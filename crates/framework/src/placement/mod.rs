//! Placement by class: the best node for a task, without looking at all nodes.
//!
//! Nodes that no rule can tell apart form a cell (`cells`): equal in the attributes that rules read, and in room. A
//! class rates cells, not nodes, and plays a tournament among them. Both catch up from a log of what changed: a task
//! that takes a node moves that from one cell to another, and costs each class that is asked next two matches' paths.
mod cells;
mod explain;
mod heap;
mod kinds;
mod labels;
mod ranking;
mod rating;
mod rooms;
mod sampling;
mod standings;
mod tournament;

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Dxsm;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::plugin::{Attribute, NodeRules, Values};
use crate::tiers::Tiers;
use cells::Cells;
use phalanx_cluster::World;
use phalanx_cluster::id::{ClassId, NodeId, TaskId};
use ranking::Ranking;
pub use rooms::{Gauge, Rooms};
pub use rooms::{balance, floor, percent};
use sampling::Rotation;
pub use sampling::Sampling;
use standings::Domains;
use tournament::Rating;

/// Scores are compared as millionths, so that rounding in the last bit decides nothing.
pub const SCORE_UNIT: f64 = 1e6;
/// A node that will do only later rates below every node that will do now.
const LATER: i64 = 1 << 61;
/// Cells that all classes' rankings may have in sum, at some 30 bytes each: beyond that the class whose ranking is the
/// oldest is ranked anew when it is asked again.
const RANKED: usize = if cfg!(test) { 64 } else { 1 << 23 };

/// So many classes may be known before any is forgotten, at a kilobyte or two each.
const KNOWN: usize = if cfg!(test) { 4 } else { 1 << 12 };

/// So many of them are looked at for each that is new, to find one to forget.
const LOOKS: usize = 4;

/// So many nodes are read ahead.
const AHEAD: usize = 4;

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

/// Who asks for nodes: a class and, where plugins look at more of a task than its class, the scope they gave it.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    class: ClassId,
    /// The scope, and a task in it.
    scope: Option<(u64, TaskId)>,
}

impl Asker {
    /// A task with a scope, 0 for none.
    pub fn new(class: ClassId, scope: u64, task: TaskId) -> Self {
        Self { class, scope: (scope != 0).then_some((scope, task)) }
    }

    /// What tells it from others.
    pub fn key(self) -> (ClassId, u64) {
        (self.class, self.scope.map_or(0, |(scope, _)| scope))
    }
}

impl From<ClassId> for Asker {
    fn from(class: ClassId) -> Self {
        Self { class, scope: None }
    }
}

/// A class: its rules, and the cells as it sees them.
struct Known {
    serial: u64,
    rules: NodeRules,
    ranking: Ranking,
    /// When it was last asked for.
    asked: u64,
    /// It was asked for since it was met, or passed over when one was to be forgotten.
    used: bool,
    /// It stands among those with a ranking.
    listed: bool,
}

/// Labels of topologies by which nodes are told apart.
#[derive(Default)]
struct Topologies {
    keys: FxHashSet<Arc<str>>,
    /// The World's stamp of topologies when new ones were looked for.
    learned: u64,
    /// And when those that are gone were.
    retained: u64,
}

/// The nodes in the order of each class; lives across sessions.
pub struct Placement {
    seed: u64,
    cells: Cells,
    domains: Domains,
    topologies: Topologies,
    /// By class and scope; 0 for no scope.
    classes: FxHashMap<(ClassId, u64), Known>,
    /// Those of them with a scope.
    scoped: FxHashSet<(ClassId, u64)>,
    /// How far the World's log of classes of which tasks wait was read.
    cursor: u64,
    /// Classes in the order in which they were met or passed over, and some that are forgotten.
    met: VecDeque<(ClassId, u64)>,
    /// Counts questions.
    clock: u64,
    /// The clock when the cycle began.
    began: u64,
    /// Cells in all rankings.
    ranked: usize,
    /// Classes that have a ranking, or had one.
    rankings: VecDeque<(ClassId, u64)>,
    /// Resources that were known when the rules were asked for.
    dims: usize,
    /// Only some nodes are compared.
    rotation: Option<Rotation>,
}

impl Placement {
    /// With a seed for ties.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            cells: Cells::new(seed),
            domains: Domains::default(),
            topologies: Topologies::default(),
            classes: FxHashMap::default(),
            scoped: FxHashSet::default(),
            cursor: 0,
            met: VecDeque::new(),
            clock: 0,
            began: 0,
            ranked: 0,
            rankings: VecDeque::new(),
            dims: 0,
            rotation: None,
        }
    }

    /// Compares only some nodes from now on, or all.
    pub fn set_sampling(&mut self, sampling: Option<Sampling>) {
        self.rotation = sampling.map(Rotation::new);
    }

    /// Forgets all: the plugins changed.
    pub fn reset(&mut self) {
        *self = Self { rotation: self.rotation.take(), ..Self::new(self.seed) };
    }

    /// A cycle begins: forgets scopes that nobody asked for in the one before.
    pub fn begin_cycle(&mut self, world: &World) {
        let began = std::mem::replace(&mut self.began, self.clock);
        let Self { scoped, classes, ranked, .. } = self;
        scoped.retain(|key| {
            let asked = classes.get(key).is_some_and(|known| known.asked > began);
            if !asked {
                *ranked -= classes.remove(key).map_or(0, |known| known.ranking.len());
            }
            asked
        });
        if let Some(rotation) = &mut self.rotation {
            rotation.begin_cycle(world);
        }
        self.retain_topologies(world);
    }

    /// When nobody asks for a topology any more, nodes need not be told apart by it.
    fn retain_topologies(&mut self, world: &World) {
        let stamp = world.terms.topologies_stamp();
        if std::mem::replace(&mut self.topologies.retained, stamp) == stamp {
            return;
        }
        self.domains.retain(world);
        let asked: FxHashSet<&Arc<str>> = world.terms.topology_keys().collect();
        if self.topologies.keys.iter().any(|key| !asked.contains(key)) {
            self.reset();
        }
    }

    /// Takes note of topologies that are new.
    fn learn_topologies(&mut self, world: &World) {
        let stamp = world.terms.topologies_stamp();
        if std::mem::replace(&mut self.topologies.learned, stamp) == stamp {
            return;
        }
        for key in world.terms.topology_keys() {
            if self.topologies.keys.insert(key.clone()) {
                self.cells.learn([(Attribute::Label(key.clone()), Values::All)].iter());
            }
        }
    }

    /// The best node for a task of the class: one with room now, if there is any.
    pub fn best(&mut self, world: &World, tiers: &Tiers, asker: impl Into<Asker>) -> Option<Spot> {
        self.best_with(world, tiers, asker, &Points::default())
    }

    /// The same where single nodes have points besides.
    pub fn best_with(
        &mut self,
        world: &World,
        tiers: &Tiers,
        asker: impl Into<Asker>,
        points: &Points,
    ) -> Option<Spot> {
        let asker = asker.into();
        let mut best = Best::default();
        if let Some(mut rotation) = self.rotation.take() {
            let (known, cells) = self.fresh(world, tiers, asker);
            rotation.search(|node| best.offer(node, points.rating(known, cells, node)) == Some(Room::Now));
            self.rotation = Some(rotation);
            return best.spot();
        }
        let (known, cells) = self.fresh(world, tiers, asker);
        let (slot, rating) = known.ranking.best()?;
        let top = cells.slots()[slot].top();
        if points.0.is_empty() {
            foresee(world, cells, slot);
        }
        if points.of(top) < 0 {
            // Another node of its cell, or of any other, may be the best now.
            world.nodes.ids().for_each(|node| {
                best.offer(node, points.rating(known, cells, node));
            });
            return best.spot();
        }
        best.offer(top, Some(points.added(top, rating)));
        for node in points.nodes() {
            best.offer(node, points.rating(known, cells, node));
        }
        best.spot()
    }

    /// Whether, and when, one node has room for a task of the class.
    pub fn room(
        &mut self,
        world: &World,
        tiers: &Tiers,
        asker: impl Into<Asker>,
        node: NodeId,
    ) -> Option<Room> {
        let (known, cells) = self.fresh(world, tiers, asker.into());
        let rating = known.ranking.rating(cells.of(node)?);
        (rating != Rating::NONE).then(|| room_of(rating))
    }

    /// The cell of a node: those in it are alike to every class, as of the last question.
    pub fn cell(&self, node: NodeId) -> Option<usize> {
        self.cells.of(node)
    }

    /// Whether the rules by attributes let tasks of a class on a node, whatever is on it.
    pub fn admits(
        &mut self,
        world: &World,
        tiers: &Tiers,
        asker: impl Into<Asker>,
    ) -> impl Fn(NodeId) -> bool {
        let (known, cells) = self.fresh(world, tiers, asker.into());
        move |node| {
            let cell = cells.of(node).map(|slot| cells.slots()[slot]);
            cell.is_some_and(|cell| matches!(known.ranking.verdict(cell.kind), Some(Ok(_))))
        }
    }

    /// A class and the cells as they are now.
    fn fresh(&mut self, world: &World, tiers: &Tiers, asker: Asker) -> (&Known, &Cells) {
        if self.dims != world.dims.len() {
            // Rules look resources up by name: one that nobody had named may be known now.
            self.reset();
            self.dims = world.dims.len();
        }
        self.learn_topologies(world);
        self.cells.sync(world);
        let (key, class) = (asker.key(), &world.classes[asker.class]);
        let known = self.classes.get(&key).filter(|known| known.serial == class.serial.0);
        if known.is_none_or(|known| known.ranking.len() < self.cells.slots().len()) {
            self.prepare(world, tiers, asker);
        }
        self.clock += 1;
        let Self { classes, cells, domains, ranked, .. } = self;
        let known = classes.get_mut(&key).expect("a class that was prepared");
        known.asked = self.clock;
        known.used = true;
        *ranked -= known.ranking.len();
        known.ranking.catch_up(world, class, &known.rules, cells, domains);
        *ranked += known.ranking.len();
        (known, cells)
    }

    /// Sees to it that the rules of a class are known, and that there is room to rank the cells for it.
    fn prepare(&mut self, world: &World, tiers: &Tiers, asker: Asker) {
        self.meet_classes(world, tiers, asker.class);
        self.meet_scope(world, tiers, asker);
        self.cells.sync(world);
        self.make_room(asker.key());
        self.recycle(world, asker.key());
    }

    /// Asks the plugins for the rules of a class, if it is new, and of all others of which tasks have come to wait: what
    /// they read may make new kinds of nodes, which is to happen once.
    fn meet_classes(&mut self, world: &World, tiers: &Tiers, id: ClassId) {
        if self.knows(world, (id, 0)) {
            return;
        }
        let sought = world.sought_since(std::mem::replace(&mut self.cursor, world.sought_end()));
        for id in sought.into_iter().chain([id]) {
            if !self.knows(world, (id, 0)) {
                self.meet(world, (id, 0), tiers.rules(world, id));
            }
        }
    }

    /// Asks them for those of a scope, if there is one that is new.
    fn meet_scope(&mut self, world: &World, tiers: &Tiers, asker: Asker) {
        if let Some((_, task)) = asker.scope.filter(|_| !self.knows(world, asker.key())) {
            self.meet(world, asker.key(), tiers.scoped_rules(world, asker.class, task));
            self.scoped.insert(asker.key());
        }
    }

    /// Whether the rules of the class that has the id now are known.
    fn knows(&self, world: &World, key: (ClassId, u64)) -> bool {
        self.classes.get(&key).is_some_and(|known| known.serial == world.classes[key.0].serial.0)
    }

    fn meet(&mut self, world: &World, key: (ClassId, u64), rules: NodeRules) {
        self.cells.learn(rules.reads.iter());
        let (serial, ranking) = (world.classes[key.0].serial.0, Ranking::default());
        let known = Known { serial, rules, ranking, asked: self.clock, used: false, listed: false };
        self.ranked -= self.classes.insert(key, known).map_or(0, |before| before.ranking.len());
        self.forget_some(key);
        self.met.push_back(key);
    }

    /// With too many classes forgets the one that was met first, if it was not asked for since it was looked at last. One at a
    /// time, for a backlog may have a class for each pod.
    fn forget_some(&mut self, but: (ClassId, u64)) {
        for _ in 0..LOOKS {
            if self.met.len() < KNOWN {
                return;
            }
            let Some(oldest) = self.met.pop_front() else { return };
            let Some(known) = self.classes.get_mut(&oldest).filter(|_| oldest != but) else { continue };
            if std::mem::take(&mut known.used) {
                self.met.push_back(oldest);
                continue;
            }
            self.ranked -= known.ranking.len();
            self.classes.remove(&oldest);
            self.scoped.remove(&oldest);
        }
    }

    /// Before a class is ranked from scratch, drops the oldest rankings of other classes until all are few enough.
    fn make_room(&mut self, key: (ClassId, u64)) {
        let needed = self.cells.slots().len().next_power_of_two();
        let more = needed.saturating_sub(self.classes[&key].ranking.len());
        while self.ranked + more > RANKED {
            let Some(oldest) = self.rankings.pop_front() else { return };
            let Some(known) = self.classes.get_mut(&oldest) else { continue };
            known.listed = false;
            if oldest != key {
                self.ranked -= known.ranking.len();
                known.ranking = Ranking::default();
            }
        }
    }

    /// Looks at two of the rankings: one of a class that is no more, or that has missed so much that it would be made anew,
    /// gives its memory, which is likely to be in the caches, to the class that is about to be ranked. So classes that are
    /// asked in turn share a few.
    fn recycle(&mut self, world: &World, key: (ClassId, u64)) {
        let Self { classes, cells, rankings, ranked, .. } = self;
        let mut spare = None;
        for _ in 0..2 {
            let Some(other) = rankings.pop_front() else { break };
            let Some(known) = classes.get_mut(&other) else { continue };
            known.listed = other != key && known.ranking.len() > 0;
            let gone = world.classes.get(other.0).is_none_or(|class| class.serial.0 != known.serial);
            if known.listed && (gone || known.ranking.is_stale(cells)) {
                *ranked -= known.ranking.len();
                spare = Some(known.ranking.release());
                known.listed = false;
            } else if known.listed {
                rankings.push_back(other);
            }
        }
        let known = classes.get_mut(&key).expect("a class that was prepared");
        if let Some(scores) = spare.filter(|_| known.ranking.len() == 0) {
            known.ranking.adopt(scores);
        }
        if !std::mem::replace(&mut known.listed, true) {
            rankings.push_back(key);
        }
    }
}

/// Points that single nodes have for a task besides their scores, in millionths.
#[derive(Debug, Default)]
pub struct Points(FxHashMap<NodeId, i64>);

impl FromIterator<(NodeId, f64)> for Points {
    fn from_iter<I: IntoIterator<Item = (NodeId, f64)>>(list: I) -> Self {
        let mut points = Self::default();
        for (node, score) in list {
            *points.0.entry(node).or_default() += rating::in_units(score);
        }
        points
    }
}

impl Points {
    fn of(&self, node: NodeId) -> i64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    fn added(&self, node: NodeId, rating: Rating) -> Rating {
        Rating { score: rating.score + self.of(node), ..rating }
    }

    /// The rating of a node with its points and its own lot.
    fn rating(&self, known: &Known, cells: &Cells, node: NodeId) -> Option<Rating> {
        let rating = known.ranking.rating(cells.of(node)?);
        let own = || Rating { lot: cells.lot_of(node), ..rating };
        (rating != Rating::NONE).then(|| self.added(node, own()))
    }
}

/// The best of the nodes that were offered.
#[derive(Default)]
struct Best(Option<(Rating, NodeId)>);

impl Best {
    /// Says when the node has room.
    fn offer(&mut self, node: NodeId, rating: Option<Rating>) -> Option<Room> {
        let rating = rating?;
        if self.0.is_none_or(|best| (rating, node) > best) {
            self.0 = Some((rating, node));
        }
        Some(room_of(rating))
    }

    fn spot(self) -> Option<Spot> {
        self.0.map(|(rating, node)| Spot { node, room: room_of(rating) })
    }
}

/// Reads what is about to be read of the top of a cell and of those that are likely to be next. These reads do not wait for
/// each other, so the processor waits for memory once, not line by line and node by node.
fn foresee(world: &World, cells: &Cells, slot: usize) {
    for node in cells.next_tops(slot).take(AHEAD) {
        world.nodes[node].foresee();
    }
}

fn room_of(rating: Rating) -> Room {
    if rating.score < -(LATER / 2) { Room::Later } else { Room::Now }
}

/// A node's draw, from a generator of its own: of all that share the seed the one with the stream of its name (FNV-1a). So
/// it depends on nothing else, such as which nodes there were before.
pub fn lot(seed: u64, name: &str) -> u64 {
    let stream = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Pcg64Dxsm::new(seed.into(), stream.into()).next_u64()
}
