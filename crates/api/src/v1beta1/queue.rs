//! Queue: a share of the cluster that PodGroups use, in a tree of shares.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{ResourceList, rules, schema};
use crate::lenient::{is_default, is_zero, non_empty, null_is_default, open_enum};

/// A share of the cluster; cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Name, labels, annotations.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: QueueSpec,
    /// What was observed; written through the status subresource.
    pub status: Option<QueueStatus>,
}

impl Queue {
    /// Whether others may take back what this queue uses beyond its share: yes unless it says no.
    pub fn is_reclaimable(&self) -> bool {
        self.spec.reclaimable.unwrap_or(true)
    }
}

/// What a Queue asks for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::queue_amounts()))]
pub struct QueueSpec {
    /// The queue's share relative to the weights of its siblings.
    #[serde(deserialize_with = "weight")]
    #[schemars(range(min = 1, max = 65535))]
    pub weight: i32,
    /// The most it may use; a resource that is missing here has no limit.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::checked_resource_list")]
    pub capability: ResourceList,
    /// Whether other queues may reclaim what the queue holds beyond its share. Absent means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub reclaimable: Option<bool>,
    /// Clusters that jobs of this queue may be forwarded to.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub extend_clusters: Vec<Cluster>,
    /// What is kept free for it.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    pub guarantee: Guarantee,
    /// The groups of nodes its pods may or should use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Affinity")]
    pub affinity: Option<Affinity>,
    /// A free name for a kind of queue.
    #[serde(rename = "type", deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253))]
    pub type_: Option<String>,
    /// The queue whose share it divides with its siblings. Absent means root.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253), regex(pattern = schema::OBJECT_NAME))]
    pub parent: Option<String>,
    /// What it should have when everybody wants more; others may use it meanwhile.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::checked_resource_list")]
    pub deserved: ResourceList,
    /// Higher is served first and reclaimed from last.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub priority: i32,
    /// What happens when its first group does not fit.
    #[serde(deserialize_with = "null_is_default")]
    pub dequeue_strategy: DequeueStrategy,
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            weight: DEFAULT_WEIGHT,
            capability: ResourceList::new(),
            reclaimable: None,
            extend_clusters: Vec::new(),
            guarantee: Guarantee::default(),
            affinity: None,
            type_: None,
            parent: None,
            deserved: ResourceList::new(),
            priority: 0,
            dequeue_strategy: DequeueStrategy::default(),
        }
    }
}

const DEFAULT_WEIGHT: i32 = 1;

/// Zero counts as absent, as in Volcano's admission.
fn weight<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let weight: Option<i32> = Option::deserialize(from)?;
    Ok(weight.filter(|weight| *weight != 0).unwrap_or(DEFAULT_WEIGHT))
}

/// What is kept free for a queue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Guarantee {
    /// The amounts that no other queue may use.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::checked_resource_list")]
    pub resource: ResourceList,
}

/// A cluster that jobs may be forwarded to.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Cluster {
    /// Its name.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its part among the clusters.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub weight: i32,
    /// What it has.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub capacity: ResourceList,
}

/// The groups of nodes that pods of a queue may or should use.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Groups to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeGroupAffinity")]
    pub node_group_affinity: Option<NodeGroupAffinity>,
    /// Groups to avoid.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NodeGroupAffinity")]
    pub node_group_anti_affinity: Option<NodeGroupAffinity>,
}

/// Node groups by name (label volcano.sh/nodegroup-name of a node).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct NodeGroupAffinity {
    /// Groups that decide whether a node can be used.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub required: Vec<String>,
    /// Groups that weigh in a node's score.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<String>,
}

open_enum! {
    /// What happens when the first group of a queue does not fit.
    #[derive(Default)]
    DequeueStrategy {
        /// The groups behind it wait too.
        Fifo = "fifo",
        /// The groups behind it are tried.
        #[default]
        Traverse = "traverse",
    }
}

/// What was observed of a Queue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct QueueStatus {
    /// Whether it takes new groups; absent until the queue controller has seen it.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::or_empty::<QueueState>")]
    pub state: Option<QueueState>,
    /// PodGroups in phase Unknown.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub unknown: i32,
    /// PodGroups in phase Pending.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// PodGroups in phase Running.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub running: i32,
    /// PodGroups in phase Inqueue.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub inqueue: i32,
    /// PodGroups in phase Completed.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub completed: i32,
    /// Nodes locked for the queue.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    pub reservation: Reservation,
    /// What its pods and those of its children use.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub allocated: ResourceList,
}

open_enum! {
    /// Whether a Queue takes new PodGroups.
    QueueState {
        /// It takes new groups.
        Open = "Open",
        /// The queue takes no jobs, and has none.
        Closed = "Closed",
        /// The queue takes no jobs, and still has some.
        Closing = "Closing",
        /// The queue controller could not tell.
        Unknown = "Unknown",
    }
}

/// Nodes locked for a queue.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Reservation {
    /// Their names.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// What is idle on them.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "ResourceList::is_empty")]
    #[schemars(schema_with = "schema::resource_list")]
    pub resource: ResourceList,
}
