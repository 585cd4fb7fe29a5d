//! A plan: where tasks would go and which tasks would be evicted for them. It is plain data, and changes nothing.
use phalanx_cluster::id::{NodeId, TaskId};
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
