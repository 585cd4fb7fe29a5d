//! Classes of jobs that wait for plain placing, in the order in which their first would be served.
//!
//! They stand in blocks, each of which knows the least that any of its classes asks for. So those that ask for more than there
//! is are passed over by the hundred, and what is looked for is the next that may fit, not all that might.
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::capacity_delta::{CapacityDelta, clamped, free};
use super::equivalence::{JobClass, JobClassId, JobClasses};
use super::pools::Backlog;
use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::id::{JobId, QueueId, Slots, TermId, TopologyId};
use phalanx_cluster::{Change, Cluster, Terms};

/// Classes of a block before it is cut in two.
const FULL: usize = 512;

/// What a class asks for and when it was asked; or of several the least of each.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bounds {
    /// One of its pods.
    pub(super) request: Amounts,
    /// As many of them as it needs.
    pub(super) least: Amounts,
    /// In which cycle it was asked last.
    pub(super) asked: u64,
    /// In which cycle it was looked at last.
    pub(super) looked: u64,
    pub(super) rests_until: Time,
    /// Anything may help it.
    pub(super) stands: bool,
    /// And others may be evicted for it.
    pub(super) evicts: bool,
    /// Its pods have to be where others like them are.
    pub(super) seeks: bool,
}

impl Bounds {
    fn join(mut self, other: &Self) -> Self {
        self.request.min_with(&other.request);
        self.least.min_with(&other.least);
        self.asked = self.asked.min(other.asked);
        self.looked = self.looked.min(other.looked);
        self.rests_until = self.rests_until.min(other.rests_until);
        self.stands |= other.stands;
        self.evicts |= other.evicts;
        self.seeks |= other.seeks;
        self
    }
}

/// Capacity that has grown, and since which cycle those that wait for it are to be asked.
#[derive(Clone, Debug)]
struct Pending {
    delta: Arc<CapacityDelta>,
    since: u64,
}

/// The largest free capacities there may be, of each resource.
#[derive(Clone, Debug)]
pub(super) struct Largest {
    /// On a node.
    node: Amounts,
    /// In a domain, by topology; of a few topologies, if anybody seeks company.
    domains: Vec<(TopologyId, Amounts)>,
}

impl Largest {
    pub(super) fn new(cluster: &Cluster, seeking: bool) -> Self {
        let mut largest = Self { node: Amounts::new(), domains: Vec::new() };
        for (_, node) in cluster.nodes.iter() {
            largest.node.max_with(&free(node));
        }
        if seeking {
            let of = |id| (id, largest_domain(cluster, id));
            largest.domains = cluster.terms.topology_ids().take(TOPOLOGIES).map(of).collect();
        }
        largest
    }
}

/// Topologies of which domains are compared.
const TOPOLOGIES: usize = 4;

fn largest_domain(cluster: &Cluster, topology: TopologyId) -> Amounts {
    let topology = cluster.terms.topology(topology);
    let mut domains = vec![Amounts::new(); topology.bound()];
    for (id, node) in cluster.nodes.iter() {
        if let Some(domain) = topology.domain_of(id) {
            domains[domain].add(&clamped(&free(node)));
        }
    }
    let larger = |mut largest: Amounts, domain: &Amounts| {
        largest.max_with(domain);
        largest
    };
    domains.iter().fold(Amounts::new(), larger)
}

/// Who is looked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sought<'a> {
    /// Whom there may be capacity for, by the largest free capacities where they are known.
    Fitting(Option<&'a Largest>),
    /// Those for whom others may be evicted.
    Evicting,
    /// Those of them that were not looked at since this cycle.
    Turn(u64),
}

/// Who is looked for, and among whom.
struct Search<'a> {
    sought: Sought<'a>,
    /// What all nodes together may have.
    spare: &'a Amounts,
    /// Those that rest longer are passed over; nobody where it is missing.
    rested: Option<Time>,
    /// Those that were tried in this cycle are passed over.
    cycle: u64,
}

/// Where a walk over the classes of a queue is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    block: usize,
    at: usize,
    /// When the first of those that rest, and were passed over for it, has rested.
    pub(super) wake: Option<Time>,
}

