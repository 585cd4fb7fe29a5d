//! Potential victims, in the order in which they are evicted.
//!
//! The order, first to last: the queue that gives way first (`reclaim`); lower priority; surplus, then gangs that are
//! broken anyway, then whole gangs, the smallest first, for without one member all others are of no use; the job that
//! is served last; the task that is served last. The `gang…` actions take surplus before they look at queue and
//! priority. A gang that is broken loses tasks that plugins hold equal node by
//! node, so that one node is empty before the next.
//!
//! The order is found once per action and cycle for all preemptors of a queue and priority, as the first of them finds
//! the cluster.
use std::cmp::Ordering;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::mode::EvictionMode;
use super::preemptor::Preemptor;
use crate::session::Session;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{EqualPriority, Job, Refused, Status, Task};
use phalanx_framework::conf::Flag;
use phalanx_framework::plugin::{EvictionKind, Plugin};
use phalanx_plugins::GangSurplus;

/// What a job loses with a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// A member beyond the minimum of its gang.
    Surplus,
    /// A member of a gang that is below its minimum already.
    Broken,
    /// A member without which its gang is below its minimum.
    BreaksGang,
}

/// A task that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) task: TaskId,
    pub(super) job: JobId,
    pub(super) node: NodeId,
    /// Its status before, which a reprieve restores.
    pub(super) status: Status,
    pub(super) loss: Loss,
}

/// Tasks of a job that are evicted one after the other.
struct JobPart {
    job: JobId,
    loss: Loss,
    victims: Vec<Victim>,
}

impl JobPart {
    /// How many pods are of no use once one of these is evicted.
    fn pods_made_useless(&self) -> usize {
        if self.loss == Loss::BreaksGang { self.victims.len() } else { 0 }
    }
}

/// Preemptors that share an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Preemptors {
    /// Preemptors of one queue.
    Queue(QueueId),
    /// Preemptors of one queue and priority.
    Rank(QueueId, i32),
    /// Preemptors of one job.
    Job(JobId),
}

/// The potential victims of an action.
#[derive(Default)]
pub(super) struct PotentialVictims {
    orders: FxHashMap<Preemptors, Rc<[Victim]>>,
}

impl PotentialVictims {
    /// The potential victims for a preemptor, in order.
    pub(super) fn order(&mut self, session: &Session<'_>, preemptor: &Preemptor) -> Rc<[Victim]> {
        let job = &session.cluster.jobs[preemptor.job];
        let preemptors = match preemptor.mode {
            EvictionMode::WithinJob => Preemptors::Job(preemptor.job),
            EvictionMode::Preempt | EvictionMode::GangPreempt => Preemptors::Rank(job.queue, job.priority),
            EvictionMode::Reclaim | EvictionMode::GangReclaim => Preemptors::Queue(job.queue),
        };
        if let Some(order) = self.orders.get(&preemptors) {
            return order.clone();
        }
        let order: Rc<[Victim]> = sorted(session, preemptor).into();
        self.orders.insert(preemptors, order.clone());
        order
    }
}

/// Tasks that may be potential victims, in no order and with protected tasks among them: a cheap superset.
pub(super) fn each(session: &Session<'_>, preemptor: &Preemptor) -> Vec<(TaskId, NodeId)> {
    let cluster = &*session.cluster;
    let gives = if preemptor.grows { EqualPriority::None } else { EqualPriority::WithSurplus };
    let tasks = jobs_with_potential_victims(session, preemptor, gives)
        .into_iter()
        .flat_map(|job| &cluster.jobs[job].tasks);
    let place = |task: &TaskId| {
        let it = &cluster.tasks[*task];
        it.node.filter(|_| preemptor.mode.may_evict_status(it.status)).map(|node| (*task, node))
    };
    tasks.filter_map(place).collect()
}

fn sorted(session: &Session<'_>, preemptor: &Preemptor) -> Vec<Victim> {
    let (mode, by) = (preemptor.mode, session.cluster.jobs[preemptor.job].queue);
    let jobs = jobs_with_potential_victims(session, preemptor, EqualPriority::WithSurplus);
    let mut parts: Vec<JobPart> = jobs.into_iter().flat_map(|job| parts(session, mode, job)).collect();
    parts.sort_by(|a, b| compare(session, mode, by, a, b));
    parts.into_iter().flat_map(|part| part.victims).collect()
}

