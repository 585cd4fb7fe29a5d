//! A gang that has its places starts as soon as it can.
//!
//! Members that look at others were given places that are good once these have theirs: the one that seeks company before
//! its company, the one that keeps the spread even before those it is counted against. When nothing has to be released for
//! them any more, they need not wait for a cycle in which another comes first, for each cycle has the same order.
use std::sync::Arc;

use super::pack;
use crate::id::{JobId, TaskId};
use crate::placement::Room;
use crate::session::Session;
use crate::statement::Statement;
use crate::world::Status;

/// Lets a gang that has all of its places take them at once where that is possible.
pub(super) fn at_once(statement: &mut Statement<'_, '_>, job: JobId) {
    let tasks = members(statement.session(), job);
    let world = &*statement.session().world;
    let seeks = |task: &TaskId| {
        world.tasks[*task].status == Status::Pipelined && world.class_of(*task).carried.seeks()
    };
    let seeking: Vec<TaskId> = tasks.iter().copied().filter(seeks).collect();
    take_up(statement, seeking);
    let session = statement.session();
    let waits = !session.job_ready(job) && !awaits_room(session, &tasks);
    if waits && pack::is_intricate(session.world, &tasks) {
        any_way(statement, job, &tasks);
    }
}

/// Starts a gang whose places have all come free.
pub(super) fn where_it_waits(session: &mut Session<'_>, job: JobId) -> bool {
    let mut statement = session.statement();
    let mut tasks = members(statement.session(), job);
    tasks.retain(|task| statement.session().world.tasks[*task].status == Status::Pipelined);
    take_up(&mut statement, tasks);
    let ready = statement.session().job_ready(job);
    if ready {
        statement.commit(&Arc::default());
    }
    ready
}

/// Those that have a place in this statement and those that have none, in the order in which they are served.
fn members(session: &Session<'_>, job: JobId) -> Vec<TaskId> {
    let status = |task: &TaskId| session.world.tasks[*task].status;
    let is_open =
        |task: &TaskId| session.world.tasks[*task].is_schedulable() || status(task) == Status::Allocated;
    let mut tasks: Vec<TaskId> = session.world.jobs[job].tasks.iter().copied().filter(is_open).collect();
    tasks.sort_by(|a, b| session.task_order(*a, *b));
    tasks
}

/// Whether any of their places has to be released yet.
fn awaits_room(session: &Session<'_>, tasks: &[TaskId]) -> bool {
    let world = &*session.world;
    let releasing =
        |task: &TaskId| world.tasks[*task].node.is_some_and(|node| !world.nodes[node].releasing.is_zero());
    tasks.iter().any(releasing)
}

/// One after the other, as long as that makes place for more of them.
fn take_up(statement: &mut Statement<'_, '_>, mut waiting: Vec<TaskId>) {
    let mut before = usize::MAX;
    while waiting.len() < before {
        before = waiting.len();
        waiting.retain(|task| {
            let mut attempt = statement.nested();
            attempt.unplace(*task);
            let spot = attempt.session().spot(*task).filter(|spot| spot.room == Room::Now);
            if let Some(spot) = spot {
                attempt.allocate(*task, spot.node);
                attempt.keep();
            }
            spot.is_none()
        });
    }
}

/// By any way there is.
fn any_way(statement: &mut Statement<'_, '_>, job: JobId, tasks: &[TaskId]) {
    let mut attempt = statement.nested();
    let mut steps = attempt.session().searches.part(job);
    let found = pack::fill(&mut attempt, job, tasks, false, &mut steps);
    attempt.session().searches.give_back(&steps);
    match found {
        Ok(true) => attempt.keep(),
        Ok(false) => {}
        Err(cut) => attempt.session().search_ended(job, cut),
    }
}
