//! The search for victims that are allowed and help.
mod by_node;
mod choices;
mod one_node;
mod prospect;
mod sets;
mod spare;
mod swap;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::aim::Aim;
use super::given::Given;
use super::ledger::{Ledger, Ledgers};
use super::proof::{self, Unit, prove, units};
use super::purpose::Purpose;
use super::roster::{Loss, Roster, Victim};
use super::steps::Steps;
use super::takes::Forbidden;
use crate::actions::gang;
use crate::actions::hold;
use crate::actions::together::Choice;
use crate::decision::Cause;
use crate::session::Session;
use phalanx_cluster::diagnosis::{NoEviction, Untried};
use phalanx_cluster::id::{ClassId, JobId, NodeId, TaskId, TermId};
use phalanx_cluster::{Budgets, World};
use phalanx_framework::plugin::Plugin;
use spare::Pass;
use swap::Swaps;

/// Steps that each last resort may make: others wait for their turn.
const LAST_STEPS: u64 = 20_000;

/// Evicts for an aim, if that helps. All is as it was where it does not.
pub(super) fn evict_for(
    session: &mut Session<'_>,
    (aim, purpose, forbidden): (&Aim, Purpose, &Forbidden),
    roster: &mut Roster,
    (steps, ledgers): (&mut Steps, &mut Ledgers),
) -> Result<(), NoEviction> {
    steps.begin();
    ledgers.with_today(session, aim, steps, |session, today, steps| {
        evict_in(session, (aim, purpose, forbidden), roster, (today, steps))
    })
}

