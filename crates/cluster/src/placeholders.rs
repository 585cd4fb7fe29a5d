//! Placeholders: tasks that keep the place of a pod that `shuffle` evicted, for the pod that its controller creates.
//!
//! A placeholder belongs to no job, and counts like a nomination in the sums of its node, of its topology domains and
//! of its queue. Devices (claims of resource.k8s.io) are not kept. How long it stays, and who gets its place, is a
//! reservation of the core (`core/src/reservation.rs`).
use super::priorities::Follower;
use super::task::{PodWritten, Task};
use super::{Cluster, Status};
use crate::id::{QueueId, TaskId};

impl Cluster {
    /// Makes the placeholder for the successor of a task that is about to be evicted. The placeholder has no node yet.
    pub fn add_placeholder(&mut self, moved: TaskId) -> Option<TaskId> {
        let it = &self.tasks[moved];
        let (queue, class) = (self.jobs[it.job?].queue, it.class);
        let placeholder = Task {
            job: None,
            placeholder_in: Some(queue),
            node: None,
            node_slot: 0,
            status: Status::Pending,
            gated: true,
            measured: false,
            claims: None,
            written: PodWritten::default(),
            evicting: None,
            ..it.clone()
        };
        let task = self.tasks.insert(placeholder);
        self.classes[class].refs += 1;
        self.count(task, None, Some(Status::Pending));
        self.follow_class(Follower::Task(task), true);
        self.terms.count_labels(&self.tasks[task].details.labels, true);
        self.placeholders.push(task);
        Some(task)
    }

    /// The placeholder of a moved pod, by its id and the UID of the pod.
    pub fn placeholder(&self, task: TaskId, moved: &str) -> Option<&Task> {
        self.tasks.get(task).filter(|it| !it.is_pod() && &*it.pod.uid == moved)
    }

    /// Removes a placeholder.
    pub fn remove_placeholder(&mut self, task: TaskId) {
        self.placeholders.retain(|placeholder| *placeholder != task);
        self.remove_task(task);
    }

    /// Removes the placeholders in a queue, or all of them.
    pub(super) fn remove_placeholders(&mut self, queue: Option<QueueId>) {
        for task in self.placeholders.clone() {
            if queue.is_none() || self.tasks[task].placeholder_in == queue {
                self.remove_placeholder(task);
            }
        }
    }
}
