//! Eviction: one planner for `preempt`, `reclaim`, `gangpreempt` and `gangreclaim`; [`shuffle`] has its rules, budgets, steps
//! and proof of places in common with them, and evicts for nobody.
//!
//! For a job that starves:
//! 1. [`roster`]: who may be a victim, least important first. Plugins protect some whatever others say; then the tiers
//!    are asked, each plugin about those the ones before it left, with the gang's tasks but the last counted as held:
//!    what it will have, not what it has, decides. PodDisruptionBudgets are counted down with it.
//! 2. [`ledger`]: an arithmetic bound says *no* without a search where there cannot be room.
//! 3. [`proof`]: in a statement, the least important are evicted, as few as the bound asks for, and the gang is placed by
//!    the same filters, scores and quotas as in `allocate`; then more, until it fits. Then, the most important first,
//!    each victim is spared without whom the gang fits too, members moving to other nodes where need be.
//! 4. The statement is committed only if the gang is whole. Its tasks keep the room as nominations, across cycles; while
//!    they do it does not starve, so nobody is evicted for it twice.
//!
//! Plugins' answers may depend on the order in which victims are offered (a gang gives up any of its members, but only
//! so many). When the order of importance leads to nothing, the victims are offered node by node, and when they are few
//! every set of them is tried ([`search`]). Where those found break a gang, what gangs have to spare is searched alone
//! before they go.
//!
//! All of it is counted in steps, and an action has only so many in a cycle; on a cluster it has only so much time too.
//! Jobs that had no turn go first in the next.
mod aim;
mod fewer;
mod given;
mod ledger;
mod nobody;
mod proof;
mod purpose;
mod roster;
mod search;
mod shelter;
pub(super) mod shuffle;
mod steps;
mod surplus;
mod takes;
mod vain;

use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::order::{self, Line};
use super::work::Work;
use super::{gather, yielding};
use crate::backlog;
use crate::session::Session;
use aim::Aim;
use ledger::Ledgers;
use nobody::Asker;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::{NoEviction, Refusal, Sheltered};
use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{ClassId, JobId, QueueId, TaskId};
use phalanx_framework::conf::{Allowed, ArgKind, ArgSpec, Otherwise, Rule};
use phalanx_framework::plugin::EvictionKind;
pub(super) use proof::may_keep;
pub(super) use purpose::{Purpose, WHOLE};
use roster::Roster;
use steps::Steps;
pub(crate) use takes::note_taking;
use takes::{Forbidden, Party, Takes};
use vain::Vain;

/// Of steps and milliseconds.
const BUDGET: Rule = Rule::new(Allowed::AtLeast(0), Otherwise::Does("the action finds nothing"));

/// How many steps an action may make in a cycle: a few tenths of a second.
const MAX_STEPS: i64 = 200_000;

/// The argument every evicting action has.
pub(super) const MAX_STEPS_ARG: ArgSpec = ArgSpec {
    name: "maxSteps",
    kind: ArgKind::Int(&[BUDGET]),
    default: "200000",
    doc: "How many steps (mainly places tried, and victims put back) the action may make in a cycle. When they are used \
          up, the jobs that had no turn go first in the next cycle.",
};

/// How long an action may search in a cycle, in milliseconds.
const MAX_TIME: i64 = 1_000;

/// The other argument every evicting action has.
pub(super) const MAX_TIME_ARG: ArgSpec = ArgSpec {
    name: "maxTime",
    kind: ArgKind::Duration(&[BUDGET]),
    default: "1s",
    doc: "How long the action may search in a cycle on a cluster; simulate counts steps only, so that it always comes out \
          the same. What allocate decided is carried out meanwhile.",
};

/// What is known of evictions in cycles before.
#[derive(Debug, Default)]
pub(crate) struct Past {
    vain: Vain,
    takes: Takes,
    /// What searches read of rooms.
    ledgers: Ledgers,
}

impl Past {
    /// A cycle begins.
    pub(crate) fn begin(&mut self, now: Time, nodes: u64, queues_changed: bool) {
        self.vain.begin(now, nodes, queues_changed);
        self.takes.begin(now, queues_changed);
    }

