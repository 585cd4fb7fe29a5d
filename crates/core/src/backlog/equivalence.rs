//! Equivalence classes: unschedulable jobs that get the same answers.
//!
//! Jobs of one signature get the same answers, so the first of them is asked for all: the others are tried, one by one, when
//! the one before got what it asked for. What a class waits for says when its first is tried (`hints`).
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::capacity_delta::Capacities;
use super::capacity_index::{Bounds, CapacityIndexes, Rank};
use super::members::Members;
use super::pools::{Backlog, Row};
use phalanx_cluster::annotation::Annotations;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{ClassId, Id, JobId, QueueId, Slots, TermId};
use phalanx_cluster::{Asks, Cluster, Counts, DeviceLike, JobKind};

/// Jobs that wait for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct JobClassId(u32);

impl Id for JobClassId {
    fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Tasks of a job that no rule can tell apart, one after the other in the order in which they are served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Run {
    /// Requests and constraints.
    pub(super) asks: Asks,
    /// Claims to devices.
    pub(super) devices: Box<[DeviceLike]>,
    /// The pods wait behind a scheduling gate.
    pub(super) gated: bool,
    /// Index of the role in the job.
    pub(super) role: u16,
    /// Priority of the pods.
    pub(super) priority: i32,
    /// `volcano.sh/preemptable` of the pods.
    pub(super) preemptable: Option<bool>,
    /// `preemptionPolicy: Never`.
    pub(super) never_preempts: bool,
    /// Annotations that plugins read.
    pub(super) annotations: Annotations,
    /// How many pods.
    pub(super) count: u32,
}

/// What a job has of which some members have their places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holds {
    /// What its allocated tasks request.
    pub(super) allocated: Amounts,
    /// Its tasks by status.
    pub(super) counts: Counts,
    /// The tasks of each role by status.
    pub(super) of_roles: Vec<Counts>,
    /// It is like no other: somebody may be evicted for it, members of its own too.
    pub(super) alone: Option<JobId>,
}

/// All that answers to a job depend on, but for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Signature {
    /// Queue.
    pub(super) queue: QueueId,
    /// Namespace.
    pub(super) namespace: Arc<str>,
    /// A PodGroup, or a pod without one.
    pub(super) kind: JobKind,
    /// Phase.
    pub(super) phase: Phase,
    /// `minMember`.
    pub(super) min_member: u32,
    /// `minTaskMember` of each role.
    pub(super) role_minimums: Vec<u32>,
    /// `minResources`.
    pub(super) min_resources: Option<Amounts>,
    /// What `minResources` ask for of device classes.
    pub(super) min_devices: Amounts,
    /// `minResources` as ResourceQuotas count them.
    pub(super) quota_request: Option<Amounts>,
    /// Priority of the PriorityClass.
    pub(super) priority: i32,
    /// `volcano.sh/preemptable`.
    pub(super) preemptable: Option<bool>,
    /// Annotations that plugins read.
    pub(super) annotations: Annotations,
    /// Those that wait.
    pub(super) tasks: Vec<Run>,
    /// What it has, where some members have nodes.
    pub(super) holds: Option<Holds>,
}

/// Who is in a class together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum JobClassKey {
    /// Jobs of one signature.
    Alike(Arc<Signature>),
    /// Jobs behind the first of a queue that serves in strict order.
    Behind(QueueId, ServedBy),
    /// Jobs of a queue that cannot be placed whatever the capacity: their own fault, or the queue's.
    Blocked(QueueId),
}

/// Who serves a job that is behind others: each has a first of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ServedBy {
    /// It waits to be admitted.
    Admission,
    /// Its pods request something.
    Requests,
    /// They request nothing.
    BestEffort,
}

impl JobClassKey {
    /// Whether its jobs have places, so that their order depends on what all nodes can give.
    fn holds(&self) -> bool {
        matches!(self, JobClassKey::Alike(signature) if signature.holds.is_some())
    }

    /// The queue of its jobs.
    pub(super) fn queue(&self) -> QueueId {
        match self {
            JobClassKey::Alike(signature) => signature.queue,
            JobClassKey::Behind(queue, _) | JobClassKey::Blocked(queue) => *queue,
        }
    }
}

/// What may lift a refusal; the later ones include those before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaits {
    /// Its queue.
    Queue,
    /// A larger node, or one with other attributes: no capacity on those there are would do, not even all of it.
    Nodes,
    /// More capacity on a node that could take one of its pods.
    Room,
    /// Anything: the first is asked in each cycle.
    #[default]
    Any,
}

