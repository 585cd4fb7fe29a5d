//! What the World is told: Kubernetes objects reduced to what scheduling needs, by name.
use std::sync::Arc;

use phalanx_resource::Quantity;

use crate::annotation::Annotations;
use crate::label::{Labels, Selector};

/// Milliseconds since 1970-01-01 UTC. The core never reads a clock: time is handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// Names a pod: what a request to the API server needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodRef {
    /// Namespace.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// UID; distinguishes a pod from its successor of the same name.
    pub uid: Arc<str>,
}

impl std::fmt::Display for PodRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Names an object with a namespace, or a cluster-wide one when the namespace is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// Keeps pods away that do not tolerate it.
    NoSchedule,
    /// Scores the node lower for them.
    PreferNoSchedule,
    /// Keeps them away, and the kubelet evicts those that run.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Value; empty when there is none.
    pub value: Arc<str>,
    /// Effect.
    pub effect: TaintEffect,
}

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
    /// How the plugin resource-strategy-fit scores nodes for it, when it has a say in that.
    pub strategy: Option<Strategy>,
    /// May use nodes that are lent for a time (`volcano.sh/revocable-zone`).
    pub revocable: bool,
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

/// Where a pod is in its life, as its status says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "Kubernetes' pod phases")]
pub enum PodPhase {
    #[default]
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

/// What the containers of a pod ask for; Kubernetes' rules make a total of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct PodInfo {
    /// Its name.
    pub pod: PodRef,
    /// Creation.
    pub created: Time,
    /// Phase.
    pub phase: PodPhase,
    /// Has a deletion timestamp.
    pub deleting: bool,
    /// `spec.nodeName`.
    pub node: Option<Arc<str>>,
    /// `status.nominatedNodeName`.
    pub nominated: Option<Arc<str>>,
    /// Its `schedulerName` is ours; otherwise it only counts as usage.
    pub ours: bool,
    /// The PodGroup of the group annotation, in the pod's namespace.
    pub group: Option<Arc<str>>,
    /// The queue annotation; matters for a pod without a group.
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
    /// Requests.
    pub requests: PodRequests,
    /// Constraints.
    pub constraints: Arc<Constraints>,
    /// The message of a PodScheduled=False condition that is on the object.
    pub unscheduled_message: Option<Arc<str>>,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// Labels.
    pub labels: Labels,
    /// When it was given its node: since when its condition PodScheduled is True.
    pub scheduled: Option<Time>,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PdbInfo {
    /// Name.
    pub key: Key,
    /// `selector`; without one no pod is meant.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`; 0 while its controller has not seen the object as it is.
    pub allowed: u32,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct NodeInfo {
    /// Name.
    pub name: Arc<str>,
    /// Labels, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Its Ready condition is True.
    pub ready: bool,
    /// `status.allocatable`.
    pub allocatable: Resources,
}

/// The phase of a PodGroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "Volcano's phases; an empty phase is read as Pending")]
pub enum Phase {
    #[default]
    Pending,
    Inqueue,
    Running,
    Unknown,
    Completed,
}

impl Phase {
    /// The text in the object's status.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Inqueue => "Inqueue",
            Phase::Running => "Running",
            Phase::Unknown => "Unknown",
            Phase::Completed => "Completed",
        }
    }
}

/// A condition of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Condition {
    /// `Unschedulable` or `Scheduled`.
    pub kind: Arc<str>,
    /// Status True.
    pub status: bool,
    /// CamelCase reason.
    pub reason: Arc<str>,
    /// Text for people.
    pub message: Arc<str>,
    /// The cycle that set it (`transitionID`).
    pub transition: Arc<str>,
    /// When it was set.
    pub since: Time,
}

/// A PodGroup's status as far as the scheduler owns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GroupStatus {
    /// Phase.
    pub phase: Phase,
    /// Pods that run.
    pub running: u32,
    /// Pods that succeeded.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// A PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct PodGroupInfo {
    /// Name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
    /// Creation.
    pub created: Time,
    /// Queue; `default` when none is given.
    pub queue: Arc<str>,
    /// `minMember`.
    pub min_member: u32,
    /// `minTaskMember`, by role.
    pub min_task_member: Vec<(Arc<str>, u32)>,
    /// `minResources`; without it the group is always admitted.
    pub min_resources: Option<Resources>,
    /// `priorityClassName`.
    pub priority_class: Option<Arc<str>>,
    /// `volcano.sh/preemptable`, if it is set.
    pub preemptable: Option<bool>,
    /// The status on the object.
    pub status: GroupStatus,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// A field that cannot be honoured: the group waits with this reason.
    pub invalid: Option<Arc<str>>,
}

/// The state of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "Volcano's states; an empty state is read as Open")]
pub enum QueueState {
    #[default]
    Open,
    Closed,
    Closing,
    Unknown,
}

