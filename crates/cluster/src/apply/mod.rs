//! Takes events into the Cluster.
mod amounts;
mod jobs;
mod nodes;
mod pods;
mod queues;
mod terms;

pub use amounts::rendered;

use crate::event::Event;
use crate::{Cluster, Status};

impl Cluster {
    /// Takes in an event. True when a cycle may decide differently now.
    pub fn apply(&mut self, event: Event) -> bool {
        let retry_events = self.fold(event);
        self.meet_resources();
        if retry_events {
            self.note_retry_event();
        }
        retry_events
    }

    fn fold(&mut self, event: Event) -> bool {
        match event {
            Event::Node(info) => self.apply_node(info),
            Event::NodeGone(name) => self.remove_node(&name),
            Event::Pod(info) => self.apply_pod(&info),
            Event::PodGone(uid) => self.task_of(&uid).is_some_and(|task| self.remove_task(task)),
            Event::PodGroup(info) => self.apply_group(*info),
            Event::PodGroupGone(key) => self.remove_group(&key),
            Event::GroupController => self.see_group_controller(),
            Event::Queue(info) => self.apply_queue(*info),
            Event::QueueGone { name, .. } => self.remove_queue(&name),
            Event::PriorityClass { name, value, global_default } => {
                self.set_priority_class(&name, Some((value, global_default)))
            }
            Event::PriorityClassGone(name) => self.set_priority_class(&name, None),
            Event::Quota(info) => self.apply_quota(*info),
            Event::QuotaGone(key) => self.remove_quota(&key),
            Event::NodeUsage(info) => self.apply_usage(&info),
            Event::Namespace(info) => self.terms.set_namespace(&info.name, Some(info.labels)),
            Event::NamespaceGone(name) => self.terms.set_namespace(&name, None),
            Event::Pdb(info) => self.apply_pdb(*info),
            Event::PdbGone(key) => self.pdbs.remove(&key),
            Event::DeviceClass(info) => self.apply_class(*info),
            Event::DeviceClassGone(name) => self.remove_class(&name),
            Event::Slice(info) => self.apply_slice(*info),
            Event::SliceGone(name) => self.remove_slice(&name),
            Event::Claim(info) => self.apply_claim(*info),
            Event::ClaimGone(key) => self.remove_claim(&key),
            Event::Pvc(info) => self.apply_pvc(*info),
            Event::PvcGone { claim, .. } => self.remove_pvc(&claim),
            Event::Volume(info) => self.apply_volume(*info),
            Event::VolumeGone { name, .. } => self.remove_volume(&name),
            Event::StorageClass(info) => self.apply_storage_class(*info),
            Event::StorageClassGone(name) => self.remove_storage_class(&name),
            Event::CsiNode(info) => self.apply_csi_node(info),
            Event::CsiNodeGone(node) => {
                self.apply_csi_node(crate::event::CsiNodeInfo { node, limits: Vec::new() })
            }
            Event::Attachment(info) => self.apply_attachment(info),
            Event::AttachmentGone(name) => self.remove_attachment(&name),
            Event::CsiDriver(info) => self.volumes.set_teller(&info.name, info.tells_capacity),
            Event::CsiDriverGone(name) => self.volumes.set_teller(&name, false),
            Event::StorageCapacity(info) => self.volumes.set_capacity(&info.key.clone(), Some(*info)),
            Event::StorageCapacityGone(key) => self.volumes.set_capacity(&key, None),
            Event::HyperNode(info) => self.hyper_nodes.set(*info),
            Event::HyperNodeGone(name) => self.hyper_nodes.remove(&name),
            Event::EvictFailed(uid, _) => self.stays(&uid),
            Event::GateFailed(uid) => self.gate_stays(&uid),
            Event::Bound(uid) => self.end_bind(&uid, Status::Bound),
            Event::BindFailed(uid, failure) => self.bind_failed(&uid, failure),
        }
    }
}
