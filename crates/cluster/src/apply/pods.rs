//! Pods: each is a task.
use std::sync::Arc;

use crate::class::Class;
use crate::class::ClassKey;
use crate::count::Count;
use crate::diagnosis::Refusal;
use crate::event::{BindFailure, BindFault, PodInfo, PodPhase, QueueGate};
use crate::id::{ClassId, JobId, NodeId, TaskId};
use crate::priorities::Follower;
use crate::usage::MEASURED;
use crate::{Cluster, JobKind, PodDetails, PodWritten, Refused, Status, Task};

impl Cluster {
    /// Ends the bind of a pod: the API server has it, or refused it.
    pub(super) fn end_bind(&mut self, uid: &str, status: Status) -> bool {
        let Some(task) = self.task_of(uid).filter(|task| self.tasks[*task].status == Status::Binding) else {
            return false;
        };
        let node = if status == Status::Pending { None } else { self.tasks[task].node };
        let before = self.place(task, status, node);
        self.drop_left_node(&before);
        if status == Status::Pending {
            self.forget_given(task);
        } else {
            self.forget_denial(self.tasks[task].job);
        }
        true
    }

    /// Takes in a failed bind. A pod that is gone, or of another scheduler now, is not tried again; its own event says
    /// the rest.
    pub(super) fn bind_failed(&mut self, uid: &str, failure: BindFailure) -> bool {
        let ended = self.end_bind(uid, Status::Pending);
        if failure.fault == BindFault::Denied
            && let Some(task) = self.task_of(uid).filter(|_| ended)
        {
            self.deny(task, failure.message);
        }
        ended && failure.fault != BindFault::Gone
    }

    /// Records why the bind of a task was refused.
    fn deny(&mut self, task: TaskId, message: Arc<str>) {
        let task = &self.tasks[task];
        let Some(job) = task.job else { return };
        let pod = task.pod.name.clone();
        self.jobs[job].denied = Some(Refusal::BindDenied { pod, message });
        self.since_last_cycle.denied.push(job);
    }

    /// Forgets the refused bind of a job that changed or had a pod bound.
    pub(crate) fn forget_denial(&mut self, job: Option<JobId>) {
        if let Some(job) = job {
            self.jobs[job].denied = None;
        }
    }

    /// Takes in a refused eviction: the pod has its status from before.
    pub(super) fn stays(&mut self, uid: &str) -> bool {
        let Some(id) = self.task_of(uid) else { return false };
        let Some(status) = self.tasks[id].evicting else { return false };
        self.set_evicting(id, None);
        self.tasks[id].refused = Refused::New;
        self.indexes.refused.insert(id);
        if self.tasks[id].status == Status::Releasing {
            self.place(id, status, self.tasks[id].node);
        }
        true
    }

    pub(super) fn apply_pod(&mut self, info: &PodInfo) -> bool {
        let known = self.task_of(&info.pod.uid);
        let finished = matches!(info.life.phase, PodPhase::Succeeded | PodPhase::Failed);
        let counts = info.ours || info.group.is_some();
        if (!info.ours && info.life.node.is_none()) || (finished && !counts) {
            return known.is_some_and(|task| self.remove_task(task));
        }
        let class = self.class_for(info);
        match known {
            Some(task) if self.belongs(task, info) => self.update_task(task, info, class),
            Some(task) => {
                let written = self.written_of_moved(task, info);
                // Removing the last task of the class would remove the class.
                self.classes[class].refs += 1;
                self.remove_task(task);
                self.classes[class].refs -= 1;
                self.insert_task(info, class, written)
            }
            None => self.insert_task(info, class, as_read(info)),
        }
    }

    /// What is written on the object of a pod that moves to another job: as decided, since the object may be older.
    fn written_of_moved(&self, task: TaskId, info: &PodInfo) -> PodWritten {
        if self.others.standby {
            return as_read(info);
        }
        PodWritten { queue_gate: QueueGate::None, ..self.tasks[task].written.clone() }
    }

