//! The preemptor, for which pods are evicted: a gang, whole or not at all, or one more task or sub-group of a job.
use std::sync::Arc;

use phalanx_resource::DimId;
use rustc_hash::FxHashSet;

use super::mode::EvictionMode;
use crate::eviction_history::ProtectedJobs;
use crate::failed_searches::{RequestClass, SearchKey, SearchKind, TaskRequest};
use crate::feasibility::TaskDemand;
use crate::gang::backtracking;
use crate::gang::domain::Choice;
use crate::gang::hyper_nodes::{self, Enough, Placing, Shortfall};
use crate::gang::sub_groups::{Part, WaitingSubGroups};
use crate::network::{Room, RoomOf};
use crate::session::Session;
use crate::statement::Statement;
use crate::steps::Steps;
use phalanx_cluster::diagnosis::{NoEviction, Refusal};
use phalanx_cluster::id::{ClassId, JobId, TaskId};
use phalanx_cluster::{Before, Cluster, Status};
use phalanx_framework::plugin::{Eviction, Plugin};

/// The gang or task for which pods are evicted.
#[derive(Clone, Debug)]
pub(super) struct Preemptor {
    /// How pods are evicted for it.
    pub(super) mode: EvictionMode,
    /// The job.
    pub(super) job: JobId,
    /// Tasks that never preempt: they are placed before any pod is evicted.
    pub(super) non_preempting: Vec<TaskId>,
    /// Tasks to be placed, in order.
    pub(super) tasks: Vec<TaskId>,
    /// How many of them are needed, if the first ones are placed.
    pub(super) wanted: usize,
    /// The job is whole: one more task of it, or what one more sub-group lacks.
    pub(super) grows: bool,
    /// A task of it, where the answer depends on other pods of its sub-group.
    pub(super) own: Option<TaskId>,
    /// Jobs that the eviction history protects from it.
    pub(super) protected: ProtectedJobs,
}

impl Preemptor {
    /// The gang: as many of its tasks as make it whole, sub-groups whole. `None` when all of them do not.
    pub(super) fn gang(
        session: &mut Session<'_>,
        mode: EvictionMode,
        job: JobId,
        parts: &[Part],
    ) -> Option<Self> {
        let protected = session.state.history.protected_from_gang(session.cluster, job);
        let new = |non_preempting, tasks, wanted| Self {
            mode,
            job,
            non_preempting,
            tasks,
            wanted,
            grows: false,
            own: None,
            protected,
        };
        let non_preempting = |task: &&TaskId| session.cluster.tasks[**task].details.never_preempts;
        let (non_preempting, tasks): (Vec<TaskId>, Vec<TaskId>) =
            parts.iter().flat_map(|part| &part.tasks).partition(non_preempting);
        let has_sub_groups = !session.cluster.jobs[job].sub_groups.is_empty();
        if has_sub_groups && !non_preempting.is_empty() {
            return Some(new(Vec::new(), Vec::new(), 0));
        }
        let wanted = if has_sub_groups {
            count_to_whole(session, job, parts.iter().map(|part| &part.tasks[..]))?
        } else {
            let with_all: Vec<TaskId> = non_preempting.iter().chain(&tasks).copied().collect();
            count_to_whole(session, job, with_all.chunks(1))?.saturating_sub(non_preempting.len())
        };
        Some(new(non_preempting, tasks, wanted))
    }

    /// A part of a job that is whole.
    pub(super) fn part(session: &Session<'_>, mode: EvictionMode, job: JobId, part: &Part) -> Self {
        Self {
            mode,
            job,
            non_preempting: Vec::new(),
            tasks: part.tasks.to_vec(),
            wanted: part.tasks.len(),
            grows: true,
            own: part.own(),
            protected: session.state.history.protected_from(session.cluster, job),
        }
    }

    /// What plugins are asked about.
    pub(super) fn eviction(&self) -> Eviction {
        Eviction { kind: self.mode.kind(), by: self.last(), whole_gangs: self.mode.evicts_whole_gangs() }
    }

