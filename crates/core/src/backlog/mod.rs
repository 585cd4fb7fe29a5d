//! The backlog: which jobs wait, for what, and which of them a cycle looks at.
//!
//! A refused job is unschedulable until an event may lift the refusal. Jobs that get the same refusal form an
//! equivalence class (`equivalence`). When an event may lift the refusal, the first job of the class in the order of
//! jobs is tried; when that job is served, the next job of the class is tried in the same cycle. So the cost of a cycle
//! does not depend on the length of the backlog, and pods go where they would go if all jobs were tried.
mod capacity_delta;
mod capacity_index;
mod class_query;
mod equivalence;
mod hints;
mod members;
mod pools;
mod refusals;
mod requeue;
mod scans;
mod timers;

use crate::backoff::Backoff;
use crate::backoff::BackoffTimes;
use crate::order::Heap;
use crate::session::Session;
use equivalence::{JobClassId, QueueClasses};
use members::{Member, Members};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Dequeue, Time};
use phalanx_cluster::id::{JobId, QueueId};
pub(crate) use pools::Backlog;
pub use pools::{Activation, Pending};
pub(crate) use refusals::Refusals;
use requeue::{Requeue, requeue};
pub(crate) use scans::{IndexScans, try_next_fitting};
pub(crate) use timers::TimerKind;

/// How often waiting jobs are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryLimits {
    /// The number of waiting jobs up to which all are tried in each cycle.
    pub all_up_to: usize,
    /// The number of jobs that any event may help that are tried in each cycle. The others back off after a failed try:
    /// for a second, then two, up to ten.
    pub per_cycle: usize,
    /// The number of jobs of a queue that may need evictions that are tried in each cycle, and of the rest in rotation;
    /// fewer where more than four queues have such jobs. All of them are tried when free capacity may serve them.
    pub evicting_per_cycle: usize,
    /// The milliseconds after which an unschedulable job is tried whatever happened (kube-scheduler's
    /// `podMaxInUnschedulablePodsDuration`).
    pub flush_ms: i64,
    /// The largest number of jobs that are flushed in one cycle.
    pub flushed_per_cycle: usize,
    /// How long back-offs last.
    pub backoff: BackoffTimes,
}

impl Default for RetryLimits {
    fn default() -> Self {
        Self {
            all_up_to: 100,
            per_cycle: 500,
            evicting_per_cycle: 16,
            flush_ms: 300_000,
            flushed_per_cycle: 1000,
            backoff: BackoffTimes::default(),
        }
    }
}

impl RetryLimits {
    /// No job ever becomes unschedulable.
    pub fn unlimited() -> Self {
        Self { all_up_to: usize::MAX, ..Self::default() }
    }
}

/// Activates the jobs that a cycle has to try.
pub(crate) fn begin(session: &mut Session<'_>, limits: RetryLimits) {
    session.state.backlog.take_refused_binds(session.cluster, session.now);
    session.state.backlog.follow(session.cluster);
    let backoff_over = session.state.backlog.retry_due(session.now, limits.flushed_per_cycle);
    let changed = session.state.backlog.take_changed_queues();
    session.state.history.begin(session.now, !changed.is_empty());
    session.state.backlog.backoff_times = limits.backoff;
    let stamp = session.cluster.nodes_stamp();
    session.state.failed_searches.begin(session.now, stamp, !changed.is_empty(), limits.backoff);
    if session.state.backlog.unschedulable() > 0 {
        retry_queues(session, changed);
        let mut classes: Vec<JobClassId> =
            session.state.backlog.classes.tried_each_cycle.iter().copied().collect();
        classes.extend(
            backoff_over
                .into_iter()
                .filter(|class| !session.state.backlog.classes.tried_each_cycle.contains(class)),
        );
        scans::rank_moved_classes(session);
        let delta = session.state.backlog.delta(session.cluster);
        let with_room = session.state.backlog.classes_with_capacity(session.cluster, delta.as_ref());
        scans::begin(session, delta, limits);
        try_classes(session, &classes, limits);
        try_classes(session, &with_room, limits);
    }
    session.state.backlog.clear_freed();
    for job in session.active_jobs() {
        session.state.backlog.refusals.clear(job);
    }
}

