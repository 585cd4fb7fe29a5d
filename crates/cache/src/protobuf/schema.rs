//! The numbers of fields, from Kubernetes' `generated.proto` files (`k8s.io/api/core/v1`, `k8s.io/apimachinery`). Only
//! what the slim types read is here: whatever a table has not is skipped.

use self::Form::{Bool, Count, Message as Sub, Number, Quantity, Text, Time};

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// `string`.
    Text,
    /// `int32` or `int64`.
    Number,
    /// A number that JSON leaves out when it is 0.
    Count,
    /// `bool`.
    Bool,
    /// `metav1.Time`.
    Time,
    /// `resource.Quantity`.
    Quantity,
    /// A message with a table of its own.
    Message(&'static Message),
}

/// How often a field may be there.
#[derive(Clone, Copy, Debug)]
pub(super) enum Type {
    /// Once.
    One(Form),
    /// `repeated`.
    Many(Form),
    /// `map`, by text.
    Map(Form),
    /// A message without a counterpart in JSON, where its fields stand beside those around it.
    Inline(&'static Message),
}

/// A field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    /// Its number.
    pub(super) number: u32,
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// What it holds.
    pub(super) of: Type,
}

/// The fields of a message, by number.
pub(super) type Message = [Field];

impl Field {
    /// Whether it has this name, or holds the one that has.
    pub(super) fn is(&self, name: &str) -> bool {
        match self.of {
            Type::Inline(message) => message.iter().any(|field| field.is(name)),
            Type::One(_) | Type::Many(_) | Type::Map(_) => self.name == name,
        }
    }
}

const fn one(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, of: Type::One(form) }
}

const fn many(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, of: Type::Many(form) }
}

const fn inline(number: u32, name: &'static str, message: &'static Message) -> Field {
    Field { number, name, of: Type::Inline(message) }
}

const fn map(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, name, of: Type::Map(form) }
}

/// `Pod`.
pub(super) const POD: &Message =
    &[one(1, "metadata", Sub(OBJECT_META)), one(2, "spec", Sub(POD_SPEC)), one(3, "status", Sub(POD_STATUS))];

/// `Node`.
pub(super) const NODE: &Message = &[
    one(1, "metadata", Sub(OBJECT_META)),
    one(2, "spec", Sub(NODE_SPEC)),
    one(3, "status", Sub(NODE_STATUS)),
];

/// `ObjectMeta`.
pub(super) const OBJECT_META: &Message = &[
    one(1, "name", Text),
    one(3, "namespace", Text),
    one(5, "uid", Text),
    one(6, "resourceVersion", Text),
    one(7, "generation", Count),
    one(8, "creationTimestamp", Time),
    one(9, "deletionTimestamp", Time),
    map(11, "labels", Text),
    map(12, "annotations", Text),
    many(13, "ownerReferences", Sub(OWNER_REFERENCE)),
];

/// `OwnerReference`.
pub(super) const OWNER_REFERENCE: &Message = &[
    one(1, "kind", Text),
    one(3, "name", Text),
    one(4, "uid", Text),
    one(5, "apiVersion", Text),
    one(6, "controller", Bool),
    one(7, "blockOwnerDeletion", Bool),
];

/// `ListMeta`.
pub(super) const LIST_META: &Message = &[one(2, "resourceVersion", Text), one(3, "continue", Text)];

/// `Status`.
pub(super) const STATUS: &Message =
    &[one(2, "status", Text), one(3, "message", Text), one(4, "reason", Text), one(6, "code", Number)];

/// `LabelSelector`.
pub(super) const LABEL_SELECTOR: &Message =
    &[map(1, "matchLabels", Text), many(2, "matchExpressions", Sub(LABEL_SELECTOR_REQUIREMENT))];

/// `LabelSelectorRequirement`.
pub(super) const LABEL_SELECTOR_REQUIREMENT: &Message =
    &[one(1, "key", Text), one(2, "operator", Text), many(3, "values", Text)];

/// `PodSpec`.
pub(super) const POD_SPEC: &Message = &[
    many(1, "volumes", Sub(VOLUME)),
    many(2, "containers", Sub(CONTAINER)),
    one(5, "activeDeadlineSeconds", Number),
    map(7, "nodeSelector", Text),
    one(10, "nodeName", Text),
    one(11, "hostNetwork", Bool),
    one(18, "affinity", Sub(AFFINITY)),
    one(19, "schedulerName", Text),
    many(20, "initContainers", Sub(CONTAINER)),
    many(22, "tolerations", Sub(TOLERATION)),
    one(24, "priorityClassName", Text),
    one(25, "priority", Number),
    one(31, "preemptionPolicy", Text),
    map(32, "overhead", Quantity),
    many(33, "topologySpreadConstraints", Sub(TOPOLOGY_SPREAD_CONSTRAINT)),
    many(38, "schedulingGates", Sub(POD_SCHEDULING_GATE)),
    many(39, "resourceClaims", Sub(POD_RESOURCE_CLAIM)),
    one(40, "resources", Sub(RESOURCE_REQUIREMENTS)),
    one(43, "schedulingGroup", Sub(POD_SCHEDULING_GROUP)),
];

