//! Which of the jobs that wait a cycle looks at.
//!
//! A job that was refused for a reason that stands is parked in a herd of those that wait for the same (`herds`).
//! When something happens that may lift the reason, the first of the herd is called, in the order of jobs; the next one
//! when that has got what it asked for, in the same cycle. So what a backlog costs does not depend on its length, and who is
//! placed where is what it would be if all were looked at.
mod calls;
mod herds;
mod hunt;
mod lineup;
mod members;
mod parking;
mod pools;
mod refusals;
mod rooms;

use crate::actions::Heap;
use crate::session::Session;
use herds::HerdId;
pub(crate) use hunt::{Hunt, call as call_hunted};
use members::{Member, Members};
use parking::{Parking, parking};
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::{Dequeue, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Job, World};
pub(crate) use pools::Backlog;
pub use pools::Pending;
pub(crate) use refusals::Refusals;

/// How patient jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Up to so many jobs that wait are all looked at in each cycle.
    pub few: usize,
    /// Of those that may be helped by anything, so many are looked at in each cycle. The others are left alone for a second
    /// when they were looked at in vain, then for two, up to ten.
    pub in_vain: usize,
    /// Of a queue's for whom others may have to be evicted so many are looked at in each cycle, and as many of the others in
    /// turn; fewer where there are more than four such queues. All of them are looked at when there is room that may do.
    pub searched: usize,
    /// After so many milliseconds a parked job is looked at whatever happened.
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
    /// Nobody is ever parked.
    pub fn none() -> Self {
        Self { few: usize::MAX, ..Self::default() }
    }
}

/// Calls those that a cycle has to look at.
pub(crate) fn begin(session: &mut Session<'_>, patience: Patience) {
    for (job, until) in session.world.note_denied(session.now) {
        session.backlog.call_at(job, until);
    }
    session.backlog.follow(session.world);
    let rested = session.backlog.call_due(session.world, session.now, patience.flushed);
    let changed = session.backlog.take_changed_queues();
    session.past.begin(session.now, session.world.nodes_stamp(), !changed.is_empty());
    if session.backlog.parked() > 0 {
        call_of_queues(session, changed);
        let mut herds = session.backlog.standing_herds();
        herds.extend(rested.into_iter().filter(|herd| !session.backlog.stands(*herd)));
        hunt::line_up(session);
        let growth = session.backlog.growth(session.world);
        let with_room = session.backlog.herds_with_room(session.world, growth.as_ref());
        hunt::begin(session, growth, patience);
        call_herds(session, &herds, patience);
        call_herds(session, &with_room, patience);
    }
    session.backlog.forget_freed();
    for job in session.active_jobs() {
        session.backlog.refusals.clear(job);
    }
}

/// Calls all parked jobs of queues that changed, or that jobs may be placed in now and might not before, or the other way
/// round.
fn call_of_queues(session: &mut Session<'_>, mut changed: Vec<QueueId>) {
    let differs = |queue: QueueId, before: &Result<(), Refusal>| session.queue_refuses(queue) != *before;
    changed.extend(
        session
            .backlog
            .queues_with_parked()
            .filter(|(queue, before)| differs(*queue, before))
            .map(|(queue, _)| queue),
    );
    if !changed.is_empty() {
        session.backlog.call_parked(|queue| changed.contains(&queue));
    }
}

/// Calls the first of each. Of very many only those that go first in the order of jobs, and as many of the others as were
/// not called in vain just now.
fn call_herds(session: &mut Session<'_>, herds: &[HerdId], patience: Patience) {
    let mut first = herds.to_vec();
    if herds.len() > patience.in_vain {
        first = leading(session, herds, patience.in_vain);
        let mut turns = patience.in_vain;
        for id in herds {
            let Some(until) = session.backlog.herd(*id).map(|herd| herd.rests_until) else { continue };
            if first.binary_search(id).is_ok() {
                continue;
            }
            let has_turn = until <= session.now && turns > 0;
            turns -= usize::from(has_turn);
            if has_turn || !session.backlog.may_rest(*id) {
                call_first(session, *id);
            } else {
                session.backlog.rest_herd(*id, until.max(session.now));
            }
        }
    }
    for id in first {
        call_first(session, id);
    }
}

