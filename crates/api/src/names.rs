//! Annotations, labels and resource names that change how a pod, group, queue or node is treated.
//!
//! Each constant says on which object it is read and what its value looks like. Unless said otherwise they are
//! annotations, and Volcano's. Those that plugins read are defined in `phalanx_cluster::annotation`.

pub use phalanx_cluster::annotation::{
    BARE_SLA_WAITING_TIME, COOLDOWN_TIME, HIERARCHY, HIERARCHY_WEIGHTS, JDB_MAX_UNAVAILABLE,
    JDB_MIN_AVAILABLE, NODEGROUP_NAME, REVOCABLE_ZONE, SLA_WAITING_TIME, TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY, TASK_TOPOLOGY_TASK_ORDER,
};

/// Keys with this prefix pass from a pod's owner to the PodGroup made for it.
pub const INHERITED_PREFIX: &str = "volcano.sh/";

// Gangs

/// Pod: the PodGroup, in the pod's namespace, that it belongs to.
pub const GROUP_NAME_ANNOTATION: &str = "scheduling.k8s.io/group-name";
/// The scheduler knows Kubernetes' own PodGroups, to which `spec.schedulingGroup` of a pod refers, by their names with
/// this prefix: Volcano's may have the same names, and no name of an object has a '/'.
pub const KUBERNETES_POD_GROUP_PREFIX: &str = "scheduling.k8s.io/";
/// Pod: an older name for [`GROUP_NAME_ANNOTATION`]; Volcano reads it only for vGPUs.
pub const VOLCANO_GROUP_NAME_ANNOTATION: &str = "scheduling.volcano.sh/group-name";
/// Owner of pods without a group: `minMember` of the group made for them, an integer.
pub const GROUP_MIN_MEMBER_ANNOTATION: &str = "scheduling.volcano.sh/group-min-member";
/// Owner of pods without a group: `minResources` of the group made for them, a JSON resource list.
pub const GROUP_MIN_RESOURCES_ANNOTATION: &str = "scheduling.volcano.sh/group-min-resources";
/// Pod, annotation or label: the task (role) within its group, a key of `minTaskMember`.
pub const TASK_SPEC: &str = "volcano.sh/task-spec";
/// Pod: its number within the task.
pub const TASK_INDEX: &str = "volcano.sh/task-index";
/// Pod, label, LeaderWorkerSet's: its number within the replica.
pub const LEADER_WORKER_INDEX: &str = "leaderworkerset.sigs.k8s.io/worker-index";
/// Pod, annotation and label, Kubernetes': its number within an Indexed Job.
pub const JOB_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
/// Pod, annotation and label, JobSet's: the number of its Job within the JobSet.
pub const JOB_SET_INDEX: &str = "jobset.sigs.k8s.io/job-global-index";
/// Pod: the partition of its task.
pub const PARTITION_ID: &str = "volcano.sh/partition-id";

// Jobs

/// Pod, annotation and label: the vcjob it was made for.
pub const JOB_NAME: &str = "volcano.sh/job-name";
/// Pod, label: the namespace of its vcjob.
pub const JOB_NAMESPACE: &str = "volcano.sh/job-namespace";
/// Pod: the version of its vcjob, counted up by restarts.
pub const JOB_VERSION: &str = "volcano.sh/job-version";
/// Pod: the kind of its vcjob.
pub const JOB_TYPE: &str = "volcano.sh/job-type";
/// Pod: how often its vcjob was restarted.
pub const JOB_RETRY_COUNT: &str = "volcano.sh/job-retry-count";
/// Pod: the UID of the template it was made from.
pub const TEMPLATE_UID: &str = "volcano.sh/template-uid";
/// Job: it may be forwarded to another cluster.
pub const JOB_FORWARDING: &str = "volcano.sh/job-forwarding";
/// Job: the cluster it was forwarded to.
pub const FORWARD_CLUSTER: &str = "volcano.sh/forward-cluster";
/// Job: the name it had before it was forwarded.
pub const BURST_NAME: &str = "volcano.sh/burst-name";
/// Job: the resources that it needs in the other cluster.
pub const SILO_RESOURCE: &str = "volcano.sh/silo-resource";
/// Job of a CronJob: the time it was due.
pub const CRONJOB_SCHEDULED_TIMESTAMP: &str = "volcano.sh/cronjob-scheduled-timestamp";

