//! Eviction: one planner for the actions `preempt`, `reclaim`, `gangpreempt` and `gangreclaim`. The action `shuffle` shares
//! the rules about protected pods, the step budget and the proof of a place, and evicts for nobody. The page
//! `crates/design/eviction.md` explains the design.
//!
//! For a job that starves, the *preemptor*:
//! 1. [`potential_victims`]: the pods that may be evicted, in order. Plugins protect some, whoever the preemptor is; the tiers
//!    are asked about the others, with all tasks of the gang but the last counted as allocated. PodDisruptionBudgets are
//!    counted down.
//! 2. [`feasibility`]: arithmetic that says no without a search.
//! 3. [`plan`]: the strategies *ordered*, *per node*, *per domain* and *surplus* choose potential victims to try.
//! 4. [`dry_run`]: in a Statement, as few of them are evicted as the bound asks for, and the gang is placed by the filters,
//!    scores and quotas of `allocate`; more follow until it fits. Then each victim is reprieved without whom the gang fits,
//!    the most important first.
//! 5. The Statement is committed only if the gang is whole. The gang's tasks keep their nodes as nominations across cycles,
//!    so the job does not starve and nobody is evicted for it twice.
//!
//! Searches are counted in steps, and an action has a number of steps and a time in a cycle. Jobs that had no turn go first in
//! the next cycle.
pub(crate) mod dry_run;
mod failed_searches;
mod feasibility;
mod history;
mod mode;
mod no_victims;
mod plan;
pub(crate) mod potential_victims;
mod preemptor;
mod protection;
pub(crate) mod steps;

use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use crate::actions::order::{self, JobsByQueue};
use crate::backlog;
use crate::gang::TaskQueue;
use crate::gang::{repair, takeover};
use crate::session::Session;
pub(crate) use dry_run::may_keep;
use failed_searches::FailedSearches;
use feasibility::FeasibilityBounds;
pub(crate) use history::record_eviction;
use history::{EvictionHistory, JobIdentity, ProtectedJobs};
pub(crate) use mode::{EvictionMode, WHOLE};
use no_victims::Asker;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::{NoEviction, Protected, Refusal};
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{ClassId, JobId, QueueId, TaskId};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Otherwise, Rule};
use phalanx_framework::plugin::EvictionKind;
use potential_victims::PotentialVictims;
use preemptor::Preemptor;
use steps::Steps;

/// Of steps and milliseconds.
const BUDGET: Rule = Rule::new(Allowed::AtLeast(0), Otherwise::Does("the action finds nothing"));

/// How many steps an action may make in a cycle: a few tenths of a second.
const MAX_STEPS: i64 = 200_000;

/// The argument every evicting action has.
pub(crate) const MAX_STEPS_ARG: ArgSpec = ArgSpec {
    name: "maxSteps",
    kind: ArgKind::Int(&[BUDGET]),
    default: "200000",
    doc: "How many steps (mainly places tried, and victims put back) the action may make in a cycle. When they are used \
          up, the jobs that had no turn go first in the next cycle.",
};

/// How long an action may search in a cycle, in milliseconds.
const MAX_TIME: i64 = 1_000;

/// The other argument every evicting action has.
pub(crate) const MAX_TIME_ARG: ArgSpec = ArgSpec {
    name: "maxTime",
    kind: ArgKind::Duration(&[BUDGET]),
    default: "1s",
    doc: "How long the action may search in a cycle on a cluster; simulate counts steps only, so that it always comes out \
          the same. What allocate decided is carried out meanwhile.",
};

/// What eviction remembers across cycles.
#[derive(Debug, Default)]
pub(crate) struct EvictionState {
    failed_searches: FailedSearches,
    history: EvictionHistory,
    /// What searches read of rooms.
    bounds: FeasibilityBounds,
}

impl EvictionState {
    /// A cycle begins.
    pub(crate) fn begin(&mut self, now: Time, nodes: u64, queues_changed: bool) {
        self.failed_searches.begin(now, nodes, queues_changed);
        self.history.begin(now, queues_changed);
    }

    /// When a cycle is due for searches that were passed over.
    pub(crate) fn wake(&self) -> Option<Time> {
        self.failed_searches.wake()
    }
}

