//! Resources that pods of a queue use on a node group: they count towards the limits of plugin nodegroup.
use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use crate::annotation::NODEGROUP_NAME;
use crate::cluster::Indexes;
use crate::id::{JobId, NodeId, QueueId, TaskId};
use crate::{Cluster, Status};

/// A limit of a queue, by its position in the queue's list.
pub(crate) type LimitId = (QueueId, usize);

/// Pods that count towards limits; empty as long as no queue has any.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct GroupHolds {
    wanted: bool,
    counted: FxHashMap<TaskId, LimitId>,
    /// Without zero amounts.
    held: FxHashMap<LimitId, Amounts>,
}

impl Cluster {
    /// The sum of requests that counts towards a limit.
    pub fn group_held(&self, limit: LimitId) -> Amounts {
        self.indexes.groups.held.get(&limit).cloned().unwrap_or_default()
    }

    /// The limit that a task counts towards.
    pub fn counted_in(&self, task: TaskId) -> Option<LimitId> {
        self.indexes.groups.counted.get(&task).copied()
    }

    /// Counts a task towards the limit of its current node and status, or, without a status, towards none.
    #[inline]
    pub(super) fn count_in_group(&mut self, task: TaskId, _: Option<Status>, to: Option<Status>) {
        if self.indexes.groups.wanted {
            self.move_in_groups(task, to.and_then(|_| self.limit_of(task)));
        }
    }

    fn recount_in_groups(&mut self, tasks: &[TaskId]) {
        if self.indexes.groups.wanted {
            for task in tasks {
                self.move_in_groups(*task, self.limit_of(*task));
            }
        }
    }

    /// Counts the tasks of a node again whose label changed.
    pub(super) fn count_node_in_group(&mut self, node: NodeId) {
        self.recount_in_groups(&self.nodes[node].tasks.clone());
    }

    /// Counts the tasks of a job again whose queue changed.
    pub(super) fn count_job_in_groups(&mut self, job: JobId) {
        self.recount_in_groups(&self.jobs[job].tasks.clone());
    }

    /// Counts all tasks again when limits changed.
    pub(super) fn recount_groups(&mut self) {
        self.indexes.groups = self.rebuilt_groups();
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
        let Self { indexes: Indexes { groups, .. }, tasks, classes, .. } = self;
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

    pub(super) fn check_groups(&self, note: &mut crate::check::Note<'_>) {
        note(self.rebuilt_groups() == self.indexes.groups, "what queues hold of groups of nodes".to_owned());
    }
}
