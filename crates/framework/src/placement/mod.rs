//! Placement by class: the best node for a task, without a look at every node.
//!
//! Nodes that no rule can tell apart now form a node bucket (`buckets`): they have equal attributes and equal
//! resources. A class of tasks rates buckets instead of nodes, and a tournament tree keeps the best bucket at its root.
//! Buckets catch up from the Cluster's log of changed nodes, rankings from the log of changed buckets: a task that
//! takes a node moves the node from one bucket to another, which costs each class that is asked next two paths of its
//! tree. See crates/design/placement.md.
mod amounts;
mod attribute_sets;
mod best;
mod buckets;
mod domains;
mod explain;
mod group_scores;
mod heap;
mod hyper_node_scores;
mod labels;
mod limits;
mod ranking;
mod rated_buckets;
mod rating;
mod sampling;
mod scores;
mod topology;
mod tournament;

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use rand_pcg::Pcg64Dxsm;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::plugin::{Attribute, NodeRules, Values};
use crate::tiers::Tiers;
pub use amounts::{BucketAmounts, NodeAmounts, balance, floor, percent};
pub use best::{BestNode, ExtraScores};
use best::{BestSoFar, fit_of};
use buckets::NodeBuckets;
use domains::DomainIndex;
pub use limits::Limits;
use phalanx_cluster::Cluster;
pub use phalanx_cluster::Fit;
use phalanx_cluster::id::{ClassId, NodeId, TaskId};
use ranking::ClassRanking;
use sampling::Rotation;
pub use sampling::Sampling;
pub use scores::NodeScore;
use topology::RankingInput;
use tournament::Rating;

/// Scores are compared as whole millionths, so that rounding in the last bit of a float decides nothing.
pub const SCORE_MILLIONTHS: f64 = 1e6;
/// What is taken from the score of a node with future idle resources only: such a node rates below every node with idle
/// resources.
const FUTURE_IDLE_OFFSET: i64 = 1 << 61;
/// How many classes are checked for use, for each new class, to find one to forget.
const FORGET_CHECKS: usize = 4;

/// How many nodes are read into the processor's caches ahead of their use.
const PREFETCHED_NODES: usize = 4;

/// The class and the scope, 0 for none: equal keys have equal rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RulesKey {
    class: ClassId,
    scope: u64,
}

/// A class of tasks and, where plugins have rules for single tasks, the scope that tells the tasks of the class apart.
#[derive(Clone, Copy, Debug)]
pub struct ScopedClass {
    class: ClassId,
    /// The scope, and a task with that scope.
    scope: Option<(u64, TaskId)>,
}

impl ScopedClass {
    /// The class of a task with a scope; 0 stands for no scope.
    pub fn new(class: ClassId, scope: u64, task: TaskId) -> Self {
        Self { class, scope: (scope != 0).then_some((scope, task)) }
    }

    /// What the rules of the class are kept under.
    pub fn key(self) -> RulesKey {
        RulesKey { class: self.class, scope: self.scope.map_or(0, |(scope, _)| scope) }
    }
}

impl From<ClassId> for ScopedClass {
    fn from(class: ClassId) -> Self {
        Self { class, scope: None }
    }
}

/// Attributes are not forgotten while there are no more.
const ATTRIBUTES_MIN: usize = 1024;

/// The rules of a class, and the buckets as the class rates them.
struct RankedClass {
    serial: u64,
    rules: NodeRules,
    ranking: ClassRanking,
    /// The count of questions when the class was asked for last.
    asked: u64,
    /// Whether the class was asked for since it was added, or since it was last checked for use.
    used: bool,
    /// Whether the class is in `NodeRanking::rankings`.
    listed: bool,
}

/// The topology keys (node labels) by which nodes are told apart.
#[derive(Default)]
struct Topologies {
    keys: FxHashSet<Arc<str>>,
    /// The stamp of the Cluster's topologies when new keys were added last.
    learned: u64,
    /// The stamp of the Cluster's topologies when unused keys were dropped last.
    retained: u64,
}