/// Serves the jobs that starve.
pub(crate) fn run(session: &mut Session<'_>, mode: EvictionMode) {
    let starving = starving(session);
    if starving.is_empty() {
        return;
    }
    let mut planner = Planner::new(session, mode);
    let passed_over = |job: &JobId| session.backlog.is_eviction_deferred(*job);
    let (first, rest): (Vec<JobId>, Vec<JobId>) = starving.into_iter().partition(passed_over);
    // What is left in it has room without anybody's going, and is for allocate to place.
    let mut statement = session.statement();
    for jobs in [first, rest] {
        planner.serve_all(statement.session(), jobs);
    }
    drop(statement);
    session.past.bounds = planner.bounds;
}

/// Jobs that lack what they should have and have tasks to be placed.
fn starving(session: &mut Session<'_>) -> Vec<JobId> {
    let mut jobs = session.waiting_jobs();
    jobs.retain(|job| starves(session, *job));
    jobs
}

fn starves(session: &Session<'_>, job: JobId) -> bool {
    let it = &session.cluster.jobs[job];
    let gathers = repair::is_repair(session, job);
    (gathers || it.counts.of(Status::Pending) > 0)
        && it.phase != Phase::Pending
        && (gathers || session.job_starving(job))
        && session.job_blocked(job).is_ok()
        && !order::is_behind(session, job)
}

/// Puts the next one in line of those that waited for the same as one that was served.
fn join_next(session: &mut Session<'_>, line: &mut JobsByQueue, job: JobId) {
    if let Some(next) = backlog::try_next(session, job).filter(|next| starves(session, *next)) {
        line.push(session, next);
    }
}

struct Planner {
    mode: EvictionMode,
    potential_victims: PotentialVictims,
    steps: Steps,
    bounds: FeasibilityBounds,
    /// Why nobody was evicted for a job like this one, since somebody was evicted last.
    refused: FxHashMap<Like, NoEviction>,
    /// What keeps those who run from being evicted, for whom nobody is let go.
    nobody: FxHashMap<Asker, Arc<Protected>>,
}

/// What answers to a job depend on: the action, its queue, its importance, what it holds and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Like {
    mode: EvictionMode,
    within: Option<JobId>,
    queue: QueueId,
    priority: i32,
    preemptable: Option<bool>,
    holds: [Amounts; 2],
    /// Class, priority and manners of each task.
    tasks: Vec<(ClassId, i32, bool)>,
    wanted: usize,
}

impl Planner {
    fn new(session: &mut Session<'_>, mode: EvictionMode) -> Self {
        let steps = Steps::of_action(session, mode.action());
        Self {
            mode,
            potential_victims: PotentialVictims::new(session, mode),
            steps,
            bounds: std::mem::take(&mut session.past.bounds),
            refused: FxHashMap::default(),
            nobody: FxHashMap::default(),
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
            let (whole, spent) = (self.steps.are_whole(), self.steps.are_spent());
            let pending = |session: &Session<'_>| session.cluster.jobs[job].counts.of(Status::Pending);
            let before = pending(session);
            let served = if spent { Err(self.no_turn()) } else { self.serve_outranking(session, job) };
            if pending(session) < before {
                join_next(session, &mut line, job);
            }
            // One that came late may need all there is.
            session.backlog.defer_eviction(job, spent || (!whole && self.steps.are_spent()));
            session.cut_short |= !whole && self.steps.are_spent() || self.steps.ended_by_time();
            if let Err(refusal) = served {
                session.refuse(job, refusal);
            }
        }
    }

    fn no_turn(&self) -> Refusal {
        Refusal::Eviction { action: self.mode.action(), why: self.steps.ended() }
    }

    /// Serves a job with what is reserved for those that it outranks given back: a pod that only waits for its room goes
    /// before one that runs.
    fn serve_outranking(&mut self, session: &mut Session<'_>, job: JobId) -> Result<(), Refusal> {
        let lesser = takeover::lesser(session, job);
        if lesser.is_empty() && !repair::is_repair(session, job) {
            return self.serve(session, job);
        }
        let lacks = |session: &Session<'_>| session.cluster.jobs[job].counts.of(Status::Pending);
        let mut statement = session.statement();
        repair::take_back(&mut statement, job);
        let before = lacks(statement.session());
        let yielded = takeover::take_back(&mut statement, &lesser);
        let served = self.serve(statement.session(), job);
        if lacks(statement.session()) < before {
            let outranked = takeover::give_back(&mut statement, yielded, job);
            statement.commit(&Arc::default());
            takeover::tell(session, &outranked, job);
            repair::end(session, job);
        }
        served
    }

