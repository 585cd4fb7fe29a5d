//! Optional parts of a plugin, each for what only a few plugins have to say.
use std::sync::Arc;

use phalanx_resource::Amounts;

use super::NodeRules;
use crate::extender::Endpoint;
use phalanx_cluster::diagnosis::{QueueFault, Refusal};
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Cluster, NodeSums};

/// A rank of jobs: reservations give way to jobs of higher rank.
pub trait JobRank {
    /// Whether the reservations of job `of` give way to job `by` of the same queue.
    fn outranks(&self, cluster: &Cluster, by: JobId, of: JobId) -> bool;
}

/// A tree of queues by which `queue_order` goes.
pub trait QueueTree {
    /// The nodes of the tree from the top down to a queue, the queue itself last. Two queues are compared by what the
    /// nodes hold that are on the path of one of the two and not of the other. The numbers are the plugin's own. `None`
    /// when what any other queue is given may change the order.
    fn queue_path(&self, cluster: &Cluster, queue: QueueId) -> Option<Vec<u32>>;
    /// A number that changes when the order of all queues may have changed, whichever queue was given something.
    fn order_stamp(&self, _: &Cluster) -> u64 {
        0
    }
    /// Whether jobs are held to the limits of the queues above their queue.
    fn limits_subtrees(&self) -> bool {
        false
    }
}

/// Warnings about objects that are scheduled nevertheless.
pub trait Warnings {
    /// What is wrong with the fields of a queue.
    fn queue_warning(&self, _: &Cluster, _: QueueId) -> Option<QueueFault> {
        None
    }
    /// What is wrong with the annotations of a job, as one sentence.
    fn job_warning(&self, _: &Cluster, _: JobId) -> Option<Arc<str>> {
        None
    }
}

/// Tasks that must not be evicted, whatever other plugins say.
pub trait VictimGuard {
    /// Whether a task must not be evicted.
    fn protects(&self, cluster: &Cluster, task: TaskId) -> bool;
    /// Why, as a phrase behind the number of such pods: "in the cooldown of volcano.sh/cooldown-time".
    fn reason(&self) -> &'static str;
}

/// What queues may keep when other queues reclaim. A plugin with this part is asked about victims of other queues
/// whichever tier decides: no order of plugins is meant to let two queues reclaim the same resources from each other by
/// turns.
pub trait QueueGuard {
    /// What a queue holds above what it may keep. A task is a victim only while one of the resources that it requests
    /// is above 0 here. `None` when the plugin has no such figure.
    fn beyond_deserved(&self, _: &Cluster, _: QueueId) -> Option<Amounts> {
        None
    }
    /// What the plugin computed of a queue, for reports and metrics.
    fn attributes(&self, _: &Cluster, _: QueueId) -> Option<QueueAttributes> {
        None
    }
}

/// What a plugin computed of a queue: Volcano's `queueAttr`.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueAttributes {
    /// What the queue deserves.
    pub deserved: Amounts,
    /// The realCapability: the most that the queue may have.
    pub real_capability: Amounts,
    /// The dominant share: the largest part of what it deserves that it has, over all resources.
    pub share: f64,
}

/// Evictions that rebalance the cluster, without a preemptor.
pub trait Rebalancer {
    /// Which of these running tasks to evict.
    fn victims(&self, cluster: &Cluster, of: &[TaskId]) -> Vec<TaskId>;
    /// Whether a task is evicted only if another node has idle resources for it.
    fn needs_other_node(&self) -> bool {
        false
    }
}

/// Filters and scorers that depend on more of a task than its class.
pub trait TaskRules {
    /// A hash of all that the rules of a task depend on besides the class: tasks of a class with equal scopes have
    /// equal rules, also in later sessions. 0 when the rules depend on nothing else.
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64;
    /// The scope without what the task's own resource claims add.
    fn scope_without_claims(&self, cluster: &Cluster, task: TaskId) -> u64 {
        self.scope(cluster, task)
    }
    /// Adds the filters of a task; asked once for all tasks of a class with equal scopes.
    fn task_filters(&self, _: &Cluster, _: TaskId, _: &mut NodeRules) {}
    /// Adds the scorers of a task; asked as often as `task_filters`.
    fn task_scorers(&self, _: &Cluster, _: TaskId, _: &mut NodeRules) {}
}

/// Scores of single nodes for a task, on top of the scores of all rules. For what is on a few nodes and matters to few
/// tasks: the scores are asked for each task anew.
pub trait ExtraNodeScores {
    /// Nodes and their scores, already weighted; several scores of a node are added.
    fn extra_node_scores(&self, cluster: &Cluster, task: TaskId) -> Vec<(NodeId, f64)>;
}

/// The choice among HyperNodes for a gang. Where no plugin has this part, network topologies are not honoured.
pub trait NetworkOrder {
    /// How well tasks that request `request` together fit a HyperNode with these sums: of the HyperNodes of one tier that
    /// have room for them, the one with the highest score comes first.
    fn scorer(&self, cluster: &Cluster, request: &Amounts) -> Box<dyn Fn(&NodeSums) -> f64>;
    /// How many HyperNodes are tried at most when pods have to be evicted.
    fn eviction_domains_max(&self) -> usize;
}

/// Policies that another process decides (an extender).
pub trait RemotePolicy {
    /// Whether each question about victims is a request to the other process: such questions are asked rarely, and
    /// about many tasks at once.
    fn judges_victims(&self) -> bool;
    /// Why a job may not start, where the other process refused the job.
    fn not_ready(&self, cluster: &Cluster, job: JobId) -> Option<Refusal>;
    /// The server that binds a task instead of the API server.
    fn binder(&self, cluster: &Cluster, task: TaskId) -> Option<Arc<Endpoint>>;
}
