//! Eviction: one planner for the actions `preempt`, `reclaim`, `gangpreempt` and `gangreclaim`. The page
//! `crates/design/eviction.md` explains the design. The action `shuffle` shares the rules about protected pods, the
//! step budget and the check whether a task may have a place.
//!
//! For a job that starves, the *preemptor*:
//! 1. [`potential_victims`]: the pods that may be evicted, in order. Plugins in their tiers say who may go together,
//!    and PodDisruptionBudgets are counted down.
//! 2. [`feasibility`](crate::feasibility): arithmetic that says no without a search.
//! 3. [`search`]: the strategies *ordered*, *per node*, *per domain* and *surplus* choose potential victims to try.
//! 4. [`dry_run`]: in a Statement that is undone, as few of them as the bound asks for are evicted, and the gang is
//!    placed by the filters, scores and quotas of `allocate`; more follow until it fits. Then each victim that may stay
//!    is reprieved, the most important first. What is left is the Plan.
//! 5. [`commit`] carries the Plan out. The gang's tasks keep their nodes as nominations across cycles, so the job does
//!    not starve any more and no pod is evicted for it twice.
//!
//! Searches are counted in steps, and an action has a number of steps and a time in a cycle. Jobs that had no turn go
//! first in the next cycle. Searches that failed are remembered in [`failed_searches`](crate::failed_searches).
mod domains;
pub(crate) mod dry_run;
mod mode;
pub(crate) mod potential_victims;
mod preemptor;
mod protection;
mod search;

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::backlog;
use crate::failed_searches::SearchKey;
use crate::feasibility::FeasibilityBounds;
use crate::gang::sub_groups::{Part, WaitingSubGroups};
use crate::gang::{TaskQueue, hyper_nodes, repair, takeover};
use crate::order::{self, JobsByQueue};
use crate::plan::{self, Plan};
use crate::reservation;
use crate::searches::{SearchTime, Turn};
use crate::session::Session;
use crate::steps::Steps;
use domains::EvictionDomains;
pub(crate) use mode::{EvictionMode, WHOLE};
use phalanx_cluster::diagnosis::{NoEviction, Protected, Refusal, Untried};
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{ClassId, JobId, TaskId};
use phalanx_cluster::search_budget::Cut;
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::plugin::EvictionKind;
use potential_victims::PotentialVictims;
use preemptor::Preemptor;

/// Serves the jobs that starve.
pub(crate) fn run(session: &mut Session<'_>, mode: EvictionMode) {
    let starving = starving(session);
    if starving.is_empty() {
        return;
    }
    let mut planner = EvictionPlanner::new(session, mode);
    let passed_over = |job: &JobId| session.state.backlog.is_eviction_deferred(*job);
    let (first, rest): (Vec<JobId>, Vec<JobId>) = starving.into_iter().partition(passed_over);
    // Gangs that fit without evictions are left in it, so that their room counts once, and are for allocate to place.
    let mut statement = session.statement();
    for jobs in [first, rest] {
        planner.serve_all(statement.session(), jobs);
    }
    let is_left = !statement.plan().places.is_empty();
    drop(statement);
    if is_left {
        session.cluster.note_retry_event();
    }
    session.state.bounds = planner.bounds;
}

/// Jobs that lack what they should have and have tasks to be placed.
fn starving(session: &mut Session<'_>) -> Vec<JobId> {
    let mut jobs = session.waiting_jobs();
    jobs.retain(|job| starves(session, *job));
    jobs
}

fn starves(session: &Session<'_>, job: JobId) -> bool {
    let it = &session.cluster.jobs[job];
    let repairs = repair::is_repair(session, job);
    (repairs || it.counts.of(Status::Pending) > 0)
        && it.phase != Phase::Pending
        && (repairs || session.job_starving(job))
        && session.job_blocked(job).is_ok()
        && !order::is_behind(session, job)
}

/// Adds the next job of the equivalence class of a job that was served.
fn join_next(session: &mut Session<'_>, line: &mut JobsByQueue, job: JobId) {
    if let Some(next) = backlog::try_next(session, job).filter(|next| starves(session, *next)) {
        line.push(session, next);
    }
}

/// What parts of a job have in common that get the same answer.
#[derive(PartialEq, Eq, Hash)]
struct PartKey {
    tasks: SmallVec<[(ClassId, i32); 1]>,
    /// A task of a part that goes where other pods of its sub-group are.
    own: Option<TaskId>,
}