/// Why a class waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueingHint {
    /// What may lift the refusal.
    pub(super) awaits: Awaits,
    /// A class, and how many of its pods it needs at the least, for one that waits for capacity or nodes.
    pub(super) demand: Option<(ClassId, u32)>,
    /// Others that come may make place for its pods.
    pub(super) seeks: bool,
    /// Capacity helps it, and at most evictions besides: it stands in its queue's capacity index.
    pub(super) plain: bool,
    /// Others may be evicted for it.
    pub(super) evicts: bool,
    /// The pods it asks for have to be where others of this term are, and are such pods themselves.
    pub(super) together: Option<TermId>,
}

/// Pods that all request the same, and how many of them the first of the class needs at the least.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) request: Amounts,
    pub(super) least: Amounts,
    /// Where it stands in the index.
    dominant: (usize, i64),
}

/// A class.
#[derive(Clone, Debug)]
pub(super) struct JobClass {
    pub(super) key: JobClassKey,
    /// What its first was refused for last, or anybody who came since.
    pub(super) awaits: Awaits,
    /// Those in it, and some that left; by the order of jobs when it is `Alike` or `Behind`.
    pub(super) members: Members,
    /// How many are in it.
    live: usize,
    pub(super) demand: Option<Demand>,
    /// Others that come may make place for it.
    seeks: bool,
    /// How often its first was tried in vain.
    pub(super) tries: u8,
    /// When its first may be tried again, if many ask for that.
    pub(super) rests_until: Time,
    pub(super) plain: bool,
    evicts: bool,
    together: Option<TermId>,
    /// Where it stands in the capacity index.
    rank: Option<Rank>,
    /// In which cycle it was asked last.
    pub(super) asked: u64,
    /// In which cycle its first was looked at last, or came here.
    pub(super) looked: u64,
}

impl JobClass {
    pub(super) fn live(&self) -> usize {
        self.live
    }

    pub(super) fn queue(&self) -> QueueId {
        self.key.queue()
    }

    pub(super) fn rank(&self) -> Option<&Rank> {
        self.rank.as_ref()
    }

    pub(super) fn rank_mut(&mut self) -> Option<&mut Rank> {
        self.rank.as_mut()
    }

    pub(super) fn set_rank(&mut self, rank: Rank) {
        self.rank = Some(rank);
    }

    pub(super) fn take_rank(&mut self) -> Option<Rank> {
        self.rank.take()
    }

    /// Whether it is found by the amounts it asks for.
    pub(super) fn is_indexed(&self) -> bool {
        self.awaits == Awaits::Nodes || (self.awaits == Awaits::Room && !self.plain)
    }

    /// Whether it was taken to ask for more than this.
    fn asks_for_more(&self, demand: Option<&Demand>) -> bool {
        let both = self.demand.as_ref().zip(demand);
        both.is_some_and(|(known, demand)| known.least != demand.least && demand.least.fits(&known.least))
    }

    pub(super) fn together(&self) -> Option<TermId> {
        self.together
    }

    /// What it asks for, if it is one that stands in a capacity index.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let lined_up = self.plain && self.live > 0 && self.awaits != Awaits::Nodes;
        let demand = self.demand.as_ref().filter(|_| lined_up)?;
        Some(Bounds {
            request: demand.request.clone(),
            least: demand.least.clone(),
            asked: self.asked,
            looked: self.looked,
            rests_until: self.rests_until,
            stands: self.awaits == Awaits::Any,
            evicts: self.awaits == Awaits::Any && self.evicts,
            seeks: self.together.is_some(),
        })
    }
}

/// Unschedulable jobs of a queue, and what was wrong with it.
#[derive(Clone, Debug)]
pub(super) struct OfQueue {
    pub(super) unschedulable: usize,
    pub(super) blocked: Result<(), Refusal>,
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(super) struct JobClasses {
    pub(super) all: Slots<JobClassId, JobClass>,
    pub(super) indexes: CapacityIndexes,
    ids: FxHashMap<JobClassKey, JobClassId>,
    /// Those whose first is asked in each cycle.
    pub(super) standing: BTreeSet<JobClassId>,
    /// Those that wait for capacity, and those that wait for nodes: by the resource of which they ask for most, and how much.
    pub(super) by_amount: [Vec<BTreeSet<(i64, JobClassId)>>; 2],
    pub(super) demands: usize,
    emptied: Vec<JobClassId>,
    pub(super) queues: FxHashMap<QueueId, OfQueue>,
    unschedulable: usize,
    /// How many of them wait because binds were refused.
    denied: usize,
    pub(super) capacities: Capacities,
    /// How many classes look for company.
    pub(super) seeking: usize,
    /// How many classes are of jobs that have places.
    holding: usize,
    /// A pod that some term means was given a place in this cycle.
    pub(super) company: bool,
    /// What plugins say of nodes may be another thing for some queue.
    pub(super) all_called: bool,
}

impl JobClasses {
    pub(super) fn unschedulable(&self) -> usize {
        self.unschedulable
    }

