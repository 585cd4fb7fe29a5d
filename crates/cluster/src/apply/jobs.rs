//! Jobs: PodGroups, and pods without one.
use std::sync::Arc;

use phalanx_resource::Amounts;

use crate::event::{Key, Phase, PodGroupInfo, PodInfo};
use crate::id::{JobId, TaskId};
use crate::priorities::Follower;
use crate::{Cluster, GangMinimum, Job, JobKind, Written};

/// What a PodGroup asks for, in the Cluster's terms.
struct GroupSpec<'a> {
    queue: &'a Arc<str>,
    minimum: GangMinimum,
    priority: i32,
}

impl Cluster {
    /// A PodGroup that is not known yet is in the queue that its first pod names: a pod that runs and is put into a
    /// PodGroup counts in its queue all the time.
    pub(super) fn job_for(&mut self, info: &PodInfo) -> Option<JobId> {
        let (kind, name) = match &info.group {
            Some(group) => (JobKind::Group, group.clone()),
            None if !info.ours => return None,
            None => (JobKind::Solo, info.pod.name.clone()),
        };
        let queue = info.queue.clone().unwrap_or_else(|| self.options.default_queue.clone());
        let key = Key { namespace: info.pod.namespace.clone(), name };
        let id = self.ensure_job(kind, key, &queue);
        if kind == JobKind::Solo {
            let job = &mut self.jobs[id];
            job.created = info.created;
            job.object.uid = info.pod.uid.clone();
        }
        Some(id)
    }

    /// A job follows its pods in its priority, a solo job in all that a PodGroup says of others. A solo job has no
    /// minResources, so it is always admitted: its own request must fit a node and its queue in any case, and a
    /// Deployment's hundred pods are not a hundred demands at once (in Volcano their one PodGroup asks for a single pod's
    /// worth).
    pub(super) fn job_follows_pod(&mut self, task: TaskId, info: &PodInfo) {
        let Some(id) = self.tasks[task].job else { return };
        self.follow_priorities_of_pods(id);
        let job = &mut self.jobs[id];
        if job.kind == JobKind::Group {
            return;
        }
        job.priority_class.clone_from(&info.priority_class);
        job.preemptable = info.preemptable;
        job.annotations.clone_from(&info.annotations);
        self.note_running(id);
    }

    fn ensure_job(&mut self, kind: JobKind, key: Key, queue: &Arc<str>) -> JobId {
        if let Some(&id) = self.ids.jobs.get(&(kind, key.clone())) {
            return id;
        }
        let queue = self.ensure_queue(queue);
        self.count_job(queue, true);
        let id = self.jobs.insert(Job::new(key.clone(), kind, queue));
        self.ids.jobs.insert((kind, key), id);
        // A new job has no share of the inqueue requests yet.
        self.changes.log.note(id);
        id
    }

    pub(super) fn apply_group(&mut self, info: PodGroupInfo) -> bool {
        if info.made_for_pods {
            self.see_made_group(&info.key.namespace);
        }
        let name = if info.queue.is_empty() { &self.options.default_queue } else { &info.queue }.clone();
        let id = self.ensure_job(JobKind::Group, info.key.clone(), &name);
        let minimum = info.min_resources.as_ref().map(|list| self.minimum_of(list)).unwrap_or_default();
        let priority = self.priority(None, info.priority_class.as_deref());
        let asks = GroupSpec { queue: &name, minimum, priority };
        let job = &self.jobs[id];
        // Of another UID, it is another object: what was known of the one before says nothing about it.
        let first = !job.object.exists || job.object.uid != info.uid;
        let changed = first || !self.is_spec(job, &info, &asks);
        let anew = first || self.others.standby;
        let phase = info.status.phase;
        let written = &mut self.jobs[id].object.written;
        let rewritten = if anew {
            written.begin(info.status);
            true
        } else {
            written.read(info.status)
        };
        if changed || rewritten {
            self.job_changed(id);
        }
        if changed {
            self.log_reserved_nodes(id);
            self.forget_denial(Some(id));
        }
        self.move_job(id, &name);
        if self.jobs[id].priority_class != info.priority_class {
            self.follow_class(Follower::Job(id), false);
            self.jobs[id].priority_class = info.priority_class;
            self.follow_class(Follower::Job(id), true);
        }
        let GroupSpec { minimum, priority, .. } = asks;
        let job = &mut self.jobs[id];
        job.object.exists = true;
        job.object.uid = info.uid;
        job.object.version = info.version;
        job.object.controller = info.controller;
        job.created = info.created;
        job.min_member = info.min_member;
        job.topology = info.topology;
        job.sub_groups = info.sub_groups;
        let asks_devices = !minimum.devices.is_zero();
        job.minimum = minimum;
        job.priority = priority;
        job.preemptable = info.preemptable;
        job.object.invalid = info.invalid.or(info.unsupported);
        job.annotations = info.annotations;
        if changed {
            job.set_minimums(&info.min_task_member);
        }
        if anew {
            job.phase = phase;
        }
        self.note_asking(id, asks_devices);
        self.note_running(id);
        self.mark_pending(id);
        changed
    }

    /// Whether a job is already all that its PodGroup says, but for the status.
    fn is_spec(&self, job: &Job, info: &PodGroupInfo, asks: &GroupSpec<'_>) -> bool {
        self.queues[job.queue].name == *asks.queue
            && job.min_member == info.min_member
            && job.topology == info.topology
            && job.sub_groups == info.sub_groups
            && job.minimum == asks.minimum
            && job.priority == asks.priority
            && job.created == info.created
            && job.preemptable == info.preemptable
            && job.annotations == info.annotations
            && job.object.invalid.as_ref() == info.invalid.as_ref().or(info.unsupported.as_ref())
            && job.has_minimums(&info.min_task_member)
    }

    fn move_job(&mut self, id: JobId, queue: &Arc<str>) {
        let to = self.ensure_queue(queue);
        let from = std::mem::replace(&mut self.jobs[id].queue, to);
        if from == to {
            return;
        }
        self.devices_moved_about();
        let sums = self.jobs[id].sums.clone();
        self.count_job(from, false);
        self.carry_job(from, &sums, Amounts::sub);
        self.count_job(to, true);
        self.carry_job(to, &sums, Amounts::add);
        self.count_job_in_groups(id);
        self.drop_unused_queue(from);
    }

    pub(super) fn remove_group(&mut self, key: &Key) -> bool {
        let Some(id) = self.job_named(JobKind::Group, key) else { return false };
        self.job_changed(id);
        let job = &mut self.jobs[id];
        job.object.exists = false;
        job.phase = Phase::Pending;
        job.object.written = Written::default();
        self.follow_priorities_of_pods(id);
        self.mark_pending(id);
        self.drop_unused_job(id);
        true
    }

    pub(super) fn drop_unused_job(&mut self, id: JobId) {
        let job = &self.jobs[id];
        if !job.tasks.is_empty() || job.has_pod_group() {
            return;
        }
        self.note_asking(id, false);
        self.follow_class(Follower::Job(id), false);
        if let Some(job) = self.jobs.remove(id) {
            self.note_gone(id);
            self.ids.jobs.remove(&(job.kind, job.key));
            self.count_job(job.queue, false);
            self.drop_unused_queue(job.queue);
        }
    }
}
