//! Who may be a victim, in the order in which they would go.
//!
//! The order, first to last: the queue that gives way first (`reclaim`); lower priority; members beyond a gang's minimum,
//! then gangs that are broken anyway, then whole ones, the smallest first, for with one member all others are of no use; the
//! job that is served last; the task that is served last. A gang
//! that is broken loses tasks that plugins hold equal node by node, so that one is empty before the next.
//!
//! The order is found once per action and cycle for all of a queue that ask and are as important, as the first of them finds
//! the cluster.
use std::cmp::Ordering;
use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::mode::EvictionMode;
use super::preemptor::Preemptor;
use crate::session::Session;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Equals, Job, Refused, Status, Task};
use phalanx_framework::conf::Flag;
use phalanx_framework::plugin::{EvictionKind, Plugin};
use phalanx_plugins::GangSurplus;

/// What a job loses with a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// Nothing it needs.
    Surplus,
    /// Its gang is broken anyway.
    Broken,
    /// Its gang is broken by it.
    Whole,
}

/// A task that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) task: TaskId,
    pub(super) job: JobId,
    pub(super) node: NodeId,
    /// What it is again when it is spared.
    pub(super) status: Status,
    pub(super) loss: Loss,
}

/// Members of a job that go one after the other.
struct VictimGroup {
    job: JobId,
    loss: Loss,
    victims: Vec<Victim>,
}

impl VictimGroup {
    /// How many pods are of no use when one of these is gone.
    fn hurt(&self) -> usize {
        if self.loss == Loss::Whole { self.victims.len() } else { 0 }
    }
}

/// For whom there is an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum VictimOrderKey {
    /// One of a queue.
    Queue(QueueId),
    /// One of a queue, of this importance.
    Rank(QueueId, i32),
    /// One of the same job.
    Job(JobId),
}

/// All victims of an action.
pub(super) struct PotentialVictims {
    mode: EvictionMode,
    orders: FxHashMap<VictimOrderKey, Rc<[Victim]>>,
}

impl PotentialVictims {
    /// As the cluster is now.
    pub(super) fn new(session: &mut Session<'_>, mode: EvictionMode) -> Self {
        note_refusals(session);
        Self { mode, orders: FxHashMap::default() }
    }

    /// Those that may be evicted for an preemptor, and for others like it, in order.
    pub(super) fn order(
        &mut self,
        session: &Session<'_>,
        preemptor: &Preemptor,
        mode: EvictionMode,
    ) -> Rc<[Victim]> {
        let job = &session.cluster.jobs[preemptor.job];
        let asker = match mode {
            EvictionMode::WithinJob => VictimOrderKey::Job(preemptor.job),
            EvictionMode::Preempt | EvictionMode::GangPreempt => {
                VictimOrderKey::Rank(job.queue, job.priority)
            }
            EvictionMode::Reclaim | EvictionMode::GangReclaim => VictimOrderKey::Queue(job.queue),
        };
        if let Some(order) = self.orders.get(&asker) {
            return order.clone();
        }
        let order: Rc<[Victim]> = self.sorted(session, preemptor, mode).into();
        self.orders.insert(asker, order.clone());
        order
    }

    /// The same in no order, and cheap: those that are protected are not told from the others.
    pub(super) fn each(
        &self,
        session: &Session<'_>,
        preemptor: &Preemptor,
        mode: EvictionMode,
    ) -> Vec<(TaskId, NodeId)> {
        let cluster = &*session.cluster;
        let tasks = running_jobs(session, preemptor, mode, !preemptor.single)
            .into_iter()
            .flat_map(|job| &cluster.jobs[job].tasks);
        let place = |task: &TaskId| {
            let it = &cluster.tasks[*task];
            it.node.filter(|_| self.mode.takes(it.status)).map(|node| (*task, node))
        };
        tasks.filter_map(place).collect()
    }

    fn sorted(&self, session: &Session<'_>, preemptor: &Preemptor, mode: EvictionMode) -> Vec<Victim> {
        let by = session.cluster.jobs[preemptor.job].queue;
        let jobs = running_jobs(session, preemptor, mode, true);
        let mut parts: Vec<VictimGroup> = jobs.into_iter().flat_map(|job| self.parts(session, job)).collect();
        parts.sort_by(|a, b| compare(session, self.mode, by, a, b));
        parts.into_iter().flat_map(|part| part.victims).collect()
    }

