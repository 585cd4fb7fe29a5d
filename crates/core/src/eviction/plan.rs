//! The search for victims that are allowed and help.
mod ordered;
mod per_domain;
mod per_node;
mod surplus;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::dry_run::{self, Unit, dry_run, units};
use super::feasibility::{FeasibilityBound, FeasibilityBounds};
use super::history::ProtectedJobs;
use super::mode::EvictionMode;
use super::potential_victims::{Loss, PotentialVictims, Victim};
use super::preemptor::Preemptor;
use super::steps::Steps;
use crate::actions::gang;
use crate::actions::hold;
use crate::actions::together::Choice;
use crate::decision::Cause;
use crate::session::Session;
use phalanx_cluster::diagnosis::{NoEviction, Untried};
use phalanx_cluster::id::{ClassId, JobId, NodeId, TaskId, TermId};
use phalanx_cluster::{Budgets, Cluster, Status};
use phalanx_framework::plugin::{EvictionKind, Plugin};
use surplus::Pass;

/// Evicts for an preemptor, if that helps. All is as it was where it does not.
pub(super) fn evict_for(
    session: &mut Session<'_>,
    (preemptor, mode, protected): (&Preemptor, EvictionMode, &ProtectedJobs),
    potential_victims: &mut PotentialVictims,
    (steps, bounds): (&mut Steps, &mut FeasibilityBounds),
) -> Result<(), NoEviction> {
    steps.begin();
    bounds.with_today(session, preemptor, steps, |session, today, steps| {
        evict_in(session, (preemptor, mode, protected), potential_victims, (today, steps))
    })
}

/// The same with rooms as they are with nobody evicted.
fn evict_in(
    session: &mut Session<'_>,
    (preemptor, mode, protected): (&Preemptor, EvictionMode, &ProtectedJobs),
    potential_victims: &mut PotentialVictims,
    (today, steps): (&mut FeasibilityBound, &mut Steps),
) -> Result<(), NoEviction> {
    let all = potential_victims.each(session, preemptor, mode);
    steps.scan(all.len())?;
    if all.is_empty() && !today.may_do() {
        return Err(NoEviction::NoVictims(Arc::default()));
    }
    let empty = today.without(all.iter().map(|(task, node)| (*node, session.cluster.request_of(*task))));
    if !empty.may_do() {
        return Err(NoEviction::NotEnough(Arc::default()));
    }
    if !today.may_do() && !anybody(session, preemptor, mode, &all) {
        return Err(NoEviction::NoVictims(Arc::default()));
    }
    let mut alone: Option<FxHashSet<TaskId>> = None;
    if !asks_others(session) {
        steps.scan(4 * all.len())?;
        let count = all.len();
        let goes = each_alone(session, preemptor, mode, potential_victims, all);
        let emptier =
            today.without(goes.iter().map(|(task, node)| (*node, session.cluster.request_of(*task))));
        if !emptier.may_do() {
            return Err(if goes.is_empty() {
                NoEviction::NoVictims(Arc::default())
            } else {
                NoEviction::NotEnough(Arc::default())
            });
        }
        if goes.len() < count {
            alone = Some(goes.into_iter().map(|(task, _)| task).collect());
        }
    }
    let order = potential_victims.order(session, preemptor, mode);
    steps.scan(4 * order.len())?;
    let may_break = mode.may_break(session);
    let is_offered = |victim: &&Victim| {
        alone.as_ref().is_none_or(|alone| alone.contains(&victim.task))
            && is_offered(session, preemptor, mode, victim)
            && (may_break || dry_run::can_spare(session.cluster, victim.job, &[**victim]))
            && !protected.has(session.cluster, victim.job)
    };
    let offered: Vec<Victim> = order.iter().filter(is_offered).copied().collect();
    let why = Arc::new(mode.cause(session, preemptor.job));
    let (pass, tier) = (Pass::Last, 0);
    let mut search = Search { session, preemptor, mode, today, steps, why, pass, offered, tier };
    search.run(&empty)
}

/// Whether plugins let anybody go at all. That is asked before victims are put in order, for mostly nobody may.
fn anybody(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    mode: EvictionMode,
    all: &[(TaskId, NodeId)],
) -> bool {
    let all: Vec<TaskId> = all.iter().map(|(task, _)| *task).collect();
    preemptor.as_if_whole(session, |session| {
        let ask =
            |plugin: &dyn Plugin, of: &[TaskId]| mode.ask(plugin, session.cluster, preemptor.last(), of);
        session.tiers.any_victims(mode.flag(), &all, ask)
    })
}