// Queues

/// Pod: the queue of a pod without a group. Namespace: the queue of its groups that name none.
pub const QUEUE_NAME_ANNOTATION: &str = "scheduling.volcano.sh/queue-name";
/// Pod, label: the queue of its vcjob.
pub const JOB_QUEUE_NAME: &str = "volcano.sh/queue-name";
/// Queue: "true" when it was closed because its parent was.
pub const CLOSED_BY_PARENT: &str = "volcano.sh/closed-by-parent";
/// Queue: its limits by node group, JSON.
pub const NODEGROUP_RESOURCE_LIMITS: &str = "volcano.sh/nodegroup-resource-limits";
/// Pod: "true" asks for the scheduling gate of the same name, lifted when its queue has room.
pub const QUEUE_ALLOCATION_GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";

// Preemption

/// Pod or PodGroup, annotation before label: whether it may be evicted, "true" or "false".
/// Absent means yes for a pod, no for a group.
pub const PREEMPTABLE: &str = "volcano.sh/preemptable";

// Ordering

/// Pod: its priority among the pods of its group, an integer, before that of its PriorityClass.
pub const TASK_PRIORITY: &str = "volcano.sh/task-priority";

// Topology

/// Pod: `mode` of the network topology of the group made for it.
pub const NETWORK_TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
/// Pod: `highestTierAllowed` of the network topology of the group made for it.
pub const NETWORK_TOPOLOGY_HIGHEST_TIER: &str = "volcano.sh/network-topology-highest-tier";
/// Pod, Kueue's: the label of nodes of which the pods of its template have one value; `hard` up to the tier of that name.
pub const KUEUE_REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-required-topology";
/// Pod, Kueue's: the same as a wish; `soft`.
pub const KUEUE_PREFERRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-preferred-topology";
/// Pod, Kueue's: the label of nodes of which the pods of a slice have one value.
pub const KUEUE_SLICE_REQUIRED_TOPOLOGY: &str = "kueue.x-k8s.io/podset-slice-required-topology";
/// Pod, Kueue's: the number of pods of a slice.
pub const KUEUE_SLICE_SIZE: &str = "kueue.x-k8s.io/podset-slice-size";
/// Pod, Kueue's: the Workload by which Kueue has admitted it, and chosen its nodes.
pub const KUEUE_WORKLOAD: &str = "kueue.x-k8s.io/workload";
/// PodGroup: the HyperNode that was chosen for it, written by the scheduler.
pub const JOB_ALLOCATED_HYPERNODE: &str = "volcano.sh/job-allocated-hypernode";
/// HyperNode, label: by what it was discovered, such as `label`. Those without it were made by hand.
pub const NETWORK_TOPOLOGY_SOURCE: &str = "volcano.sh/network-topology-source";
/// HyperNode, label: the type of network for which it was discovered.
pub const NETWORK_TOPOLOGY_PROFILE: &str = "volcano.sh/network-topology-profile";
/// Pod: the NUMA policy it wants of its node.
pub const NUMA_TOPOLOGY_POLICY: &str = "volcano.sh/numa-topology-policy";
/// Pod: the NUMA nodes that were chosen for it, JSON.
pub const TOPOLOGY_DECISION: &str = "volcano.sh/topology-decision";

// Nodes

