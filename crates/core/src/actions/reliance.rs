//! Promised places that rest on who is where: each gang that has some can start in them, and nobody takes that away.
//!
//! A pod that seeks company may be promised a place beside one that is itself only promised its place. When the pods are gone
//! for which both got theirs, each waits for the other. So promised places hold only as long as there is an order in which the
//! gangs that have them can start, each beside those before it and what is there; others are given up. And what would keep such
//! a gang from starting is not done: company is not evicted, and pods of the kind that it is to be the first of, or is spread
//! among, wait until it has started. After ten minutes nobody waits for it any more: a pod that never ends may hold its places.
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::hold::{self, Places};
use super::{gather, start};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, TaskId, TermId};
use phalanx_cluster::{Status, World};

/// So many promised places are looked at in a cycle for what jobs would do to them: some milliseconds.
const MOST: usize = 2_000;

/// For so long a gang that waits in promised places keeps others from what would let it down, in milliseconds.
const PATIENCE: i64 = 600_000;

/// What can start by itself: a gang as a whole, or a pod of a job that has started.
struct Unit {
    job: JobId,
    places: Places,
}

/// Whether any gang waits in promised places.
pub(super) fn is_at_stake(session: &Session<'_>) -> bool {
    !session.reserved.is_empty()
}

/// Whether a place may be looked for where no such gang is let down: not when so many were looked at in this cycle that what
/// follows would not be any more.
pub(super) fn may_seek(session: &Session<'_>) -> bool {
    2 * session.doubted < MOST
}

/// Gives up the promised places for which there is no such order.
pub(super) fn give_up(session: &mut Session<'_>, jobs: &[JobId]) {
    let relies = |job: &&JobId| {
        session.reserved.contains(*job)
            && !gather::is_gathering(session.world, **job)
            && relies_on_promises(session.world, **job)
    };
    let mut left: Vec<JobId> = jobs.iter().filter(relies).copied().collect();
    if left.iter().all(|job| start::is_known(session, *job)) {
        return;
    }
    left.sort_by(|a, b| session.job_order(*a, *b));
    let others = sought_by(session, &left);
    for unit in without_order(session, &left, &others) {
        let mut statement = session.statement();
        for (task, _) in unit.places {
            statement.unplace(task);
        }
        statement.commit(&Arc::default());
    }
}

/// Others with promised places, whose pods are of the kinds that these jobs seek: each may start before them, or behind.
fn sought_by(session: &Session<'_>, jobs: &[JobId]) -> Vec<JobId> {
    let world = &*session.world;
    let promised = |job: JobId| {
        let tasks = world.jobs[job].tasks.iter();
        tasks.copied().filter(|task| world.tasks[*task].status == Status::Pipelined)
    };
    let terms: FxHashSet<TermId> = jobs
        .iter()
        .flat_map(|job| promised(*job))
        .flat_map(|task| world.class_of(task).carried.sought())
        .collect();
    let is_sought =
        |task: TaskId| world.terms.relied_on(world.class_of(task)).any(|term| terms.contains(&term));
    let others = session.reserved.iter().copied().filter(|job| !jobs.contains(job));
    others.filter(|job| promised(*job).any(is_sought)).collect()
}

/// What of these jobs cannot start in its promised places, whatever starts first. Where none of them can, the others do.
fn without_order(session: &mut Session<'_>, jobs: &[JobId], others: &[JobId]) -> Vec<Unit> {
    let mut statement = session.statement();
    let [mut left, mut others] = [jobs, others]
        .map(|jobs| -> Vec<Unit> { jobs.iter().flat_map(|job| units(statement.session(), *job)).collect() });
    for (task, _) in left.iter().chain(&others).flat_map(|unit| &unit.places) {
        statement.unplace(*task);
    }
    start_each(&mut statement, &mut left);
    if !left.is_empty() && !others.is_empty() {
        start_each(&mut statement, &mut others);
        start_each(&mut statement, &mut left);
    }
    left
}

