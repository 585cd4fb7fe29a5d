//! Herds: parked jobs that wait for the same.
//!
//! Jobs of one shape get the same answers, so the first of them is asked for all: the others are called, one by one, when
//! the one before got what it asked for. What a herd waits for says when its first is called (`calls`).
mod calls;

use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::likeness::{Asks, DeviceLike};
use super::lineup::{Bounds, Lineups, Rank};
use super::members::Members;
use super::rooms::Rooms;
use super::{Counts, Job, JobKind, World};
use crate::annotation::Annotations;
use crate::diagnosis::Refusal;
use crate::event::{Phase, Time};
use crate::id::{ClassId, HerdId, JobId, QueueId, Slots, TermId};

/// Tasks of a job that no rule can tell apart, one after the other in the order in which they are served.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// Requests and constraints.
    pub asks: Asks,
    /// Claims to devices.
    pub devices: Box<[DeviceLike]>,
    /// The pods wait behind a scheduling gate.
    pub gated: bool,
    /// Index of the role in the job.
    pub role: u16,
    /// Priority of the pods.
    pub priority: i32,
    /// `volcano.sh/preemptable` of the pods.
    pub preemptable: Option<bool>,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// How many pods.
    pub count: u32,
}

/// What a job has of which some members have their places.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holds {
    /// What its allocated tasks request.
    pub allocated: Amounts,
    /// Its tasks by status.
    pub counts: Counts,
    /// The tasks of each role by status.
    pub of_roles: Vec<Counts>,
    /// It is like no other: somebody may be evicted for it, members of its own too.
    pub alone: Option<JobId>,
}

/// All that answers to a job depend on, but for its turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Queue.
    pub queue: QueueId,
    /// Namespace.
    pub namespace: Arc<str>,
    /// A PodGroup, or a pod without one.
    pub kind: JobKind,
    /// Phase.
    pub phase: Phase,
    /// `minMember`.
    pub min_member: u32,
    /// `minTaskMember` of each role.
    pub role_minimums: Vec<u32>,
    /// `minResources`.
    pub min_resources: Option<Amounts>,
    /// What `minResources` ask for of device classes.
    pub min_devices: Amounts,
    /// `minResources` as ResourceQuotas count them.
    pub quota_request: Option<Amounts>,
    /// Priority of the PriorityClass.
    pub priority: i32,
    /// `volcano.sh/preemptable`.
    pub preemptable: Option<bool>,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// Those that wait.
    pub tasks: Vec<Run>,
    /// What it has, where some members have nodes.
    pub holds: Option<Holds>,
}

/// Who is in a herd together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HerdKey {
    /// Jobs of one shape.
    Alike(Arc<Shape>),
    /// Jobs behind the first of a queue that serves in strict order.
    Behind(QueueId, Stand),
    /// Jobs of a queue that cannot be placed whatever the room: their own fault, or the queue's.
    Blocked(QueueId),
}

/// Who serves a job that is behind others: each has a first of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stand {
    /// It waits to be admitted.
    Admission,
    /// Its pods request something.
    Requests,
    /// They request nothing.
    BestEffort,
}

impl HerdKey {
    /// Whether its jobs have places, so that their order depends on what all nodes can give.
    fn holds(&self) -> bool {
        matches!(self, HerdKey::Alike(shape) if shape.holds.is_some())
    }

    /// The queue of its jobs.
    pub fn queue(&self) -> QueueId {
        match self {
            HerdKey::Alike(shape) => shape.queue,
            HerdKey::Behind(queue, _) | HerdKey::Blocked(queue) => *queue,
        }
    }
}

/// What may lift a refusal; the later ones include those before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cure {
    /// Its queue.
    Queue,
    /// A larger node, or one with other attributes: no room on those there are would do, not even all of it.
    Nodes,
    /// More room on a node that could take one of its pods.
    Room,
    /// Anything: the first is asked in each cycle.
    #[default]
    Any,
}

