//! Reservations: nodes that are kept for a job across cycles.
//!
//! The places of a reservation are the nominations of the job's tasks (status `Pipelined`, `status.nominatedNodeName`
//! on the pod); they are stored nowhere else. Here stands since when they are kept, and what for. A reservation ends
//! after ten minutes: one that rests on pod affinity or spread may wait for pods that will not come. The job is then
//! planned anew.
//!
//! The place of a pod that `shuffle` moved is kept by a placeholder, for no pod has it yet. The first waiting pod that
//! is like the moved pod gets it: a pod of the same class, and of the same PodGroup or, without one, of the same
//! namespace and queue with the same name or the same labels.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, JobKind, Status, Task};

use crate::session::Session;

/// How long a reservation lasts at most, and how long a repair pauses after that.
const LASTS_MS: i64 = 600_000;

/// The place of a moved pod that has not terminated yet is kept so many times as long.
const TERMINATION_FACTOR: i64 = 10;

/// Whose tasks have the places of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Holder {
    Job(JobId),
    Placeholder(TaskId),
}

/// What a reservation is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReservationKind {
    /// A gang that can start once resources are released.
    Gang,
    /// A running gang that lost members, for which no resources are being released yet.
    Repair,
    /// Nothing: a repair has lasted long enough, and other jobs go first for as long.
    PausedRepair,
    /// The successor of a moved pod.
    MovedPod(MovedPod),
}

/// A pod that `shuffle` moved.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MovedPod {
    job: (JobKind, Key),
    /// Since when the pod is gone.
    gone: Option<Time>,
    /// How long the place is kept once the pod is gone.
    keep_ms: i64,
}

/// A reservation.
#[derive(Clone, Debug)]
struct Reservation {
    kind: ReservationKind,
    /// The UID of the job or of the moved pod.
    uid: Arc<str>,
    since: Time,
}

impl Reservation {
    fn of_job(cluster: &Cluster, job: JobId, kind: ReservationKind, since: Time) -> Self {
        Self { kind, uid: cluster.jobs[job].object.uid.clone(), since }
    }

    /// When the places are given up.
    fn ends(&self) -> Time {
        let after = |from: Time, ms: i64| Time(from.0.saturating_add(ms));
        match &self.kind {
            ReservationKind::MovedPod(MovedPod { gone: Some(gone), keep_ms, .. }) => after(*gone, *keep_ms),
            ReservationKind::MovedPod(pod) => {
                after(self.since, pod.keep_ms.saturating_mul(TERMINATION_FACTOR))
            }
            _ => after(self.since, LASTS_MS),
        }
    }

    fn is_of_repair(&self) -> bool {
        matches!(self.kind, ReservationKind::Repair | ReservationKind::PausedRepair)
    }
}

/// A reservation, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservationReport {
    /// It is for the repair of a running gang.
    pub repair: bool,
    /// Since when.
    pub since: Time,
    /// When the nodes are given up.
    pub ends: Time,
    /// The nodes, by name.
    pub nodes: Vec<Arc<str>>,
}

/// The reservations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    rows: BTreeMap<Holder, Reservation>,
}

impl Reservations {
    fn has(&self, job: JobId, kind: &ReservationKind) -> bool {
        self.rows.get(&Holder::Job(job)).is_some_and(|row| row.kind == *kind)
    }

    /// The nodes that a job keeps, if it keeps any.
    pub(crate) fn of(&self, cluster: &Cluster, job: JobId) -> Option<ReservationReport> {
        let row = self.rows.get(&Holder::Job(job)).filter(|row| row.uid == cluster.jobs[job].object.uid)?;
        let tasks = cluster.jobs[job].tasks.iter().map(|task| &cluster.tasks[*task]);
        let nominated = tasks.filter(|task| task.status == Status::Pipelined);
        let mut nodes: Vec<Arc<str>> =
            nominated.filter_map(|task| Some(cluster.nodes[task.node?].name.clone())).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let repair = row.kind == ReservationKind::Repair;
        (!nodes.is_empty()).then(|| ReservationReport { repair, since: row.since, ends: row.ends(), nodes })
    }

