//! The search for victims that may be evicted together and help.
mod ordered;
mod per_domain;
mod per_node;
mod surplus;

use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashSet;

use super::EvictionPlanner;
use super::dry_run::{Unit, dry_run, single_units, units_of_gangs};
use super::mode::EvictionMode;
use super::potential_victims::{self, Loss, Victim};
use super::preemptor::Preemptor;
use crate::feasibility::FeasibilityBound;
use crate::gang::domain::Choice;
use crate::gang::reserved;
use crate::plan::Plan;
use crate::session::Session;
use crate::steps::Steps;
use phalanx_cluster::diagnosis::{NoEviction, Untried};
use phalanx_cluster::id::{ClassId, JobId, NodeId, TaskId, TermId};
use phalanx_cluster::{Budgets, Cluster};
use phalanx_framework::plugin::{EvictionKind, Plugin};
use phalanx_framework::tiers::TierVictims;
use phalanx_plugins::within_surplus;
use surplus::Limits;

/// A way to choose victims. Returns the first plan that works.
type VictimStrategy<S> = fn(&mut S, &Offer) -> Result<Option<Plan>, NoEviction>;

impl EvictionPlanner {
    /// Finds victims and places. `none` says why no pod may be evicted for a preemptor like this, whatever it requests.
    pub(super) fn search(
        &mut self,
        session: &mut Session<'_>,
        preemptor: &Preemptor,
        none: Option<NoEviction>,
    ) -> Result<Plan, NoEviction> {
        let Self { potential_victims, steps, bounds, .. } = self;
        steps.begin();
        bounds.with_bound(session, preemptor.demand(), steps, |session, bound, steps| {
            if let Some(why) = none.filter(|_| !bound.may_fit()) {
                return Err(why);
            }
            let mut search = VictimSearch { session, preemptor, bound, steps, tier: None, surplus: None };
            let AlonePermitted { ceiling, only } = search.bound_alone()?;
            let order = potential_victims.order(search.session, preemptor);
            search.steps.scan(4 * order.len())?;
            let is_offered = |victim: &&Victim| {
                only.as_ref().is_none_or(|only| only.contains(&victim.task))
                    && is_offered(search.session, preemptor, victim)
                    && !preemptor.protected.has(search.session.cluster, victim.job)
            };
            let offered: Vec<Victim> = order.iter().filter(is_offered).copied().collect();
            search.run(&offered, &ceiling)
        })
    }
}

/// The tasks that plugins and PodDisruptionBudgets let go together, in no order of importance; none where each question
/// goes to another process.
pub(super) fn together(session: &mut Session<'_>, preemptor: &Preemptor) -> Vec<(TaskId, NodeId)> {
    if session.tiers.victims_are_judged_remotely() {
        return Vec::new();
    }
    let mode = preemptor.mode;
    let all = potential_victims::each(session, preemptor);
    let ids = all.into_iter().map(|(task, _)| task);
    let mut ids: Vec<TaskId> = ids.filter(|task| potential_victims::may_go(session, mode, *task)).collect();
    if !mode.may_break(session) {
        ids = within_surplus(session.cluster, &ids);
    }
    let picked = preemptor.as_if_whole(session, |session| {
        session.tiers.intersect(session.cluster, preemptor.eviction(), None, &ids)
    });
    let picked = picked.map(|picked| picked.victims).unwrap_or_default();
    let mut budgets = Budgets::new(session.cluster);
    let goes = picked.into_iter().filter(|task| budgets.take(*task));
    goes.filter_map(|task| Some((task, session.cluster.tasks[task].node?))).collect()
}

/// Whether a running pod of a job is protected because the job has a reservation: without the pod, victims that the job
/// already preempted would have been evicted for nothing. A preemptor that outranks the job in its queue may evict it.
pub(super) fn keeps_reservation(session: &Session<'_>, preemptor: JobId, job: JobId) -> bool {
    job != preemptor && reserved::is_reserved(session, job) && !session.outranks(preemptor, job)
}

/// Whether gangs can do without all of these tasks.
fn is_surplus<'t>(cluster: &Cluster, tasks: impl IntoIterator<Item = &'t TaskId>) -> bool {
    let tasks: Vec<TaskId> = tasks.into_iter().copied().collect();
    within_surplus(cluster, &tasks).len() == tasks.len()
}

