//! The capacity index of a queue: its classes that wait for capacity or evictions, in the order of their first jobs.
//!
//! Classes are kept in blocks, each with the smallest request of any of its classes. So classes that request more than
//! is free are skipped by the hundred, and a scan looks for the next class that may fit, not for all of them.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::capacity_delta::CapacityDelta;
use super::class_query::{ClassQuery, Cursor, Sought, topology_to_share};
use super::equivalence::{JobClass, JobClassId, JobClasses};
use super::pools::Backlog;
use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::id::{JobId, QueueId, Slots, TermId, TopologyId};
use phalanx_cluster::{Cluster, TermChange, Terms};

/// A block with more classes is split in two.
const BLOCK_MAX: usize = 512;

/// What a class requests and when it was tried; for a block, the least of each field.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    /// Request of one pod.
    pub(super) request: Amounts,
    /// Sum of requests of the pods that have to be placed together.
    pub(super) min_request: Amounts,
    /// The cycle of the last try.
    pub(super) last_tried: u64,
    /// The cycle in which the first job was tried last, or the class was made.
    pub(super) last_examined: u64,
    pub(super) backoff_until: Time,
    /// Any event may help the class.
    pub(super) any_event: bool,
    /// Tasks may be evicted for the class.
    pub(super) evicts: bool,
    /// Its pods have required affinity to each other.
    pub(super) self_affinity: bool,
}

impl Bounds {
    fn join(mut self, other: &Self) -> Self {
        self.request.min_with(&other.request);
        self.min_request.min_with(&other.min_request);
        self.last_tried = self.last_tried.min(other.last_tried);
        self.last_examined = self.last_examined.min(other.last_examined);
        self.backoff_until = self.backoff_until.min(other.backoff_until);
        self.any_event |= other.any_event;
        self.evicts |= other.evicts;
        self.self_affinity |= other.self_affinity;
        self
    }
}

/// Grown capacity, and the cycle since which classes that wait for capacity are to be tried.
#[derive(Clone, Debug)]
struct PendingDelta {
    delta: Arc<CapacityDelta>,
    since: u64,
}

/// The place of a class in the capacity index of its queue.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    block: u32,
    /// The first job of the class, whose order the place is by.
    job: JobId,
    key: Key,
    created: Time,
}

#[derive(Clone, Debug, Default)]
struct Block {
    classes: Vec<(JobClassId, JobId)>,
    /// `None` when they have to be computed.
    bounds: Option<Bounds>,
    /// Set where the pods of each class have to share one domain of a topology, since they have affinity to each other
    /// and no pod that matches is placed: the topology, and the terms, sorted.
    self_affinity: Option<(TopologyId, Vec<TermId>)>,
}

impl Block {
    fn invalidate(&mut self) {
        (self.bounds, self.self_affinity) = (None, None);
    }

    fn refresh(&mut self, all: &Slots<JobClassId, JobClass>, cluster: &Cluster) {
        if self.bounds.is_some() {
            return;
        }
        let classes = || self.classes.iter().filter_map(|(id, _)| all.get(*id));
        self.self_affinity = one_topology(cluster, classes());
        self.bounds = classes().filter_map(JobClass::bounds).reduce(|all, one| all.join(&one));
    }

    /// Whether one domain may have capacity for any of the classes.
    fn has_domain(&self, search: &ClassQuery<'_>) -> bool {
        let (Some((topology, _)), Some(bounds)) = (&self.self_affinity, &self.bounds) else { return true };
        search.largest_domain(*topology).is_none_or(|most| bounds.min_request.fits(most))
    }
}

/// See [`Block::self_affinity`]; `None` when the topologies differ.
fn one_topology<'w>(
    cluster: &Cluster,
    classes: impl Iterator<Item = &'w JobClass>,
) -> Option<(TopologyId, Vec<TermId>)> {
    let (mut topology, mut terms) = (None, Vec::new());
    for term in classes.map(|class| class.hint.self_affinity) {
        let of = topology_to_share(cluster, term?)?;
        if *topology.get_or_insert(of) != of {
            return None;
        }
        terms.extend(term);
    }
    terms.sort_unstable();
    Some((topology?, terms))
}

/// The classes of a queue, in blocks.
#[derive(Clone, Debug, Default)]
struct CapacityIndex {
    /// Names of the blocks, which the [`Rank`]s of classes refer to.
    names: Vec<u32>,
    blocks: Vec<Block>,
    last_name: u32,
    pending: Option<PendingDelta>,
    /// The cycle since which classes that need evictions are tried in rotation.
    evicting_since: u64,
}