/// Whether each question about victims goes to another process: then few are asked, about many at once.
pub(super) fn asks_others(session: &Session<'_>) -> bool {
    session.tiers.victims_are_judged_remotely()
}

/// Those whom plugins let go if nobody else had to: whom they do not let go alone they do not let go with others. That too
/// is asked before victims are put in order, which takes the longest where there are many.
fn each_alone(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    mode: EvictionMode,
    potential_victims: &PotentialVictims,
    all: Vec<(TaskId, NodeId)>,
) -> Vec<(TaskId, NodeId)> {
    preemptor.as_if_whole(session, |session| {
        let ask =
            |plugin: &dyn Plugin, of: &[TaskId]| mode.ask(plugin, session.cluster, preemptor.last(), of);
        let goes = |task: TaskId| session.tiers.any_victims(mode.flag(), &[task], ask);
        all.into_iter().filter(|(task, _)| potential_victims.may_go(session, *task) && goes(*task)).collect()
    })
}

/// Those that plugins and PodDisruptionBudgets let go together, in no order of importance; nobody where each question goes to
/// another process.
pub(super) fn together(
    session: &mut Session<'_>,
    preemptor: &Preemptor,
    mode: EvictionMode,
    potential_victims: &PotentialVictims,
) -> Vec<(TaskId, NodeId)> {
    if asks_others(session) {
        return Vec::new();
    }
    let all = potential_victims.each(session, preemptor, mode);
    let ids = all.into_iter().map(|(task, _)| task);
    let mut ids: Vec<TaskId> = ids.filter(|task| potential_victims.may_go(session, *task)).collect();
    if !mode.may_break(session) {
        ids = phalanx_plugins::within_surplus(session.cluster, &ids);
    }
    let picked = preemptor.as_if_whole(session, |session| {
        let ask =
            |plugin: &dyn Plugin, of: &[TaskId]| mode.ask(plugin, session.cluster, preemptor.last(), of);
        session.tiers.intersect(mode.flag(), None, &ids, ask)
    });
    let picked = picked.map(|picked| picked.victims).unwrap_or_default();
    let mut budgets = Budgets::new(session.cluster);
    let goes = picked.into_iter().filter(|task| budgets.take(*task));
    goes.filter_map(|task| Some((task, session.cluster.tasks[task].node?))).collect()
}

/// Whether a running pod of a job is protected because the job has a reservation: without the pod, victims that the job already
/// preempted would have been evicted in vain. A preemptor that outranks the job in its queue may evict it.
pub(super) fn keeps_reservation(session: &Session<'_>, preemptor: JobId, job: JobId) -> bool {
    let nominated = session.cluster.jobs[job].counts.of(Status::Pipelined) > 0;
    nominated && job != preemptor && hold::is_reserved(session, job) && !session.outranks(preemptor, job)
}

/// Whether a victim is still one, and one for this preemptor.
fn is_offered(session: &Session<'_>, preemptor: &Preemptor, mode: EvictionMode, victim: &Victim) -> bool {
    let cluster = &*session.cluster;
    // What asks for nothing may not push out what asks for something.
    let idle = |task: TaskId| cluster.class_of(task).best_effort;
    // Nor what is less important what is more, whatever plugins say: allocate would serve that first again.
    let lesser = match mode {
        EvictionMode::WithinJob => {
            cluster.tasks[victim.task].priority < cluster.tasks[preemptor.last()].priority
        }
        EvictionMode::Preempt | EvictionMode::GangPreempt => {
            cluster.jobs[victim.job].priority <= cluster.jobs[preemptor.job].priority
        }
        // Where no plugin says what queues may keep, the order of queues does, which does not turn round: what a gang can do
        // without goes for any that starts, and a gang that grows breaks none.
        EvictionMode::Reclaim | EvictionMode::GangReclaim => {
            let queues = [preemptor.job, victim.job].map(|job| cluster.jobs[job].queue);
            let (spare, behind) =
                (victim.loss == Loss::Surplus, session.queue_order(queues[0], queues[1]).is_lt());
            session.tiers.guard_queues() || if preemptor.single { spare && behind } else { spare || behind }
        }
    };
    cluster.tasks[victim.task].status == victim.status
        && mode.takes_from_job(preemptor.job, victim.job)
        && !keeps_reservation(session, preemptor.job, victim.job)
        && (idle(victim.task) || !preemptor.is_idle(cluster))
        && lesser
}

