//! NodeRanking by class: the best node for a task, without looking at all nodes.
//!
//! Nodes that no rule can tell apart form a bucket (`buckets`): equal in the attributes that rules read, and in room. A
//! class rates buckets, not nodes, and plays a tournament among them. Both catch up from a log of what changed: a task
//! that takes a node moves that from one bucket to another, and costs each class that is asked next two matches' paths.
mod amounts;
mod attribute_sets;
mod buckets;
mod explain;
mod heap;
mod labels;
mod ranking;
mod rating;
mod sampling;
mod topology;
mod tournament;

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Dxsm;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::plugin::{Attribute, NodeRules, Values};
use crate::tiers::Tiers;
pub use amounts::{BucketAmounts, NodeAmounts};
pub use amounts::{balance, floor, percent};
use buckets::NodeBuckets;
use phalanx_cluster::World;
use phalanx_cluster::id::{ClassId, NodeId, TaskId};
use ranking::ClassRanking;
use sampling::Rotation;
pub use sampling::Sampling;
use topology::DomainIndex;
use tournament::Rating;

/// BucketScores are compared as millionths, so that rounding in the last bit decides nothing.
pub const SCORE_UNIT: f64 = 1e6;
/// A node that will do only later rates below every node that will do now.
const FUTURE_IDLE_OFFSET: i64 = 1 << 61;
/// NodeBuckets that all classes' rankings may have in sum, at some 30 bytes each: beyond that the class whose ranking is the
/// oldest is ranked anew when it is asked again.
const RANKED_BUCKETS_MAX: usize = if cfg!(test) { 64 } else { 1 << 23 };

/// So many classes may be known before any is forgotten, at a kilobyte or two each.
const CLASSES_MAX: usize = if cfg!(test) { 4 } else { 1 << 12 };

/// So many of them are looked at for each that is new, to find one to forget.
const FORGET_CHECKS: usize = 4;

/// So many nodes are read ahead.
const PREFETCHED_NODES: usize = 4;

/// When a node has room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// At once.
    Idle,
    /// When what is being released is gone.
    FutureIdle,
}

impl Fit {
    /// Whether resources that are being released count as free.
    pub fn is_future_idle(self) -> bool {
        self == Self::FutureIdle
    }
}

/// A node for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BestNode {
    /// The node.
    pub node: NodeId,
    /// When it has room.
    pub fit: Fit,
}

/// Who asks for nodes: a class and, where plugins look at more of a task than its class, the scope they gave it.
#[derive(Clone, Copy, Debug)]
pub struct ScopedClass {
    class: ClassId,
    /// The scope, and a task in it.
    scope: Option<(u64, TaskId)>,
}

impl ScopedClass {
    /// A task with a scope, 0 for none.
    pub fn new(class: ClassId, scope: u64, task: TaskId) -> Self {
        Self { class, scope: (scope != 0).then_some((scope, task)) }
    }

    /// What tells it from others.
    pub fn key(self) -> (ClassId, u64) {
        (self.class, self.scope.map_or(0, |(scope, _)| scope))
    }
}

impl From<ClassId> for ScopedClass {
    fn from(class: ClassId) -> Self {
        Self { class, scope: None }
    }
}