/// So many of them whose first goes before those of the others, by id.
fn leading(session: &mut Session<'_>, herds: &[HerdId], count: usize) -> Vec<HerdId> {
    let firsts: Vec<_> = herds.iter().filter_map(|id| Some((first(session, *id)?, *id))).collect();
    let mut leading: Vec<HerdId> =
        ahead(session, firsts.into_iter(), count).into_iter().map(|(_, herd)| herd).collect();
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

/// The first of a herd.
fn first(session: &mut Session<'_>, id: HerdId) -> Option<JobId> {
    session.backlog.follow(session.world);
    let mut members = std::mem::take(&mut session.backlog.herd_mut(id)?.members);
    let lives = |member| is_entry(&session.backlog, id, member);
    let first = members.first(lives, |a, b| session.job_order(a.0, b.0));
    session.backlog.herd_mut(id)?.members = members;
    first.map(|(job, _)| job)
}

/// Calls the first of a herd.
fn call_first(session: &mut Session<'_>, id: HerdId) -> Option<JobId> {
    let job = first(session, id)?;
    session.backlog.note_called(id);
    session.backlog.call(job);
    session.backlog.set_first_of(job, id);
    session.backlog.refusals.clear(job);
    Some(job)
}

/// The job that is to be asked next, when one has got what it asked for.
pub(crate) fn call_next(session: &mut Session<'_>, job: JobId) -> Option<JobId> {
    let herd = session.backlog.take_first_of(job)?;
    session.backlog.herd_mut(herd)?.tries = 0;
    call_first(session, herd)
}

fn is_entry(backlog: &Backlog, herd: HerdId, (job, serial): Member) -> bool {
    backlog.is_entry(herd, job, serial)
}

/// The cycle ends: says of all jobs that were looked at where they are until the next one.
pub(crate) fn settle(session: &mut Session<'_>, patience: Patience) {
    let awake = session.active_jobs();
    let (settled, waiting): (Vec<JobId>, Vec<JobId>) =
        awake.into_iter().partition(|job| session.backlog.is_settled(*job, &session.world.jobs[*job]));
    for job in settled {
        session.backlog.settle_job(job);
    }
    for job in &waiting {
        if let Some(until) = session.world.awaits_group_until(*job, session.now) {
            session.backlog.call_at(*job, until);
        }
    }
    if waiting.len().saturating_add(session.backlog.parked()) <= patience.few {
        session.backlog.call_parked(|_| true);
    } else {
        park_all(session, waiting, patience);
    }
    session.backlog.note_rooms(session.world);
    session.backlog.tidy_awake(session.world);
    debug_assert!(knows_queues(session), "a queue has another answer than its parked jobs were given");
}

/// Whether what is known of queues with parked jobs is so: else all of those would be called in each cycle, or not when it
/// changes.
fn knows_queues(session: &Session<'_>) -> bool {
    session.backlog.queues_with_parked().all(|(queue, known)| session.queue_refuses(queue) == *known)
}

fn park_all(session: &mut Session<'_>, waiting: Vec<JobId>, patience: Patience) {
    let mut in_vain = Vec::new();
    // Of so many that had no turn only those that go first are looked at in the next cycle.
    let crowd = waiting.len() > patience.in_vain;
    for job in waiting {
        if let Some(parking) = parking(session, job, crowd) {
            park(session, job, parking, patience);
        } else if may_be_off(session.world, &session.world.jobs[job]) {
            in_vain.push(job);
        }
    }
    if in_vain.len() > patience.in_vain {
        let first = ahead(session, in_vain.iter().map(|job| (*job, ())), patience.in_vain);
        let first: rustc_hash::FxHashSet<JobId> = first.into_iter().map(|(job, ())| job).collect();
        in_vain.retain(|job| !first.contains(job));
        for job in in_vain {
            session.backlog.put_off(job, session.now);
        }
    }
}

/// Whether nothing and nobody depends on a job's being looked at in each cycle.
fn may_be_off(world: &World, job: &Job) -> bool {
    (!job.has_places() || job.grows())
        && !job.had_no_turn()
        && world.queues[job.queue].dequeue != Dequeue::Fifo
}

fn park(session: &mut Session<'_>, job: JobId, parking: Parking, patience: Patience) {
    let queue = parking.key.queue();
    if !session.backlog.knows_blocked(queue) {
        let blocked = session.queue_refuses(queue);
        session.backlog.set_blocked(queue, blocked);
    }
    let herd = session.backlog.ensure_herd(session.world, parking.key, parking.plight, job);
    let first_of = session.backlog.row(job).first_of;
    let in_vain = first_of == Some(herd);
    if let Some(left) = first_of.filter(|_| !in_vain) {
        session.backlog.doubt_herd(left);
    }
    let denied = session.backlog.is_denied(job);
    let flush = Time(session.now.0.saturating_add(patience.flush));
    let serial = session.backlog.park(job, herd, denied, parking.until, flush);
    session.world.watch_claims(job, serial);
    if in_vain {
        session.backlog.asked_in_vain(herd, session.now);
    }
    let Some(it) = session.backlog.herd_mut(herd) else { return };
    let (mut members, live) = (std::mem::take(&mut it.members), it.live());
    if members.entries() > 2 * live + 16 {
        members = without_strays(session, herd, &members);
    }
    add(session, herd, &mut members, (job, serial));
    if let Some(it) = session.backlog.herd_mut(herd) {
        it.members = members;
    }
}

fn without_strays(session: &Session<'_>, herd: HerdId, members: &Members) -> Members {
    let mut kept = Members::default();
    for member in members.all().into_iter().filter(|member| is_entry(&session.backlog, herd, *member)) {
        add(session, herd, &mut kept, member);
    }
    kept
}

fn add(session: &Session<'_>, herd: HerdId, members: &mut Members, member: Member) {
    let lives = |member| is_entry(&session.backlog, herd, member);
    members.push(member, lives, |a, b| session.job_order(a.0, b.0));
}
