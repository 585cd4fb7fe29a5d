//! allocate: gives admitted jobs their nodes, a gang whole or not at all.
//!
//! The first queue's first job is served, then everybody is compared again. A gang stops taking nodes as soon as
//! it is ready, and its further tasks compete anew. In a queue of `dequeueStrategy: fifo` a job that cannot start holds up
//! those behind it; what more it would like when it has started does not, nor what it lost. Source: Volcano's allocate action.
use super::ActionDef;
use super::gang::{self, Served};
use super::gates;
use super::gather;
use super::order::{self, Line};
use super::work::Work;
use crate::backlog;
use crate::session::Session;
use phalanx_cluster::Status;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_framework::conf::{ArgKind, ArgSpec};
use rustc_hash::FxHashMap;

pub(super) const DEF: ActionDef = ActionDef {
    name: "allocate",
    summary: "Places the tasks of admitted jobs, gangs whole or not at all.",
    args: &[ArgSpec {
        name: "predicateErrorCacheEnable",
        kind: ArgKind::Bool,
        default: "true",
        doc: "Accepted for Volcano's sake; filters are always asked once per class of tasks.",
    }],
    run,
};

fn run(session: &mut Session<'_>) {
    session.allocated = true;
    admit_without_enqueue(session);
    let mut jobs = session.waiting_jobs();
    jobs.retain(|job| may_be_placed(session, *job));
    jobs.sort_unstable();
    gather::go_on(session, &jobs);
    let unsearched = jobs.iter().filter(|job| session.cluster.jobs[**job].unsearched).count();
    session.searches.owe(unsearched);
    // What is to be placed of a job is found out when it is its turn.
    let mut works: FxHashMap<JobId, Work> = FxHashMap::default();
    let mut line = Line::new(session, jobs);
    for queue in session.walks.queues() {
        join_fitting(session, &mut line, queue);
    }
    while let Some(queue) = line.first_queue(session) {
        serve_queue(session, &mut line, queue, &mut works);
    }
    gates::open(session);
}

/// Where the action enqueue is not configured, every PodGroup is admitted whose queue takes jobs, also one without pods:
/// Volcano's job controller creates the pods of a job once its PodGroup is Inqueue.
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
        Ok(()) => session.cluster.set_phase(job, Phase::Inqueue),
        Err(refusal) => session.refuse(job, refusal),
    }
}

/// Whether a job may be placed and has tasks to place.
fn may_be_placed(session: &mut Session<'_>, job: JobId) -> bool {
    if !is_admitted(session, job) {
        // A job that has to be admitted anew keeps no room.
        gang::release(session, job);
        return false;
    }
    if let Err(refusal) = session.job_blocked(job) {
        gang::release(session, job);
        session.refuse(job, refusal);
        return false;
    }
    Work::is_any(session, job)
}

/// Whether a job is admitted. Pods whose PodGroup does not exist count as admitted: `job_blocked` refuses them with that reason.
fn is_admitted(session: &Session<'_>, job: JobId) -> bool {
    let job = &session.cluster.jobs[job];
    job.phase != Phase::Pending || !job.exists
}

/// Puts the next one in line of those that waited for the same as one that was served.
fn join_next(session: &mut Session<'_>, line: &mut Line, job: JobId, works: &mut FxHashMap<JobId, Work>) {
    let Some(next) = backlog::try_next(session, job) else { return };
    works.remove(&next);
    if may_be_placed(session, next) {
        line.push(session, next);
    }
}

/// Puts the next one of a queue in line of those that were not looked at so far and may fit.
fn join_fitting(session: &mut Session<'_>, line: &mut Line, queue: QueueId) {
    while let Some(job) = backlog::try_next_fitting(session, queue) {
        if may_be_placed(session, job) {
            line.push(session, job);
            return;
        }
        session.walks.served(queue, job, true);
    }
}

fn serve_queue(
    session: &mut Session<'_>,
    line: &mut Line,
    queue: QueueId,
    works: &mut FxHashMap<JobId, Work>,
) {
    if let Some(refusal) = session.overused(queue) {
        session.walks.leave(queue);
        for job in line.leave(queue) {
            if gather::is_gathering(session.cluster, job) {
                gang::release(session, job);
            }
            gang::release_idle(session, job);
            if session.cluster.jobs[job].counts.of(Status::Pending) > 0 {
                session.refuse(job, refusal.clone());
            }
        }
        return;
    }
    let Some(job) = line.pop(session, queue) else { return };
    let work = works.entry(job).or_insert_with(|| Work::of_requests(session, job));
    let pending = |session: &Session<'_>| session.cluster.jobs[job].counts.of(Status::Pending);
    let before = pending(session);
    if gang::serve_anew(session, job, work) == Served::MoreToDo {
        line.push(session, job);
    }
    let in_vain = pending(session) >= before;
    if !in_vain {
        join_next(session, line, job, works);
    }
    if session.walks.served(queue, job, in_vain) {
        join_fitting(session, line, queue);
    }
    if order::holds_up(session, job) {
        for behind in line.leave(queue) {
            hold_up(session, behind, job, &mut works.remove(&behind));
        }
    }
}

/// A job waits for the first of its queue. But it takes its reservation, for which pods may have been evicted. And a gang
/// that lost members is repaired, for what it holds is of no use meanwhile.
fn hold_up(session: &mut Session<'_>, job: JobId, first: JobId, work: &mut Option<Work>) {
    let reserved = |session: &Session<'_>| {
        session.cluster.jobs[job].counts.of(Status::Pipelined) > 0 && session.job_pipelined(job)
    };
    let broken = session.cluster.jobs[job].is_broken();
    if broken || reserved(session) {
        let work = work.get_or_insert_with(|| Work::of_requests(session, job));
        gang::serve_anew(session, job, work);
    }
    if !reserved(session) {
        gang::release(session, job);
    }
    order::hold_up(session, job, first);
}
