//! Takeovers: a job takes over reservations of jobs of its queue that it outranks.
//!
//! Reservations are taken over before any pod is evicted, those of the least important job first, and no more of them
//! than it takes: what still fits beside the new places is given back. Source: kube-scheduler counts a nominated pod
//! for pods of equal or lower priority only (`addGENominatedPods`).
use super::reserved::{self, Places};
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{JobId, TaskId};

/// Jobs that are compared in the time of one step.
const COMPARED_PER_STEP: usize = 16;

/// A reservation that was taken back.
pub(crate) struct TakenBack {
    job: JobId,
    places: Places,
}

/// The jobs whose reservations a job may take over, the least important first.
pub(crate) fn candidates(session: &mut Session<'_>, job: JobId) -> Vec<JobId> {
    let queue = session.cluster.jobs[job].queue;
    if session.cluster.queues[queue].own.pipelined.is_zero() {
        return Vec::new();
    }
    let waiting: Vec<JobId> = session.waiting_jobs();
    if session.placement_budget.spend(job, waiting.len() / COMPARED_PER_STEP).is_err() {
        return Vec::new();
    }
    let may_lose = |other: &JobId| {
        session.cluster.jobs[*other].counts.of(Status::Pipelined) > 0 && session.outranks(job, *other)
    };
    let mut candidates: Vec<JobId> = waiting.into_iter().filter(may_lose).collect();
    let priority = |job: JobId| session.cluster.jobs[job].priority;
    candidates.sort_by(|a, b| priority(*a).cmp(&priority(*b)).then_with(|| session.job_order(*b, *a)));
    candidates
}

/// Takes back the reservations of these jobs.
pub(crate) fn take_back(statement: &mut Statement<'_, '_>, jobs: &[JobId]) -> Vec<TakenBack> {
    let mut take_back_of = |job: JobId| {
        let places = reserved::places(statement.session(), job);
        for (task, _) in &places {
            statement.unplace(*task);
        }
        TakenBack { job, places }
    };
    jobs.iter().map(|job| take_back_of(*job)).collect()
}

/// Gives back the reserved places that still fit beside those of the taker, to the most important job first. A gang
/// that would not be whole with them gets none. Returns the jobs that lose places.
pub(crate) fn give_back(
    statement: &mut Statement<'_, '_>,
    taken: Vec<TakenBack>,
    taker: JobId,
) -> Vec<JobId> {
    let mut outranked = Vec::new();
    for TakenBack { job, places } in taken.into_iter().rev() {
        let mut loses = false;
        statement.nested(|statement| {
            let mut all_back = true;
            for (task, node) in places {
                let session = statement.session();
                let fits = session.allocatable(task).is_ok() && session.fits(task, node);
                if fits {
                    statement.pipeline(task, node);
                }
                all_back &= fits;
            }
            let session = statement.session();
            let whole = session.job_ready(job) || session.job_pipelined(job);
            loses = !all_back || !whole;
            whole && all_may_keep(session, taker)
        });
        if loses {
            outranked.push(job);
        }
    }
    statement.note_displaced(taker, &outranked);
    outranked
}

/// Whether members that were just given a place may have it beside all other pods. Only members whose constraints refer
/// to other pods are asked.
fn all_may_keep(session: &mut Session<'_>, job: JobId) -> bool {
    let cluster = &*session.cluster;
    let refers_to_others = |task: &TaskId| {
        let class = cluster.class_of(*task);
        cluster.tasks[*task].status.has_new_place()
            && (!class.carried.is_empty() || cluster.terms.symmetric(class).next().is_some())
    };
    let affected: Vec<TaskId> = cluster.jobs[job].tasks.iter().copied().filter(refers_to_others).collect();
    affected.into_iter().all(|task| session.may_keep(task))
}

/// Tells jobs that lost reserved places who took them over.
pub(crate) fn tell(session: &mut Session<'_>, outranked: &[JobId], taker: JobId) {
    for job in outranked {
        let by = session.cluster.jobs[taker].key.clone();
        session.state.backlog.refusals.retain(*job, |refusal| !matches!(refusal, Refusal::Reserved(_)));
        session.refuse(*job, Refusal::Outranked(by));
    }
}