/// The nodes, ranked for each class; kept across cycles.
#[derive(Default)]
pub struct NodeRanking {
    seed: u64,
    limits: Limits,
    buckets: NodeBuckets,
    domains: DomainIndex,
    topologies: Topologies,
    /// The number of attributes that rules read when the cycle after the last reset was over.
    attributes: Option<usize>,
    /// The known classes by [`ScopedClass::key`].
    classes: FxHashMap<RulesKey, RankedClass>,
    /// The keys of `classes` that have a scope.
    scoped: FxHashSet<RulesKey>,
    /// The position in the Cluster's log of classes with pending tasks up to which the log was read.
    cursor: u64,
    /// Classes in the order in which they were added or found in use; some are forgotten by now.
    added: VecDeque<RulesKey>,
    /// The number of questions so far.
    questions: u64,
    /// The number of questions when the cycle began.
    began: u64,
    /// The number of buckets in all rankings together.
    ranked: usize,
    /// Classes that have a ranking, or had one, oldest first.
    rankings: VecDeque<RulesKey>,
    /// The number of resource names when the rules were asked for.
    dims: usize,
    /// Node sampling, where it is configured.
    rotation: Option<Rotation>,
}

impl NodeRanking {
    /// Knows no nodes and no classes yet. `seed` decides between nodes of equal score.
    pub fn new(seed: u64) -> Self {
        Self::with_limits(seed, Limits::default())
    }

    /// The same with these limits.
    pub fn with_limits(seed: u64, limits: Limits) -> Self {
        Self { seed, limits, buckets: NodeBuckets::new(seed), ..Self::default() }
    }

    /// Compares a sample of the nodes from now on; `None` for all nodes.
    pub fn set_sampling(&mut self, sampling: Option<Sampling>) {
        self.rotation = sampling.map(Rotation::new);
    }

    /// Forgets all rules and rankings, for new plugins.
    pub fn reset(&mut self) {
        *self = Self { rotation: self.rotation.take(), ..Self::with_limits(self.seed, self.limits) };
    }