/// Gives those their places that can start, until no more can.
fn start_each(statement: &mut Statement<'_, '_>, left: &mut Vec<Unit>) {
    let mut before = usize::MAX;
    while left.len() < before {
        before = left.len();
        left.retain(|Unit { places, .. }| {
            let starts = hold::can_start(statement.session(), places);
            for (task, node) in places.iter().filter(|_| starts) {
                statement.pipeline(*task, *node);
            }
            !starts
        });
    }
}

fn units(session: &Session<'_>, job: JobId) -> Vec<Unit> {
    if hold::is_reserved(session, job) {
        return vec![Unit { job, places: hold::places(session, job) }];
    }
    let mut places = hold::places(session, job);
    places.retain(|(task, _)| session.world.tasks[*task].status == Status::Pipelined);
    places.into_iter().map(|place| Unit { job, places: vec![place] }).collect()
}

/// A gang that could not start in its places any more after this statement for a job: pods go that its members are to be with, or
/// they are to be the first of their kind, and the job's are of it. Those that the job outranks have lost to it, unless it needs
/// them beside it.
pub(super) fn let_down(statement: &mut Statement<'_, '_>, job: JobId) -> Option<JobId> {
    let fallen = fallen(statement, job);
    let session = statement.session();
    let spared = fallen.iter().copied().find(|gang| !session.outranks(job, *gang));
    let spared =
        spared.or_else(|| fallen.first().copied().filter(|_| !does_without(statement, job, &fallen)));
    if spared.is_none() {
        statement.take_from(job, &fallen);
    }
    spared
}

/// Whether a job could start in its places if these gangs had none.
fn does_without(statement: &mut Statement<'_, '_>, job: JobId, gangs: &[JobId]) -> bool {
    let mut without = statement.nested();
    for gang in gangs {
        for (task, _) in hold::places(without.session(), *gang) {
            without.unplace(task);
        }
    }
    stands(without.session(), job)
}

/// Until when others wait for a gang.
pub(super) fn patience(session: &Session<'_>, gang: JobId) -> Time {
    let since = session.world.jobs[gang].promised.unwrap_or(session.now);
    Time(since.0.saturating_add(PATIENCE))
}

/// Where a task on a node counts for what others rely on.
pub(super) fn domains(world: &World, task: TaskId, node: NodeId) -> SmallVec<[Option<u32>; 4]> {
    world.terms.relied_on(world.class_of(task)).map(|term| world.terms.domain_of(term, node)).collect()
}

/// Why a job waits that would let a gang down.
pub(super) fn refusal(session: &Session<'_>, gang: JobId) -> Refusal {
    Refusal::LetsDown { job: session.world.jobs[gang].key.clone() }
}

/// A gang that a job does not outrank and that could not start in its places any more without this task, which may be of its own.
pub(super) fn who_relies_on(session: &mut Session<'_>, job: JobId, task: TaskId) -> Option<JobId> {
    let waits = |own: &JobId| session.now < patience(session, *own) && hold::is_reserved(session, *own);
    let own = session.world.tasks[task].job.filter(|own| *own != job && waits(own));
    if let Some(own) = own.filter(|own| !session.outranks(job, *own)) {
        let mut statement = session.statement();
        statement.evict(task);
        if !hold::is_reserved(statement.session(), own) {
            return Some(own);
        }
    }
    let world = &*session.world;
    world.terms.relied_on(world.class_of(task)).next()?;
    let mut statement = session.statement();
    statement.evict(task);
    let fallen = fallen(&mut statement, job);
    fallen.into_iter().find(|gang| !statement.session().outranks(job, *gang))
}

/// Gangs that could start in their places before this statement for a job, and cannot after it.
fn fallen(statement: &mut Statement<'_, '_>, job: JobId) -> Vec<JobId> {
    let gangs = relying(statement, job);
    if gangs.is_empty() {
        return gangs;
    }
    let session = statement.session();
    let mut fallen = gangs.clone();
    fallen.retain(|gang| !stands(session, *gang));
    // Who starts is there before them; of those that wait any may be the first.
    let all: Vec<JobId> = gangs.into_iter().chain([job]).collect();
    fallen.extend(
        without_order(session, &all, &[]).into_iter().map(|unit| unit.job).filter(|gang| *gang != job),
    );
    let mut before = statement.undone();
    fallen.retain(|gang| stands(before.session(), *gang));
    fallen
}

