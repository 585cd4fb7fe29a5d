//! Why pods are not evicted for a preemptor. This is looked at only when no victims are found, to explain that.
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::mode::EvictionMode;
use super::preemptor::Preemptor;
use super::search::{freed, keeps_reservation};
use crate::feasibility::FeasibilityBounds;
use crate::session::Session;
use phalanx_cluster::diagnosis::{NoPotentialVictims, Protected, Protection, Short};
use phalanx_cluster::id::{ClassId, JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Budgets, Cluster, Refused, Status};
use phalanx_framework::plugin::{EvictionKind, Plugin};
use phalanx_plugins::GangSurplus;

/// The most pods that are looked at, for that is done for each preemptor.
const MOST_PODS: usize = 1_000;

/// Why the pods that run are not evicted for a preemptor; where some may go together, why the others may not go
/// besides.
pub(super) fn of(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    together: &[(TaskId, NodeId)],
) -> Protected {
    let mode = preemptor.mode;
    preemptor.as_if_whole(session, |session| {
        let mut explanation = Explanation {
            session,
            preemptor,
            budgets: Budgets::new(session.cluster),
            surplus: FxHashMap::default(),
            may_break: mode.may_break(session),
            plugins: FxHashMap::default(),
            gangs: BTreeMap::new(),
            together: together.iter().map(|(task, _)| *task).collect(),
        };
        let mut protected = Protected::default();
        let mut any = false;
        for (looked, task) in running(session, mode, preemptor.job).enumerate() {
            if looked >= MOST_PODS {
                protected.some = true;
                break;
            }
            let job = session.cluster.tasks[task].job;
            let Some(job) = job.filter(|job| mode.may_evict_from_job(preemptor.job, *job)) else { continue };
            any = true;
            if let Some(why) = explanation.alone(task, job).or_else(|| explanation.besides(task, job)) {
                *protected.pods.entry(why).or_default() += 1;
            }
        }
        let gangs = explanation.gangs.iter().map(|(field, gangs)| gangs.protection(session.cluster, field));
        protected.pods.extend(gangs);
        protected.none = (!any).then(|| none(session.cluster, preemptor));
        protected
    })
}

/// What is short even if these pods went; `None` where that cannot be said.
pub(super) fn short(
    cluster: &Cluster,
    preemptor: &Preemptor,
    together: &[(TaskId, NodeId)],
    bounds: &FeasibilityBounds,
) -> Option<Short> {
    let bound = bounds.known(cluster, preemptor.demand()).filter(|_| !together.is_empty())?;
    let then = bound.with_evicted(freed(cluster, together));
    Some(Short { pods: together.len() as u32, then: then.shortfall() })
}

/// Which pods are on nodes, where none is a potential victim.
fn none(cluster: &Cluster, preemptor: &Preemptor) -> NoPotentialVictims {
    let pods = |amounts: &Amounts| amounts.get(DimId::PODS).max(0) as u32;
    let job = &cluster.jobs[preemptor.job];
    let queue = &cluster.queues[job.queue];
    let own = pods(&job.sums.allocated);
    let of_queue = pods(&queue.own.allocated);
    let ours: u32 = cluster.queues.iter().map(|(_, queue)| pods(&queue.own.allocated)).sum();
    NoPotentialVictims {
        whose: preemptor.mode.whose(),
        queue: queue.name.clone(),
        own,
        beside: of_queue.saturating_sub(own),
        elsewhere: ours.saturating_sub(of_queue),
        rest: pods(&cluster.sums.used).saturating_sub(ours),
    }
}

/// Pods that their gangs need.
#[derive(Default)]
struct NeededPods {
    pods: u32,
    jobs: BTreeSet<JobId>,
}

impl NeededPods {
    fn protection(&self, cluster: &Cluster, field: &'static str) -> (Protection, u32) {
        let of = |job: &JobId| {
            (cluster.jobs[*job].key.clone(), cluster.queues[cluster.jobs[*job].queue].name.clone())
        };
        let (first, queue) = self.jobs.iter().map(of).min().unwrap_or_default();
        let others = self.jobs.len().saturating_sub(1) as u32;
        (Protection::Minimum { field, first, queue, others }, self.pods)
    }
}