/// `Volume`.
pub(super) const VOLUME: &Message = &[one(1, "name", Text), inline(2, "volumeSource", VOLUME_SOURCE)];

/// `VolumeSource`.
pub(super) const VOLUME_SOURCE: &Message = &[
    one(3, "gcePersistentDisk", Sub(GCE_PERSISTENT_DISK_VOLUME_SOURCE)),
    one(4, "awsElasticBlockStore", Sub(AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE)),
    one(8, "iscsi", Sub(ISCSI_VOLUME_SOURCE)),
    one(10, "persistentVolumeClaim", Sub(PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE)),
    one(11, "rbd", Sub(RBD_VOLUME_SOURCE)),
    one(29, "ephemeral", Sub(EPHEMERAL_VOLUME_SOURCE)),
];

/// `GCEPersistentDiskVolumeSource`.
pub(super) const GCE_PERSISTENT_DISK_VOLUME_SOURCE: &Message =
    &[one(1, "pdName", Text), one(4, "readOnly", Bool)];

/// `AWSElasticBlockStoreVolumeSource`.
pub(super) const AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE: &Message = &[one(1, "volumeID", Text)];

/// `ISCSIVolumeSource`.
pub(super) const ISCSI_VOLUME_SOURCE: &Message = &[one(2, "iqn", Text), one(6, "readOnly", Bool)];

/// `RBDVolumeSource`.
pub(super) const RBD_VOLUME_SOURCE: &Message =
    &[many(1, "monitors", Text), one(2, "image", Text), one(4, "pool", Text), one(8, "readOnly", Bool)];

/// `PersistentVolumeClaimVolumeSource`.
pub(super) const PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE: &Message = &[one(1, "claimName", Text)];

/// `EphemeralVolumeSource`.
pub(super) const EPHEMERAL_VOLUME_SOURCE: &Message = &[];

/// `PodStatus`.
pub(super) const POD_STATUS: &Message = &[
    one(1, "phase", Text),
    many(2, "conditions", Sub(POD_CONDITION)),
    one(7, "startTime", Time),
    many(8, "containerStatuses", Sub(CONTAINER_STATUS)),
    many(10, "initContainerStatuses", Sub(CONTAINER_STATUS)),
    one(11, "nominatedNodeName", Text),
    many(15, "resourceClaimStatuses", Sub(POD_RESOURCE_CLAIM_STATUS)),
];

/// `PodSchedulingGate`.
pub(super) const POD_SCHEDULING_GATE: &Message = &[one(1, "name", Text)];

/// `PodSchedulingGroup`.
pub(super) const POD_SCHEDULING_GROUP: &Message = &[one(1, "podGroupName", Text)];

/// `PodResourceClaim`.
pub(super) const POD_RESOURCE_CLAIM: &Message =
    &[one(1, "name", Text), one(3, "resourceClaimName", Text), one(4, "resourceClaimTemplateName", Text)];

/// `PodResourceClaimStatus`.
pub(super) const POD_RESOURCE_CLAIM_STATUS: &Message =
    &[one(1, "name", Text), one(2, "resourceClaimName", Text)];

/// `Container`.
pub(super) const CONTAINER: &Message = &[
    one(1, "name", Text),
    one(2, "image", Text),
    many(6, "ports", Sub(CONTAINER_PORT)),
    one(8, "resources", Sub(RESOURCE_REQUIREMENTS)),
    one(24, "restartPolicy", Text),
];

/// `ContainerPort`.
pub(super) const CONTAINER_PORT: &Message = &[
    one(1, "name", Text),
    one(2, "hostPort", Number),
    one(3, "containerPort", Number),
    one(4, "protocol", Text),
    one(5, "hostIP", Text),
];

/// `ResourceRequirements`.
pub(super) const RESOURCE_REQUIREMENTS: &Message =
    &[map(1, "limits", Quantity), map(2, "requests", Quantity)];

/// `ContainerStatus`.
pub(super) const CONTAINER_STATUS: &Message = &[
    one(1, "name", Text),
    one(2, "state", Sub(CONTAINER_STATE)),
    map(10, "allocatedResources", Quantity),
    one(11, "resources", Sub(RESOURCE_REQUIREMENTS)),
];

/// `ContainerState`.
pub(super) const CONTAINER_STATE: &Message = &[one(3, "terminated", Sub(CONTAINER_STATE_TERMINATED))];

/// `ContainerStateTerminated`.
pub(super) const CONTAINER_STATE_TERMINATED: &Message = &[one(6, "finishedAt", Time)];

/// `PodCondition`.
pub(super) const POD_CONDITION: &Message = &[
    one(1, "type", Text),
    one(2, "status", Text),
    one(4, "lastTransitionTime", Time),
    one(5, "reason", Text),
    one(6, "message", Text),
];