    /// Evicts for a job: for its gang as a whole, or for each further task.
    fn serve(&mut self, session: &mut Session<'_>, job: JobId) -> Result<(), Refusal> {
        let pending = |task: &TaskId| session.cluster.tasks[*task].status == Status::Pending;
        let mut tasks = TaskQueue::of_requests(session, job).into_tasks();
        if tasks.is_empty() {
            tasks = TaskQueue::of_best_effort(session, job).into_tasks();
        }
        let tasks: Vec<TaskId> = tasks.into_iter().filter(pending).collect();
        if !session.job_whole(job) {
            let Some(preemptor) = Preemptor::gang(session, job, &tasks) else { return Ok(()) };
            return self.evict_for(session, &preemptor, self.mode);
        }
        self.serve_each(session, job, &tasks)
    }

    fn serve_each(&mut self, session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Result<(), Refusal> {
        let mut failed: FxHashMap<(ClassId, i32), Refusal> = FxHashMap::default();
        for task in tasks {
            if !session.job_starving(job) {
                break;
            }
            let it = &session.cluster.tasks[*task];
            let like = (it.class, it.priority);
            if it.never_preempts || failed.contains_key(&like) {
                continue;
            }
            let preemptor = Preemptor::single(job, *task);
            let mut served = self.evict_for(session, &preemptor, self.mode);
            if served.is_err() && self.mode == EvictionMode::Preempt {
                served = served.or_else(|refusal| {
                    self.evict_for(session, &preemptor, EvictionMode::WithinJob).map_err(|_| refusal)
                });
            }
            if let Err(refusal) = served {
                failed.insert(like, refusal);
            }
        }
        // The first by order of tasks is as good as any.
        tasks
            .iter()
            .find_map(|task| {
                let it = &session.cluster.tasks[*task];
                failed.remove(&(it.class, it.priority))
            })
            .map_or(Ok(()), Err)
    }

    /// Whether anybody is to be evicted for an preemptor, whoever runs.
    fn may_ask(
        &mut self,
        session: &mut Session<'_>,
        preemptor: &Preemptor,
        mode: EvictionMode,
    ) -> Result<(), Refusal> {
        let refusal = |why| Refusal::Eviction { action: mode.action(), why };
        if preemptor.tasks.is_empty() {
            return Err(refusal(NoEviction::Never));
        }
        let queue = session.cluster.jobs[preemptor.job].queue;
        let entitled = preemptor.each_as_last(session, |session, task| match mode.kind() {
            EvictionKind::Reclaim => session.preemptive(queue, task),
            EvictionKind::Preempt => preemptor.within_quota_before(session, task),
        });
        entitled.map_err(|why| not_entitled(session, preemptor, mode, why))?;
        self.steps.spend(preemptor.non_preempting.len()).map_err(refusal)?;
        let held_up = preemptor.held_up_by(session).map(|pod| refusal(NoEviction::NeverOne(pod)));
        held_up.map_or(Ok(()), Err)
    }

    fn evict_for(
        &mut self,
        session: &mut Session<'_>,
        preemptor: &Preemptor,
        mode: EvictionMode,
    ) -> Result<(), Refusal> {
        let refusal = |why| Refusal::Eviction { action: mode.action(), why };
        self.may_ask(session, preemptor, mode)?;
        let protected = session.past.history.protected(&JobIdentity::of(session.cluster, preemptor.job));
        if let Some(until) = protected.until {
            session.backlog.retry_at(preemptor.job, until);
        }
        let like = like(session, preemptor, mode, &protected);
        if let Some(why) = self.refused.get(&like) {
            return Err(refusal(why.clone()));
        }
        if let Some((until, why)) = session.past.failed_searches.answer(&like) {
            if let Some(until) = until {
                session.backlog.retry_at(preemptor.job, until);
            }
            return Err(refusal(why));
        }
        let asker = Asker::of(session, preemptor, mode).filter(|_| protected.is_empty());
        let (left, whole) = (self.steps.left(), self.steps.are_whole());
        match self.search(session, (preemptor, mode, &protected), asker.as_ref()) {
            Ok(()) => {
                self.refused.clear();
                self.nobody.clear();
                session.past.failed_searches.evicted(&like);
                session.backlog.refusals.clear(preemptor.job);
                let reserved = session.cluster.jobs[preemptor.job].counts.of(Status::Pipelined);
                if reserved > 0 {
                    session.refuse(preemptor.job, Refusal::Reserved(reserved));
                }
                Ok(())
            }
            Err(why) => {
                let why = self.explained(session, (preemptor, &like), mode, why);
                if let (Some(asker), NoEviction::NoVictims(told)) = (asker, &why) {
                    self.nobody.insert(asker, Arc::clone(told));
                }
                // With all the steps there are it would be cut short again.
                if whole && !self.steps.ended_by_time() || !matches!(why, NoEviction::Cut(_)) {
                    session.past.failed_searches.note(&like, left - self.steps.left(), &why);
                    self.refused.insert(like, why.clone());
                }
                Err(refusal(why))
            }
        }
    }
}

impl Planner {
    fn search(
        &mut self,
        session: &mut Session<'_>,
        (preemptor, mode, protected): (&Preemptor, EvictionMode, &ProtectedJobs),
        asker: Option<&Asker>,
    ) -> Result<(), NoEviction> {
        let Self { potential_victims, steps, bounds, nobody, .. } = self;
        match asker.and_then(|asker| nobody.get(asker)) {
            Some(told) if no_victims::needs_eviction(session, preemptor, (&mut *steps, &mut *bounds))? => {
                Err(NoEviction::NoVictims(Arc::clone(told)))
            }
            _ => plan::evict_for(session, (preemptor, mode, protected), potential_victims, (steps, bounds)),
        }
    }

