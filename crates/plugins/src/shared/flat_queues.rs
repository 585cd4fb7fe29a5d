//! The check of queue plugins for which all queues are children of `root`.
use phalanx_cluster::Cluster;
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::QueueId;

/// Refuses a queue with a parent other than `root`, since nothing would hold its jobs to the limits of the parent.
pub(crate) fn check(cluster: &Cluster, queue: QueueId, plugin: &'static str) -> Result<(), QueueFault> {
    match cluster.queue_parent(queue) {
        Some(parent) if !parent.is_root() => Err(QueueFault::Tree { plugin, parent: parent.name.clone() }),
        _ => Ok(()),
    }
}
