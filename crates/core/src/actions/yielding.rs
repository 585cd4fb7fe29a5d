//! Reservations that give way: what is kept for a job is not kept against one of the same queue that outranks it.
//!
//! What is only promised goes before anybody is evicted, the least important job's first, and no more of it than it takes:
//! what still fits beside the newcomer is kept. Source: kube-scheduler counts a nominated pod for pods of equal or lower
//! priority only (`addGENominatedPods`).
use super::hold::{self, Places};
use crate::eviction;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{JobId, NodeId, TaskId};

/// Jobs that are looked at in the time in which one place is tried.
const SCANNED: usize = 16;

/// Nominations of a job that were taken back.
pub(crate) struct Yielded {
    job: JobId,
    places: Places,
}

/// Jobs whose reservations give way to this one, the least important first.
pub(crate) fn lesser(session: &mut Session<'_>, job: JobId) -> Vec<JobId> {
    let queue = session.cluster.jobs[job].queue;
    if session.cluster.queues[queue].own.pipelined.is_zero() {
        return Vec::new();
    }
    let waiting: Vec<JobId> = session.waiting_jobs();
    if session.searches.spend(job, waiting.len() / SCANNED).is_err() {
        return Vec::new();
    }
    let yields = |other: &JobId| {
        session.cluster.jobs[*other].counts.of(Status::Pipelined) > 0 && session.outranks(job, *other)
    };
    let mut lesser: Vec<JobId> = waiting.into_iter().filter(yields).collect();
    let priority = |job: JobId| session.cluster.jobs[job].priority;
    lesser.sort_by(|a, b| priority(*a).cmp(&priority(*b)).then_with(|| session.job_order(*b, *a)));
    lesser
}

/// Takes back what is reserved for these jobs.
pub(crate) fn take_back(statement: &mut Statement<'_, '_>, jobs: &[JobId]) -> Vec<Yielded> {
    jobs.iter().map(|job| take_back_of(statement, *job)).collect()
}

fn take_back_of(statement: &mut Statement<'_, '_>, job: JobId) -> Yielded {
    let places = hold::places(statement.session(), job);
    for (task, _) in &places {
        statement.unplace(*task);
    }
    Yielded { job, places }
}

/// Gives back what still fits beside the job it was taken for, to the most important first; a gang that would not be whole
/// with it gets nothing. Returns those that lose some.
pub(crate) fn undo_simulation(
    statement: &mut Statement<'_, '_>,
    yielded: Vec<Yielded>,
    taker: JobId,
) -> Vec<JobId> {
    let mut outranked = Vec::new();
    for Yielded { job, places } in yielded.into_iter().rev() {
        let mut attempt = statement.nested();
        let all = places.len();
        let back = places.into_iter().filter(|(task, node)| put_back_one(&mut attempt, *task, *node)).count();
        let session = attempt.session();
        let whole = session.job_ready(job) || session.job_pipelined(job);
        if whole && may_all_keep(session, taker) {
            attempt.keep();
        } else {
            drop(attempt);
        }
        if back < all || !whole {
            outranked.push(job);
        }
    }
    statement.take_from(taker, &outranked);
    outranked
}

fn put_back_one(statement: &mut Statement<'_, '_>, task: TaskId, node: NodeId) -> bool {
    let session = statement.session();
    let it = &session.cluster.tasks[task];
    let Some(job) = it.job.filter(|_| it.status == Status::Pending) else { return false };
    let fits = session.allocatable(session.cluster.jobs[job].queue, task).is_ok() && session.fits(task, node);
    if fits {
        statement.pipeline(task, node);
    }
    fits
}

/// Whether tasks that were just given a place could have it with all that is in place by now. Room is not asked for again,
/// only what other pods around may change.
fn may_all_keep(session: &mut Session<'_>, job: JobId) -> bool {
    let cluster = &*session.cluster;
    let looks_around = |task: &TaskId| {
        let class = cluster.class_of(*task);
        cluster.tasks[*task].status.has_new_place()
            && (!class.carried.is_empty() || cluster.terms.outward(class).next().is_some())
    };
    let around: Vec<TaskId> = cluster.jobs[job].tasks.iter().copied().filter(looks_around).collect();
    around.into_iter().all(|task| eviction::may_keep(session, task))
}

/// The reservations of these jobs are not what was said of them in this cycle.
pub(crate) fn tell(session: &mut Session<'_>, outranked: &[JobId], taker: JobId) {
    for job in outranked {
        let by = session.cluster.jobs[taker].key.clone();
        session.backlog.refusals.retain(*job, |refusal| !matches!(refusal, Refusal::Reserved(_)));
        session.refuse(*job, Refusal::Outranked(by));
    }
}