/// Those of less important jobs, and of equally important ones those whom a plugin ranks behind. What a gang can do without
/// goes for another that would be whole by it, for that never turns round.
fn outranked(
    session: &Session<'_>,
    preemptor: &Preemptor,
    mode: EvictionMode,
    offered: &[Victim],
    (tier, mut picked): (usize, Vec<TaskId>),
) -> (usize, Vec<TaskId>) {
    let cluster = &*session.cluster;
    let priority = |job: JobId| cluster.jobs[job].priority;
    let is_equal = |victim: &&Victim| {
        let spare = victim.loss == Loss::Surplus && !preemptor.single;
        priority(victim.job) == priority(preemptor.job) && !spare
    };
    if !mode.is_of_jobs() || !offered.iter().any(|victim| is_equal(&victim)) {
        return (tier, picked);
    }
    let Some(plugins) = session.tiers.ranking(mode.flag(), tier) else { return (tier, picked) };
    let equal: FxHashSet<TaskId> = offered.iter().filter(is_equal).map(|victim| victim.task).collect();
    let asked: Vec<TaskId> = picked.iter().copied().filter(|task| equal.contains(task)).collect();
    let behind = |plugin: &dyn Plugin| mode.ask(plugin, cluster, preemptor.last(), &asked);
    let behind: FxHashSet<TaskId> = plugins.into_iter().filter_map(behind).flatten().collect();
    picked.retain(|task| !equal.contains(task) || behind.contains(task));
    (tier, picked)
}

struct Search<'a, 'w> {
    session: &'a mut Session<'w>,
    preemptor: &'a Preemptor,
    mode: EvictionMode,
    /// Rooms with nobody evicted.
    today: &'a mut FeasibilityBound,
    steps: &'a mut Steps,
    why: Arc<Cause>,
    pass: Pass,
    /// In the order of importance.
    offered: Vec<Victim>,
    /// Whose plugins decide.
    tier: usize,
}

impl Search<'_, '_> {
    /// Evicts of what is offered; what gangs can do without alone, rather than break one.
    fn run(&mut self, empty: &FeasibilityBound) -> Result<(), NoEviction> {
        // Room may have come since allocate looked.
        if self.today.may_do() && self.dry_run(&[])? {
            return Ok(());
        }
        let offered = &self.within_budgets();
        let Some((tier, all)) = self.allowed(offered, None) else {
            return Err(NoEviction::NoVictims(Arc::default()));
        };
        (self.offered, self.tier) = (offered.clone(), tier);
        match self.surplus_of(offered)? {
            Some((spare, emptier)) => self.surplus_first((offered, empty), (&spare, &emptier), (tier, all)),
            None => self.find(offered, empty, (tier, all)),
        }
    }

    /// Tries what is offered in the order of importance, then node by node, then every set of a few. Those that may go
    /// together are given, with the tier that says so.
    fn find(
        &mut self,
        offered: &[Victim],
        empty: &FeasibilityBound,
        (tier, all): (usize, Vec<Victim>),
    ) -> Result<(), NoEviction> {
        let useful = self.useful(offered, empty);
        if self.best_node(&useful, tier)? {
            return Ok(());
        }
        if useful.len() < offered.len() {
            let (_, allowed) = self.allowed(&useful, Some(tier)).unwrap_or_default();
            if self.try_list(&allowed)? {
                return Ok(());
            }
        }
        if self.try_list(&all)? {
            return Ok(());
        }
        let limited = self.units(&all).iter().map(Unit::len).sum::<usize>() < offered.len();
        let cluster = &*self.session.cluster;
        let seeks = self.preemptor.seeks(cluster);
        let some_only = limited
            && (self.per_node(&useful, tier)?
                || self.per_domain(&useful, tier)?
                || self.by_turns(&useful, tier)?);
        if some_only || self.with_company(offered, tier)? {
            return Ok(());
        }
        let mut untried = false;
        if limited || seeks {
            match self.every_set(if offered.len() <= ordered::FEW { offered } else { &useful }, tier)? {
                Some(true) => return Ok(()),
                found => untried = found.is_none() || offered.len() > ordered::FEW || self.order_matters(),
            }
        }
        Err(if untried {
            NoEviction::NotFound(Untried::Sets, Arc::default())
        } else if self.steps.gave_up() {
            NoEviction::NotFound(Untried::Ways, Arc::default())
        } else {
            NoEviction::NotEnough(Arc::default())
        })
    }