/// Whether a gang can start in its places when all else is as it is.
fn stands(session: &mut Session<'_>, gang: JobId) -> bool {
    let places = hold::places(session, gang);
    hold::can_start(session, &places)
}

/// Gangs with promised places that what moves in a statement for a job may matter to; not so many that the cycle would be long.
fn relying(statement: &mut Statement<'_, '_>, job: JobId) -> Vec<JobId> {
    if !is_at_stake(statement.session()) {
        return Vec::new();
    }
    let moved = Moved::of(statement);
    let session = statement.session();
    if moved.is_empty() {
        return Vec::new();
    }
    let relies = |gang: &JobId| {
        *gang != job
            && session.now < patience(session, *gang)
            && hold::is_reserved(session, *gang)
            && moved.matters(session.world, *gang)
    };
    let mut gangs: Vec<JobId> = session.reserved.iter().copied().filter(relies).collect();
    gangs.retain(|gang| {
        let places = session.world.jobs[*gang].counts.of(Status::Pipelined) as usize;
        let asked = session.doubted + places <= MOST;
        session.doubted += if asked { places } else { 0 };
        asked
    });
    gangs
}

/// Where pods come or go of the kinds that others with promised places seek, or are spread among.
#[derive(Default)]
struct Moved {
    domains: FxHashSet<(TermId, u32)>,
    /// Where it matters in all domains: there may be fewer in the emptiest, or the first of a kind somewhere.
    everywhere: FxHashSet<TermId>,
}

impl Moved {
    fn of(statement: &mut Statement<'_, '_>) -> Self {
        let moves: Vec<(TaskId, Option<NodeId>)> = statement.moves().collect();
        let world = &*statement.session().world;
        let (mut moved, mut counts) = (Self::default(), FxHashMap::<TermId, u32>::default());
        for (task, before) in moves {
            let it = &world.tasks[task];
            let leaves = it.status == Status::Releasing || before.is_some() && before != it.node;
            for term in world.terms.relied_on(world.class_of(task)) {
                *counts.entry(term).or_default() += 1;
                let nodes = before.into_iter().chain(it.node);
                moved
                    .domains
                    .extend(nodes.filter_map(|node| Some((term, world.terms.domain_of(term, node)?))));
                moved.everywhere.extend(leaves.then_some(term));
            }
        }
        let first = counts.into_iter().filter(|(term, count)| world.terms.total(*term)[0] <= *count);
        moved.everywhere.extend(first.map(|(term, _)| term));
        moved
    }

    fn is_empty(&self) -> bool {
        self.domains.is_empty() && self.everywhere.is_empty()
    }

    fn matters(&self, world: &World, gang: JobId) -> bool {
        let seeks_there = |task: &TaskId| {
            let node = world.tasks[*task].node;
            let here = |term| node.and_then(|node| world.terms.domain_of(term, node));
            let touched = |term| here(term).is_some_and(|domain| self.domains.contains(&(term, domain)));
            world
                .class_of(*task)
                .carried
                .sought()
                .any(|term| self.everywhere.contains(&term) || touched(term))
        };
        world.jobs[gang].tasks.iter().any(seeks_there)
    }
}

/// Whether pods that are only promised their places, its own too, are of the kind that pods of a job are to be with, or spread among.
fn relies_on_promises(world: &World, job: JobId) -> bool {
    let nominated = |task: &&TaskId| world.tasks[**task].status == Status::Pipelined;
    let mut sought = world.jobs[job]
        .tasks
        .iter()
        .filter(nominated)
        .flat_map(|task| world.class_of(*task).carried.sought());
    sought.any(|term| world.terms.promised(term) > 0)
}