impl PartKey {
    fn of(cluster: &Cluster, part: &Part) -> Self {
        let like = |task: &TaskId| (cluster.tasks[*task].class, cluster.tasks[*task].priority);
        Self { tasks: part.tasks.iter().map(like).collect(), own: part.own() }
    }
}

/// The turn of a search.
struct SearchTurn {
    key: SearchKey,
    turn: Turn,
}

struct EvictionPlanner {
    mode: EvictionMode,
    potential_victims: PotentialVictims,
    steps: Steps,
    bounds: FeasibilityBounds,
    /// A search for the job that is being served was ended and may get further in another cycle.
    unfinished: bool,
}

impl EvictionPlanner {
    fn new(session: &mut Session<'_>, mode: EvictionMode) -> Self {
        potential_victims::note_refusals(session);
        Self {
            mode,
            potential_victims: PotentialVictims::default(),
            steps: Steps::of_action(session, mode.action()),
            bounds: std::mem::take(&mut session.state.bounds),
            unfinished: false,
        }
    }

    fn serve_all(&mut self, session: &mut Session<'_>, jobs: Vec<JobId>) {
        let mut line = JobsByQueue::new(session, jobs);
        while let Some(queue) = line.first_queue(session) {
            if self.mode.kind() == EvictionKind::Reclaim && session.overused(queue).is_some() {
                line.leave(queue);
                continue;
            }
            let Some(job) = line.pop(session, queue) else { continue };
            let (whole, spent) =
                (self.steps.are_whole(), self.steps.are_spent() || session.search_time.is_spent());
            let before = pending(session, job);
            let served = if spent { Err(self.no_turn()) } else { self.serve_outranking(session, job) };
            if pending(session, job) < before {
                join_next(session, &mut line, job);
            }
            // A search that did not have the whole budget may get further with it.
            let deferred =
                spent || (!whole && self.steps.are_spent()) || std::mem::take(&mut self.unfinished);
            session.state.backlog.defer_eviction(job, deferred);
            session.cut_short |= deferred;
            if let Err(refusal) = served {
                session.refuse(job, refusal);
            }
        }
    }

    fn no_turn(&self) -> Refusal {
        let cut = if self.steps.are_spent() { self.steps.cut() } else { SearchTime::cut() };
        Refusal::Eviction { action: self.mode.action(), why: NoEviction::Cut(cut) }
    }

    /// Serves a job with the reservations of jobs that it outranks given back: a reservation gives way before a running
    /// pod does.
    fn serve_outranking(&mut self, session: &mut Session<'_>, job: JobId) -> Result<(), Refusal> {
        let candidates = takeover::candidates(session, job);
        if candidates.is_empty() && !repair::is_repair(session, job) {
            return self.serve(session, job);
        }
        let mut statement = session.statement();
        repair::take_back(&mut statement, job);
        let before = pending(statement.session(), job);
        let yielded = takeover::take_back(&mut statement, &candidates);
        let served = self.serve(statement.session(), job);
        if pending(statement.session(), job) < before {
            let outranked = takeover::give_back(&mut statement, yielded, job);
            statement.commit(&Arc::default());
            takeover::tell(session, &outranked, job);
            repair::end(session, job);
        }
        served
    }

    /// Evicts for a job: for its gang as a whole, or for each further task or sub-group.
    fn serve(&mut self, session: &mut Session<'_>, job: JobId) -> Result<(), Refusal> {
        let pending = |task: &TaskId| session.cluster.tasks[*task].status == Status::Pending;
        let mut tasks = TaskQueue::of_requests(session, job).into_tasks();
        if tasks.is_empty() {
            tasks = TaskQueue::of_best_effort(session, job).into_tasks();
        }
        let tasks: Vec<TaskId> = tasks.into_iter().filter(pending).collect();
        let parts = WaitingSubGroups::new(session.cluster, job, &tasks).parts(&tasks);
        if !session.job_whole(job) {
            let Some(preemptor) = Preemptor::gang(session, self.mode, job, &parts) else { return Ok(()) };
            return self.evict_for(session, &preemptor);
        }
        self.serve_each(session, job, &parts)
    }

