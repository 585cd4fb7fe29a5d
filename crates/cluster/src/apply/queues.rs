//! Queues, with or without object.
use std::sync::Arc;

use crate::event::{GroupLimits, QueueInfo};
use crate::id::QueueId;
use crate::{Cluster, Queue, ROOT, Rendered};

impl Cluster {
    pub(crate) fn ensure_queue(&mut self, name: &Arc<str>) -> QueueId {
        if let Some(id) = self.ids.queues.get(name) {
            return *id;
        }
        let id = self.queues.insert(Queue { name: name.clone(), weight: 1, ..Queue::default() });
        self.ids.queues.insert(name.clone(), id);
        id
    }

    /// Counts a job of a queue, or (`more` false) one less.
    pub(super) fn count_job(&mut self, id: QueueId, more: bool) {
        let jobs = &mut self.queues[id].jobs;
        let before = *jobs;
        *jobs = if more { before + 1 } else { before - 1 };
        if before == 0 || *jobs == 0 {
            self.recheck_queues();
        }
    }

    /// Records that faults of queues may have changed.
    pub fn recheck_queues(&mut self) {
        self.changes.queues = true;
    }

    /// Whether faults of queues may have changed since the last call.
    pub fn take_queue_recheck(&mut self) -> bool {
        std::mem::take(&mut self.changes.queues)
    }

    pub(super) fn apply_queue(&mut self, info: QueueInfo) -> bool {
        let id = self.ensure_queue(&info.name);
        let invalid = invalid(&info);
        let (capability, deserved) = (self.ceilings(&info.capability), self.ceilings(&info.deserved));
        let guarantee = self.amounts(&info.guarantee);
        for list in [&info.capability, &info.deserved, &info.guarantee] {
            self.count_classes(list);
        }
        let written = self.written_amounts(&info.allocated);
        let group_limits = match info.group_limits {
            GroupLimits::Each(list) => {
                let limits = list.into_iter().map(|(group, list)| (group, self.ceilings(&list)));
                (limits.collect(), None)
            }
            GroupLimits::Unreadable(why) => (Vec::new(), Some(why)),
        };
        let parent = if info.parent.is_empty() { ROOT.into() } else { info.parent };
        if !self.queues[id].object.exists || self.others.standby {
            self.queues[id].object.rendered = Rendered::default();
        }
        let before = self.queues[id].clone();
        self.set_parent(id, Some(&parent).filter(|_| *info.name != *ROOT));
        let queue = &mut self.queues[id];
        if !queue.object.exists || self.others.standby {
            queue.object.written.begin(written.clone());
            queue.object.told = None;
            self.recheck_queues();
        }
        let queue = &mut self.queues[id];
        queue.object.exists = true;
        queue.object.uid = info.uid;
        queue.created = info.created;
        queue.weight = info.weight.max(1);
        queue.capability = capability;
        queue.deserved = deserved;
        queue.guarantee = guarantee;
        queue.reclaimable = info.reclaimable;
        queue.tree.parent = parent;
        queue.priority = info.priority;
        queue.state = info.state;
        queue.dequeue = info.dequeue;
        queue.annotations = info.annotations;
        queue.node_groups = info.node_groups;
        (queue.group_limits, queue.group_limits_fault) = group_limits;
        queue.object.invalid = invalid;
        let changed = *queue != before;
        if changed {
            self.queue_changed(id);
        }
        if self.queues[id].group_limits != before.group_limits {
            self.recount_groups();
        }
        let object = &mut self.queues[id].object;
        let rewritten = object.written.read(written);
        if rewritten {
            object.rendered = Rendered::default();
        }
        rewritten || changed
    }

    pub(super) fn remove_queue(&mut self, name: &str) -> bool {
        let Some(id) = self.queue_named(name).filter(|id| self.queues[*id].object.exists) else {
            return false;
        };
        self.queues[id].object.exists = false;
        self.queue_changed(id);
        self.set_parent(id, None);
        self.drop_unused_queue(id);
        true
    }

    pub(crate) fn drop_unused_queue(&mut self, id: QueueId) {
        let Some(queue) = self.queues.get(id) else { return };
        if !queue.object.exists && queue.jobs == 0 && queue.tree.children == 0 {
            self.remove_placeholders(Some(id));
            let queue = &self.queues[id];
            let limited = !queue.group_limits.is_empty();
            self.ids.queues.remove(&queue.name.clone());
            self.queues.remove(id);
            if limited {
                self.recount_groups();
            }
        }
    }
}

/// All faults of a Queue object.
fn invalid(info: &QueueInfo) -> Option<Arc<str>> {
    let mut all: Vec<String> = info.invalid.iter().map(ToString::to_string).collect();
    all.extend(info.contradictions().iter().map(ToString::to_string));
    (!all.is_empty()).then(|| all.join("; ").into())
}
