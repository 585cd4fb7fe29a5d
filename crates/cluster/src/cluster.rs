//! The Cluster: the cache of all objects, and the one place where tasks change status and node.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_resource::{Amounts, Dims};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::changed::ChangeLog;
use crate::check::{OF_NODES, OF_STATUSES};
use crate::count::Count;
use crate::devices::Devices;
use crate::event::{Key, Time};
use crate::groups::GroupHolds;
use crate::hyper_nodes::HyperNodes;
use crate::id::{ClassId, ImageId, JobId, NodeId, QueueId, Slots, TaskId};
use crate::images::Images;
use crate::inqueue::InqueueRequests;
use crate::pdbs::Pdbs;
use crate::resource_quota::QuotasByName;
use crate::terms::Terms;
use crate::tree::Part;
use crate::{
    Chosen, Class, ClassKey, GroupWait, Hold, Job, JobKind, Log, Node, Queue, Stamp, Status, Task, Volumes,
    marks, priorities, running_jobs, tree, usage,
};

/// Settings of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// The queue of jobs that name none.
    pub default_queue: Arc<str>,
    /// Whether pods without a PodGroup wait for a controller to put them into one.
    pub group_wait: GroupWait,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { default_queue: "default".into(), group_wait: GroupWait::default() }
    }
}

/// The status and node of a task before a change, which [`Cluster::restore`] takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    pub(crate) status: Status,
    pub(crate) node: Option<(NodeId, u32)>,
    /// The volumes that were assumed for the task's claims, where the change released them.
    pub(crate) chosen: Chosen,
}

impl Before {
    /// The status before the change.
    pub fn status(&self) -> Status {
        self.status
    }

    /// The node before the change.
    pub fn node(&self) -> Option<NodeId> {
        self.node.map(|(node, _)| node)
    }
}

/// The cache of all objects, of decisions not seen on them yet, and of sums of both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Resource names.
    pub dims: Dims,
    /// Nodes.
    pub nodes: Slots<NodeId, Node>,
    /// Pods.
    pub tasks: Slots<TaskId, Task>,
    /// PodGroups and pods without one.
    pub jobs: Slots<JobId, Job>,
    /// Queues.
    pub queues: Slots<QueueId, Queue>,
    /// Classes of tasks.
    pub classes: Slots<ClassId, Class>,
    /// PodDisruptionBudgets by name.
    pub pdbs: Pdbs,
    /// ResourceQuotas.
    pub resource_quotas: QuotasByName,
    /// Pods counted by topology domain.
    pub terms: Terms,
    /// HyperNodes.
    pub hyper_nodes: HyperNodes,
    /// Sums over all nodes.
    pub sums: NodeSums,
    pub(crate) images: Images,
    /// Devices and ResourceClaims.
    pub devices: Devices,
    pub(crate) volumes: Volumes,
    pub(crate) ids: Ids,
    pub(crate) indexes: Indexes,
    pub(crate) options: ClusterOptions,
    pub(crate) others: OtherProcesses,
    /// Tasks that keep the places of pods that `shuffle` evicted.
    pub(crate) placeholders: Vec<TaskId>,
    pub(crate) since_last_cycle: SinceLastCycle,
    pub(crate) changes: Changes,
}

/// Ids of objects, by name or UID.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ids {
    pub(crate) nodes: FxHashMap<Arc<str>, NodeId>,
    /// By UID of the pod.
    pub(crate) tasks: FxHashMap<Arc<str>, TaskId>,
    pub(crate) jobs: FxHashMap<(JobKind, Key), JobId>,
    pub(crate) queues: FxHashMap<Arc<str>, QueueId>,
    pub(crate) classes: FxHashMap<ClassKey, ClassId>,
}