    /// Whether the reservation of a job is for a repair.
    pub(crate) fn is_repair(&self, job: JobId) -> bool {
        self.has(job, &ReservationKind::Repair)
    }

    /// Whether a gang has kept nodes for a repair for so long that other jobs go first for a while.
    pub(crate) fn is_paused(&self, job: JobId) -> bool {
        self.has(job, &ReservationKind::PausedRepair)
    }

    /// The jobs that keep nodes for a repair.
    pub(crate) fn repairs(&self) -> impl Iterator<Item = JobId> {
        self.rows.iter().filter_map(|(holder, row)| match holder {
            Holder::Job(job) if row.kind == ReservationKind::Repair => Some(*job),
            _ => None,
        })
    }

    /// A gang keeps nodes for a repair, or goes on doing so.
    pub(crate) fn begin_repair(&mut self, cluster: &Cluster, job: JobId, now: Time) {
        if !self.is_repair(job) {
            let row = Reservation::of_job(cluster, job, ReservationKind::Repair, now);
            self.rows.insert(Holder::Job(job), row);
        }
    }

    /// A gang keeps no nodes for a repair any more.
    pub(crate) fn end_repair(&mut self, job: JobId) {
        if self.is_repair(job) || self.is_paused(job) {
            self.rows.remove(&Holder::Job(job));
        }
    }

    /// When the first reservation of a gang or of a moved pod ends.
    pub(crate) fn wake(&self, now: Time) -> Option<Time> {
        let rows = self.rows.values().filter(|row| !row.is_of_repair());
        rows.map(Reservation::ends).filter(|time| *time > now).min()
    }

    /// When a gang ends to keep nodes for a repair, or may keep some again.
    pub(crate) fn repair_wake(&self, now: Time) -> Option<Time> {
        let rows = self.rows.values().filter(|row| row.is_of_repair());
        rows.map(Reservation::ends).filter(|time| *time > now).min()
    }
}

/// A cycle begins: notes which jobs have reservations, and releases those that have lasted long enough.
pub(crate) fn begin(session: &mut Session<'_>) {
    let mut rows = std::mem::take(&mut session.state.reservations.rows);
    rows.retain(|holder, row| match holder {
        Holder::Job(job) => is_current(session, *job, row),
        Holder::Placeholder(task) => renew_moved_pod(session, *task, row),
    });
    for job in session.waiting_jobs() {
        if session.cluster.jobs[job].counts.of(Status::Pipelined) > 0 {
            let row = |kind| Reservation::of_job(session.cluster, job, kind, session.now);
            rows.entry(Holder::Job(job)).or_insert_with(|| row(ReservationKind::Gang));
        }
    }
    rows.retain(|holder, row| {
        let Holder::Job(job) = holder else { return true };
        if row.ends() > session.now {
            return true;
        }
        release(session, *job);
        row.since = session.now;
        let was = std::mem::replace(&mut row.kind, ReservationKind::PausedRepair);
        was == ReservationKind::Repair
    });
    session.state.reservations.rows = rows;
}

/// Whether a job has this reservation still, or its repair pauses.
fn is_current(session: &Session<'_>, job: JobId, row: &Reservation) -> bool {
    let it = session.cluster.jobs.get(job).filter(|it| it.object.uid == row.uid);
    it.is_some_and(|it| match row.kind {
        ReservationKind::PausedRepair => session.lost_members(job) && row.ends() > session.now,
        _ => it.counts.of(Status::Pipelined) > 0,
    })
}