impl CapacityIndex {
    fn at(&self, name: u32) -> Option<usize> {
        self.names.iter().position(|other| *other == name)
    }

    fn remove(&mut self, id: JobClassId, rank: &Rank) {
        let Some(at) = self.at(rank.block) else { return };
        let block = &mut self.blocks[at];
        block.classes.retain(|(other, _)| *other != id);
        block.invalidate();
        if block.classes.is_empty() {
            self.blocks.remove(at);
            self.names.remove(at);
        }
    }

    /// Inserts a class at its place. Returns the name of its block, and the classes that moved to a new block.
    fn insert(
        &mut self,
        id: JobClassId,
        job: JobId,
        bounds: &Bounds,
        goes_before: impl Fn(JobId) -> bool,
    ) -> (u32, Option<(u32, Vec<JobClassId>)>) {
        if self.blocks.is_empty() {
            self.add_block(0, Block::default());
        }
        let after =
            self.blocks.partition_point(|block| !goes_before(block.classes.first().map_or(job, |it| it.1)));
        let at = after.saturating_sub(1);
        let block = &mut self.blocks[at];
        let place = block.classes.partition_point(|(_, other)| !goes_before(*other));
        block.classes.insert(place, (id, job));
        block.bounds = match block.bounds.take() {
            Some(all) if !bounds.self_affinity => Some(all.join(bounds)),
            None if block.classes.len() == 1 && !bounds.self_affinity => Some(bounds.clone()),
            _ => None,
        };
        block.self_affinity = None;
        let name = self.names[at];
        (name, (self.blocks[at].classes.len() > BLOCK_MAX).then(|| self.split(at)))
    }

    fn split(&mut self, at: usize) -> (u32, Vec<JobClassId>) {
        let block = &mut self.blocks[at];
        let classes = block.classes.split_off(BLOCK_MAX / 2);
        block.invalidate();
        let moved = classes.iter().map(|(id, _)| *id).collect();
        (self.add_block(at + 1, Block { classes, ..Block::default() }), moved)
    }

    fn add_block(&mut self, at: usize, block: Block) -> u32 {
        self.last_name += 1;
        self.blocks.insert(at, block);
        self.names.insert(at, self.last_name);
        self.last_name
    }

    fn note_delta(&mut self, delta: &Arc<CapacityDelta>, cycle: u64) {
        let delta = match self.pending.take() {
            Some(before) => Arc::new(before.delta.and(delta)),
            None => Arc::clone(delta),
        };
        self.pending = Some(PendingDelta { delta, since: cycle });
    }

    fn next(
        &mut self,
        known: ClassesView<'_>,
        cursor: &mut Cursor,
        search: &ClassQuery<'_>,
    ) -> Option<JobClassId> {
        let ClassesView { cluster, classes } = known;
        while cursor.block < self.blocks.len() {
            self.blocks[cursor.block].refresh(classes, cluster);
            let block = &self.blocks[cursor.block];
            let may_be =
                block.bounds.as_ref().filter(|it| self.may_match(it, search) && block.has_domain(search));
            let any = may_be.is_some_and(|it| cursor.is_past_backoff(it, search));
            let rest = if any { &block.classes[cursor.at..] } else { &[] };
            for (at, (id, _)) in rest.iter().enumerate() {
                let Some(class) = classes.get(*id) else { continue };
                let Some(bounds) = class.bounds() else { continue };
                if self.matches(cluster, &bounds, class.hint.self_affinity, search)
                    && cursor.is_past_backoff(&bounds, search)
                {
                    cursor.at += at + 1;
                    return Some(*id);
                }
            }
            (cursor.block, cursor.at) = (cursor.block + 1, 0);
        }
        None
    }

    /// Whether a class within these bounds may match a query.
    fn may_match(&self, bounds: &Bounds, search: &ClassQuery<'_>) -> bool {
        let most = match search.sought {
            Sought::Fitting(most) => most,
            Sought::Evicting => return bounds.evicts,
            Sought::EvictingSince(evicting_since) => {
                return bounds.evicts && bounds.last_examined < evicting_since;
            }
        };
        let due = |it: &PendingDelta| bounds.last_tried < it.since && it.delta.may_take(&bounds.request);
        (bounds.any_event || self.pending.as_ref().is_some_and(due))
            && bounds.min_request.fits(search.spare)
            && most.is_none_or(|most| bounds.request.fits(&most.node))
    }