/// The place of a class.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    block: u32,
    /// Its first, by which it stands there.
    job: JobId,
    key: Key,
    created: Time,
}

#[derive(Clone, Debug, Default)]
struct Block {
    classes: Vec<(JobClassId, JobId)>,
    /// Missing when it has to be worked out anew.
    bounds: Option<Bounds>,
    /// Where all of them have to find their places in one domain of a topology, for there is nobody yet whom they seek: that,
    /// and by which terms, sorted.
    together: Option<(TopologyId, Vec<TermId>)>,
}

impl Block {
    fn doubt(&mut self) {
        (self.bounds, self.together) = (None, None);
    }

    fn refresh(&mut self, all: &Slots<JobClassId, JobClass>, cluster: &Cluster) {
        if self.bounds.is_some() {
            return;
        }
        let classes = || self.classes.iter().filter_map(|(id, _)| all.get(*id));
        self.together = one_topology(cluster, classes());
        self.bounds = classes().filter_map(JobClass::bounds).reduce(|all, one| all.join(&one));
    }

    /// Whether there may be capacity in one domain for any of its classes.
    fn has_domain(&self, search: &Search<'_>) -> bool {
        let (Some((topology, _)), Some(bounds)) = (&self.together, &self.bounds) else { return true };
        search.largest_domain(*topology).is_none_or(|most| bounds.least.fits(most))
    }
}

/// The topology in one domain of which all of some classes have to be, if it is the same, and their terms, sorted.
fn one_topology<'w>(
    cluster: &Cluster,
    classes: impl Iterator<Item = &'w JobClass>,
) -> Option<(TopologyId, Vec<TermId>)> {
    let (mut topology, mut terms) = (None, Vec::new());
    for term in classes.map(JobClass::together) {
        let of = topology_to_share(cluster, term?)?;
        if *topology.get_or_insert(of) != of {
            return None;
        }
        terms.extend(term);
    }
    terms.sort_unstable();
    Some((topology?, terms))
}

/// The classes of a queue.
#[derive(Clone, Debug, Default)]
struct CapacityIndex {
    /// Names of the blocks, by which classes know theirs.
    names: Vec<u32>,
    blocks: Vec<Block>,
    last_name: u32,
    pending: Option<Pending>,
    /// Since which cycle those for whom others may be evicted take their turns.
    round: u64,
}

impl CapacityIndex {
    fn at(&self, name: u32) -> Option<usize> {
        self.names.iter().position(|other| *other == name)
    }

    fn remove(&mut self, id: JobClassId, rank: &Rank) {
        let Some(at) = self.at(rank.block) else { return };
        let block = &mut self.blocks[at];
        block.classes.retain(|(other, _)| *other != id);
        block.doubt();
        if block.classes.is_empty() {
            self.blocks.remove(at);
            self.names.remove(at);
        }
    }

