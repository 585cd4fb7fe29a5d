//! PersistentVolumes, PersistentVolumeClaims, storage classes and CSI objects.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Key, NodeTerm};
use crate::label::{Labels, Selector};

/// A claim of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodVolume {
    /// The PersistentVolumeClaim.
    pub claim: Key,
    /// The claim belongs to the ephemeral volume of the pod with this UID, which must be its owner.
    pub owner: Option<Arc<str>>,
}

/// A set of access modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessModes(pub u8);

impl AccessModes {
    /// ReadWriteOncePod.
    pub const ONCE_POD: AccessModes = AccessModes(8);

    /// The bit of a mode; `None` for an unknown mode.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PvcInfo {
    /// Name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
    /// UID of its controller.
    pub owner: Option<Arc<str>>,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// The volume is gone (phase Lost).
    pub lost: bool,
    /// `spec.volumeName`.
    pub volume: Option<Arc<str>>,
    /// The claim is bound to that volume, and the volume names the claim.
    pub bound: bool,
    /// Storage class; empty when there is none.
    pub class: Arc<str>,
    /// Requested access modes.
    pub modes: AccessModes,
    /// `volumeMode: Block`.
    pub block: bool,
    /// The requested size in bytes.
    pub size: i64,
    /// `selector`: labels of the volume.
    pub selector: Option<Selector>,
    /// The node for which the volume is being provisioned (`volume.kubernetes.io/selected-node`).
    pub selected_node: Option<Arc<str>>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeInfo {
    /// Name.
    pub name: Arc<str>,
    /// Storage class; empty when there is none.
    pub class: Arc<str>,
    /// Bytes.
    pub size: i64,
    /// Access modes.
    pub modes: AccessModes,
    /// `volumeMode: Block`.
    pub block: bool,
    /// Labels.
    pub labels: Labels,
    /// `nodeAffinity.required`: one term must match the node.
    pub nodes: Option<Vec<NodeTerm>>,
    /// `claimRef`, with the UID if it has one.
    pub claim: Option<(Key, Option<Arc<str>>)>,
    /// Whether a claim may be bound to the volume: its phase is Available, and it is not being deleted.
    pub available: bool,
    /// The CSI driver.
    pub driver: Option<Arc<str>>,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageClassInfo {
    /// Name.
    pub name: Arc<str>,
    /// The provisioner; `None` for `kubernetes.io/no-provisioner`.
    pub provisioner: Option<Arc<str>>,
    /// `WaitForFirstConsumer`: claims are bound when a pod uses them.
    pub waits: bool,
    /// `allowedTopologies`: one must match the node, if there are any.
    pub topologies: Vec<NodeTerm>,
}

/// A CSIDriver.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiDriverInfo {
    /// Name, which storage classes have as provisioner.
    pub name: Arc<str>,
    /// `storageCapacity`: the driver provisions volumes only where it has published enough capacity.
    pub tells_capacity: bool,
}

/// A CSIStorageCapacity: how large a volume a driver can provision for some nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageCapacityInfo {
    /// Name.
    pub key: Key,
    /// The storage class.
    pub class: Arc<str>,
    /// The nodes, by their labels; `None` for no node.
    pub nodes: Option<Selector>,
    /// `maximumVolumeSize`, or else `capacity`, in bytes; `None` without either.
    pub size: Option<i64>,
    /// `capacity`, in bytes, for the sum of all provisioned volumes; `None` without it.
    pub whole: Option<i64>,
}

/// A CSINode: the attach limits of its drivers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CsiNodeInfo {
    /// The node.
    pub node: Arc<str>,
    /// The attach limit of each driver that has one, sorted by driver.
    pub limits: Vec<(Arc<str>, u32)>,
}

/// A VolumeAttachment: a volume that is attached to a node, or about to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AttachmentInfo {
    /// Name.
    pub name: Arc<str>,
    /// The node.
    pub node: Arc<str>,
    /// The CSI driver.
    pub driver: Arc<str>,
    /// The PersistentVolume; `None` for an inline volume.
    pub volume: Option<Arc<str>>,
}
