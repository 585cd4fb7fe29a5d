//! Equivalence classes of unschedulable jobs.
//!
//! Jobs with one signature get the same refusal, so only the first of them is tried; the next one is tried when the one
//! before it was served. The queueing hint of a class says when its first job is tried again (`hints`).
use std::collections::BTreeSet;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use super::capacity_delta::Capacities;
use super::capacity_index::{Bounds, CapacityIndexes, Rank};
use super::members::Members;
use super::pools::{Backlog, Pool};
use super::timers::{TimerKind, Timers};
use crate::backoff::Backoff;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{ClassId, Id, JobId, QueueId, Slots, TermId};
use phalanx_cluster::{Cluster, Fingerprint};

/// Id of an equivalence class.
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

/// What jobs have in common that get the same refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct JobSignature {
    pub(super) queue: QueueId,
    /// The jobs have placed members: then their order depends on the capacity of all nodes.
    pub(super) has_placed: bool,
    /// Of the jobs, their pending tasks and their placed members.
    pub(super) fingerprint: Fingerprint,
}

/// What the jobs of a class have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum JobClassKey {
    /// All that a refusal depends on, except the place in the order of jobs.
    Alike(JobSignature),
    /// They wait behind the first job of a FIFO queue.
    Behind(QueueId, ServedBy),
    /// They are in one queue and cannot be placed whatever the capacity, because of their own spec or of the queue.
    Blocked(QueueId),
}

/// The step of a cycle that a job behind another waits for. Each step has a first job of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ServedBy {
    /// Admission to the queue.
    Admission,
    /// Placement of pods with requests.
    Requests,
    /// Placement of pods without requests.
    BestEffort,
}

impl JobClassKey {
    fn has_placed(&self) -> bool {
        matches!(self, JobClassKey::Alike(signature) if signature.has_placed)
    }

    /// The queue of the jobs.
    pub(super) fn queue(&self) -> QueueId {
        match self {
            JobClassKey::Alike(signature) => signature.queue,
            JobClassKey::Behind(queue, _) | JobClassKey::Blocked(queue) => *queue,
        }
    }
}

/// Events that may lift a refusal; later variants include the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Awaits {
    /// Changes of the queue.
    Queue,
    /// A larger node or changed node attributes: the job does not fit even on empty nodes.
    Nodes,
    /// More free capacity on a node that could take one of the pods.
    Capacity,
    /// Any event: the first job of the class is tried in each cycle.
    #[default]
    Any,
}

/// What lifts the refusal of a class (kube-scheduler's `QueueingHintFn`, as data).
#[derive(Clone, Debug, Default)]
pub(super) struct QueueingHint {
    /// Events that may lift the refusal.
    pub(super) awaits: Awaits,
    /// What jobs that wait for capacity or nodes need at least.
    pub(super) demand: Option<Demand>,
    /// New pods may satisfy an affinity or spread rule of the pods.
    pub(super) awaits_affinity: bool,
    /// Only capacity or evictions can help: the class is in the capacity index of its queue.
    pub(super) in_capacity_index: bool,
    /// Tasks may be evicted for the jobs.
    pub(super) evicts: bool,
    /// A required affinity term of the pods that matches the pods themselves.
    pub(super) self_affinity: Option<TermId>,
}

/// What a job of tasks with one request needs.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// Request of one task.
    pub(super) request: Amounts,
    /// Sum of requests of the tasks that have to be placed together.
    pub(super) min_request: Amounts,
    /// The resource of which the request is the largest part of the cluster, and its amount.
    largest_part: (DimId, i64),
}

/// What a class awaits, a resource, an amount of it, and the class.
pub(super) type AmountKey = (Awaits, DimId, i64, JobClassId);

