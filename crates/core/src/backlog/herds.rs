//! Herds: parked jobs that wait for the same.
//!
//! Jobs of one shape get the same answers, so the first of them is asked for all: the others are called, one by one, when
//! the one before got what it asked for. What a herd waits for says when its first is called (`calls`).
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::lineup::{Bounds, Lineups, Rank};
use super::members::Members;
use super::pools::{Backlog, Row};
use super::rooms::Rooms;
use phalanx_cluster::annotation::Annotations;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{ClassId, Id, JobId, QueueId, Slots, TermId};
use phalanx_cluster::{Asks, Counts, DeviceLike, JobKind, World};

/// Jobs that wait for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HerdId(u32);

impl Id for HerdId {
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
pub(super) struct Shape {
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

/// Who is in a herd together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum HerdKey {
    /// Jobs of one shape.
    Alike(Arc<Shape>),
    /// Jobs behind the first of a queue that serves in strict order.
    Behind(QueueId, Stand),
    /// Jobs of a queue that cannot be placed whatever the room: their own fault, or the queue's.
    Blocked(QueueId),
}

/// Who serves a job that is behind others: each has a first of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stand {
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
    pub(super) fn queue(&self) -> QueueId {
        match self {
            HerdKey::Alike(shape) => shape.queue,
            HerdKey::Behind(queue, _) | HerdKey::Blocked(queue) => *queue,
        }
    }
}

/// What may lift a refusal; the later ones include those before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cure {
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
pub(super) struct Plight {
    /// What may lift the refusal.
    pub(super) cure: Cure,
    /// A class, and how many of its pods it needs at the least, for one that waits for room or nodes.
    pub(super) demand: Option<(ClassId, u32)>,
    /// Others that come may make place for its pods.
    pub(super) seeks: bool,
    /// Room helps it, and at most evictions besides: it stands in its queue's lineup.
    pub(super) plain: bool,
    /// Others may be evicted for it.
    pub(super) evicts: bool,
    /// The pods it asks for have to be where others of this term are, and are such pods themselves.
    pub(super) together: Option<TermId>,
}

/// Pods that all request the same, and how many of them the first of the herd needs at the least.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) request: Amounts,
    pub(super) least: Amounts,
    /// Where it stands in the index.
    dominant: (usize, i64),
}

/// A herd.
#[derive(Clone, Debug)]
pub(super) struct Herd {
    pub(super) key: HerdKey,
    /// What its first was refused for last, or anybody who came since.
    pub(super) cure: Cure,
    /// Those in it, and some that left; by the order of jobs when it is `Alike` or `Behind`.
    pub(super) members: Members,
    /// How many are in it.
    live: usize,
    pub(super) demand: Option<Demand>,
    /// Others that come may make place for it.
    seeks: bool,
    /// How often its first was called in vain.
    pub(super) tries: u8,
    /// When its first may be called again, if many ask for that.
    pub(super) rests_until: Time,
    pub(super) plain: bool,
    evicts: bool,
    together: Option<TermId>,
    /// Where it stands in the lineup.
    rank: Option<Rank>,
    /// In which cycle it was asked last.
    pub(super) asked: u64,
    /// In which cycle its first was looked at last, or came here.
    pub(super) looked: u64,
}

impl Herd {
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
pub(super) struct OfQueue {
    pub(super) parked: usize,
    pub(super) blocked: Result<(), Refusal>,
}

/// All herds.
#[derive(Clone, Debug, Default)]
pub(super) struct Herds {
    pub(super) all: Slots<HerdId, Herd>,
    pub(super) lineups: Lineups,
    ids: FxHashMap<HerdKey, HerdId>,
    /// Those whose first is asked in each cycle.
    pub(super) standing: BTreeSet<HerdId>,
    /// Those that wait for room, and those that wait for nodes: by the resource of which they ask for most, and how much.
    pub(super) by_amount: [Vec<BTreeSet<(i64, HerdId)>>; 2],
    pub(super) demands: usize,
    emptied: Vec<HerdId>,
    pub(super) queues: FxHashMap<QueueId, OfQueue>,
    parked: usize,
    /// How many of them wait because binds were refused.
    denied: usize,
    pub(super) rooms: Rooms,
    /// How many herds look for company.
    pub(super) seeking: usize,
    /// How many herds are of jobs that have places.
    holding: usize,
    /// A pod that some term means was given a place in this cycle.
    pub(super) company: bool,
    /// What plugins say of nodes may be another thing for some queue.
    pub(super) all_called: bool,
}

impl Herds {
    pub(super) fn parked(&self) -> usize {
        self.parked
    }

    /// Of the parked ones, those of which binds were refused.
    pub(super) fn denied(&self) -> usize {
        self.denied
    }

