//! A Statement: changes to the Cluster that are committed whole, or undone exactly when it is dropped.
use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::decision::{Binding, Cause, Decision};
use crate::eviction::record_eviction;
use crate::plan::{Placement, Plan};
use crate::session::Session;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Before, Status};
use phalanx_framework::placement::Fit;

/// One change, with what it takes to undo it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    task: TaskId,
    before: Before,
}

/// An open change of the Cluster.
#[must_use = "dropping a statement undoes it"]
pub struct Statement<'s, 'w> {
    session: &'s mut Session<'w>,
    base: usize,
    /// Takings before it.
    taken: usize,
}

impl<'s, 'w> Statement<'s, 'w> {
    pub(crate) fn new(session: &'s mut Session<'w>) -> Self {
        let (base, taken) = (session.log.len(), session.takings.len());
        Self { session, base, taken }
    }

    /// The session, to ask questions.
    pub fn session(&mut self) -> &mut Session<'w> {
        self.session
    }

    /// Gives a task a node that has room.
    pub fn allocate(&mut self, task: TaskId, node: NodeId) {
        self.place(task, Status::Allocated, Some(node));
    }

    /// Gives a task a node where room is being released.
    pub fn pipeline(&mut self, task: TaskId, node: NodeId) {
        self.place(task, Status::Pipelined, Some(node));
    }

    /// Takes a task's nomination or allocation back.
    pub fn unplace(&mut self, task: TaskId) {
        self.place(task, Status::Pending, None);
    }

    /// Evicts a task; it keeps its room until it is gone.
    pub fn evict(&mut self, task: TaskId) {
        let node = self.session.cluster.tasks[task].node;
        self.place(task, Status::Releasing, node);
    }

    /// Takes an eviction of this statement back: the task is again what it was.
    pub fn reprieve(&mut self, task: TaskId, was: Status) {
        let node = self.session.cluster.tasks[task].node;
        self.place(task, was, node);
    }

    fn place(&mut self, task: TaskId, status: Status, node: Option<NodeId>) {
        let session = &mut *self.session;
        let before = session.cluster.tasks[task].status;
        let entry = Entry { task, before: session.cluster.place(task, status, node) };
        session.log.push(entry);
        session.tiers.changed(session.cluster, task, before);
    }

    /// Does what a plan says.
    pub(crate) fn apply(&mut self, plan: &Plan) {
        for task in &plan.victims {
            self.evict(*task);
        }
        for Placement { task, node, fit } in &plan.places {
            match fit {
                Fit::Idle => self.allocate(*task, *node),
                Fit::FutureIdle => self.pipeline(*task, *node),
            }
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

    /// With it a job takes room that others hold, or that is kept for them.
    pub(crate) fn take_from(&mut self, taker: JobId, losers: &[JobId]) {
        self.session.takings.extend(losers.iter().map(|loser| (taker, *loser)));
    }

    /// Begins a change within this one: its drop undoes its own part only.
    pub fn nested(&mut self) -> Nested<'_, 'w> {
        Nested { inner: Statement::new(self.session) }
    }

    /// Makes the changes decisions: allocations are bound, nominations kept, evictions sent.
    pub fn commit(mut self, why: &Arc<Cause>) {
        self.decide(why);
    }

    /// Keeps every place as a nomination: the gang cannot start yet, and no other job may take its room.
    pub fn commit_reserved(mut self, why: &Arc<Cause>) {
        for at in self.base..self.session.log.len() {
            let task = self.session.log[at].task;
            let it = &self.session.cluster.tasks[task];
            if it.status == Status::Allocated {
                let node = it.node;
                self.place(task, Status::Pipelined, node);
            }
        }
        self.decide(why);
    }

    fn decide(&mut self, why: &Arc<Cause>) {
        let session = &mut *self.session;
        let entries: Vec<Entry> = session.log.drain(self.base..).collect();
        for (taker, loser) in session.takings.split_off(self.taken) {
            record_eviction(session, taker, loser);
        }
        let mut bound: Vec<Binding> = Vec::with_capacity(entries.len());
        let mut job = None;
        foresee(session, &entries);
        for Entry { task, before } in entries {
            let it = &session.cluster.tasks[task];
            if it.status == Status::Allocated {
                session.cluster.note_news();
            }
            let it = &session.cluster.tasks[task];
            if let Some(left) =
                before.node().filter(|left| it.node != Some(*left) || it.status == Status::Releasing)
            {
                session.cluster.note_news();
                session.backlog.note_freed(left);
            } else if it.node.is_some() && before.node() != it.node {
                session.backlog.note_company(session.cluster, task);
            }
            let it = &session.cluster.tasks[task];
            match it.status {
                Status::Allocated => {
                    let Some(node) = it.node else { continue };
                    let (pod, created) = (it.pod.clone(), it.created);
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
            let key = session.cluster.jobs[job].key.clone();
            session.decisions.push(Decision::Bind { job: key, pods: bound });
        }
    }

    /// Leaves the changes with the statement around it.
    pub(crate) fn leave(mut self) {
        self.base = self.session.log.len();
        self.taken = self.session.takings.len();
    }

    fn undo(&mut self) {
        let session = &mut *self.session;
        session.takings.truncate(self.taken);
        while session.log.len() > self.base {
            let Some(Entry { task, before }) = session.log.pop() else { break };
            let from = session.cluster.tasks[task].status;
            session.cluster.restore(task, &before);
            session.tiers.changed(session.cluster, task, from);
        }
    }
}

/// Reads the names of the nodes, which lie all over memory, before they are copied: so the processor waits for all of them at
/// once. A copy counts in memory, and what follows has to wait for it.
fn foresee(session: &Session<'_>, entries: &[Entry]) {
    let nodes = entries.iter().filter_map(|entry| session.cluster.tasks[entry.task].node);
    let first = |node| session.cluster.nodes[node].name.as_bytes().first().copied();
    std::hint::black_box(nodes.filter_map(first).fold(0, |all, byte| all ^ byte));
}

/// Says where a task is nominated now, if that is news.
fn nominate(session: &mut Session<'_>, task: TaskId) {
    let it = &session.cluster.tasks[task];
    let node = it.node.map(|node| session.cluster.nodes[node].name.clone());
    if it.nominated == node {
        return;
    }
    session.decisions.push(Decision::Nominate { pod: it.pod.clone(), node: node.clone() });
    let job = it.job.filter(|_| node.is_some());
    session.reserved.extend(job);
    session.cluster.tasks[task].nominated = node;
}

impl Drop for Statement<'_, '_> {
    fn drop(&mut self) {
        self.undo();
    }
}

/// A change within a statement.
#[must_use = "dropping a nested change undoes it"]
pub struct Nested<'s, 'w> {
    inner: Statement<'s, 'w>,
}

impl Nested<'_, '_> {
    /// Leaves the changes with the outer statement.
    pub fn keep(self) {
        self.inner.leave();
    }
}

impl<'s, 'w> std::ops::Deref for Nested<'s, 'w> {
    type Target = Statement<'s, 'w>;
    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl std::ops::DerefMut for Nested<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}