/// The same with rooms as they are with nobody evicted.
fn evict_in(
    session: &mut Session<'_>,
    (aim, purpose, forbidden): (&Aim, Purpose, &Forbidden),
    roster: &mut Roster,
    (today, steps): (&mut Ledger, &mut Steps),
) -> Result<(), NoEviction> {
    let all = roster.each(session, aim, purpose);
    steps.scan(all.len())?;
    if all.is_empty() && !today.may_do() {
        return Err(NoEviction::NoVictims(Arc::default()));
    }
    let empty = today.without(all.iter().map(|(task, node)| (*node, session.world.request_of(*task))));
    if !empty.may_do() {
        return Err(NoEviction::NotEnough(Arc::default()));
    }
    if !today.may_do() && !anybody(session, aim, purpose, &all) {
        return Err(NoEviction::NoVictims(Arc::default()));
    }
    let mut alone: Option<FxHashSet<TaskId>> = None;
    if !asks_others(session) {
        steps.scan(4 * all.len())?;
        let count = all.len();
        let goes = each_alone(session, aim, purpose, roster, all);
        let emptier = today.without(goes.iter().map(|(task, node)| (*node, session.world.request_of(*task))));
        let given = Given::most(session, purpose, today, goes.iter().copied());
        let enough = |given: &Given| today.may_do_with(&given.sum(), &emptier);
        if !emptier.may_do() || !given.as_ref().is_none_or(enough) {
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
    let order = roster.order(session, aim, purpose);
    steps.scan(4 * order.len())?;
    let helps = |node: NodeId| today.admits(node) && empty.takes_more(node, today);
    let order = roster.where_of_use(session, aim, purpose, order, &helps);
    let may_break = purpose.may_break(session);
    let is_offered = |victim: &&Victim| {
        alone.as_ref().is_none_or(|alone| alone.contains(&victim.task))
            && is_offered(session, aim, purpose, victim)
            && (may_break || proof::can_spare(session.world, victim.job, &[**victim]))
            && !forbidden.has(session.world, victim.job)
    };
    let offered: Vec<Victim> = order.iter().filter(is_offered).copied().collect();
    let why = Arc::new(purpose.cause(session, aim.job));
    let (pass, tier) = (Pass::Last, 0);
    let mut search = Search { session, aim, purpose, today, steps, why, pass, offered, tier };
    search.run(&empty)
}

/// Whether plugins let anybody go at all. That is asked before victims are put in order, for mostly nobody may.
fn anybody(session: &mut Session<'_>, aim: &Aim, purpose: Purpose, all: &[(TaskId, NodeId)]) -> bool {
    let all: Vec<TaskId> = all.iter().map(|(task, _)| *task).collect();
    aim.as_if_whole(session, |session| {
        let ask = |plugin: &dyn Plugin, of: &[TaskId]| purpose.ask(plugin, session.world, aim.last(), of);
        session.tiers.any_victims(purpose.flag(), &all, ask)
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
    aim: &Aim,
    purpose: Purpose,
    roster: &Roster,
    all: Vec<(TaskId, NodeId)>,
) -> Vec<(TaskId, NodeId)> {
    aim.as_if_whole(session, |session| {
        let ask = |plugin: &dyn Plugin, of: &[TaskId]| purpose.ask(plugin, session.world, aim.last(), of);
        let goes = |task: TaskId| session.tiers.any_victims(purpose.flag(), &[task], ask);
        all.into_iter().filter(|(task, _)| roster.may_go(session, *task) && goes(*task)).collect()
    })
}

/// Those that plugins and PodDisruptionBudgets let go together, in no order of importance; nobody where each question goes to
/// another process.
pub(super) fn together(
    session: &mut Session<'_>,
    aim: &Aim,
    purpose: Purpose,
    roster: &Roster,
) -> Vec<(TaskId, NodeId)> {
    if asks_others(session) {
        return Vec::new();
    }
    let all = roster.each(session, aim, purpose);
    let mut ids: Vec<TaskId> =
        all.iter().map(|(task, _)| *task).filter(|task| roster.may_go(session, *task)).collect();
    if !purpose.may_break(session) {
        ids = phalanx_plugins::spare(session.world, &ids);
    }
    let picked = aim.as_if_whole(session, |session| {
        let ask = |plugin: &dyn Plugin, of: &[TaskId]| purpose.ask(plugin, session.world, aim.last(), of);
        session.tiers.intersect(purpose.flag(), None, &ids, ask)
    });
    let picked = picked.map(|picked| picked.victims).unwrap_or_default();
    let mut budgets = Budgets::new(session.world);
    let picked: FxHashSet<TaskId> = picked.into_iter().filter(|task| budgets.take(*task)).collect();
    all.into_iter().filter(|(task, _)| picked.contains(task)).collect()
}

/// Whether a running pod of a job is protected because the job has a reservation: without the pod, victims that the job already
/// preempted would have been evicted in vain. A preemptor that outranks the job in its queue may evict it.
pub(super) fn keeps_reservation(session: &Session<'_>, preemptor: JobId, job: JobId) -> bool {
    job != preemptor && hold::is_reserved(session, job) && !session.outranks(preemptor, job)
}

/// Whether a victim is still one, and one for this aim.
fn is_offered(session: &Session<'_>, aim: &Aim, purpose: Purpose, victim: &Victim) -> bool {
    let world = &*session.world;
    // What asks for nothing may not push out what asks for something.
    let idle = |task: TaskId| world.class_of(task).best_effort;
    // Nor what is less important what is more, whatever plugins say: allocate would serve that first again.
    let lesser = match purpose {
        Purpose::WithinJob => world.tasks[victim.task].priority < world.tasks[aim.last()].priority,
        Purpose::Preempt | Purpose::GangPreempt => {
            world.jobs[victim.job].priority <= world.jobs[aim.job].priority
        }
        // Where no plugin says what queues may keep, the order of queues does, which does not turn round: what a gang can do
        // without goes for any that starts, and a gang that grows breaks none.
        Purpose::Reclaim | Purpose::GangReclaim => {
            let queues = [aim.job, victim.job].map(|job| world.jobs[job].queue);
            let (spare, behind) =
                (victim.loss == Loss::Surplus, session.queue_order(queues[0], queues[1]).is_lt());
            session.tiers.guard_queues() || if aim.single { spare && behind } else { spare || behind }
        }
    };
    world.tasks[victim.task].status == victim.status
        && purpose.takes_from_job(aim.job, victim.job)
        && !keeps_reservation(session, aim.job, victim.job)
        && (idle(victim.task) || !aim.is_idle(world))
        && lesser
}

/// Those of less important jobs, and of equally important ones those whom a plugin ranks behind. What a gang can do without
/// goes for another that would be whole by it, for that never turns round.
fn outranked(
    session: &Session<'_>,
    aim: &Aim,
    purpose: Purpose,
    offered: &[Victim],
    (tier, mut picked): (usize, Vec<TaskId>),
) -> (usize, Vec<TaskId>) {
    let world = &*session.world;
    let priority = |job: JobId| world.jobs[job].priority;
    let is_equal = |victim: &&Victim| {
        let spare = victim.loss == Loss::Surplus && !aim.single;
        priority(victim.job) == priority(aim.job) && !spare
    };
    if !purpose.is_of_jobs() || !offered.iter().any(|victim| is_equal(&victim)) {
        return (tier, picked);
    }
    let Some(plugins) = session.tiers.ranking(purpose.flag(), tier) else { return (tier, picked) };
    let equal: FxHashSet<TaskId> = offered.iter().filter(is_equal).map(|victim| victim.task).collect();
    let asked: Vec<TaskId> = picked.iter().copied().filter(|task| equal.contains(task)).collect();
    let behind = |plugin: &dyn Plugin| purpose.ask(plugin, world, aim.last(), &asked);
    let behind: FxHashSet<TaskId> = plugins.into_iter().filter_map(behind).flatten().collect();
    picked.retain(|task| !equal.contains(task) || behind.contains(task));
    (tier, picked)
}

struct Search<'a, 'w> {
    session: &'a mut Session<'w>,
    aim: &'a Aim,
    purpose: Purpose,
    /// Rooms with nobody evicted.
    today: &'a mut Ledger,
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
    fn run(&mut self, empty: &Ledger) -> Result<(), NoEviction> {
        // Room may have come since allocate looked.
        if self.today.may_do() && self.prove(&[])? {
            return Ok(());
        }
        let offered = &self.within_budgets();
        let Some((tier, all)) = self.allowed(offered, None) else {
            return Err(NoEviction::NoVictims(Arc::default()));
        };
        (self.offered, self.tier) = (offered.clone(), tier);
        match self.spare_of(offered)? {
            Some((spare, emptier)) => self.gently((offered, empty), (&spare, &emptier), (tier, all)),
            None => self.find(offered, empty, (tier, all)),
        }
    }

    /// Tries what is offered in the order of importance, then node by node, then every set of a few. Those that may go
    /// together are given, with the tier that says so.
    fn find(
        &mut self,
        offered: &[Victim],
        empty: &Ledger,
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
        let world = &*self.session.world;
        let (looks, seeks) = (self.aim.looks_around(world), self.aim.seeks(world));
        let around = looks || self.is_over_quota();
        let some_only = limited
            && (self.by_node(&useful, tier)?
                || self.by_domain(&useful, tier)?
                || self.by_turns(&useful, tier)?);
        if some_only
            || self.with_company(offered, tier)?
            || ((limited || seeks) && self.every_set(if around { offered } else { &useful }, tier)?)
        {
            return Ok(());
        }
        Err(if self.steps.gave_up() {
            NoEviction::NotFound(Untried::Ways)
        } else {
            NoEviction::NotEnough(Arc::default())
        })
    }

    /// Whether the queue may have the whole gang only when others hold less, wherever they hold it.
    fn is_over_quota(&mut self) -> bool {
        let (aim, queue) = (self.aim, self.session.world.jobs[self.aim.job].queue);
        aim.each_as_last(self.session, |session, task| session.allocatable(queue, task)).is_err()
    }

    /// Only those in one topology domain, for a gang that may choose it: one domain after the other, those with the least
    /// to take from first.
    fn by_domain(&mut self, useful: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let world = &*self.session.world;
        let choice = Choice::of(world, &self.aim.tasks).filter(|_| !self.aim.single);
        let Some(choice) = choice else { return Ok(false) };
        self.steps.scan(useful.len())?;
        let mut domains: Vec<(u32, Vec<Victim>)> = Vec::new();
        for victim in useful {
            let Some(domain) = choice.domain(world, victim.node) else { continue };
            match domains.iter_mut().find(|(known, _)| *known == domain) {
                Some((_, victims)) => victims.push(*victim),
                None => domains.push((domain, vec![*victim])),
            }
        }
        // Stable: those whose first victim goes first.
        domains.sort_by_key(|(_, victims)| victims.len());
        for (_, victims) in domains {
            self.steps.scan(4 * victims.len())?;
            let (_, allowed) = self.allowed(&victims, Some(tier)).unwrap_or_default();
            if self.try_list(&allowed)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All but those that tasks of the aim ask to be with, or to be spread beside: somebody has to stay for them.
    fn with_company(&mut self, offered: &[Victim], tier: usize) -> Result<bool, NoEviction> {
        let world = &*self.session.world;
        if !self.aim.seeks(world) {
            return Ok(false);
        }
        let classes: BTreeSet<ClassId> = self.aim.tasks.iter().map(|task| world.tasks[*task].class).collect();
        let sought = |class: &ClassId| {
            let carried = &world.classes[*class].carried;
            let even = carried.spread.iter().filter(|spread| spread.required).map(|spread| spread.term);
            carried.affinity.iter().copied().chain(even).collect::<Vec<TermId>>()
        };
        let terms: BTreeSet<TermId> = classes.iter().flat_map(sought).collect();
        self.steps.scan(terms.len() * offered.len())?;
        let is_company =
            |victim: &Victim| terms.iter().any(|term| world.terms.means(*term, world.class_of(victim.task)));
        let others: Vec<Victim> = offered.iter().filter(|victim| !is_company(victim)).copied().collect();
        let (_, allowed) = self.allowed(&others, Some(tier)).unwrap_or_default();
        self.try_list(&allowed)
    }

    /// Those that PodDisruptionBudgets let go at all.
    fn within_budgets(&self) -> Vec<Victim> {
        let budgets = Budgets::new(self.session.world);
        self.offered.iter().filter(|victim| budgets.may(victim.task)).copied().collect()
    }

    /// Those on nodes that could take a task of the aim if all on offer left. A gang as a whole is useful when any of
    /// its members is.
    fn useful(&self, offered: &[Victim], empty: &Ledger) -> Vec<Victim> {
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
        let (aim, purpose) = (self.aim, self.purpose);
        let mut ids: Vec<TaskId> = offered.iter().map(|victim| victim.task).collect();
        if self.pass.takes_spare_only() {
            ids = phalanx_plugins::spare(self.session.world, &ids);
        }
        let (tier, picked) = aim.as_if_whole(self.session, |session| {
            let ask = |plugin: &dyn Plugin, of: &[TaskId]| purpose.ask(plugin, session.world, aim.last(), of);
            let picked = session.tiers.intersect(purpose.flag(), tier, &ids, ask)?;
            Some(outranked(session, aim, purpose, offered, (picked.tier, picked.victims)))
        })?;
        if picked.is_empty() {
            return None;
        }
        let picked: FxHashSet<TaskId> = picked.into_iter().collect();
        let mut budgets = Budgets::new(self.session.world);
        let goes = |victim: &&Victim| picked.contains(&victim.task) && budgets.take(victim.task);
        Some((tier, offered.iter().filter(goes).copied().collect()))
    }

    fn try_list(&mut self, allowed: &[Victim]) -> Result<bool, NoEviction> {
        let units = self.units(allowed);
        self.prove(&units)
    }

    fn units(&self, victims: &[Victim]) -> Vec<Unit> {
        units(self.session, victims, self.of_gangs(), self.may_break())
    }

    fn may_break(&self) -> bool {
        self.purpose.may_break(self.session)
    }

    /// Whether gangs are taken as a whole where they cannot do without some.
    fn of_gangs(&self) -> bool {
        self.purpose.of_gangs() && !self.pass.takes_spare_only()
    }

    /// Evicts as few of the units as it takes, if they help and nothing better is to be looked for.
    fn prove(&mut self, units: &[Unit]) -> Result<bool, NoEviction> {
        self.improve(units, swap::ROUNDS)
    }

    /// The same, with less important ones in the place of some, if that helps too.
    fn improve(&mut self, units: &[Unit], rounds: usize) -> Result<bool, NoEviction> {
        let mut swaps = Swaps::default();
        if self.evict(units, (rounds > 0).then_some(&mut swaps))? {
            return Ok(true);
        }
        if swaps.is_empty() {
            return Ok(false);
        }
        Ok(self.swap(swaps, rounds - 1)? || self.evict(units, None)?)
    }

    /// Evicts as few of the units as it takes, if they help, and there are no swaps, if those are asked for.
    fn evict(&mut self, units: &[Unit], swaps: Option<&mut Swaps>) -> Result<bool, NoEviction> {
        let Self { session, aim, purpose, today, steps, why, pass, offered, .. } = self;
        let world = &*session.world;
        let freed = |victim: &Victim| (victim.node, world.request_of(victim.task));
        let least = today.least(units.iter().map(|unit| unit.iter().map(freed)));
        let Some(least) = least else { return Ok(false) };
        let accepts = |world: &World| {
            pass.accepts(world, *purpose, units)
                && swaps.is_none_or(|swaps| {
                    *swaps = Swaps::of(world, (aim, *purpose), (today, offered), units);
                    swaps.is_empty()
                })
        };
        let proven = prove(session, aim, *purpose, (units, least), accepts, why, steps)?;
        if proven {
            self.let_go(units);
        }
        Ok(proven || self.pass.is_over())
    }

    /// Gangs that lost members and are not whole any more give up what they were promised.
    fn let_go(&mut self, units: &[Unit]) {
        let jobs: BTreeSet<JobId> = units.iter().flatten().map(|victim| victim.job).collect();
        for job in jobs {
            if job != self.aim.job && !self.session.job_pipelined(job) {
                gang::release(self.session, job);
            }
        }
    }
}