    /// Puts a class where it belongs; returns the name of its block, and which classes have another one now.
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
            Some(all) if !bounds.seeks => Some(all.join(bounds)),
            None if block.classes.len() == 1 && !bounds.seeks => Some(bounds.clone()),
            _ => None,
        };
        block.together = None;
        let name = self.names[at];
        (name, (self.blocks[at].classes.len() > FULL).then(|| self.cut(at)))
    }

    fn cut(&mut self, at: usize) -> (u32, Vec<JobClassId>) {
        let block = &mut self.blocks[at];
        let classes = block.classes.split_off(FULL / 2);
        block.doubt();
        let moved = classes.iter().map(|(id, _)| *id).collect();
        (self.add_block(at + 1, Block { classes, ..Block::default() }), moved)
    }

    fn add_block(&mut self, at: usize, block: Block) -> u32 {
        self.last_name += 1;
        self.blocks.insert(at, block);
        self.names.insert(at, self.last_name);
        self.last_name
    }

    fn notice(&mut self, delta: &Arc<CapacityDelta>, cycle: u64) {
        let delta = match self.pending.take() {
            Some(before) => Arc::new(before.delta.and(delta)),
            None => Arc::clone(delta),
        };
        self.pending = Some(Pending { delta, since: cycle });
    }

    fn next(&mut self, known: Known<'_>, cursor: &mut Cursor, search: &Search<'_>) -> Option<JobClassId> {
        let Known { cluster, classes } = known;
        while cursor.block < self.blocks.len() {
            self.blocks[cursor.block].refresh(classes, cluster);
            let block = &self.blocks[cursor.block];
            let may_be =
                block.bounds.as_ref().filter(|it| self.may_be(it, search) && block.has_domain(search));
            let any = may_be.is_some_and(|it| cursor.has_rested(it, search));
            let rest = if any { &block.classes[cursor.at..] } else { &[] };
            for (at, (id, _)) in rest.iter().enumerate() {
                let Some(class) = classes.get(*id) else { continue };
                let Some(bounds) = class.bounds() else { continue };
                if self.is(cluster, &bounds, class.together(), search) && cursor.has_rested(&bounds, search) {
                    cursor.at += at + 1;
                    return Some(*id);
                }
            }
            (cursor.block, cursor.at) = (cursor.block + 1, 0);
        }
        None
    }

    /// Whether anybody with these bounds may be one who is looked for.
    fn may_be(&self, bounds: &Bounds, search: &Search<'_>) -> bool {
        let most = match search.sought {
            Sought::Fitting(most) => most,
            Sought::Evicting => return bounds.evicts,
            Sought::Turn(round) => return bounds.evicts && bounds.looked < round,
        };
        let due = |it: &Pending| bounds.asked < it.since && it.delta.may_take(&bounds.request);
        (bounds.stands || self.pending.as_ref().is_some_and(due))
            && bounds.least.fits(search.spare)
            && most.is_none_or(|most| bounds.request.fits(&most.node))
    }

    /// Whether a class is one.
    fn is(&self, cluster: &Cluster, bounds: &Bounds, together: Option<TermId>, search: &Search<'_>) -> bool {
        let grown = |it: &Pending| it.delta.takes(cluster, &bounds.request);
        bounds.asked < search.cycle
            && self.may_be(bounds, search)
            && (bounds.stands || self.pending.as_ref().is_some_and(grown))
            && together.is_none_or(|term| search.has_domain(cluster, term, &bounds.least))
    }
}

impl Search<'_> {
    /// Whether there may be capacity for so much in one domain, for pods that all have to be where the first of them is.
    fn has_domain(&self, cluster: &Cluster, term: TermId, least: &Amounts) -> bool {
        let largest = || self.largest_domain(topology_to_share(cluster, term)?);
        !matches!(self.sought, Sought::Fitting(Some(_))) || largest().is_none_or(|most| least.fits(most))
    }

    /// The largest free capacity in any domain of a topology, where it is known.
    fn largest_domain(&self, topology: TopologyId) -> Option<&Amounts> {
        let Sought::Fitting(Some(most)) = self.sought else { return None };
        most.domains.iter().find(|(id, _)| *id == topology).map(|(_, most)| most)
    }
}

impl Cursor {
    /// Whether somebody need not be passed over because of a rest.
    fn has_rested(&mut self, bounds: &Bounds, search: &Search<'_>) -> bool {
        let rests = search.rested.is_some_and(|now| bounds.rests_until > now);
        if rests {
            self.wake = Some(self.wake.map_or(bounds.rests_until, |wake| wake.min(bounds.rests_until)));
        }
        !rests
    }
}

/// All capacity indexes, by queue.
#[derive(Clone, Debug, Default)]
pub(super) struct CapacityIndexes {
    of: FxHashMap<QueueId, CapacityIndex>,
    /// Classes that may stand where they do not belong.
    moved: Vec<JobClassId>,
    /// Counts cycles in which anybody was to be asked.
    cycle: u64,
    /// When somebody is to be asked who was passed over.
    wake: Option<Time>,
    /// How far the log of what changed with terms was read.
    cursor: u64,
    /// What all nodes could give when classes got their ranks.
    pub(super) total: Amounts,
}

