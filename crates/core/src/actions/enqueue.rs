//! enqueue: admits pending jobs whose minResources the cluster and their queue have capacity for.
//!
//! One job of the first queue at a time, so that queues alternate. A refused job does not hold up the jobs behind it,
//! unless its queue has `dequeueStrategy: fifo`. Source: Volcano's enqueue action.
use super::ActionDef;
use crate::backlog;
use crate::order::{self, JobsByQueue};
use crate::session::Session;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::JobId;
use phalanx_cluster::{Job, JobKind};
use phalanx_framework::conf::Conf;

pub(super) const DEF: ActionDef = ActionDef {
    name: "enqueue",
    summary: "Admits pending jobs whose minResources the cluster and their queue can bear.",
    args: &[],
    run,
};

fn run(session: &mut Session<'_>) {
    let pending: Vec<JobId> = session
        .active_jobs()
        .into_iter()
        .filter(|id| {
            let job = &session.cluster.jobs[*id];
            job.phase == Phase::Pending && job.object.exists
        })
        .collect();
    let mut admissible = Vec::with_capacity(pending.len());
    for job in pending {
        if has_all(&session.cluster.jobs[job]) && !session.state.backlog.is_first_of_class(job) {
            session.admit(job);
            continue;
        }
        match session.queue_blocked(job) {
            Ok(()) => admissible.push(job),
            Err(refusal) => session.refuse(job, refusal),
        }
    }
    let mut line = JobsByQueue::new(session, admissible);
    while let Some(queue) = line.first_queue(session) {
        let Some(job) = line.pop(session, queue) else { continue };
        if admit(session, job) {
            if let Some(next) = backlog::try_next(session, job) {
                line.push(session, next);
            }
        } else if order::is_strict(session, job) && !session.cluster.jobs[job].is_broken() {
            for behind in line.leave(queue) {
                hold_up(session, behind, job);
            }
        }
    }
}

/// Refuses a job behind the first job of its queue, unless it is a repair.
fn hold_up(session: &mut Session<'_>, job: JobId, first: JobId) {
    if session.cluster.jobs[job].is_broken() {
        admit(session, job);
    } else {
        order::refuse_behind(session, job, first);
    }
}

/// Whether a pod without PodGroup has a node, so that nothing is to be admitted. Its admission is on no object, so
/// after a restart each running one is pending here.
fn has_all(job: &Job) -> bool {
    job.kind == JobKind::Solo && job.minimum.resources.is_none() && job.waiting() == 0
}

/// Admits or refuses a job.
fn admit(session: &mut Session<'_>, job: JobId) -> bool {
    if session.cluster.jobs[job].minimum.resources.is_some()
        && let Err(refusal) = session.job_enqueueable(job)
    {
        session.refuse(job, refusal);
        return false;
    }
    session.job_enqueued(job);
    session.admit(job);
    session.changed_late |= !is_before_allocate(session.conf);
    true
}

/// Whether `allocate` comes after `enqueue`, so that admitted jobs are placed in this cycle.
fn is_before_allocate(conf: &Conf) -> bool {
    let mut rest = conf.actions.iter().skip_while(|action| *action != DEF.name);
    rest.any(|action| action == "allocate")
}