/// A class: its rules, and the buckets as it sees them.
struct RankedClass {
    serial: u64,
    rules: NodeRules,
    ranking: ClassRanking,
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
pub struct NodeRanking {
    seed: u64,
    buckets: NodeBuckets,
    domains: DomainIndex,
    topologies: Topologies,
    /// By class and scope; 0 for no scope.
    classes: FxHashMap<(ClassId, u64), RankedClass>,
    /// Those of them with a scope.
    scoped: FxHashSet<(ClassId, u64)>,
    /// How far the World's log of classes of which tasks wait was read.
    cursor: u64,
    /// Classes in the order in which they were met or passed over, and some that are forgotten.
    added: VecDeque<(ClassId, u64)>,
    /// Counts questions.
    questions: u64,
    /// The questions when the cycle began.
    began: u64,
    /// NodeBuckets in all rankings.
    ranked: usize,
    /// Classes that have a ranking, or had one.
    rankings: VecDeque<(ClassId, u64)>,
    /// Resources that were known when the rules were asked for.
    dims: usize,
    /// Only some nodes are compared.
    rotation: Option<Rotation>,
}

impl NodeRanking {
    /// With a seed for ties.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            buckets: NodeBuckets::new(seed),
            domains: DomainIndex::default(),
            topologies: Topologies::default(),
            classes: FxHashMap::default(),
            scoped: FxHashSet::default(),
            cursor: 0,
            added: VecDeque::new(),
            questions: 0,
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
        let began = std::mem::replace(&mut self.began, self.questions);
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
                self.buckets.learn([(Attribute::Label(key.clone()), Values::All)].iter());
            }
        }
    }

    /// The best node for a task of the class: one with room now, if there is any.
    pub fn best(&mut self, world: &World, tiers: &Tiers, scoped: impl Into<ScopedClass>) -> Option<BestNode> {
        self.best_with(world, tiers, scoped, &ExtraScores::default())
    }

    /// The same where single nodes have extra besides.
    pub fn best_with(
        &mut self,
        world: &World,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
        extra: &ExtraScores,
    ) -> Option<BestNode> {
        let scoped = scoped.into();
        let mut best = BestSoFar::default();
        if let Some(mut rotation) = self.rotation.take() {
            let (known, buckets) = self.up_to_date(world, tiers, scoped);
            rotation.search(|node| best.offer(node, extra.rating(known, buckets, node)) == Some(Fit::Idle));
            self.rotation = Some(rotation);
            return best.node();
        }
        let (known, buckets) = self.up_to_date(world, tiers, scoped);
        let (slot, rating) = known.ranking.best()?;
        let top = buckets.slots()[slot].top();
        if extra.0.is_empty() {
            prefetch_next(world, buckets, slot);
        }
        if extra.of(top) < 0 {
            // Another node of its bucket, or of any other, may be the best now.
            world.nodes.ids().for_each(|node| {
                best.offer(node, extra.rating(known, buckets, node));
            });
            return best.node();
        }
        best.offer(top, Some(extra.added(top, rating)));
        for node in extra.nodes() {
            best.offer(node, extra.rating(known, buckets, node));
        }
        best.node()
    }

    /// Whether, and when, one node has room for a task of the class.
    pub fn fit(
        &mut self,
        world: &World,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
        node: NodeId,
    ) -> Option<Fit> {
        let (known, buckets) = self.up_to_date(world, tiers, scoped.into());
        let rating = known.ranking.rating(buckets.of(node)?);
        (rating != Rating::NONE).then(|| fit_of(rating))
    }

    /// The bucket of a node: those in it are alike to every class, as of the last input.
    pub fn bucket(&self, node: NodeId) -> Option<usize> {
        self.buckets.of(node)
    }

    /// Whether the rules by attributes let tasks of a class on a node, whatever is on it.
    pub fn admits(
        &mut self,
        world: &World,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
    ) -> impl Fn(NodeId) -> bool {
        let (known, buckets) = self.up_to_date(world, tiers, scoped.into());
        move |node| {
            let bucket = buckets.of(node).map(|slot| buckets.slots()[slot]);
            bucket.is_some_and(|bucket| matches!(known.ranking.verdict(bucket.attribute_set), Some(Ok(_))))
        }
    }

    /// A class and the buckets as they are now.
    fn up_to_date(
        &mut self,
        world: &World,
        tiers: &Tiers,
        scoped: ScopedClass,
    ) -> (&RankedClass, &NodeBuckets) {
        if self.dims != world.dims.len() {
            // Rules look resources up by name: one that nobody had named may be known now.
            self.reset();
            self.dims = world.dims.len();
        }
        self.learn_topologies(world);
        self.buckets.sync(world);
        let (key, class) = (scoped.key(), &world.classes[scoped.class]);
        let known = self.classes.get(&key).filter(|known| known.serial == class.serial.0);
        if known.is_none_or(|known| known.ranking.len() < self.buckets.slots().len()) {
            self.prepare(world, tiers, scoped);
        }
        self.questions += 1;
        let Self { classes, buckets, domains, ranked, .. } = self;
        let known = classes.get_mut(&key).expect("a class that was prepared");
        known.asked = self.questions;
        known.used = true;
        *ranked -= known.ranking.len();
        known.ranking.catch_up(world, class, &known.rules, buckets, domains);
        *ranked += known.ranking.len();
        (known, buckets)
    }

    /// Sees to it that the rules of a class are known, and that there is room to rank the buckets for it.
    fn prepare(&mut self, world: &World, tiers: &Tiers, scoped: ScopedClass) {
        self.add_new_classes(world, tiers, scoped.class);
        self.add_new_scope(world, tiers, scoped);
        self.buckets.sync(world);
        self.limit_memory(scoped.key());
        self.reuse_memory(world, scoped.key());
    }

    /// Asks the plugins for the rules of a class, if it is new, and of all others of which tasks have come to wait: what
    /// they read may make new attribute_sets of nodes, which is to happen once.
    fn add_new_classes(&mut self, world: &World, tiers: &Tiers, id: ClassId) {
        if self.has_rules(world, (id, 0)) {
            return;
        }
        let sought = world.sought_since(std::mem::replace(&mut self.cursor, world.sought_end()));
        for id in sought.into_iter().chain([id]) {
            if !self.has_rules(world, (id, 0)) {
                self.add_class(world, (id, 0), tiers.rules(world, id));
            }
        }
    }

    /// Asks them for those of a scope, if there is one that is new.
    fn add_new_scope(&mut self, world: &World, tiers: &Tiers, scoped: ScopedClass) {
        if let Some((_, task)) = scoped.scope.filter(|_| !self.has_rules(world, scoped.key())) {
            self.add_class(world, scoped.key(), tiers.scoped_rules(world, scoped.class, task));
            self.scoped.insert(scoped.key());
        }
    }

    /// Whether the rules of the class that has the id now are known.
    fn has_rules(&self, world: &World, key: (ClassId, u64)) -> bool {
        self.classes.get(&key).is_some_and(|known| known.serial == world.classes[key.0].serial.0)
    }

    fn add_class(&mut self, world: &World, key: (ClassId, u64), rules: NodeRules) {
        self.buckets.learn(rules.reads.iter());
        let (serial, ranking) = (world.classes[key.0].serial.0, ClassRanking::default());
        let known = RankedClass { serial, rules, ranking, asked: self.questions, used: false, listed: false };
        self.ranked -= self.classes.insert(key, known).map_or(0, |before| before.ranking.len());
        self.forget_unused(key);
        self.added.push_back(key);
    }

    /// With too many classes forgets the one that was met first, if it was not asked for since it was looked at last. One at a
    /// time, for a backlog may have a class for each pod.
    fn forget_unused(&mut self, but: (ClassId, u64)) {
        for _ in 0..FORGET_CHECKS {
            if self.added.len() < CLASSES_MAX {
                return;
            }
            let Some(oldest) = self.added.pop_front() else { return };
            let Some(known) = self.classes.get_mut(&oldest).filter(|_| oldest != but) else { continue };
            if std::mem::take(&mut known.used) {
                self.added.push_back(oldest);
                continue;
            }
            self.ranked -= known.ranking.len();
            self.classes.remove(&oldest);
            self.scoped.remove(&oldest);
        }
    }

    /// Before a class is ranked from scratch, drops the oldest rankings of other classes until all are few enough.
    fn limit_memory(&mut self, key: (ClassId, u64)) {
        let needed = self.buckets.slots().len().next_power_of_two();
        let more = needed.saturating_sub(self.classes[&key].ranking.len());
        while self.ranked + more > RANKED_BUCKETS_MAX {
            let Some(oldest) = self.rankings.pop_front() else { return };
            let Some(known) = self.classes.get_mut(&oldest) else { continue };
            known.listed = false;
            if oldest != key {
                self.ranked -= known.ranking.len();
                known.ranking = ClassRanking::default();
            }
        }
    }

    /// Looks at two of the rankings: one of a class that is no more, or that has missed so much that it would be made anew,
    /// gives its memory, which is likely to be in the caches, to the class that is about to be ranked. So classes that are
    /// asked in turn share a few.
    fn reuse_memory(&mut self, world: &World, key: (ClassId, u64)) {
        let Self { classes, buckets, rankings, ranked, .. } = self;
        let mut spare = None;
        for _ in 0..2 {
            let Some(other) = rankings.pop_front() else { break };
            let Some(known) = classes.get_mut(&other) else { continue };
            known.listed = other != key && known.ranking.len() > 0;
            let gone = world.classes.get(other.0).is_none_or(|class| class.serial.0 != known.serial);
            if known.listed && (gone || known.ranking.is_stale(buckets)) {
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

/// ExtraScores that single nodes have for a task besides their scores, in millionths.
#[derive(Debug, Default)]
pub struct ExtraScores(FxHashMap<NodeId, i64>);

impl FromIterator<(NodeId, f64)> for ExtraScores {
    fn from_iter<I: IntoIterator<Item = (NodeId, f64)>>(list: I) -> Self {
        let mut extra = Self::default();
        for (node, score) in list {
            *extra.0.entry(node).or_default() += rating::in_units(score);
        }
        extra
    }
}

impl ExtraScores {
    fn of(&self, node: NodeId) -> i64 {
        self.0.get(&node).copied().unwrap_or(0)
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.keys().copied()
    }

    fn added(&self, node: NodeId, rating: Rating) -> Rating {
        Rating { score: rating.score + self.of(node), ..rating }
    }

    /// The rating of a node with its extra and its own tie_break.
    fn rating(&self, known: &RankedClass, buckets: &NodeBuckets, node: NodeId) -> Option<Rating> {
        let rating = known.ranking.rating(buckets.of(node)?);
        let own = || Rating { tie_break: buckets.tie_break_of(node), ..rating };
        (rating != Rating::NONE).then(|| self.added(node, own()))
    }
}

/// The best of the nodes that were offered.
#[derive(Default)]
struct BestSoFar(Option<(Rating, NodeId)>);

impl BestSoFar {
    /// Says when the node has room.
    fn offer(&mut self, node: NodeId, rating: Option<Rating>) -> Option<Fit> {
        let rating = rating?;
        if self.0.is_none_or(|best| (rating, node) > best) {
            self.0 = Some((rating, node));
        }
        Some(fit_of(rating))
    }

    fn node(self) -> Option<BestNode> {
        self.0.map(|(rating, node)| BestNode { node, fit: fit_of(rating) })
    }
}

/// Reads what is about to be read of the top of a bucket and of those that are likely to be next. These reads do not wait for
/// each other, so the processor waits for memory once, not line by line and node by node.
fn prefetch_next(world: &World, buckets: &NodeBuckets, slot: usize) {
    for node in buckets.next_tops(slot).take(PREFETCHED_NODES) {
        world.nodes[node].foresee();
    }
}

fn fit_of(rating: Rating) -> Fit {
    if rating.score < -(FUTURE_IDLE_OFFSET / 2) { Fit::FutureIdle } else { Fit::Idle }
}

/// A node's draw, from a generator of its own: of all that share the seed the one with the stream of its name (FNV-1a). So
/// it depends on nothing else, such as which nodes there were before.
pub fn tie_break(seed: u64, name: &str) -> u64 {
    let stream = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Pcg64Dxsm::new(seed.into(), stream.into()).next_u64()
}
