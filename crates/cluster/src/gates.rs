//! Queue-admission gates of pods: shut until the queue has capacity.
use crate::event::QueueGate;
use crate::id::TaskId;
use crate::{Cluster, Status};

impl Cluster {
    /// Takes in the gate of a pod's object. An opened gate stays open: the object is older than that decision.
    pub(super) fn see_gate(&mut self, task: TaskId, gate: QueueGate) {
        let known = &mut self.tasks[task].written.queue_gate;
        if (*known, gate) != (QueueGate::Open, QueueGate::Shut) {
            *known = gate;
        }
        if gate == QueueGate::None {
            self.indexes.queue_gates.remove(&task);
        } else {
            self.indexes.queue_gates.insert(task);
        }
    }

    /// Shuts a gate again whose removal failed. True when it was open.
    pub(super) fn gate_stays(&mut self, uid: &str) -> bool {
        let Some(task) = self.task_of(uid).map(|id| &mut self.tasks[id]) else { return false };
        let shut = task.written.queue_gate == QueueGate::Open && task.gated;
        if shut {
            task.written.queue_gate = QueueGate::Shut;
        }
        shut
    }

    /// Opens the gate of a pod.
    pub fn open_gate(&mut self, task: TaskId) {
        self.tasks[task].written.queue_gate = QueueGate::Open;
    }

    /// Pods with a shut gate.
    pub fn shut_gates(&self) -> impl Iterator<Item = TaskId> + '_ {
        let shut = |task: &TaskId| self.tasks[*task].written.queue_gate == QueueGate::Shut;
        self.indexes.queue_gates.iter().copied().filter(shut)
    }

    /// Pods with an open gate and no node yet.
    pub fn let_in(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.indexes.queue_gates.iter().copied().filter(|task| self.is_let_in(*task))
    }

    /// Whether a pod has an open gate and no node yet: its request counts in the queue.
    pub fn is_let_in(&self, task: TaskId) -> bool {
        let task = &self.tasks[task];
        task.written.queue_gate == QueueGate::Open && task.status == Status::Pending
    }

    /// Whether any pod has a queue-admission gate.
    pub fn has_gates(&self) -> bool {
        !self.indexes.queue_gates.is_empty()
    }
}
