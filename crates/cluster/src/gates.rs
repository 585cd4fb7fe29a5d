//! Gates of pods to their queues: shut until the queue has room.
use crate::event::QueueGate;
use crate::id::TaskId;
use crate::{Cluster, Status};

impl Cluster {
    /// What a pod's object says. A gate that we have opened stays open, for that was said before.
    pub(super) fn see_gate(&mut self, task: TaskId, gate: QueueGate) {
        let known = &mut self.tasks[task].queue_gate;
        if (*known, gate) != (QueueGate::Open, QueueGate::Shut) {
            *known = gate;
        }
        if gate == QueueGate::None {
            self.queue_gates.remove(&task);
        } else {
            self.queue_gates.insert(task);
        }
    }

    /// A gate could not be opened, so it is asked for again.
    pub(super) fn gate_stays(&mut self, uid: &str) -> bool {
        let Some(task) = self.task_of(uid).map(|id| &mut self.tasks[id]) else { return false };
        let shut = task.queue_gate == QueueGate::Open && task.gated;
        if shut {
            task.queue_gate = QueueGate::Shut;
        }
        shut
    }

    /// Lets a pod into its queue.
    pub fn open_gate(&mut self, task: TaskId) {
        self.tasks[task].queue_gate = QueueGate::Open;
    }

    /// Pods that wait for their queue to have room.
    pub fn shut_gates(&self) -> impl Iterator<Item = TaskId> + '_ {
        let shut = |task: &TaskId| self.tasks[*task].queue_gate == QueueGate::Shut;
        self.queue_gates.iter().copied().filter(shut)
    }

    /// Pods that were let into their queue and have no node yet.
    pub fn let_in(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.queue_gates.iter().copied().filter(|task| self.is_let_in(*task))
    }

    /// Whether something is kept for a pod in its queue, though it has no node.
    pub fn is_let_in(&self, task: TaskId) -> bool {
        let task = &self.tasks[task];
        task.queue_gate == QueueGate::Open && task.status == Status::Pending
    }

    /// Whether any pod asks to be let into its queue.
    pub fn has_gates(&self) -> bool {
        !self.queue_gates.is_empty()
    }
}