    /// Begins a cycle: forgets the scopes that nothing asked for in the cycle before.
    pub fn begin_cycle(&mut self, cluster: &Cluster) {
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
            rotation.begin_cycle(cluster);
        }
        self.retain_topologies(cluster);
        self.retain_attributes();
    }

    /// Forgets the attributes that only classes read which are gone, once they may be most of all.
    fn retain_attributes(&mut self) {
        let now = self.buckets.attributes();
        let kept = *self.attributes.get_or_insert(now);
        if now > 2 * kept + ATTRIBUTES_MIN {
            self.reset();
        }
    }

    /// Stops telling nodes apart by topology keys that no pod uses any more.
    fn retain_topologies(&mut self, cluster: &Cluster) {
        let stamp = cluster.terms.topologies_stamp();
        if std::mem::replace(&mut self.topologies.retained, stamp) == stamp {
            return;
        }
        self.domains.retain(cluster);
        let asked: FxHashSet<&Arc<str>> = cluster.terms.topology_keys().collect();
        if self.topologies.keys.iter().any(|key| !asked.contains(key)) {
            self.reset();
        }
    }

    /// Tells nodes apart by topology keys that are new.
    fn learn_topologies(&mut self, cluster: &Cluster) {
        let stamp = cluster.terms.topologies_stamp();
        if std::mem::replace(&mut self.topologies.learned, stamp) == stamp {
            return;
        }
        for key in cluster.terms.topology_keys() {
            if self.topologies.keys.insert(key.clone()) {
                self.buckets.learn(cluster, [(Attribute::Label(key.clone()), Values::All)].iter());
            }
        }
    }

    /// The best node for a task of the class: a node with idle resources if there is one, else one with future idle
    /// resources.
    pub fn best(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
    ) -> Option<BestNode> {
        self.best_with(cluster, tiers, scoped, &ExtraScores::default(), None)
    }

    /// The best of these nodes, or of all, for a task of the class whose nodes have extra scores; see
    /// [`best`](Self::best).
    pub fn best_with(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
        extra: &ExtraScores,
        within: Option<&[NodeId]>,
    ) -> Option<BestNode> {
        let scoped = scoped.into();
        let mut best = BestSoFar::default();
        if let Some(nodes) = within {
            let (known, buckets) = self.up_to_date(cluster, tiers, scoped);
            for node in nodes {
                best.offer(*node, extra.rating(known, buckets, *node));
            }
            return best.node();
        }
        if let Some(mut rotation) = self.rotation.take() {
            let (known, buckets) = self.up_to_date(cluster, tiers, scoped);
            rotation.search(|node| best.offer(node, extra.rating(known, buckets, node)) == Some(Fit::Idle));
            self.rotation = Some(rotation);
            return best.node();
        }
        let (known, buckets) = self.up_to_date(cluster, tiers, scoped);
        let (slot, rating) = known.ranking.best()?;
        let top = buckets.slots()[slot].top();
        if extra.is_empty() {
            prefetch_next(cluster, buckets, slot);
            return Some(BestNode { node: top, fit: fit_of(rating) });
        }
        if extra.of(top) < 0 {
            // The top of the best bucket has a negative extra score, so any node may be the best.
            cluster.nodes.ids().for_each(|node| {
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

    /// Whether the resources of one node fit a task of the class; `None` if the node is not feasible.
    pub fn fit(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
        node: NodeId,
    ) -> Option<Fit> {
        let (known, buckets) = self.up_to_date(cluster, tiers, scoped.into());
        let rating = known.ranking.rating(buckets.of(node)?);
        (rating != Rating::NONE).then(|| fit_of(rating))
    }

    /// The bucket of a node, as of the last question. Nodes of one bucket are equal for every class.
    pub fn bucket(&self, node: NodeId) -> Option<usize> {
        self.buckets.of(node)
    }

    /// Returns a test whether the filters by attributes let tasks of the class on a node, whatever pods the node has.
    pub fn admits(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: impl Into<ScopedClass>,
    ) -> impl Fn(NodeId) -> bool {
        let (known, buckets) = self.up_to_date(cluster, tiers, scoped.into());
        move |node| {
            let bucket = buckets.of(node).map(|slot| buckets.slots()[slot]);
            bucket.is_some_and(|bucket| matches!(known.ranking.verdict(bucket.attribute_set), Some(Ok(_))))
        }
    }

    /// The rules and the ranking of a class, and the buckets, after both have caught up with the Cluster.
    fn up_to_date(
        &mut self,
        cluster: &Cluster,
        tiers: &Tiers,
        scoped: ScopedClass,
    ) -> (&RankedClass, &NodeBuckets) {
        if self.dims != cluster.dims.len() {
            // Rules look resources up by name, and a name may have become known.
            self.reset();
            self.dims = cluster.dims.len();
        }
        self.learn_topologies(cluster);
        self.buckets.sync(cluster);
        let (key, class) = (scoped.key(), &cluster.classes[scoped.class]);
        let known = self.classes.get(&key).filter(|known| known.serial == class.serial.0);
        if known.is_none_or(|known| known.ranking.len() < self.buckets.slots().len()) {
            self.prepare(cluster, tiers, scoped);
        }
        self.questions += 1;
        let Self { classes, buckets, domains, ranked, limits, .. } = self;
        let known = classes.get_mut(&key).expect("a class that was prepared");
        known.asked = self.questions;
        known.used = true;
        *ranked -= known.ranking.len();
        known.ranking.catch_up(
            &RankingInput { cluster, class, rules: &known.rules, buckets, limits: *limits },
            domains,
        );
        *ranked += known.ranking.len();
        (known, buckets)
    }

    /// Adds the rules of a class if they are missing, and frees memory for its ranking.
    fn prepare(&mut self, cluster: &Cluster, tiers: &Tiers, scoped: ScopedClass) {
        self.add_new_classes(cluster, tiers, scoped.class);
        self.add_new_scope(cluster, tiers, scoped);
        self.buckets.sync(cluster);
        self.limit_memory(scoped.key());
        self.reuse_memory(cluster, scoped.key());
    }

    /// Asks the plugins for the rules of a class, if the class is new, and of every other new class with pending tasks:
    /// what rules read may split buckets, which is to happen once for all classes.
    fn add_new_classes(&mut self, cluster: &Cluster, tiers: &Tiers, id: ClassId) {
        if self.has_rules(cluster, ScopedClass::from(id).key()) {
            return;
        }
        let sought = cluster.sought_since(std::mem::replace(&mut self.cursor, cluster.sought_end()));
        for id in sought.into_iter().chain([id]) {
            if !self.has_rules(cluster, ScopedClass::from(id).key()) {
                self.add_class(cluster, ScopedClass::from(id).key(), tiers.rules(cluster, id));
            }
        }
    }

    /// Asks the plugins for the rules of a scope, if the scope is new.
    fn add_new_scope(&mut self, cluster: &Cluster, tiers: &Tiers, scoped: ScopedClass) {
        if let Some((_, task)) = scoped.scope.filter(|_| !self.has_rules(cluster, scoped.key())) {
            self.add_class(cluster, scoped.key(), tiers.scoped_rules(cluster, scoped.class, task));
            self.scoped.insert(scoped.key());
        }
    }

    /// Whether the rules are known of the class that has this id now.
    fn has_rules(&self, cluster: &Cluster, key: RulesKey) -> bool {
        self.classes.get(&key).is_some_and(|known| known.serial == cluster.classes[key.class].serial.0)
    }

    fn add_class(&mut self, cluster: &Cluster, key: RulesKey, rules: NodeRules) {
        self.buckets.learn(cluster, rules.reads.iter());
        let (serial, ranking) = (cluster.classes[key.class].serial.0, ClassRanking::default());
        let known = RankedClass { serial, rules, ranking, asked: self.questions, used: false, listed: false };
        self.ranked -= self.classes.insert(key, known).map_or(0, |before| before.ranking.len());
        self.forget_unused(key);
        self.added.push_back(key);
    }

    /// Forgets the class that was added first if it was not used since its last check, where there are too many
    /// classes. Called for each new class, for a backlog may have a class for each pod.
    fn forget_unused(&mut self, but: RulesKey) {
        for _ in 0..FORGET_CHECKS {
            if self.added.len() < self.limits.classes {
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

    /// Drops the oldest rankings of other classes until a ranking of all buckets fits into
    /// [`Limits::ranked_buckets`].
    fn limit_memory(&mut self, key: RulesKey) {
        let needed = self.buckets.slots().len().next_power_of_two();
        let more = needed.saturating_sub(self.classes[&key].ranking.len());
        while self.ranked + more > self.limits.ranked_buckets {
            let Some(oldest) = self.rankings.pop_front() else { return };
            let Some(known) = self.classes.get_mut(&oldest) else { continue };
            known.listed = false;
            if oldest != key {
                self.ranked -= known.ranking.len();
                known.ranking = ClassRanking::default();
            }
        }
    }

    /// Checks two rankings. A ranking whose class is gone, or that is stale, gives its memory, which is likely to be in
    /// the processor's caches, to the class that is ranked next: so classes that are asked in turn share a few
    /// rankings.
    fn reuse_memory(&mut self, cluster: &Cluster, key: RulesKey) {
        let Self { classes, buckets, rankings, ranked, limits, .. } = self;
        let mut spare = None;
        for _ in 0..2 {
            let Some(other) = rankings.pop_front() else { break };
            let Some(known) = classes.get_mut(&other) else { continue };
            known.listed = other != key && known.ranking.len() > 0;
            let gone = cluster.classes.get(other.class).is_none_or(|class| class.serial.0 != known.serial);
            if known.listed && (gone || known.ranking.is_stale(buckets, *limits)) {
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

/// Reads the top of a bucket, and the nodes that are likely to be its next tops, before they are used. These reads do
/// not wait for each other, so the processor waits for memory once instead of once for each node.
fn prefetch_next(cluster: &Cluster, buckets: &NodeBuckets, slot: usize) {
    for node in buckets.next_tops(slot).take(PREFETCHED_NODES) {
        cluster.nodes[node].prefetch();
    }
}

/// The tie-break of a node: the first draw of a generator with the given seed and the stream of the node's name
/// (FNV-1a). Of nodes with equal scores the one with the largest tie-break wins. This is reservoir sampling by random
/// keys (Efraimidis and Spirakis, 2006): each of the equal nodes is as likely as any other over all seeds, and the
/// choice depends on no other node.
pub fn tie_break(seed: u64, name: &str) -> u64 {
    let stream = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Pcg64Dxsm::new(seed.into(), stream.into()).next_u64()
}