/// Indexes of objects by what a cycle looks for, each kept up to date with every change and checked by `check`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Indexes {
    pub(crate) inqueue: InqueueRequests,
    pub(crate) marked: marks::Marked,
    pub(crate) running: running_jobs::RunningJobs,
    pub(crate) priorities: priorities::Priorities,
    /// Pods by the end of their cooldown.
    pub(crate) cooling: BTreeSet<(Time, TaskId)>,
    pub(crate) groups: GroupHolds,
    /// Nodes by the time of their usage figures.
    pub(crate) measured: BTreeSet<(Time, NodeId)>,
    /// Tasks with a gate of their queue.
    pub(crate) queue_gates: BTreeSet<TaskId>,
    /// Number of nodes that have an object.
    pub(crate) existing: u32,
    /// Tasks whose eviction was refused.
    pub(crate) refused: BTreeSet<TaskId>,
}

/// Sums over all nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSums {
    /// Allocatable resources.
    pub allocatable: Amounts,
    /// Resources that pods use.
    pub used: Amounts,
}

/// What is known of other processes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OtherProcesses {
    /// A PodGroup controller was seen.
    pub(crate) group_controller: bool,
    /// Namespaces in which a PodGroup was seen that a PodGroup controller made. Who may create PodGroups in a namespace
    /// could forge one, and delays pods of that namespace alone.
    pub(crate) namespaces_with_made_groups: FxHashSet<Arc<str>>,
    /// Another scheduler process leads: statuses are read from the objects.
    pub(crate) standby: bool,
}

/// What events left for the next cycle to take.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SinceLastCycle {
    /// Jobs with binds that the API server refused.
    pub(crate) denied: Vec<JobId>,
    /// Tasks that were added with a nomination.
    pub(crate) nominated: Vec<TaskId>,
}

/// Logs of changes, and clocks that count them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// What the backlog takes in.
    pub(crate) log: ChangeLog,
    /// Nodes whose resources or attributes changed.
    pub(crate) touched: Log<NodeId>,
    /// Queues of tasks that changed status or node.
    pub(crate) moved: Log<QueueId>,
    /// Classes whose first task became pending.
    pub(crate) sought: Log<ClassId>,
    /// The clock that stamps are taken from.
    pub(crate) clock: u64,
    /// The clock when a Node was last added, changed or removed.
    pub(crate) nodes: u64,
    /// Faults of queues may have changed since the last cycle.
    pub(crate) queues: bool,
    /// Names of resources that nodes, queues or quotas came to name, and pods may have asked for before.
    pub(crate) resources: Vec<Box<str>>,
    /// Counts events that may let a job start which could not before.
    pub(crate) retry_events: u64,
}

impl Cluster {
    /// An empty cluster.
    pub fn new(options: ClusterOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Sets whether another scheduler process leads. While it does, statuses are read from the objects, so that this
    /// process knows them when it becomes the leader.
    pub fn stand_by(&mut self, standby: bool) {
        if std::mem::replace(&mut self.others.standby, standby) != standby {
            self.all_jobs_changed();
            self.remove_placeholders(None);
            let nominated = self.tasks.iter().filter(|(_, task)| task.written.nominated.is_some());
            self.since_last_cycle.nominated = nominated.map(|(id, _)| id).collect();
        }
    }

    /// Takes the jobs with binds that the API server refused since the last call.
    pub fn take_denied(&mut self) -> Vec<JobId> {
        std::mem::take(&mut self.since_last_cycle.denied)
    }

    /// Takes the pending tasks that were added with a nomination, and their nodes.
    pub fn take_nominated(&mut self) -> Vec<(TaskId, NodeId)> {
        let mut nominated = std::mem::take(&mut self.since_last_cycle.nominated);
        nominated.sort_unstable();
        nominated.dedup();
        nominated.into_iter().filter_map(|id| Some((id, self.nominated_node(id)?))).collect()
    }

    pub(crate) fn nominated_node(&self, id: TaskId) -> Option<NodeId> {
        let task = self.tasks.get(id)?;
        let waits = task.status == Status::Pending && !task.gated && task.job.is_some();
        self.node_named(task.written.nominated.as_deref().filter(|_| waits)?)
    }

    /// PersistentVolumes and PersistentVolumeClaims.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Has claims bound to these volumes first, in this order, where they match.
    pub fn prefer_volumes(&mut self, volumes: Vec<Arc<str>>) {
        self.volumes.prefer(volumes);
    }

    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.ids.nodes.get(name).copied()
    }

