//! What keeps pods from being evicted for an preemptor: looked at only when nobody is, to be told.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_resource::DimId;
use rustc_hash::{FxHashMap, FxHashSet};

use super::feasibility::FeasibilityBounds;
use super::history::{JobIdentity, ProtectedJobs};
use super::mode::EvictionMode;
use super::plan::{asks_others, keeps_reservation};
use super::preemptor::Preemptor;
use crate::session::Session;
use phalanx_cluster::diagnosis::{Nobody, Protected, Protection, Short};
use phalanx_cluster::id::{ClassId, JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Budgets, Cluster, Refused, Status};
use phalanx_framework::conf::Flag;
use phalanx_framework::plugin::{EvictionKind, Plugin};
use phalanx_plugins::GangSurplus;

/// So many pods are looked at, for it is done anew for each preemptor and each cycle.
const MOST: usize = 1_000;

/// Why the pods that run are not evicted for an preemptor; where some may go together, why the others may not besides.
pub(super) fn of(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    mode: EvictionMode,
    together: &[(TaskId, NodeId)],
) -> Protected {
    let by = session.cluster.jobs[preemptor.job].queue;
    preemptor.as_if_whole(session, |session| {
        let mut search = Search {
            session,
            preemptor,
            mode,
            budgets: Budgets::new(session.cluster),
            spare: FxHashMap::default(),
            may_break: mode.may_break(session),
            protected: session.past.history.protected(&JobIdentity::of(session.cluster, preemptor.job)),
            asked: FxHashMap::default(),
            gangs: BTreeMap::new(),
            together: together.iter().map(|(task, _)| *task).collect(),
            lacking: FxHashMap::default(),
        };
        let mut told = Protected::default();
        let mut anybody = false;
        for (looked, task) in any(session, mode, by).enumerate() {
            if looked >= MOST {
                told.some = true;
                break;
            }
            if session.cluster.tasks[task].job.is_some_and(|job| mode.takes_from_job(preemptor.job, job)) {
                anybody = true;
            }
            if let Some(shelter) = search.shelter(task).or_else(|| search.besides(task)) {
                *told.pods.entry(shelter).or_default() += 1;
            }
        }
        told.pods.extend(search.gangs.iter().map(|(field, gangs)| gangs.shelter(session.cluster, field)));
        told.nobody = (!anybody).then(|| nobody(session.cluster, preemptor, mode));
        told
    })
}

/// What it would come to if these went, who may; `None` where that is for others to say.
pub(super) fn short(
    cluster: &Cluster,
    preemptor: &Preemptor,
    together: &[(TaskId, NodeId)],
    bounds: &FeasibilityBounds,
) -> Option<Short> {
    let today = bounds.known(cluster, preemptor).filter(|_| !together.is_empty())?;
    let then = today.without(together.iter().map(|(task, node)| (*node, cluster.request_of(*task))));
    Some(Short { pods: together.len() as u32, then: then.shortfall() })
}

/// Which pods are on nodes.
fn nobody(cluster: &Cluster, preemptor: &Preemptor, mode: EvictionMode) -> Nobody {
    let pods = |amounts: &phalanx_resource::Amounts| amounts.get(DimId::PODS).max(0) as u32;
    let job = &cluster.jobs[preemptor.job];
    let queue = &cluster.queues[job.queue];
    let own = pods(&job.allocated);
    let of_queue = pods(&queue.own.allocated);
    let ours: u32 = cluster.queues.iter().map(|(_, queue)| pods(&queue.own.allocated)).sum();
    Nobody {
        whose: mode.whose(),
        queue: queue.name.clone(),
        own,
        beside: of_queue.saturating_sub(own),
        elsewhere: ours.saturating_sub(of_queue),
        rest: pods(&cluster.used).saturating_sub(ours),
    }
}

/// Pods that their gangs need.
#[derive(Default)]
struct Gangs {
    pods: u32,
    jobs: BTreeSet<JobId>,
}

impl Gangs {
    fn shelter(&self, cluster: &Cluster, field: &'static str) -> (Protection, u32) {
        let of = |job: &JobId| {
            (cluster.jobs[*job].key.clone(), cluster.queues[cluster.jobs[*job].queue].name.clone())
        };
        let (first, queue) = self.jobs.iter().map(of).min().unwrap_or_default();
        let others = self.jobs.len().saturating_sub(1) as u32;
        (Protection::Minimum { field, first, queue, others }, self.pods)
    }
}