/// An equivalence class of unschedulable jobs.
#[derive(Clone, Debug)]
pub(super) struct JobClass {
    pub(super) key: JobClassKey,
    /// What lifts the last refusal of the first job, or of a job that joined since.
    pub(super) hint: QueueingHint,
    /// The jobs, and stale entries of jobs that left.
    pub(super) members: Members,
    /// Number of jobs without stale entries.
    pub(super) live: usize,
    /// Failed tries of the first job. The back-off counts where many classes could be tried.
    pub(super) backoff: Backoff,
    /// Place in the capacity index.
    pub(super) rank: Option<Rank>,
    /// The cycle of the last try.
    pub(super) last_tried: u64,
    /// The cycle in which the first job was tried last, or the class was made.
    pub(super) last_examined: u64,
}

impl JobClass {
    /// The key of the class in `by_amount`, if it belongs there.
    pub(super) fn amount_key(&self, id: JobClassId) -> Option<AmountKey> {
        let QueueingHint { awaits, demand, in_capacity_index, .. } = &self.hint;
        let indexed = *awaits == Awaits::Nodes || (*awaits == Awaits::Capacity && !in_capacity_index);
        let (dim, amount) = demand.as_ref().filter(|_| indexed)?.largest_part;
        Some((*awaits, dim, amount, id))
    }

    /// Whether the first job is tried in each cycle.
    pub(super) fn is_tried_each_cycle(&self) -> bool {
        self.hint.awaits == Awaits::Any && !self.hint.in_capacity_index
    }

    /// Whether a demand is smaller than the one the class is known by.
    fn asks_for_more(&self, demand: Option<&Demand>) -> bool {
        let both = self.hint.demand.as_ref().zip(demand);
        both.is_some_and(|(known, demand)| {
            known.min_request != demand.min_request && demand.min_request.fits(&known.min_request)
        })
    }

    /// The bounds of the class, if it belongs in a capacity index.
    pub(super) fn bounds(&self) -> Option<Bounds> {
        let QueueingHint { awaits, demand, in_capacity_index, evicts, self_affinity, .. } = &self.hint;
        let ranked = *in_capacity_index && self.live > 0 && *awaits != Awaits::Nodes;
        let demand = demand.as_ref().filter(|_| ranked)?;
        Some(Bounds {
            request: demand.request.clone(),
            min_request: demand.min_request.clone(),
            last_tried: self.last_tried,
            last_examined: self.last_examined,
            backoff_until: self.backoff.until,
            any_event: *awaits == Awaits::Any,
            evicts: *awaits == Awaits::Any && *evicts,
            self_affinity: self_affinity.is_some(),
        })
    }
}

/// The unschedulable jobs of a queue.
#[derive(Clone, Debug)]
pub(super) struct QueueClasses {
    pub(super) unschedulable: usize,
    /// Why the queue takes no jobs, if so.
    pub(super) blocked: Result<(), Refusal>,
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(super) struct JobClasses {
    pub(super) all: Slots<JobClassId, JobClass>,
    pub(super) indexes: CapacityIndexes,
    ids: FxHashMap<JobClassKey, JobClassId>,
    /// Classes whose first job is tried in each cycle.
    pub(super) tried_each_cycle: BTreeSet<JobClassId>,
    /// Classes that await capacity or nodes, by the largest part of their [`Demand`].
    pub(super) by_amount: BTreeSet<AmountKey>,
    emptied: Vec<JobClassId>,
    pub(super) queues: FxHashMap<QueueId, QueueClasses>,
    pub(super) unschedulable: usize,
    pub(super) capacities: Capacities,
    /// Number of classes that await pods to satisfy affinity.
    pub(super) awaiting_affinity: usize,
    /// Number of classes of jobs with placed members.
    classes_with_placed: usize,
    /// A pod that some affinity term matches was placed in this cycle.
    pub(super) affinity_match_placed: bool,
    /// Queues changed: all classes that await capacity are tried.
    pub(super) retry_all: bool,
}

impl JobClasses {
    fn add(&mut self, key: JobClassKey, hint: QueueingHint) -> JobClassId {
        self.awaiting_affinity += usize::from(hint.awaits_affinity);
        self.classes_with_placed += usize::from(key.has_placed());
        let id = self.all.insert(JobClass {
            key,
            hint: QueueingHint::default(),
            members: Members::default(),
            live: 0,
            backoff: Backoff::default(),
            rank: None,
            last_tried: 0,
            last_examined: self.indexes.cycle,
        });
        self.ids.insert(key, id);
        self.set_hint(id, hint);
        // The class is empty until a job joins.
        self.emptied.push(id);
        id
    }

