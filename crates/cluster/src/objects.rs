//! Objects as events carry them, made again from the Cluster, for trials on a copy of it.
use std::sync::Arc;

use phalanx_resource::DimId;

use crate::Cluster;
use crate::event::{GroupLimits, NodeInfo, QueueInfo, Resources};
use crate::id::{NodeId, QueueId};

/// The label that holds the name of a node.
const HOSTNAME: &str = "kubernetes.io/hostname";

impl Cluster {
    /// The Node of a node.
    pub fn node_info(&self, id: NodeId) -> NodeInfo {
        let node = &self.nodes[id];
        let mut images: Vec<(Arc<str>, i64)> =
            node.images.iter().map(|(image, size)| (self.images.name_of(*image).clone(), *size)).collect();
        images.sort_unstable();
        NodeInfo {
            name: node.name.clone(),
            labels: node.labels.clone(),
            taints: node.taints.clone(),
            unschedulable: node.unschedulable,
            ready: node.ready,
            allocatable: self.list(node.allocatable.iter()),
            images,
        }
    }

    /// The Queue of a queue.
    pub fn queue_info(&self, id: QueueId) -> QueueInfo {
        let queue = &self.queues[id];
        let limits = |(group, limits): &(Arc<str>, phalanx_resource::Ceilings)| {
            (group.clone(), self.list(limits.iter()))
        };
        QueueInfo {
            name: queue.name.clone(),
            uid: queue.object.uid.clone(),
            created: queue.created,
            weight: queue.weight,
            capability: self.list(queue.capability.iter()),
            deserved: self.list(queue.deserved.iter()),
            guarantee: self.list(queue.guarantee.iter()),
            reclaimable: queue.reclaimable,
            parent: queue.tree.parent.clone(),
            priority: queue.priority,
            state: queue.state,
            dequeue: queue.dequeue,
            allocated: parsed(&queue.object.written),
            annotations: queue.annotations.clone(),
            node_groups: queue.node_groups.clone(),
            group_limits: match &queue.group_limits_fault {
                Some(why) => GroupLimits::Unreadable(why.clone()),
                None => GroupLimits::Each(queue.group_limits.iter().map(limits).collect()),
            },
            invalid: queue.object.invalid.clone(),
        }
    }

    fn list(&self, amounts: impl Iterator<Item = (DimId, i64)>) -> Resources {
        let known = amounts.filter(|(dim, _)| !self.dims.is_unknown(*dim));
        let list: Vec<(Arc<str>, String)> =
            known.map(|(dim, amount)| (self.dims.name(dim).into(), self.dims.format(dim, amount))).collect();
        parsed(&list)
    }
}

fn parsed(list: &[(Arc<str>, String)]) -> Resources {
    list.iter().filter_map(|(name, amount)| Some((name.clone(), amount.parse().ok()?))).collect()
}

impl NodeInfo {
    /// An empty and ready node that is like this one in all but its name.
    pub fn alike(&self, number: u32) -> Self {
        let name: Arc<str> = format!("{}-added-{number}", self.name).into();
        let mut labels = self.labels.clone();
        for (_, value) in labels.iter_mut().filter(|(key, _)| **key == *HOSTNAME) {
            *value = name.clone();
        }
        Self { name, labels, unschedulable: false, ready: true, ..self.clone() }
    }

    /// The labels that nodes alike have in common: all but the name.
    pub fn labels_alike(&self) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        self.labels.iter().filter(|(key, _)| **key != *HOSTNAME)
    }
}
