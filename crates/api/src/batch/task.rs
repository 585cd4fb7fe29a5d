//! Tasks of a Job: pods of one template.

use k8s_openapi::api::core::v1::PodTemplateSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LifecyclePolicy, rules};
use crate::embedded;
use crate::lenient::{is_default, is_zero, non_empty, null_is_default, open_enum};
use crate::v1beta1::NetworkTopologySpec;

/// Pods of one template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::task()))]
pub struct TaskSpec {
    /// The name of the task; absent means "default" and its place in the list.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63), regex(pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"))]
    pub name: String,
    /// How many pods it has.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 100_000))]
    pub replicas: i32,
    /// Pods of the task that are needed before the job starts; absent means all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 0))]
    pub min_available: Option<i32>,
    /// The pods.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    #[schemars(schema_with = "embedded::pod_template")]
    pub template: PodTemplateSpec,
    /// What happens on which event; these go before those of the job.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::policies()))]
    pub policies: Vec<LifecyclePolicy>,
    /// What the pods want of the NUMA nodes of their node.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NumaPolicy")]
    pub topology_policy: Option<NumaPolicy>,
    /// Restarts of containers, of all pods together, after which the task has failed; absent or 0 means 3, -1 never.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = -1))]
    pub max_retry: i32,
    /// Tasks whose pods have to run before those of this one are made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DependsOn")]
    pub depends_on: Option<DependsOn>,
    /// Smaller gangs within the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PartitionPolicySpec")]
    pub partition_policy: Option<PartitionPolicySpec>,
}

open_enum! {
    /// What pods want of the NUMA nodes of their node.
    NumaPolicy {
        /// Nothing.
        None = "none",
        /// As few as there are free.
        BestEffort = "best-effort",
        /// As few as possible, or no start.
        Restricted = "restricted",
        /// One, or no start.
        SingleNumaNode = "single-numa-node",
    }
}

/// Tasks whose pods have to run before those of another are made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct DependsOn {
    /// The names of the tasks.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 63)))]
    pub name: Vec<String>,
    /// Whether all of them have to run, or any; absent means all.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Iteration")]
    pub iteration: Option<Iteration>,
}

open_enum! {
    /// Whether all tasks of a list have to run, or any.
    Iteration {
        /// One is enough.
        Any = "any",
        /// All.
        All = "all",
    }
}

/// How a task is divided into smaller gangs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["totalPartitions", "partitionSize"]))]
pub struct PartitionPolicySpec {
    /// How many.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1))]
    pub total_partitions: i32,
    /// Pods in each.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1))]
    pub partition_size: i32,
    /// How near to each other in the network the pods of one must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NetworkTopologySpec")]
    pub network_topology: Option<NetworkTopologySpec>,
    /// Partitions that are needed before the job starts; 0 means all.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub min_partitions: i32,
}