/// Whether a potential victim is still one, and one for this preemptor.
fn is_offered(session: &Session<'_>, preemptor: &Preemptor, victim: &Victim) -> bool {
    let (cluster, mode) = (&*session.cluster, preemptor.mode);
    // A task that requests nothing may not push out one that requests something.
    let best_effort = |task: TaskId| cluster.class_of(task).best_effort;
    // Nor a less important one a more important one, whatever plugins say: allocate would serve that first again.
    let lesser = match mode {
        EvictionMode::WithinJob => {
            cluster.tasks[victim.task].priority < cluster.tasks[preemptor.last()].priority
        }
        EvictionMode::Preempt | EvictionMode::GangPreempt => {
            cluster.jobs[victim.job].priority <= cluster.jobs[preemptor.job].priority
        }
        // Where no plugin says what queues may keep, the order of queues does, which is total: surplus goes for any
        // gang that starts, and a gang that grows breaks none.
        EvictionMode::Reclaim | EvictionMode::GangReclaim => {
            let queues = [preemptor.job, victim.job].map(|job| cluster.jobs[job].queue);
            let (surplus, behind) =
                (victim.loss == Loss::Surplus, session.queue_order(queues[0], queues[1]).is_lt());
            session.tiers.guard_queues()
                || if preemptor.grows { surplus && behind } else { surplus || behind }
        }
    };
    cluster.tasks[victim.task].status == victim.status
        && mode.may_evict_from_job(preemptor.job, victim.job)
        && !keeps_reservation(session, preemptor.job, victim.job)
        && (best_effort(victim.task) || !preemptor.is_best_effort(cluster))
        && lesser
        && (mode.may_break(session) || is_surplus(cluster, [&victim.task]))
}

/// The picked tasks of less important jobs, and of equally important jobs those that a plugin ranks behind. Surplus
/// goes for another gang that would be whole by it, for that never turns round.
fn outranked(
    session: &Session<'_>,
    preemptor: &Preemptor,
    offered: &[Victim],
    picked: TierVictims,
) -> Vec<TaskId> {
    let (cluster, mode) = (&*session.cluster, preemptor.mode);
    let TierVictims { tier, victims: mut picked } = picked;
    let priority = |job: JobId| cluster.jobs[job].priority;
    let is_equal = |victim: &&Victim| {
        let surplus = victim.loss == Loss::Surplus && !preemptor.grows;
        priority(victim.job) == priority(preemptor.job) && !surplus
    };
    if !mode.preempts_other_jobs() || !offered.iter().any(|victim| is_equal(&victim)) {
        return picked;
    }
    let Some(plugins) = session.tiers.plugins_for_equal_priority(preemptor.eviction().flag(), tier) else {
        return picked;
    };
    let equal: FxHashSet<TaskId> = offered.iter().filter(is_equal).map(|victim| victim.task).collect();
    let asked: Vec<TaskId> = picked.iter().copied().filter(|task| equal.contains(task)).collect();
    let behind = |plugin: &dyn Plugin| plugin.evictable(cluster, preemptor.eviction(), &asked);
    let behind: FxHashSet<TaskId> = plugins.into_iter().filter_map(behind).flatten().collect();
    picked.retain(|task| !equal.contains(task) || behind.contains(task));
    picked
}

/// What nodes get back when these tasks go.
pub(super) fn freed<'c>(
    cluster: &'c Cluster,
    tasks: &'c [(TaskId, NodeId)],
) -> impl Iterator<Item = (NodeId, &'c Amounts)> {
    tasks.iter().map(|(task, node)| (*node, cluster.request_of(*task)))
}

/// Potential victims among which strategies choose.
struct Offer {
    /// All of them in order.
    offered: Vec<Victim>,
    /// The potential victims that may be evicted together.
    allowed: Vec<Victim>,
    /// The potential victims on nodes that could take a task of the preemptor.
    useful: Vec<Victim>,
    /// Not all of them may go together.
    limited: bool,
}

/// The potential victims that may go if they alone have to.
struct AlonePermitted {
    /// The bound with all potential victims evicted, also others.
    ceiling: FeasibilityBound,
    /// The tasks that may be evicted; `None` means all.
    only: Option<FxHashSet<TaskId>>,
}

