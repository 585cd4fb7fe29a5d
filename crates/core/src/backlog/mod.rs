//! The backlog: which jobs wait, for what, and which of them a cycle looks at.
//!
//! A job with a refusal that stands is unschedulable. Jobs that get the same answers form an equivalence class
//! (`equivalence`). When something happens that may lift the refusal, the first job of the class is tried, in the order of
//! jobs; when that job is served, the next one is tried in the same cycle. So the cost of a backlog does not depend on its
//! length, and pods go where they would go if all jobs were looked at.
mod capacity_delta;
mod capacity_index;
mod equivalence;
mod hints;
mod members;
mod pools;
mod refusals;
mod requeue;
mod walks;

use crate::actions::Heap;
use crate::session::Session;
use equivalence::JobClassId;
use members::{Member, Members};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Dequeue, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, Job};
pub(crate) use pools::Backlog;
pub use pools::Pending;
pub(crate) use refusals::Refusals;
use requeue::{Requeue, requeue};
pub(crate) use walks::{Walks, call as try_next_fitting};

/// How often jobs that wait are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Up to so many jobs that wait are all looked at in each cycle.
    pub few: usize,
    /// Of those that may be helped by anything, so many are looked at in each cycle. The others are left alone for a second
    /// when they were looked at in vain, then for two, up to ten.
    pub in_vain: usize,
    /// Of a queue's for whom others may have to be evicted so many are looked at in each cycle, and as many of the others in
    /// turn; fewer where there are more than four such queues. All of them are looked at when there is capacity that may do.
    pub searched: usize,
    /// After so many milliseconds an unschedulable job is looked at whatever happened.
    pub flush: i64,
    /// But no more of them in one cycle than this.
    pub flushed: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self { few: 100, in_vain: 500, searched: 16, flush: 300_000, flushed: 1000 }
    }
}

impl Patience {
    /// No job ever becomes unschedulable.
    pub fn none() -> Self {
        Self { few: usize::MAX, ..Self::default() }
    }
}

/// Tries those that a cycle has to look at.
pub(crate) fn begin(session: &mut Session<'_>, patience: Patience) {
    for (job, until) in session.cluster.note_denied(session.now) {
        session.backlog.retry_at(job, until);
    }
    session.backlog.follow(session.cluster);
    let rested = session.backlog.retry_due(session.cluster, session.now, patience.flushed);
    let changed = session.backlog.take_changed_queues();
    session.past.begin(session.now, !changed.is_empty());
    session.failed_searches.begin(session.now, session.cluster.nodes_stamp(), !changed.is_empty());
    if session.backlog.unschedulable() > 0 {
        retry_queues(session, changed);
        let mut classes = session.backlog.standing_classes();
        classes.extend(rested.into_iter().filter(|class| !session.backlog.stands(*class)));
        walks::line_up(session);
        let delta = session.backlog.delta(session.cluster);
        let with_room = session.backlog.classes_with_capacity(session.cluster, delta.as_ref());
        walks::begin(session, delta, patience);
        try_classes(session, &classes, patience);
        try_classes(session, &with_room, patience);
    }
    session.backlog.forget_freed();
    for job in session.active_jobs() {
        session.backlog.refusals.clear(job);
    }
}

/// Tries all unschedulable jobs of queues that changed, or that jobs may be placed in now and might not before, or the other way
/// round.
fn retry_queues(session: &mut Session<'_>, mut changed: Vec<QueueId>) {
    let differs = |queue: QueueId, before: &Result<(), Refusal>| session.queue_refuses(queue) != *before;
    changed.extend(
        session
            .backlog
            .queues_with_unschedulable()
            .filter(|(queue, before)| differs(*queue, before))
            .map(|(queue, _)| queue),
    );
    if !changed.is_empty() {
        session.backlog.retry_unschedulable(|queue| changed.contains(&queue));
    }
}

/// Tries the first of each. Of very many only those that go first in the order of jobs, and as many of the others as were
/// not tried in vain just now.
fn try_classes(session: &mut Session<'_>, classes: &[JobClassId], patience: Patience) {
    let mut first = classes.to_vec();
    if classes.len() > patience.in_vain {
        first = leading(session, classes, patience.in_vain);
        let mut turns = patience.in_vain;
        for id in classes {
            let Some(until) = session.backlog.job_class(*id).map(|class| class.rests_until) else { continue };
            if first.binary_search(id).is_ok() {
                continue;
            }
            let has_turn = until <= session.now && turns > 0;
            turns -= usize::from(has_turn);
            if has_turn || !session.backlog.may_rest(*id) {
                try_first(session, *id);
            } else {
                session.backlog.rest_class(*id, until.max(session.now));
            }
        }
    }
    for id in first {
        try_first(session, id);
    }
}

/// So many of them whose first goes before those of the others, by id.
fn leading(session: &mut Session<'_>, classes: &[JobClassId], count: usize) -> Vec<JobClassId> {
    let firsts: Vec<_> = classes.iter().filter_map(|id| Some((first(session, *id)?, *id))).collect();
    let mut leading: Vec<JobClassId> =
        ahead(session, firsts.into_iter(), count).into_iter().map(|(_, class)| class).collect();
    leading.sort_unstable();
    leading
}