impl CapacityIndexes {
    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty() && self.moved.is_empty()
    }

    pub(super) fn cycle(&self) -> u64 {
        self.cycle
    }

    pub(super) fn wake(&self) -> Option<Time> {
        self.wake
    }

    pub(super) fn note_moved(&mut self, id: JobClassId) {
        self.moved.push(id);
    }

    /// Nobody has a rank any more.
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

    /// What a class asks for, or when it was asked, is another thing now.
    pub(super) fn doubt(&mut self, queue: QueueId, rank: &Rank) {
        if let Some(capacity_index) = self.of.get_mut(&queue)
            && let Some(at) = capacity_index.at(rank.block)
        {
            capacity_index.blocks[at].doubt();
        }
    }

    /// What changed with terms since this was done last: classes may have to go where others are now, or need not any more.
    fn follow_terms(&mut self, terms: &Terms) {
        let changes = terms.changes(std::mem::replace(&mut self.cursor, terms.changes_end()));
        // Missing when it may be any.
        let mut risen: Option<Vec<TermId>> = changes.map(|_| Vec::new());
        for change in changes.into_iter().flatten() {
            match change {
                Change::Domain(..) => {}
                Change::Term(id) => risen.iter_mut().for_each(|list| list.push(*id)),
                Change::All => risen = None,
            }
        }
        if risen.as_ref().is_some_and(Vec::is_empty) {
            return;
        }
        for block in self.of.values_mut().flat_map(|capacity_index| &mut capacity_index.blocks) {
            let Some((_, known)) = &block.together else { continue };
            let is_known = |term: &TermId| known.binary_search(term).is_ok();
            if risen.as_ref().is_none_or(|risen| risen.iter().any(is_known)) {
                block.doubt();
            }
        }
    }

    /// What is wrong with them.
    pub(super) fn check(&self, classes: &Slots<JobClassId, JobClass>, note: &mut impl FnMut(bool, String)) {
        for (queue, capacity_index) in &self.of {
            for (name, block) in capacity_index.names.iter().zip(&capacity_index.blocks) {
                for (id, job) in &block.classes {
                    let class = classes.get(*id);
                    let stands =
                        class.and_then(JobClass::rank).is_some_and(|it| it.block == *name && it.job == *job);
                    note(stands, format!("place of class {id:?} in the capacity_index of {queue:?}"));
                }
            }
        }
        let ranked = classes.iter().filter(|(_, class)| class.rank().is_some()).count();
        let listed: usize = self.of.values().flat_map(|it| &it.blocks).map(|block| block.classes.len()).sum();
        note(ranked == listed, "classes in indexes".to_owned());
    }
}

/// The topology in one domain of which all pods have to be that seek such as themselves by a term, as long as there are none.
fn topology_to_share(cluster: &Cluster, term: TermId) -> Option<TopologyId> {
    cluster.terms.topology_of(term).filter(|_| cluster.terms.total(term) == [0; 3])
}

/// What a walk reads.
#[derive(Clone, Copy)]
struct Known<'a> {
    cluster: &'a Cluster,
    classes: &'a Slots<JobClassId, JobClass>,
}

impl Backlog {
    /// Classes that may stand where they do not belong, each once.
    pub(super) fn take_moved_classes(&mut self) -> Vec<JobClassId> {
        let mut moved = std::mem::take(&mut self.classes.indexes.moved);
        moved.sort_unstable();
        moved.dedup();
        moved
    }

    /// Whether a class stands where it does by its first.
    pub(super) fn is_ranked_by(&self, cluster: &Cluster, id: JobClassId, first: JobId) -> bool {
        let job = &cluster.jobs[first];
        let rank = self.job_class(id).and_then(JobClass::rank);
        rank.is_some_and(|it| it.job == first && it.key == job.key && it.created == job.created)
    }

    /// Takes a class out of its queue's capacity index.
    pub(super) fn unrank(&mut self, id: JobClassId) {
        let Some(class) = self.job_class_mut(id) else { return };
        let (queue, rank) = (class.queue(), class.take_rank());
        if let Some(rank) = rank {
            self.classes.indexes.remove(queue, id, &rank);
        }
    }

