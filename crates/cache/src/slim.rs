//! Kubernetes' own kinds, as far as scheduling reads them.
//!
//! Decoding skips every other field of the text (a pod's volumes, environments, managedFields and
//! the like are most of it), takes null for absent as Go does, and needs no field to be there.
//! Quantities are parsed on the way, without a copy of their text.

mod amount;
mod meta;
mod metrics;
mod namespace;
mod node;
mod pdb;
mod pod;
mod quota;
mod volume;

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::{ClusterResourceScope, NamespaceResourceScope, Resource};
use serde::{Deserialize, Deserializer};

pub use amount::{Amount, ResourceList};
pub use metrics::NodeMetrics;
pub use namespace::Namespace;
pub use node::{Image, Node, NodeSpec, NodeStatus, PriorityClass};
pub use pdb::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
pub use pod::{
    Affinity, AwsDisk, ClaimSource, Condition, Container, ContainerPort, ContainerStatus, GceDisk, IscsiDisk,
    Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec, PodStatus, RbdDisk, Resources, SchedulingGate,
    SchedulingGroup, Volume,
};
pub use quota::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus};
pub use volume::{
    CSIDriver, CSIDriverSpec, CSINode, CSINodeDriver, CSINodeSpec, CSIStorageCapacity, ClaimRef, Csi,
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeSpec, Phase, Request,
    StorageClass, VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeNodeResources,
};

/// Null counts as absent.
fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Null and "" count as absent: Go clients cannot tell them apart.
fn non_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.filter(|text| !text.is_empty()))
}

macro_rules! resource {
    ($kind:ident, $scope:ident, $group:literal, $plural:literal) => {
        resource!($kind, $scope, $group, "v1", $plural);
    };
    ($kind:ident, $scope:ident, $group:literal, $version:literal, $plural:literal) => {
        impl Resource for $kind {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(Pod, NamespaceResourceScope, "", "pods");
resource!(Node, ClusterResourceScope, "", "nodes");
resource!(Namespace, ClusterResourceScope, "", "namespaces");
resource!(ResourceQuota, NamespaceResourceScope, "", "resourcequotas");
resource!(NodeMetrics, ClusterResourceScope, "metrics.k8s.io", "v1beta1", "nodes");
resource!(PersistentVolumeClaim, NamespaceResourceScope, "", "persistentvolumeclaims");
resource!(PersistentVolume, ClusterResourceScope, "", "persistentvolumes");
resource!(StorageClass, ClusterResourceScope, "storage.k8s.io", "storageclasses");
resource!(CSIDriver, ClusterResourceScope, "storage.k8s.io", "csidrivers");
resource!(CSIStorageCapacity, NamespaceResourceScope, "storage.k8s.io", "csistoragecapacities");
resource!(VolumeAttachment, ClusterResourceScope, "storage.k8s.io", "volumeattachments");
resource!(CSINode, ClusterResourceScope, "storage.k8s.io", "csinodes");
resource!(PriorityClass, ClusterResourceScope, "scheduling.k8s.io", "priorityclasses");
resource!(PodDisruptionBudget, NamespaceResourceScope, "policy", "poddisruptionbudgets");
