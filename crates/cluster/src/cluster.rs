//! The Cluster: the cache of all objects, and the one mover of tasks.
use std::sync::Arc;

use phalanx_resource::{Amounts, Dims};
use rustc_hash::FxHashMap;

use crate::allowance::Allowances;
use crate::changed::ChangeLog;
use crate::devices::Devices;
use crate::event::{Key, Time};
use crate::groups::GroupHolds;
use crate::id::{ClassId, ImageId, JobId, NodeId, QueueId, Slots, TaskId};
use crate::images::Images;
use crate::inqueue::InqueueRequests;
use crate::pdbs::Pdbs;
use crate::seat::Seat;
use crate::terms::Terms;
use crate::tree::Part;
use crate::{
    Chosen, Class, ClassKey, GroupWait, Hold, Job, JobKind, Log, Node, Queue, Stamp, Status, Task, Volumes,
    givers, marks, priorities, tree, usage,
};

/// What the Cluster has to know before its first event.
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

/// Where a task was before a change: enough to put it back exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Before {
    pub(crate) status: Status,
    pub(crate) node: Option<(NodeId, u32)>,
    /// What its claims were promised, where the change took that back.
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

/// All that the scheduler knows.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Names of resources.
    pub dims: Dims,
    /// Nodes.
    pub nodes: Slots<NodeId, Node>,
    /// Pods.
    pub tasks: Slots<TaskId, Task>,
    /// PodGroups and pods without one.
    pub jobs: Slots<JobId, Job>,
    /// Queues.
    pub queues: Slots<QueueId, Queue>,
    /// Classes.
    pub classes: Slots<ClassId, Class>,
    /// PodDisruptionBudgets by name.
    pub pdbs: Pdbs,
    /// ResourceQuotas.
    pub allowances: Allowances,
    /// Pods counted by topology domain.
    pub terms: Terms,
    /// What all nodes can give in sum.
    pub total: Amounts,
    /// What pods hold on those nodes in sum.
    pub used: Amounts,
    /// How many nodes have an object.
    pub(crate) existing: u32,
    pub(crate) images: Images,
    /// Devices, and claims to them.
    pub devices: Devices,
    pub(crate) volumes: Volumes,
    pub(crate) node_ids: FxHashMap<Arc<str>, NodeId>,
    pub(crate) task_ids: FxHashMap<Arc<str>, TaskId>,
    pub(crate) job_ids: FxHashMap<(JobKind, Key), JobId>,
    pub(crate) queue_ids: FxHashMap<Arc<str>, QueueId>,
    pub(crate) class_ids: FxHashMap<ClassKey, ClassId>,
    pub(crate) priorities: priorities::Priorities,
    pub(crate) default_queue: Arc<str>,
    pub(crate) group_wait: GroupWait,
    /// A PodGroup was seen that a PodGroup controller made.
    pub(crate) group_controller: bool,
    /// Another process decides: what stands on the objects is its work, and true.
    pub(crate) standby: bool,
    pub(crate) inqueue: InqueueRequests,
    pub(crate) marked: marks::Marked,
    pub(crate) givers: givers::Givers,
    /// When nodes were measured.
    pub(crate) measured: std::collections::BTreeSet<(Time, NodeId)>,
    /// Tasks that have asked to be let into their queue, and have no node on their objects.
    pub(crate) queue_gates: std::collections::BTreeSet<TaskId>,
    /// Tasks whose eviction was refused, and some of which that no longer is so.
    pub(crate) refused: Vec<TaskId>,
    /// Jobs of which a bind was refused since the last cycle.
    pub(crate) denied: Vec<JobId>,
    /// Tasks that came with a nomination, which no cycle has looked at yet.
    pub(crate) promised: Vec<TaskId>,
    /// Places that are kept for pods that were moved.
    pub(crate) seats: Vec<Seat>,
    /// Tasks that have taken up such a place, likewise.
    pub(crate) heirs: Vec<(TaskId, NodeId)>,
    /// Pods that are protected until some time.
    pub(crate) cooling: std::collections::BTreeSet<(Time, TaskId)>,
    pub(crate) groups: GroupHolds,
    pub(crate) changes: Changes,
}

