//! allocate: gives admitted jobs their nodes, a gang whole or not at all.
//!
//! The first queue's first job is served, then everybody is compared again. A gang stops taking nodes as soon as
//! it is ready, and its further tasks compete anew. In a queue of `dequeueStrategy: fifo` a job that cannot start holds
//! up those behind it; what more it would like when it has started does not, nor what it lost. Source: Volcano's
//! allocate action.
use super::{ActionDef, PREDICATE_CACHE_ARG, gates};
use crate::backlog;
use crate::gang::{self, Served, TaskQueue, repair, reserved};
use crate::order::{self, JobsByQueue};
use crate::reservation;
use crate::session::Session;
use phalanx_cluster::Status;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{JobId, QueueId};
use rustc_hash::FxHashMap;

pub(super) const DEF: ActionDef = ActionDef {
    name: "allocate",
    summary: "Places the tasks of admitted jobs, gangs whole or not at all.",
    args: &[PREDICATE_CACHE_ARG],
    run,
};

fn run(session: &mut Session<'_>) {
    session.allocate_done = true;
    admit_without_enqueue(session);
    let mut jobs = session.waiting_jobs();
    jobs.retain(|job| may_be_placed(session, *job));
    jobs.sort_unstable();
    let deferred = jobs.iter().filter(|job| session.state.backlog.is_placing_deferred(**job)).count();
    session.placement_budget.set_deferred_jobs(deferred);
    // What is to be placed of a job is found out when it is its turn.
    let mut task_queues: FxHashMap<JobId, TaskQueue> = FxHashMap::default();
    let mut line = JobsByQueue::new(session, jobs);
    for queue in session.scans.queues() {
        join_fitting(session, &mut line, queue);
    }
    while let Some(queue) = line.first_queue(session) {
        serve_queue(session, &mut line, queue, &mut task_queues);
    }
    gates::open(session);
}

/// Where the action enqueue is not configured, every PodGroup is admitted whose queue takes jobs, also one without
/// pods: Volcano's job controller creates the pods of a job once its PodGroup is Inqueue.
fn admit_without_enqueue(session: &mut Session<'_>) {
    if session.conf.has_action("enqueue") {
        return;
    }
    for job in session.active_jobs() {
        admit_if_queue_takes_jobs(session, job);
    }
}

fn admit_if_queue_takes_jobs(session: &mut Session<'_>, job: JobId) {
    if is_admitted(session, job) {
        return;
    }
    match session.queue_blocked(job) {
        Ok(()) => session.admit(job),
        Err(refusal) => session.refuse(job, refusal),
    }
}

/// Whether a job may be placed and has tasks to place.
fn may_be_placed(session: &mut Session<'_>, job: JobId) -> bool {
    if !is_admitted(session, job) {
        // A job that has to be admitted anew keeps no room.
        reservation::release(session, job);
        return false;
    }
    if let Err(refusal) = session.job_blocked(job) {
        reservation::release(session, job);
        session.refuse(job, refusal);
        return false;
    }
    TaskQueue::has_requests(session, job)
}

/// Whether a job is admitted. Pods whose PodGroup does not exist count as admitted: `job_blocked` refuses them with
/// that reason.
fn is_admitted(session: &Session<'_>, job: JobId) -> bool {
    let job = &session.cluster.jobs[job];
    job.phase != Phase::Pending || !job.object.exists
}

/// Adds the next job of the equivalence class of a job that was served.
fn join_next(
    session: &mut Session<'_>,
    jobs: &mut JobsByQueue,
    job: JobId,
    task_queues: &mut FxHashMap<JobId, TaskQueue>,
) {
    let Some(next) = backlog::try_next(session, job) else { return };
    task_queues.remove(&next);
    if may_be_placed(session, next) {
        jobs.push(session, next);
    }
}

/// Adds the next job of a queue that was not tried in this cycle and may fit.
fn join_fitting(session: &mut Session<'_>, jobs: &mut JobsByQueue, queue: QueueId) {
    while let Some(job) = backlog::try_next_fitting(session, queue) {
        if may_be_placed(session, job) {
            jobs.push(session, job);
            return;
        }
        session.scans.served(queue, job, true);
    }
}

fn serve_queue(
    session: &mut Session<'_>,
    line: &mut JobsByQueue,
    queue: QueueId,
    task_queues: &mut FxHashMap<JobId, TaskQueue>,
) {
    if let Some(refusal) = session.overused(queue) {
        session.scans.leave(queue);
        for job in line.leave(queue) {
            release_if_overused(session, job);
            if session.cluster.jobs[job].counts.of(Status::Pending) > 0 {
                session.refuse(job, refusal.clone());
            }
        }
        return;
    }
    let Some(job) = line.pop(session, queue) else { return };
    let tasks = task_queues.entry(job).or_insert_with(|| TaskQueue::of_requests(session, job));
    let pending = |session: &Session<'_>| session.cluster.jobs[job].counts.of(Status::Pending);
    let before = pending(session);
    if gang::serve(session, job, tasks) == Served::MoreToDo {
        line.push(session, job);
    }
    let got_places = pending(session) < before;
    if got_places {
        join_next(session, line, job, task_queues);
    }
    if session.scans.served(queue, job, !got_places) {
        join_fitting(session, line, queue);
    }
    if order::holds_up(session, job) {
        for behind in line.leave(queue) {
            hold_up(session, behind, job, &mut task_queues.remove(&behind));
        }
    }
}

/// Gives up what a job of a queue that has enough does not need to keep: a reservation is kept as long as resources are
/// being released for it, for pods were evicted for that.
fn release_if_overused(session: &mut Session<'_>, job: JobId) {
    if repair::is_repair(session, job) || !reserved::awaits_release(session, job) {
        reservation::release(session, job);
    }
    reservation::release_incomplete(session, job);
}

/// A job waits for the first of its queue (`dequeueStrategy: fifo`), with two exceptions: a job takes its reservation,
/// for which pods may have been evicted, and a gang that lost members is repaired, for its other pods are of no use
/// meanwhile.
fn hold_up(session: &mut Session<'_>, job: JobId, first: JobId, tasks: &mut Option<TaskQueue>) {
    let reserved = |session: &Session<'_>| {
        session.cluster.jobs[job].counts.of(Status::Pipelined) > 0 && session.job_pipelined(job)
    };
    let broken = session.cluster.jobs[job].is_broken();
    if broken || reserved(session) {
        let tasks = tasks.get_or_insert_with(|| TaskQueue::of_requests(session, job));
        gang::serve(session, job, tasks);
    }
    if !reserved(session) {
        reservation::release(session, job);
    }
    order::hold_up(session, job, first);
}