    /// Evicts for single tasks, or for what single sub-groups lack; returns the refusal of the first by their order.
    fn serve_each(&mut self, session: &mut Session<'_>, job: JobId, parts: &[Part]) -> Result<(), Refusal> {
        let mut failed: FxHashMap<PartKey, Refusal> = FxHashMap::default();
        for part in parts {
            if !session.job_starving(job) {
                break;
            }
            let key = PartKey::of(session.cluster, part);
            let never = |task: &TaskId| session.cluster.tasks[*task].details.never_preempts;
            if part.tasks.iter().any(never) || failed.contains_key(&key) {
                continue;
            }
            let preemptor = Preemptor::part(session, self.mode, job, part);
            let mut served = self.evict_for(session, &preemptor);
            if served.is_err() && self.mode == EvictionMode::Preempt {
                let preemptor = Preemptor { mode: EvictionMode::WithinJob, ..preemptor };
                served = served.or_else(|refusal| self.evict_for(session, &preemptor).map_err(|_| refusal));
            }
            if let Err(refusal) = served {
                failed.insert(key, refusal);
            }
        }
        let mut keys = parts.iter().map(|part| PartKey::of(session.cluster, part));
        keys.find_map(|key| failed.remove(&key)).map_or(Ok(()), Err)
    }

    /// Whether pods may be evicted for a preemptor at all, whichever pods run.
    fn may_ask(&mut self, session: &mut Session<'_>, preemptor: &Preemptor) -> Result<(), Refusal> {
        let mode = preemptor.mode;
        let refusal = |why| Refusal::Eviction { action: mode.action(), why };
        if preemptor.tasks.is_empty() {
            return Err(refusal(NoEviction::Never));
        }
        let entitled = preemptor.each_as_last(session, |session, task| match mode.kind() {
            EvictionKind::Reclaim => session.preemptive(task),
            EvictionKind::Preempt => preemptor.within_quota_before(session, task),
        });
        entitled.map_err(|why| not_entitled(session, preemptor, why))?;
        self.steps.spend(preemptor.non_preempting.len()).map_err(refusal)?;
        let held_up = preemptor.held_up_by(session).map(|pod| refusal(NoEviction::NeverOne(pod)));
        held_up.map_or(Ok(()), Err)
    }

    /// Evicts for a preemptor, unless it is known that a search for victims fails.
    fn evict_for(&mut self, session: &mut Session<'_>, preemptor: &Preemptor) -> Result<(), Refusal> {
        self.may_ask(session, preemptor)?;
        let refusal = |why| Refusal::Eviction { action: preemptor.mode.action(), why };
        let key = preemptor.search_key(session.cluster);
        let known = session.state.failed_searches.answer(&key, session.cluster.retry_events());
        for until in known.iter().filter_map(|known| known.until).chain(preemptor.protected.until) {
            session.state.backlog.retry_at(preemptor.job, until);
        }
        if let Some(why) = known.and_then(|known| known.why) {
            return Err(refusal(why));
        }
        let longer = session.state.failed_searches.next_turn(&key);
        let turn = self.steps.begin_turn(session, longer);
        *session.victim_searches.entry(preemptor.mode.action()).or_default() += 1;
        let planned = self.plan(session, preemptor);
        self.steps.end_turn(session);
        match planned {
            Ok(plan) => {
                commit(session, preemptor, &plan);
                session.state.failed_searches.forget(&key);
                Ok(())
            }
            Err(failure) => {
                self.note_failure(session, preemptor.job, SearchTurn { key, turn }, &failure);
                Err(refusal(failure.why))
            }
        }
    }

    fn note_failure(
        &mut self,
        session: &mut Session<'_>,
        job: JobId,
        SearchTurn { key, turn }: SearchTurn,
        failure: &PlanFailure,
    ) {
        let why = Some(failure.why.clone());
        let used_up = match failure.why {
            NoEviction::Cut(cut) => turn.used_up(cut),
            _ => None,
        };
        match (failure.steps, used_up) {
            (Some(steps), _) => {
                session.state.failed_searches.note(key, why, steps, session.cluster.retry_events());
            }
            (None, Some(ms)) => {
                let next = session.state.failed_searches.note_cut(key, why, ms);
                session.state.backlog.retry_at(job, next);
            }
            (None, None) => self.unfinished = true,
        }
    }
}

/// Why there is no plan for a preemptor.
struct PlanFailure {
    why: NoEviction,
    /// What the search took; `None` where it may get further in another cycle.
    steps: Option<u64>,
}