    /// Whether a class matches a query.
    fn matches(
        &self,
        cluster: &Cluster,
        bounds: &Bounds,
        self_affinity: Option<TermId>,
        search: &ClassQuery<'_>,
    ) -> bool {
        let grown = |it: &PendingDelta| it.delta.takes(cluster, &bounds.request);
        bounds.last_tried < search.cycle
            && self.may_match(bounds, search)
            && (bounds.any_event || self.pending.as_ref().is_some_and(grown))
            && self_affinity.is_none_or(|term| search.has_domain(cluster, term, &bounds.min_request))
    }
}

/// All capacity indexes, by queue.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityIndexes {
    of: FxHashMap<QueueId, CapacityIndex>,
    /// Classes that may have to move.
    pub(super) moved: Vec<JobClassId>,
    /// Number of cycles with unschedulable jobs.
    pub(super) cycle: u64,
    /// How far the log of changed terms was read.
    cursor: u64,
    /// Capacity of all nodes when classes were ranked.
    pub(super) total: Amounts,
}

impl CapacityIndexes {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.moved.is_empty()
    }

    /// Removes all classes.
    pub(super) fn clear(&mut self) {
        for capacity_index in self.of.values_mut() {
            capacity_index.names.clear();
            capacity_index.blocks.clear();
        }
    }

    pub(super) fn remove(&mut self, queue: QueueId, id: JobClassId, rank: &Rank) {
        let Some(capacity_index) = self.of.get_mut(&queue) else { return };
        capacity_index.remove(id, rank);
        if capacity_index.blocks.is_empty() {
            self.of.remove(&queue);
        }
    }

    /// Drops the bounds of the block of a class whose bounds changed.
    pub(super) fn invalidate(&mut self, queue: QueueId, rank: &Rank) {
        if let Some(capacity_index) = self.of.get_mut(&queue)
            && let Some(at) = capacity_index.at(rank.block)
        {
            capacity_index.blocks[at].invalidate();
        }
    }

    /// Drops the bounds of blocks whose terms changed since the last call: pods that match may have come or gone.
    fn follow_terms(&mut self, terms: &Terms) {
        let changes = terms.changes(std::mem::replace(&mut self.cursor, terms.changes_end()));
        // `None` when any term may have changed.
        let mut risen: Option<Vec<TermId>> = changes.map(|_| Vec::new());
        for change in changes.into_iter().flatten() {
            match change {
                TermChange::Domain(..) => {}
                TermChange::Term(id) => risen.iter_mut().for_each(|list| list.push(*id)),
                TermChange::All => risen = None,
            }
        }
        if risen.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        for block in self.of.values_mut().flat_map(|capacity_index| &mut capacity_index.blocks) {
            let Some((_, known)) = &block.self_affinity else { continue };
            let is_known = |term: &TermId| known.binary_search(term).is_ok();
            if risen.as_ref().is_none_or(|risen| risen.iter().any(is_known)) {
                block.invalidate();
            }
        }
    }

    /// Compares the indexes with the ranks of the classes.
    pub(super) fn check(&self, classes: &Slots<JobClassId, JobClass>, note: &mut impl FnMut(bool, String)) {
        for (queue, capacity_index) in &self.of {
            for (name, block) in capacity_index.names.iter().zip(&capacity_index.blocks) {
                for (id, job) in &block.classes {
                    let class = classes.get(*id);
                    let bounds = block.bounds.as_ref().zip(class.and_then(JobClass::bounds));
                    let covered = bounds.is_none_or(|(all, one)| all.clone().join(&one) == *all);
                    note(covered, format!("bounds of class {id:?} in the capacity index of {queue:?}"));
                    let stands = class
                        .and_then(|class| class.rank.as_ref())
                        .is_some_and(|it| it.block == *name && it.job == *job);
                    note(stands, format!("place of class {id:?} in the capacity index of {queue:?}"));
                }
            }
        }
        let ranked = classes.iter().filter(|(_, class)| class.rank.is_some()).count();
        let listed: usize = self.of.values().flat_map(|it| &it.blocks).map(|block| block.classes.len()).sum();
        note(ranked == listed, "classes in indexes".to_owned());
    }
}

/// What a scan reads.
#[derive(Clone, Copy)]
struct ClassesView<'a> {
    cluster: &'a Cluster,
    classes: &'a Slots<JobClassId, JobClass>,
}

impl Backlog {
    /// Takes the classes that may have to move, each once.
    pub(super) fn take_moved_classes(&mut self) -> Vec<JobClassId> {
        let mut moved = std::mem::take(&mut self.classes.indexes.moved);
        moved.sort_unstable();
        moved.dedup();
        moved
    }