    pub(super) fn leave(&mut self, id: HerdId, denied: bool) {
        self.parked -= 1;
        self.denied -= usize::from(denied);
        let herd = &mut self.all[id];
        if let Some(queue) = self.queues.get_mut(&herd.key.queue()) {
            queue.parked -= 1;
        }
        herd.live -= 1;
        if herd.live == 0 {
            self.emptied.push(id);
        }
        if herd.plain {
            self.lineups.note_moved(id);
        }
    }

    pub(super) fn join(&mut self, id: HerdId, denied: bool) {
        self.parked += 1;
        self.denied += usize::from(denied);
        let herd = &mut self.all[id];
        if let Some(queue) = self.queues.get_mut(&herd.key.queue()) {
            queue.parked += 1;
        }
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

    pub(super) fn doubt_rank(&mut self, id: HerdId) {
        let herd = &self.all[id];
        if let Some(rank) = &herd.rank {
            self.lineups.doubt(herd.key.queue(), rank);
        }
    }

    pub(super) fn drop_emptied(&mut self) {
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
    pub(super) fn order_by(&mut self, total: &Amounts) {
        if self.lineups.total != *total {
            self.lineups.total.clone_from(total);
            if self.holding > 0 {
                self.unrank_all();
            }
        }
    }
}

impl Backlog {
    /// The herd of an id.
    pub(super) fn herd(&self, id: HerdId) -> Option<&Herd> {
        self.herds.all.get(id)
    }

    /// The herd of an id, to be changed.
    pub(super) fn herd_mut(&mut self, id: HerdId) -> Option<&mut Herd> {
        self.herds.all.get_mut(id)
    }

    /// The herd of a key, which a job is about to join that was refused. What its first is told goes for all of them.
    pub(super) fn ensure_herd(&mut self, world: &World, key: HerdKey, plight: Plight, job: JobId) -> HerdId {
        let Some(id) = self.herds.ids.get(&key).copied() else { return self.found_herd(world, key, plight) };
        let is_first = self.row(job).first_of == Some(id);
        let demand = plight.demand.map(|(class, count)| demand_of(world, class, count));
        let herd = &self.herds.all[id];
        if herd.live == 0 {
            self.herds.renew(id, plight, demand);
            return id;
        }
        let cure = if is_first { plight.cure } else { plight.cure.max(herd.cure) };
        if cure != herd.cure || herd.asks_for_more(demand.as_ref()) {
            self.herds.set_cure(id, cure, demand);
        }
        id
    }

    /// The first of a herd went elsewhere without being told what the others wait for: they are to be asked themselves.
    pub(super) fn doubt_herd(&mut self, id: HerdId) {
        let herds = &mut self.herds;
        if herds.all.get(id).is_some_and(|herd| matches!(herd.key, HerdKey::Alike(_))) {
            herds.set_cure(id, Cure::Any, None);
        }
    }

    fn found_herd(&mut self, world: &World, key: HerdKey, plight: Plight) -> HerdId {
        let Plight { cure, demand, seeks, plain, evicts, together } = plight;
        let demand = demand.map(|(class, count)| demand_of(world, class, count));
        let stands = cure == Cure::Any && !plain;
        let herds = &mut self.herds;
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

    /// What is wrong with the counts, against a recount.
    pub(super) fn check_herds(&self, parked: &[Row], note: &mut impl FnMut(bool, String)) {
        let herds = &self.herds;
        let live: usize = herds.all.iter().map(|(_, herd)| herd.live).sum();
        let of_queues: usize = herds.queues.values().map(|queue| queue.parked).sum();
        let counts = [herds.parked, live, of_queues].iter().all(|count| *count == parked.len());
        note(counts, "counts of parked jobs".to_owned());
        let denied = parked.iter().filter(|row| row.denied).count();
        note(denied == herds.denied, "count of parked jobs whose binds were refused".to_owned());
        herds.lineups.check(&herds.all, note);
        for (id, herd) in herds.all.iter() {
            let entries = herd.members.all().into_iter();
            let found = entries.filter(|(job, serial)| self.is_entry(id, *job, *serial));
            note(found.count() == herd.live, format!("members of herd {id:?}"));
        }
    }
}

fn demand_of(world: &World, class: ClassId, count: u32) -> Demand {
    let request = world.classes[class].request.clone();
    let mut least = Amounts::new();
    for (dim, amount) in request.iter() {
        least.set(dim, amount.saturating_mul(i64::from(count)));
    }
    // Of two resources the scarcer one tells more herds apart.
    let part = |amount: i64, total: i64| amount as f64 / total.max(1) as f64;
    let parts = request.iter().map(|(dim, amount)| (part(amount, world.total.get(dim)), dim, amount));
    let largest = parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
    let dominant = largest.map_or((0, 0), |(_, dim, amount)| (usize::from(dim.0), amount));
    Demand { request, least, dominant }
}