struct Search<'a, 'w> {
    session: &'a Session<'w>,
    preemptor: &'a Preemptor,
    mode: EvictionMode,
    /// Counted down, as if those that nothing else protects went.
    budgets: Budgets<'a>,
    /// What gangs can do without, counted down in the same way.
    spare: FxHashMap<JobId, GangSurplus>,
    may_break: bool,
    protected: ProtectedJobs,
    /// What plugins said about pods of a job and class.
    asked: FxHashMap<(Option<JobId>, ClassId), Option<Kept>>,
    /// Those that their gangs need, by the field that says so.
    gangs: BTreeMap<&'static str, Gangs>,
    /// Those that may go together, if that is known.
    together: FxHashSet<TaskId>,
    /// The minimums that gangs would miss besides those, by role.
    lacking: FxHashMap<(JobId, u16), Option<&'static str>>,
}

/// What plugins say that do not let a pod go.
#[derive(Clone)]
enum Kept {
    /// Its gang needs it.
    Gang,
    /// Their words.
    Otherwise(Arc<str>),
}

impl Search<'_, '_> {
    fn shelter(&mut self, task: TaskId) -> Option<Protection> {
        let cluster = &*self.session.cluster;
        let job = cluster.tasks[task].job?;
        if !self.mode.takes_from_job(self.preemptor.job, job) {
            return None;
        }
        let [from, by] = [job, self.preemptor.job].map(|job| cluster.jobs[job].queue);
        let keeps = cluster.keeps_its_pods(from, by);
        if let Some(queue) = keeps.filter(|_| self.mode.kind() == EvictionKind::Reclaim) {
            return Some(Protection::Queue(cluster.queues[queue].name.clone()));
        }
        self.own(task).or_else(|| self.by_others(task, job))
    }

    /// Whoever asks.
    fn own(&self, id: TaskId) -> Option<Protection> {
        let cluster = &*self.session.cluster;
        let task = &cluster.tasks[id];
        if !cluster.lets_itself_go(id, self.session.now) {
            let refused = task.refused != Refused::No && task.preemptable != Some(false);
            return Some(if refused { Protection::Refused } else { Protection::Preemptable });
        }
        let flag = match self.mode.kind() {
            EvictionKind::Preempt => Flag::Preemptable,
            EvictionKind::Reclaim => Flag::Reclaimable,
        };
        let mut parts = self.session.tiers.with(flag).filter_map(Plugin::protection);
        parts.find(|part| part.protects(cluster, id)).map(|part| Protection::Plugin(part.reason()))
    }

    /// From this job.
    fn by_others(&mut self, id: TaskId, job: JobId) -> Option<Protection> {
        let cluster = &*self.session.cluster;
        let (task, last) = (&cluster.tasks[id], &cluster.tasks[self.preemptor.last()]);
        if self.preemptor.is_idle(cluster) && !cluster.classes[task.class].best_effort {
            return Some(Protection::Idle);
        }
        let rank = match self.mode {
            EvictionMode::WithinJob => task.priority.cmp(&last.priority),
            _ => cluster.jobs[job].priority.cmp(&cluster.jobs[self.preemptor.job].priority),
        };
        let matters = self.mode.kind() == EvictionKind::Preempt;
        if matters && rank.is_gt() {
            return Some(self.by_priority());
        }
        let alike =
            rank.is_eq() && self.mode.is_of_jobs() && !self.session.tiers.ranks_jobs(self.mode.flag());
        let kept = if alike { None } else { self.kept(id) };
        if matters && rank.is_eq() && (alike || kept.is_some()) {
            return Some(self.by_priority());
        }
        match kept {
            Some(Kept::Otherwise(what)) => return Some(Protection::Kept(what)),
            Some(Kept::Gang) => return self.by_gang(job, task.role),
            None => {}
        }
        if keeps_reservation(self.session, self.preemptor.job, job) {
            return Some(Protection::Reserved);
        }
        if self.protected.has(cluster, job) {
            return Some(Protection::Takes);
        }
        if !self.may_break {
            let spare = self.spare.entry(job).or_insert_with(|| GangSurplus::of(&cluster.jobs[job]));
            if !spare.take(task.role) {
                return Some(Protection::Whole);
            }
        }
        if self.budgets.take(id) {
            return None;
        }
        let mut budgets = cluster.pdbs_of(id).map(|(key, _)| key);
        match (budgets.next(), budgets.next()) {
            (Some(only), None) => Some(Protection::Budget(only.clone())),
            _ => Some(Protection::Budgets),
        }
    }