    /// Puts a class where it belongs by its first: `goes_before` says before whom.
    pub(super) fn rank(
        &mut self,
        cluster: &Cluster,
        id: JobClassId,
        first: JobId,
        goes_before: impl Fn(JobId) -> bool,
    ) {
        let Some((queue, bounds)) = self.job_class(id).and_then(|it| Some((it.queue(), it.bounds()?))) else {
            return;
        };
        let mut capacity_index = self.classes.indexes.of.remove(&queue).unwrap_or_default();
        let (block, cut) = capacity_index.insert(id, first, &bounds, goes_before);
        self.classes.indexes.of.insert(queue, capacity_index);
        let job = &cluster.jobs[first];
        let rank = Rank { block, job: first, key: job.key.clone(), created: job.created };
        if let Some(class) = self.job_class_mut(id) {
            class.set_rank(rank);
        }
        let (name, moved) = cut.unwrap_or_default();
        for id in moved {
            if let Some(rank) = self.job_class_mut(id).and_then(JobClass::rank_mut) {
                rank.block = name;
            }
        }
    }

    /// A cycle begins: those that wait for the capacity that has grown are to be asked. Returns the queues that have a capacity index.
    pub(super) fn begin_walks(&mut self, delta: Option<CapacityDelta>) -> Vec<QueueId> {
        let indexes = &mut self.classes.indexes;
        indexes.of.retain(|_, capacity_index| !capacity_index.blocks.is_empty());
        indexes.cycle += 1;
        indexes.wake = None;
        if let Some(delta) = delta.map(Arc::new) {
            indexes.of.values_mut().for_each(|capacity_index| capacity_index.notice(&delta, indexes.cycle));
        }
        let mut queues: Vec<QueueId> = indexes.of.keys().copied().collect();
        queues.sort_unstable();
        queues
    }

    /// The next class of a queue that is looked for and was not tried in this cycle, from a cursor on, which moves behind it.
    /// Those that wait for capacity on nodes where it has grown are asked about these nodes.
    pub(super) fn next_in_line(
        &mut self,
        cluster: &Cluster,
        queue: QueueId,
        cursor: &mut Cursor,
        sought: Sought<'_>,
        rested: Option<Time>,
    ) -> Option<JobClassId> {
        self.classes.indexes.follow_terms(&cluster.terms);
        let mut capacity_index = self.classes.indexes.of.remove(&queue)?;
        let JobClasses { capacities, indexes, .. } = &self.classes;
        let search = Search { sought, spare: capacities.spare(), rested, cycle: indexes.cycle };
        let next = capacity_index.next(Known { cluster, classes: &self.classes.all }, cursor, &search);
        self.classes.indexes.of.insert(queue, capacity_index);
        next
    }

    /// The same of those for whom others may be evicted, and that have rested: each has one turn, then all have the next.
    pub(super) fn next_turn(
        &mut self,
        cluster: &Cluster,
        queue: QueueId,
        cursor: &mut Cursor,
        now: Time,
    ) -> Option<JobClassId> {
        let round = self.classes.indexes.of.get(&queue)?.round;
        if let Some(id) = self.next_in_line(cluster, queue, cursor, Sought::Turn(round), Some(now)) {
            return Some(id);
        }
        let cycle = self.classes.indexes.cycle;
        self.classes.indexes.of.get_mut(&queue)?.round = cycle;
        *cursor = Cursor { wake: cursor.wake, ..Cursor::default() };
        self.next_in_line(cluster, queue, cursor, Sought::Turn(cycle), Some(now))
    }

    /// All of a queue were asked that may be helped by the capacity that has grown.
    pub(super) fn end_walk(&mut self, queue: QueueId) {
        if let Some(capacity_index) = self.classes.indexes.of.get_mut(&queue) {
            capacity_index.pending = None;
        }
    }

    /// Somebody who was passed over is to be asked then.
    pub(super) fn walk_again(&mut self, at: Time) {
        let wake = &mut self.classes.indexes.wake;
        *wake = Some(wake.map_or(at, |wake| wake.min(at)));
    }
}
