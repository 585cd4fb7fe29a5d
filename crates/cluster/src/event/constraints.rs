//! All that restricts or prefers nodes for a pod.
use std::sync::Arc;

use super::{PodRules, PodVolume, TaintEffect};

/// How a toleration compares the value of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// Label.
    pub key: Arc<str>,
    /// Comparison.
    pub operator: Operator,
    /// Values.
    pub values: Vec<Arc<str>>,
}

/// A term of a node affinity: all requirements must hold. A term without any matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeTerm {
    /// On labels.
    pub labels: Vec<Requirement>,
    /// On fields; Kubernetes knows `metadata.name` only.
    pub fields: Vec<Requirement>,
}

/// A port of the node that a container asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Address; `0.0.0.0` when none is given, which collides with every address.
    pub ip: Arc<str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// Port.
    pub port: u16,
}

/// A disk that is named in a pod's own spec, and that pods on one node cannot all use.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    /// What names it.
    pub of: DiskKind,
    /// Its name among those.
    pub name: Arc<str>,
    /// Monitors of a Ceph cluster: disks of one name are one where they have a monitor in common. Empty for other
    /// kinds.
    pub monitors: Vec<Arc<str>>,
    /// It is only read, so that others may read it too.
    pub read_only: bool,
}

/// The kinds of disks on which kube-scheduler's VolumeRestrictions looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// All that restricts or prefers nodes for a pod. Pods with equal requests and constraints share a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
    /// What it asks of other pods; `None` when that is nothing.
    pub pod_rules: Option<Arc<PodRules>>,
    /// How the plugin resource-strategy-fit scores nodes for it, when it has a say in that.
    pub strategy: Option<Strategy>,
    /// Images of its containers, one each, sorted; empty for one that names none.
    pub images: Vec<Arc<str>>,
    /// Its PersistentVolumeClaims, sorted, none twice.
    pub volumes: Vec<PodVolume>,
    /// May use nodes that are lent for a time (`volcano.sh/revocable-zone`).
    pub revocable: bool,
    /// What of its affinity or its spread cannot be read: no node will do, and this is why.
    pub unreadable: Option<Arc<str>>,
}

/// Whether use or room counts for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scoring {
    /// `LeastAllocated`: room.
    Least,
    /// `MostAllocated`: use.
    Most,
    /// Something else.
    Unknown,
}

/// A pod's annotations for the plugin resource-strategy-fit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Strategy {
    /// `volcano.sh/resource-strategy-scoring-type`.
    pub scoring: Scoring,
    /// `volcano.sh/resource-strategy-weight`: weights by resource, sorted by name; empty when it cannot be read.
    pub weights: Vec<(Arc<str>, i64)>,
}