    /// Whether a task is still of the job and role that its pod names. A task that is being bound stays in its job, and
    /// so does one that has a node while the object, which is older than the bind, has none: the next one moves it.
    fn belongs(&self, task: TaskId, info: &PodInfo) -> bool {
        let task = &self.tasks[task];
        let Some(job) = task.job.map(|job| &self.jobs[job]) else {
            return info.group.is_none() && !info.ours;
        };
        let queue = || info.queue.as_ref().unwrap_or(&self.options.default_queue);
        let same_job = match (&info.group, job.kind) {
            (Some(group), JobKind::Group) => {
                job.key.name == *group && job.known_role(&info.role) == Some(task.role)
            }
            (None, JobKind::Solo) => self.queues[job.queue].name == *queue(),
            (None, JobKind::Group) | (Some(_), JobKind::Solo) => false,
        };
        let is_older = info.life.node.is_none()
            && task.node.is_some()
            && matches!(task.status, Status::Bound | Status::Releasing);
        same_job || task.status == Status::Binding || is_older
    }

    fn insert_task(&mut self, info: &PodInfo, class: ClassId, written: PodWritten) -> bool {
        let job = self.job_for(info);
        self.forget_denial(job);
        let role = job.map_or(0, |job| self.jobs[job].role_of_pod(&info.role));
        let job_slot = job.map_or(0, |job| self.jobs[job].tasks.len() as u32);
        let burst = self.burst(info, class);
        let nominated = written.nominated.is_some();
        let task = self.tasks.insert(Task {
            pod: Arc::clone(&info.pod),
            job,
            class,
            status: Status::Pending,
            node: None,
            node_slot: 0,
            job_slot,
            role,
            priority: 0,
            priority_class: info.priority_class.clone(),
            own_priority: info.priority.is_some(),
            gated: info.gated,
            evicting: None,
            refused: Refused::No,
            written,
            details: details(info),
            burst,
            measured: false,
            claims: None,
            placeholder_in: None,
        });
        self.classes[class].refs += 1;
        self.ids.tasks.insert(info.pod.uid.clone(), task);
        if nominated && !self.others.standby {
            self.since_last_cycle.nominated.push(task);
        }
        self.link_claims(task, info.claims.as_ref());
        if let Some(job) = job {
            self.jobs[job].tasks.push(task);
        }
        self.tasks[task].priority = self.priority(info.priority, info.priority_class.as_deref());
        self.follow_class(Follower::Task(task), true);
        self.terms.count_labels(&info.labels, true);
        self.count(task, None, Some(Status::Pending));
        let (status, node) = self.seen(task, info);
        self.place(task, status, node);
        self.seek(task);
        self.job_follows_pod(task, info);
        self.see_gate(task, info.queue_gate);
        self.note_cooling(task, None, self.tasks[task].cools_until());
        true
    }

    fn update_task(&mut self, id: TaskId, info: &PodInfo, class: ClassId) -> bool {
        let cooled = self.tasks[id].cools_until();
        let changed_class = self.tasks[id].class != class;
        if changed_class {
            self.change_class(id, class);
        }
        let burst = self.burst(info, class);
        let changed_burst = self.tasks[id].burst != burst;
        if changed_burst {
            self.count_on_node(id, Count::Out);
            self.tasks[id].burst = burst;
            self.count_on_node(id, Count::In);
        }
        let changed_claims = self.link_claims(id, info.claims.as_ref());
        let moved = self.follow(id, info);
        let priority = self.priority(info.priority, info.priority_class.as_deref());
        self.name_class(id, info);
        if self.tasks[id].details.labels != info.labels {
            self.terms.count_labels(&self.tasks[id].details.labels, false);
            self.terms.count_labels(&info.labels, true);
        }
        let task = &mut self.tasks[id];
        let edited = changed_class
            || (task.details.unready != info.life.unready && !self.pdbs.is_empty())
            || changed_burst
            || changed_claims
            || task.gated != info.gated
            || (task.written.queue_gate == QueueGate::None) != (info.queue_gate == QueueGate::None)
            || task.priority != priority
            || task.details.preemptable != info.preemptable
            || task.details.labels != info.labels
            || task.details.annotations != info.annotations;
        let changed = edited || moved || task.details.scheduled != info.life.scheduled;
        task.priority = priority;
        task.gated = info.gated;
        task.details.preemptable = info.preemptable;
        task.details.labels.clone_from(&info.labels);
        task.details.unready = info.life.unready;
        task.details.scheduled = info.life.scheduled;
        task.details.run_time = info.run_time;
        let evicting = match (task.evicting, info.life.phase) {
            _ if info.life.deleting => None,
            (Some(_), PodPhase::Running) => Some(Status::Running),
            (before, _) => before,
        };
        task.details.annotations.clone_from(&info.annotations);
        if self.others.standby {
            task.written.nominated.clone_from(&info.life.nominated);
            task.written.message.clone_from(&info.life.unscheduled_message);
        }
        // Until then it stands on the object, also while a bind is under way, which may fail.
        if info.life.node.is_some() {
            task.written.nominated = None;
        }
        self.set_evicting(id, evicting);
        self.note_cooling(id, cooled, self.tasks[id].cools_until());
        self.job_follows_pod(id, info);
        self.see_gate(id, info.queue_gate);
        // Most often it is an echo of what was written here.
        if let Some(job) = self.tasks[id].job.filter(|_| changed) {
            self.job_changed(job);
        }
        if edited {
            self.forget_denial(self.tasks[id].job);
        }
        changed
    }

