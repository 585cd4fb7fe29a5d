//! A plan: where tasks would go and which tasks would be evicted for them. [`commit`] carries out what a Statement
//! holds.
//!
//! A search for victims is undone and hands over its plan as plain data. A gang that needs none is committed from the
//! Statement in which it was placed: volumes and devices are chosen as tasks are placed, so the same places could get
//! others if they were taken again.
use std::sync::Arc;

use crate::decision::Cause;
use crate::statement::Statement;
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Status, SubGroup};
use phalanx_framework::placement::Fit;

/// A node for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The task.
    pub(crate) task: TaskId,
    /// The node.
    pub(crate) node: NodeId,
    /// Whether the node has room now, or once terminating pods are gone.
    pub(crate) fit: Fit,
}

/// What is to be done for a job. [`Statement::apply`](crate::statement::Statement::apply) does it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Tasks to be evicted, in the order in which they go.
    pub(crate) victims: Vec<TaskId>,
    /// Nodes of tasks, in the order in which the tasks get them.
    pub(crate) places: Vec<Placement>,
}

/// Carries out what a Statement holds for a job: a job that is ready is bound, the places of any other job become its
/// reservation. So do those of a sub-group that has to wait for some of them.
pub(crate) fn commit(mut statement: Statement<'_, '_>, job: JobId, why: &Arc<Cause>) {
    for (task, node) in in_part(statement.session().cluster, job) {
        statement.pipeline(task, node);
    }
    if statement.session().job_ready(job) {
        statement.commit(why);
    } else {
        statement.commit_pipelined(why);
    }
}

/// The new places of sub-groups that have fewer pods with them than they need.
fn in_part(cluster: &Cluster, job: JobId) -> Vec<(TaskId, NodeId)> {
    if cluster.jobs[job].sub_groups.is_empty() {
        return Vec::new();
    }
    let is_in_part = |group: &SubGroup| {
        let ready = group.tasks.iter().filter(|task| cluster.tasks[**task].status.is_ready()).count();
        ready < cluster.jobs[job].sub_groups[group.policy].size as usize
    };
    let place = |task: TaskId| {
        let it = &cluster.tasks[task];
        it.node.filter(|_| it.status == Status::Allocated).map(|node| (task, node))
    };
    let groups = cluster.sub_groups(job).into_iter().filter(is_in_part);
    groups.flat_map(|group| group.tasks).filter_map(place).collect()
}
