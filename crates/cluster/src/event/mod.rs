//! Events: Kubernetes objects reduced to what scheduling needs, by name.
use std::sync::Arc;

use phalanx_resource::Quantity;
use serde::{Deserialize, Serialize};

mod budget;
mod constraints;
mod device;
mod figures;
mod group;
mod hyper_node;
mod node;
mod pod;
mod pod_rules;
mod queue;
mod volume;

pub use budget::{PdbInfo, QuotaInfo};
pub use constraints::{
    Constraints, Disk, DiskKind, HostPort, NodeTerm, Operator, Requirement, Scoring, Strategy, Toleration,
    TolerationOperator,
};
pub use device::{
    ClaimAllocation, ClaimInfo, ClaimRequest, DeviceClassInfo, DeviceInfo, DeviceName, DeviceValue,
    GivenDevice, LeftOut, PodClaim, SliceInfo, SliceNodes,
};
pub use figures::Contradiction;
pub use group::{
    Condition, GroupRef, GroupStatus, NetworkTopology, Phase, PodGroupInfo, SubGroupPolicy, TierLimit,
};
pub use hyper_node::{HyperNodeInfo, HyperNodeMember};
pub use node::{Measure, NodeInfo, NodeUsage, Taint, TaintEffect};
pub use pod::{ControllerRef, PodInfo, PodLife, PodPhase, PodRef, PodRequests, QueueGate, RunTime};
pub use pod_rules::{NamespaceInfo, PodRules, PodSelector, PodTerm, Spread};
pub use queue::{Dequeue, GroupLimits, NodeGroups, QueueInfo, QueueState};
pub use volume::{
    AccessModes, AttachmentInfo, CsiDriverInfo, CsiNodeInfo, PodVolume, PvcInfo, StorageCapacityInfo,
    StorageClassInfo, VolumeInfo,
};

/// Milliseconds since 1970-01-01 UTC. The core never reads a clock: time is handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(pub i64);

impl Time {
    /// Later than all others.
    pub const NEVER: Time = Time(i64::MAX);
}

/// Names an object with a namespace, or a cluster-wide one when the namespace is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// Resources by name, as in a manifest.
pub type Resources = Vec<(Arc<str>, Quantity)>;

/// A failed bind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BindFailure {
    /// The answer of the API server.
    pub message: Arc<str>,
    /// What it means for the next attempt.
    pub fault: BindFault,
}

/// What a failed bind means for the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BindFault {
    /// The pod is gone or was created again: there is no further attempt.
    Gone,
    /// The node is gone, or the pod's volumes cannot be used there: another node may be tried at once.
    Place,
    /// The API server refused, or failed for too long: the bind is tried again after a back-off.
    Denied,
}

