//! A pod, its phase and its requests.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Constraints, PodClaim, Resources, Time};
use crate::annotation::Annotations;
use crate::label::Labels;

/// Identifies a pod in requests to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID; distinguishes a pod from its successor of the same name.
    pub uid: Arc<str>,
}

/// What an object says of its controller: the owner reference with `controller: true`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllerRef {
    /// Kind.
    pub kind: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

/// How long a pod runs or ran, as its object says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunTime {
    /// Seconds, by the annotation `phalanx.sh/run-seconds`.
    Stated(u32),
    /// Seconds at most, by `spec.activeDeadlineSeconds`.
    Deadline(u32),
    /// Seconds from its start to the end of its last container, of a pod that succeeded.
    Ran(u32),
}

impl std::fmt::Display for PodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The phase in the status of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(missing_docs, reason = "Kubernetes' pod phases")]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// The scheduling gate of a pod that, by annotation, waits until its queue has room
/// (`scheduling.volcano.sh/queue-allocation-gate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum QueueGate {
    /// The pod has no such annotation, has other gates too, or has a node.
    #[default]
    None,
    /// The pod has this gate and no other.
    Shut,
    /// The pod has no gates and waits for a node: its requests are reserved in its queue.
    Open,
}

/// The requests of the containers of a pod, from which Kubernetes' rules give the total.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRequests {
    /// Requests by container.
    pub containers: Vec<Resources>,
    /// Requests by init container, in order; true for a sidecar (`restartPolicy: Always`).
    pub init: Vec<(Resources, bool)>,
    /// `spec.overhead`.
    pub overhead: Resources,
    /// `spec.resources.requests`.
    pub pod_level: Option<Resources>,
    /// Limits of cpu and memory by container.
    pub limits: Vec<Resources>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodInfo {
    /// Its name.
    pub pod: Arc<PodRef>,
    /// Creation.
    pub created: Time,
    /// Where the pod is in its life.
    pub life: PodLife,
    /// `schedulerName` is ours; otherwise the pod only counts as usage.
    pub ours: bool,
    /// The PodGroup of the group annotation, in the pod's namespace.
    pub group: Option<Arc<str>>,
    /// The queue annotation; matters for a pod without a group, and until its group is known.
    pub queue: Option<Arc<str>>,
    /// Its role in the gang (`volcano.sh/task-spec`), empty when it has none.
    pub role: Arc<str>,
    /// Its index in the role, from the annotation or the end of the name.
    pub index: Option<u32>,
    /// `spec.priority`, or the annotation that overrides it.
    pub priority: Option<i32>,
    /// `spec.priorityClassName`.
    pub priority_class: Option<Arc<str>>,
    /// `spec.preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// `volcano.sh/preemptable`, if it is set.
    pub preemptable: Option<bool>,
    /// Has scheduling gates.
    pub gated: bool,
    /// The gate that holds the pod until its queue has room.
    pub queue_gate: QueueGate,
    /// Requests.
    pub requests: Arc<PodRequests>,
    /// Constraints.
    pub constraints: Arc<Constraints>,
    /// ResourceClaims; `None` for a pod without any.
    pub claims: Option<Arc<[PodClaim]>>,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// Labels.
    pub labels: Labels,
    /// How long it runs, which only predictions read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_time: Option<RunTime>,
    /// Its controller, which only reports read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<Arc<ControllerRef>>,
}

/// Where a pod is in its life.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodLife {
    /// Phase.
    pub phase: PodPhase,
    /// The pod runs and its condition Ready is False.
    pub unready: bool,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Arc<str>>,
    /// The message of a PodScheduled=False condition that is on the object.
    pub unscheduled_message: Option<Arc<str>>,
    /// When the pod was bound: since when its condition PodScheduled is True.
    pub scheduled: Option<Time>,
}