struct Explanation<'a, 'w> {
    session: &'a Session<'w>,
    preemptor: &'a Preemptor,
    /// Counted down, as if all pods went that nothing else protects.
    budgets: Budgets<'a>,
    /// The surplus of gangs, counted down in the same way.
    surplus: FxHashMap<JobId, GangSurplus>,
    may_break: bool,
    /// What plugins said about pods of a job and class.
    plugins: FxHashMap<(JobId, ClassId), Option<PluginRefusal>>,
    /// Pods that their gangs need, by the field that says so.
    gangs: BTreeMap<&'static str, NeededPods>,
    /// Pods that may go together, if that is known.
    together: FxHashSet<TaskId>,
}

/// Why plugins do not let a pod go.
#[derive(Clone)]
enum PluginRefusal {
    /// Its gang needs it.
    Gang,
    /// The words of a plugin.
    Says(Arc<str>),
}

impl Explanation<'_, '_> {
    /// Why a pod may not go, even if it alone had to.
    fn alone(&mut self, id: TaskId, job: JobId) -> Option<Protection> {
        if self.together.contains(&id) {
            return self.by_state(id, job);
        }
        let cluster = &*self.session.cluster;
        let [from, by] = [job, self.preemptor.job].map(|job| cluster.jobs[job].queue);
        let keeps = cluster.keeps_its_pods(from, by);
        if let Some(queue) = keeps.filter(|_| self.preemptor.mode.kind() == EvictionKind::Reclaim) {
            return Some(Protection::Queue(cluster.queues[queue].name.clone()));
        }
        let task = &cluster.tasks[id];
        if !cluster.permits_eviction(id, self.session.now) {
            let refused = task.refused != Refused::No && task.details.preemptable != Some(false);
            return Some(if refused { Protection::Refused } else { Protection::Preemptable });
        }
        let mut parts =
            self.session.tiers.with(self.preemptor.mode.kind().flag()).filter_map(Plugin::protection);
        if let Some(part) = parts.find(|part| part.protects(cluster, id)) {
            return Some(Protection::Plugin(part.reason()));
        }
        if self.preemptor.is_best_effort(cluster) && !cluster.classes[task.class].best_effort {
            return Some(Protection::BestEffortPreemptor);
        }
        match self.by_rank_and_plugins(id, job) {
            Break(why) => why,
            Continue(()) => self.by_state(id, job),
        }
    }

    /// Why plugins, or its priority, protect a pod; nothing where the pods of its gang are explained
    /// together.
    fn by_rank_and_plugins(&mut self, id: TaskId, job: JobId) -> ControlFlow<Option<Protection>> {
        let cluster = &*self.session.cluster;
        let task = &cluster.tasks[id];
        let rank = match self.preemptor.mode {
            EvictionMode::WithinJob => task.priority.cmp(&cluster.tasks[self.preemptor.last()].priority),
            _ => cluster.jobs[job].priority.cmp(&cluster.jobs[self.preemptor.job].priority),
        };
        let alike = rank.is_eq()
            && self.preemptor.mode.preempts_other_jobs()
            && !self.session.tiers.ranks_equal_priority(self.preemptor.eviction().flag());
        let preempts = self.preemptor.mode.kind() == EvictionKind::Preempt;
        if preempts && (rank.is_gt() || alike) {
            return Break(Some(self.by_priority()));
        }
        match self.by_plugins(id, job) {
            None => Continue(()),
            Some(_) if preempts && rank.is_eq() => Break(Some(self.by_priority())),
            Some(PluginRefusal::Says(what)) => Break(Some(Protection::Kept(what))),
            Some(PluginRefusal::Gang) => Break(self.by_gang(job, task.role)),
        }
    }