/// `Affinity`.
pub(super) const AFFINITY: &Message = &[
    one(1, "nodeAffinity", Sub(NODE_AFFINITY)),
    one(2, "podAffinity", Sub(POD_AFFINITY)),
    one(3, "podAntiAffinity", Sub(POD_ANTI_AFFINITY)),
];

/// `NodeAffinity`.
pub(super) const NODE_AFFINITY: &Message = &[
    one(1, "requiredDuringSchedulingIgnoredDuringExecution", Sub(NODE_SELECTOR)),
    many(2, "preferredDuringSchedulingIgnoredDuringExecution", Sub(PREFERRED_SCHEDULING_TERM)),
];

/// `PodAffinity`.
pub(super) const POD_AFFINITY: &Message = &[
    many(1, "requiredDuringSchedulingIgnoredDuringExecution", Sub(POD_AFFINITY_TERM)),
    many(2, "preferredDuringSchedulingIgnoredDuringExecution", Sub(WEIGHTED_POD_AFFINITY_TERM)),
];

/// `PodAntiAffinity`.
pub(super) const POD_ANTI_AFFINITY: &Message = &[
    many(1, "requiredDuringSchedulingIgnoredDuringExecution", Sub(POD_AFFINITY_TERM)),
    many(2, "preferredDuringSchedulingIgnoredDuringExecution", Sub(WEIGHTED_POD_AFFINITY_TERM)),
];

/// `NodeSelector`.
pub(super) const NODE_SELECTOR: &Message = &[many(1, "nodeSelectorTerms", Sub(NODE_SELECTOR_TERM))];

/// `NodeSelectorTerm`.
pub(super) const NODE_SELECTOR_TERM: &Message = &[
    many(1, "matchExpressions", Sub(NODE_SELECTOR_REQUIREMENT)),
    many(2, "matchFields", Sub(NODE_SELECTOR_REQUIREMENT)),
];

/// `NodeSelectorRequirement`.
pub(super) const NODE_SELECTOR_REQUIREMENT: &Message =
    &[one(1, "key", Text), one(2, "operator", Text), many(3, "values", Text)];

/// `PreferredSchedulingTerm`.
pub(super) const PREFERRED_SCHEDULING_TERM: &Message =
    &[one(1, "weight", Number), one(2, "preference", Sub(NODE_SELECTOR_TERM))];

/// `PodAffinityTerm`.
pub(super) const POD_AFFINITY_TERM: &Message = &[
    one(1, "labelSelector", Sub(LABEL_SELECTOR)),
    many(2, "namespaces", Text),
    one(3, "topologyKey", Text),
    one(4, "namespaceSelector", Sub(LABEL_SELECTOR)),
    many(5, "matchLabelKeys", Text),
    many(6, "mismatchLabelKeys", Text),
];

/// `WeightedPodAffinityTerm`.
pub(super) const WEIGHTED_POD_AFFINITY_TERM: &Message =
    &[one(1, "weight", Number), one(2, "podAffinityTerm", Sub(POD_AFFINITY_TERM))];

/// `Toleration`.
pub(super) const TOLERATION: &Message = &[
    one(1, "key", Text),
    one(2, "operator", Text),
    one(3, "value", Text),
    one(4, "effect", Text),
    one(5, "tolerationSeconds", Number),
];

/// `TopologySpreadConstraint`.
pub(super) const TOPOLOGY_SPREAD_CONSTRAINT: &Message = &[
    one(1, "maxSkew", Number),
    one(2, "topologyKey", Text),
    one(3, "whenUnsatisfiable", Text),
    one(4, "labelSelector", Sub(LABEL_SELECTOR)),
    one(5, "minDomains", Number),
    one(6, "nodeAffinityPolicy", Text),
    one(7, "nodeTaintsPolicy", Text),
    many(8, "matchLabelKeys", Text),
];

/// `NodeSpec`.
pub(super) const NODE_SPEC: &Message = &[one(4, "unschedulable", Bool), many(5, "taints", Sub(TAINT))];

/// `NodeStatus`.
pub(super) const NODE_STATUS: &Message = &[
    map(2, "allocatable", Quantity),
    many(4, "conditions", Sub(NODE_CONDITION)),
    many(8, "images", Sub(CONTAINER_IMAGE)),
];

/// `NodeCondition`.
pub(super) const NODE_CONDITION: &Message = &[
    one(1, "type", Text),
    one(2, "status", Text),
    one(4, "lastTransitionTime", Time),
    one(5, "reason", Text),
    one(6, "message", Text),
];

/// `ContainerImage`.
pub(super) const CONTAINER_IMAGE: &Message = &[many(1, "names", Text), one(2, "sizeBytes", Number)];

/// `Taint`.
pub(super) const TAINT: &Message =
    &[one(1, "key", Text), one(2, "value", Text), one(3, "effect", Text), one(4, "timeAdded", Time)];
