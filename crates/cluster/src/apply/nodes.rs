//! Nodes, with or without object.
use std::sync::Arc;

use phalanx_resource::Amounts;

use crate::count::Count;
use crate::devices::Stock;
use crate::event::NodeInfo;
use crate::id::{NodeId, TaskId};
use crate::{Cluster, Node, NodeVolumes, Stamp, Status};

impl Cluster {
    pub(super) fn apply_node(&mut self, info: NodeInfo) -> bool {
        let id = self.ensure_node(&info.name);
        let allocatable = self.rooms(&info.allocatable);
        let stamp = self.changes.nodes;
        self.count_node(id, Count::Out);
        let images = self.images.put(&info.images);
        let node = &mut self.nodes[id];
        let moved_images = node.images != images;
        let images = std::mem::replace(&mut node.images, images);
        self.images.take(&images);
        let same_statics = node.exists
            && node.labels == info.labels
            && node.taints == info.taints
            && node.unschedulable == info.unschedulable
            && node.ready == info.ready;
        let changed = !same_statics || node.allocatable != allocatable;
        if !node.exists || node.labels != info.labels {
            self.hyper_nodes.node_changed();
        }
        self.hyper_nodes.count_allocatable(id, &node.allocatable, Count::Out);
        self.hyper_nodes.count_allocatable(id, &allocatable, Count::In);
        if !same_statics {
            self.leave_domains(id);
        }
        let node = &mut self.nodes[id];
        node.idle.sub(&node.allocatable);
        node.idle.add(&allocatable);
        let came = !std::mem::replace(&mut node.exists, true);
        node.labels = info.labels;
        node.taints = info.taints;
        node.unschedulable = info.unschedulable;
        node.ready = info.ready;
        node.allocatable = allocatable;
        let lent = node.zone().is_some();
        self.indexes.marked.lent.set(id, lent);
        self.count_node(id, Count::In);
        if came {
            self.devices_come(&info.name);
        }
        if !same_statics {
            self.join_domains(id);
            self.count_node_in_group(id);
        }
        if !same_statics || moved_images {
            self.touch_statics(id);
        }
        if changed || moved_images {
            self.touch_node(id);
        } else {
            self.changes.nodes = stamp;
        }
        // Images change scores, not what fits.
        changed
    }

    /// Counts a node that has an object in the sums of the cluster.
    fn count_node(&mut self, id: NodeId, count: Count) {
        let node = &self.nodes[id];
        if !node.exists {
            return;
        }
        self.changes.clock += 1;
        self.changes.nodes = self.changes.clock;
        let mut used = node.allocatable.clone();
        used.sub(&node.idle);
        count.step(&mut self.indexes.existing);
        count.add(&mut self.sums.allocatable, &node.allocatable);
        count.add(&mut self.sums.used, &used);
    }

    pub(super) fn ensure_node(&mut self, name: &Arc<str>) -> NodeId {
        if let Some(id) = self.ids.nodes.get(name) {
            return *id;
        }
        let volumes = NodeVolumes { limits: self.volumes.limits_of(name), ..NodeVolumes::default() };
        let id = self.nodes.insert(Node { name: name.clone(), volumes, ..Node::default() });
        self.ids.nodes.insert(name.clone(), id);
        self.attachments_come(name);
        self.devices_come(name);
        self.touch_statics(id);
        self.touch_node(id);
        id
    }

    pub(crate) fn touch_statics(&mut self, id: NodeId) {
        self.changes.clock += 1;
        self.nodes[id].static_version = Stamp(self.changes.clock);
    }

    pub(super) fn remove_node(&mut self, name: &str) -> bool {
        let Some(id) = self.node_named(name).filter(|id| self.nodes[*id].exists) else { return false };
        self.count_node(id, Count::Out);
        self.leave_domains(id);
        self.set_usage(id, None);
        self.devices_go(id);
        self.hyper_nodes.node_changed();
        let node = &mut self.nodes[id];
        node.exists = false;
        node.idle.sub(&node.allocatable);
        node.allocatable = Amounts::new();
        node.devices = Stock::default();
        self.join_domains(id);
        let images = std::mem::take(&mut self.nodes[id].images);
        self.images.take(&images);
        let nominated = |task: &TaskId| self.tasks[*task].status == Status::Pipelined;
        let lost: Vec<TaskId> = self.nodes[id].tasks.iter().copied().filter(nominated).collect();
        for task in lost {
            self.place(task, Status::Pending, None);
        }
        self.touch_statics(id);
        self.touch_node(id);
        self.drop_unused_node(id);
        true
    }

    /// Removes a node without object and pods.
    pub(super) fn drop_unused_node(&mut self, id: NodeId) {
        let node = &self.nodes[id];
        if !node.exists && node.tasks.is_empty() {
            let name = node.name.clone();
            self.attachments_go(&name);
            self.ids.nodes.remove(&name);
            self.indexes.marked.lent.set(id, false);
            self.devices_go(id);
            self.nodes.remove(id);
        }
    }
}