/// Tries all unschedulable jobs of queues that changed, that take jobs again, or that take none any more.
fn retry_queues(session: &mut Session<'_>, mut changed: Vec<QueueId>) {
    let differs = |queue: QueueId, before: &Result<(), Refusal>| session.queue_refuses(queue) != *before;
    changed.extend(
        session
            .state
            .backlog
            .queues_with_unschedulable()
            .filter(|(queue, before)| differs(*queue, before))
            .map(|(queue, _)| queue),
    );
    if !changed.is_empty() {
        session.state.backlog.retry_unschedulable(|queue| changed.contains(&queue));
    }
}

/// Tries the first job of each class. Of very many classes: those that lead in the order of jobs, and as many of the
/// others whose back-off is over.
fn try_classes(session: &mut Session<'_>, classes: &[JobClassId], limits: RetryLimits) {
    let mut first = classes.to_vec();
    if classes.len() > limits.per_cycle {
        first = first_classes(session, classes, limits.per_cycle);
        let mut turns = limits.per_cycle;
        for id in classes {
            let Some(until) = session.state.backlog.job_class(*id).map(|class| class.backoff.until) else {
                continue;
            };
            if first.binary_search(id).is_ok() {
                continue;
            }
            let has_turn = until <= session.now && turns > 0;
            turns -= usize::from(has_turn);
            if has_turn || !session.state.backlog.may_back_off(*id) {
                try_first(session, *id);
            } else {
                session.state.backlog.back_off_class(*id, until.max(session.now));
            }
        }
    }
    for id in first {
        try_first(session, id);
    }
}

/// The `count` classes whose first jobs lead in the order of jobs, by id.
fn first_classes(session: &mut Session<'_>, classes: &[JobClassId], count: usize) -> Vec<JobClassId> {
    let firsts: Vec<_> = classes.iter().filter_map(|id| Some((first(session, *id)?, *id))).collect();
    let mut leading: Vec<JobClassId> =
        first_in_order(session, firsts.into_iter(), count).into_iter().map(|(_, class)| class).collect();
    leading.sort_unstable();
    leading
}

/// The `count` first entries in the order of jobs.
fn first_in_order<T: Copy>(
    session: &Session<'_>,
    all: impl Iterator<Item = (JobId, T)>,
    count: usize,
) -> Vec<(JobId, T)> {
    let mut heap: Heap<(JobId, T)> = Heap::default();
    for it in all {
        heap.push(it, |a, b| session.job_order(a.0, b.0));
    }
    std::iter::from_fn(|| heap.pop(|a, b| session.job_order(a.0, b.0))).take(count).collect()
}

/// The first job of a class.
fn first(session: &mut Session<'_>, id: JobClassId) -> Option<JobId> {
    session.state.backlog.follow(session.cluster);
    let mut members = std::mem::take(&mut session.state.backlog.job_class_mut(id)?.members);
    let lives = |member| session.state.backlog.is_entry(id, member);
    let first = members.first(lives, |a, b| session.job_order(a.job, b.job));
    session.state.backlog.job_class_mut(id)?.members = members;
    first.map(|member| member.job)
}

/// Tries the first job of a class.
fn try_first(session: &mut Session<'_>, id: JobClassId) -> Option<JobId> {
    let job = first(session, id)?;
    session.state.backlog.note_tried(id);
    session.state.backlog.retry(job, Activation::Class);
    session.state.backlog.row_mut(job).first_of = Some(id);
    session.state.backlog.refusals.clear(job);
    Some(job)
}

/// Tries the next job of the class that a served job was tried for. Returns the next job.
pub(crate) fn try_next(session: &mut Session<'_>, job: JobId) -> Option<JobId> {
    let class = session.state.backlog.take_first_of(job)?;
    session.state.backlog.job_class_mut(class)?.backoff = Backoff::default();
    try_first(session, class)
}

/// Moves all active jobs to their pools at the end of a cycle.
pub(crate) fn end_cycle(session: &mut Session<'_>, limits: RetryLimits) {
    let active = session.active_jobs();
    let (settled, waiting): (Vec<JobId>, Vec<JobId>) = active
        .into_iter()
        .partition(|job| session.state.backlog.has_nothing_pending(*job, &session.cluster.jobs[*job]));
    for job in settled {
        session.state.backlog.leave_pools(job);
    }
    for job in &waiting {
        let until = session.cluster.awaits_group_until(*job, session.now);
        if let Some(until) = until.filter(|until| *until < Time::NEVER) {
            session.state.backlog.retry_at(*job, until);
        }
    }
    if waiting.len().saturating_add(session.state.backlog.unschedulable()) <= limits.all_up_to {
        session.state.backlog.retry_unschedulable(|_| true);
    } else {
        requeue_all(session, waiting, limits);
    }
    let backlog = &mut session.state.backlog;
    backlog.classes.drop_emptied(&mut backlog.timers);
    backlog.record_capacities(session.cluster);
    session.state.backlog.tidy_active();
    debug_assert!(knows_queues(session), "a queue has another answer than its unschedulable jobs were given");
}