/// A search for one preemptor.
struct VictimSearch<'a, 'w> {
    session: &'a mut Session<'w>,
    preemptor: &'a Preemptor,
    /// The feasibility bound with no pod evicted.
    bound: &'a mut FeasibilityBound,
    steps: &'a mut Steps,
    /// The tier of plugins that decides, once one does.
    tier: Option<usize>,
    /// Only surplus may go, within these limits.
    surplus: Option<Limits>,
}

impl VictimSearch<'_, '_> {
    /// The steps of the strategies in order: *per node* for a single pod, *ordered*, *per node*, *per domain*, and last
    /// *ordered* with every set of a few. *Surplus* takes all of them with another [`Offer`].
    const STRATEGIES: [VictimStrategy<Self>; 5] =
        [Self::cheapest_node, Self::ordered, Self::per_node, Self::per_domain, Self::every_set];

    /// What the bound says of potential victims that may go if they alone have to. Fails where these are not enough.
    /// This is asked before victims are put in order, which takes the longest.
    fn bound_alone(&mut self) -> Result<AlonePermitted, NoEviction> {
        let all = potential_victims::each(self.session, self.preemptor);
        self.steps.scan(all.len())?;
        if all.is_empty() && !self.bound.may_fit() {
            return Err(NoEviction::NoVictims(Arc::default()));
        }
        let ceiling = self.bound.with_evicted(freed(self.session.cluster, &all));
        if !ceiling.may_fit() {
            return Err(NoEviction::NotEnough(Arc::default()));
        }
        let count = all.len();
        let alone = self.alone(all)?;
        if !self.bound.with_evicted(freed(self.session.cluster, &alone)).may_fit() {
            let none = alone.is_empty();
            return Err(if none { NoEviction::NoVictims } else { NoEviction::NotEnough }(Arc::default()));
        }
        let some_only = alone.len() < count;
        let only = some_only.then(|| alone.into_iter().map(|(task, _)| task).collect());
        Ok(AlonePermitted { ceiling, only })
    }

    /// Tasks that plugins let go if no other had to: a task that may not go alone may not go with others.
    fn alone(&mut self, all: Vec<(TaskId, NodeId)>) -> Result<Vec<(TaskId, NodeId)>, NoEviction> {
        let Self { session, preemptor, steps, .. } = self;
        let mode = preemptor.mode;
        preemptor.as_if_whole(session, |session| {
            let eviction = preemptor.eviction();
            let goes = |tasks: &[TaskId]| session.tiers.any_victims(session.cluster, eviction, tasks);
            // Mostly no task may go at all.
            if !goes(&all.iter().map(|(task, _)| *task).collect::<Vec<_>>()) {
                return Ok(Vec::new());
            }
            if session.tiers.victims_are_judged_remotely() {
                return Ok(all);
            }
            steps.scan(4 * all.len())?;
            let may_go = |task: TaskId| potential_victims::may_go(session, mode, task) && goes(&[task]);
            Ok(all.into_iter().filter(|(task, _)| may_go(*task)).collect())
        })
    }

    /// Finds a plan among the potential victims; one that takes only surplus rather than one that breaks a gang.
    fn run(&mut self, offered: &[Victim], ceiling: &FeasibilityBound) -> Result<Plan, NoEviction> {
        // Room may have come since allocate looked.
        if self.bound.may_fit()
            && let Some(plan) = self.dry_run(&[])?
        {
            return Ok(plan);
        }
        let budgets = Budgets::new(self.session.cluster);
        let offered: Vec<Victim> =
            offered.iter().filter(|victim| budgets.may(victim.task)).copied().collect();
        let plan = self.find(&offered, ceiling)?;
        if !self.breaks_gang(&plan) {
            return Ok(plan);
        }
        Ok(self.surplus_instead(&offered, &plan).unwrap_or(plan))
    }

    /// Tries the strategies in turn.
    fn find(&mut self, offered: &[Victim], ceiling: &FeasibilityBound) -> Result<Plan, NoEviction> {
        let allowed = self.allowed(offered);
        if self.tier.is_none() {
            return Err(NoEviction::NoVictims(Arc::default()));
        }
        let limited = self.units(&allowed).iter().map(Unit::len).sum::<usize>() < offered.len();
        let useful = self.useful(offered, ceiling);
        let offer = Offer { offered: offered.to_vec(), allowed, useful, limited };
        for strategy in Self::STRATEGIES {
            if let Some(plan) = strategy(self, &offer)? {
                return Ok(plan);
            }
        }
        Err(if self.choice_matters(&offer) && (self.order_matters() || !self.are_few(&offer.offered)) {
            NoEviction::NotFound(Untried::Sets, Arc::default())
        } else if self.steps.gave_up() {
            NoEviction::NotFound(Untried::Ways, Arc::default())
        } else {
            NoEviction::NotEnough(Arc::default())
        })
    }

