//! The events of each kind of object, and the name that identifies an object.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cluster::event::{Event, Key, PodInfo, PodPhase};

use crate::{
    Interner, Invalid, Names, group, hyper_node, namespace, node, pdb, pod, queue, quota, remarks, slim,
    volumes,
};

/// The identity of an object: its name, and its UID among objects of this name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// Namespace (empty for a cluster-wide kind) and name.
    pub key: Key,
    /// UID; for an object that never was on an API server, its namespace and name.
    pub uid: Arc<str>,
}

/// A kind that is watched.
pub trait Kind: Resource<DynamicType = ()> {
    /// Whether objects are namespaced; one without a namespace is in `default`.
    const NAMESPACED: bool;

    /// The Cluster knows objects of this kind by UID, so a successor of the same name is another one.
    const BY_UID: bool = false;

    /// Stands before the name by which the Cluster knows an object, where kinds share one space of names.
    const PREFIX: &str = "";

    /// A custom resource: objects may be older than their schema, so that any field may have any type.
    const CUSTOM: bool = false;

    /// Remarks cost much to find, and follow from what the event says: only a new event is looked through.
    const COSTLY_REMARKS: bool = false;

    /// The event for an object that was added or changed; `None` when the Cluster need not know it.
    ///
    /// # Errors
    /// A field that cannot be honoured, for kinds that cannot carry the reason to the Cluster.
    fn event(
        &self,
        identity: &Identity,
        names: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid>;

    /// The event for an object that was deleted.
    fn gone(identity: &Identity) -> Event;

    /// Fields that count as something else than was probably meant.
    fn remarks(&self) -> Vec<Invalid> {
        Vec::new()
    }

    /// The event for an object of which only the metadata could be read.
    ///
    /// # Errors
    /// Gives `invalid` back, for kinds that cannot carry the reason to the Cluster.
    fn undecodable(
        _identity: &Identity,
        invalid: &Invalid,
        _interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Err(invalid.clone())
    }

    /// The identity from the metadata.
    fn identity(metadata: &ObjectMeta, interner: &mut Interner) -> Identity {
        let namespace = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        let namespace = if Self::NAMESPACED { namespace.unwrap_or("default") } else { "" };
        let name = metadata.name.as_deref().unwrap_or_default();
        let name: Arc<str> =
            if Self::PREFIX.is_empty() { name.into() } else { [Self::PREFIX, name].concat().into() };
        let key = Key { namespace: interner.string(namespace), name };
        let uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty());
        let uid = uid.map_or_else(|| key.to_string().into(), Arc::from);
        Identity { key, uid }
    }
}

impl Kind for slim::Pod {
    const NAMESPACED: bool = true;
    const BY_UID: bool = true;

    fn event(
        &self,
        identity: &Identity,
        names: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        let info = pod::reduce(self, identity, names, interner)?;
        Ok(matters(&info).then(|| Event::Pod(Box::new(info))))
    }

    fn gone(identity: &Identity) -> Event {
        Event::PodGone(Arc::clone(&identity.uid))
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_pod(self)
    }
}

/// Another scheduler's pod counts while it uses a node, or as a member of a group.
fn matters(pod: &PodInfo) -> bool {
    let ended = matches!(pod.life.phase, PodPhase::Succeeded | PodPhase::Failed);
    pod.ours || (pod.life.node.is_some() && (!ended || pod.group.is_some()))
}

impl Kind for slim::Node {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        node(self, interner).map(|info| Some(Event::Node(info)))
    }

    fn gone(identity: &Identity) -> Event {
        Event::NodeGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for slim::Namespace {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(namespace(self, interner).into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::NamespaceGone(Arc::clone(&identity.key.name))
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_namespace(self)
    }
}

impl Kind for PodGroup {
    const NAMESPACED: bool = true;
    const CUSTOM: bool = true;

    fn event(
        &self,
        identity: &Identity,
        names: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(Event::PodGroup(Box::new(group::reduce(self, identity, names, interner)))))
    }

    fn gone(identity: &Identity) -> Event {
        Event::PodGroupGone(identity.key.clone())
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_group(self)
    }

    fn undecodable(
        identity: &Identity,
        invalid: &Invalid,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(Event::PodGroup(Box::new(group::undecodable(identity, invalid, interner)))))
    }
}