/// What caches read from where they stopped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// What the backlog has to look at.
    pub(crate) log: ChangeLog,
    /// Nodes whose room or attributes changed.
    pub(crate) touched: Log<NodeId>,
    /// Queues of which a task was moved.
    pub(crate) moved: Log<QueueId>,
    /// Classes of which a task has waited for the first time.
    pub(crate) sought: Log<ClassId>,
    /// Source of stamps.
    pub(crate) clock: u64,
    /// The clock when a node's object came, changed or went last.
    pub(crate) nodes: u64,
    /// What is wrong with queues may be another thing since the last cycle.
    pub(crate) queues: bool,
    /// Grows when anything happens by which a job may start that could not.
    pub(crate) news: u64,
}

macro_rules! equal {
    ($one:ident, $other:ident: $($field:ident)*) => {
        $($one.$field == $other.$field)&&*
    };
}

/// Clusters are equal when they hold the same. Which changes were taken already, and which sums are refreshed by now, does
/// not count.
impl PartialEq for Cluster {
    fn eq(&self, other: &Self) -> bool {
        equal!(self, other:
            dims nodes tasks jobs queues classes pdbs allowances
            terms total used existing images devices volumes node_ids
            task_ids job_ids queue_ids class_ids priorities default_queue group_wait group_controller
            standby marked givers measured queue_gates refused denied promised
            seats heirs cooling groups
        )
    }
}

impl Cluster {
    /// An empty cluster.
    pub fn new(options: ClusterOptions) -> Self {
        Self {
            dims: Dims::new(),
            nodes: Slots::default(),
            tasks: Slots::default(),
            jobs: Slots::default(),
            queues: Slots::default(),
            classes: Slots::default(),
            pdbs: Pdbs::default(),
            allowances: Allowances::new(),
            terms: Terms::default(),
            total: Amounts::new(),
            used: Amounts::new(),
            existing: 0,
            images: Images::default(),
            devices: Devices::default(),
            volumes: Volumes::default(),
            node_ids: FxHashMap::default(),
            task_ids: FxHashMap::default(),
            job_ids: FxHashMap::default(),
            queue_ids: FxHashMap::default(),
            class_ids: FxHashMap::default(),
            priorities: priorities::Priorities::default(),
            default_queue: options.default_queue,
            group_wait: options.group_wait,
            group_controller: false,
            standby: false,
            inqueue: InqueueRequests::default(),
            marked: marks::Marked::default(),
            givers: givers::Givers::default(),
            measured: std::collections::BTreeSet::new(),
            queue_gates: std::collections::BTreeSet::new(),
            refused: Vec::new(),
            denied: Vec::new(),
            promised: Vec::new(),
            seats: Vec::new(),
            heirs: Vec::new(),
            cooling: std::collections::BTreeSet::new(),
            groups: GroupHolds::default(),
            changes: Changes::default(),
        }
    }

    /// Says whether another process decides for the time being: then statuses are taken from the objects, so that
    /// this one knows what stands there when its turn comes.
    pub fn stand_by(&mut self, standby: bool) {
        if std::mem::replace(&mut self.standby, standby) != standby {
            self.all_jobs_changed();
            self.seats().collect::<Vec<_>>().into_iter().for_each(|seat| self.end_seat(seat));
            let nominated = self.tasks.iter().filter(|(_, task)| task.nominated.is_some());
            self.promised = nominated.map(|(id, _)| id).collect();
        }
    }

    /// Pods that wait and whose objects say where they are to go, as another process has decided; and those that take the
    /// place of one that was moved.
    pub fn take_promised(&mut self) -> Vec<(TaskId, NodeId)> {
        let mut promised = std::mem::take(&mut self.promised);
        promised.sort_unstable();
        promised.dedup();
        let heirs = self.take_heirs();
        let promised = promised.into_iter().filter_map(|id| Some((id, self.promised_node(id)?)));
        heirs.into_iter().chain(promised).collect()
    }

    pub(crate) fn promised_node(&self, id: TaskId) -> Option<NodeId> {
        let task = self.tasks.get(id)?;
        let waits = task.status == Status::Pending && !task.gated && task.job.is_some();
        self.node_named(task.nominated.as_deref().filter(|_| waits)?)
    }

    /// PersistentVolumes and the claims to them.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Gives claims these volumes first, in this order, where they will do.
    pub fn prefer_volumes(&mut self, volumes: Vec<Arc<str>>) {
        self.volumes.prefer(volumes);
    }