    /// Those that PodDisruptionBudgets let go at all.
    fn within_budgets(&self) -> Vec<Victim> {
        let budgets = Budgets::new(self.session.cluster);
        self.offered.iter().filter(|victim| budgets.may(victim.task)).copied().collect()
    }

    /// Those on nodes that could take a task of the preemptor if all on offer left. A gang as a whole is useful when any of
    /// its members is.
    fn useful(&self, offered: &[Victim], empty: &FeasibilityBound) -> Vec<Victim> {
        let helps = |victim: &&Victim| self.today.admits(victim.node) && empty.takes(victim.node);
        if !self.of_gangs() {
            return offered.iter().filter(helps).copied().collect();
        }
        let jobs: FxHashSet<JobId> = offered.iter().filter(helps).map(|victim| victim.job).collect();
        offered.iter().filter(|victim| jobs.contains(&victim.job)).copied().collect()
    }

    /// Those of the offered, in this order, that plugins and PodDisruptionBudgets let go together, and the tier that
    /// decided. A tier that is given decides alone.
    fn allowed(&mut self, offered: &[Victim], tier: Option<usize>) -> Option<(usize, Vec<Victim>)> {
        let (preemptor, mode) = (self.preemptor, self.mode);
        let mut ids: Vec<TaskId> = offered.iter().map(|victim| victim.task).collect();
        if self.pass.takes_spare_only() {
            ids = phalanx_plugins::within_surplus(self.session.cluster, &ids);
        }
        let (tier, picked) = preemptor.as_if_whole(self.session, |session| {
            let ask =
                |plugin: &dyn Plugin, of: &[TaskId]| mode.ask(plugin, session.cluster, preemptor.last(), of);
            let picked = session.tiers.intersect(mode.flag(), tier, &ids, ask)?;
            Some(outranked(session, preemptor, mode, offered, (picked.tier, picked.victims)))
        })?;
        if picked.is_empty() {
            return None;
        }
        let picked: FxHashSet<TaskId> = picked.into_iter().collect();
        let mut budgets = Budgets::new(self.session.cluster);
        let goes = |victim: &&Victim| picked.contains(&victim.task) && budgets.take(victim.task);
        Some((tier, offered.iter().filter(goes).copied().collect()))
    }

    fn try_list(&mut self, allowed: &[Victim]) -> Result<bool, NoEviction> {
        let units = self.units(allowed);
        self.dry_run(&units)
    }

    fn units(&self, victims: &[Victim]) -> Vec<Unit> {
        units(self.session, victims, self.of_gangs(), self.may_break())
    }

    fn may_break(&self) -> bool {
        self.mode.may_break(self.session)
    }

    /// Whether gangs are taken as a whole where they cannot do without some.
    fn of_gangs(&self) -> bool {
        self.mode.of_gangs() && !self.pass.takes_spare_only()
    }

    /// Evicts as few of the units as it takes, if they help.
    fn dry_run(&mut self, units: &[Unit]) -> Result<bool, NoEviction> {
        let Some(least) = self.least(units) else { return Ok(false) };
        let Self { session, preemptor, mode, steps, why, pass, .. } = self;
        let accepts = |cluster: &Cluster| pass.accepts(cluster, *mode, units);
        let proven = dry_run(session, preemptor, *mode, (units, least), accepts, why, steps)?;
        if proven {
            self.let_go(units);
        }
        Ok(proven || self.pass.is_over())
    }

    /// How many of the units, the first ones first, have to go at the least; `None` where all of them are not enough.
    fn least(&mut self, units: &[Unit]) -> Option<usize> {
        let cluster = &*self.session.cluster;
        let freed = |victim: &Victim| (victim.node, cluster.request_of(victim.task));
        self.today.least(units.iter().map(|unit| unit.iter().map(freed)))
    }

    /// Whether plugins' answers depend on the order in which victims are offered.
    fn order_matters(&self) -> bool {
        self.mode.kind() == EvictionKind::Reclaim
    }

    /// Gangs that lost members and are not whole any more give up what they were promised.
    fn let_go(&mut self, units: &[Unit]) {
        let jobs: BTreeSet<JobId> = units.iter().flatten().map(|victim| victim.job).collect();
        for job in jobs {
            if job != self.preemptor.job && !self.session.job_pipelined(job) {
                gang::release(self.session, job);
            }
        }
    }
}