impl Kind for Queue {
    const NAMESPACED: bool = false;
    const CUSTOM: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(Event::Queue(Box::new(queue::reduce(self, identity, interner)))))
    }

    fn gone(identity: &Identity) -> Event {
        Event::QueueGone { name: Arc::clone(&identity.key.name), uid: Arc::clone(&identity.uid) }
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_queue(self)
    }

    fn undecodable(
        identity: &Identity,
        invalid: &Invalid,
        _: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(Event::Queue(Box::new(queue::undecodable(identity, invalid)))))
    }
}

impl Kind for HyperNode {
    const NAMESPACED: bool = false;
    const CUSTOM: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(hyper_node::reduce(self, identity, interner).into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::HyperNodeGone(Arc::clone(&identity.key.name))
    }

    fn remarks(&self) -> Vec<Invalid> {
        hyper_node::faults_of_hyper_node(self)
    }

    fn undecodable(
        identity: &Identity,
        invalid: &Invalid,
        _: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(hyper_node::undecodable(identity, invalid).into()))
    }
}

impl Kind for slim::PodDisruptionBudget {
    const NAMESPACED: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(pdb::reduce(self, identity, interner)?.into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::PdbGone(identity.key.clone())
    }

    fn remarks(&self) -> Vec<Invalid> {
        remarks::of_budget(self)
    }
}

impl Kind for slim::ResourceQuota {
    const NAMESPACED: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(quota::reduce(self, identity, interner)?.map(Event::from))
    }

    fn gone(identity: &Identity) -> Event {
        Event::QuotaGone(identity.key.clone())
    }
}

impl Kind for slim::PersistentVolumeClaim {
    const NAMESPACED: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::reduce_claim(self, identity, interner)?.into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::PvcGone { claim: identity.key.clone(), uid: Arc::clone(&identity.uid) }
    }
}

impl Kind for slim::PersistentVolume {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::volume(self, interner)?.into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::VolumeGone { name: Arc::clone(&identity.key.name), uid: Arc::clone(&identity.uid) }
    }
}

impl Kind for slim::StorageClass {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::storage_class(self, interner)?.into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::StorageClassGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for slim::CSIDriver {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::csi_driver(self, interner).into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::CsiDriverGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for slim::CSIStorageCapacity {
    const NAMESPACED: bool = true;

    fn event(
        &self,
        identity: &Identity,
        _: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::reduce_capacity(self, identity, interner)?.into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::StorageCapacityGone(identity.key.clone())
    }
}

impl Kind for slim::CSINode {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::csi_node(self, interner).into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::CsiNodeGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for slim::VolumeAttachment {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(volumes::attachment(self, interner).into()))
    }

    fn gone(identity: &Identity) -> Event {
        Event::AttachmentGone(Arc::clone(&identity.key.name))
    }
}

impl Kind for slim::PriorityClass {
    const NAMESPACED: bool = false;

    fn event(&self, _: &Identity, _: &Names, interner: &mut Interner) -> Result<Option<Event>, Invalid> {
        Ok(Some(priority_class(self, interner)))
    }

    fn gone(identity: &Identity) -> Event {
        Event::PriorityClassGone(Arc::clone(&identity.key.name))
    }
}

/// A PriorityClass as the Cluster sees it.
pub fn priority_class(class: &slim::PriorityClass, interner: &mut Interner) -> Event {
    Event::PriorityClass {
        name: interner.string(class.metadata.name.as_deref().unwrap_or_default()),
        value: class.value,
        global_default: class.global_default,
    }
}