    /// The node of a name.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.node_ids.get(name).copied()
    }

    /// The task of a pod's UID.
    pub fn task_of(&self, uid: &str) -> Option<TaskId> {
        self.task_ids.get(uid).copied()
    }

    /// The job of a PodGroup, or of a pod without one.
    pub fn job_named(&self, kind: JobKind, key: &Key) -> Option<JobId> {
        self.job_ids.get(&(kind, key.clone())).copied()
    }

    /// The queue of a name.
    pub fn queue_named(&self, name: &str) -> Option<QueueId> {
        self.queue_ids.get(name).copied()
    }

    /// The queue that a task counts in.
    pub fn queue_of(&self, task: TaskId) -> Option<QueueId> {
        let task = &self.tasks[task];
        task.job.map(|job| self.jobs[job].queue).or(task.seat_in)
    }

    /// The class of a task.
    #[inline]
    pub fn class_of(&self, task: TaskId) -> &Class {
        &self.classes[self.tasks[task].class]
    }

    /// On how many nodes an image is, and how many nodes there are.
    pub fn image_spread(&self, image: ImageId) -> (u32, u32) {
        (self.images.nodes(image), self.existing)
    }

    /// What a task requests.
    #[inline]
    pub fn request_of(&self, task: TaskId) -> &Amounts {
        &self.class_of(task).request
    }

    /// Moves a task to a status and a node, and keeps every sum. Returns what `restore` needs.
    pub fn place(&mut self, task: TaskId, status: Status, node: Option<NodeId>) -> Before {
        let slot = node.map(|node| (node, self.nodes[node].tasks.len() as u32));
        self.move_task(task, status, slot, None)
    }

    /// Puts a task back to where it was; exact when changes are undone in reverse order.
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
        if !(stays && before.status.hold() == status.hold()) {
            self.leave_room(id);
        }
        if !stays || status.hold() == Hold::Nothing {
            before.chosen = self.release_volumes(id);
        }
        if !stays {
            self.leave_list(id);
        }
        self.count(id, Some(before.status), Some(status));
        self.shift_claims(id, Some(before.status), Some(status));
        self.tasks[id].status = status;
        if !stays {
            self.join_list(id, node);
        }
        if !(stays && before.status.hold() == status.hold()) {
            self.take_room(id);
        }
        if !stays || before.status.hold() == Hold::Nothing {
            self.promise_volumes(id, chosen);
        }
        self.count_in_group(id);
        before
    }

    /// Keeps the counts and sums of a task's job and queue, and of the queues above.
    pub(crate) fn count(&mut self, id: TaskId, from: Option<Status>, to: Option<Status>) {
        let Self { tasks, jobs, queues, classes, allowances, inqueue, marked, givers, changes, .. } = self;
        let task = &tasks[id];
        let request = &classes[task.class].request;
        let Some(of) = task.job else {
            if let Some(queue) = task.seat_in {
                changes.moved.push(queue);
                tree::shift(queues, queue, request, from.and_then(Part::of), to.and_then(Part::of));
            }
            return;
        };
        let job = &mut jobs[of];
        changes.moved.push(job.queue);
        if job.has_share(!allowances.is_empty()) {
            inqueue.mark(of);
        }
        changes.log.note(of);
        job.count(task.role, from, to);
        marked.pending.set(of, job.is_pending());
        givers.update(of, job);
        let (from, to) = (from.and_then(Part::of), to.and_then(Part::of));
        if from == to {
            return;
        }
        if let Some(part) = from {
            job.part(part).sub(request);
        }
        if let Some(part) = to {
            job.part(part).add(request);
        }
        tree::shift(queues, job.queue, request, from, to);
    }

    pub(crate) fn leave_room(&mut self, id: TaskId) {
        let Self { tasks, nodes, classes, used, terms, .. } = self;
        let task = &tasks[id];
        let (Some(node), hold) = (task.node, task.status.hold()) else { return };
        let class = &classes[task.class];
        terms.shift(class, node, hold, -1);
        let node = &mut nodes[node];
        node.free_room(&class.request, class.nonzero, hold);
        usage::shift(node, task, class, -1);
        if hold != Hold::Nothing {
            node.free_things(&class.constraints, hold);
        }
        if node.exists && matches!(hold, Hold::Used | Hold::Releasing) {
            used.sub(&class.request);
        }
        self.hold_claims(id, false);
        self.use_volumes(id, false);
        self.touch(id);
    }

    pub(crate) fn take_room(&mut self, id: TaskId) {
        let Self { tasks, nodes, classes, used, terms, .. } = self;
        let task = &tasks[id];
        let (Some(node), hold) = (task.node, task.status.hold()) else { return };
        let class = &classes[task.class];
        terms.shift(class, node, hold, 1);
        let node = &mut nodes[node];
        node.take_room(&class.request, class.nonzero, hold);
        usage::shift(node, task, class, 1);
        if hold != Hold::Nothing {
            node.take_things(&class.constraints, hold);
        }
        if node.exists && matches!(hold, Hold::Used | Hold::Releasing) {
            used.add(&class.request);
        }
        self.hold_claims(id, true);
        self.use_volumes(id, true);
        self.touch(id);
    }

    pub(crate) fn use_volumes(&mut self, id: TaskId, add: bool) {
        let Self { tasks, nodes, classes, volumes, .. } = self;
        let task = &tasks[id];
        let (Some(node), hold) = (task.node, task.status.hold()) else { return };
        if hold != Hold::Nothing {
            for claim in &classes[task.class].pvcs {
                if let Some(shift) = volumes.shift(*claim, node, hold, add) {
                    nodes[node].attach(&shift);
                }
            }
        }
    }

    pub(crate) fn touch(&mut self, task: TaskId) {
        if let Some(node) = self.tasks[task].node {
            self.touch_node(node);
        }
    }

    pub(crate) fn touch_node(&mut self, node: NodeId) {
        let changes = &mut self.changes;
        changes.clock += 1;
        self.nodes[node].version = Stamp(changes.clock);
        // Also when it is the last entry: a reader may have stopped right behind that.
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

    /// The inverse of `leave_list`: whoever was moved into the slot goes back to the end.
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

    /// The nodes touched since a cursor, and the new cursor; `None` when the log was cut in between.
    pub fn touched_since(&self, cursor: u64) -> Option<&[NodeId]> {
        self.changes.touched.since(cursor)
    }

    /// The queues of which tasks were moved since a cursor; `None` when the log was cut in between.
    pub fn moved_since(&self, cursor: u64) -> Option<&[QueueId]> {
        self.changes.moved.since(cursor)
    }

    /// The end of that log.
    pub fn moved_end(&self) -> u64 {
        self.changes.moved.end()
    }

    /// Something happened by which a job may start that could not.
    pub fn note_news(&mut self) {
        self.changes.news += 1;
    }

    /// Changes when that happens.
    pub fn news(&self) -> u64 {
        self.changes.news
    }

    /// Changes when a node's object comes, changes or goes.
    pub fn nodes_stamp(&self) -> u64 {
        self.changes.nodes
    }

    /// The end of the log.
    pub fn touched_end(&self) -> u64 {
        self.changes.touched.end()
    }

    /// Takes note of the class of a task that waits.
    pub(crate) fn seek(&mut self, task: TaskId) {
        let Self { tasks, classes, changes, .. } = self;
        let Task { class, status, .. } = tasks[task];
        if status == Status::Pending && classes[class].sought.0 == 0 {
            changes.clock += 1;
            classes[class].sought = Stamp(changes.clock);
            changes.sought.push(class);
        }
    }

    /// The classes of which a task has waited for the first time since a cursor, as far as they still exist. When that is not
    /// known any more, all of which any task has waited.
    pub fn sought_since(&self, cursor: u64) -> Vec<ClassId> {
        match self.changes.sought.since(cursor) {
            Some(list) => list.iter().copied().filter(|id| self.is_sought(*id)).collect(),
            None => self.classes.iter().map(|(id, _)| id).filter(|id| self.is_sought(*id)).collect(),
        }
    }

    pub(crate) fn is_sought(&self, class: ClassId) -> bool {
        self.classes.get(class).is_some_and(|class| class.sought.0 > 0)
    }

    /// The end of the log of such classes.
    pub fn sought_end(&self) -> u64 {
        self.changes.sought.end()
    }
}
