//! Strategy *greedy*: each task of a job in order on its best node, until the job is ready.
//!
//! Guarantees: where all members are equal and carry at most one term on other pods, the strategy finds places whenever
//! there are any, for any place that is left is as good as another.
use phalanx_cluster::Status;
use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::id::{ClassId, JobId, NodeId, TaskId};
use rustc_hash::FxHashMap;

use super::reserved;
use super::tasks::TaskQueue;
use super::{Goal, Request};
use crate::statement::Statement;

/// One pass over the tasks of a job.
#[derive(Default)]
pub(super) struct Greedy {
    failed: FxHashMap<ClassId, Refusal>,
    /// The classes that failed, in the order in which they did.
    order: Vec<ClassId>,
    /// Tasks that failed and whose pod affinity the places of other members may satisfy.
    seeking: Vec<TaskId>,
    placed: u32,
}

/// What a pass came to.
pub(super) struct GreedyPass {
    /// What the job has with these places, if it is enough for anything.
    reached: Option<Goal>,
    /// The places, where they are enough for a reservation only.
    places: Vec<(TaskId, NodeId)>,
    refusals: Vec<Refusal>,
}

impl GreedyPass {
    /// What the pass reached, if that is enough.
    pub(super) fn reached(&self, request: Request) -> Option<Goal> {
        self.reached.filter(|reached| request.is_met_by(*reached))
    }

    /// Takes the places again, if they are enough.
    pub(super) fn repeat(&self, statement: &mut Statement<'_, '_>, request: Request) -> Option<Goal> {
        let reached = self.reached(request)?;
        reserved::take(statement, &self.places);
        Some(reached)
    }

    /// Why tasks were not placed, and how far the gang came.
    pub(super) fn into_refusals(self) -> Vec<Refusal> {
        self.refusals
    }
}

impl Greedy {
    /// Places tasks until the job is ready. Where all have places and some wait for capacity, they are tried once more,
    /// for members that were placed later may have satisfied their pod affinity or spread.
    pub(super) fn run(
        mut self,
        statement: &mut Statement<'_, '_>,
        job: JobId,
        queue: &mut TaskQueue,
    ) -> GreedyPass {
        self.place_tasks(statement, job, queue);
        if reserved::is_reserved(statement.session(), job) {
            reserved::start_waiting(statement, job);
        }
        let session = statement.session();
        let reached = Goal::reached(session, job);
        let places = if reached == Some(Goal::Reserve) { reserved::places(session, job) } else { Vec::new() };
        let mut refusals = self.into_refusals();
        if reached.is_none() {
            refusals.extend(session.not_ready(job));
            refusals.extend(partial(statement, job));
        }
        GreedyPass { reached, places, refusals }
    }

    /// Places tasks until the job is ready with one of them.
    pub(super) fn place_tasks(
        &mut self,
        statement: &mut Statement<'_, '_>,
        job: JobId,
        mut tasks: impl Iterator<Item = TaskId>,
    ) {
        if !tasks.any(|task| self.place(statement, job, task)) {
            self.place_seeking(statement, job);
        }
    }

    /// Why tasks were not placed, one refusal for each class.
    pub(super) fn into_refusals(mut self) -> Vec<Refusal> {
        let Self { order, failed, .. } = &mut self;
        order.iter().filter_map(|class| failed.remove(class)).collect()
    }

    /// Places a task. Returns whether the job is ready with it.
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
        // Among equal nodes the task keeps the node of its nomination, but idle resources elsewhere go first.
        if nominated {
            statement.unplace(task);
        }
        let session = statement.session();
        let best = session.allocatable(task).map(|()| session.best_node(task));
        let refusal = match best {
            Ok(Some(best)) => {
                statement.place(task, best.node, best.fit);
                self.placed += 1;
                return statement.session().job_ready(job);
            }
            Ok(None) => session.no_node(task),
            Err(refusal) => refusal,
        };
        if seeks {
            self.seeking.push(task);
        }
        if self.failed.insert(class, refusal).is_none() {
            self.order.push(class);
        }
        false
    }

    /// Tries tasks with pod affinity again as long as more of them find a node.
    fn place_seeking(&mut self, statement: &mut Statement<'_, '_>, job: JobId) {
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

/// How far a gang came that needs more.
fn partial(statement: &mut Statement<'_, '_>, job: JobId) -> Option<Refusal> {
    let it = &statement.session().cluster.jobs[job];
    let (placed, wanted) = (it.counts.ready() + it.counts.of(Status::Pipelined), it.min_member);
    (wanted > 1 && placed < wanted).then_some(Refusal::Partial { placed, wanted })
}
