//! A gang that has its places starts as soon as it can.
//!
//! Members that look at others were given places that are good once these have theirs: the one that seeks company before
//! its company, the one that keeps the spread even before those it is counted against. When nothing has to be released for
//! them any more, they need not wait for a cycle in which another comes first, for each cycle has the same order.
use std::sync::Arc;

use super::hold::{self, Places};
use super::{gang, pack};
use crate::searches::Searches;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{NoWay, Status};
use phalanx_framework::placement::Fit;

/// A search of fewer steps does not rest: a few milliseconds.
const SHORT: u64 = 2_000;
/// For so many steps one rests for a millisecond.
const STEPS_PER_MS: u64 = 4;
/// But not longer than this, in milliseconds; nor does an answer stand for longer, for time alone may change it.
const LONGEST: i64 = 10_000;

/// Lets members of a gang that has all of its places start at once that only waited for others of it, if no other gang is let
/// down by where they go.
pub(super) fn at_once(statement: &mut Statement<'_, '_>, job: JobId) {
    let tasks = waiting(statement.session(), job);
    take_up(statement, job, tasks);
}

/// Lets a gang for whose places nothing has to be released any more start in any way there is.
pub(super) fn where_all_is_free(statement: &mut Statement<'_, '_>, job: JobId) {
    let session = statement.session();
    let tasks = members(session, job);
    if hold::is_reserved(session, job)
        && !awaits_room(session, job)
        && pack::is_intricate(session.cluster, &tasks)
    {
        any_way(statement, job, &tasks);
    }
}

/// Starts a gang that would be reserved places in any way there is room for at once, and commits that. A search that came to
/// nothing is made again when something has happened; a long one not at once, unless all of its places have come free.
pub(super) fn in_any_way(session: &mut Session<'_>, job: JobId) -> bool {
    let tasks = members(session, job);
    if is_known(session, job) || (awaits_room(session, job) && rests(session, job)) {
        return false;
    }
    let before = session.searches.left();
    let found = gang::place_whole_by(session, job, &tasks, false);
    let steps = before.saturating_sub(session.searches.left());
    session.cluster.jobs[job].no_way = None;
    match found {
        Ok(true) => return true,
        Err(cut) if Searches::is_cut_short(cut) => session.search_ended(job, cut),
        _ => note_no_way(session, job, steps),
    }
    false
}

/// A search of so many steps found no way to start a job at once.
pub(super) fn note_no_way(session: &mut Session<'_>, job: JobId, steps: u64) {
    let rests = if steps < SHORT { 0 } else { (steps / STEPS_PER_MS).min(LONGEST as u64) };
    let (news, at) = (session.cluster.news(), session.now);
    session.cluster.jobs[job].no_way =
        Some(NoWay { news, at, until: Time(at.0.saturating_add(rests as i64)), surplus: false });
}

/// Whether it is known that there is no way to start a job at once: nothing has happened since a search found none.
pub(super) fn is_known(session: &Session<'_>, job: JobId) -> bool {
    let stands =
        |it: NoWay| it.news == session.cluster.news() && session.now.0.saturating_sub(it.at.0) < LONGEST;
    session.cluster.jobs[job].no_way.is_some_and(stands)
}

/// All that waits of a job was asked for since: there is nothing to be done until something happens.
pub(super) fn note_all_tried(session: &mut Session<'_>, job: JobId) {
    if let Some(no_way) = &mut session.cluster.jobs[job].no_way {
        no_way.surplus = true;
    }
}

/// Whether that is so.
pub(super) fn is_all_tried(session: &Session<'_>, job: JobId) -> bool {
    is_known(session, job) && session.cluster.jobs[job].no_way.is_some_and(|it| it.surplus)
}

/// Whether the last search took too long to be made again by now.
fn rests(session: &mut Session<'_>, job: JobId) -> bool {
    let until = session.cluster.jobs[job].no_way.map(|it| it.until).filter(|until| session.now < *until);
    session.rests_until = session.rests_until.into_iter().chain(until).min();
    until.is_some()
}

/// Starts a gang in the places that it was promised once all of them have come free, before others are looked for.
pub(super) fn as_promised(session: &mut Session<'_>, job: JobId, places: &Places) -> bool {
    let cluster = &*session.cluster;
    // What claims get depends on the order in which members get their places.
    let claims = |(task, _): &(TaskId, NodeId)| {
        cluster.tasks[*task].claims.is_some() || !cluster.class_of(*task).pvcs.is_empty()
    };
    if places.is_empty()
        || places.iter().any(claims)
        || awaits_room(session, job)
        || !hold::can_start_now(session, places)
    {
        return false;
    }
    let mut statement = session.statement();
    for (task, node) in places {
        statement.unplace(*task);
        statement.allocate(*task, *node);
    }
    let starts = statement.session().job_ready(job);
    if starts {
        statement.commit(&Arc::default());
    }
    starts
}

/// Starts a gang whose places have all come free.
pub(super) fn where_it_waits(session: &mut Session<'_>, job: JobId) -> bool {
    let mut statement = session.statement();
    let tasks = waiting(statement.session(), job);
    take_up(&mut statement, job, tasks);
    let ready = statement.session().job_ready(job);
    if ready {
        statement.commit(&Arc::default());
    }
    ready
}

/// Those that have a place in this statement and those that have none, in the order in which they are served.
fn members(session: &Session<'_>, job: JobId) -> Vec<TaskId> {
    let status = |task: &TaskId| session.cluster.tasks[*task].status;
    let is_open =
        |task: &TaskId| session.cluster.tasks[*task].is_schedulable() || status(task) == Status::Allocated;
    let mut tasks: Vec<TaskId> = session.cluster.jobs[job].tasks.iter().copied().filter(is_open).collect();
    let idle = |task: TaskId| session.cluster.class_of(task).best_effort;
    tasks.sort_by(|a, b| idle(*a).cmp(&idle(*b)).then_with(|| session.task_order(*a, *b)));
    tasks
}

/// Those that wait for room.
fn waiting(session: &Session<'_>, job: JobId) -> Vec<TaskId> {
    let mut tasks = members(session, job);
    tasks.retain(|task| session.cluster.tasks[*task].status == Status::Pipelined);
    tasks
}

/// Whether any of its places has to be released yet.
pub(super) fn awaits_room(session: &Session<'_>, job: JobId) -> bool {
    let cluster = &*session.cluster;
    let releasing = |task: &TaskId| {
        let it = &cluster.tasks[*task];
        it.node.is_some_and(|node| it.status.has_new_place() && !cluster.nodes[node].releasing.is_zero())
    };
    cluster.jobs[job].tasks.iter().any(releasing)
}

/// One after the other, as long as that makes place for more of them.
fn take_up(statement: &mut Statement<'_, '_>, job: JobId, mut waiting: Vec<TaskId>) {
    let mut before = usize::MAX;
    while waiting.len() < before {
        before = waiting.len();
        waiting.retain(|task| !take_up_one(statement, job, *task));
    }
}

/// It goes where it can start, but not away from those that have their places for its company.
fn take_up_one(statement: &mut Statement<'_, '_>, job: JobId, task: TaskId) -> bool {
    let own = statement.session().cluster.tasks[task].node;
    let mut attempt = statement.nested();
    attempt.unplace(task);
    let Some(spot) = attempt.session().best_node(task).filter(|spot| spot.fit == Fit::Idle) else {
        return false;
    };
    attempt.allocate(task, spot.node);
    let session = attempt.session();
    let places = hold::places(session, job);
    let goes = own == Some(spot.node) || hold::can_have(session, places);
    if goes {
        attempt.keep();
    }
    goes
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
