//! The Statement: changes of the Cluster that are committed as a whole, or undone exactly when it is dropped.
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::decision::{Binding, Cause, Decision};
use crate::plan::{Placement, Plan};
use crate::session::Session;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Before, Status};
use phalanx_framework::placement::Fit;

/// One change, and what undoes it.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    task: TaskId,
    before: Before,
}

impl Session<'_> {
    /// The nodes of tasks that open statements have moved since the log had this length.
    pub(crate) fn nodes_changed_since(&self, len: usize) -> Vec<NodeId> {
        let nodes = |it: &Operation| [it.before.node(), self.cluster.tasks[it.task].node];
        self.log[len..].iter().flat_map(nodes).flatten().collect()
    }
}

/// Open changes of the Cluster.
#[must_use = "dropping a statement undoes it"]
pub struct Statement<'s, 'w> {
    session: &'s mut Session<'w>,
    base: usize,
    /// Length of the session's `displaced` when the statement was opened.
    displaced: usize,
}

impl<'s, 'w> Statement<'s, 'w> {
    pub(crate) fn new(session: &'s mut Session<'w>) -> Self {
        let (base, displaced) = (session.log.len(), session.displaced.len());
        Self { session, base, displaced }
    }

    /// The session, as the statement has changed it.
    pub fn session(&mut self) -> &mut Session<'w> {
        self.session
    }

    /// Places a task on a node with idle resources.
    pub fn allocate(&mut self, task: TaskId, node: NodeId) {
        self.change(task, Status::Allocated, Some(node));
    }

    /// Nominates a task to a node where resources are being released.
    pub fn pipeline(&mut self, task: TaskId, node: NodeId) {
        self.change(task, Status::Pipelined, Some(node));
    }

    /// Places a task on a node that has room, now or once resources are released.
    pub(crate) fn place(&mut self, task: TaskId, node: NodeId, fit: Fit) {
        match fit {
            Fit::Idle => self.allocate(task, node),
            Fit::FutureIdle => self.pipeline(task, node),
        }
    }

    /// Places a task on a node if its queue may have more and the node has room, now or later.
    pub(crate) fn place_if_allowed(&mut self, task: TaskId, node: NodeId) -> Option<Fit> {
        self.session.allocatable(task).ok()?;
        let fit = self.session.fit_unless_tried(task, node, &[])?;
        self.place(task, node, fit);
        Some(fit)
    }

    /// Takes back the nomination or allocation of a task.
    pub fn unplace(&mut self, task: TaskId) {
        self.change(task, Status::Pending, None);
    }

    /// Takes the nominations and allocations of these tasks back.
    pub(crate) fn unplace_all(&mut self, tasks: &[TaskId]) {
        for task in tasks {
            if self.session.cluster.tasks[*task].node.is_some() {
                self.unplace(*task);
            }
        }
    }

    /// Takes the nominations of a job back.
    pub(crate) fn unplace_reserved(&mut self, job: JobId) {
        for task in self.session.cluster.jobs[job].tasks.clone() {
            if self.session.cluster.tasks[task].status == Status::Pipelined {
                self.unplace(task);
            }
        }
    }

    /// Evicts a task; it keeps its room until it is gone.
    pub fn evict(&mut self, task: TaskId) {
        let node = self.session.cluster.tasks[task].node;
        self.change(task, Status::Releasing, node);
    }

    /// Takes back an eviction of this statement; `was` is the status of the task before it.
    pub fn reprieve(&mut self, task: TaskId, was: Status) {
        let node = self.session.cluster.tasks[task].node;
        self.change(task, was, node);
    }

    fn change(&mut self, task: TaskId, status: Status, node: Option<NodeId>) {
        let session = &mut *self.session;
        let before = session.cluster.tasks[task].status;
        let entry = Operation { task, before: session.cluster.place(task, status, node) };
        session.log.push(entry);
        session.tiers.changed(session.cluster, task, before);
    }

    /// Does what a plan says.
    pub(crate) fn apply(&mut self, plan: &Plan) {
        for task in &plan.victims {
            self.evict(*task);
        }
        for Placement { task, node, fit } in &plan.places {
            self.place(*task, *node, *fit);
        }
    }

    /// What this statement did, as a plan: it can be undone, and done again by [`apply`](Self::apply).
    pub(crate) fn plan(&self) -> Plan {
        let Session { cluster, log, .. } = &*self.session;
        let mut plan = Plan::default();
        let mut seen = FxHashSet::default();
        let last_first = log[self.base..].iter().rev().map(|entry| entry.task);
        for task in last_first.filter(|task| seen.insert(*task)) {
            let it = &cluster.tasks[task];
            match (it.status, it.node) {
                (Status::Releasing, _) => plan.victims.push(task),
                (Status::Allocated, Some(node)) => plan.places.push(Placement { task, node, fit: Fit::Idle }),
                (Status::Pipelined, Some(node)) => {
                    plan.places.push(Placement { task, node, fit: Fit::FutureIdle });
                }
                _ => {}
            }
        }
        plan.victims.reverse();
        plan.places.reverse();
        plan
    }

    /// Records jobs that `taker` displaces, for the eviction history.
    pub(crate) fn note_displaced(&mut self, taker: JobId, losers: &[JobId]) {
        self.session.displaced.extend(losers.iter().map(|loser| (taker, *loser)));
    }

    /// Makes changes in a nested statement. They are undone unless they succeed.
    pub fn nested<R: Succeeds>(&mut self, make: impl FnOnce(&mut Statement<'_, 'w>) -> R) -> R {
        let mut nested = Statement::new(self.session);
        let result = make(&mut nested);
        if result.succeeds() {
            nested.leave();
        }
        result
    }

    /// Turns the changes into decisions: binds, nominations and evictions.
    pub fn commit(mut self, why: &Arc<Cause>) {
        self.decide(why);
    }

    /// Turns the changes into decisions, with nominations in place of binds: the gang cannot start yet, and its places
    /// are reserved.
    pub fn commit_pipelined(mut self, why: &Arc<Cause>) {
        for at in self.base..self.session.log.len() {
            let task = self.session.log[at].task;
            let it = &self.session.cluster.tasks[task];
            if it.status == Status::Allocated {
                let node = it.node;
                self.change(task, Status::Pipelined, node);
            }
        }
        self.decide(why);
    }

    fn decide(&mut self, why: &Arc<Cause>) {
        let session = &mut *self.session;
        let entries: Vec<Operation> = session.log.drain(self.base..).collect();
        for (taker, loser) in session.displaced.split_off(self.displaced) {
            session.state.history.note(session.cluster, taker, loser, session.now);
        }
        let mut bound: Vec<Binding> = Vec::with_capacity(entries.len());
        let mut job = None;
        prefetch(session, &entries);
        for Operation { task, before } in entries {
            let it = &session.cluster.tasks[task];
            if it.status == Status::Allocated {
                session.cluster.note_retry_event();
            }
            let it = &session.cluster.tasks[task];
            if let Some(left) =
                before.node().filter(|left| it.node != Some(*left) || it.status == Status::Releasing)
            {
                session.cluster.note_retry_event();
                session.state.backlog.note_freed(left);
            } else if it.node.is_some() && before.node() != it.node {
                session.state.backlog.note_placed(session.cluster, task);
            }
            let it = &session.cluster.tasks[task];
            match it.status {
                Status::Allocated => {
                    let Some(node) = it.node else { continue };
                    let (pod, created) = (it.pod.clone(), it.details.created);
                    let by = session.tiers.binder(session.cluster, task);
                    let mut prepare = session.cluster.volume_bindings(task);
                    job = job.or(it.job);
                    session.cluster.place(task, Status::Binding, Some(node));
                    prepare.extend(session.give_devices(task));
                    let node = session.cluster.nodes[node].name.clone();
                    bound.push(Binding { pod, created, node, by, prepare });
                }
                Status::Releasing if it.evicting.is_none() => {
                    let group = it.job.and_then(|job| session.cluster.jobs[job].group_ref());
                    let (pod, cause) = (it.pod.clone(), why.clone());
                    session.decisions.push(Decision::Evict { pod, group, cause });
                    session.cluster.set_evicting(task, Some(before.status()));
                }
                Status::Pipelined | Status::Pending => nominate(session, task),
                _ => {}
            }
        }
        if let Some(job) = job {
            ungrouped(session, job, &bound);
            let key = session.cluster.jobs[job].key.clone();
            session.decisions.push(Decision::Bind { job: key, pods: bound });
        }
    }

    /// Leaves the changes to the enclosing statement.
    pub(crate) fn leave(mut self) {
        self.base = self.session.log.len();
        self.displaced = self.session.displaced.len();
    }

    fn undo(&mut self) {
        let session = &mut *self.session;
        session.displaced.truncate(self.displaced);
        while session.log.len() > self.base {
            let Some(Operation { task, before }) = session.log.pop() else { break };
            let from = session.cluster.tasks[task].status;
            session.cluster.restore(task, &before);
            session.tiers.changed(session.cluster, task, from);
        }
    }
}