    /// What the feasibility bound is about.
    pub(super) fn demand(&self) -> TaskDemand<'_> {
        TaskDemand { tasks: &self.tasks, wanted: self.wanted }
    }

    /// What a search for victims depends on: the mode, the queue and priority of the job, what the job holds and what
    /// it requests.
    pub(super) fn search_key(&self, cluster: &Cluster) -> SearchKey {
        let job = &cluster.jobs[self.job];
        let of = |task: &TaskId| {
            let task = &cluster.tasks[*task];
            TaskRequest {
                class: Some(task.class),
                priority: task.priority,
                never_preempts: task.details.never_preempts,
            }
        };
        let request = RequestClass {
            holds: [job.sums.allocated.clone(), job.sums.pipelined.clone()],
            tasks: self.non_preempting.iter().chain(&self.tasks).map(of).collect(),
            wanted: self.wanted,
            own: self.own,
            ..self.any_request(cluster)
        };
        // The own pods of a job, jobs that are protected from it, and its HyperNodes are no other job's answer.
        let is_own = self.mode == EvictionMode::WithinJob
            || !self.protected.is_empty()
            || job.asks_topology()
            || self.has_sub_groups(cluster);
        let kind = SearchKind::Victims { action: self.mode.action(), whose: self.mode.whose() };
        SearchKey { kind, job: is_own.then(|| (self.job, job.object.uid.clone())), request: Some(request) }
    }

    /// What it depends on whether any pod may be evicted, whatever is requested; `None` where that depends on more.
    pub(super) fn any_victim_key(&self, session: &Session<'_>) -> Option<SearchKey> {
        let (cluster, mode, last) = (&*session.cluster, self.mode, self.last());
        if mode == EvictionMode::WithinJob
            || cluster.jobs[self.job].asks_topology()
            || !self.protected.is_empty()
            || cluster.jobs[self.job].has_places()
            || cluster.class_of(last).best_effort
            || session.tiers.victims_are_judged_remotely()
        {
            return None;
        }
        let depends = |plugin: &dyn Plugin| {
            plugin.depends_on_request() && plugin.evictable(cluster, self.eviction(), &[]).is_some()
        };
        let depends = match self.eviction().flag() {
            Some(flag) => {
                let guards = |plugin: &dyn Plugin| plugin.queue_guard().is_some() && depends(plugin);
                session.tiers.with(flag).any(depends) || session.tiers.every().any(guards)
            }
            None => session.tiers.every().any(depends),
        };
        let key = || SearchKey {
            kind: SearchKind::AnyVictim { action: mode.action() },
            job: None,
            request: Some(self.any_request(cluster)),
        };
        (!depends).then(key)
    }

    fn any_request(&self, cluster: &Cluster) -> RequestClass {
        let job = &cluster.jobs[self.job];
        let last =
            TaskRequest { class: None, priority: cluster.tasks[self.last()].priority, never_preempts: false };
        RequestClass {
            queue: job.queue,
            priority: job.priority,
            preemptable: job.preemptable,
            holds: Default::default(),
            tasks: vec![last],
            wanted: 0,
            grows: self.grows,
            own: None,
        }
    }

    /// The task plugins are asked about: the last one that is needed, so that all others count as allocated.
    pub(super) fn last(&self) -> TaskId {
        self.tasks[self.wanted.max(1) - 1]
    }

    /// The name of a task that never preempts and fits nowhere, where the gang is not whole without it.
    pub(super) fn held_up_by(&self, session: &mut Session<'_>) -> Option<Arc<str>> {
        if self.non_preempting.is_empty() {
            return None;
        }
        let mut statement = session.statement();
        let unplaced: Vec<TaskId> =
            self.non_preempting.iter().copied().filter(|task| !place(&mut statement, *task)).collect();
        let (first, session) = (unplaced.first()?, statement.session());
        let is_needed = count_to_whole(session, self.job, self.tasks.chunks(1)).is_none();
        is_needed.then(|| session.cluster.tasks[*first].pod.name.clone())
    }

    /// Asks something with all but the last of the tasks in the sums of jobs and queues: what the gang holds when it is
    /// whole decides, not what it holds before.
    pub(super) fn as_if_whole<R>(&self, session: &mut Session<'_>, ask: impl FnOnce(&Session<'_>) -> R) -> R {
        let before = simulate_pipelined(session, &self.tasks[..self.wanted.max(1) - 1]);
        let answer = ask(session);
        undo_simulation(session, before);
        answer
    }

    /// Asks the same about the last task of each class, for tasks of a gang may request different things.
    pub(super) fn each_as_last<E>(
        &self,
        session: &mut Session<'_>,
        mut ask: impl FnMut(&Session<'_>, TaskId) -> Result<(), E>,
    ) -> Result<(), E> {
        let lasts = last_of_classes(session.cluster, &self.tasks[..self.wanted.max(1)]);
        if lasts.len() == 1 {
            return self.as_if_whole(session, |session| ask(session, lasts[0]));
        }
        let before = simulate_pipelined(session, &self.tasks[..self.wanted]);
        let answer = lasts.into_iter().try_for_each(|task| ask_without(session, task, &mut ask));
        undo_simulation(session, before);
        answer
    }

    /// Whether the queue, and those above it, are within their quotas without the preemptor: otherwise most victims
    /// would be evicted for the quota. Asked with all tasks of the preemptor but this one in place.
    pub(super) fn within_quota_before(&self, session: &Session<'_>, task: TaskId) -> Result<(), Refusal> {
        let Err(refusal) = session.allocatable(task) else { return Ok(()) };
        let taken = &self.tasks[..self.wanted.max(1)];
        let asked =
            |dim: DimId| -> i64 { taken.iter().map(|task| session.cluster.request_of(*task).get(dim)).sum() };
        match &refusal {
            Refusal::Quota { over, .. } if over.iter().any(|(dim, over)| *over > asked(*dim)) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Whether the tasks that are needed request nothing.
    pub(super) fn is_best_effort(&self, cluster: &Cluster) -> bool {
        self.tasks[..self.wanted.max(1)].iter().all(|task| cluster.class_of(*task).best_effort)
    }

    /// Places tasks, on idle or releasing resources, until as many as needed have a node. Returns the tasks it placed,
    /// or `None` when they are too few. Where the gang may choose its topology domain, one domain after the other is
    /// tried.
    pub(super) fn place(
        &self,
        statement: &mut Statement<'_, '_>,
        steps: &mut Steps,
    ) -> Result<Option<Vec<TaskId>>, NoEviction> {
        let placed = statement.nested(|statement| self.place_behind(statement, Vec::new(), steps))?;
        if self.grows || placed.is_some() || self.has_sub_groups(statement.session().cluster) {
            return Ok(placed);
        }
        let Some(choice) = Choice::of(statement.session().cluster, &self.tasks) else { return Ok(placed) };
        steps.scan(2 * statement.session().cluster.nodes.len())?;
        choice.try_domains(statement, self.job, &self.tasks, |statement| {
            steps.spend(1)?;
            self.place_behind(statement, vec![choice.first], steps)
        })
    }

    /// Places tasks one by one and, where that fails, by backtracking.
    pub(super) fn place_or_backtrack(
        &self,
        statement: &mut Statement<'_, '_>,
        steps: &mut Steps,
    ) -> Result<Option<Vec<TaskId>>, NoEviction> {
        let placed = statement.nested(|statement| self.place(statement, steps))?;
        if placed.is_some() || !self.greedy_may_fail(statement.session().cluster) {
            return Ok(placed);
        }
        let found = statement.nested(|statement| {
            steps.backtrack(|steps| {
                backtracking::fill_for_reservation(statement, self.job, &self.tasks, steps)
            })
        })?;
        if !found && !backtracking::is_exhaustive(statement.session(), &self.tasks) {
            steps.give_up();
        }
        Ok(found.then(|| self.placed(statement.session().cluster)))
    }

    /// The tasks that have a node.
    pub(super) fn placed(&self, cluster: &Cluster) -> Vec<TaskId> {
        self.tasks.iter().copied().filter(|task| cluster.tasks[*task].node.is_some()).collect()
    }

    /// Whether placing one by one may fail although the gang fits.
    pub(super) fn greedy_may_fail(&self, cluster: &Cluster) -> bool {
        !self.grows && !self.has_sub_groups(cluster) && backtracking::greedy_may_fail(cluster, &self.tasks)
    }

    /// Places the other tasks once these are placed.
    fn place_behind(
        &self,
        statement: &mut Statement<'_, '_>,
        mut placed: Vec<TaskId>,
        steps: &mut Steps,
    ) -> Result<Option<Vec<TaskId>>, NoEviction> {
        let rest: Vec<TaskId> = if self.has_sub_groups(statement.session().cluster) {
            self.place_sub_groups(statement, &mut placed, steps)?
        } else {
            self.tasks.iter().copied().filter(|task| !placed.contains(task)).collect()
        };
        let mut tasks = self.place_some(statement, &rest, &mut placed, steps)?;
        let mut before = 0;
        // Pod affinity and spread may be met once other members of the gang are placed.
        while !tasks.is_empty() && placed.len() > before {
            before = placed.len();
            tasks = self.place_some(statement, &tasks, &mut placed, steps)?;
        }
        Ok(self.is_met(statement.session(), &placed).then_some(placed))
    }

    /// Places sub-groups whole, until the job is whole. Returns the tasks that are placed one by one.
    fn place_sub_groups(
        &self,
        statement: &mut Statement<'_, '_>,
        placed: &mut Vec<TaskId>,
        steps: &mut Steps,
    ) -> Result<Vec<TaskId>, NoEviction> {
        steps.spend(self.tasks.len())?;
        let session = statement.session();
        steps.scan(session.cluster.nodes.len() * session.cluster.sub_groups(self.job).len())?;
        let chosen = session.chosen_domain.clone();
        let domain = chosen.as_ref().map(|chosen| chosen.domain.clone()).unwrap_or_default();
        let room = Room::for_none(statement.session(), RoomOf::FutureIdle);
        let groups = WaitingSubGroups::new(statement.session().cluster, self.job, &self.tasks);
        let placing = Placing { job: self.job, room: &room, groups: &groups, enough: Enough::Whole };
        let rest = hyper_nodes::place_sub_groups(
            statement,
            placing,
            &domain,
            &self.tasks,
            &mut Shortfall::default(),
        );
        statement.session().chosen_domain = chosen;
        *placed = self.placed(statement.session().cluster);
        Ok(rest)
    }

    fn has_sub_groups(&self, cluster: &Cluster) -> bool {
        !cluster.jobs[self.job].sub_groups.is_empty()
    }

    /// Places tasks one by one. Returns the tasks without a node whose affinity or spread other members may meet later.
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

    /// Whether tasks have affinity or spread rules, so that it matters which pods stay as well as which go.
    pub(super) fn seeks(&self, cluster: &Cluster) -> bool {
        self.tasks.iter().any(|task| cluster.class_of(*task).carried.seeks())
    }

    /// Whether places depend on pods of other nodes: a sub-group may go to another HyperNode, but only as a whole.
    pub(super) fn depends_on_other_nodes(&self, cluster: &Cluster) -> bool {
        let looks = |task: &TaskId| {
            let class = cluster.class_of(*task);
            !class.carried.is_empty()
                || cluster.terms.symmetric(class).next().is_some()
                || class.pvcs.iter().any(|claim| cluster.volumes().pvc(*claim).is_exclusive())
                || cluster.needs_shared_devices(*task)
        };
        self.has_sub_groups(cluster) || self.tasks.iter().any(looks)
    }

    fn is_met(&self, session: &Session<'_>, placed: &[TaskId]) -> bool {
        (!self.grows || placed.len() >= self.wanted) && session.job_whole(self.job)
    }
}

/// Gives a task the best node, if its queue may have the task. Returns whether it did.
pub(super) fn place(statement: &mut Statement<'_, '_>, task: TaskId) -> bool {
    let session = statement.session();
    let best = if session.allocatable(task).is_ok() { session.best_node(task) } else { None };
    best.map(|best| statement.place(task, best.node, best.fit)).is_some()
}

/// The last task of each class, the last one of all first.
pub(super) fn last_of_classes(cluster: &Cluster, tasks: &[TaskId]) -> Vec<TaskId> {
    let mut seen: FxHashSet<ClassId> = FxHashSet::default();
    tasks.iter().rev().copied().filter(|task| seen.insert(cluster.tasks[*task].class)).collect()
}

/// Asks about a task as if it alone had no node yet.
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

/// How many of these tasks, in order, make the job whole; those that get nodes together count together.
fn count_to_whole<'t>(
    session: &mut Session<'_>,
    job: JobId,
    parts: impl Iterator<Item = &'t [TaskId]>,
) -> Option<usize> {
    let mut before = Vec::new();
    let mut is_whole = false;
    for part in parts {
        before.extend(simulate_pipelined(session, part));
        is_whole = session.job_whole(job);
        if is_whole {
            break;
        }
    }
    let count = before.len();
    undo_simulation(session, before);
    is_whole.then_some(count)
}

/// Counts tasks as nominated in the sums of jobs and queues, until [`undo_simulation`].
fn simulate_pipelined(session: &mut Session<'_>, tasks: &[TaskId]) -> Vec<(TaskId, Before)> {
    tasks.iter().map(|task| (*task, session.simulate_place(*task, Status::Pipelined, None))).collect()
}

fn undo_simulation(session: &mut Session<'_>, before: Vec<(TaskId, Before)>) {
    for (task, before) in before.into_iter().rev() {
        session.undo_simulation(task, &before);
    }
}
