//! What there is to be placed of a job, in which order.
use crate::session::Session;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Job, Role, Status};

/// The tasks of a job that wait, in the order in which they are served.
#[derive(Debug)]
pub(crate) struct Work {
    tasks: Vec<TaskId>,
    next: usize,
}

impl Work {
    /// Tasks with requests, and behind them those without that their gang needs to be whole.
    pub(crate) fn of_requests(session: &Session<'_>, job: JobId) -> Self {
        let cluster = &*session.cluster;
        let it = &cluster.jobs[job];
        let (mut idle, mut tasks): (Vec<_>, Vec<_>) =
            waiting(cluster, it).partition(|task| cluster.class_of(*task).best_effort);
        sort(session, &mut tasks);
        if !tasks.is_empty() && needs_best_effort(cluster, it) {
            sort(session, &mut idle);
            tasks.extend(idle);
        }
        Self { tasks: required_first(cluster, it, tasks), next: 0 }
    }

    /// Whether there are any.
    pub(crate) fn is_any(session: &Session<'_>, job: JobId) -> bool {
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

    /// Tasks without requests; none when they are too few to make the gang, for allocate has tried the rest.
    pub(crate) fn of_best_effort(session: &Session<'_>, job: JobId) -> Self {
        let cluster = &*session.cluster;
        let it = &cluster.jobs[job];
        let (mut tasks, others): (Vec<_>, Vec<_>) =
            waiting(cluster, it).partition(|task| cluster.class_of(*task).best_effort);
        let nominated = |task: &&TaskId| cluster.tasks[**task].status == Status::Pipelined;
        let have_place = it.counts.ready() as usize + others.iter().filter(nominated).count();
        if have_place + tasks.len() < it.min_member as usize {
            tasks.clear();
        }
        sort(session, &mut tasks);
        Self { tasks: required_first(cluster, it, tasks), next: 0 }
    }

    /// The tasks, in order.
    pub(crate) fn into_tasks(self) -> Vec<TaskId> {
        self.tasks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left() == 0
    }

    /// How many were not handed out yet.
    pub(crate) fn left(&self) -> usize {
        self.tasks.len() - self.next
    }

    /// How many were.
    pub(crate) fn at(&self) -> usize {
        self.next
    }

    /// Hands those out again that came behind so many.
    pub(crate) fn go_back(&mut self, at: usize) {
        self.next = at;
    }
}

impl Iterator for Work {
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

/// Whether tasks wait that allocate is to place, and whether some wait for backfill alone.
pub(crate) fn unplaced(session: &Session<'_>, job: JobId) -> (bool, bool) {
    let (cluster, job) = (&*session.cluster, &session.cluster.jobs[job]);
    let mut best_effort = false;
    let mut requests = false;
    for task in waiting(cluster, job) {
        *(if cluster.class_of(task).best_effort { &mut best_effort } else { &mut requests }) = true;
    }
    (requests, best_effort && !(requests && needs_best_effort(cluster, job)))
}

fn sort(session: &Session<'_>, tasks: &mut [TaskId]) {
    tasks.sort_by(|a, b| session.task_order(*a, *b));
}

/// The same tasks, those ahead that a role needs for its minimum: others must not take their room.
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