impl EvictionPlanner {
    /// Finds victims for a preemptor and places for its tasks, and changes nothing. For a gang with a network topology
    /// one HyperNode after the other is tried.
    fn plan(&mut self, session: &mut Session<'_>, preemptor: &Preemptor) -> Result<Plan, PlanFailure> {
        let mut failure = None;
        let EvictionDomains { domains, limit } = domains::of(session, preemptor);
        for domain in domains {
            if domain.hyper_node.is_some() {
                hyper_nodes::choose(session, preemptor.job, &domain, false);
            }
            let planned = self.plan_in_domain(session, preemptor);
            session.chosen_domain = None;
            match planned {
                Ok(plan) => return Ok(plan),
                Err(why) => failure = failure.or(Some(why)),
            }
        }
        let none = || PlanFailure { why: NoEviction::TooLarge, steps: Some(0) };
        let mut failure = failure.unwrap_or_else(none);
        failure.why = match (failure.why, limit) {
            (NoEviction::NotEnough(told), Some(most)) => {
                NoEviction::NotFound(Untried::HyperNodes(most), told)
            }
            (why, _) => why,
        };
        Err(failure)
    }

    fn plan_in_domain(
        &mut self,
        session: &mut Session<'_>,
        preemptor: &Preemptor,
    ) -> Result<Plan, PlanFailure> {
        let any = preemptor.any_victim_key(session);
        let news = session.cluster.retry_events();
        let known = any.as_ref().and_then(|key| session.state.failed_searches.answer(key, news)?.why);
        let (left, whole) = (self.steps.left(), self.steps.are_whole());
        let why = match self.search(session, preemptor, known) {
            Ok(plan) => return Ok(plan),
            Err(why) => self.explained(session, preemptor, why),
        };
        if let (Some(key), NoEviction::NoVictims(_)) = (any, &why) {
            session.state.failed_searches.note(key, Some(why.clone()), 0, news);
        }
        // One that was cut short with the whole budget would be cut short again.
        let is_final = match why {
            NoEviction::Cut(Cut::Time(_)) => false,
            NoEviction::Cut(Cut::Steps(_)) => whole,
            _ => true,
        };
        Err(PlanFailure { why, steps: is_final.then(|| left - self.steps.left()) })
    }

    /// The reason with what protects the running pods.
    fn explained(&self, session: &mut Session<'_>, preemptor: &Preemptor, why: NoEviction) -> NoEviction {
        let mut explain = || {
            let gone = search::together(session, preemptor);
            let short = protection::short(session.cluster, preemptor, &gone, &self.bounds);
            Arc::new(Protected { short, ..protection::of(session, preemptor, &gone) })
        };
        match why {
            NoEviction::NoVictims(protected) if *protected == Protected::default() => {
                NoEviction::NoVictims(Arc::new(protection::of(session, preemptor, &[])))
            }
            NoEviction::NotEnough(_) => NoEviction::NotEnough(explain()),
            NoEviction::NotFound(untried, _) => NoEviction::NotFound(untried, explain()),
            _ => why,
        }
    }
}

/// Does what a plan says. A plan without victims is left in the statement around it where allocate comes later.
fn commit(session: &mut Session<'_>, preemptor: &Preemptor, plan: &Plan) {
    let Preemptor { job, mode, .. } = *preemptor;
    let why = Arc::new(mode.cause(session, job));
    let lost = |task: &TaskId| session.cluster.tasks[*task].job;
    let losers: BTreeSet<JobId> = plan.victims.iter().filter_map(lost).collect();
    let mut statement = session.statement();
    statement.apply(plan);
    if plan.victims.is_empty() && !statement.session().allocate_done {
        statement.leave();
    } else {
        if mode != EvictionMode::WithinJob {
            statement.note_displaced(job, &losers.iter().copied().collect::<Vec<JobId>>());
        }
        plan::commit(statement, job, &why);
    }
    for loser in losers {
        // A gang that is not whole any more has no use for its reservation.
        if loser != job && !session.job_pipelined(loser) {
            reservation::release(session, loser);
        }
    }
    session.state.backlog.refusals.clear(job);
    let reserved = session.cluster.jobs[job].counts.of(Status::Pipelined);
    if reserved > 0 {
        session.refuse(job, Refusal::Reserved(reserved));
    }
}

fn pending(session: &Session<'_>, job: JobId) -> u32 {
    session.cluster.jobs[job].counts.of(Status::Pending)
}

/// Why the queue of a preemptor may not have more, in the action's name unless allocate says the same.
fn not_entitled(session: &Session<'_>, preemptor: &Preemptor, why: Refusal) -> Refusal {
    if session.state.backlog.refusals.of(preemptor.job).contains(&why) {
        return why;
    }
    Refusal::NotEntitled { action: preemptor.mode.action(), why: Box::new(why) }
}
