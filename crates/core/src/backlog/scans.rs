//! Scans of the capacity indexes: the next class that may fit is tried once the one before it was served.
use rustc_hash::FxHashMap;

use super::capacity_delta::CapacityDelta;
use super::class_query::{Cursor, Largest, Sought};
use super::equivalence::JobClassId;
use super::timers::TimerKind;
use super::{RetryLimits, first, try_first};
use crate::session::{Session, job_order};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, QueueId};

/// After so many failed tries the largest free capacity is computed again.
const TRIES_BETWEEN_LARGEST: usize = 8;

/// Up to so many queues each have the full number of tries with evictions; more queues share it.
const QUEUES_WITH_FULL_SHARE: usize = 4;

/// Interval of tries of classes that need evictions, if nothing happens before.
const EVICTING_INTERVAL_MS: i64 = 1000;

/// The scan of one queue in a cycle.
#[derive(Clone, Copy, Debug)]
struct IndexScan {
    cursor: Cursor,
    /// Failed tries left before back-off counts.
    leading: usize,
    /// Failed tries left after that.
    others: usize,
    /// The job that was tried last, until it was served.
    tried: Option<JobId>,
    over: bool,
}

/// The scans of a cycle, by queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct IndexScans {
    scans: FxHashMap<QueueId, IndexScan>,
    largest: Option<Largest>,
    /// Failed tries since the largest free capacity was computed.
    failed_tries: usize,
}

impl IndexScans {
    fn new(queues: &[QueueId], limits: RetryLimits) -> Self {
        let share = (limits.per_cycle / queues.len().max(1)).max(10.min(limits.per_cycle)).max(1);
        let scan =
            IndexScan { cursor: Cursor::default(), leading: share, others: share, tried: None, over: false };
        Self { scans: queues.iter().map(|queue| (*queue, scan)).collect(), ..Self::default() }
    }

    /// Queues with a scan, by id.
    pub(crate) fn queues(&self) -> Vec<QueueId> {
        let mut queues: Vec<QueueId> = self.scans.keys().copied().collect();
        queues.sort_unstable();
        queues
    }

    /// Ends the scan of a queue in this cycle, though classes may be left to try.
    pub(crate) fn leave(&mut self, queue: QueueId) {
        if let Some(scan) = self.scans.get_mut(&queue) {
            scan.over = true;
        }
    }

    /// Records that a job was served. True when the next class of its queue is to be tried now.
    pub(crate) fn served(&mut self, queue: QueueId, job: JobId, failed: bool) -> bool {
        let Some(scan) = self.scans.get_mut(&queue).filter(|scan| scan.tried == Some(job)) else {
            return false;
        };
        scan.tried = None;
        if failed {
            self.failed_tries += 1;
            let from = if scan.leading > 0 { &mut scan.leading } else { &mut scan.others };
            *from = from.saturating_sub(1);
        }
        true
    }
}

/// Ranks classes whose first job has changed.
pub(super) fn rank_moved_classes(session: &mut Session<'_>) {
    // Drops ranks that were computed with other node capacities than the current ones.
    session.state.backlog.classes.order_by(&session.cluster.sums.allocatable);
    let mut moved: Vec<(JobClassId, JobId)> = Vec::new();
    for id in session.state.backlog.take_moved_classes() {
        match first(session, id) {
            Some(first) if session.state.backlog.is_ranked_by(session.cluster, id, first) => {}
            Some(first) => {
                session.state.backlog.unrank(id);
                moved.push((id, first));
            }
            None => session.state.backlog.unrank(id),
        }
    }
    for (id, first) in moved {
        let Session { cluster, tiers, state, .. } = session;
        state.backlog.rank(cluster, id, first, |other| job_order(cluster, tiers, first, other).is_lt());
    }
}

/// Starts the scans of a cycle, and tries classes that need evictions. The others are tried when their queue is served.
pub(super) fn begin(session: &mut Session<'_>, delta: Option<CapacityDelta>, limits: RetryLimits) {
    let queues = session.state.backlog.begin_scans(delta);
    session.scans = IndexScans::new(&queues, limits);
    let share = (QUEUES_WITH_FULL_SHARE.saturating_mul(limits.evicting_per_cycle) / queues.len().max(1))
        .min(limits.evicting_per_cycle);
    for queue in queues {
        try_evicting(session, queue, share.max(1));
    }
}

/// Tries the first `count` classes that need evictions, and `count` of the others that are past their back-off, in
/// rotation.
fn try_evicting(session: &mut Session<'_>, queue: QueueId, count: usize) {
    let mut cursor = Cursor::default();
    for _ in 0..count {
        let Some(id) =
            session.state.backlog.next_class(session.cluster, queue, &mut cursor, Sought::Evicting, None)
        else {
            return;
        };
        try_first(session, id);
    }
    let (mut cursor, now) = (Cursor::default(), session.now);
    for _ in 0..count {
        let Some(id) = session.state.backlog.next_evicting(session.cluster, queue, &mut cursor, now) else {
            break;
        };
        try_first(session, id);
    }
    let more = session.state.backlog.next_evicting(session.cluster, queue, &mut cursor, now);
    let next_turn = Time(session.now.0.saturating_add(EVICTING_INTERVAL_MS));
    if let Some(at) = more.map(|_| next_turn).into_iter().chain(cursor.next_retry).min() {
        session.state.backlog.timers.set_earlier(TimerKind::Scan, queue, at.max(next_turn));
    }
}

/// Tries the next class of a queue that free capacity may serve. Returns the first job of the class.
pub(crate) fn try_next_fitting(session: &mut Session<'_>, queue: QueueId) -> Option<JobId> {
    let mut scan = session.scans.scans.get(&queue).copied().filter(|scan| !scan.over)?;
    session.state.backlog.record_capacities(session.cluster);
    if session.scans.failed_tries >= TRIES_BETWEEN_LARGEST {
        let with_domains = session.state.backlog.classes.awaiting_affinity > 0;
        session.scans.largest = Some(Largest::new(session.cluster, with_domains));
        session.scans.failed_tries = 0;
    }
    let backoff_over = (scan.leading == 0).then_some(session.now);
    let sought = Sought::Fitting(session.scans.largest.as_ref());
    let next =
        session.state.backlog.next_class(session.cluster, queue, &mut scan.cursor, sought, backoff_over);
    let tried = next.filter(|_| scan.leading > 0 || scan.others > 0).and_then(|id| try_first(session, id));
    scan.tried = tried;
    if tried.is_none() {
        scan.over = true;
        match next.map(|_| session.now).into_iter().chain(scan.cursor.next_retry).min() {
            Some(again) => session.state.backlog.timers.set_earlier(TimerKind::Scan, queue, again),
            None => session.state.backlog.end_scan(queue),
        }
    }
    session.scans.scans.insert(queue, scan);
    tried
}