    /// Of the unschedulable ones, those of which binds were refused.
    pub(super) fn denied(&self) -> usize {
        self.denied
    }

    pub(super) fn leave(&mut self, id: JobClassId, denied: bool) {
        self.unschedulable -= 1;
        self.denied -= usize::from(denied);
        let class = &mut self.all[id];
        if let Some(queue) = self.queues.get_mut(&class.key.queue()) {
            queue.unschedulable -= 1;
        }
        class.live -= 1;
        if class.live == 0 {
            self.emptied.push(id);
        }
        if class.plain {
            self.indexes.note_moved(id);
        }
    }

    pub(super) fn join(&mut self, id: JobClassId, denied: bool) {
        self.unschedulable += 1;
        self.denied += usize::from(denied);
        let class = &mut self.all[id];
        if let Some(queue) = self.queues.get_mut(&class.key.queue()) {
            queue.unschedulable += 1;
        }
        class.live += 1;
        if class.plain {
            self.indexes.note_moved(id);
        }
    }

    fn index(&mut self, id: JobClassId, add: bool) {
        let Self { all, by_amount, demands, .. } = self;
        let class = &all[id];
        let waits = class.is_indexed();
        let Some(demand) = class.demand.as_ref().filter(|_| waits) else { return };
        let index = &mut by_amount[usize::from(class.awaits == Awaits::Nodes)];
        let (dim, amount) = demand.dominant;
        if index.len() <= dim {
            index.resize_with(dim + 1, BTreeSet::new);
        }
        if add {
            index[dim].insert((amount, id));
            *demands += 1;
        } else {
            index[dim].remove(&(amount, id));
            *demands -= 1;
        }
    }

    fn set_awaits(&mut self, id: JobClassId, awaits: Awaits, demand: Option<Demand>) {
        self.index(id, false);
        let class = &mut self.all[id];
        class.awaits = awaits;
        class.demand = demand.or(class.demand.take());
        let plain = class.plain;
        self.index(id, true);
        if awaits == Awaits::Any && !plain {
            self.standing.insert(id);
        } else {
            self.standing.remove(&id);
        }
        self.doubt_rank(id);
    }

    /// A class that nobody is in begins anew.
    fn renew(&mut self, id: JobClassId, hint: QueueingHint, demand: Option<Demand>) {
        self.index(id, false);
        let class = &mut self.all[id];
        class.demand = None;
        (class.plain, class.evicts, class.together) = (hint.plain, hint.evicts, hint.together);
        (class.asked, class.looked) = (0, self.indexes.cycle());
        self.set_awaits(id, hint.awaits, demand);
    }

    pub(super) fn doubt_rank(&mut self, id: JobClassId) {
        let class = &self.all[id];
        if let Some(rank) = &class.rank {
            self.indexes.doubt(class.key.queue(), rank);
        }
    }

    pub(super) fn drop_emptied(&mut self) {
        for id in std::mem::take(&mut self.emptied) {
            if self.all.get(id).is_none_or(|class| class.live > 0) {
                continue;
            }
            self.index(id, false);
            self.standing.remove(&id);
            if let Some(class) = self.all.remove(id) {
                if let Some(rank) = &class.rank {
                    self.indexes.remove(class.key.queue(), id, rank);
                }
                self.seeking -= usize::from(class.seeks);
                self.holding -= usize::from(class.key.holds());
                self.ids.remove(&class.key);
            }
        }
        self.queues.retain(|_, queue| queue.unschedulable > 0);
    }

    /// The order of jobs is another one: nobody stands where it did.
    pub(super) fn unrank_all(&mut self) {
        for id in self.all.ids().collect::<Vec<_>>() {
            if self.all[id].rank.take().is_some() {
                self.indexes.note_moved(id);
            }
        }
        self.indexes.clear();
    }