    /// When a cycle is due for searches that were passed over.
    pub(crate) fn wake(&self) -> Option<Time> {
        self.vain.wake()
    }
}

/// Serves the jobs that starve.
pub(super) fn run(session: &mut Session<'_>, purpose: Purpose) {
    let starving = starving(session);
    if starving.is_empty() {
        return;
    }
    let mut planner = Planner::new(session, purpose);
    let passed_over = |job: &JobId| session.world.jobs[*job].passed_over;
    let (first, rest): (Vec<JobId>, Vec<JobId>) = starving.into_iter().partition(passed_over);
    // What is left in it has room without anybody's going, and is for allocate to place.
    let mut statement = session.statement();
    for jobs in [first, rest] {
        planner.serve_all(statement.session(), jobs);
    }
    drop(statement);
    session.past.ledgers = planner.ledgers;
}

/// Jobs that lack what they should have and have tasks to be placed.
fn starving(session: &mut Session<'_>) -> Vec<JobId> {
    let mut jobs = session.waiting_jobs();
    jobs.retain(|job| starves(session, *job));
    jobs
}

fn starves(session: &Session<'_>, job: JobId) -> bool {
    let it = &session.world.jobs[job];
    let gathers = gather::is_gathering(session.world, job);
    (gathers || it.counts.of(Status::Pending) > 0)
        && it.phase != Phase::Pending
        && (gathers || session.job_starving(job))
        && session.job_blocked(job).is_ok()
        && !order::is_behind(session, job)
}

/// Puts the next one in line of those that waited for the same as one that was served.
fn join_next(session: &mut Session<'_>, line: &mut Line, job: JobId) {
    if let Some(next) = backlog::try_next(session, job).filter(|next| starves(session, *next)) {
        line.push(session, next);
    }
}

struct Planner {
    purpose: Purpose,
    roster: Roster,
    steps: Steps,
    ledgers: Ledgers,
    /// Why nobody was evicted for a job like this one, since somebody was evicted last.
    refused: FxHashMap<Like, NoEviction>,
    /// What keeps those who run from being evicted, for whom nobody is let go.
    nobody: FxHashMap<Asker, Arc<Sheltered>>,
}

