//! A gang that waits for room being released keeps the places it has.
//!
//! One by one it is given places anew in each cycle, and some that are as good as those it has are as likely as these: it
//! would go to and fro between them for ever. So it gets others only if they are better, or if it cannot keep what it has.
use std::cmp::Reverse;

use rustc_hash::FxHashSet;

use super::gather;
use crate::eviction;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_framework::placement::Fit;

/// The places of a gang that waits, in the order in which it is served.
pub(super) type Places = Vec<(TaskId, NodeId)>;

/// How good places are: how many there are, then how few of them wait for room.
type Merit = (usize, Reverse<usize>);

/// So few members are given their places in any order: the first of those that seek each other has to come first, say.
const FEW: usize = 8;

/// Whether a gang has all of its places and has to wait for some.
pub(crate) fn is_reserved(session: &Session<'_>, job: JobId) -> bool {
    !session.job_ready(job) && session.job_pipelined(job)
}

/// What a gang has that waits for room which is being released.
pub(super) fn held(session: &Session<'_>, job: JobId) -> Places {
    if !is_reserved(session, job) || gather::is_gathering(session.cluster, job) {
        return Places::new();
    }
    places(session, job)
}

/// What is promised to a job, or given to it in this statement.
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

/// Whether a gang has all of its places and would be given them again.
pub(super) fn may_wait(session: &mut Session<'_>, job: JobId) -> bool {
    let held = held(session, job);
    !held.is_empty() && can_have(session, held)
}

/// Whether members can be given these places one after the other; of many it is not known whether there is an order.
pub(super) fn can_have(session: &mut Session<'_>, places: Places) -> bool {
    let keep = |session: &mut Session<'_>| places.iter().all(|(task, _)| eviction::may_keep(session, *task));
    (places.len() > FEW && keep(session)) || waiting(session, places).is_some()
}

/// Whether a gang may keep what it has and loses nothing by that.
pub(super) fn is_as_good(session: &mut Session<'_>, job: JobId, other: Merit) -> bool {
    may_wait(session, job) && merit(session, job) >= other
}

/// How good its places are. Where it is not known how many wait for room, all do.
pub(super) fn merit(session: &mut Session<'_>, job: JobId) -> Merit {
    let places = places(session, job);
    let count = places.len();
    (count, Reverse(waiting(session, places).unwrap_or(count)))
}

/// Whether they can all be given these places at once.
pub(super) fn can_start_now(session: &mut Session<'_>, places: &Places) -> bool {
    waiting(session, places.clone()) == Some(0)
}

/// How many members wait for room when they are given their places one after the other; `None` when that cannot be.
fn waiting(session: &mut Session<'_>, places: Places) -> Option<usize> {
    let mut statement = session.statement();
    for (task, _) in &places {
        statement.unplace(*task);
    }
    if places.len() <= FEW {
        return in_any_order(&mut statement, &places, 0, &mut FxHashSet::default());
    }
    in_order(&mut statement, places)
}

/// In the given order, but those that lack company until then behind it.
fn in_order(statement: &mut Statement<'_, '_>, mut left: Places) -> Option<usize> {
    let (mut count, mut before) = (0, usize::MAX);
    while left.len() < before {
        before = left.len();
        left.retain(|place| {
            let waits = put(statement, *place);
            count += usize::from(waits == Some(true));
            waits.is_none()
        });
    }
    left.is_empty().then_some(count)
}

/// The same in any order there is; `placed` is a set of them, by bits.
fn in_any_order(
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
    left.into_iter().find_map(|(at, place)| {
        let mut attempt = statement.nested();
        let waits = put(&mut attempt, *place)?;
        let rest = in_any_order(&mut attempt, places, placed | 1 << at, seen)?;
        Some(rest + usize::from(waits))
    })
}

/// Gives a task its place, if it can have it; whether it waits for room there.
fn put(statement: &mut Statement<'_, '_>, (task, node): (TaskId, NodeId)) -> Option<bool> {
    let room = statement.session().room(task, node, &[])?;
    match room {
        Fit::Idle => statement.allocate(task, node),
        Fit::FutureIdle => statement.pipeline(task, node),
    }
    Some(room == Fit::FutureIdle)
}