fn parts(session: &Session<'_>, mode: EvictionMode, id: JobId) -> Vec<JobPart> {
    let cluster = &*session.cluster;
    let job = &cluster.jobs[id];
    let mut members: Vec<TaskId> =
        job.tasks.iter().copied().filter(|task| may_go(session, mode, *task)).collect();
    members.sort_by(|a, b| session.task_order(*b, *a));
    let mut surplus = GangSurplus::of(cluster, id);
    let broken = job.is_broken();
    let mut parts: Vec<JobPart> = Vec::new();
    for task in members {
        let it = &cluster.tasks[task];
        let Some(node) = it.node else { continue };
        let loss = match (broken, surplus.take(cluster, task)) {
            (true, _) => Loss::Broken,
            (false, true) => Loss::Surplus,
            (false, false) => Loss::BreaksGang,
        };
        let victim = Victim { task, job: id, node, status: it.status, loss };
        match parts.iter_mut().find(|part| part.loss == loss) {
            Some(part) => part.victims.push(victim),
            None => parts.push(JobPart { job: id, loss, victims: vec![victim] }),
        }
    }
    for part in parts.iter_mut().filter(|part| part.loss != Loss::Surplus) {
        part.victims.sort_by(|a, b| goes_first(session, a.task, b.task));
    }
    parts
}

/// Whether a task may be evicted, whoever the preemptor is.
pub(super) fn may_go(session: &Session<'_>, mode: EvictionMode, id: TaskId) -> bool {
    let cluster = &*session.cluster;
    let task = &cluster.tasks[id];
    mode.may_evict_status(task.status) && lets_go(session, session.tiers.with(mode.kind().flag()), id)
}

/// Jobs that may have potential victims for a preemptor, found without a look at their pods. Of jobs of equal priority
/// that no plugin ranks, only those with surplus count, and for gangs only.
fn jobs_with_potential_victims(
    session: &Session<'_>,
    preemptor: &Preemptor,
    of_equals: EqualPriority,
) -> Vec<JobId> {
    let (cluster, mode) = (&*session.cluster, preemptor.mode);
    let Job { queue: by, priority, .. } = cluster.jobs[preemptor.job];
    if mode == EvictionMode::WithinJob {
        return vec![preemptor.job];
    }
    if mode.kind() == EvictionKind::Preempt {
        let ranked = session.tiers.ranks_equal_priority(preemptor.eviction().flag());
        return cluster
            .running_jobs_below(by, priority, if ranked { EqualPriority::All } else { of_equals })
            .filter(|job| *job != preemptor.job)
            .collect();
    }
    let queues =
        cluster.queues_with_running_jobs().filter(|from| mode.may_evict_from_queue(cluster, by, *from));
    queues.flat_map(|queue| cluster.running_jobs(queue)).collect()
}

/// Whether the pod permits its eviction, and none of these plugins protects it.
pub(crate) fn lets_go<'a>(
    session: &Session<'_>,
    mut plugins: impl Iterator<Item = &'a dyn Plugin>,
    id: TaskId,
) -> bool {
    let cluster = &*session.cluster;
    cluster.permits_eviction(id, session.now)
        && !plugins.any(|plugin| plugin.protection().is_some_and(|part| part.protects(cluster, id)))
}

/// Dates evictions that the API server refused since the last cycle.
pub(crate) fn note_refusals(session: &mut Session<'_>) {
    let now = session.now;
    let is_new = |(id, task): (TaskId, &Task)| (task.refused == Refused::New).then_some(id);
    let new: Vec<TaskId> = session.cluster.refused_tasks().filter_map(is_new).collect();
    for id in new {
        session.cluster.tasks[id].refused = Refused::At(now);
    }
}

fn compare(session: &Session<'_>, mode: EvictionMode, by: QueueId, a: &JobPart, b: &JobPart) -> Ordering {
    let (one, other) = (&session.cluster.jobs[a.job], &session.cluster.jobs[b.job]);
    let queues = match mode.kind() {
        EvictionKind::Reclaim if one.queue != other.queue => {
            session.victim_queue_order(by, one.queue, other.queue)
        }
        _ => Ordering::Equal,
    };
    // The actions of gangs take surplus first, whatever its queue and priority.
    let is_needed = |part: &JobPart| mode.evicts_whole_gangs() && part.loss != Loss::Surplus;
    is_needed(a)
        .cmp(&is_needed(b))
        .then(queues)
        .then(one.priority.cmp(&other.priority))
        .then(a.loss.cmp(&b.loss))
        .then_with(|| a.pods_made_useless().cmp(&b.pods_made_useless()))
        .then_with(|| session.job_order(b.job, a.job))
}

fn goes_first(session: &Session<'_>, a: TaskId, b: TaskId) -> Ordering {
    let cluster = &*session.cluster;
    let by_plugins = session.tiers.first(Flag::TaskOrder, |plugin| plugin.task_order(cluster, b, a));
    let node = |task: TaskId| cluster.tasks[task].node.map(|node| &cluster.nodes[node].name);
    by_plugins.then_with(|| node(a).cmp(&node(b))).then_with(|| session.task_order(b, a))
}
