//! backfill: places tasks that request nothing, wherever the filters let them.
//!
//! Source: Volcano's backfill action. Unlike there, such tasks of one job are placed in one statement, so that a gang of
//! them too is bound whole or not at all, and the queue is asked.
use super::ActionDef;
use super::gang::{self, Served, Work};
use crate::conf::{ArgKind, ArgSpec};
use crate::event::Phase;
use crate::id::JobId;
use crate::session::Session;

pub(super) const DEF: ActionDef = ActionDef {
    name: "backfill",
    summary: "Places tasks that request nothing.",
    args: &[ArgSpec {
        name: "predicateErrorCacheEnable",
        kind: ArgKind::Bool,
        default: "true",
        doc: "Accepted for Volcano's sake; filters are always asked once per class of tasks.",
    }],
    run,
};

fn run(session: &mut Session<'_>) {
    let mut jobs: Vec<JobId> = session
        .world
        .jobs
        .iter()
        .filter(|(_, job)| job.waiting() > 0 && job.phase != Phase::Pending)
        .map(|(id, _)| id)
        .collect();
    jobs.retain(|job| session.job_blocked(*job).is_ok());
    jobs.sort_by(|a, b| {
        let queue = |job: &JobId| session.world.jobs[*job].queue;
        session.queue_order(queue(a), queue(b)).then_with(|| session.job_order(*a, *b))
    });
    for job in jobs {
        let mut work = Work::of_best_effort(session, job);
        if work.is_empty() {
            gang::release_part(session, job);
        }
        while !work.is_empty() && gang::serve(session, job, &mut work) == Served::MoreToDo {}
    }
}
