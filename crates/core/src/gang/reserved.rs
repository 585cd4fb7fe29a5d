//! Strategy *reserved*: the places that the gang's own reservation holds.
//!
//! Guarantees: a gang whose reserved places need no release any more starts there, in whatever order its members need
//! each other; a reservation whose places can still be had is kept until the gang can start there or elsewhere.
use rustc_hash::FxHashSet;

use super::{Goal, Request};
use crate::failed_searches::SearchKey;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::Status;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_framework::placement::Fit;

/// The places of a gang, in the order in which its tasks are served.
pub(super) type Places = Vec<(TaskId, NodeId)>;

/// Up to so many members are tried in every order; of more, those that can take their places go first.
const MEMBERS_IN_ANY_ORDER: usize = 8;

/// Starts a gang in its reserved places, or keeps them. Where nothing has happened since the last plan failed to start
/// it, they are kept without another plan.
pub(super) fn find(statement: &mut Statement<'_, '_>, request: Request) -> Option<Goal> {
    let session = statement.session();
    if !is_reserved(session, request.job) {
        return None;
    }
    let (key, news) = (SearchKey::start(session.cluster, request.job), session.cluster.retry_events());
    let is_unchanged = session.state.failed_searches.is_unchanged(&key, news);
    let places = places(session, request.job);
    match request.goal {
        _ if places.is_empty() => None,
        Goal::Start if is_unchanged && can_have(session, places.clone()) => Some(Goal::Reserve),
        Goal::Start => start(statement, request.job, &places).then_some(Goal::Start),
        Goal::Reserve => can_have(session, places).then_some(Goal::Reserve),
    }
}

/// Whether a gang has all of its places and has to wait for some.
pub(crate) fn is_reserved(session: &Session<'_>, job: JobId) -> bool {
    let waits = session.cluster.jobs[job].counts.of(Status::Pipelined) > 0;
    waits && !session.job_ready(job) && session.job_pipelined(job)
}

/// The places that are reserved for a job, or given to it in this statement.
pub(super) fn places(session: &Session<'_>, job: JobId) -> Places {
    let cluster = &*session.cluster;
    let place = |task: &TaskId| {
        let it = &cluster.tasks[*task];
        it.node.filter(|_| it.status.has_new_place()).map(|node| (*task, node))
    };
    let mut places: Places = cluster.jobs[job].tasks.iter().filter_map(place).collect();
    places.sort_by(|(a, _), (b, _)| session.task_order(*a, *b));
    places
}

/// Reserves these places in the statement.
pub(super) fn take(statement: &mut Statement<'_, '_>, places: &Places) {
    for (task, _) in places {
        statement.unplace_all(&[*task]);
    }
    for (task, node) in places {
        statement.pipeline(*task, *node);
    }
}

/// Whether any of the reserved places of a job has to be released yet.
pub(crate) fn awaits_release(session: &Session<'_>, job: JobId) -> bool {
    let cluster = &*session.cluster;
    let releasing = |task: &TaskId| {
        let it = &cluster.tasks[*task];
        it.node.is_some_and(|node| it.status.has_new_place() && !cluster.nodes[node].releasing.is_zero())
    };
    cluster.jobs[job].tasks.iter().any(releasing)
}

/// Starts a gang in these places, unless one of them has to be released yet.
fn start(statement: &mut Statement<'_, '_>, job: JobId, places: &Places) -> bool {
    let session = statement.session();
    let cluster = &*session.cluster;
    // What claims get depends on the order in which members get their places.
    let claims = |(task, _): &(TaskId, NodeId)| {
        cluster.tasks[*task].claims.is_some() || !cluster.class_of(*task).pvcs.is_empty()
    };
    if places.iter().any(claims)
        || awaits_release(session, job)
        || count_waiting(session, places.clone()) != Some(0)
    {
        return false;
    }
    for (task, node) in places {
        statement.unplace(*task);
        statement.allocate(*task, *node);
    }
    statement.session().job_ready(job)
}

/// Moves members that wait for capacity to nodes where they start, as long as that makes room for more of them. A
/// member keeps its place where other members need it there.
pub(super) fn start_waiting(statement: &mut Statement<'_, '_>, job: JobId) {
    let session = statement.session();
    let status = |task: &TaskId| session.cluster.tasks[*task].status;
    let mut waiting: Vec<TaskId> = places(session, job).into_iter().map(|(task, _)| task).collect();
    waiting.retain(|task| status(task) == Status::Pipelined);
    waiting.sort_by_key(|task| session.cluster.class_of(*task).best_effort);
    let mut before = usize::MAX;
    while waiting.len() < before {
        before = waiting.len();
        waiting.retain(|task| !start_one(statement, job, *task));
    }
}

fn start_one(statement: &mut Statement<'_, '_>, job: JobId, task: TaskId) -> bool {
    let own = statement.session().cluster.tasks[task].node;
    statement.nested(|statement| {
        statement.unplace(task);
        let Some(best) = statement.session().best_node(task).filter(|best| best.fit == Fit::Idle) else {
            return false;
        };
        statement.allocate(task, best.node);
        let session = statement.session();
        let places = places(session, job);
        own == Some(best.node) || can_have(session, places)
    })
}

/// Whether members can be given these places one after the other. Of many members each is asked alone, for an order in
/// which they can take their places is not searched for.
pub(super) fn can_have(session: &mut Session<'_>, places: Places) -> bool {
    let keep = |session: &mut Session<'_>| places.iter().all(|(task, _)| session.may_keep(*task));
    (places.len() > MEMBERS_IN_ANY_ORDER && keep(session)) || count_waiting(session, places).is_some()
}

/// How many members wait for capacity when they are given their places one after the other; `None` when that cannot be.
fn count_waiting(session: &mut Session<'_>, places: Places) -> Option<usize> {
    let mut statement = session.statement();
    for (task, _) in &places {
        statement.unplace(*task);
    }
    if places.len() <= MEMBERS_IN_ANY_ORDER {
        return count_in_any_order(&mut statement, &places, 0, &mut FxHashSet::default());
    }
    count_in_order(&mut statement, places)
}

/// Tries the given order, and members that lack others behind these.
fn count_in_order(statement: &mut Statement<'_, '_>, mut left: Places) -> Option<usize> {
    let (mut count, mut before) = (0, usize::MAX);
    while left.len() < before {
        before = left.len();
        left.retain(|(task, node)| {
            let fit = statement.place_if_allowed(*task, *node);
            count += usize::from(fit == Some(Fit::FutureIdle));
            fit.is_none()
        });
    }
    left.is_empty().then_some(count)
}

/// Tries every order; `placed` is a set of members, by bits.
fn count_in_any_order(
    statement: &mut Statement<'_, '_>,
    places: &Places,
    placed: u32,
    seen: &mut FxHashSet<u32>,
) -> Option<usize> {
    if placed.count_ones() as usize == places.len() {
        return Some(0);
    }
    if !seen.insert(placed) {
        return None;
    }
    let left = places.iter().enumerate().filter(|(at, _)| placed & (1 << at) == 0);
    left.into_iter().find_map(|(at, (task, node))| {
        statement.nested(|statement| {
            let fit = statement.place_if_allowed(*task, *node)?;
            let rest = count_in_any_order(statement, places, placed | 1 << at, seen)?;
            Some(rest + usize::from(fit == Fit::FutureIdle))
        })
    })
}
