//! Constraints and preferences of pods on nodes.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{PodRules, PodVolume, TaintEffect};

/// How a toleration compares the value of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TolerationOperator {
    /// Any value will do.
    Exists,
    /// The values are equal.
    Equal,
    /// Both values are integers, the taint's is the larger one.
    Gt,
    /// Both values are integers, the taint's is the smaller one.
    Lt,
}

/// A toleration of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// Key; empty tolerates every key (with the operator `Exists`).
    pub key: Arc<str>,
    /// How the taint's value is compared with `value`.
    pub operator: TolerationOperator,
    /// Value; means nothing to `Exists`.
    pub value: Arc<str>,
    /// The effect that is tolerated; all when missing.
    pub effect: Option<TaintEffect>,
}

/// How a selector compares a label (or a field).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operator {
    /// The value is one of the values.
    In,
    /// There is no such label, or its value is none of the values.
    NotIn,
    /// There is such a label.
    Exists,
    /// There is no such label.
    DoesNotExist,
    /// The value is an integer larger than the only value.
    Gt,
    /// The value is an integer smaller than the only value.
    Lt,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirement {
    /// Label.
    pub key: Arc<str>,
    /// Comparison.
    pub operator: Operator,
    /// Values.
    pub values: Vec<Arc<str>>,
}

/// A term of a node affinity: all requirements must hold. A term without any matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeTerm {
    /// On labels.
    pub labels: Vec<Requirement>,
    /// On fields; Kubernetes knows `metadata.name` only.
    pub fields: Vec<Requirement>,
}

/// A port of the node that a container asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HostPort {
    /// Address; `0.0.0.0` when none is given, which collides with every address.
    pub ip: Arc<str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// Port.
    pub port: u16,
}

/// A disk in a pod's own spec, which pods on one node can share in some cases only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Disk {
    /// The kind of the disk.
    pub of: DiskKind,
    /// Its name among disks of the kind.
    pub name: Arc<str>,
    /// Monitors of a Ceph cluster: disks of one name are the same where they have a monitor in common. Empty for other
    /// kinds.
    pub monitors: Vec<Arc<str>>,
    /// Read-only, so that other pods may read it too.
    pub read_only: bool,
}

/// The kinds of disks that kube-scheduler's VolumeRestrictions checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DiskKind {
    /// `gcePersistentDisk`, by `pdName`.
    Gce,
    /// `awsElasticBlockStore`, by `volumeID`.
    Aws,
    /// `iscsi`, by `iqn`.
    Iscsi,
    /// `rbd`, by `pool` and `image`.
    Rbd,
}

/// Constraints and preferences of a pod on nodes. Pods with equal requests and constraints share a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraints {
    /// `spec.nodeSelector`, sorted by key.
    pub node_selector: Vec<(Arc<str>, Arc<str>)>,
    /// Required node affinity: one term must match; `None` when there is no such affinity.
    pub node_affinity: Option<Vec<NodeTerm>>,
    /// Preferred node affinity, with weights 1 to 100.
    pub preferred_nodes: Vec<(i32, NodeTerm)>,
    /// Tolerations.
    pub tolerations: Vec<Toleration>,
    /// Host ports, sorted, none twice.
    pub host_ports: Vec<HostPort>,
    /// Disks in its own spec, sorted, none twice.
    pub disks: Vec<Disk>,
    /// Pod affinity, anti-affinity and topology spread; `None` without any.
    pub pod_rules: Option<Arc<PodRules>>,
    /// Annotations for the plugin resource-strategy-fit, if there are any.
    pub strategy: Option<Strategy>,
    /// Images of the containers, one each, sorted; empty for a container without an image.
    pub images: Vec<Arc<str>>,
    /// Its PersistentVolumeClaims, sorted, none twice.
    pub volumes: Vec<PodVolume>,
    /// May use revocable nodes (`volcano.sh/revocable-zone`).
    pub revocable: bool,
    /// `spec.schedulerName`, where this scheduler has several names: scheduler.conf may have a profile for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Arc<str>>,
    /// The invalid field of its affinity or topology spread: no node is feasible, for this reason.
    pub unreadable: Option<Arc<str>>,
}

/// Whether used or idle resources raise the score of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scoring {
    /// `LeastAllocated`: idle resources.
    Least,
    /// `MostAllocated`: used resources.
    Most,
    /// Something else.
    Unknown,
}

/// A pod's annotations for the plugin resource-strategy-fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// `volcano.sh/resource-strategy-scoring-type`.
    pub scoring: Scoring,
    /// `volcano.sh/resource-strategy-weight`: weights by resource, sorted by name; empty when it cannot be read.
    pub weights: Vec<(Arc<str>, i64)>,
}