    /// A pod's priority is its own, or its class's.
    fn name_class(&mut self, id: TaskId, info: &PodInfo) {
        let task = &self.tasks[id];
        let own = info.priority.is_some();
        if task.own_priority != own || task.priority_class != info.priority_class {
            self.follow_class(Follower::Task(id), false);
            let task = &mut self.tasks[id];
            task.own_priority = own;
            task.priority_class.clone_from(&info.priority_class);
            self.follow_class(Follower::Task(id), true);
        }
    }

    /// Puts a task where its pod's object says that it is. False if it is there already.
    fn follow(&mut self, id: TaskId, info: &PodInfo) -> bool {
        let (status, node) = self.seen(id, info);
        let task = &self.tasks[id];
        if (task.status, task.node) == (status, node) {
            return false;
        }
        let before = self.place(id, status, node);
        self.drop_left_node(&before);
        true
    }

    pub(crate) fn change_class(&mut self, id: TaskId, class: ClassId) {
        let status = self.tasks[id].status;
        let chosen = self.release_volumes(id);
        self.count_on_node(id, Count::Out);
        self.count(id, Some(status), None);
        let old = std::mem::replace(&mut self.tasks[id].class, class);
        self.classes[class].refs += 1;
        self.count(id, None, Some(status));
        self.count_on_node(id, Count::In);
        self.assume_volumes(id, Some(&chosen));
        self.seek(id);
        self.release_class(old);
    }

    /// The status and node by a pod's object. A decision that the API server does not show yet stays.
    fn seen(&mut self, id: TaskId, info: &PodInfo) -> (Status, Option<NodeId>) {
        let before = (self.tasks[id].status, self.tasks[id].node);
        let status = match info.life.phase {
            PodPhase::Succeeded => return (Status::Succeeded, None),
            PodPhase::Failed => return (Status::Failed, None),
            _ if info.life.deleting => Status::Releasing,
            PodPhase::Running => Status::Running,
            PodPhase::Unknown => Status::Unknown,
            PodPhase::Pending if info.life.node.is_some() => Status::Bound,
            // A pod never loses its node, so the object is older than the bind.
            PodPhase::Pending if matches!(before.0, Status::Binding | Status::Bound | Status::Pipelined) => {
                return before;
            }
            // The same for a pod that was evicted since: its room is free once the pod is gone.
            PodPhase::Pending if matches!(before, (Status::Releasing, Some(_))) => return before,
            PodPhase::Pending => Status::Pending,
        };
        let node = info.life.node.as_ref().map(|name| self.ensure_node(name));
        let task = &self.tasks[id];
        if task.evicting.is_some() && node.is_some() {
            return (Status::Releasing, node);
        }
        // A pod that is deleted during its bind uses resources until either outcome is known.
        let assumed = if task.status == Status::Binding { task.node } else { None };
        (status, node.or(assumed.filter(|_| status == Status::Releasing)))
    }

    pub(crate) fn remove_task(&mut self, id: TaskId) -> bool {
        let before = self.place(id, Status::Pending, None);
        self.drop_left_node(&before);
        self.count(id, Some(Status::Pending), None);
        self.unlink_claims(id);
        self.set_evicting(id, None);
        self.follow_class(Follower::Task(id), false);
        self.terms.count_labels(&self.tasks[id].details.labels, false);
        self.note_cooling(id, self.tasks[id].cools_until(), None);
        self.indexes.queue_gates.remove(&id);
        self.indexes.refused.remove(&id);
        let Some(task) = self.tasks.remove(id) else { return false };
        if task.is_pod() {
            self.ids.tasks.remove(&task.pod.uid);
            self.forget_denial(task.job);
        }
        self.release_class(task.class);
        if let Some(job) = task.job {
            let list = &mut self.jobs[job].tasks;
            list.swap_remove(task.job_slot as usize);
            if let Some(moved) = list.get(task.job_slot as usize) {
                self.tasks[*moved].job_slot = task.job_slot;
            }
            self.follow_priorities_of_pods(job);
            self.drop_unused_job(job);
        }
        true
    }

