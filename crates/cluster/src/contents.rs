//! A Cluster without its history, for tests that compare two of them.
use super::{Cluster, Stamp};
use crate::cluster::Changes;

/// What a Cluster holds, without logs, stamps and indexes that depend on the order of changes.
#[derive(Debug, PartialEq)]
pub struct Contents(Cluster);

impl Cluster {
    /// A copy of what the Cluster holds: equal before a change and after the change was undone.
    pub fn contents(&self) -> Contents {
        let mut copy = self.clone();
        copy.refresh_inqueue();
        copy.devices_moved_about();
        copy.refresh_held_devices();
        copy.changes = Changes::default();
        for node in copy.nodes.iter_mut() {
            (node.version, node.static_version) = (Stamp(0), Stamp(0));
        }
        for class in copy.classes.iter_mut() {
            (class.serial, class.sought) = (Stamp(0), Stamp(0));
        }
        copy.volumes.forget_history();
        copy.devices.forget_history();
        copy.terms.forget_history();
        Contents(copy)
    }
}
