//! Pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeAffinity, PodAffinity, PodAntiAffinity, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{ResourceList, meta, non_empty, or_default};

/// A pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Name, namespace, UID, resource version, times, labels, annotations and owners; nothing else of it.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodSpec,
    /// What was observed.
    #[serde(deserialize_with = "or_default")]
    pub status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodSpec {
    #[serde(deserialize_with = "non_empty")]
    pub node_name: Option<String>,
    pub active_deadline_seconds: Option<i64>,
    #[serde(deserialize_with = "non_empty")]
    pub scheduler_name: Option<String>,
    pub priority: Option<i32>,
    #[serde(deserialize_with = "non_empty")]
    pub priority_class_name: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub preemption_policy: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub scheduling_gates: Vec<SchedulingGate>,
    pub scheduling_group: Option<SchedulingGroup>,
    #[serde(deserialize_with = "or_default")]
    pub host_network: bool,
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub overhead: ResourceList,
    pub resources: Option<Resources>,
    #[serde(deserialize_with = "or_default")]
    pub node_selector: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    pub affinity: Affinity,
    #[serde(deserialize_with = "or_default")]
    pub tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    pub volumes: Vec<Volume>,
    #[serde(deserialize_with = "or_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    #[serde(deserialize_with = "or_default")]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// A claim to devices.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodResourceClaim {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "non_empty")]
    pub resource_claim_name: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub resource_claim_template_name: Option<String>,
}

/// The claim that was made from a template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodResourceClaimStatus {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "non_empty")]
    pub resource_claim_name: Option<String>,
}

/// A volume, as far as it has a claim.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Volume {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    pub persistent_volume_claim: Option<ClaimSource>,
    pub ephemeral: Option<IgnoredAny>,
    pub gce_persistent_disk: Option<GceDisk>,
    pub aws_elastic_block_store: Option<AwsDisk>,
    pub iscsi: Option<IscsiDisk>,
    pub rbd: Option<RbdDisk>,
}

/// A disk of Google's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct GceDisk {
    #[serde(deserialize_with = "or_default")]
    pub pd_name: String,
    #[serde(deserialize_with = "or_default")]
    pub read_only: bool,
}

/// A disk of Amazon's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct AwsDisk {
    #[serde(rename = "volumeID", deserialize_with = "or_default")]
    pub volume_id: String,
}

/// A disk by iSCSI.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct IscsiDisk {
    #[serde(deserialize_with = "or_default")]
    pub iqn: String,
    #[serde(deserialize_with = "or_default")]
    pub read_only: bool,
}

/// A disk of Ceph's.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct RbdDisk {
    #[serde(deserialize_with = "or_default")]
    pub monitors: Vec<String>,
    #[serde(deserialize_with = "non_empty")]
    pub pool: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub image: String,
    #[serde(deserialize_with = "or_default")]
    pub read_only: bool,
}

/// The claim of a volume.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct ClaimSource {
    #[serde(deserialize_with = "or_default")]
    pub claim_name: String,
}

/// The PodGroup of a pod, where it is Kubernetes' own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct SchedulingGroup {
    #[serde(deserialize_with = "non_empty")]
    pub pod_group_name: Option<String>,
}

/// A scheduling gate.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct SchedulingGate {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
}

/// A container, an init container or a sidecar.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Container {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "non_empty")]
    pub image: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
    #[serde(deserialize_with = "or_default")]
    pub ports: Vec<ContainerPort>,
    pub restart_policy: Option<String>,
}

impl Container {
    /// Starts before the containers and stays beside them. For an init container.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }
}

/// Requests and limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Resources {
    #[serde(deserialize_with = "or_default")]
    pub requests: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub limits: ResourceList,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct ContainerPort {
    #[serde(deserialize_with = "or_default")]
    pub container_port: i32,
    #[serde(deserialize_with = "or_default")]
    pub host_port: i32,
    #[serde(rename = "hostIP", deserialize_with = "non_empty")]
    pub host_ip: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub protocol: Option<String>,
}

/// `spec.affinity`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Affinity {
    #[serde(deserialize_with = "or_default")]
    pub node_affinity: NodeAffinity,
    #[serde(deserialize_with = "or_default")]
    pub pod_affinity: PodAffinity,
    #[serde(deserialize_with = "or_default")]
    pub pod_anti_affinity: PodAntiAffinity,
}

/// `status` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodStatus {
    #[serde(deserialize_with = "non_empty")]
    pub phase: Option<String>,
    #[serde(deserialize_with = "non_empty")]
    pub nominated_node_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "or_default")]
    pub container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
}

/// What a container got, which differs from its spec while it is resized in place.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    #[serde(deserialize_with = "or_default")]
    pub allocated_resources: ResourceList,
    pub resources: Option<Resources>,
    #[serde(deserialize_with = "or_default")]
    pub state: ContainerState,
}

/// Whether a container has ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    pub terminated: Option<ContainerEnd>,
}

/// The end of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerEnd {
    pub finished_at: Option<Time>,
}

/// A condition of a pod or a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Condition {
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub type_: String,
    #[serde(deserialize_with = "or_default")]
    pub status: String,
    #[serde(deserialize_with = "or_default")]
    pub reason: String,
    #[serde(deserialize_with = "non_empty")]
    pub message: Option<String>,
    pub last_transition_time: Option<Time>,
}
