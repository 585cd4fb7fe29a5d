//! What the pods of queues with limits by group of nodes hold there: the limits of the plugin nodegroup.
use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use crate::annotation::NODEGROUP_NAME;
use crate::id::{JobId, NodeId, QueueId, TaskId};
use crate::{Cluster, Status};

/// A limit: of a queue, the place in its list.
pub(crate) type LimitId = (QueueId, usize);

/// Pods that count towards limits. As long as no queue has any, nothing is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GroupHolds {
    wanted: bool,
    counted: FxHashMap<TaskId, LimitId>,
    /// What is 0 is not there.
    held: FxHashMap<LimitId, Amounts>,
}

impl Cluster {
    /// What counts towards a limit.
    pub fn group_held(&self, limit: LimitId) -> Amounts {
        self.groups.held.get(&limit).cloned().unwrap_or_default()
    }

    /// The limit towards which a task counts.
    pub fn counted_in(&self, task: TaskId) -> Option<LimitId> {
        self.groups.counted.get(&task).copied()
    }

    /// Counts a task where it is now, and no longer where it was.
    #[inline]
    pub(super) fn count_in_group(&mut self, task: TaskId) {
        if self.groups.wanted {
            self.move_in_groups(task, self.limit_of(task));
        }
    }

    /// Takes a task out of its count, before what it requests changes.
    pub(super) fn leave_group(&mut self, task: TaskId) {
        self.move_in_groups(task, None);
    }

    /// The label of a node changed.
    pub(super) fn count_node_in_group(&mut self, node: NodeId) {
        if self.groups.wanted {
            self.nodes[node].tasks.clone().into_iter().for_each(|task| self.count_in_group(task));
        }
    }

    /// The queue of a job changed.
    pub(super) fn count_job_in_groups(&mut self, job: JobId) {
        if self.groups.wanted {
            self.jobs[job].tasks.clone().into_iter().for_each(|task| self.count_in_group(task));
        }
    }

    /// The limits of a queue changed.
    pub(super) fn recount_groups(&mut self) {
        self.groups = self.rebuilt_groups();
    }

    fn rebuilt_groups(&self) -> GroupHolds {
        let wanted = self.queues.iter().any(|(_, queue)| !queue.group_limits.is_empty());
        let mut groups = GroupHolds { wanted, ..GroupHolds::default() };
        if wanted {
            let all = self.tasks.ids().filter_map(|task| Some((task, self.limit_of(task)?)));
            for (task, limit) in all {
                groups.counted.insert(task, limit);
                groups.held.entry(limit).or_default().add(self.request_of(task));
            }
        }
        groups
    }

    fn limit_of(&self, task: TaskId) -> Option<LimitId> {
        let it = &self.tasks[task];
        let queue = self.jobs[it.job?].queue;
        let limits = Some(&self.queues[queue].group_limits).filter(|limits| !limits.is_empty())?;
        let counts = it.status.is_allocated() || it.status == Status::Pipelined;
        let group = self.nodes[it.node.filter(|_| counts)?].label(NODEGROUP_NAME)?;
        Some((queue, limits.iter().position(|(name, _)| **name == *group)?))
    }

    fn move_in_groups(&mut self, task: TaskId, to: Option<LimitId>) {
        let Self { groups, tasks, classes, .. } = self;
        let from = match to {
            Some(limit) => groups.counted.insert(task, limit),
            None => groups.counted.remove(&task),
        };
        if from == to {
            return;
        }
        let request = &classes[tasks[task].class].request;
        if let Some(limit) = from {
            let held = groups.held.entry(limit).or_default();
            held.sub(request);
            if held.is_zero() {
                groups.held.remove(&limit);
            }
        }
        if let Some(limit) = to {
            groups.held.entry(limit).or_default().add(request);
        }
    }

    pub(super) fn check_groups(&self, note: &mut impl FnMut(bool, String)) {
        note(self.rebuilt_groups() == self.groups, "what queues hold of groups of nodes".to_owned());
    }
}