    fn drop_left_node(&mut self, before: &crate::Before) {
        if let Some((node, _)) = before.node
            && self.nodes.get(node).is_some()
        {
            self.drop_unused_node(node);
        }
    }

    fn class_for(&mut self, info: &PodInfo) -> ClassId {
        let (request, unoffered) = self.request_of_pod(&info.requests);
        self.learn_terms(&info.constraints);
        let profile = self.profile_of(&info.pod.namespace, &info.labels);
        self.class_of_key(ClassKey { request, constraints: info.constraints.clone(), profile, unoffered })
    }

    pub(crate) fn class_of_key(&mut self, key: ClassKey) -> ClassId {
        if let Some(id) = self.ids.classes.get(&key) {
            return *id;
        }
        self.changes.clock += 1;
        let carried = self.terms.open(key.profile, &key.constraints, &self.nodes);
        let pvcs = key.constraints.volumes.iter().map(|named| self.volumes.ask(&named.claim)).collect();
        let images = key.constraints.images.iter().map(|name| self.images.name(name)).collect();
        let id = self.classes.insert(Class::new(key.clone(), carried, images, pvcs, self.changes.clock));
        self.ids.classes.insert(key, id);
        id
    }

    fn release_class(&mut self, id: ClassId) {
        let class = &mut self.classes[id];
        class.refs -= 1;
        if class.refs == 0
            && let Some(class) = self.classes.remove(id)
        {
            self.terms.close(&class);
            class.images.iter().for_each(|image| self.images.forget(*image));
            class.pvcs.iter().for_each(|claim| self.volumes.forget(*claim));
            self.ids.classes.remove(&class.key());
        }
    }

    /// By how much the limits of a pod's containers exceed its requests, in the measured resources.
    fn burst(&self, info: &PodInfo, class: ClassId) -> [i64; 2] {
        let limits = self.limits_of_pod(&info.requests);
        let request = &self.classes[class].request;
        MEASURED.map(|dim| (limits.get(dim) - request.get(dim)).max(0))
    }
}

/// What the object says that the scheduler writes, but for the gate, which is looked at apart.
fn as_read(info: &PodInfo) -> PodWritten {
    PodWritten {
        nominated: info.life.nominated.clone(),
        message: info.life.unscheduled_message.clone(),
        queue_gate: QueueGate::None,
    }
}

fn details(info: &PodInfo) -> PodDetails {
    PodDetails {
        index: info.index,
        created: info.created,
        preemptable: info.preemptable,
        never_preempts: info.never_preempts,
        labels: info.labels.clone(),
        annotations: info.annotations.clone(),
        unready: info.life.unready,
        scheduled: info.life.scheduled,
        run_time: info.run_time,
        controller: info.controller.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::testing::{cluster_of, group, node, pod, task_of};

    #[test]
    fn a_pod_that_is_put_into_a_pod_group_keeps_the_node_that_its_object_does_not_show_yet() {
        let joined = |node: Option<&str>| {
            let mut pod = PodInfo { group: Some("g".into()), ..pod("p", "cpu=1") };
            pod.life.node = node.map(Arc::from);
            pod
        };
        let mut cluster =
            cluster_of([Event::from(node("n", "cpu=4")), group("g", 1).into(), pod("p", "cpu=1").into()]);
        let (task, n) = (task_of(&cluster, "p"), cluster.node_named("n"));
        cluster.place(task, Status::Binding, n);
        cluster.apply(Event::Bound("p".into()));
        for seen in [joined(None), joined(Some("n"))] {
            cluster.apply(seen.into());
            let task = &cluster.tasks[task_of(&cluster, "p")];
            assert_eq!((task.status, task.node), (Status::Bound, n));
        }
        let job = cluster.tasks[task_of(&cluster, "p")].job.map(|job| cluster.jobs[job].kind);
        assert_eq!(job, Some(JobKind::Group));
        assert_eq!(cluster.check(), Vec::<String>::new());
    }
}