/// A change of the cluster.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// A node was added or changed.
    Node(NodeInfo),
    /// A node was deleted.
    NodeGone(Arc<str>),
    /// A pod was added or changed.
    Pod(Box<PodInfo>),
    /// A pod was deleted, by UID.
    PodGone(Arc<str>),
    /// A PodGroup was added or changed.
    PodGroup(Box<PodGroupInfo>),
    /// A PodGroup was deleted.
    PodGroupGone(Key),
    /// A PodGroup controller was seen at work.
    GroupController,
    /// A queue was added or changed.
    Queue(Box<QueueInfo>),
    /// A queue was deleted.
    QueueGone {
        /// Its name.
        name: Arc<str>,
        /// Its UID: another queue may have the name by now.
        uid: Arc<str>,
    },
    /// A PriorityClass was added or changed.
    PriorityClass {
        /// Name.
        name: Arc<str>,
        /// Value.
        value: i32,
        /// `globalDefault`.
        global_default: bool,
    },
    /// A PriorityClass was deleted.
    PriorityClassGone(Arc<str>),
    /// A ResourceQuota was added or changed.
    Quota(Box<QuotaInfo>),
    /// A ResourceQuota was deleted.
    QuotaGone(Key),
    /// The usage of a node was measured. Without effect if the node does not exist.
    NodeUsage(NodeUsage),
    /// A Namespace was added or changed.
    Namespace(NamespaceInfo),
    /// A Namespace was deleted.
    NamespaceGone(Arc<str>),
    /// A PodDisruptionBudget was added or changed.
    Pdb(Box<PdbInfo>),
    /// A PodDisruptionBudget was deleted.
    PdbGone(Key),
    /// A DeviceClass was added or changed.
    DeviceClass(Box<DeviceClassInfo>),
    /// A DeviceClass was deleted.
    DeviceClassGone(Arc<str>),
    /// A ResourceSlice was added or changed.
    Slice(Box<SliceInfo>),
    /// A ResourceSlice was deleted.
    SliceGone(Arc<str>),
    /// A ResourceClaim was added or changed.
    Claim(Box<ClaimInfo>),
    /// A ResourceClaim was deleted.
    ClaimGone(Key),
    /// A PersistentVolumeClaim was added or changed.
    Pvc(Box<PvcInfo>),
    /// A PersistentVolumeClaim was deleted.
    PvcGone {
        /// Its namespace and name.
        claim: Key,
        /// Its UID: another claim may have the name by now.
        uid: Arc<str>,
    },
    /// A PersistentVolume was added or changed.
    Volume(Box<VolumeInfo>),
    /// A PersistentVolume was deleted.
    VolumeGone {
        /// Its name.
        name: Arc<str>,
        /// Its UID: another volume may have the name by now.
        uid: Arc<str>,
    },
    /// A StorageClass was added or changed.
    StorageClass(Box<StorageClassInfo>),
    /// A StorageClass was deleted.
    StorageClassGone(Arc<str>),
    /// A CSINode was added or changed.
    CsiNode(CsiNodeInfo),
    /// A CSINode was deleted.
    CsiNodeGone(Arc<str>),
    /// A VolumeAttachment was added or changed.
    Attachment(AttachmentInfo),
    /// A VolumeAttachment was deleted.
    AttachmentGone(Arc<str>),
    /// A CSIDriver was added or changed.
    CsiDriver(CsiDriverInfo),
    /// A CSIDriver was deleted.
    CsiDriverGone(Arc<str>),
    /// A CSIStorageCapacity was added or changed.
    StorageCapacity(Box<StorageCapacityInfo>),
    /// A CSIStorageCapacity was deleted.
    StorageCapacityGone(Key),
    /// A HyperNode was added or changed.
    HyperNode(Box<HyperNodeInfo>),
    /// A HyperNode was deleted.
    HyperNodeGone(Arc<str>),
    /// The outbox bound this pod (by UID); the watch reports it too, sooner or later.
    Bound(Arc<str>),
    /// The outbox could not bind this pod (by UID).
    BindFailed(Arc<str>, BindFailure),
    /// The outbox could not evict this pod (by UID), with the answer of the API server: the pod stays.
    EvictFailed(Arc<str>, Arc<str>),
    /// The outbox could not remove the scheduling gate of this pod (by UID).
    GateFailed(Arc<str>),
}

macro_rules! events {
    ($($info:ident => $event:ident $(($boxed:path))?),* $(,)?) => { $(
        impl From<$info> for Event {
            fn from(info: $info) -> Self {
                Event::$event($($boxed)?(info))
            }
        }
    )* }
}

events!(
    PdbInfo => Pdb (Box::new),
    NamespaceInfo => Namespace,
    DeviceClassInfo => DeviceClass (Box::new),
    SliceInfo => Slice (Box::new),
    ClaimInfo => Claim (Box::new),
    PvcInfo => Pvc (Box::new),
    VolumeInfo => Volume (Box::new),
    StorageClassInfo => StorageClass (Box::new),
    CsiNodeInfo => CsiNode,
    AttachmentInfo => Attachment,
    CsiDriverInfo => CsiDriver,
    StorageCapacityInfo => StorageCapacity (Box::new),
    HyperNodeInfo => HyperNode (Box::new),
    NodeInfo => Node,
    QueueInfo => Queue (Box::new),
    PodGroupInfo => PodGroup (Box::new),
    QuotaInfo => Quota (Box::new),
    NodeUsage => NodeUsage,
    PodInfo => Pod (Box::new),
);
