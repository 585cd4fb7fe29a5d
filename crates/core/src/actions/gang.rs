//! Places one job: all that it needs to start in one statement, or nothing.
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::diagnosis::Refusal;
use crate::id::{ClassId, JobId, TaskId};
use crate::placement::Room;
use crate::session::Session;
use crate::statement::Statement;
use crate::world::{Job, Status, World};

/// The tasks of a job that wait, in the order in which they are served.
#[derive(Debug)]
pub(super) struct Work {
    tasks: Vec<TaskId>,
    next: usize,
}

/// How serving a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// It got what it needed and has more tasks that compete anew.
    MoreToDo,
    /// Nothing more to do for it in this cycle.
    Done,
}

impl Work {
    /// Tasks with requests, and behind them those without that their gang needs to be whole.
    pub(super) fn of_requests(session: &Session<'_>, job: JobId) -> Self {
        let world = &*session.world;
        let it = &world.jobs[job];
        let (mut idle, mut tasks): (Vec<_>, Vec<_>) =
            waiting(world, it).partition(|task| world.class_of(*task).best_effort);
        sort(session, &mut tasks);
        if !tasks.is_empty() && needs_best_effort(world, it) {
            sort(session, &mut idle);
            tasks.extend(idle);
        }
        Self { tasks, next: 0 }
    }

    /// Tasks without requests.
    pub(super) fn of_best_effort(session: &Session<'_>, job: JobId) -> Self {
        let world = &*session.world;
        let mut tasks: Vec<_> =
            waiting(world, &world.jobs[job]).filter(|task| world.class_of(*task).best_effort).collect();
        sort(session, &mut tasks);
        Self { tasks, next: 0 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next >= self.tasks.len()
    }
}

fn waiting<'a>(world: &'a World, job: &'a Job) -> impl Iterator<Item = TaskId> + 'a {
    job.tasks.iter().copied().filter(|task| world.tasks[*task].is_schedulable())
}

/// Whether the tasks with requests are too few to make the gang, so that those without must start with them.
fn needs_best_effort(world: &World, job: &Job) -> bool {
    let with_requests = waiting(world, job).filter(|task| !world.class_of(*task).best_effort).count() as u32;
    job.counts.ready() + with_requests < job.min_member || job.roles.iter().any(|role| role.min > 0)
}

fn sort(session: &Session<'_>, tasks: &mut [TaskId]) {
    tasks.sort_by(|a, b| session.task_order(*a, *b));
}

/// Places tasks until the job is ready; commits what it got, or undoes all of it.
pub(super) fn serve(session: &mut Session<'_>, job: JobId, work: &mut Work) -> Served {
    let why: Arc<str> = Arc::from("");
    let mut refusals = Vec::new();
    let mut statement = session.statement();
    take_back(&mut statement, &work.tasks[work.next..]);
    let placed = place_until_ready(&mut statement, job, work, &mut refusals);
    if statement.session().job_ready(job) {
        statement.commit(&why);
        note(session, job, refusals);
        return if work.is_empty() || placed == 0 { Served::Done } else { Served::MoreToDo };
    }
    if statement.session().job_pipelined(job) {
        statement.commit_reserved(&why);
        let reserved = session.world.jobs[job].counts.of(Status::Pipelined);
        session.refuse(job, Refusal::Reserved(reserved));
        return Served::Done;
    }
    refusals.extend(partial(&session_counts(&mut statement, job)));
    drop(statement);
    release(session, job);
    note(session, job, refusals);
    Served::Done
}

/// How far the gang came: members with a place, and how many it needs.
struct Reached {
    placed: u32,
    wanted: u32,
}

fn session_counts(statement: &mut Statement<'_, '_>, job: JobId) -> Reached {
    let it = &statement.session().world.jobs[job];
    Reached { placed: it.counts.ready() + it.counts.of(Status::Pipelined), wanted: it.min_member }
}

fn partial(reached: &Reached) -> Option<Refusal> {
    (reached.wanted > 1 && reached.placed < reached.wanted)
        .then_some(Refusal::Partial { placed: reached.placed, wanted: reached.wanted })
}

/// Nominations of earlier cycles are taken back, so that their tasks are placed anew: on the same node, unless
/// there is room at once on another.
fn take_back(statement: &mut Statement<'_, '_>, tasks: &[TaskId]) {
    for task in tasks {
        if statement.session().world.tasks[*task].status == Status::Pipelined {
            statement.unplace(*task);
        }
    }
}

/// Gives up the nominations of a job that cannot be whole any more.
pub(super) fn release(session: &mut Session<'_>, job: JobId) {
    if session.world.jobs[job].counts.of(Status::Pipelined) == 0 {
        return;
    }
    let tasks = session.world.jobs[job].tasks.clone();
    let mut statement = session.statement();
    take_back(&mut statement, &tasks);
    statement.commit(&Arc::from(""));
}

fn place_until_ready(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    work: &mut Work,
    refusals: &mut Vec<Refusal>,
) -> u32 {
    let queue = statement.session().world.jobs[job].queue;
    let mut failed: FxHashSet<ClassId> = FxHashSet::default();
    let mut placed = 0;
    while let Some(&task) = work.tasks.get(work.next) {
        work.next += 1;
        let session = statement.session();
        let class = session.world.tasks[task].class;
        if failed.contains(&class) {
            continue;
        }
        if let Err(refusal) = session.allocatable(queue, task) {
            failed.insert(class);
            refusals.push(refusal);
            continue;
        }
        match session.spot(task) {
            Some(spot) if spot.room == Room::Now => statement.allocate(task, spot.node),
            Some(spot) => statement.pipeline(task, spot.node),
            None => {
                failed.insert(class);
                refusals.push(session.no_node(task));
                continue;
            }
        }
        placed += 1;
        if statement.session().job_ready(job) {
            break;
        }
    }
    placed
}

fn note(session: &mut Session<'_>, job: JobId, refusals: Vec<Refusal>) {
    for refusal in refusals {
        session.refuse(job, refusal);
    }
}
