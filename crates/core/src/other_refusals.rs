//! Reasons of waiting pods that no action refuses: gates, room that is being released, and missing actions.
use crate::gang;
use crate::session::{EVICTING_ACTIONS, Session};
use phalanx_cluster::diagnosis::{NoEviction, Refusal};
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{JobKind, Status};
use phalanx_framework::conf::Conf;

/// Actions that scheduler.conf lacks.
struct Missing {
    enqueue: bool,
    allocate: bool,
    backfill: bool,
}

impl Missing {
    fn of(conf: &Conf) -> Self {
        let [enqueue, allocate, backfill] =
            ["enqueue", "allocate", "backfill"].map(|action| !conf.has_action(action));
        Self { enqueue, allocate, backfill }
    }
}

/// Adds the refusals of waiting jobs after all actions have run.
pub(crate) fn note(session: &mut Session<'_>) {
    let missing = Missing::of(session.conf);
    let evicting: Vec<_> =
        EVICTING_ACTIONS.into_iter().filter(|action| session.conf.has_action(action)).collect();
    for job in session.active_jobs() {
        if session.cluster.jobs[job].waiting() == 0 {
            continue;
        }
        note_missing(session, job, &missing);
        note_reserved(session, job);
        note_enough(session, job, &evicting);
        note_gates(session, job);
    }
}

/// The refusal of a job that no configured action places.
fn note_missing(session: &mut Session<'_>, job: JobId, missing: &Missing) {
    if !missing.allocate && !missing.backfill {
        return;
    }
    let unplaced = gang::unplaced(session, job);
    // Without enqueue, it is allocate that admits.
    let awaits_admission = missing.enqueue && session.cluster.jobs[job].phase == Phase::Pending;
    if missing.allocate && (unplaced.by_allocate || awaits_admission) {
        if let Err(refusal) = session.job_blocked(job) {
            session.refuse(job, refusal);
        }
        session.refuse(job, Refusal::NoAction { action: "allocate" });
    }
    if missing.backfill && unplaced.by_backfill {
        session.refuse(job, Refusal::NoAction { action: "backfill" });
    }
}

/// The refusal of members beyond the minimum whose job starts in this cycle.
fn note_reserved(session: &mut Session<'_>, job: JobId) {
    let reserved = session.cluster.jobs[job].counts.of(Status::Pipelined);
    if reserved > 0 && session.job_ready(job) {
        session.refuse(job, Refusal::Reserved(reserved));
    }
}

/// The refusal of members beyond the minimum that lack resources: no pod is evicted for them.
fn note_enough(session: &mut Session<'_>, id: JobId, evicting: &[&'static str]) {
    let job = &session.cluster.jobs[id];
    let no_room = || {
        session.state.backlog.refusals.of(id).iter().any(|refusal| matches!(refusal, Refusal::Nodes { .. }))
    };
    let has_enough = || job.has_places() && session.job_ready(id);
    if evicting.is_empty() || job.kind == JobKind::Solo || !no_room() || !has_enough() {
        return;
    }
    let why = NoEviction::Enough(job.min_member);
    for action in evicting {
        session.refuse(id, Refusal::Eviction { action, why: why.clone() });
    }
}

fn note_gates(session: &mut Session<'_>, job: JobId) {
    let cluster = &*session.cluster;
    let gated = cluster.jobs[job].tasks.iter().filter(|task| cluster.tasks[**task].gated).count();
    if gated > 0 {
        session.refuse(job, Refusal::Gated(gated as u32));
    }
}
