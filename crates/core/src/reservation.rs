//! Reservations: nodes that are kept for a job across cycles.
//!
//! The places of a reservation are the nominations of the job's tasks (status `Pipelined`, `status.nominatedNodeName` on the
//! pod); they are stored nowhere else. Here stands since when a job has them, and what for. A reservation ends after ten
//! minutes: one that rests on pod affinity or spread may wait for pods that will not come. The job is then planned anew.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::Status;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::JobId;

use crate::session::Session;

/// How long a reservation lasts at most, and how long a repair pauses after that.
const LASTS_MS: i64 = 600_000;
/// A search of fewer steps takes a few milliseconds, and is made again whenever something has happened.
const SHORT_STEPS: u64 = 2_000;
/// A failed search stands for a millisecond for so many steps.
const STEPS_PER_MS: u64 = 4;
/// But not longer than this; nor does it when nothing happens, for time alone may change the answer.
const STANDS_MS: i64 = 10_000;

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReservationKind {
    /// A gang that can start once resources are released.
    Gang,
    /// A running gang that lost members, for which no resources are being released yet.
    Repair,
}

/// A reservation.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    kind: ReservationKind,
    since: Time,
    /// The last plan that failed to start the gang elsewhere.
    failed: Option<FailedStart>,
}

/// A plan that found no way to start a gang at once.
#[derive(Clone, Copy, Debug)]
struct FailedStart {
    /// What had happened by then, as [`Cluster::news`](phalanx_cluster::Cluster::news) counts it.
    news: u64,
    at: Time,
    /// Its searches are not made again before.
    until: Time,
}

impl FailedStart {
    /// Whether nothing has happened since.
    fn is_current(self, news: u64, now: Time) -> bool {
        self.news == news && now.0.saturating_sub(self.at.0) < STANDS_MS
    }
}

/// The reservations, by job.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    rows: BTreeMap<JobId, Reservation>,
    /// When gangs whose repair has lasted long enough may keep nodes again.
    paused: BTreeMap<JobId, Time>,
}

impl Reservations {
    /// A job is gone.
    pub(crate) fn remove(&mut self, job: JobId) {
        self.rows.remove(&job);
        self.paused.remove(&job);
    }

    /// Whether the reservation of a job is for a repair.
    pub(crate) fn is_repair(&self, job: JobId) -> bool {
        self.rows.get(&job).is_some_and(|row| row.kind == ReservationKind::Repair)
    }

    /// The jobs that keep nodes for a repair.
    pub(crate) fn repairs(&self) -> impl Iterator<Item = JobId> {
        self.rows.iter().filter(|(_, row)| row.kind == ReservationKind::Repair).map(|(job, _)| *job)
    }

    /// A gang keeps nodes for a repair, or goes on doing so.
    pub(crate) fn begin_repair(&mut self, job: JobId, now: Time) {
        if !self.is_repair(job) {
            self.rows.insert(job, Reservation { kind: ReservationKind::Repair, since: now, failed: None });
        }
    }

    /// A gang keeps no nodes for a repair any more.
    pub(crate) fn end_repair(&mut self, job: JobId) {
        self.paused.remove(&job);
        if self.is_repair(job) {
            self.rows.remove(&job);
        }
    }

    /// Whether a gang has kept nodes for a repair for so long that other jobs go first for a while.
    pub(crate) fn is_paused(&self, job: JobId, now: Time) -> bool {
        self.paused.get(&job).is_some_and(|until| now < *until)
    }

    /// Searches of so many steps found no way to start a job with a reservation.
    pub(crate) fn note_failure(&mut self, job: JobId, steps: u64, news: u64, now: Time) {
        let rests_ms = if steps < SHORT_STEPS { 0 } else { ((steps / STEPS_PER_MS) as i64).min(STANDS_MS) };
        let failed = FailedStart { news, at: now, until: Time(now.0.saturating_add(rests_ms)) };
        let new = Reservation { kind: ReservationKind::Gang, since: now, failed: None };
        self.rows.entry(job).or_insert(new).failed = Some(failed);
    }

    /// Whether searches for a way to start a job need not be made: nothing has happened since they failed, or they took long.
    pub(crate) fn failure_stands(&self, job: JobId, news: u64, now: Time) -> bool {
        let failed = self.rows.get(&job).and_then(|row| row.failed);
        failed.is_some_and(|failed| now < failed.until || failed.is_current(news, now))
    }

    /// Whether nothing has happened since a plan failed to start a job.
    pub(crate) fn is_unchanged(&self, job: JobId, news: u64, now: Time) -> bool {
        let failed = self.rows.get(&job).and_then(|row| row.failed);
        failed.is_some_and(|failed| failed.is_current(news, now))
    }

    /// When a reservation ends, or searches are made again that rest.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        let gangs = self.rows.values().filter(|row| row.kind == ReservationKind::Gang);
        let rests = |row: &Reservation| row.failed.map(|failed| failed.until);
        gangs.flat_map(|row| [Some(ends(row)), rests(row)]).flatten().filter(|time| *time > now).min()
    }

    /// When a gang ends to keep nodes for a repair, or may keep some again.
    pub(crate) fn repair_wake(&self, now: Time) -> Option<Time> {
        let repairs = self.rows.values().filter(|row| row.kind == ReservationKind::Repair).map(ends);
        repairs.chain(self.paused.values().copied()).filter(|time| *time > now).min()
    }
}

fn ends(row: &Reservation) -> Time {
    Time(row.since.0.saturating_add(LASTS_MS))
}

/// A cycle begins: notes which jobs have reservations, and releases those that have lasted long enough.
pub(crate) fn begin(session: &mut Session<'_>) {
    let now = session.now;
    let mut reserved: Vec<JobId> = session.waiting_jobs();
    reserved.retain(|job| session.cluster.jobs[*job].counts.of(Status::Pipelined) > 0);
    let Reservations { rows, paused } = &mut session.backlog.reservations;
    paused.retain(|job, until| now < *until && session.cluster.jobs[*job].is_broken());
    rows.retain(|job, _| reserved.binary_search(job).is_ok());
    let mut over = Vec::new();
    for job in reserved {
        let new = Reservation { kind: ReservationKind::Gang, since: now, failed: None };
        let row = rows.entry(job).or_insert(new);
        if ends(row) <= now {
            over.push((job, row.kind));
        }
    }
    for (job, kind) in over {
        release(session, job);
        session.backlog.reservations.remove(job);
        if kind == ReservationKind::Repair {
            let until = Time(now.0.saturating_add(LASTS_MS));
            session.backlog.reservations.paused.insert(job, until);
        }
    }
}

/// Gives up the reservation of a job.
pub(crate) fn release(session: &mut Session<'_>, job: JobId) {
    if session.cluster.jobs[job].counts.of(Status::Pipelined) == 0 {
        return;
    }
    let mut statement = session.statement();
    statement.unplace_reserved(job);
    statement.commit(&Arc::default());
}

/// Gives up the reservation of a job that lost a part of it and that no action serves in this cycle.
pub(crate) fn release_incomplete(session: &mut Session<'_>, job: JobId) {
    if !session.job_ready(job) && !session.job_pipelined(job) {
        release(session, job);
    }
}
