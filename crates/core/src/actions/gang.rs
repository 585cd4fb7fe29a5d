//! Places one job: all that it needs to start in one statement, or nothing.
use std::sync::Arc;

use super::attempt::place_until_ready;
use super::work::Work;
use super::{gather, hold, pack, start, together, yielding};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::Status;
use phalanx_cluster::budget::Cut;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{JobId, TaskId};

/// How serving a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It got what it needed and has more tasks that compete anew.
    MoreToDo,
    /// Nothing more to do for it in this cycle.
    Done,
}

/// The same for those of a gang that waits; while nothing happens it keeps the places it has.
pub(crate) fn serve_anew(session: &mut Session<'_>, job: JobId, work: &mut Work) -> Served {
    if start::is_all_tried(session, job) && hold::may_wait(session, job) {
        return started(session, job, work);
    }
    let served = serve(session, job, work);
    start::note_all_tried(session, job);
    served
}

/// Places tasks until the job is ready; commits what it got, or undoes all of it.
pub(crate) fn serve(session: &mut Session<'_>, job: JobId, work: &mut Work) -> Served {
    let (why, mut refusals, begin) = (Arc::default(), Vec::new(), work.at());
    let got_none = std::mem::take(&mut session.cluster.jobs[job].unsearched);
    session.searches.serve(job, got_none);
    let held = hold::held(session, job);
    if start::as_promised(session, job, &held) {
        return started(session, job, work);
    }
    let mut statement = open(session, job);
    let mut placed = place_or_start(&mut statement, job, work, &mut refusals);
    if !statement.session().job_ready(job) {
        if hold::is_reserved(statement.session(), job) && start::in_any_way(statement.session(), job) {
            statement.commit(&why);
            return started(session, job, work);
        }
        let lesser = yielding::lesser(statement.session(), job);
        if !lesser.is_empty() {
            let later = !statement.session().job_pipelined(job);
            drop(statement);
            let later = later && !hold::may_wait(session, job);
            if take_over(session, job, work, begin, &lesser, later) {
                return served(session, job, work);
            }
            work.go_back(begin);
            refusals.clear();
            statement = open(session, job);
            placed = place_or_start(&mut statement, job, work, &mut refusals);
        }
    }
    if statement.session().job_ready(job) {
        statement.commit(&why);
        note(session, job, refusals);
        return if placed == 0 { Served::Done } else { served(session, job, work) };
    }
    let not_ready = statement.session().not_ready(job);
    if statement.session().job_pipelined(job) {
        if !held.is_empty() && hold::places(statement.session(), job) != held {
            let other = hold::merit(statement.session(), job);
            drop(statement);
            if hold::is_as_good(session, job, other) {
                return wait(session, job, work);
            }
            work.go_back(begin);
            statement = open(session, job);
            place_or_start(&mut statement, job, work, &mut Vec::new());
        }
        statement.commit_pipelined(&why);
        reserved(session, job, not_ready, refusals);
        return Served::Done;
    }
    refusals.extend(not_ready);
    refusals.extend(partial(&session_counts(&mut statement, job)));
    drop(statement);
    if hold::may_wait(session, job) {
        return wait(session, job, work);
    }
    search(session, job, work, refusals)
}

/// It may not start yet: says what it waits for.
fn reserved(session: &mut Session<'_>, job: JobId, not_ready: Option<Refusal>, refusals: Vec<Refusal>) {
    gather::end(session, job);
    let reserved = session.cluster.jobs[job].counts.of(Status::Pipelined);
    match not_ready {
        // It may keep what it gets, and got nothing.
        None if reserved == 0 => note(session, job, refusals),
        not_ready => session.refuse(job, not_ready.unwrap_or(Refusal::Reserved(reserved))),
    }
}

/// Looks at a gang as a whole that got too little one by one.
fn search(session: &mut Session<'_>, job: JobId, work: &mut Work, mut refusals: Vec<Refusal>) -> Served {
    let all = Work::of_all(session, job).into_tasks();
    match place_whole(session, job, &all, true) {
        Ok(false) => {}
        Ok(true) => {
            if hold::is_reserved(session, job) {
                start::note_no_way(session, job, 0);
            }
            return started(session, job, work);
        }
        Err(cut) => {
            session.search_ended(job, cut);
            refusals.push(Refusal::Search(cut));
        }
    }
    if !gather::gather(session, job) {
        release(session, job);
    }
    note(session, job, refusals);
    Served::Done
}

/// A change of a job's places. What it gathered so far is to be had.
fn open<'s, 'w>(session: &'s mut Session<'w>, job: JobId) -> Statement<'s, 'w> {
    let mut statement = session.statement();
    gather::pause(&mut statement, job);
    statement
}

/// It got what it needed.
fn served(session: &mut Session<'_>, job: JobId, work: &Work) -> Served {
    gather::end(session, job);
    tell_reserved(session, job);
    // What waits for room to be released would be placed one by one again, which may lose where a search had won.
    if work.is_empty() || hold::is_reserved(session, job) { Served::Done } else { Served::MoreToDo }
}

/// A gang that was reserved places in another order than it is served in, or that finds none better, keeps them until it can
/// start there, or elsewhere.
fn wait(session: &mut Session<'_>, job: JobId, work: &mut Work) -> Served {
    if !start::where_it_waits(session, job) {
        start::in_any_way(session, job);
    }
    started(session, job, work)
}

/// A search gave it what it needed.
fn started(session: &mut Session<'_>, job: JobId, work: &mut Work) -> Served {
    *work = Work::of_requests(session, job);
    served(session, job, work)
}