/// Why a herd waits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plight {
    /// What may lift the refusal.
    pub cure: Cure,
    /// A class, and how many of its pods it needs at the least, for one that waits for room or nodes.
    pub demand: Option<(ClassId, u32)>,
    /// Others that come may make place for its pods.
    pub seeks: bool,
    /// Room helps it, and at most evictions besides: it stands in its queue's lineup.
    pub plain: bool,
    /// Others may be evicted for it.
    pub evicts: bool,
    /// The pods it asks for have to be where others of this term are, and are such pods themselves.
    pub together: Option<TermId>,
}

/// Pods that all request the same, and how many of them the first of the herd needs at the least.
#[derive(Clone, Debug)]
struct Demand {
    request: Amounts,
    least: Amounts,
    /// Where it stands in the index.
    dominant: (usize, i64),
}

/// A herd.
#[derive(Clone, Debug)]
pub struct Herd {
    key: HerdKey,
    /// What its first was refused for last, or anybody who came since.
    cure: Cure,
    /// Those in it, and some that left; by the order of jobs when it is `Alike` or `Behind`.
    pub members: Members,
    /// How many are in it.
    live: usize,
    demand: Option<Demand>,
    /// Others that come may make place for it.
    seeks: bool,
    /// How often its first was called in vain.
    pub tries: u8,
    /// When its first may be called again, if many ask for that.
    pub rests_until: Time,
    plain: bool,
    evicts: bool,
    together: Option<TermId>,
    /// Where it stands in the lineup.
    rank: Option<Rank>,
    /// In which cycle it was asked last.
    asked: u64,
    /// In which cycle its first was looked at last, or came here.
    looked: u64,
}

impl Herd {
    pub fn live(&self) -> usize {
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
    fn is_indexed(&self) -> bool {
        self.cure == Cure::Nodes || (self.cure == Cure::Room && !self.plain)
    }

    /// Whether it was taken to ask for more than this.
    fn asks_for_more(&self, demand: Option<&Demand>) -> bool {
        let both = self.demand.as_ref().zip(demand);
        both.is_some_and(|(known, demand)| known.least != demand.least && demand.least.fits(&known.least))
    }

    pub(super) fn together(&self) -> Option<TermId> {
        self.together
    }

    /// What it asks for, if it is one that stands in a lineup.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let lined_up = self.plain && self.live > 0 && self.cure != Cure::Nodes;
        let demand = self.demand.as_ref().filter(|_| lined_up)?;
        Some(Bounds {
            request: demand.request.clone(),
            least: demand.least.clone(),
            asked: self.asked,
            looked: self.looked,
            rests_until: self.rests_until,
            stands: self.cure == Cure::Any,
            evicts: self.cure == Cure::Any && self.evicts,
            seeks: self.together.is_some(),
        })
    }
}

/// Parked jobs of a queue, and what was wrong with it.
#[derive(Clone, Debug)]
struct OfQueue {
    parked: usize,
    blocked: Result<(), Refusal>,
}

/// All herds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Herds {
    all: Slots<HerdId, Herd>,
    pub(super) lineups: Lineups,
    ids: FxHashMap<HerdKey, HerdId>,
    /// Those whose first is asked in each cycle.
    standing: BTreeSet<HerdId>,
    /// Those that wait for room, and those that wait for nodes: by the resource of which they ask for most, and how much.
    by_amount: [Vec<BTreeSet<(i64, HerdId)>>; 2],
    demands: usize,
    emptied: Vec<HerdId>,
    queues: FxHashMap<QueueId, OfQueue>,
    parked: usize,
    /// How many of them wait because binds were refused.
    denied: usize,
    pub(super) rooms: Rooms,
    /// How many herds look for company.
    seeking: usize,
    /// How many herds are of jobs that have places.
    holding: usize,
    /// A pod that some term means was given a place in this cycle.
    company: bool,
    /// What plugins say of nodes may be another thing for some queue.
    all_called: bool,
}

impl Herds {
    /// All entries, with those of jobs that left.
    pub(super) fn entries(&self) -> impl Iterator<Item = (HerdId, super::Member)> {
        self.all.iter().flat_map(|(id, herd)| herd.members.all().into_iter().map(move |member| (id, member)))
    }