/// What answers to a job depend on: the action, its queue, its importance, what it holds and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Like {
    purpose: Purpose,
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
    fn new(session: &mut Session<'_>, purpose: Purpose) -> Self {
        let steps = Steps::of_action(session, purpose.action());
        Self {
            purpose,
            roster: Roster::new(session, purpose),
            steps,
            ledgers: std::mem::take(&mut session.past.ledgers),
            refused: FxHashMap::default(),
            nobody: FxHashMap::default(),
        }
    }

    fn serve_all(&mut self, session: &mut Session<'_>, jobs: Vec<JobId>) {
        let mut line = Line::new(session, jobs);
        while let Some(queue) = line.first_queue(session) {
            if self.purpose.kind() == EvictionKind::Reclaim && session.overused(queue).is_some() {
                line.leave(queue);
                continue;
            }
            let Some(job) = line.pop(session, queue) else { continue };
            let (whole, spent) = (self.steps.are_whole(), self.steps.are_spent());
            let pending = |session: &Session<'_>| session.world.jobs[job].counts.of(Status::Pending);
            let before = pending(session);
            let served = if spent { Err(self.no_turn()) } else { self.serve_outranking(session, job) };
            if pending(session) < before {
                join_next(session, &mut line, job);
            }
            // One that came late may need all there is.
            session.world.jobs[job].passed_over = spent || (!whole && self.steps.are_spent());
            session.cut_short |= !whole && self.steps.are_spent() || self.steps.ended_by_time();
            if let Err(refusal) = served {
                session.refuse(job, refusal);
            }
        }
    }

    fn no_turn(&self) -> Refusal {
        Refusal::Eviction { action: self.purpose.action(), why: self.steps.ended() }
    }

    /// Serves a job with what is reserved for those that it outranks given back: a pod that only waits for its room goes
    /// before one that runs.
    fn serve_outranking(&mut self, session: &mut Session<'_>, job: JobId) -> Result<(), Refusal> {
        let lesser = yielding::lesser(session, job);
        if lesser.is_empty() && !gather::is_gathering(session.world, job) {
            return self.serve(session, job);
        }
        let lacks = |session: &Session<'_>| session.world.jobs[job].counts.of(Status::Pending);
        let mut statement = session.statement();
        gather::pause(&mut statement, job);
        let before = lacks(statement.session());
        let yielded = yielding::take_back(&mut statement, &lesser);
        let served = self.serve(statement.session(), job);
        if lacks(statement.session()) < before {
            let outranked = yielding::put_back(&mut statement, yielded, job);
            statement.commit(&Arc::default());
            yielding::tell(session, &outranked, job);
            gather::end(session, job);
        }
        served
    }

    /// Evicts for a job: for its gang as a whole, or for each further task.
    fn serve(&mut self, session: &mut Session<'_>, job: JobId) -> Result<(), Refusal> {
        let pending = |task: &TaskId| session.world.tasks[*task].status == Status::Pending;
        let mut tasks = Work::of_requests(session, job).into_tasks();
        if tasks.is_empty() {
            tasks = Work::of_best_effort(session, job).into_tasks();
        }
        let tasks: Vec<TaskId> = tasks.into_iter().filter(pending).collect();
        if !session.job_whole(job) {
            let Some(aim) = Aim::gang(session, job, &tasks) else { return Ok(()) };
            return self.evict_for(session, &aim, self.purpose);
        }
        self.serve_each(session, job, &tasks)
    }

    fn serve_each(&mut self, session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Result<(), Refusal> {
        let mut failed: FxHashMap<(ClassId, i32), Refusal> = FxHashMap::default();
        for task in tasks {
            if !session.job_starving(job) {
                break;
            }
            let it = &session.world.tasks[*task];
            let like = (it.class, it.priority);
            if it.never_preempts || failed.contains_key(&like) {
                continue;
            }
            let aim = Aim::single(job, *task);
            let mut served = self.evict_for(session, &aim, self.purpose);
            if served.is_err() && self.purpose == Purpose::Preempt {
                served = served.or_else(|refusal| {
                    self.evict_for(session, &aim, Purpose::WithinJob).map_err(|_| refusal)
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
                let it = &session.world.tasks[*task];
                failed.remove(&(it.class, it.priority))
            })
            .map_or(Ok(()), Err)
    }

    /// Whether anybody is to be evicted for an aim, whoever runs.
    fn may_ask(&mut self, session: &mut Session<'_>, aim: &Aim, purpose: Purpose) -> Result<(), Refusal> {
        let refusal = |why| Refusal::Eviction { action: purpose.action(), why };
        if aim.tasks.is_empty() {
            return Err(refusal(NoEviction::Never));
        }
        let queue = session.world.jobs[aim.job].queue;
        let entitled = aim.each_as_last(session, |session, task| match purpose.kind() {
            EvictionKind::Reclaim => session.preemptive(queue, task),
            EvictionKind::Preempt => aim.within_quota_before(session, task),
        });
        entitled.map_err(|why| not_entitled(session, aim, purpose, why))?;
        self.steps.spend(aim.meek.len()).map_err(refusal)?;
        let held_up = aim.held_up_by(session).map(|pod| refusal(NoEviction::NeverOne(pod)));
        held_up.map_or(Ok(()), Err)
    }

    fn evict_for(&mut self, session: &mut Session<'_>, aim: &Aim, purpose: Purpose) -> Result<(), Refusal> {
        let refusal = |why| Refusal::Eviction { action: purpose.action(), why };
        self.may_ask(session, aim, purpose)?;
        let forbidden = session.past.takes.forbidden(&Party::of(session.world, aim.job));
        if let Some(until) = forbidden.until {
            session.backlog.retry_at(aim.job, until);
        }
        let like = like(session, aim, purpose, &forbidden);
        if let Some(why) = self.refused.get(&like) {
            return Err(refusal(why.clone()));
        }
        if let Some((until, why)) = session.past.vain.answer(&like) {
            if let Some(until) = until {
                session.backlog.retry_at(aim.job, until);
            }
            return Err(refusal(why));
        }
        let asker = Asker::of(session, aim, purpose).filter(|_| forbidden.is_empty());
        let (left, whole) = (self.steps.left(), self.steps.are_whole());
        match self.search(session, (aim, purpose, &forbidden), asker.as_ref()) {
            Ok(()) => {
                self.refused.clear();
                self.nobody.clear();
                session.past.vain.evicted(&like);
                session.backlog.refusals.clear(aim.job);
                let reserved = session.world.jobs[aim.job].counts.of(Status::Pipelined);
                if reserved > 0 {
                    session.refuse(aim.job, Refusal::Reserved(reserved));
                }
                Ok(())
            }
            Err(why) => {
                let why = self.explained(session, (aim, &like), purpose, why);
                if let (Some(asker), NoEviction::NoVictims(told)) = (asker, &why) {
                    self.nobody.insert(asker, Arc::clone(told));
                }
                // With all the steps there are it would be cut short again.
                if whole && !self.steps.ended_by_time() || !matches!(why, NoEviction::Cut(_)) {
                    session.past.vain.note(&like, left - self.steps.left(), &why);
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
        (aim, purpose, forbidden): (&Aim, Purpose, &Forbidden),
        asker: Option<&Asker>,
    ) -> Result<(), NoEviction> {
        let Self { roster, steps, ledgers, nobody, .. } = self;
        match asker.and_then(|asker| nobody.get(asker)) {
            Some(told) if nobody::needs_somebody(session, aim, (&mut *steps, &mut *ledgers))? => {
                Err(NoEviction::NoVictims(Arc::clone(told)))
            }
            _ => search::evict_for(session, (aim, purpose, forbidden), roster, (steps, ledgers)),
        }
    }

    /// The same reason, with what keeps those that run.
    fn explained(
        &self,
        session: &mut Session<'_>,
        (aim, like): (&Aim, &Like),
        purpose: Purpose,
        why: NoEviction,
    ) -> NoEviction {
        let known = session.past.vain.told(like);
        match why {
            NoEviction::NoVictims(told) if *told == Sheltered::default() => NoEviction::NoVictims(
                known.unwrap_or_else(|| Arc::new(shelter::of(session, aim, purpose, &[]))),
            ),
            NoEviction::NotEnough(_) => NoEviction::NotEnough(known.unwrap_or_else(|| {
                let gone = search::together(session, aim, purpose, &self.roster);
                let short = shelter::short(session.world, aim, &gone, &self.ledgers);
                Arc::new(Sheltered { short, ..shelter::of(session, aim, purpose, &gone) })
            })),
            _ => why,
        }
    }
}

/// In the action's name, unless allocate says the same.
fn not_entitled(session: &Session<'_>, aim: &Aim, purpose: Purpose, why: Refusal) -> Refusal {
    if session.backlog.refusals.of(aim.job).contains(&why) {
        return why;
    }
    Refusal::NotEntitled { action: purpose.action(), why: Box::new(why) }
}

fn like(session: &Session<'_>, aim: &Aim, purpose: Purpose, forbidden: &Forbidden) -> Like {
    let world = &*session.world;
    let job = &world.jobs[aim.job];
    let of = |task: &TaskId| {
        let task = &world.tasks[*task];
        (task.class, task.priority, task.never_preempts)
    };
    Like {
        purpose,
        // Who may be evicted within a job is nobody else's answer, nor is what others are kept from.
        within: (purpose == Purpose::WithinJob || !forbidden.is_empty()).then_some(aim.job),
        queue: job.queue,
        priority: job.priority,
        preemptable: job.preemptable,
        holds: [job.allocated.clone(), job.pipelined.clone()],
        tasks: aim.meek.iter().chain(&aim.tasks).map(of).collect(),
        wanted: aim.wanted,
    }
}