/// Places a job where room is reserved for others that it outranks: as few of them as it takes, and where there is room at
/// once before, with `later`, where there will be.
fn take_over(
    session: &mut Session<'_>,
    job: JobId,
    work: &mut Work,
    begin: usize,
    lesser: &[JobId],
    later: bool,
) -> bool {
    for later in [false, true].into_iter().filter(|late| later || !late) {
        let (mut count, mut more) = (1, 1);
        loop {
            work.go_back(begin);
            if session.searches.spend(job, work.left()).is_err() {
                return false;
            }
            if take_over_from(session, job, work, &lesser[..count], later) {
                return true;
            }
            if count == lesser.len() {
                break;
            }
            (count, more) = (lesser.len().min(count + more), 2 * more);
        }
    }
    later && take_over_whole(session, job, work, lesser)
}

fn take_over_from(
    session: &mut Session<'_>,
    job: JobId,
    work: &mut Work,
    lesser: &[JobId],
    later: bool,
) -> bool {
    let mut refusals = Vec::new();
    let mut statement = open(session, job);
    let yielded = yielding::take_back(&mut statement, lesser);
    place_or_start(&mut statement, job, work, &mut refusals);
    start::where_all_is_free(&mut statement, job);
    let placed = statement.session();
    if !(placed.job_ready(job) || later && placed.job_pipelined(job)) {
        return false;
    }
    let outranked = yielding::undo_simulation(&mut statement, yielded, job);
    pack::commit(statement, job);
    yielding::tell(session, &outranked, job);
    note(session, job, refusals);
    true
}

/// The same, looking at the gang as a whole.
fn take_over_whole(session: &mut Session<'_>, job: JobId, work: &mut Work, lesser: &[JobId]) -> bool {
    let all = Work::of_all(session, job).into_tasks();
    let mut statement = session.statement();
    let yielded = yielding::take_back(&mut statement, lesser);
    if place_whole(statement.session(), job, &all, true) != Ok(true) {
        return false;
    }
    let outranked = yielding::undo_simulation(&mut statement, yielded, job);
    statement.commit(&Arc::default());
    yielding::tell(session, &outranked, job);
    *work = Work::of_requests(session, job);
    true
}

fn tell_reserved(session: &mut Session<'_>, job: JobId) {
    let reserved = session.cluster.jobs[job].counts.of(Status::Pipelined);
    if reserved > 0 && !session.job_ready(job) {
        session.refuse(job, Refusal::Reserved(reserved));
    }
}

/// Looks at the gang as a whole, in each of the ways in which that may help: for room at once, then, with `later`, for what is
/// being released too.
fn place_whole(session: &mut Session<'_>, job: JobId, all: &[TaskId], later: bool) -> Result<bool, Cut> {
    let now = place_whole_by(session, job, all, false);
    let may_help = later && (pack::may_help(session, all) || together::may_help(session.cluster, all));
    let releasing = || session.cluster.nodes.iter().any(|(_, node)| !node.releasing.is_zero());
    if now == Ok(true) || !may_help || !releasing() {
        return now;
    }
    if place_whole_by(session, job, all, true)? { Ok(true) } else { now }
}

/// The same for one of both.
pub(crate) fn place_whole_by(
    session: &mut Session<'_>,
    job: JobId,
    all: &[TaskId],
    later: bool,
) -> Result<bool, Cut> {
    let together = together::place_whole(session, job, all, later);
    if together == Ok(true) {
        return together;
    }
    let packed = pack::place_whole(session, job, all, later)?;
    if packed { Ok(true) } else { together }
}

/// How far the gang came: members with a place, and how many it needs.
struct Reached {
    placed: u32,
    wanted: u32,
}

fn session_counts(statement: &mut Statement<'_, '_>, job: JobId) -> Reached {
    let it = &statement.session().cluster.jobs[job];
    Reached { placed: it.counts.ready() + it.counts.of(Status::Pipelined), wanted: it.min_member }
}

fn partial(reached: &Reached) -> Option<Refusal> {
    (reached.wanted > 1 && reached.placed < reached.wanted)
        .then_some(Refusal::Partial { placed: reached.placed, wanted: reached.wanted })
}

/// Gives up the nominations of a job that cannot be whole any more.
pub(crate) fn release(session: &mut Session<'_>, job: JobId) {
    let it = &session.cluster.jobs[job];
    if it.counts.of(Status::Pipelined) == 0 {
        return;
    }
    let tasks = it.tasks.clone();
    let mut statement = session.statement();
    for task in tasks {
        if statement.session().cluster.tasks[task].status == Status::Pipelined {
            statement.unplace(task);
        }
    }
    statement.commit(&Arc::default());
}

/// Gives up the nominations of a job that nobody serves in this cycle and that has lost a part of them.
pub(crate) fn release_part(session: &mut Session<'_>, job: JobId) {
    if !session.job_ready(job) && !session.job_pipelined(job) {
        release(session, job);
    }
}

/// The same of one whose queue has enough, for which nothing is being released any more: others may have the room.
pub(crate) fn release_idle(session: &mut Session<'_>, job: JobId) {
    if !start::awaits_room(session, job) {
        release(session, job);
    }
    release_part(session, job);
}

/// Places tasks until the job is ready. A gang that has all of its places takes them at once where it can.
fn place_or_start(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    work: &mut Work,
    refusals: &mut Vec<Refusal>,
) -> u32 {
    let placed = place_until_ready(statement, job, work, refusals);
    if hold::is_reserved(statement.session(), job) {
        start::at_once(statement, job);
    }
    placed
}

fn note(session: &mut Session<'_>, job: JobId, refusals: Vec<Refusal>) {
    for refusal in refusals {
        session.refuse(job, refusal);
    }
}