    pub(super) fn parked(&self) -> usize {
        self.parked
    }

    /// Of the parked ones, those of which binds were refused.
    pub(super) fn denied(&self) -> usize {
        self.denied
    }

    pub(super) fn leave(&mut self, id: HerdId, job: &Job) {
        self.parked -= 1;
        self.denied -= usize::from(job.place.denied);
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.parked -= 1;
        }
        let herd = &mut self.all[id];
        herd.live -= 1;
        if herd.live == 0 {
            self.emptied.push(id);
        }
        if herd.plain {
            self.lineups.note_moved(id);
        }
    }

    pub(super) fn join(&mut self, id: HerdId, job: &Job) {
        self.parked += 1;
        self.denied += usize::from(job.place.denied);
        if let Some(queue) = self.queues.get_mut(&job.queue) {
            queue.parked += 1;
        }
        let herd = &mut self.all[id];
        herd.live += 1;
        if herd.plain {
            self.lineups.note_moved(id);
        }
    }

    fn index(&mut self, id: HerdId, add: bool) {
        let Self { all, by_amount, demands, .. } = self;
        let herd = &all[id];
        let waits = herd.is_indexed();
        let Some(demand) = herd.demand.as_ref().filter(|_| waits) else { return };
        let index = &mut by_amount[usize::from(herd.cure == Cure::Nodes)];
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

    fn set_cure(&mut self, id: HerdId, cure: Cure, demand: Option<Demand>) {
        self.index(id, false);
        let herd = &mut self.all[id];
        herd.cure = cure;
        herd.demand = demand.or(herd.demand.take());
        let plain = herd.plain;
        self.index(id, true);
        if cure == Cure::Any && !plain {
            self.standing.insert(id);
        } else {
            self.standing.remove(&id);
        }
        self.doubt_rank(id);
    }

    /// A herd that nobody is in begins anew.
    fn renew(&mut self, id: HerdId, plight: Plight, demand: Option<Demand>) {
        self.index(id, false);
        let herd = &mut self.all[id];
        herd.demand = None;
        (herd.plain, herd.evicts, herd.together) = (plight.plain, plight.evicts, plight.together);
        (herd.asked, herd.looked) = (0, self.lineups.cycle());
        self.set_cure(id, plight.cure, demand);
    }

    fn doubt_rank(&mut self, id: HerdId) {
        let herd = &self.all[id];
        if let Some(rank) = &herd.rank {
            self.lineups.doubt(herd.key.queue(), rank);
        }
    }

    fn drop_emptied(&mut self) {
        for id in std::mem::take(&mut self.emptied) {
            if self.all.get(id).is_none_or(|herd| herd.live > 0) {
                continue;
            }
            self.index(id, false);
            self.standing.remove(&id);
            if let Some(herd) = self.all.remove(id) {
                if let Some(rank) = &herd.rank {
                    self.lineups.remove(herd.key.queue(), id, rank);
                }
                self.seeking -= usize::from(herd.seeks);
                self.holding -= usize::from(herd.key.holds());
                self.ids.remove(&herd.key);
            }
        }
        self.queues.retain(|_, queue| queue.parked > 0);
    }

    /// The order of jobs is another one: nobody stands where it did.
    pub(super) fn unrank_all(&mut self) {
        for id in self.all.ids().collect::<Vec<_>>() {
            if self.all[id].rank.take().is_some() {
                self.lineups.note_moved(id);
            }
        }
        self.lineups.clear();
    }

    /// The same where what jobs hold counts for their order, by parts of all that nodes can give.
    fn order_by(&mut self, total: &Amounts) {
        if self.lineups.total != *total {
            self.lineups.total.clone_from(total);
            if self.holding > 0 {
                self.unrank_all();
            }
        }
    }
}

impl World {
    /// The herd of an id.
    pub fn herd(&self, id: HerdId) -> Option<&Herd> {
        self.pools.herds.all.get(id)
    }