    pub(super) fn leave(&mut self, id: JobClassId) {
        self.unschedulable -= 1;
        let class = &mut self.all[id];
        if let Some(queue) = self.queues.get_mut(&class.key.queue()) {
            queue.unschedulable -= 1;
        }
        class.live -= 1;
        if class.live == 0 {
            self.emptied.push(id);
        }
        if class.hint.in_capacity_index {
            self.indexes.moved.push(id);
        }
    }

    pub(super) fn join(&mut self, id: JobClassId) {
        self.unschedulable += 1;
        let class = &mut self.all[id];
        if let Some(queue) = self.queues.get_mut(&class.key.queue()) {
            queue.unschedulable += 1;
        }
        class.live += 1;
        if class.hint.in_capacity_index {
            self.indexes.moved.push(id);
        }
    }

    /// Sets what lifts the refusal of a class, and updates what is looked up by it.
    fn set_hint(&mut self, id: JobClassId, hint: QueueingHint) {
        let class = &mut self.all[id];
        class.amount_key(id).map(|key| self.by_amount.remove(&key));
        class.hint = hint;
        self.by_amount.extend(class.amount_key(id));
        if class.is_tried_each_cycle() {
            self.tried_each_cycle.insert(id);
        } else {
            self.tried_each_cycle.remove(&id);
        }
        self.invalidate_bounds(id);
    }

    /// Has the first job of a class tried after more events, or with less capacity.
    fn widen_hint(&mut self, id: JobClassId, awaits: Awaits, demand: Option<Demand>) {
        let hint = self.all[id].hint.clone();
        let demand = demand.or_else(|| hint.demand.clone());
        self.set_hint(id, QueueingHint { awaits, demand, ..hint });
    }

    pub(super) fn invalidate_bounds(&mut self, id: JobClassId) {
        let class = &self.all[id];
        if let Some(rank) = &class.rank {
            self.indexes.invalidate(class.key.queue(), rank);
        }
    }

    pub(super) fn drop_emptied(&mut self, timers: &mut Timers) {
        for id in std::mem::take(&mut self.emptied) {
            if self.all.get(id).is_none_or(|class| class.live > 0) {
                continue;
            }
            self.tried_each_cycle.remove(&id);
            timers.clear(TimerKind::ClassBackoff, id);
            if let Some(class) = self.all.remove(id) {
                class.amount_key(id).map(|key| self.by_amount.remove(&key));
                if let Some(rank) = &class.rank {
                    self.indexes.remove(class.key.queue(), id, rank);
                }
                self.awaiting_affinity -= usize::from(class.hint.awaits_affinity);
                self.classes_with_placed -= usize::from(class.key.has_placed());
                self.ids.remove(&class.key);
            }
        }
        self.queues.retain(|_, queue| queue.unschedulable > 0);
    }

    /// Empties the capacity indexes after a change of the order of jobs; all classes are ranked again.
    pub(super) fn unrank_all(&mut self) {
        for id in self.all.ids().collect::<Vec<_>>() {
            if self.all[id].rank.take().is_some() {
                self.indexes.moved.push(id);
            }
        }
        self.indexes.clear();
    }