    /// Why its gang, the history or PodDisruptionBudgets protect a pod.
    fn by_state(&mut self, id: TaskId, job: JobId) -> Option<Protection> {
        let cluster = &*self.session.cluster;
        if keeps_reservation(self.session, self.preemptor.job, job) {
            return Some(Protection::Reserved);
        }
        if self.preemptor.protected.has(cluster, job) {
            return Some(Protection::History);
        }
        if !self.may_break {
            let surplus = self.surplus.entry(job).or_insert_with(|| GangSurplus::of(cluster, job));
            if !surplus.take(cluster, id) {
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

    /// Why a pod that may go may not go besides those that may go together.
    fn besides(&mut self, id: TaskId, job: JobId) -> Option<Protection> {
        let (cluster, mode) = (&*self.session.cluster, self.preemptor.mode);
        if self.together.is_empty() || self.together.contains(&id) {
            return None;
        }
        let role = cluster.tasks[id].role;
        let keeps_gangs =
            || self.session.tiers.with(self.preemptor.eviction().flag()).any(Plugin::keeps_gangs);
        if self.minimum(job, role).is_some() && keeps_gangs() {
            return self.by_gang(job, role);
        }
        if mode.kind() == EvictionKind::Preempt || !self.session.tiers.guard_queues() {
            return Some(Protection::Kept("that plugins do not release together with the others".into()));
        }
        let queue = &cluster.queues[cluster.jobs[job].queue].name;
        let what =
            format!("in queue {queue}, which has no more than it deserves without those that could go");
        Some(Protection::Kept(what.into()))
    }

    /// The minimum that a gang would fall below if one of a role went besides those that may go together.
    fn minimum(&self, id: JobId, role: u16) -> Option<&'static str> {
        let (cluster, job) = (&*self.session.cluster, &self.session.cluster.jobs[id]);
        let gone = || job.tasks.iter().filter(|task| self.together.contains(*task));
        let of_role = gone().filter(|task| cluster.tasks[**task].role == role).count() as u32;
        let its = &job.roles[usize::from(role)];
        if job.counts.ready() <= job.min_member + gone().count() as u32 {
            return Some("minMember");
        }
        (job.asks_roles() && its.counts.ready() <= its.min + of_role).then_some("minTaskMember")
    }

    /// Pods that gangs need are explained together.
    fn by_gang(&mut self, id: JobId, role: u16) -> Option<Protection> {
        let gangs = self.gangs.entry(self.minimum(id, role).unwrap_or("minMember")).or_default();
        gangs.pods += 1;
        gangs.jobs.insert(id);
        None
    }

    fn by_priority(&self) -> Protection {
        let of_jobs = self.preemptor.mode != EvictionMode::WithinJob;
        Protection::Priority(of_jobs.then(|| self.session.cluster.priority_of(self.preemptor.job)))
    }

    /// Why plugins do not let a pod go, even if it alone had to.
    fn by_plugins(&mut self, id: TaskId, job: JobId) -> Option<PluginRefusal> {
        let (session, preemptor) = (self.session, self.preemptor);
        if session.tiers.victims_are_judged_remotely() {
            return None;
        }
        let asked = self.plugins.entry((job, session.cluster.tasks[id].class));
        asked.or_insert_with(|| plugin_refusal(session, preemptor, id)).clone()
    }
}

/// By the first plugin that does not let a pod go, those that guard queues before others.
fn plugin_refusal(session: &Session<'_>, preemptor: &Preemptor, id: TaskId) -> Option<PluginRefusal> {
    let (cluster, eviction) = (&*session.cluster, preemptor.eviction());
    if session.tiers.any_victims(cluster, eviction, &[id]) {
        return None;
    }
    let refuses = |plugin: &&dyn Plugin| {
        plugin.evictable(cluster, eviction, &[id]).is_some_and(|picked| picked.is_empty())
    };
    let refusing = session.tiers.with(eviction.flag()).filter(refuses);
    Some(match refusing.min_by_key(|plugin| plugin.queue_guard().is_none()) {
        Some(plugin) if plugin.keeps_gangs() => PluginRefusal::Gang,
        Some(plugin) => PluginRefusal::Says(plugin.keep_reason(cluster, eviction.by, id)),
        None => PluginRefusal::Says("that plugins protect from it".into()),
    })
}

/// Pods that run in queues that the mode may evict from, whatever protects them.
fn running<'a>(session: &'a Session<'_>, mode: EvictionMode, by: JobId) -> impl Iterator<Item = TaskId> + 'a {
    let cluster = &*session.cluster;
    let (preempts, by) = (mode.kind() == EvictionKind::Preempt, cluster.jobs[by].queue);
    let queues = cluster.queues_with_running_jobs().filter(move |queue: &QueueId| preempts == (*queue == by));
    let jobs = queues.flat_map(|queue| cluster.running_jobs(queue));
    let runs = |task: &TaskId| matches!(cluster.tasks[*task].status, Status::Running | Status::Bound);
    jobs.flat_map(|job| cluster.jobs[job].tasks.iter().copied()).filter(runs)
}
