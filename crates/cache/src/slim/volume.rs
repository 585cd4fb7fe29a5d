//! PersistentVolumes, claims on them, StorageClasses and CSINodes.

use k8s_openapi::api::core::v1::{TopologySelectorTerm, VolumeNodeAffinity};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::{Amount, ResourceList, meta, non_empty, or_default};

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolumeClaim {
    /// As a [`Pod`](super::Pod)'s, and its owners.
    #[serde(deserialize_with = "meta::with_owners")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: PersistentVolumeClaimSpec,
    /// What was observed.
    #[serde(deserialize_with = "or_default")]
    pub status: Phase,
}

/// `spec` of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PersistentVolumeClaimSpec {
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub resources: Request,
    pub selector: Option<LabelSelector>,
    #[serde(deserialize_with = "non_empty")]
    pub storage_class_name: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub volume_mode: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub volume_name: Option<String>,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Request {
    #[serde(deserialize_with = "or_default")]
    pub requests: ResourceList,
}

/// `status` of a volume or a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Phase {
    #[serde(deserialize_with = "non_empty")]
    pub phase: Option<String>,
}

/// A PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PersistentVolume {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: PersistentVolumeSpec,
    /// What was observed.
    #[serde(deserialize_with = "or_default")]
    pub status: Phase,
}

/// `spec` of a PersistentVolume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PersistentVolumeSpec {
    #[serde(deserialize_with = "or_default")]
    pub access_modes: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub capacity: ResourceList,
    pub claim_ref: Option<ClaimRef>,
    pub csi: Option<Csi>,
    #[serde(deserialize_with = "or_default")]
    pub node_affinity: VolumeNodeAffinity,
    #[serde(deserialize_with = "non_empty")]
    pub storage_class_name: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub volume_mode: Option<String>,
}

/// The claim of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct ClaimRef {
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "non_empty")]
    pub uid: Option<String>,
}

/// A volume of a CSI driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Csi {
    #[serde(deserialize_with = "or_default")]
    pub driver: String,
}

/// A StorageClass.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct StorageClass {
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub provisioner: String,
    #[serde(deserialize_with = "non_empty")]
    pub volume_binding_mode: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// A CSIDriver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CSIDriver {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What it can do.
    #[serde(deserialize_with = "or_default")]
    pub spec: CSIDriverSpec,
}

/// `spec` of a CSIDriver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct CSIDriverSpec {
    pub storage_capacity: Option<bool>,
}

/// A CSIStorageCapacity.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct CSIStorageCapacity {
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub storage_class_name: String,
    pub node_topology: Option<LabelSelector>,
    pub capacity: Option<Amount>,
    pub maximum_volume_size: Option<Amount>,
}

/// A CSINode.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CSINode {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What its drivers told.
    #[serde(deserialize_with = "or_default")]
    pub spec: CSINodeSpec,
}

/// `spec` of a CSINode.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct CSINodeSpec {
    #[serde(deserialize_with = "or_default")]
    pub drivers: Vec<CSINodeDriver>,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct CSINodeDriver {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub allocatable: VolumeNodeResources,
}

/// What a driver can attach.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct VolumeNodeResources {
    pub count: Option<i32>,
}

/// A VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct VolumeAttachment {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What is attached where.
    #[serde(deserialize_with = "or_default")]
    pub spec: VolumeAttachmentSpec,
}

/// `spec` of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct VolumeAttachmentSpec {
    #[serde(deserialize_with = "or_default")]
    pub attacher: String,
    #[serde(deserialize_with = "or_default")]
    pub node_name: String,
    #[serde(deserialize_with = "or_default")]
    pub source: VolumeAttachmentSource,
}

/// The volume of a VolumeAttachment.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct VolumeAttachmentSource {
    pub persistent_volume_name: Option<String>,
}