    /// The same reason, with what keeps those that run.
    fn explained(
        &self,
        session: &mut Session<'_>,
        (preemptor, like): (&Preemptor, &Like),
        mode: EvictionMode,
        why: NoEviction,
    ) -> NoEviction {
        let known = session.past.failed_searches.told(like);
        let told = || {
            let gone = plan::together(session, preemptor, mode, &self.potential_victims);
            let short = protection::short(session.cluster, preemptor, &gone, &self.bounds);
            Arc::new(Protected { short, ..protection::of(session, preemptor, mode, &gone) })
        };
        match why {
            NoEviction::NoVictims(told) if *told == Protected::default() => NoEviction::NoVictims(
                known.unwrap_or_else(|| Arc::new(protection::of(session, preemptor, mode, &[]))),
            ),
            NoEviction::NotEnough(_) => NoEviction::NotEnough(known.unwrap_or_else(told)),
            NoEviction::NotFound(untried, _) => NoEviction::NotFound(untried, known.unwrap_or_else(told)),
            _ => why,
        }
    }
}

/// In the action's name, unless allocate says the same.
fn not_entitled(session: &Session<'_>, preemptor: &Preemptor, mode: EvictionMode, why: Refusal) -> Refusal {
    if session.backlog.refusals.of(preemptor.job).contains(&why) {
        return why;
    }
    Refusal::NotEntitled { action: mode.action(), why: Box::new(why) }
}

fn like(session: &Session<'_>, preemptor: &Preemptor, mode: EvictionMode, protected: &ProtectedJobs) -> Like {
    let cluster = &*session.cluster;
    let job = &cluster.jobs[preemptor.job];
    let of = |task: &TaskId| {
        let task = &cluster.tasks[*task];
        (task.class, task.priority, task.never_preempts)
    };
    Like {
        mode,
        // Who may be evicted within a job is nobody else's answer, nor is what others are kept from.
        within: (mode == EvictionMode::WithinJob || !protected.is_empty()).then_some(preemptor.job),
        queue: job.queue,
        priority: job.priority,
        preemptable: job.preemptable,
        holds: [job.allocated.clone(), job.pipelined.clone()],
        tasks: preemptor.non_preempting.iter().chain(&preemptor.tasks).map(of).collect(),
        wanted: preemptor.wanted,
    }
}
