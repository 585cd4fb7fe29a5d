//! Decisions of a cycle: plain values that name their objects and do not refer to the Cluster.
use std::sync::Arc;

pub use phalanx_cluster::prepare::{ClaimWrite, Prepare, VolumeBinding};

use phalanx_cluster::HyperNodeFault;
use phalanx_cluster::event::{GroupRef, GroupStatus, Key, PodRef, Time};
use phalanx_framework::extender::Endpoint;
use serde::Serialize;

/// One pod and its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding {
    /// The pod.
    pub pod: Arc<PodRef>,
    /// When the pod was created.
    pub created: Time,
    /// The node.
    pub node: Arc<str>,
    /// The extender that binds it, instead of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<Endpoint>>,
    /// What has to be written before the bind, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<Prepare>,
}

impl Binding {
    /// Volume claims that are bound with the pod, and their positions in `prepare`.
    pub fn volumes(&self) -> impl Iterator<Item = (usize, &Arc<VolumeBinding>)> {
        self.prepare.iter().enumerate().filter_map(|(at, step)| match step {
            Prepare::Volume(binding) => Some((at, binding)),
            Prepare::Claim(_) => None,
        })
    }
}

/// Why a pod is evicted, and for which preemptor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The action that evicts it.
    pub action: &'static str,
    /// The preemptor's PodGroup, or the preemptor when it has none; `None` when the pod is moved.
    pub by: Option<Key>,
    /// The message of the event on the pod.
    pub reason: Arc<str>,
}

/// A decision for the outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Decision {
    /// Bind these pods of one gang, as a unit.
    Bind {
        /// The PodGroup, or the pod's own key when it has none.
        job: Key,
        /// The pods, in the order of their placement.
        pods: Vec<Binding>,
    },
    /// Evict a pod.
    Evict {
        /// The pod.
        pod: Arc<PodRef>,
        /// The pod's PodGroup, if it has one.
        group: Option<GroupRef>,
        /// Why, and for which job.
        cause: Arc<Cause>,
    },
    /// Take the gate `scheduling.volcano.sh/queue-allocation-gate` off a pod: its queue has room for it.
    OpenGate {
        /// The pod.
        pod: Arc<PodRef>,
    },
    /// A pod was given a node that is being freed, or lost it.
    Nominate {
        /// The pod.
        pod: Arc<PodRef>,
        /// The node; `None` when the nomination ended.
        node: Option<Arc<str>>,
    },
    /// Write the status of a PodGroup: it differs from what is on the object.
    PodGroupStatus {
        /// The PodGroup.
        group: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The version of the PodGroup from which it was made: who wrote since then is not to be overwritten.
        version: Arc<str>,
        /// All of the status.
        status: GroupStatus,
    },
    /// Write `status.allocated` of a queue: it differs from what is on the object.
    QueueStatus {
        /// The queue.
        queue: Arc<str>,
        /// Resource names and canonical quantities, sorted by name.
        allocated: Vec<(Arc<str>, String)>,
    },
    /// Tell people about a queue: a Warning event `QueueInvalid`. Its jobs wait for it, or its quotas do not add up.
    QueueInvalid {
        /// The queue.
        queue: Arc<str>,
        /// Its UID.
        uid: Arc<str>,
        /// What is wrong.
        message: Arc<str>,
    },
    /// Tell people about a HyperNode that does not hold what it seems to, for what others and nodes are: a Warning event
    /// `Invalid`.
    HyperNodeInvalid {
        /// The HyperNode.
        hyper_node: Arc<str>,
        /// Its UID.
        uid: Arc<str>,
        /// Which members, and why.
        message: Arc<str>,
    },
    /// Tell people about the annotations of a PodGroup, which has to do without what it asks for: a Warning event
    /// `Invalid`.
    PodGroupInvalid {
        /// The PodGroup.
        group: Key,
        /// Its UID.
        uid: Arc<str>,
        /// What is wrong.
        message: Arc<str>,
    },
    /// Set PodScheduled=False on a pod: its message changed.
    PodUnscheduled {
        /// The pod.
        pod: Arc<PodRef>,
        /// `Unschedulable`, or `Schedulable` for a pod that found a node and waits for its gang.
        reason: &'static str,
        /// Why it waits.
        message: Arc<str>,
    },
    /// Tell people about a pod that starts without a PodGroup after a wait for one: a Warning event `NoPodGroup`.
    PodUngrouped {
        /// The pod.
        pod: Arc<PodRef>,
        /// What it waited for.
        message: Arc<str>,
    },
    /// Tell people about a PodGroup: a Warning event `Unschedulable`.
    PodGroupUnschedulable {
        /// The PodGroup.
        group: Key,
        /// Its UID.
        uid: Arc<str>,
        /// The reason of the condition.
        reason: &'static str,
        /// Why it waits.
        message: Arc<str>,
        /// Its queue.
        queue: Arc<str>,
        /// The UID of the queue; empty while there is no such Queue.
        queue_uid: Arc<str>,
        /// Why it waits, equal for gangs that wait for the same: without names of pods.
        cause: Arc<str>,
    },
}

impl From<HyperNodeFault> for Decision {
    fn from(HyperNodeFault { hyper_node, uid, text }: HyperNodeFault) -> Self {
        Self::HyperNodeInvalid { hyper_node, uid, message: text }
    }
}