    /// Sets the total by which shares of jobs are computed, and ranks classes again where that changes their order.
    pub(super) fn order_by(&mut self, total: &Amounts) {
        if self.indexes.total != *total {
            self.indexes.total.clone_from(total);
            if self.classes_with_placed > 0 {
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

    /// The class of an id, mutable.
    pub(super) fn job_class_mut(&mut self, id: JobClassId) -> Option<&mut JobClass> {
        self.classes.all.get_mut(id)
    }

    /// The class of a key, which a refused job is about to join. A refusal of its first job holds for all its jobs.
    pub(super) fn ensure_class(&mut self, key: JobClassKey, hint: QueueingHint, job: JobId) -> JobClassId {
        let Some(id) = self.classes.ids.get(&key).copied() else { return self.classes.add(key, hint) };
        let is_first = self.row(job).first_of == Some(id);
        let classes = &mut self.classes;
        let class = &mut classes.all[id];
        if class.live == 0 {
            (class.last_tried, class.last_examined) = (0, classes.indexes.cycle);
            classes.set_hint(id, hint);
            return id;
        }
        let awaits = if is_first { hint.awaits } else { hint.awaits.max(class.hint.awaits) };
        if awaits != class.hint.awaits || class.asks_for_more(hint.demand.as_ref()) {
            classes.widen_hint(id, awaits, hint.demand);
        }
        id
    }

    /// Has the first job of a class tried in each cycle: the job that was tried for the class joined another class.
    pub(super) fn try_each_cycle(&mut self, id: JobClassId) {
        let classes = &mut self.classes;
        if classes.all.get(id).is_some_and(|class| matches!(class.key, JobClassKey::Alike(_))) {
            classes.widen_hint(id, Awaits::Any, None);
        }
    }

    /// Compares all counts with a recount.
    pub(super) fn check_classes(&self, cluster: &Cluster, note: &mut impl FnMut(bool, String)) {
        let classes = &self.classes;
        let live: usize = classes.all.iter().map(|(_, class)| class.live).sum();
        let of_queues: usize = classes.queues.values().map(|queue| queue.unschedulable).sum();
        let is_unschedulable = |id: &JobId| matches!(self.row(*id).pool, Pool::Unschedulable(_));
        let unschedulable = cluster.jobs.ids().filter(is_unschedulable).count();
        let counts = [classes.unschedulable, live, of_queues].iter().all(|count| *count == unschedulable);
        note(counts, "counts of unschedulable jobs".to_owned());
        classes.indexes.check(&classes.all, note);
        let by_amount = classes.all.iter().filter_map(|(id, class)| class.amount_key(id)).collect();
        note(classes.by_amount == by_amount, "classes by amount".to_owned());
        let count = |holds: fn(&JobClass) -> bool| classes.all.iter().filter(|(_, it)| holds(it)).count();
        let counts = [count(|class| class.hint.awaits_affinity), count(|class| class.key.has_placed())];
        note(counts == [classes.awaiting_affinity, classes.classes_with_placed], "counts of classes".into());
        for (id, class) in classes.all.iter() {
            let entries = class.members.all().into_iter();
            let found = entries.filter(|entry| self.is_entry(id, *entry));
            note(found.count() == class.live, format!("members of class {id:?}"));
        }
    }
}

impl Demand {
    /// The demand of a number of tasks of a class that have to be placed together.
    pub(super) fn of(cluster: &Cluster, class: ClassId, count: u32) -> Self {
        let request = cluster.classes[class].request.clone();
        let mut min_request = Amounts::new();
        for (dim, amount) in request.iter() {
            min_request.set(dim, amount.saturating_mul(i64::from(count)));
        }
        // An index by the scarcer of two resources rules out more classes.
        let part = |amount: i64, total: i64| amount as f64 / total.max(1) as f64;
        let parts = request
            .iter()
            .map(|(dim, amount)| (part(amount, cluster.sums.allocatable.get(dim)), dim, amount));
        let largest = parts.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let largest_part = largest.map_or((DimId(0), 0), |(_, dim, amount)| (dim, amount));
        Self { request, min_request, largest_part }
    }
}