/// What happens when the first job of a queue cannot be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dequeue {
    /// Those behind it are tried.
    #[default]
    Traverse,
    /// Those behind it wait.
    Fifo,
}

/// Which groups of nodes (label `volcano.sh/nodegroup-name`) a queue's pods may or should use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeGroups {
    /// May be used, and best.
    pub required: Vec<Arc<str>>,
    /// May be used, and better than others; the best first.
    pub preferred: Vec<Arc<str>>,
    /// May not be used.
    pub anti_required: Vec<Arc<str>>,
    /// May be used when nothing else will do.
    pub anti_preferred: Vec<Arc<str>>,
}

/// What a queue may have of each group of nodes (annotation `volcano.sh/nodegroup-resource-limits`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GroupLimits {
    /// By group, sorted; a group or a resource that is not named has no limit.
    Each(Vec<(Arc<str>, Resources)>),
    /// The annotation cannot be read, for this reason.
    Unreadable(Arc<str>),
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

/// A ResourceQuota without scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuotaInfo {
    /// Name.
    pub key: Key,
    /// `status.hard`, or `spec.hard` as long as there is no status.
    pub hard: Resources,
    /// `status.used`.
    pub used: Resources,
}

/// How much of a resource of a node is in use, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// That much.
    Amount(Quantity),
    /// Millionths of what the node has.
    Part(u32),
}

/// How much of a node is in use, as it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeUsage {
    /// The node.
    pub node: Arc<str>,
    /// cpu.
    pub cpu: Measure,
    /// Memory.
    pub memory: Measure,
    /// Since when it was measured: pods that came later are not in the figures.
    pub since: Time,
    /// Until when; figures without it do not grow old.
    pub at: Option<Time>,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct QueueInfo {
    /// Name.
    pub name: Arc<str>,
    /// UID.
    pub uid: Arc<str>,
    /// Creation.
    pub created: Time,
    /// Weight, at least 1.
    pub weight: u32,
    /// `capability`: a missing resource has no limit.
    pub capability: Resources,
    /// `deserved`.
    pub deserved: Resources,
    /// `guarantee.resource`.
    pub guarantee: Resources,
    /// `reclaimable`; true unless it is set to false.
    pub reclaimable: bool,
    /// `parent`; empty means `root`.
    pub parent: Arc<str>,
    /// `priority`.
    pub priority: i32,
    /// `status.state`.
    pub state: QueueState,
    /// `dequeueStrategy`.
    pub dequeue: Dequeue,
    /// `status.allocated` on the object.
    pub allocated: Resources,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// `affinity`; `None` when there is none, which is not the same as an empty one.
    pub node_groups: Option<NodeGroups>,
    /// What it may have of each group of nodes.
    pub group_limits: GroupLimits,
    /// A field that cannot be honoured: the queue's jobs wait with this reason.
    pub invalid: Option<Arc<str>>,
}

/// Why a bind did not happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BindFailure {
    /// What the API server said.
    pub message: Arc<str>,
    /// The pod is gone or is another one now: nothing to try again.
    pub gone: bool,
}

/// A change of the world outside.
#[derive(Clone, Debug, PartialEq, Hash)]
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
    /// A queue was added or changed.
    Queue(Box<QueueInfo>),
    /// A queue was deleted.
    QueueGone(Arc<str>),
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
    /// A node was measured. Says nothing when there is no such node.
    NodeUsage(NodeUsage),
    /// A PodDisruptionBudget was added or changed.
    Pdb(Box<PdbInfo>),
    /// A PodDisruptionBudget was deleted.
    PdbGone(Key),
    /// The outbox bound this pod (by UID); the watch will say so too, sooner or later.
    Bound(Arc<str>),
    /// The outbox could not bind this pod (by UID).
    BindFailed(Arc<str>, BindFailure),
    /// The outbox could not evict this pod (by UID), and what the API server said: it stays.
    EvictFailed(Arc<str>, Arc<str>),
}

impl From<PdbInfo> for Event {
    fn from(pdb: PdbInfo) -> Self {
        Event::Pdb(Box::new(pdb))
    }
}

impl From<NodeInfo> for Event {
    fn from(node: NodeInfo) -> Self {
        Event::Node(node)
    }
}

impl From<QueueInfo> for Event {
    fn from(queue: QueueInfo) -> Self {
        Event::Queue(Box::new(queue))
    }
}

impl From<PodGroupInfo> for Event {
    fn from(group: PodGroupInfo) -> Self {
        Event::PodGroup(Box::new(group))
    }
}

impl From<QuotaInfo> for Event {
    fn from(quota: QuotaInfo) -> Self {
        Event::Quota(Box::new(quota))
    }
}

impl From<NodeUsage> for Event {
    fn from(usage: NodeUsage) -> Self {
        Event::NodeUsage(usage)
    }
}

impl From<PodInfo> for Event {
    fn from(pod: PodInfo) -> Self {
        Event::Pod(Box::new(pod))
    }
}