    /// The herd of an id, to be changed.
    pub fn herd_mut(&mut self, id: HerdId) -> Option<&mut Herd> {
        self.pools.herds.all.get_mut(id)
    }

    /// The herd of a key, which a job is about to join that was refused. What its first is told goes for all of them.
    pub fn ensure_herd(&mut self, key: HerdKey, plight: Plight, job: JobId) -> HerdId {
        let Some(id) = self.pools.herds.ids.get(&key).copied() else { return self.found_herd(key, plight) };
        let is_first = self.jobs[job].place.first_of == Some(id);
        let demand = plight.demand.map(|(class, count)| self.demand(class, count));
        let herd = &self.pools.herds.all[id];
        if herd.live == 0 {
            self.pools.herds.renew(id, plight, demand);
            return id;
        }
        let cure = if is_first { plight.cure } else { plight.cure.max(herd.cure) };
        if cure != herd.cure || herd.asks_for_more(demand.as_ref()) {
            self.pools.herds.set_cure(id, cure, demand);
        }
        id
    }

    /// The first of a herd went elsewhere without being told what the others wait for: they are to be asked themselves.
    pub fn doubt_herd(&mut self, id: HerdId) {
        let herds = &mut self.pools.herds;
        if herds.all.get(id).is_some_and(|herd| matches!(herd.key, HerdKey::Alike(_))) {
            herds.set_cure(id, Cure::Any, None);
        }
    }

    fn found_herd(&mut self, key: HerdKey, plight: Plight) -> HerdId {
        let Plight { cure, demand, seeks, plain, evicts, together } = plight;
        let demand = demand.map(|(class, count)| self.demand(class, count));
        let stands = cure == Cure::Any && !plain;
        let herds = &mut self.pools.herds;
        let herd = Herd {
            key: key.clone(),
            cure,
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
            looked: herds.lineups.cycle(),
        };
        herds.seeking += usize::from(seeks);
        herds.holding += usize::from(key.holds());
        let id = herds.all.insert(herd);
        herds.ids.insert(key, id);
        herds.index(id, true);
        if stands {
            herds.standing.insert(id);
        }
        // Until somebody joins.
        herds.emptied.push(id);
        id
    }

    fn demand(&self, class: ClassId, count: u32) -> Demand {
        let request = self.classes[class].request.clone();
        let mut least = Amounts::new();
        for (dim, amount) in request.iter() {
            least.set(dim, amount.saturating_mul(i64::from(count)));
        }
        // Of two resources the scarcer one tells more herds apart.
        let part = |amount: i64, total: i64| amount as f64 / total.max(1) as f64;
        let parts = request.iter().map(|(dim, amount)| (part(amount, self.total.get(dim)), dim, amount));
        let largest = parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let dominant = largest.map_or((0, 0), |(_, dim, amount)| (usize::from(dim.0), amount));
        Demand { request, least, dominant }
    }

    /// What is wrong with the counts, against a recount.
    pub(super) fn check_pools(&self, note: &mut impl FnMut(bool, String)) {
        let herds = &self.pools.herds;
        let parked =
            self.jobs.iter().filter(|(_, job)| matches!(job.place.state, super::awake::State::Parked(_)));
        let parked: Vec<&Job> = parked.map(|(_, job)| job).collect();
        let live: usize = herds.all.iter().map(|(_, herd)| herd.live).sum();
        let of_queues: usize = herds.queues.values().map(|queue| queue.parked).sum();
        let counts = [herds.parked, live, of_queues].iter().all(|count| *count == parked.len());
        note(counts, "counts of parked jobs".to_owned());
        let denied = parked.iter().filter(|job| job.place.denied).count();
        note(denied == herds.denied, "count of parked jobs whose binds were refused".to_owned());
        herds.lineups.check(&herds.all, note);
        for (id, herd) in herds.all.iter() {
            let entries = herd.members.all().into_iter();
            let found = entries
                .filter(|(job, serial)| self.jobs.get(*job).is_some_and(|job| job.is_entry(id, *serial)));
            note(found.count() == herd.live, format!("members of herd {id:?}"));
        }
    }
}