    /// Whether a class is ranked by its current first job.
    pub(super) fn is_ranked_by(&self, cluster: &Cluster, id: JobClassId, first: JobId) -> bool {
        let job = &cluster.jobs[first];
        let rank = self.job_class(id).and_then(|class| class.rank.as_ref());
        rank.is_some_and(|it| it.job == first && it.key == job.key && it.created == job.created)
    }

    /// Takes a class out of its queue's capacity index.
    pub(super) fn unrank(&mut self, id: JobClassId) {
        let Some(class) = self.job_class_mut(id) else { return };
        let (queue, rank) = (class.key.queue(), class.rank.take());
        if let Some(rank) = rank {
            self.classes.indexes.remove(queue, id, &rank);
        }
    }

    /// Ranks a class by its first job; `goes_before` says whether that job precedes another.
    pub(super) fn rank(
        &mut self,
        cluster: &Cluster,
        id: JobClassId,
        first: JobId,
        goes_before: impl Fn(JobId) -> bool,
    ) {
        let Some((queue, bounds)) = self.job_class(id).and_then(|it| Some((it.key.queue(), it.bounds()?)))
        else {
            return;
        };
        let mut capacity_index = self.classes.indexes.of.remove(&queue).unwrap_or_default();
        let (block, cut) = capacity_index.insert(id, first, &bounds, goes_before);
        self.classes.indexes.of.insert(queue, capacity_index);
        let job = &cluster.jobs[first];
        let rank = Rank { block, job: first, key: job.key.clone(), created: job.created };
        if let Some(class) = self.job_class_mut(id) {
            class.rank = Some(rank);
        }
        let (name, moved) = cut.unwrap_or_default();
        for id in moved {
            if let Some(rank) = self.job_class_mut(id).and_then(|class| class.rank.as_mut()) {
                rank.block = name;
            }
        }
    }

    /// Starts a cycle with the capacity that has grown. Returns the queues that have a capacity index, by id.
    pub(super) fn begin_scans(&mut self, delta: Option<CapacityDelta>) -> Vec<QueueId> {
        let indexes = &mut self.classes.indexes;
        indexes.of.retain(|_, capacity_index| !capacity_index.blocks.is_empty());
        indexes.cycle += 1;
        if let Some(delta) = delta.map(Arc::new) {
            indexes
                .of
                .values_mut()
                .for_each(|capacity_index| capacity_index.note_delta(&delta, indexes.cycle));
        }
        let mut queues: Vec<QueueId> = indexes.of.keys().copied().collect();
        queues.sort_unstable();
        queues
    }

    /// The next class of a queue from a cursor on that is sought and was not tried in this cycle. Moves the cursor
    /// behind it.
    pub(super) fn next_class(
        &mut self,
        cluster: &Cluster,
        queue: QueueId,
        cursor: &mut Cursor,
        sought: Sought<'_>,
        in_backoff_at: Option<Time>,
    ) -> Option<JobClassId> {
        self.classes.indexes.follow_terms(&cluster.terms);
        let mut capacity_index = self.classes.indexes.of.remove(&queue)?;
        let JobClasses { capacities, indexes, .. } = &self.classes;
        let search = ClassQuery { sought, spare: &capacities.spare, in_backoff_at, cycle: indexes.cycle };
        let next = capacity_index.next(ClassesView { cluster, classes: &self.classes.all }, cursor, &search);
        self.classes.indexes.of.insert(queue, capacity_index);
        next
    }

    /// The next class from a cursor on that needs evictions and is past its back-off, in rotation: each class is tried
    /// once before any is tried again.
    pub(super) fn next_evicting(
        &mut self,
        cluster: &Cluster,
        queue: QueueId,
        cursor: &mut Cursor,
        now: Time,
    ) -> Option<JobClassId> {
        let evicting_since = self.classes.indexes.of.get(&queue)?.evicting_since;
        if let Some(id) =
            self.next_class(cluster, queue, cursor, Sought::EvictingSince(evicting_since), Some(now))
        {
            return Some(id);
        }
        let cycle = self.classes.indexes.cycle;
        self.classes.indexes.of.get_mut(&queue)?.evicting_since = cycle;
        *cursor = Cursor { next_retry: cursor.next_retry, ..Cursor::default() };
        self.next_class(cluster, queue, cursor, Sought::EvictingSince(cycle), Some(now))
    }

    /// Ends a scan that tried all classes of a queue that the grown capacity may serve.
    pub(super) fn end_scan(&mut self, queue: QueueId) {
        if let Some(capacity_index) = self.classes.indexes.of.get_mut(&queue) {
            capacity_index.pending = None;
        }
    }
}