/// Prefetches the reference counts of node names, which are scattered in memory, so that the cache misses overlap.
/// Copying the names one by one would wait for each.
fn prefetch(session: &Session<'_>, entries: &[Operation]) {
    let nodes = entries.iter().filter_map(|entry| session.cluster.tasks[entry.task].node);
    let first = |node| session.cluster.nodes[node].name.as_bytes().first().copied();
    std::hint::black_box(nodes.filter_map(first).fold(0, |all, byte| all ^ byte));
}

/// Tells a pod without a PodGroup that it starts as a gang of one, if it waited for a PodGroup controller.
fn ungrouped(session: &mut Session<'_>, job: JobId, bound: &[Binding]) {
    let Some(message) = session.cluster.group_that_never_came(job) else { return };
    let message: Arc<str> = message.into();
    let told =
        bound.iter().map(|it| Decision::PodUngrouped { pod: it.pod.clone(), message: message.clone() });
    session.decisions.extend(told);
}

/// Says where a task is nominated now, if that is news.
fn nominate(session: &mut Session<'_>, task: TaskId) {
    let it = &session.cluster.tasks[task];
    let node = it.node.map(|node| session.cluster.nodes[node].name.clone());
    if it.written.nominated == node {
        return;
    }
    session.decisions.push(Decision::Nominate { pod: it.pod.clone(), node: node.clone() });
    session.cluster.tasks[task].written.nominated = node;
}

impl Drop for Statement<'_, '_> {
    fn drop(&mut self) {
        self.undo();
    }
}

/// The result of changes that are undone where they do not succeed.
pub trait Succeeds {
    /// Whether the changes stay.
    fn succeeds(&self) -> bool;
}

impl Succeeds for bool {
    fn succeeds(&self) -> bool {
        *self
    }
}

impl<T> Succeeds for Option<T> {
    fn succeeds(&self) -> bool {
        self.is_some()
    }
}

impl<T: Succeeds, E> Succeeds for Result<T, E> {
    fn succeeds(&self) -> bool {
        self.as_ref().is_ok_and(T::succeeds)
    }
}
