//! What somebody is to be evicted for: a gang, whole or not at all, or one more task of a job.
use std::sync::Arc;

use phalanx_resource::DimId;
use rustc_hash::FxHashSet;

use super::steps::Steps;
use crate::gang::backtracking;
use crate::gang::domain::Choice;
use crate::session::Session;
use crate::statement::Statement;
use phalanx_cluster::diagnosis::{NoEviction, Refusal};
use phalanx_cluster::id::{ClassId, JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::placement::Fit;

/// What somebody is to be evicted for.
#[derive(Clone, Debug)]
pub(super) struct Preemptor {
    /// The job.
    pub(super) job: JobId,
    /// Tasks that never preempt: they take what room there is before anybody is evicted.
    pub(super) non_preempting: Vec<TaskId>,
    /// Tasks to be placed, in order.
    pub(super) tasks: Vec<TaskId>,
    /// How many of them it takes, if the first ones are placed.
    pub(super) wanted: usize,
    /// One task, whatever else the job lacks.
    pub(super) single: bool,
}

impl Preemptor {
    /// The gang: as many of its tasks as make it whole. `None` when all of them do not.
    pub(super) fn gang(session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Option<Self> {
        let non_preempting = |task: &&TaskId| session.cluster.tasks[**task].never_preempts;
        let (non_preempting, tasks): (Vec<TaskId>, Vec<TaskId>) = tasks.iter().partition(non_preempting);
        let with_all: Vec<TaskId> = non_preempting.iter().chain(&tasks).copied().collect();
        let wanted = count_to_whole(session, job, &with_all)?.saturating_sub(non_preempting.len());
        Some(Self { job, non_preempting, tasks, wanted, single: false })
    }

    /// One task of a job that is whole.
    pub(super) fn single(job: JobId, task: TaskId) -> Self {
        Self { job, non_preempting: Vec::new(), tasks: vec![task], wanted: 1, single: true }
    }

    /// The task plugins are asked about: the last one it takes, for with it all are there.
    pub(super) fn last(&self) -> TaskId {
        self.tasks[self.wanted.max(1) - 1]
    }

    /// A task that never preempts and has no place as things are, where the gang is not whole without it.
    pub(super) fn held_up_by(&self, session: &mut Session<'_>) -> Option<Arc<str>> {
        if self.non_preempting.is_empty() {
            return None;
        }
        let mut statement = session.statement();
        let homeless: Vec<TaskId> =
            self.non_preempting.iter().copied().filter(|task| !place(&mut statement, *task)).collect();
        let (first, session) = (homeless.first()?, statement.session());
        let is_needed = count_to_whole(session, self.job, &self.tasks).is_none();
        is_needed.then(|| session.cluster.tasks[*first].pod.name.clone())
    }

    /// Asks something with all but the last of the tasks in place, as far as sums of jobs and queues go: what the gang
    /// holds when it is whole decides, not what it holds before.
    pub(super) fn as_if_whole<R>(&self, session: &mut Session<'_>, ask: impl FnOnce(&Session<'_>) -> R) -> R {
        promised(session, &self.tasks[..self.wanted.max(1) - 1], ask)
    }

    /// Asks the same of each class of tasks: what one asks for need not be what the last one does.
    pub(super) fn each_as_last<E>(
        &self,
        session: &mut Session<'_>,
        mut ask: impl FnMut(&Session<'_>, TaskId) -> Result<(), E>,
    ) -> Result<(), E> {
        let lasts = last_of_classes(session.cluster, &self.tasks[..self.wanted.max(1)]);
        if lasts.len() == 1 {
            return self.as_if_whole(session, |session| ask(session, lasts[0]));
        }
        let promise = |task: &TaskId| (*task, session.simulate_place(*task, Status::Pipelined, None));
        let before: Vec<_> = self.tasks[..self.wanted].iter().map(promise).collect();
        let answer = lasts.into_iter().try_for_each(|task| ask_without(session, task, &mut ask));
        for (task, before) in before.into_iter().rev() {
            session.undo_simulation(task, &before);
        }
        answer
    }

    /// Whether its queue, and those above, have no more than they may as they are: else most of those that would have to go
    /// went for the quota, not for the preemptor. Asked with all of the preemptor but this task in place.
    pub(super) fn within_quota_before(&self, session: &Session<'_>, task: TaskId) -> Result<(), Refusal> {
        let queue = session.cluster.jobs[self.job].queue;
        let Err(refusal) = session.allocatable(queue, task) else { return Ok(()) };
        let taken = &self.tasks[..self.wanted.max(1)];
        let asked =
            |dim: DimId| -> i64 { taken.iter().map(|task| session.cluster.request_of(*task).get(dim)).sum() };
        match &refusal {
            Refusal::Quota { over, .. } if over.iter().any(|(dim, over)| *over > asked(*dim)) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Whether all that it takes asks for nothing.
    pub(super) fn is_idle(&self, cluster: &Cluster) -> bool {
        self.tasks[..self.wanted.max(1)].iter().all(|task| cluster.class_of(*task).best_effort)
    }

    /// Places tasks, where room is or will be, until the preemptor is met. Returns those it placed, or nothing when it is
    /// not met in the end. Where the gang may choose its topology domain, one after the other is tried.
    pub(super) fn place(
        &self,
        statement: &mut Statement<'_, '_>,
        steps: &mut Steps,
    ) -> Result<Option<Vec<TaskId>>, NoEviction> {
        let choice = Choice::of(statement.session().cluster, &self.tasks).filter(|_| !self.single);
        let Some(choice) = choice else { return self.place_behind(statement, Vec::new(), steps) };
        let mut attempt = statement.nested();
        if let Some(placed) = self.place_behind(&mut attempt, Vec::new(), steps)? {
            attempt.keep();
            return Ok(Some(placed));
        }
        drop(attempt);
        steps.scan(2 * statement.session().cluster.nodes.len())?;
        for home in choice.nodes(statement.session(), self.job, &self.tasks) {
            let mut attempt = statement.nested();
            steps.spend(1)?;
            if !choice.begin(&mut attempt, self.job, home) {
                continue;
            }
            let placed = self.place_behind(&mut attempt, vec![choice.first], steps)?;
            if placed.is_some() {
                attempt.keep();
                return Ok(placed);
            }
        }
        Ok(None)
    }

    /// The same, and where that fails by any way there is: one by one may fail all the same.
    pub(super) fn place_anyhow(
        &self,
        statement: &mut Statement<'_, '_>,
        steps: &mut Steps,
    ) -> Result<Option<Vec<TaskId>>, NoEviction> {
        let mut attempt = statement.nested();
        if let Some(placed) = self.place(&mut attempt, steps)? {
            attempt.keep();
            return Ok(Some(placed));
        }
        drop(attempt);
        if !self.is_intricate(statement.session().cluster) {
            return Ok(None);
        }
        let mut attempt = statement.nested();
        if !steps
            .any_way(|steps| backtracking::fill_for_reservation(&mut attempt, self.job, &self.tasks, steps))?
        {
            if !backtracking::is_exhaustive(attempt.session(), &self.tasks) {
                steps.give_up();
            }
            return Ok(None);
        }
        let placed = self.placed(attempt.session().cluster);
        attempt.keep();
        Ok(Some(placed))
    }

    /// Its tasks that have a place.
    pub(super) fn placed(&self, cluster: &Cluster) -> Vec<TaskId> {
        self.tasks.iter().copied().filter(|task| cluster.tasks[*task].node.is_some()).collect()
    }

    /// Whether placing one by one may fail where there is another way.
    pub(super) fn is_intricate(&self, cluster: &Cluster) -> bool {
        !self.single && backtracking::is_intricate(cluster, &self.tasks)
    }

    /// Places tasks behind those that are placed.
    fn place_behind(
        &self,
        statement: &mut Statement<'_, '_>,
        mut placed: Vec<TaskId>,
        steps: &mut Steps,
    ) -> Result<Option<Vec<TaskId>>, NoEviction> {
        let rest: Vec<TaskId> = self.tasks.iter().copied().filter(|task| !placed.contains(task)).collect();
        let mut tasks = self.place_some(statement, &rest, &mut placed, steps)?;
        let mut before = 0;
        // Others of the gang may have made place for them by being in place.
        while !tasks.is_empty() && placed.len() > before {
            before = placed.len();
            tasks = self.place_some(statement, &tasks, &mut placed, steps)?;
        }
        Ok(self.is_met(statement.session(), &placed).then_some(placed))
    }

    /// Returns those that could have a place when others have.
    fn place_some(
        &self,
        statement: &mut Statement<'_, '_>,
        tasks: &[TaskId],
        placed: &mut Vec<TaskId>,
        steps: &mut Steps,
    ) -> Result<Vec<TaskId>, NoEviction> {
        let mut failed: FxHashSet<ClassId> = FxHashSet::default();
        let mut seeking = Vec::new();
        for task in tasks {
            if self.is_met(statement.session(), placed) {
                return Ok(Vec::new());
            }
            let class = statement.session().cluster.tasks[*task].class;
            let tried = !failed.contains(&class);
            steps.spend(usize::from(tried))?;
            if tried && place(statement, *task) {
                placed.push(*task);
                continue;
            }
            failed.insert(class);
            if statement.session().cluster.classes[class].carried.seeks() {
                seeking.push(*task);
            }
        }
        Ok(seeking)
    }

    /// Whether its tasks ask for company or spread evenly, so that it matters who stays as well as who goes.
    pub(super) fn seeks(&self, cluster: &Cluster) -> bool {
        self.tasks.iter().any(|task| cluster.class_of(*task).carried.seeks())
    }

    /// Whether places depend on pods of other nodes.
    pub(super) fn looks_around(&self, cluster: &Cluster) -> bool {
        let looks = |task: &TaskId| {
            let class = cluster.class_of(*task);
            !class.carried.is_empty()
                || cluster.terms.outward(class).next().is_some()
                || class.pvcs.iter().any(|claim| cluster.volumes().pvc(*claim).is_exclusive())
                || cluster.needs_shared_devices(*task)
        };
        self.tasks.iter().any(looks)
    }

    fn is_met(&self, session: &Session<'_>, placed: &[TaskId]) -> bool {
        (!self.single || !placed.is_empty()) && session.job_whole(self.job)
    }
}

/// Gives a task a node, if its queue may have it and there is or will be room.
pub(super) fn place(statement: &mut Statement<'_, '_>, task: TaskId) -> bool {
    place_where(statement, task, |session| session.best_node(task).map(|spot| (spot.node, spot.fit)))
}

/// The same on this node.
pub(super) fn place_on(statement: &mut Statement<'_, '_>, task: TaskId, node: NodeId) -> bool {
    place_where(statement, task, |session| session.room(task, node, &[]).map(|room| (node, room)))
}

fn place_where(
    statement: &mut Statement<'_, '_>,
    task: TaskId,
    find: impl Fn(&mut Session<'_>) -> Option<(NodeId, Fit)>,
) -> bool {
    let session = statement.session();
    let Some(job) = session.cluster.tasks[task].job else { return false };
    if session.allocatable(session.cluster.jobs[job].queue, task).is_err() {
        return false;
    }
    match find(session) {
        Some((node, Fit::Idle)) => statement.allocate(task, node),
        Some((node, _)) => statement.pipeline(task, node),
        None => return false,
    }
    true
}

/// The last task of each class, the last one of all first.
pub(super) fn last_of_classes(cluster: &Cluster, tasks: &[TaskId]) -> Vec<TaskId> {
    let mut seen: FxHashSet<ClassId> = FxHashSet::default();
    tasks.iter().rev().copied().filter(|task| seen.insert(cluster.tasks[*task].class)).collect()
}

/// Asks about a task as if it were the only one that has no place yet.
pub(super) fn ask_without<R>(
    session: &mut Session<'_>,
    task: TaskId,
    mut ask: impl FnMut(&Session<'_>, TaskId) -> R,
) -> R {
    let before = session.simulate_place(task, Status::Pending, None);
    let answer = ask(session, task);
    session.undo_simulation(task, &before);
    answer
}

/// How many of these tasks, in order, make the job whole.
fn count_to_whole(session: &mut Session<'_>, job: JobId, tasks: &[TaskId]) -> Option<usize> {
    let mut before = Vec::new();
    let mut count = None;
    for (at, task) in tasks.iter().enumerate() {
        before.push((*task, session.simulate_place(*task, Status::Pipelined, None)));
        if session.job_whole(job) {
            count = Some(at + 1);
            break;
        }
    }
    for (task, before) in before.into_iter().rev() {
        session.undo_simulation(task, &before);
    }
    count
}

fn promised<R>(session: &mut Session<'_>, tasks: &[TaskId], ask: impl FnOnce(&Session<'_>) -> R) -> R {
    let before: Vec<_> =
        tasks.iter().map(|task| (*task, session.simulate_place(*task, Status::Pipelined, None))).collect();
    let answer = ask(session);
    for (task, before) in before.into_iter().rev() {
        session.undo_simulation(task, &before);
    }
    answer
}
