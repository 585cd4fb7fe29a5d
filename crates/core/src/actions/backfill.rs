//! backfill: places tasks that request nothing, wherever the filters let them.
//!
//! Source: Volcano's backfill action. Unlike there, such tasks of one job are placed in one statement, so that a gang of
//! them too is bound whole or not at all, and the queue is asked.
use rustc_hash::FxHashMap;

use super::ActionDef;
use super::gang::{self, Served, Work};
use super::order;
use crate::conf::{ArgKind, ArgSpec};
use crate::event::Phase;
use crate::id::{JobId, QueueId};
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
        .waiting_jobs()
        .filter(|(_, job)| job.phase != Phase::Pending)
        .map(|(id, _)| id)
        .collect();
    jobs.retain(|job| session.job_blocked(*job).is_ok());
    jobs.sort_by(|a, b| {
        let queue = |job: &JobId| session.world.jobs[*job].queue;
        session.queue_order(queue(a), queue(b)).then_with(|| session.job_order(*a, *b))
    });
    let mut first: FxHashMap<QueueId, JobId> = FxHashMap::default();
    for job in jobs {
        let mut work = Work::of_best_effort(session, job);
        let queue = session.world.jobs[job].queue;
        if let Some(first) = first.get(&queue).filter(|_| !work.is_empty()) {
            order::refuse_behind(session, job, *first);
            continue;
        }
        if work.is_empty() {
            gang::release_part(session, job);
        }
        while !work.is_empty() && gang::serve(session, job, &mut work) == Served::MoreToDo {}
        if order::holds_up(session, job) {
            first.entry(queue).or_insert(job);
        }
    }
}
