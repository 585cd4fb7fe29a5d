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

use crate::backlog::{Backlog, TimerKind};
use crate::session::Session;

/// How long a reservation lasts at most, and how long a repair pauses after that.
const LASTS_MS: i64 = 600_000;
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
}

/// The reservations, by job.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    rows: BTreeMap<JobId, Reservation>,
}

impl Reservations {
    /// A job is gone.
    pub(crate) fn remove(&mut self, job: JobId) {
        self.rows.remove(&job);
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
            self.rows.insert(job, Reservation { kind: ReservationKind::Repair, since: now });
        }
    }

    /// When the first reservation of a gang ends.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        let gangs = self.rows.values().filter(|row| row.kind == ReservationKind::Gang);
        gangs.map(ends).filter(|time| *time > now).min()
    }
}

impl Backlog {
    /// A gang keeps no nodes for a repair any more.
    pub(crate) fn end_repair(&mut self, job: JobId) {
        self.timers.clear(TimerKind::Repair, job);
        if self.reservations.is_repair(job) {
            self.reservations.remove(job);
        }
    }

    /// Whether a gang has kept nodes for a repair for so long that other jobs go first for a while.
    pub(crate) fn is_repair_paused(&self, job: JobId, now: Time) -> bool {
        self.timers.get(TimerKind::Repair, job).is_some_and(|until| now < until)
    }

    /// When a gang ends to keep nodes for a repair, or may keep some again.
    pub(crate) fn repair_wake(&self, now: Time) -> Option<Time> {
        let repairs = self.reservations.rows.values().filter(|row| row.kind == ReservationKind::Repair);
        repairs.map(ends).chain(self.timers.next(TimerKind::Repair)).filter(|time| *time > now).min()
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
    let Backlog { reservations: Reservations { rows }, timers, .. } = &mut session.backlog;
    let paused: Vec<(Time, JobId)> = timers.of(TimerKind::Repair).collect();
    for (_, job) in
        paused.into_iter().filter(|(at, job)| *at <= now || !session.cluster.jobs[*job].is_broken())
    {
        timers.clear(TimerKind::Repair, job);
    }
    rows.retain(|job, _| reserved.binary_search(job).is_ok());
    let mut over = Vec::new();
    for job in reserved {
        let new = Reservation { kind: ReservationKind::Gang, since: now };
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
            session.backlog.timers.set(TimerKind::Repair, job, until);
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
