//! How objects come into a run: those of the begin, and those that arrive.
use phalanx_cluster::event::{Event, PvcInfo, Time};

use crate::api_server::ApiServer;
use crate::manifests::Object;
use crate::volcano::Controllers;

/// What an object adds besides itself.
#[derive(Default)]
pub(crate) struct Begin {
    /// The number of pods.
    pub(crate) pods: usize,
    /// Claims of pods' own volumes.
    pub(crate) claims: Vec<PvcInfo>,
    /// Events that come after the objects.
    pub(crate) last: Vec<Event>,
}

/// Creates an object.
pub(crate) fn add(
    object: Object,
    api_server: &mut ApiServer,
    controllers: &mut Controllers,
    now: Time,
    begin: &mut Begin,
) {
    match object {
        Object::Node(node) => api_server.add_node(*node),
        Object::Queue(queue) => api_server.add_queue(*queue),
        Object::HyperNode(hyper_node) => api_server.announce((*hyper_node).into()),
        Object::PodGroup(group) => api_server.add_group(*group),
        Object::PriorityClass { name, value, global_default, .. } => {
            controllers.add_class(&name, value);
            api_server.announce(Event::PriorityClass { name, value, global_default });
        }
        Object::Volume(volume) => api_server.add_volume(*volume),
        Object::Pvc(claim) | Object::UnclassedPvc(claim) => api_server.add_pvc(*claim),
        Object::StorageClass(class) | Object::DefaultStorageClass(class) => {
            api_server.add_storage_class(class);
        }
        Object::CsiNode(node) => api_server.announce(node.into()),
        Object::Attachment(attachment) => api_server.add_attachment(attachment),
        Object::CsiDriver(driver) => api_server.announce(driver.into()),
        Object::StorageCapacity(capacity) => api_server.add_capacity(capacity),
        Object::Pod(pod) => {
            begin.pods += 1;
            begin.claims.extend_from_slice(&pod.pvcs);
            api_server.add_pod(pod, now);
        }
        Object::Quota(quota) => begin.last.push(Event::from(quota)),
        Object::NodeUsage(usage) => begin.last.push(Event::from(usage)),
        Object::Pdb(pdb) | Object::Budget(pdb, _) => api_server.add_pdb(pdb),
        Object::Namespace(namespace) => begin.last.push(Event::from(namespace)),
        Object::DeviceClass(class) => begin.last.push(class.into()),
        Object::Slice(slice) => begin.last.push(slice.into()),
        // Claims from templates are among the claims of the cluster.
        Object::Controlled(object) => controllers.add(object),
        Object::Claim(_) | Object::ClaimTemplate(_) | Object::ScopedQuota => {}
    }
}