/// So many of them whose jobs go before those of the others.
fn ahead<T: Copy>(
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

/// The first of a class.
fn first(session: &mut Session<'_>, id: JobClassId) -> Option<JobId> {
    session.backlog.follow(session.cluster);
    let mut members = std::mem::take(&mut session.backlog.job_class_mut(id)?.members);
    let lives = |member| is_entry(&session.backlog, id, member);
    let first = members.first(lives, |a, b| session.job_order(a.0, b.0));
    session.backlog.job_class_mut(id)?.members = members;
    first.map(|(job, _)| job)
}

/// Tries the first of a class.
fn try_first(session: &mut Session<'_>, id: JobClassId) -> Option<JobId> {
    let job = first(session, id)?;
    session.backlog.note_called(id);
    session.backlog.call(job);
    session.backlog.set_first_of(job, id);
    session.backlog.refusals.clear(job);
    Some(job)
}

/// The job that is to be asked next, when one has got what it asked for.
pub(crate) fn try_next(session: &mut Session<'_>, job: JobId) -> Option<JobId> {
    let class = session.backlog.take_first_of(job)?;
    session.backlog.job_class_mut(class)?.tries = 0;
    try_first(session, class)
}

fn is_entry(backlog: &Backlog, class: JobClassId, (job, serial): Member) -> bool {
    backlog.is_entry(class, job, serial)
}

/// The cycle ends: says of all jobs that were looked at where they are until the next one.
pub(crate) fn settle(session: &mut Session<'_>, patience: Patience) {
    let active = session.active_jobs();
    let (settled, waiting): (Vec<JobId>, Vec<JobId>) =
        active.into_iter().partition(|job| session.backlog.is_settled(*job, &session.cluster.jobs[*job]));
    for job in settled {
        session.backlog.settle_job(job);
    }
    for job in &waiting {
        if let Some(until) = session.cluster.awaits_group_until(*job, session.now) {
            session.backlog.retry_at(*job, until);
        }
    }
    if waiting.len().saturating_add(session.backlog.unschedulable()) <= patience.few {
        session.backlog.retry_unschedulable(|_| true);
    } else {
        requeue_all(session, waiting, patience);
    }
    session.backlog.note_rooms(session.cluster);
    session.backlog.tidy_active(session.cluster);
    debug_assert!(knows_queues(session), "a queue has another answer than its unschedulable jobs were given");
}

/// Whether what is known of queues with unschedulable jobs is so: else all of those would be tried in each cycle, or not when it
/// changes.
fn knows_queues(session: &Session<'_>) -> bool {
    session.backlog.queues_with_unschedulable().all(|(queue, known)| session.queue_refuses(queue) == *known)
}

fn requeue_all(session: &mut Session<'_>, waiting: Vec<JobId>, patience: Patience) {
    let mut in_vain = Vec::new();
    // Of so many that had no turn only those that go first are looked at in the next cycle.
    let crowd = waiting.len() > patience.in_vain;
    for job in waiting {
        if let Some(requeue) = requeue(session, job, crowd) {
            park(session, job, requeue, patience);
        } else if may_be_off(session.cluster, &session.cluster.jobs[job]) {
            in_vain.push(job);
        }
    }
    if in_vain.len() > patience.in_vain {
        let first = ahead(session, in_vain.iter().map(|job| (*job, ())), patience.in_vain);
        let first: rustc_hash::FxHashSet<JobId> = first.into_iter().map(|(job, ())| job).collect();
        in_vain.retain(|job| !first.contains(job));
        for job in in_vain {
            session.backlog.back_off(job, session.now);
        }
    }
}

/// Whether nothing and nobody depends on a job's being looked at in each cycle.
fn may_be_off(cluster: &Cluster, job: &Job) -> bool {
    (!job.has_places() || job.grows())
        && !job.had_no_turn()
        && cluster.queues[job.queue].dequeue != Dequeue::Fifo
}

fn park(session: &mut Session<'_>, job: JobId, requeue: Requeue, patience: Patience) {
    let queue = requeue.key.queue();
    if !session.backlog.knows_blocked(queue) {
        let blocked = session.queue_refuses(queue);
        session.backlog.set_blocked(queue, blocked);
    }
    let class = session.backlog.ensure_class(session.cluster, requeue.key, requeue.hint, job);
    let first_of = session.backlog.row(job).first_of;
    let in_vain = first_of == Some(class);
    if let Some(left) = first_of.filter(|_| !in_vain) {
        session.backlog.doubt_class(left);
    }
    let denied = session.backlog.is_denied(job);
    let flush = Time(session.now.0.saturating_add(patience.flush));
    let serial = session.backlog.park(job, class, denied, requeue.until, flush);
    session.cluster.watch_claims(job, serial);
    if in_vain {
        session.backlog.asked_in_vain(class, session.now);
    }
    let Some(it) = session.backlog.job_class_mut(class) else { return };
    let (mut members, live) = (std::mem::take(&mut it.members), it.live());
    if members.entries() > 2 * live + 16 {
        members = without_strays(session, class, &members);
    }
    add(session, class, &mut members, (job, serial));
    if let Some(it) = session.backlog.job_class_mut(class) {
        it.members = members;
    }
}

fn without_strays(session: &Session<'_>, class: JobClassId, members: &Members) -> Members {
    let mut kept = Members::default();
    for member in members.all().into_iter().filter(|member| is_entry(&session.backlog, class, *member)) {
        add(session, class, &mut kept, member);
    }
    kept
}

fn add(session: &Session<'_>, class: JobClassId, members: &mut Members, member: Member) {
    let lives = |member| is_entry(&session.backlog, class, member);
    members.push(member, lives, |a, b| session.job_order(a.0, b.0));
}