    /// The task of a pod's UID.
    pub fn task_of(&self, uid: &str) -> Option<TaskId> {
        self.ids.tasks.get(uid).copied()
    }

    /// The job of a PodGroup, or of a pod without one.
    pub fn job_named(&self, kind: JobKind, key: &Key) -> Option<JobId> {
        self.ids.jobs.get(&(kind, key.clone())).copied()
    }

    /// The queue of a name.
    pub fn queue_named(&self, name: &str) -> Option<QueueId> {
        self.ids.queues.get(name).copied()
    }

    /// The queue that a task counts in; `None` for a pod of another scheduler.
    pub fn queue_of(&self, task: TaskId) -> Option<QueueId> {
        let task = &self.tasks[task];
        task.job.map(|job| self.jobs[job].queue).or(task.placeholder_in)
    }

    /// The class of a task.
    #[inline]
    pub fn class_of(&self, task: TaskId) -> &Class {
        &self.classes[self.tasks[task].class]
    }

    /// The number of nodes with an image, and of all nodes.
    pub fn image_spread(&self, image: ImageId) -> (u32, u32) {
        (self.images.nodes(image), self.indexes.existing)
    }

    /// The request of a task.
    #[inline]
    pub fn request_of(&self, task: TaskId) -> &Amounts {
        &self.class_of(task).request
    }

    /// Changes the status and node of a task, and tells every index. Returns what `restore` takes.
    pub fn place(&mut self, task: TaskId, status: Status, node: Option<NodeId>) -> Before {
        let slot = node.map(|node| (node, self.nodes[node].tasks.len() as u32));
        self.move_task(task, status, slot, None)
    }

    /// Undoes a `place`. Exact when changes are undone in reverse order.
    pub fn restore(&mut self, task: TaskId, before: &Before) {
        self.move_task(task, before.status, before.node, Some(&before.chosen));
    }

    pub(crate) fn move_task(
        &mut self,
        id: TaskId,
        status: Status,
        node: Option<(NodeId, u32)>,
        chosen: Option<&Chosen>,
    ) -> Before {
        let task = &self.tasks[id];
        let at = task.node.map(|node| (node, task.node_slot));
        let mut before = Before { status: task.status, node: at, chosen: None };
        let stays = before.node.map(|(node, _)| node) == node.map(|(node, _)| node);
        let (held, holds) = (before.status.hold(), status.hold());
        if !(stays && held == holds) {
            self.count_on_node(id, Count::Out);
        }
        if !stays || holds == Hold::Nothing {
            before.chosen = self.release_volumes(id);
        }
        if !stays {
            self.leave_list(id);
            self.join_list(id, node);
        }
        self.tasks[id].status = status;
        if !(stays && held == holds) {
            self.count_on_node(id, Count::In);
        }
        if !stays || held == Hold::Nothing {
            self.assume_volumes(id, chosen);
        }
        self.count(id, Some(before.status), Some(status));
        before
    }

    /// Counts a task in or out of each index of what tasks take of nodes.
    pub(crate) fn count_on_node(&mut self, id: TaskId, count: Count) {
        let Task { node: Some(node), status, .. } = self.tasks[id] else { return };
        for index in OF_NODES {
            (index.on_move)(self, id, node, status.hold(), count);
        }
        self.touch_node(node);
    }

