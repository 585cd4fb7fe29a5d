//! One by one: each task of a job on its best node, until the job is ready.
use rustc_hash::FxHashMap;

use super::work::Work;
use crate::statement::Statement;
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{ClassId, JobId, TaskId};
use phalanx_framework::placement::Fit;

/// One serving of a job: what could not be placed, and why.
#[derive(Default)]
pub(super) struct Attempt {
    failed: FxHashMap<ClassId, Refusal>,
    /// In the order in which they failed.
    order: Vec<ClassId>,
    /// Tasks that others of the gang may make place for by being in place.
    seeking: Vec<TaskId>,
    placed: u32,
}

impl Attempt {
    /// True when the job is ready with this one.
    fn place(&mut self, statement: &mut Statement<'_, '_>, job: JobId, task: TaskId) -> bool {
        let cluster = &*statement.session().cluster;
        let it = &cluster.tasks[task];
        let (class, nominated) = (it.class, it.status == Status::Pipelined);
        let seeks = cluster.classes[class].carried.seeks();
        if self.failed.contains_key(&class) && !nominated {
            if seeks {
                self.seeking.push(task);
            }
            return false;
        }
        if let Err(refusal) = place(statement, job, task, nominated) {
            if seeks {
                self.seeking.push(task);
            }
            if self.failed.insert(class, refusal).is_none() {
                self.order.push(class);
            }
            return false;
        }
        self.placed += 1;
        statement.session().job_ready(job)
    }

    /// Places tasks until the job is ready.
    pub(super) fn place_all(
        &mut self,
        statement: &mut Statement<'_, '_>,
        job: JobId,
        tasks: impl Iterator<Item = TaskId>,
    ) {
        let mut ready = statement.session().job_ready(job);
        for task in tasks {
            if ready {
                return;
            }
            ready = self.place(statement, job, task);
        }
        if !ready {
            self.seek(statement, job);
        }
    }

    /// Tries those again that look for company, as long as that leads to anything.
    fn seek(&mut self, statement: &mut Statement<'_, '_>, job: JobId) {
        let mut before = 0;
        while self.placed > before && !self.seeking.is_empty() {
            before = self.placed;
            let cluster = &*statement.session().cluster;
            self.failed.retain(|class, _| !cluster.classes[*class].carried.seeks());
            for task in std::mem::take(&mut self.seeking) {
                if self.place(statement, job, task) {
                    return;
                }
            }
        }
    }
}

/// Places tasks until the job is ready; how many, and why others were not.
pub(super) fn place_until_ready(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    work: &mut Work,
    refusals: &mut Vec<Refusal>,
) -> u32 {
    let mut attempt = Attempt::default();
    let mut ready = false;
    while !ready && let Some(task) = work.next() {
        ready = attempt.place(statement, job, task);
    }
    if !ready {
        attempt.seek(statement, job);
    }
    refusals.extend(attempt.order.iter().filter_map(|class| attempt.failed.remove(class)));
    attempt.placed
}

/// Gives a task a node. A nomination of an earlier cycle is taken back for that, so that the task is placed anew: on
/// the same node, unless there is room at once on another.
fn place(
    statement: &mut Statement<'_, '_>,
    job: JobId,
    task: TaskId,
    nominated: bool,
) -> Result<(), Refusal> {
    if nominated {
        statement.unplace(task);
    }
    let session = statement.session();
    session.allocatable(session.cluster.jobs[job].queue, task)?;
    match session.best_node(task) {
        Some(spot) if spot.fit == Fit::Idle => statement.allocate(task, spot.node),
        Some(spot) => statement.pipeline(task, spot.node),
        None => return Err(session.no_node(task)),
    }
    Ok(())
}