/// Node, label: "true" allows to give out more than it has.
pub const OVERSUBSCRIPTION: &str = "volcano.sh/oversubscription";
/// Node: CPU beyond its own that may be given out, in thousandths.
pub const OVERSUBSCRIPTION_CPU: &str = "volcano.sh/oversubscription-cpu";
/// Node: memory beyond its own that may be given out, in bytes.
pub const OVERSUBSCRIPTION_MEMORY: &str = "volcano.sh/oversubscription-memory";
/// Node, annotation: "true" keeps new offline pods away while it evicts some.
pub const OFFLINE_JOB_EVICTING: &str = "volcano.sh/offline-job-evicting";
/// Node: GPUs not to use, numbers with commas.
pub const GPU_UNHEALTHY_IDS: &str = "volcano.sh/gpu-unhealthy-ids";

// Devices

/// Resource: memory of a shared GPU.
pub const GPU_MEMORY: &str = "volcano.sh/gpu-memory";
/// Resource: whole GPUs.
pub const GPU_NUMBER: &str = "volcano.sh/gpu-number";
/// Resource: virtual GPUs.
pub const VGPU_NUMBER: &str = "volcano.sh/vgpu-number";
/// Resource: memory of each virtual GPU, in MiB.
pub const VGPU_MEMORY: &str = "volcano.sh/vgpu-memory";
/// Resource: memory of each virtual GPU, in percent of the device.
pub const VGPU_MEMORY_PERCENTAGE: &str = "volcano.sh/vgpu-memory-percentage";
/// Resource: cores of each virtual GPU, in percent of the device.
pub const VGPU_CORES: &str = "volcano.sh/vgpu-cores";
/// Pod: the GPU that was chosen for it.
pub const GPU_INDEX: &str = "volcano.sh/gpu-index";
/// Pod: the node whose virtual GPUs were chosen.
pub const VGPU_NODE: &str = "volcano.sh/vgpu-node";
/// Pod: when they were chosen.
pub const VGPU_TIME: &str = "volcano.sh/vgpu-time";
/// Pod: the virtual GPUs that were chosen.
pub const VGPU_IDS: &str = "volcano.sh/vgpu-ids-new";
/// Pod: those of them that are still to be set up.
pub const DEVICES_TO_ALLOCATE: &str = "volcano.sh/devices-to-allocate";
/// Pod: how far its devices are, `allocating` or `success`.
pub const BIND_PHASE: &str = "volcano.sh/bind-phase";
/// Pod: how a GPU is divided for it.
pub const VGPU_MODE: &str = "volcano.sh/vgpu-mode";
/// Pod: `spread` keeps virtual GPUs of one group on different devices.
pub const VGPU_PODGROUP_POLICY: &str = "volcano.sh/vgpu-podgroup-policy";
/// Pod: the rank that a distributed Ascend job gave it.
pub const HCCL_RANK_INDEX: &str = "hccl/rankIndex";

// Others

/// Pod: how the resource-strategy-fit plugin scores nodes for it.
pub const RESOURCE_STRATEGY_SCORING_TYPE: &str = "volcano.sh/resource-strategy-scoring-type";
/// Pod: the weight of each resource in that score, JSON.
pub const RESOURCE_STRATEGY_WEIGHT: &str = "volcano.sh/resource-strategy-weight";
/// Pod: its class of service on the node, such as `LS` or `BE`.
pub const QOS_LEVEL: &str = "volcano.sh/qos-level";
/// Pod: the resource group whose settings admission gives it.
pub const RESOURCE_GROUP: &str = "volcano.sh/resource-group";

// Phalanx

/// Pod: how long it runs in the simulator before it succeeds, in seconds, fractions allowed.
/// Without it the pod runs for ever.
pub const RUN_SECONDS: &str = "phalanx.sh/run-seconds";
/// Pod: how it ends in the simulator, exit codes with commas: the first for a pod of a vcjob that was not restarted
/// yet, the second for one that was restarted once, and so on; the last for all after it. Without it the pod succeeds.
pub const EXIT_CODES: &str = "phalanx.sh/exit-codes";

/// Command: after how many seconds of the simulation it is given, fractions allowed. Without it, at the start.
pub const AFTER_SECONDS: &str = "phalanx.sh/after-seconds";

