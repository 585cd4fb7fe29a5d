//! Walks over the capacity indexes: the next class that may fit is tried when the one before it was served.
use rustc_hash::FxHashMap;

use super::capacity_delta::CapacityDelta;
use super::capacity_index::{Cursor, Largest, Sought};
use super::equivalence::JobClassId;
use super::{Patience, first, try_first};
use crate::session::{Session, job_order};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, QueueId};

/// After so many in vain it is found out how large the largest free capacities are.
const BLINDLY: usize = 8;

/// So many queues may have as many searched for as one may; of more, each fewer.
const FULL_SHARES: usize = 4;

/// Milliseconds between turns of those for whom others may be evicted, if nothing happens before.
const BETWEEN_TURNS: i64 = 1000;

/// Who was asked in a queue.
#[derive(Clone, Copy, Debug)]
struct Walk {
    cursor: Cursor,
    /// So many more are asked in vain whether they rest or not.
    leading: usize,
    /// And so many of those that have rested.
    turns: usize,
    /// The one that was tried last, until it is served.
    head: Option<JobId>,
    over: bool,
}

/// Who of those that wait was asked in a cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walks {
    walks: FxHashMap<QueueId, Walk>,
    largest: Option<Largest>,
    /// How many were asked in vain since the largest free capacities were found out.
    in_vain: usize,
}

impl Walks {
    fn new(queues: &[QueueId], patience: Patience) -> Self {
        let share = (patience.in_vain / queues.len().max(1)).max(10.min(patience.in_vain)).max(1);
        let walk = Walk { cursor: Cursor::default(), leading: share, turns: share, head: None, over: false };
        Self { walks: queues.iter().map(|queue| (*queue, walk)).collect(), ..Self::default() }
    }

    /// Queues in which somebody may have to be asked.
    pub(crate) fn queues(&self) -> Vec<QueueId> {
        let mut queues: Vec<QueueId> = self.walks.keys().copied().collect();
        queues.sort_unstable();
        queues
    }

    /// Nobody else of a queue is asked, though they may have to be later.
    pub(crate) fn leave(&mut self, queue: QueueId) {
        if let Some(walk) = self.walks.get_mut(&queue) {
            walk.over = true;
        }
    }

    /// A job was served. True when the next one of its queue is to be tried now.
    pub(crate) fn served(&mut self, queue: QueueId, job: JobId, in_vain: bool) -> bool {
        let Some(walk) = self.walks.get_mut(&queue).filter(|walk| walk.head == Some(job)) else {
            return false;
        };
        walk.head = None;
        if in_vain {
            self.in_vain += 1;
            let from = if walk.leading > 0 { &mut walk.leading } else { &mut walk.turns };
            *from = from.saturating_sub(1);
        }
        true
    }
}

/// Puts classes whose first has changed where they belong.
pub(super) fn line_up(session: &mut Session<'_>) {
    session.backlog.refresh_ranks(session.cluster);
    let mut moved: Vec<(JobClassId, JobId)> = Vec::new();
    for id in session.backlog.take_moved_classes() {
        match first(session, id) {
            Some(first) if session.backlog.is_ranked_by(session.cluster, id, first) => {}
            Some(first) => {
                session.backlog.unrank(id);
                moved.push((id, first));
            }
            None => session.backlog.unrank(id),
        }
    }
    for (id, first) in moved {
        let Session { cluster, tiers, backlog, .. } = session;
        backlog.rank(cluster, id, first, |other| job_order(cluster, tiers, first, other).is_lt());
    }
}

/// Begins to ask: those for whom others may be evicted now, the others when it is their queue's turn.
pub(super) fn begin(session: &mut Session<'_>, delta: Option<CapacityDelta>, patience: Patience) {
    let queues = session.backlog.begin_walks(delta);
    session.walks = Walks::new(&queues, patience);
    let share = (FULL_SHARES.saturating_mul(patience.searched) / queues.len().max(1)).min(patience.searched);
    for queue in queues {
        try_evicting(session, queue, share.max(1));
    }
}

/// Tries the first of those for whom others may be evicted, and as many of the others that have rested in turn: where the last
/// cycle ended this one goes on.
fn try_evicting(session: &mut Session<'_>, queue: QueueId, count: usize) {
    let mut cursor = Cursor::default();
    for _ in 0..count {
        let Some(id) =
            session.backlog.next_in_line(session.cluster, queue, &mut cursor, Sought::Evicting, None)
        else {
            return;
        };
        try_first(session, id);
    }
    let (mut cursor, now) = (Cursor::default(), session.now);
    for _ in 0..count {
        let Some(id) = session.backlog.next_turn(session.cluster, queue, &mut cursor, now) else { break };
        try_first(session, id);
    }
    let more = session.backlog.next_turn(session.cluster, queue, &mut cursor, now);
    let next_turn = Time(session.now.0.saturating_add(BETWEEN_TURNS));
    if let Some(at) = more.map(|_| next_turn).into_iter().chain(cursor.wake).min() {
        session.backlog.walk_again(at.max(next_turn));
    }
}

/// Tries the next of a queue that may be placed now.
pub(crate) fn call(session: &mut Session<'_>, queue: QueueId) -> Option<JobId> {
    let mut walk = session.walks.walks.get(&queue).copied().filter(|walk| !walk.over)?;
    session.backlog.take_rooms_down(session.cluster);
    if session.walks.in_vain >= BLINDLY {
        session.walks.largest = Some(session.backlog.largest_rooms(session.cluster));
        session.walks.in_vain = 0;
    }
    let rested = (walk.leading == 0).then_some(session.now);
    let sought = Sought::Fitting(session.walks.largest.as_ref());
    let next = session.backlog.next_in_line(session.cluster, queue, &mut walk.cursor, sought, rested);
    let called = next.filter(|_| walk.leading > 0 || walk.turns > 0).and_then(|id| try_first(session, id));
    walk.head = called;
    if called.is_none() {
        walk.over = true;
        match next.map(|_| session.now).into_iter().chain(walk.cursor.wake).min() {
            Some(again) => session.backlog.walk_again(again),
            None => session.backlog.end_walk(queue),
        }
    }
    session.walks.walks.insert(queue, walk);
    called
}
