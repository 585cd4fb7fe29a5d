//! Plugins that know no tree of queues.
use phalanx_cluster::World;
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::QueueId;

/// A queue below another than `root` cannot be used: nothing would hold its jobs to the limits of its parent.
pub(crate) fn check(world: &World, queue: QueueId, plugin: &'static str) -> Result<(), QueueFault> {
    match world.queue_parent(queue) {
        Some(parent) if !parent.is_root() => Err(QueueFault::Tree { plugin, parent: parent.name.clone() }),
        _ => Ok(()),
    }
}