/// PodGroup of pods that had none: the first scheduler name of the controllers that keep it in step, and delete it when
/// no pod is left that belongs to it.
pub const MANAGED_BY: &str = "phalanx.sh/managed-by";

/// All keys of this module.
pub const ALL: &[&str] = &[
    GROUP_NAME_ANNOTATION,
    VOLCANO_GROUP_NAME_ANNOTATION,
    GROUP_MIN_MEMBER_ANNOTATION,
    GROUP_MIN_RESOURCES_ANNOTATION,
    TASK_SPEC,
    TASK_INDEX,
    LEADER_WORKER_INDEX,
    JOB_COMPLETION_INDEX,
    JOB_SET_INDEX,
    PARTITION_ID,
    JOB_NAME,
    JOB_NAMESPACE,
    JOB_VERSION,
    JOB_TYPE,
    JOB_RETRY_COUNT,
    TEMPLATE_UID,
    JOB_FORWARDING,
    FORWARD_CLUSTER,
    BURST_NAME,
    SILO_RESOURCE,
    CRONJOB_SCHEDULED_TIMESTAMP,
    QUEUE_NAME_ANNOTATION,
    JOB_QUEUE_NAME,
    HIERARCHY,
    HIERARCHY_WEIGHTS,
    CLOSED_BY_PARENT,
    NODEGROUP_RESOURCE_LIMITS,
    QUEUE_ALLOCATION_GATE,
    PREEMPTABLE,
    COOLDOWN_TIME,
    REVOCABLE_ZONE,
    JDB_MIN_AVAILABLE,
    JDB_MAX_UNAVAILABLE,
    TASK_PRIORITY,
    SLA_WAITING_TIME,
    BARE_SLA_WAITING_TIME,
    NETWORK_TOPOLOGY_MODE,
    NETWORK_TOPOLOGY_HIGHEST_TIER,
    KUEUE_REQUIRED_TOPOLOGY,
    KUEUE_PREFERRED_TOPOLOGY,
    KUEUE_SLICE_REQUIRED_TOPOLOGY,
    KUEUE_SLICE_SIZE,
    KUEUE_WORKLOAD,
    JOB_ALLOCATED_HYPERNODE,
    NETWORK_TOPOLOGY_SOURCE,
    NETWORK_TOPOLOGY_PROFILE,
    NUMA_TOPOLOGY_POLICY,
    TOPOLOGY_DECISION,
    TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY,
    TASK_TOPOLOGY_TASK_ORDER,
    NODEGROUP_NAME,
    OVERSUBSCRIPTION,
    OVERSUBSCRIPTION_CPU,
    OVERSUBSCRIPTION_MEMORY,
    OFFLINE_JOB_EVICTING,
    GPU_UNHEALTHY_IDS,
    GPU_MEMORY,
    GPU_NUMBER,
    VGPU_NUMBER,
    VGPU_MEMORY,
    VGPU_MEMORY_PERCENTAGE,
    VGPU_CORES,
    GPU_INDEX,
    VGPU_NODE,
    VGPU_TIME,
    VGPU_IDS,
    DEVICES_TO_ALLOCATE,
    BIND_PHASE,
    VGPU_MODE,
    VGPU_PODGROUP_POLICY,
    HCCL_RANK_INDEX,
    RESOURCE_STRATEGY_SCORING_TYPE,
    RESOURCE_STRATEGY_WEIGHT,
    QOS_LEVEL,
    RESOURCE_GROUP,
    RUN_SECONDS,
    EXIT_CODES,
    AFTER_SECONDS,
    MANAGED_BY,
];

#[cfg(test)]
mod tests {
    #[test]
    fn all_keys_are_listed() {
        let texts = [include_str!("names.rs"), include_str!("../../cluster/src/annotation.rs")];
        let lines = texts.iter().flat_map(|text| text.lines());
        let keys = lines.filter(|line| line.starts_with("pub const ") && line.contains(": &str"));
        assert_eq!(super::ALL.len(), keys.filter(|line| !line.contains("_PREFIX:")).count());
    }
}
