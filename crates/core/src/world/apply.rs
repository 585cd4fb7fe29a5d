//! Folds events into the World.
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings, InitContainer, PodResources};

use super::allowance::is_of_nodes;
use super::class::{Class, ClassKey};
use super::usage::MEASURED;
use super::{Job, JobKind, Node, Queue, ROOT, Refused, Stamp, Status, Task, World, quota};
use crate::event::{
    Event, GroupLimits, Key, NodeInfo, Phase, PodGroupInfo, PodInfo, PodPhase, QueueInfo, Resources,
};
use crate::id::{ClassId, JobId, NodeId, QueueId, TaskId};

impl World {
    /// Folds one event in. True when a cycle could now decide differently.
    pub fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Node(info) => self.apply_node(info),
            Event::NodeGone(name) => self.remove_node(&name),
            Event::Pod(info) => self.apply_pod(&info),
            Event::PodGone(uid) => self.task_of(&uid).is_some_and(|task| self.remove_task(task)),
            Event::PodGroup(info) => self.apply_group(*info),
            Event::PodGroupGone(key) => self.remove_group(&key),
            Event::Queue(info) => self.apply_queue(*info),
            Event::QueueGone(name) => self.remove_queue(&name),
            Event::PriorityClass { name, value, global_default } => {
                self.priorities.insert(name, (value, global_default));
                self.resolve_priorities()
            }
            Event::PriorityClassGone(name) => {
                self.priorities.remove(&name);
                self.resolve_priorities()
            }
            Event::Quota(info) => self.apply_quota(*info),
            Event::QuotaGone(key) => self.allowances.remove(&key).is_some(),
            Event::NodeUsage(info) => self.apply_usage(&info),
            Event::Pdb(info) => self.apply_pdb(*info),
            Event::PdbGone(key) => self.pdbs.remove(&key).is_some(),
            Event::EvictFailed(uid, _) => self.stays(&uid),
            Event::Bound(uid) => self.settle(&uid, Status::Bound),
            Event::BindFailed(uid, failure) => {
                // A pod that is gone or another's now is not ours to try again; its own event tells the rest.
                self.settle(&uid, Status::Pending) && !failure.gone
            }
        }
    }

    fn settle(&mut self, uid: &str, status: Status) -> bool {
        let Some(task) = self.task_of(uid).filter(|task| self.tasks[*task].status == Status::Binding) else {
            return false;
        };
        let node = if status == Status::Pending { None } else { self.tasks[task].node };
        self.place(task, status, node);
        true
    }

    /// A pod whose eviction was refused is what it was.
    fn stays(&mut self, uid: &str) -> bool {
        let Some(id) = self.task_of(uid) else { return false };
        let Some(status) = self.tasks[id].evicting.take() else { return false };
        self.tasks[id].refused = Refused::New;
        if self.tasks[id].status == Status::Releasing {
            self.place(id, status, self.tasks[id].node);
        }
        true
    }

    // ---------------------------------------------------------------- nodes

    fn apply_node(&mut self, info: NodeInfo) -> bool {
        let id = self.ensure_node(&info.name);
        let allocatable = self.amounts(&info.allocatable);
        self.count_node(id, false);
        let node = &mut self.nodes[id];
        let same_statics = node.exists
            && node.labels == info.labels
            && node.taints == info.taints
            && node.unschedulable == info.unschedulable
            && node.ready == info.ready;
        let changed = !same_statics || node.allocatable != allocatable;
        node.idle.sub(&node.allocatable);
        node.idle.add(&allocatable);
        node.exists = true;
        node.labels = info.labels;
        node.taints = info.taints;
        node.unschedulable = info.unschedulable;
        node.ready = info.ready;
        node.allocatable = allocatable;
        self.count_node(id, true);
        if !same_statics {
            self.touch_statics(id);
        }
        if changed {
            self.touch_node(id);
        }
        changed
    }

    /// Adds an existing node to, or takes it from, the cluster's sums.
    fn count_node(&mut self, id: NodeId, add: bool) {
        let node = &self.nodes[id];
        if !node.exists {
            return;
        }
        let mut used = node.allocatable.clone();
        used.sub(&node.idle);
        if add {
            self.total.add(&node.allocatable);
            self.used.add(&used);
        } else {
            self.total.sub(&node.allocatable);
            self.used.sub(&used);
        }
    }

    fn ensure_node(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(id) = self.node_ids.get(name) {
            return *id;
        }
        let id = self.nodes.insert(Node { name: name.clone(), ..Node::default() });
        self.node_ids.insert(name.clone(), id);
        self.touch_statics(id);
        self.touch_node(id);
        id
    }

    fn touch_statics(&mut self, id: NodeId) {
        self.changes.clock += 1;
        self.nodes[id].static_version = Stamp(self.changes.clock);
    }

    fn remove_node(&mut self, name: &str) -> bool {
        let Some(id) = self.node_named(name).filter(|id| self.nodes[*id].exists) else { return false };
        self.count_node(id, false);
        let node = &mut self.nodes[id];
        node.exists = false;
        node.usage = None;
        node.idle.sub(&node.allocatable);
        node.allocatable = Amounts::new();
        let nominated = |task: &TaskId| self.tasks[*task].status == Status::Pipelined;
        let lost: Vec<TaskId> = self.nodes[id].tasks.iter().copied().filter(nominated).collect();
        for task in lost {
            self.place(task, Status::Pending, None);
        }
        self.touch_statics(id);
        self.touch_node(id);
        self.drop_unused_node(id);
        true
    }

    /// Forgets a node that has no object and no pod.
    fn drop_unused_node(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if !node.exists && node.tasks.is_empty() {
            self.node_ids.remove(&node.name.clone());
            self.nodes.remove(id);
        }
    }

    // ---------------------------------------------------------------- pods

    fn apply_pod(&mut self, info: &PodInfo) -> bool {
        let known = self.task_of(&info.pod.uid);
        let finished = matches!(info.phase, PodPhase::Succeeded | PodPhase::Failed);
        let counts = info.ours || info.group.is_some();
        if (!info.ours && info.node.is_none()) || (finished && !counts) {
            return known.is_some_and(|task| self.remove_task(task));
        }
        let class = self.class_for(info);
        match known {
            Some(task) if self.belongs(task, info) => self.update_task(task, info, class),
            Some(task) => {
                // Removing the last task of the class would take the class too.
                self.classes[class].refs += 1;
                self.remove_task(task);
                self.classes[class].refs -= 1;
                self.insert_task(info, class)
            }
            None => self.insert_task(info, class),
        }
    }

    /// Whether a task is still of the job and role its pod names. A task that is being bound stays where it is.
    fn belongs(&self, task: TaskId, info: &PodInfo) -> bool {
        let task = &self.tasks[task];
        let Some(job) = task.job.map(|job| &self.jobs[job]) else {
            return info.group.is_none() && !info.ours;
        };
        let queue = || info.queue.as_ref().unwrap_or(&self.default_queue);
        let same_job = match (&info.group, job.kind) {
            (Some(group), JobKind::Group) => {
                job.key.name == *group && job.roles[usize::from(task.role)].name == info.role
            }
            (None, JobKind::Solo) => self.queues[job.queue].name == *queue(),
            (None, JobKind::Group) | (Some(_), JobKind::Solo) => false,
        };
        same_job || task.status == Status::Binding
    }

    fn insert_task(&mut self, info: &PodInfo, class: ClassId) -> bool {
        let job = self.job_for(info);
        let role = job.map_or(0, |job| self.jobs[job].role(&info.role));
        let job_slot = job.map_or(0, |job| self.jobs[job].tasks.len() as u32);
        let burst = self.burst(info, class);
        let task = self.tasks.insert(Task {
            pod: Arc::new(info.pod.clone()),
            job,
            class,
            status: Status::Pending,
            node: None,
            node_slot: 0,
            job_slot,
            role,
            index: info.index,
            priority: 0,
            priority_class: info.priority_class.clone(),
            own_priority: info.priority.is_some(),
            created: info.created,
            gated: info.gated,
            preemptable: info.preemptable,
            never_preempts: info.never_preempts,
            evicting: None,
            refused: Refused::No,
            labels: info.labels.clone(),
            scheduled: info.scheduled,
            nominated: info.nominated.clone(),
            message: info.unscheduled_message.clone(),
            burst,
            measured: false,
            annotations: info.annotations.clone(),
        });
        self.classes[class].refs += 1;
        self.task_ids.insert(info.pod.uid.clone(), task);
        if let Some(job) = job {
            self.jobs[job].tasks.push(task);
        }
        self.tasks[task].priority = self.priority(info.priority, info.priority_class.as_deref());
        self.count(task, None, Some(Status::Pending));
        let (status, node) = self.seen(task, info);
        self.place(task, status, node);
        self.refresh_solo(task, info);
        true
    }

    fn update_task(&mut self, id: TaskId, info: &PodInfo, class: ClassId) -> bool {
        let changed_class = self.tasks[id].class != class;
        if changed_class {
            self.change_class(id, class);
        }
        let burst = self.burst(info, class);
        if self.tasks[id].burst != burst {
            self.leave_room(id);
            self.tasks[id].burst = burst;
            self.take_room(id);
        }
        let (status, node) = self.seen(id, info);
        let before = self.place(id, status, node);
        self.drop_left_node(before);
        let priority = self.priority(info.priority, info.priority_class.as_deref());
        let task = &mut self.tasks[id];
        let changed = changed_class
            || before.status != status
            || task.gated != info.gated
            || task.priority != priority
            || task.preemptable != info.preemptable
            || task.annotations != info.annotations;
        task.own_priority = info.priority.is_some();
        task.priority_class.clone_from(&info.priority_class);
        task.priority = priority;
        task.gated = info.gated;
        task.preemptable = info.preemptable;
        task.labels.clone_from(&info.labels);
        task.scheduled = info.scheduled;
        task.evicting = match (task.evicting, info.phase) {
            _ if info.deleting => None,
            (Some(_), PodPhase::Running) => Some(Status::Running),
            (before, _) => before,
        };
        task.annotations.clone_from(&info.annotations);
        if self.standby {
            task.nominated.clone_from(&info.nominated);
            task.message.clone_from(&info.unscheduled_message);
        }
        // Until then it stands on the object, also while a bind is under way, which may fail.
        if info.node.is_some() {
            task.nominated = None;
        }
        self.refresh_solo(id, info);
        changed
    }

    fn change_class(&mut self, id: TaskId, class: ClassId) {
        let status = self.tasks[id].status;
        self.leave_room(id);
        self.count(id, Some(status), None);
        let old = std::mem::replace(&mut self.tasks[id].class, class);
        self.classes[class].refs += 1;
        self.count(id, None, Some(status));
        self.take_room(id);
        self.release_class(old);
    }

    /// The status and node a pod's object calls for. What was decided here and is not seen outside yet stays.
    fn seen(&mut self, id: TaskId, info: &PodInfo) -> (Status, Option<NodeId>) {
        let before = (self.tasks[id].status, self.tasks[id].node);
        let status = match info.phase {
            PodPhase::Succeeded => return (Status::Succeeded, None),
            PodPhase::Failed => return (Status::Failed, None),
            _ if info.deleting => Status::Releasing,
            PodPhase::Running => Status::Running,
            PodPhase::Unknown => Status::Unknown,
            PodPhase::Pending if info.node.is_some() => Status::Bound,
            // A pod never loses its node: this was sent before the bind, whatever came in between.
            PodPhase::Pending if matches!(before.0, Status::Binding | Status::Bound | Status::Pipelined) => {
                return before;
            }
            PodPhase::Pending => Status::Pending,
        };
        let node = info.node.as_ref().map(|name| self.ensure_node(name));
        let task = &self.tasks[id];
        if task.evicting.is_some() && node.is_some() {
            return (Status::Releasing, node);
        }
        // A pod being deleted while its bind is under way holds the room until one of both is known.
        let assumed = if task.status == Status::Binding { task.node } else { None };
        (status, node.or(assumed.filter(|_| status == Status::Releasing)))
    }

    fn remove_task(&mut self, id: TaskId) -> bool {
        let before = self.place(id, Status::Pending, None);
        self.drop_left_node(before);
        self.count(id, Some(Status::Pending), None);
        let Some(task) = self.tasks.remove(id) else { return false };
        self.task_ids.remove(&task.pod.uid);
        self.release_class(task.class);
        if let Some(job) = task.job {
            let list = &mut self.jobs[job].tasks;
            list.swap_remove(task.job_slot as usize);
            if let Some(moved) = list.get(task.job_slot as usize) {
                self.tasks[*moved].job_slot = task.job_slot;
            }
            self.drop_unused_job(job);
        }
        true
    }

    fn drop_left_node(&mut self, before: super::Before) {
        if let Some((node, _)) = before.node
            && self.nodes.get(node).is_some()
        {
            self.drop_unused_node(node);
        }
    }

    fn class_for(&mut self, info: &PodInfo) -> ClassId {
        let mut part = |list: &Resources| self.amounts(list);
        let request = PodResources {
            containers: info.requests.containers.iter().map(&mut part).collect(),
            init: info
                .requests
                .init
                .iter()
                .map(|(list, sidecar)| InitContainer { request: part(list), sidecar: *sidecar })
                .collect(),
            overhead: part(&info.requests.overhead),
            pod_level: info.requests.pod_level.as_ref().map(|list| self.pod_level(list)),
        }
        .total();
        let key: ClassKey = (request, info.constraints.clone());
        if let Some(id) = self.class_ids.get(&key) {
            return *id;
        }
        self.changes.clock += 1;
        let id = self.classes.insert(Class::new(key.clone(), self.changes.clock));
        self.class_ids.insert(key, id);
        id
    }

    fn release_class(&mut self, id: ClassId) {
        let class = &mut self.classes[id];
        class.refs -= 1;
        if class.refs == 0
            && let Some(class) = self.classes.remove(id)
        {
            self.class_ids.remove(&(class.request, class.constraints));
        }
    }

    // ---------------------------------------------------------------- jobs

    fn job_for(&mut self, info: &PodInfo) -> Option<JobId> {
        let (kind, name, queue) = match &info.group {
            Some(group) => (JobKind::Group, group.clone(), self.default_queue.clone()),
            None if !info.ours => return None,
            None => {
                let queue = info.queue.clone().unwrap_or_else(|| self.default_queue.clone());
                (JobKind::Solo, info.pod.name.clone(), queue)
            }
        };
        let key = Key { namespace: info.pod.namespace.clone(), name };
        let id = self.ensure_job(kind, key, &queue);
        if kind == JobKind::Solo {
            let job = &mut self.jobs[id];
            job.created = info.created;
            job.uid = info.pod.uid.clone();
            job.preemptable = info.preemptable;
        }
        Some(id)
    }

    /// A solo job's priority follows its pod's. It has no minResources, so it is always admitted: its own request
    /// must fit a node and its queue in any case, and a Deployment's hundred pods are not a hundred demands at once
    /// (in Volcano their one PodGroup asks for a single pod's worth).
    fn refresh_solo(&mut self, task: TaskId, info: &PodInfo) {
        let Some(job) = self.tasks[task].job else { return };
        if self.jobs[job].kind == JobKind::Group {
            return;
        }
        let priority = self.tasks[task].priority;
        let job = &mut self.jobs[job];
        job.priority = priority;
        job.priority_class.clone_from(&info.priority_class);
        job.annotations.clone_from(&info.annotations);
    }

    fn ensure_job(&mut self, kind: JobKind, key: Key, queue: &Arc<str>) -> JobId {
        if let Some(id) = self.job_ids.get(&(kind, key.clone())) {
            return *id;
        }
        let queue = self.ensure_queue(queue);
        self.queues[queue].jobs += 1;
        let id = self.jobs.insert(Job::new(key.clone(), kind, queue));
        self.job_ids.insert((kind, key), id);
        id
    }

    fn apply_group(&mut self, info: PodGroupInfo) -> bool {
        let name = if info.queue.is_empty() { &self.default_queue } else { &info.queue }.clone();
        let id = self.ensure_job(JobKind::Group, info.key, &name);
        self.move_job(id, &name);
        let min_resources = info.min_resources.as_ref().map(|list| self.amounts_of_nodes(list));
        let quota_request = info.min_resources.as_ref().map(|list| self.quota_amounts(list));
        let priority = self.priority(None, info.priority_class.as_deref());
        let first = !self.jobs[id].exists;
        let job = &mut self.jobs[id];
        let spec = |job: &Job| {
            let roles: Vec<_> = job.roles.iter().map(|role| (role.name.clone(), role.min)).collect();
            (
                job.exists,
                job.queue,
                job.min_member,
                roles,
                (job.min_resources.clone(), job.quota_request.clone()),
                job.priority,
                job.invalid.clone(),
                job.annotations.clone(),
            )
        };
        let old = spec(job);
        job.exists = true;
        job.uid = info.uid;
        job.created = info.created;
        job.min_member = info.min_member;
        job.min_resources = min_resources;
        job.quota_request = quota_request;
        job.priority = priority;
        job.priority_class = info.priority_class;
        job.preemptable = info.preemptable;
        job.invalid = info.invalid;
        job.annotations = info.annotations;
        for role in &mut job.roles {
            role.min = 0;
        }
        for (name, min) in info.min_task_member {
            let role = job.role(&name);
            job.roles[usize::from(role)].min = min;
        }
        if first || self.standby {
            job.phase = info.status.phase;
            job.written = info.status;
            job.replaced = None;
        } else if job.replaced.as_ref() != Some(&info.status) {
            // Neither an echo of what we wrote nor of what stood there before: somebody else wrote it.
            job.written = info.status;
            job.replaced = None;
        }
        old != spec(&self.jobs[id])
    }

    fn move_job(&mut self, id: JobId, queue: &Arc<str>) {
        let to = self.ensure_queue(queue);
        let from = std::mem::replace(&mut self.jobs[id].queue, to);
        if from == to {
            return;
        }
        let sums = self.jobs[id].sums();
        self.queues[from].jobs -= 1;
        self.carry_job(from, &sums, Amounts::sub);
        self.queues[to].jobs += 1;
        self.carry_job(to, &sums, Amounts::add);
        self.drop_unused_queue(from);
    }

    fn remove_group(&mut self, key: &Key) -> bool {
        let Some(id) = self.job_named(JobKind::Group, key) else { return false };
        let job = &mut self.jobs[id];
        job.exists = false;
        job.phase = Phase::Pending;
        job.written = crate::event::GroupStatus::default();
        job.replaced = None;
        self.drop_unused_job(id);
        true
    }

    fn drop_unused_job(&mut self, id: JobId) {
        let job = &self.jobs[id];
        if !job.tasks.is_empty() || (job.exists && job.kind == JobKind::Group) {
            return;
        }
        if let Some(job) = self.jobs.remove(id) {
            self.job_ids.remove(&(job.kind, job.key));
            self.queues[job.queue].jobs -= 1;
            self.drop_unused_queue(job.queue);
        }
    }

    // ---------------------------------------------------------------- queues

    pub(super) fn ensure_queue(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.queue_ids.get(name) {
            return *id;
        }
        let id = self.queues.insert(Queue { name: name.clone(), weight: 1, ..Queue::default() });
        self.queue_ids.insert(name.clone(), id);
        id
    }

    fn apply_queue(&mut self, info: QueueInfo) -> bool {
        let id = self.ensure_queue(&info.name);
        let (capability, deserved) = (self.ceilings(&info.capability), self.ceilings(&info.deserved));
        let guarantee = self.amounts(&info.guarantee);
        let written = self.written_amounts(&info.allocated);
        let group_limits = match info.group_limits {
            GroupLimits::Each(list) => {
                let limits = list.into_iter().map(|(group, list)| (group, self.ceilings(&list)));
                (limits.collect(), None)
            }
            GroupLimits::Unreadable(why) => (Vec::new(), Some(why)),
        };
        let parent = if info.parent.is_empty() { ROOT.into() } else { info.parent };
        let before = self.queues[id].clone();
        self.set_parent(id, Some(&parent).filter(|_| *info.name != *ROOT));
        let queue = &mut self.queues[id];
        if !queue.exists || self.standby {
            queue.written = written;
            queue.told = None;
        }
        queue.exists = true;
        queue.uid = info.uid;
        queue.created = info.created;
        queue.weight = info.weight.max(1);
        queue.capability = capability;
        queue.deserved = deserved;
        queue.guarantee = guarantee;
        queue.reclaimable = info.reclaimable;
        queue.parent = parent;
        queue.priority = info.priority;
        queue.state = info.state;
        queue.dequeue = info.dequeue;
        queue.annotations = info.annotations;
        queue.node_groups = info.node_groups;
        (queue.group_limits, queue.group_limits_fault) = group_limits;
        let invalid = info.invalid.or_else(|| quota::contradiction(&self.queues[id], &self.dims));
        let queue = &mut self.queues[id];
        queue.invalid = invalid;
        *queue != before
    }

    fn written_amounts(&mut self, list: &Resources) -> Vec<(Arc<str>, String)> {
        let amounts = self.amounts(list);
        self.render(&amounts)
    }

    /// Resource names and canonical quantities, sorted by name.
    pub fn render(&self, amounts: &Amounts) -> Vec<(Arc<str>, String)> {
        let text = |(dim, amount)| (Arc::from(self.dims.name(dim)), self.dims.format(dim, amount));
        let mut list: Vec<_> = amounts.iter().map(text).collect();
        list.sort();
        list
    }

    fn remove_queue(&mut self, name: &str) -> bool {
        let Some(id) = self.queue_named(name).filter(|id| self.queues[*id].exists) else { return false };
        self.queues[id].exists = false;
        self.set_parent(id, None);
        self.drop_unused_queue(id);
        true
    }

    pub(super) fn drop_unused_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(id) else { return };
        if !queue.exists && queue.jobs == 0 && queue.children == 0 {
            self.queue_ids.remove(&queue.name.clone());
            self.queues.remove(id);
        }
    }

    // ---------------------------------------------------------------- values

    fn amounts(&mut self, list: &Resources) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, quantity) in list {
            let dim = self.dims.intern(name);
            amounts.set(dim, self.dims.amount(dim, *quantity));
        }
        amounts
    }

    /// The same of what nodes can have.
    fn amounts_of_nodes(&mut self, list: &Resources) -> Amounts {
        let of_nodes = list.iter().filter(|(name, _)| is_of_nodes(name));
        self.amounts(&of_nodes.cloned().collect())
    }

    /// By how much the limits of a pod's containers are above its requests, of what is measured.
    fn burst(&mut self, info: &PodInfo, class: ClassId) -> [i64; 2] {
        let mut limits = Amounts::new();
        for list in &info.requests.limits {
            limits.add(&self.amounts(list));
        }
        let request = &self.classes[class].request;
        MEASURED.map(|dim| (limits.get(dim) - request.get(dim)).max(0))
    }

    /// Pod-level requests count for the resources Kubernetes allows there.
    fn pod_level(&mut self, list: &Resources) -> Amounts {
        let amounts = self.amounts(list);
        amounts.iter().filter(|(dim, _)| self.dims.is_pod_level(*dim)).collect()
    }

    fn ceilings(&mut self, list: &Resources) -> Ceilings {
        let mut ceilings = Ceilings::new();
        for (name, quantity) in list {
            let dim = self.dims.intern(name);
            ceilings.set(dim, self.dims.ceiling(dim, *quantity));
        }
        ceilings
    }

    /// The number a pod carries, or its class's value, or the global default's, or 0.
    fn priority(&self, own: Option<i32>, class: Option<&str>) -> i32 {
        let global = || self.priorities.values().filter(|(_, global)| *global).map(|(value, _)| *value).max();
        own.or_else(|| class.and_then(|name| self.class_priority(name))).or_else(global).unwrap_or(0)
    }

    fn class_priority(&self, name: &str) -> Option<i32> {
        // Kubernetes has these two built in.
        match name {
            "system-node-critical" => Some(2_000_001_000),
            "system-cluster-critical" => Some(2_000_000_000),
            _ => self.priorities.get(name).map(|(value, _)| *value),
        }
    }

    fn resolve_priorities(&mut self) -> bool {
        let mut changed = false;
        for id in self.tasks.ids().collect::<Vec<_>>() {
            let task = &self.tasks[id];
            if !task.own_priority {
                let priority = self.priority(None, task.priority_class.as_deref());
                changed |= std::mem::replace(&mut self.tasks[id].priority, priority) != priority;
            }
        }
        for id in self.jobs.ids().collect::<Vec<_>>() {
            let job = &self.jobs[id];
            let priority = match (job.kind, job.tasks.first()) {
                (JobKind::Solo, Some(task)) => self.tasks[*task].priority,
                _ => self.priority(None, job.priority_class.as_deref()),
            };
            changed |= std::mem::replace(&mut self.jobs[id].priority, priority) != priority;
        }
        changed
    }
}