/// Whether the backlog's answers of queues are current. With a stale answer all jobs of the queue would be tried in
/// each cycle, or none when the answer changes.
fn knows_queues(session: &Session<'_>) -> bool {
    session
        .state
        .backlog
        .queues_with_unschedulable()
        .all(|(queue, known)| session.queue_refuses(queue) == *known)
}

fn requeue_all(session: &mut Session<'_>, waiting: Vec<JobId>, limits: RetryLimits) {
    let mut failed = Vec::new();
    // Of many jobs that had no turn, only the first are active in the next cycle.
    let too_many_deferred = waiting.len() > limits.per_cycle;
    for job in waiting {
        if let Some(until) = session.state.backlog.refused_until(session.cluster, job, session.now) {
            session.state.backlog.rest(job, until);
        } else if let Some(requeue) = requeue(session, job, too_many_deferred) {
            add_unschedulable(session, job, requeue, limits);
        } else if may_back_off_job(session, job) {
            failed.push(job);
        }
    }
    if failed.len() > limits.per_cycle {
        let first = first_in_order(session, failed.iter().map(|job| (*job, ())), limits.per_cycle);
        let first: rustc_hash::FxHashSet<JobId> = first.into_iter().map(|(job, ())| job).collect();
        failed.retain(|job| !first.contains(job));
        for job in failed {
            session.state.backlog.back_off(job, session.now);
        }
    }
}

/// Whether a job may be left out of cycles: it has no nominated pods, had its turn, and holds up no other job.
fn may_back_off_job(session: &Session<'_>, id: JobId) -> bool {
    let job = &session.cluster.jobs[id];
    (!job.has_places() || job.grows())
        && !session.state.backlog.is_deferred(id)
        && session.cluster.queues[job.queue].dequeue != Dequeue::Fifo
}

fn add_unschedulable(session: &mut Session<'_>, job: JobId, requeue: Requeue, limits: RetryLimits) {
    let queue = requeue.key.queue();
    if !session.state.backlog.knows_blocked(queue) {
        let blocked = session.queue_refuses(queue);
        let known = QueueClasses { unschedulable: 0, blocked };
        session.state.backlog.classes.queues.insert(queue, known);
    }
    let class = session.state.backlog.ensure_class(requeue.key, requeue.hint, job);
    let first_of = session.state.backlog.row(job).first_of;
    let failed = first_of == Some(class);
    if let Some(left) = first_of.filter(|_| !failed) {
        session.state.backlog.try_each_cycle(left);
    }
    if requeue.until < Time::NEVER {
        session.state.backlog.retry_at(job, requeue.until);
    }
    let flush = Time(session.now.0.saturating_add(limits.flush_ms));
    let member = session.state.backlog.add_unschedulable(job, class, flush);
    session.state.backlog.watch_claims(session.cluster, member);
    if failed {
        session.state.backlog.note_failed_try(class, session.now);
    }
    let Some(it) = session.state.backlog.job_class_mut(class) else { return };
    let (mut members, live) = (std::mem::take(&mut it.members), it.live);
    if members.entries() > 2 * live + 16 {
        members = without_departed(session, class, &members);
    }
    add(session, class, &mut members, member);
    if let Some(it) = session.state.backlog.job_class_mut(class) {
        it.members = members;
    }
}

fn without_departed(session: &Session<'_>, class: JobClassId, members: &Members) -> Members {
    let mut kept = Members::default();
    for member in members.all().into_iter().filter(|member| session.state.backlog.is_entry(class, *member)) {
        add(session, class, &mut kept, member);
    }
    kept
}

fn add(session: &Session<'_>, class: JobClassId, members: &mut Members, member: Member) {
    let lives = |member| session.state.backlog.is_entry(class, member);
    members.push(member, lives, |a, b| session.job_order(a.job, b.job));
}
