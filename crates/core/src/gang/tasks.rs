//! The tasks of a job that wait for nodes, in the order in which they are placed.
use crate::session::Session;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Job, Role, Status};

/// Hands out the tasks of a job in order.
#[derive(Debug)]
pub(crate) struct TaskQueue {
    tasks: Vec<TaskId>,
    next: usize,
}

impl TaskQueue {
    /// Tasks with requests, and behind them tasks without requests that their gang needs to be whole.
    pub(crate) fn of_requests(session: &Session<'_>, job: JobId) -> Self {
        let cluster = &*session.cluster;
        let it = &cluster.jobs[job];
        let (mut best_effort, mut tasks): (Vec<_>, Vec<_>) =
            waiting(cluster, it).partition(|task| cluster.class_of(*task).best_effort);
        sort(session, &mut tasks);
        if !tasks.is_empty() && needs_best_effort(cluster, it) {
            sort(session, &mut best_effort);
            tasks.extend(best_effort);
        }
        Self { tasks: required_first(cluster, it, tasks), next: 0 }
    }

    /// Whether a task with requests waits.
    pub(crate) fn has_requests(session: &Session<'_>, job: JobId) -> bool {
        let cluster = &*session.cluster;
        waiting(cluster, &cluster.jobs[job]).any(|task| !cluster.class_of(task).best_effort)
    }

    /// All tasks, those with requests first.
    pub(crate) fn of_all(session: &Session<'_>, job: JobId) -> Self {
        let cluster = &*session.cluster;
        let mut tasks: Vec<TaskId> = waiting(cluster, &cluster.jobs[job]).collect();
        sort(session, &mut tasks);
        tasks.sort_by_key(|task| cluster.class_of(*task).best_effort);
        Self { tasks, next: 0 }
    }

    /// Tasks without requests; none when these are too few to make the gang, for allocate has tried the other tasks.
    pub(crate) fn of_best_effort(session: &Session<'_>, job: JobId) -> Self {
        let cluster = &*session.cluster;
        let it = &cluster.jobs[job];
        let (mut tasks, others): (Vec<_>, Vec<_>) =
            waiting(cluster, it).partition(|task| cluster.class_of(*task).best_effort);
        let nominated = |task: &&TaskId| cluster.tasks[**task].status == Status::Pipelined;
        let have_nodes = it.counts.ready() as usize + others.iter().filter(nominated).count();
        if have_nodes + tasks.len() < it.min_member as usize {
            tasks.clear();
        }
        sort(session, &mut tasks);
        Self { tasks: required_first(cluster, it, tasks), next: 0 }
    }

    /// The tasks, in order.
    pub(crate) fn into_tasks(self) -> Vec<TaskId> {
        self.tasks
    }

    /// Whether all tasks were handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// How many tasks were not handed out yet.
    pub(crate) fn left(&self) -> usize {
        self.tasks.len() - self.next
    }

    /// Hands out all tasks once more that wait for a node.
    pub(crate) fn restart(&mut self, session: &Session<'_>) {
        self.tasks.retain(|task| session.cluster.tasks[*task].is_schedulable());
        self.next = 0;
    }
}

impl Iterator for TaskQueue {
    type Item = TaskId;

    fn next(&mut self) -> Option<TaskId> {
        let task = self.tasks.get(self.next).copied()?;
        self.next += 1;
        Some(task)
    }
}

fn waiting<'a>(cluster: &'a Cluster, job: &'a Job) -> impl Iterator<Item = TaskId> + 'a {
    job.tasks.iter().copied().filter(|task| cluster.tasks[*task].is_schedulable())
}

/// Whether the tasks with requests are too few to make the gang, so that those without must start with them.
fn needs_best_effort(cluster: &Cluster, job: &Job) -> bool {
    let with_requests =
        waiting(cluster, job).filter(|task| !cluster.class_of(*task).best_effort).count() as u32;
    job.counts.ready() + with_requests < job.min_member || job.roles.iter().any(|role| role.min > 0)
}

/// Which actions the tasks of a job wait for.
pub(crate) struct Unplaced {
    /// Tasks wait that `allocate` places.
    pub(crate) by_allocate: bool,
    /// Tasks wait that only `backfill` places.
    pub(crate) by_backfill: bool,
}

/// Which actions the tasks of a job wait for.
pub(crate) fn unplaced(session: &Session<'_>, job: JobId) -> Unplaced {
    let (cluster, job) = (&*session.cluster, &session.cluster.jobs[job]);
    let mut best_effort = false;
    let mut requests = false;
    for task in waiting(cluster, job) {
        *(if cluster.class_of(task).best_effort { &mut best_effort } else { &mut requests }) = true;
    }
    let by_backfill = best_effort && !(requests && needs_best_effort(cluster, job));
    Unplaced { by_allocate: requests, by_backfill }
}

fn sort(session: &Session<'_>, tasks: &mut [TaskId]) {
    tasks.sort_by(|a, b| session.task_order(*a, *b));
}

/// Puts tasks ahead that a role needs for its minimum: other tasks must not take their resources.
fn required_first(cluster: &Cluster, job: &Job, tasks: Vec<TaskId>) -> Vec<TaskId> {
    if !job.asks_roles() {
        return tasks;
    }
    let lacking = |role: &Role| role.min.saturating_sub(role.counts.ready());
    let mut lacking: Vec<u32> = job.roles.iter().map(lacking).collect();
    let required = |task: &TaskId| {
        let lacking = &mut lacking[usize::from(cluster.tasks[*task].role)];
        let required = *lacking > 0;
        *lacking = lacking.saturating_sub(1);
        required
    };
    let (mut first, rest): (Vec<_>, Vec<_>) = tasks.into_iter().partition(required);
    first.extend(rest);
    first
}
