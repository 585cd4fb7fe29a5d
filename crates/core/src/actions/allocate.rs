//! allocate: gives admitted jobs their nodes, a gang whole or not at all.
//!
//! The first queue's first job is served, then everybody is compared again. A gang stops taking nodes as soon as
//! it is ready, and its further tasks compete anew. Source: Volcano's allocate action.
use super::ActionDef;
use super::gang::{self, Served, Work};
use super::order::Line;
use crate::conf::{ArgKind, ArgSpec};
use crate::event::Phase;
use crate::id::{JobId, QueueId};
use crate::session::Session;
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
    let admits = session.conf.has_action("enqueue");
    let mut works: FxHashMap<JobId, Work> = FxHashMap::default();
    for job in candidates(session, admits) {
        if let Err(refusal) = session.job_blocked(job) {
            gang::release(session, job);
            session.refuse(job, refusal);
            continue;
        }
        let work = Work::of_requests(session, job);
        if !work.is_empty() {
            works.insert(job, work);
        }
    }
    let mut jobs: Vec<JobId> = works.keys().copied().collect();
    jobs.sort_unstable();
    let mut line = Line::new(session, jobs);
    while let Some(queue) = line.first_queue(session) {
        serve_queue(session, &mut line, queue, &mut works);
    }
}

/// Jobs with tasks that wait. Without the action enqueue, pending jobs are admitted here.
fn candidates(session: &mut Session<'_>, admits: bool) -> Vec<JobId> {
    let waiting: Vec<JobId> =
        session.world.jobs.iter().filter(|(_, job)| job.waiting() > 0).map(|(id, _)| id).collect();
    waiting
        .into_iter()
        .filter(|id| {
            let job = &mut session.world.jobs[*id];
            if !admits && job.phase == Phase::Pending && job.exists {
                job.phase = Phase::Inqueue;
            }
            job.phase != Phase::Pending || !job.exists
        })
        .collect()
}

fn serve_queue(
    session: &mut Session<'_>,
    line: &mut Line,
    queue: QueueId,
    works: &mut FxHashMap<JobId, Work>,
) {
    if let Some(refusal) = session.overused(queue) {
        for job in line.leave(queue) {
            if session.world.jobs[job].counts.of(crate::world::Status::Pending) > 0 {
                session.refuse(job, refusal.clone());
            }
        }
        return;
    }
    let Some(job) = line.pop(session, queue) else { return };
    let Some(work) = works.get_mut(&job) else { return };
    if gang::serve(session, job, work) == Served::MoreToDo {
        line.push(session, job);
    }
}