    fn parts(&self, session: &Session<'_>, id: JobId) -> Vec<VictimGroup> {
        let cluster = &*session.cluster;
        let job = &cluster.jobs[id];
        let mut members: Vec<TaskId> =
            job.tasks.iter().copied().filter(|task| self.may_go(session, *task)).collect();
        members.sort_by(|a, b| session.task_order(*b, *a));
        let mut spare = GangSurplus::of(job);
        let broken = job.is_broken();
        let mut parts: Vec<VictimGroup> = Vec::new();
        for task in members {
            let it = &cluster.tasks[task];
            let Some(node) = it.node else { continue };
            let loss = match (broken, spare.take(it.role)) {
                (true, _) => Loss::Broken,
                (false, true) => Loss::Surplus,
                (false, false) => Loss::Whole,
            };
            let victim = Victim { task, job: id, node, status: it.status, loss };
            match parts.iter_mut().find(|part| part.loss == loss) {
                Some(part) => part.victims.push(victim),
                None => parts.push(VictimGroup { job: id, loss, victims: vec![victim] }),
            }
        }
        for part in parts.iter_mut().filter(|part| part.loss != Loss::Surplus) {
            part.victims.sort_by(|a, b| goes_first(session, a.task, b.task));
        }
        parts
    }

    /// Whether a task may be evicted, as far as that does not depend on for whom.
    pub(super) fn may_go(&self, session: &Session<'_>, id: TaskId) -> bool {
        let cluster = &*session.cluster;
        let task = &cluster.tasks[id];
        let flag = match self.mode.kind() {
            EvictionKind::Preempt => Flag::Preemptable,
            EvictionKind::Reclaim => Flag::Reclaimable,
        };
        self.mode.takes(task.status) && lets_go(session, session.tiers.with(flag), id)
    }
}

/// Jobs that may have anybody to give for an preemptor, whatever plugins say but where they rank jobs of equal priority. Nobody looks
/// at their pods for that. Of those that no plugin ranks, the ones with pods to spare may give to gangs only.
fn running_jobs(session: &Session<'_>, preemptor: &Preemptor, mode: EvictionMode, gangs: bool) -> Vec<JobId> {
    let cluster = &*session.cluster;
    let Job { queue: by, priority, .. } = cluster.jobs[preemptor.job];
    if mode == EvictionMode::WithinJob {
        return vec![preemptor.job];
    }
    if mode.kind() == EvictionKind::Preempt {
        let equals = match (session.tiers.ranks_jobs(mode.flag()), gangs) {
            (true, _) => Equals::All,
            (false, true) => Equals::Surplus,
            (false, false) => Equals::None,
        };
        return cluster
            .running_jobs_below(by, priority, equals)
            .filter(|job| *job != preemptor.job)
            .collect();
    }
    let queues = cluster.queues_with_running_jobs().filter(|from| mode.takes_from(cluster, by, *from));
    queues.flat_map(|queue| cluster.running_jobs(queue)).collect()
}

/// Whether a task may be evicted as far as it says itself, and these plugins do not protect it.
pub(crate) fn lets_go<'a>(
    session: &Session<'_>,
    mut plugins: impl Iterator<Item = &'a dyn Plugin>,
    id: TaskId,
) -> bool {
    let cluster = &*session.cluster;
    cluster.lets_itself_go(id, session.now)
        && !plugins.any(|plugin| plugin.protection().is_some_and(|part| part.protects(cluster, id)))
}

/// Dates the refusals that came since the last cycle.
pub(crate) fn note_refusals(session: &mut Session<'_>) {
    let now = session.now;
    let is_new = |(id, task): (TaskId, &Task)| (task.refused == Refused::New).then_some(id);
    let new: Vec<TaskId> = session.cluster.refused_tasks().filter_map(is_new).collect();
    for id in new {
        session.cluster.tasks[id].refused = Refused::At(now);
    }
}

fn compare(
    session: &Session<'_>,
    mode: EvictionMode,
    by: QueueId,
    a: &VictimGroup,
    b: &VictimGroup,
) -> Ordering {
    let (one, other) = (&session.cluster.jobs[a.job], &session.cluster.jobs[b.job]);
    let queues = match mode.kind() {
        EvictionKind::Reclaim if one.queue != other.queue => {
            session.victim_queue_order(by, one.queue, other.queue)
        }
        _ => Ordering::Equal,
    };
    // The actions of gangs take what nobody needs before they look at who is who.
    let spare = |part: &VictimGroup| mode.of_gangs() && part.loss != Loss::Surplus;
    spare(a)
        .cmp(&spare(b))
        .then(queues)
        .then(one.priority.cmp(&other.priority))
        .then(a.loss.cmp(&b.loss))
        .then_with(|| a.hurt().cmp(&b.hurt()))
        .then_with(|| session.job_order(b.job, a.job))
}

fn goes_first(session: &Session<'_>, a: TaskId, b: TaskId) -> Ordering {
    let cluster = &*session.cluster;
    let by_plugins = session.tiers.first(Flag::TaskOrder, |plugin| plugin.task_order(cluster, b, a));
    let node = |task: TaskId| cluster.tasks[task].node.map(|node| &cluster.nodes[node].name);
    by_plugins.then_with(|| node(a).cmp(&node(b))).then_with(|| session.task_order(b, a))
}