    /// Why one that may go may not besides those that do.
    fn besides(&mut self, id: TaskId) -> Option<Protection> {
        let (cluster, mode) = (&*self.session.cluster, self.mode);
        let job = cluster.tasks[id].job.filter(|job| mode.takes_from_job(self.preemptor.job, *job))?;
        if self.together.is_empty() || self.together.contains(&id) {
            return None;
        }
        let keeps_gangs = || self.session.tiers.with(mode.flag()).any(Plugin::keeps_gangs);
        if self.lacking(job, cluster.tasks[id].role).is_some() && keeps_gangs() {
            return self.by_gang(job, cluster.tasks[id].role);
        }
        if mode.kind() == EvictionKind::Preempt || !self.session.tiers.guard_queues() {
            return Some(Protection::Kept("that may not go besides those".into()));
        }
        let queue = &cluster.queues[cluster.jobs[job].queue].name;
        let what =
            format!("in queue {queue}, which has no more than it deserves without those that could go");
        Some(Protection::Kept(what.into()))
    }

    /// The minimum that a gang would miss if one of a role went besides those that may.
    fn lacking(&mut self, id: JobId, role: u16) -> Option<&'static str> {
        let (cluster, together) = (&*self.session.cluster, &self.together);
        *self.lacking.entry((id, role)).or_insert_with(|| {
            let job = &cluster.jobs[id];
            let gone = job
                .tasks
                .iter()
                .filter(|task| together.contains(*task))
                .map(|task| cluster.tasks[*task].role);
            let (all, of_role) = gone.fold((0, 0), |(all, same), of| (all + 1, same + u32::from(of == role)));
            let its = &job.roles[usize::from(role)];
            if job.counts.ready() <= job.min_member + all {
                return Some("minMember");
            }
            (job.asks_roles() && its.counts.ready() <= its.min + of_role).then_some("minTaskMember")
        })
    }

    /// Those that gangs need are told together.
    fn by_gang(&mut self, id: JobId, role: u16) -> Option<Protection> {
        let field = self.lacking(id, role).unwrap_or("minMember");
        let gangs = self.gangs.entry(field).or_default();
        gangs.pods += 1;
        gangs.jobs.insert(id);
        None
    }

    fn by_priority(&self) -> Protection {
        let of_jobs = !matches!(self.mode, EvictionMode::WithinJob);
        Protection::Priority(of_jobs.then(|| self.session.cluster.priority_of(self.preemptor.job)))
    }

    /// Why plugins do not let a pod go, even if nobody else had to.
    fn kept(&mut self, id: TaskId) -> Option<Kept> {
        let (session, preemptor, mode) = (self.session, self.preemptor, self.mode);
        if asks_others(session) {
            return None;
        }
        let task = &session.cluster.tasks[id];
        let asked = self.asked.entry((task.job, task.class));
        asked.or_insert_with(|| kept(session, (preemptor.last(), id), mode)).clone()
    }
}

/// The same: by the first plugin that does not, those that guard queues before others.
fn kept(session: &Session<'_>, (by, id): (TaskId, TaskId), mode: EvictionMode) -> Option<Kept> {
    let cluster = &*session.cluster;
    let ask = |plugin: &dyn Plugin, of: &[TaskId]| mode.ask(plugin, cluster, by, of);
    if session.tiers.any_victims(mode.flag(), &[id], ask) {
        return None;
    }
    let refuses = |plugin: &&dyn Plugin| ask(*plugin, &[id]).is_some_and(|picked| picked.is_empty());
    let mut refusing = session.tiers.with(mode.flag()).filter(refuses).collect::<Vec<_>>();
    refusing.sort_by_key(|plugin| plugin.queue_guard().is_none());
    Some(match refusing.first() {
        Some(plugin) if plugin.keeps_gangs() => Kept::Gang,
        Some(plugin) => Kept::Otherwise(plugin.keep_reason(cluster, by, id)),
        None => Kept::Otherwise("that no plugin lets go for it".into()),
    })
}

/// Pods that run and could be asked for, those that are protected too, and those that only their queue keeps.
fn any<'a>(session: &'a Session<'_>, mode: EvictionMode, by: QueueId) -> impl Iterator<Item = TaskId> + 'a {
    let cluster = &*session.cluster;
    let preempts = mode.kind() == EvictionKind::Preempt;
    let queues = cluster.giving_queues().filter(move |queue| preempts == (*queue == by));
    let jobs = queues.flat_map(|queue| cluster.givers(queue));
    let runs = |task: &TaskId| matches!(cluster.tasks[*task].status, Status::Running | Status::Bound);
    jobs.flat_map(|job| cluster.jobs[job].tasks.iter().copied()).filter(runs)
}