    /// Potential victims on nodes that could take a task of the preemptor if all on offer left. A gang as a whole is
    /// useful when any member is.
    fn useful(&self, offered: &[Victim], ceiling: &FeasibilityBound) -> Vec<Victim> {
        let helps = |victim: &&Victim| self.bound.admits(victim.node) && ceiling.takes(victim.node);
        if !self.evicts_whole_gangs() {
            return offered.iter().filter(helps).copied().collect();
        }
        let jobs: FxHashSet<JobId> = offered.iter().filter(helps).map(|victim| victim.job).collect();
        offered.iter().filter(|victim| jobs.contains(&victim.job)).copied().collect()
    }

    /// The offered victims, in this order, that plugins and PodDisruptionBudgets allow to be evicted together. The first tier that
    /// lets any go decides from then on.
    fn allowed(&mut self, offered: &[Victim]) -> Vec<Victim> {
        let Self { preemptor, tier, .. } = *self;
        let mut ids: Vec<TaskId> = offered.iter().map(|victim| victim.task).collect();
        if self.surplus.is_some() {
            ids = within_surplus(self.session.cluster, &ids);
        }
        let picked = preemptor.as_if_whole(self.session, |session| {
            let picked = session.tiers.intersect(session.cluster, preemptor.eviction(), tier, &ids)?;
            Some((picked.tier, outranked(session, preemptor, offered, picked)))
        });
        let Some((tier, picked)) = picked.filter(|(_, picked)| !picked.is_empty()) else { return Vec::new() };
        self.tier = Some(tier);
        let picked: FxHashSet<TaskId> = picked.into_iter().collect();
        let mut budgets = Budgets::new(self.session.cluster);
        let goes = |victim: &&Victim| picked.contains(&victim.task) && budgets.take(victim.task);
        offered.iter().filter(goes).copied().collect()
    }

    /// Whether these may all go together.
    fn may_all_go(&mut self, victims: &[Victim]) -> bool {
        self.allowed(victims).len() == victims.len()
    }

    /// Tries those of the victims that may go together.
    fn try_allowed(&mut self, victims: &[Victim]) -> Result<Option<Plan>, NoEviction> {
        let allowed = self.allowed(victims);
        self.try_list(&allowed)
    }

    fn try_list(&mut self, allowed: &[Victim]) -> Result<Option<Plan>, NoEviction> {
        let units = self.units(allowed);
        self.dry_run(&units)
    }

    fn units(&self, victims: &[Victim]) -> Vec<Unit> {
        if !self.evicts_whole_gangs() {
            return single_units(victims);
        }
        units_of_gangs(self.session, victims, self.mode())
    }

    fn mode(&self) -> EvictionMode {
        self.preemptor.mode
    }

    /// Whether gangs are evicted as a whole where they cannot do without a member.
    fn evicts_whole_gangs(&self) -> bool {
        self.mode().evicts_whole_gangs() && self.surplus.is_none()
    }

    /// Evicts as few of the units as the bound and the dry run ask for, if that helps.
    fn dry_run(&mut self, units: &[Unit]) -> Result<Option<Plan>, NoEviction> {
        let Some(least) = self.least(units) else { return Ok(None) };
        let plan = dry_run(self.session, self.preemptor, units, least, self.steps)?;
        let cluster = &*self.session.cluster;
        Ok(plan.filter(|plan| self.surplus.is_none_or(|most| Limits::of(cluster, plan).is_within(most))))
    }

    /// How many of the units, the first ones first, have to go at the least; `None` where all of them are not enough.
    fn least(&mut self, units: &[Unit]) -> Option<usize> {
        let cluster = &*self.session.cluster;
        let freed = |victim: &Victim| (victim.node, cluster.request_of(victim.task));
        self.bound.least(units.iter().map(|unit| unit.iter().map(freed)))
    }

    /// Whether plugins' answers depend on the order in which victims are offered.
    fn order_matters(&self) -> bool {
        self.mode().kind() == EvictionKind::Reclaim
    }
}
