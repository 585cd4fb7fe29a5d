//! PersistentVolumes, the claims on them, and what says how they come about.
use std::sync::Arc;

use super::{Key, NodeTerm};
use crate::label::{Labels, Selector};

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodVolume {
    /// The PersistentVolumeClaim.
    pub claim: Key,
    /// It is made for the pod of this UID (`ephemeral`), and must be that pod's own.
    pub owner: Option<Arc<str>>,
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AccessModes(pub u8);

impl AccessModes {
    /// One pod at a time, wherever it is.
    pub const ONCE_POD: AccessModes = AccessModes(8);

    /// The bit of a mode; `None` for one that Kubernetes does not know.
    pub fn of(name: &str) -> Option<Self> {
        let all = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"];
        all.iter().position(|known| *known == name).map(|at| Self(1 << at))
    }

    /// Whether all modes of another set are in this one.
    pub fn cover(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PvcInfo {
    /// Name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
    /// UID of its controller.
    pub owner: Option<Arc<str>>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// Its volume is gone (phase Lost).
    pub lost: bool,
    /// `spec.volumeName`.
    pub volume: Option<Arc<str>>,
    /// It is bound to that volume, both ways.
    pub bound: bool,
    /// Storage class; empty when there is none.
    pub class: Arc<str>,
    /// Access modes it asks for.
    pub modes: AccessModes,
    /// `volumeMode: Block`.
    pub block: bool,
    /// The size it asks for, in bytes.
    pub size: i64,
    /// What its volume's labels must be.
    pub selector: Option<Selector>,
    /// The node for which its volume is being made (`volume.kubernetes.io/selected-node`).
    pub selected_node: Option<Arc<str>>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeInfo {
    /// Name.
    pub name: Arc<str>,
    /// Storage class; empty when there is none.
    pub class: Arc<str>,
    /// Bytes.
    pub size: i64,
    /// Access modes it can be used with.
    pub modes: AccessModes,
    /// `volumeMode: Block`.
    pub block: bool,
    /// Labels.
    pub labels: Labels,
    /// `nodeAffinity.required`: one term must match the node.
    pub nodes: Option<Vec<NodeTerm>>,
    /// The claim it is for, with its UID where one is given.
    pub claim: Option<(Key, Option<Arc<str>>)>,
    /// May be given to a claim: it is Available, and is not being deleted.
    pub available: bool,
    /// The CSI driver that attaches it.
    pub driver: Option<Arc<str>>,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StorageClassInfo {
    /// Name.
    pub name: Arc<str>,
    /// What makes volumes; `None` when nothing does (`kubernetes.io/no-provisioner`).
    pub provisioner: Option<Arc<str>>,
    /// Claims are bound when a pod uses them (`WaitForFirstConsumer`).
    pub waits: bool,
    /// `allowedTopologies`: one must match the node, if there are any.
    pub topologies: Vec<NodeTerm>,
}

/// A CSIDriver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsiDriverInfo {
    /// Its name, which storage classes call their provisioner.
    pub name: Arc<str>,
    /// `storageCapacity`: it makes volumes only where it has told that it has room for them.
    pub tells_capacity: bool,
}

/// A CSIStorageCapacity: how large a volume a driver can make for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct StorageCapacityInfo {
    /// Name.
    pub key: Key,
    /// The storage class it is told for.
    pub class: Arc<str>,
    /// The nodes, by their labels; `None` for no node.
    pub nodes: Option<Selector>,
    /// `maximumVolumeSize`, else `capacity`, in bytes; `None` when neither is told.
    pub size: Option<i64>,
    /// `capacity`, in bytes: what all volumes that are made can have in sum; `None` when it is not told.
    pub whole: Option<i64>,
}

/// A CSINode: what its drivers can attach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CsiNodeInfo {
    /// The node.
    pub node: Arc<str>,
    /// How many volumes each driver can attach, where there is a limit; sorted by driver.
    pub limits: Vec<(Arc<str>, u32)>,
}

/// A VolumeAttachment: a volume that is attached to a node, or about to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttachmentInfo {
    /// Name.
    pub name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The CSI driver that attaches it.
    pub driver: Arc<str>,
    /// The PersistentVolume; none when the attachment describes its volume itself.
    pub volume: Option<Arc<str>>,
}
