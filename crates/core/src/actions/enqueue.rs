//! enqueue: admits pending jobs whose demand the cluster and their queue can bear.
//!
//! One job of the first queue at a time, so that queues take turns. A job that is refused does not hold up those
//! behind it, unless its queue says `dequeueStrategy: fifo`. Source: Volcano's enqueue action.
use super::ActionDef;
use super::order::{self, Line};
use crate::backlog;
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
            job.phase == Phase::Pending && job.exists
        })
        .collect();
    let mut admissible = Vec::with_capacity(pending.len());
    for job in pending {
        match session.queue_blocked(job) {
            Ok(()) if has_all(&session.cluster.jobs[job]) && !session.backlog.is_called(job) => {
                session.cluster.set_phase(job, Phase::Inqueue);
            }
            Ok(()) => admissible.push(job),
            Err(refusal) => session.refuse(job, refusal),
        }
    }
    let mut line = Line::new(session, admissible);
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

/// A job waits for the first of its queue, unless it runs and lost members.
fn hold_up(session: &mut Session<'_>, job: JobId, first: JobId) {
    if session.cluster.jobs[job].is_broken() {
        admit(session, job);
    } else {
        order::refuse_behind(session, job, first);
    }
}

/// Whether nothing is to be admitted of a job: the pod of a pod without PodGroup has its place. Its admission is not
/// written anywhere, so after a restart each of these that runs would be admitted again.
fn has_all(job: &Job) -> bool {
    job.kind == JobKind::Solo && job.min_resources.is_none() && job.waiting() == 0
}

/// Admits a job, or notes why not.
fn admit(session: &mut Session<'_>, job: JobId) -> bool {
    if session.cluster.jobs[job].min_resources.is_some()
        && let Err(refusal) = session.job_enqueueable(job)
    {
        session.refuse(job, refusal);
        return false;
    }
    session.job_enqueued(job);
    session.cluster.set_phase(job, Phase::Inqueue);
    session.admitted_late |= !is_before_allocate(session.conf);
    true
}

/// Whether those that are admitted have their turn in the same cycle.
fn is_before_allocate(conf: &Conf) -> bool {
    let mut rest = conf.actions.iter().skip_while(|action| *action != DEF.name);
    rest.any(|action| action == "allocate")
}