    /// The same where what jobs hold counts for their order, by parts of all that nodes can give.
    pub(super) fn order_by(&mut self, total: &Amounts) {
        if self.indexes.total != *total {
            self.indexes.total.clone_from(total);
            if self.holding > 0 {
                self.unrank_all();
            }
        }
    }
}

impl Backlog {
    /// The class of an id.
    pub(super) fn job_class(&self, id: JobClassId) -> Option<&JobClass> {
        self.classes.all.get(id)
    }

    /// The class of an id, to be changed.
    pub(super) fn job_class_mut(&mut self, id: JobClassId) -> Option<&mut JobClass> {
        self.classes.all.get_mut(id)
    }

    /// The class of a key, which a job is about to join that was refused. What its first is told goes for all of them.
    pub(super) fn ensure_class(
        &mut self,
        cluster: &Cluster,
        key: JobClassKey,
        hint: QueueingHint,
        job: JobId,
    ) -> JobClassId {
        let Some(id) = self.classes.ids.get(&key).copied() else { return self.add_class(cluster, key, hint) };
        let is_first = self.row(job).first_of == Some(id);
        let demand = hint.demand.map(|(class, count)| demand_of(cluster, class, count));
        let class = &self.classes.all[id];
        if class.live == 0 {
            self.classes.renew(id, hint, demand);
            return id;
        }
        let awaits = if is_first { hint.awaits } else { hint.awaits.max(class.awaits) };
        if awaits != class.awaits || class.asks_for_more(demand.as_ref()) {
            self.classes.set_awaits(id, awaits, demand);
        }
        id
    }

    /// The first of a class went elsewhere without being told what the others wait for: they are to be asked themselves.
    pub(super) fn doubt_class(&mut self, id: JobClassId) {
        let classes = &mut self.classes;
        if classes.all.get(id).is_some_and(|class| matches!(class.key, JobClassKey::Alike(_))) {
            classes.set_awaits(id, Awaits::Any, None);
        }
    }

    fn add_class(&mut self, cluster: &Cluster, key: JobClassKey, hint: QueueingHint) -> JobClassId {
        let QueueingHint { awaits, demand, seeks, plain, evicts, together } = hint;
        let demand = demand.map(|(class, count)| demand_of(cluster, class, count));
        let stands = awaits == Awaits::Any && !plain;
        let classes = &mut self.classes;
        let class = JobClass {
            key: key.clone(),
            awaits,
            members: Members::default(),
            live: 0,
            demand,
            seeks,
            tries: 0,
            rests_until: Time(i64::MIN),
            plain,
            evicts,
            together,
            rank: None,
            asked: 0,
            looked: classes.indexes.cycle(),
        };
        classes.seeking += usize::from(seeks);
        classes.holding += usize::from(key.holds());
        let id = classes.all.insert(class);
        classes.ids.insert(key, id);
        classes.index(id, true);
        if stands {
            classes.standing.insert(id);
        }
        // Until somebody joins.
        classes.emptied.push(id);
        id
    }

    /// What is wrong with the counts, against a recount.
    pub(super) fn check_classes(&self, unschedulable: &[Row], note: &mut impl FnMut(bool, String)) {
        let classes = &self.classes;
        let live: usize = classes.all.iter().map(|(_, class)| class.live).sum();
        let of_queues: usize = classes.queues.values().map(|queue| queue.unschedulable).sum();
        let counts =
            [classes.unschedulable, live, of_queues].iter().all(|count| *count == unschedulable.len());
        note(counts, "counts of unschedulable jobs".to_owned());
        let denied = unschedulable.iter().filter(|row| row.denied).count();
        note(denied == classes.denied, "count of unschedulable jobs whose binds were refused".to_owned());
        classes.indexes.check(&classes.all, note);
        for (id, class) in classes.all.iter() {
            let entries = class.members.all().into_iter();
            let found = entries.filter(|(job, serial)| self.is_entry(id, *job, *serial));
            note(found.count() == class.live, format!("members of class {id:?}"));
        }
    }
}

fn demand_of(cluster: &Cluster, class: ClassId, count: u32) -> Demand {
    let request = cluster.classes[class].request.clone();
    let mut least = Amounts::new();
    for (dim, amount) in request.iter() {
        least.set(dim, amount.saturating_mul(i64::from(count)));
    }
    // Of two resources the scarcer one tells more classes apart.
    let part = |amount: i64, total: i64| amount as f64 / total.max(1) as f64;
    let parts = request.iter().map(|(dim, amount)| (part(amount, cluster.total.get(dim)), dim, amount));
    let largest = parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let dominant = largest.map_or((0, 0), |(_, dim, amount)| (usize::from(dim.0), amount));
    Demand { request, least, dominant }
}
