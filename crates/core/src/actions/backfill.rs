//! backfill: places tasks that request nothing, wherever the filters allow.
//!
//! Source: Volcano's backfill action. Other than there, such tasks of a job are placed in one statement, so that a gang
//! of them is bound as a whole or not at all, and the queue has to take the job.
use super::{ActionDef, PREDICATE_CACHE_ARG};
use crate::backlog;
use crate::gang::{self, Served, TaskQueue};
use crate::order::{self, JobsByQueue};
use crate::reservation;
use crate::session::Session;
use phalanx_cluster::Status;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{JobId, QueueId};

pub(super) const DEF: ActionDef = ActionDef {
    name: "backfill",
    summary: "Places tasks that request nothing.",
    args: &[PREDICATE_CACHE_ARG],
    run,
};

fn run(session: &mut Session<'_>) {
    let mut jobs = session.waiting_jobs();
    jobs.retain(|job| {
        session.cluster.jobs[*job].phase != Phase::Pending && session.job_blocked(*job).is_ok()
    });
    let mut line = JobsByQueue::new(session, jobs);
    // In the order of the backlog.
    for queue in line.queues_in_order(session) {
        serve_queue(session, &mut line, queue);
    }
}

fn serve_queue(session: &mut Session<'_>, line: &mut JobsByQueue, queue: QueueId) {
    let mut first: Option<JobId> = None;
    while let Some(job) = line.pop(session, queue) {
        let mut tasks = TaskQueue::of_best_effort(session, job);
        if let Some(first) = first.filter(|_| !tasks.is_empty()) {
            if session.cluster.jobs[job].is_broken() {
                gang::serve(session, job, &mut tasks);
            }
            order::hold_up(session, job, first);
            continue;
        }
        if tasks.is_empty() {
            reservation::release_incomplete(session, job);
        }
        serve(session, line, job, &mut tasks);
        if order::holds_up(session, job) {
            first = first.or(Some(job));
        }
    }
}

fn serve(session: &mut Session<'_>, line: &mut JobsByQueue, job: JobId, tasks: &mut TaskQueue) {
    let pending = |session: &Session<'_>| session.cluster.jobs[job].counts.of(Status::Pending);
    let before = pending(session);
    while !tasks.is_empty() && gang::serve(session, job, tasks) == Served::MoreToDo {}
    if pending(session) < before
        && let Some(next) = backlog::try_next(session, job)
        && session.job_blocked(next).is_ok()
    {
        line.push(session, next);
    }
}