    /// Counts a task by its status in each index of jobs and queues.
    pub(crate) fn count(&mut self, id: TaskId, from: Option<Status>, to: Option<Status>) {
        for index in OF_STATUSES {
            (index.on_move)(self, id, from, to);
        }
    }

    pub(crate) fn count_in_job(&mut self, id: TaskId, from: Option<Status>, to: Option<Status>) {
        let Self { tasks, jobs, classes, resource_quotas, indexes, changes, .. } = self;
        let task = &tasks[id];
        let Some(of) = task.job else { return };
        let job = &mut jobs[of];
        if job.has_share(!resource_quotas.is_empty()) {
            indexes.inqueue.mark(of);
        }
        changes.log.note(of);
        job.count(task.role, from, to);
        indexes.marked.pending.set(of, job.is_pending());
        indexes.running.update(of, job);
        job.sums.shift(&classes[task.class].request, from.and_then(Part::of), to.and_then(Part::of));
    }

    pub(crate) fn count_in_queue(&mut self, id: TaskId, from: Option<Status>, to: Option<Status>) {
        let Some(queue) = self.queue_of(id) else { return };
        self.changes.moved.push(queue);
        let request = &self.classes[self.tasks[id].class].request;
        tree::shift(&mut self.queues, queue, request, from.and_then(Part::of), to.and_then(Part::of));
    }

    pub(crate) fn count_request(&mut self, id: TaskId, node: NodeId, hold: Hold, count: Count) {
        let Self { tasks, nodes, classes, sums, .. } = self;
        let task = &tasks[id];
        let (class, node) = (&classes[task.class], &mut nodes[node]);
        node.count_request(class, hold, count);
        node.count_ports_and_disks(&class.constraints, hold, count);
        usage::shift(node, task, class, count);
        if node.exists && matches!(hold, Hold::Used | Hold::Releasing) {
            count.add(&mut sums.used, &class.request);
        }
    }

    pub(crate) fn count_terms(&mut self, id: TaskId, node: NodeId, hold: Hold, count: Count) {
        let Self { tasks, classes, terms, .. } = self;
        terms.shift(&classes[tasks[id].class], node, hold, count.sign());
    }

    pub(crate) fn count_volumes(&mut self, id: TaskId, node: NodeId, hold: Hold, count: Count) {
        let Self { tasks, nodes, classes, volumes, .. } = self;
        if hold != Hold::Nothing {
            for claim in &classes[tasks[id].class].pvcs {
                if let Some(shift) = volumes.shift(*claim, node, hold, count) {
                    nodes[node].attach(&shift);
                }
            }
        }
    }

    pub(crate) fn touch_node(&mut self, node: NodeId) {
        let changes = &mut self.changes;
        changes.clock += 1;
        self.nodes[node].version = Stamp(changes.clock);
        // Also when the node is the last entry: a cursor may be right behind that.
        changes.touched.push(node);
    }

    pub(crate) fn leave_list(&mut self, id: TaskId) {
        let Self { tasks, nodes, .. } = self;
        let Some(node) = tasks[id].node.take() else { return };
        let slot = tasks[id].node_slot;
        let list = &mut nodes[node].tasks;
        list.swap_remove(slot as usize);
        if let Some(moved) = list.get(slot as usize) {
            tasks[*moved].node_slot = slot;
        }
        tasks[id].node_slot = 0;
    }

    /// The inverse of `leave_list`: the task that was moved into the slot goes back to the end.
    pub(crate) fn join_list(&mut self, id: TaskId, to: Option<(NodeId, u32)>) {
        let Self { tasks, nodes, .. } = self;
        let Some((node, slot)) = to else { return };
        let list = &mut nodes[node].tasks;
        list.push(id);
        let last = list.len() as u32 - 1;
        let slot = slot.min(last);
        list.swap(slot as usize, last as usize);
        tasks[list[last as usize]].node_slot = last;
        let task = &mut tasks[id];
        (task.node, task.node_slot) = (Some(node), slot);
    }
}