/// Keeps the place of an evicted task for its successor.
pub(crate) fn keep_for_successor(session: &mut Session<'_>, moved: TaskId, node: NodeId, keep_ms: i64) {
    let it = &session.cluster.tasks[moved];
    let (Some(job), uid) = (it.job.map(|job| &session.cluster.jobs[job]), it.pod.uid.clone()) else { return };
    let moved_pod = MovedPod { job: (job.kind, job.key.clone()), gone: None, keep_ms };
    let Some(placeholder) = session.cluster.add_placeholder(moved) else { return };
    session.simulate_place(placeholder, Status::Pipelined, Some(node));
    let row = Reservation { kind: ReservationKind::MovedPod(moved_pod), uid, since: session.now };
    session.state.reservations.rows.insert(Holder::Placeholder(placeholder), row);
}

/// Gives the place of a moved pod to its successor, or up when none may come in time. Returns whether it is kept on.
fn renew_moved_pod(session: &mut Session<'_>, placeholder: TaskId, row: &mut Reservation) -> bool {
    let Some(it) = session.cluster.placeholder(placeholder, &row.uid) else { return false };
    let node = it.node;
    let ReservationKind::MovedPod(moved) = &mut row.kind else { return false };
    let status = session.cluster.task_of(&row.uid).map(|task| session.cluster.tasks[task].status);
    let there = status.filter(|status| !matches!(status, Status::Succeeded | Status::Failed));
    moved.gone = if there.is_some() { None } else { moved.gone.or(Some(session.now)) };
    let stays = there.is_some_and(Status::is_allocated);
    let successor = successor(session, placeholder, moved).filter(|_| !stays);
    let is_awaited = !stays && awaits_successor(session.cluster, moved) && row.ends() > session.now;
    if is_awaited && successor.is_none() && can_still_have(session, placeholder, node) {
        return true;
    }
    session.cluster.remove_placeholder(placeholder);
    if let (Some(task), Some(node)) = (successor, node) {
        nominate_again(session, task, node);
    }
    false
}

/// Nominates a task to a node, if its queue may have more and it fits there.
pub(crate) fn nominate_again(session: &mut Session<'_>, task: TaskId, node: NodeId) {
    if session.allocatable(task).is_ok() && session.fits(task, node) {
        let mut statement = session.statement();
        statement.pipeline(task, node);
        statement.commit(&Arc::default());
    }
}

/// Whether a successor may still come: the PodGroup exists; what creates pods without a PodGroup is not known.
fn awaits_successor(cluster: &Cluster, moved: &MovedPod) -> bool {
    let (kind, key) = &moved.job;
    *kind == JobKind::Solo || cluster.job_named(*kind, key).is_some_and(|job| cluster.jobs[job].object.exists)
}

/// Whether a placeholder could be given its place anew.
fn can_still_have(session: &mut Session<'_>, placeholder: TaskId, node: Option<NodeId>) -> bool {
    let before = session.simulate_place(placeholder, Status::Pending, None);
    let fits = node.is_some_and(|node| session.fits(placeholder, node));
    session.undo_simulation(placeholder, &before);
    fits
}

/// The first waiting pod that is like a moved pod.
fn successor(session: &mut Session<'_>, placeholder: TaskId, moved: &MovedPod) -> Option<TaskId> {
    let jobs = session.waiting_jobs();
    let cluster = &*session.cluster;
    let before = &cluster.tasks[placeholder];
    let is_like = |task: &Task, job: JobId| {
        let job = &cluster.jobs[job];
        let alike = || {
            let named = task.pod.name == before.pod.name;
            let labelled = task.details.labels == before.details.labels && !task.details.labels.is_empty();
            let queue = before.placeholder_in == Some(job.queue);
            task.pod.namespace == before.pod.namespace && queue && (named || labelled)
        };
        task.status == Status::Pending
            && !task.gated
            && task.class == before.class
            && job.kind == moved.job.0
            && (job.key == moved.job.1 || (job.kind == JobKind::Solo && alike()))
    };
    let tasks = jobs.into_iter().flat_map(|job| cluster.jobs[job].tasks.iter().map(move |task| (*task, job)));
    tasks.into_iter().find(|(task, job)| is_like(&cluster.tasks[*task], *job)).map(|(task, _)| task)
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
