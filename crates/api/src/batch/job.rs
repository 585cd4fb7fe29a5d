//! Job: pods in tasks that start together and are restarted by policies.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{JobStatus, TaskSpec, rules};
use crate::bus::{Action, Event};
use crate::embedded;
use crate::lenient::{is_zero, non_empty, null_is_default};
use crate::v1beta1::{DEFAULT_QUEUE, NetworkTopologySpec, schema};

/// Pods in tasks that start together and are restarted by policies.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: JobSpec,
    /// What was observed; written through the status subresource.
    pub status: Option<JobStatus>,
}

/// What a Job asks for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::job()))]
pub struct JobSpec {
    /// The scheduler of pods whose template names none.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub scheduler_name: String,
    /// Pods that must get a node before any of them starts. Absent or 0 means those of all tasks together.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub min_available: i32,
    /// Volumes that all pods mount.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub volumes: Vec<VolumeSpec>,
    /// The pods, by task.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 128))]
    pub tasks: Vec<TaskSpec>,
    /// What happens on which event; policies of a task go before these.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-validations" = rules::policies()))]
    pub policies: Vec<LifecyclePolicy>,
    /// Job plugins: the name to its arguments.
    #[serde(deserialize_with = "plugins", skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "rules::plugins")]
    pub plugins: BTreeMap<String, Vec<String>>,
    /// How long the job is thought to run. Nothing reads it.
    #[serde(deserialize_with = "crate::lenient::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub running_estimate: Option<Duration>,
    /// The queue whose share the job uses.
    #[serde(deserialize_with = "queue_name")]
    #[schemars(length(max = 253), regex(pattern = schema::OBJECT_NAME))]
    pub queue: String,
    /// Restarts after which the job has failed.
    #[serde(deserialize_with = "max_retry")]
    #[schemars(range(min = 0))]
    pub max_retry: i32,
    /// Seconds from the end of the job to its deletion; absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The PriorityClass of the job, and of pods whose template names none.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253), regex(pattern = schema::OBJECT_NAME))]
    pub priority_class_name: Option<String>,
    /// The job is completed when so many pods have succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32", range(min = 1))]
    pub min_success: Option<i32>,
    /// How near to each other in the network the pods must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NetworkTopologySpec")]
    pub network_topology: Option<NetworkTopologySpec>,
}

/// `maxRetry` of jobs and tasks that say none.
pub const DEFAULT_MAX_RETRY: i32 = 3;

impl Default for JobSpec {
    fn default() -> Self {
        Self {
            scheduler_name: String::new(),
            min_available: 0,
            volumes: Vec::new(),
            tasks: Vec::new(),
            policies: Vec::new(),
            plugins: BTreeMap::new(),
            running_estimate: None,
            queue: DEFAULT_QUEUE.to_owned(),
            max_retry: DEFAULT_MAX_RETRY,
            ttl_seconds_after_finished: None,
            priority_class_name: None,
            min_success: None,
            network_topology: None,
        }
    }
}

fn queue_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(non_empty(from)?.unwrap_or_else(|| DEFAULT_QUEUE.to_owned()))
}

/// Zero counts as absent, as in Volcano's admission.
fn max_retry<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    let count: Option<i32> = Option::deserialize(from)?;
    Ok(count.filter(|count| *count != 0).unwrap_or(DEFAULT_MAX_RETRY))
}

/// `svc:` without a list is the plugin without arguments.
fn plugins<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<String>>, D::Error> {
    let found: Option<BTreeMap<String, Option<Vec<String>>>> = Option::deserialize(from)?;
    Ok(found.into_iter().flatten().map(|(name, arguments)| (name, arguments.unwrap_or_default())).collect())
}

/// A volume that all pods of a job mount.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["mountPath"]), extend("x-kubernetes-validations" = rules::volume()))]
pub struct VolumeSpec {
    /// Where it is mounted in each container.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[^:]+$"))]
    pub mount_path: String,
    /// An existing claim.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253), regex(pattern = schema::OBJECT_NAME))]
    pub volume_claim_name: Option<String>,
    /// A claim that is made for the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embedded::claim")]
    pub volume_claim: Option<PersistentVolumeClaimSpec>,
}

/// What happens on an event, or when a container ends with an exit code.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::policy()))]
pub struct LifecyclePolicy {
    /// What is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::policy_action")]
    pub action: Option<Action>,
    /// The event that it answers.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::policy_event")]
    pub event: Option<Event>,
    /// The events that it answers.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::policy_events")]
    pub events: Vec<Event>,
    /// The exit code of the first container that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub exit_code: Option<i32>,
    /// How long after the event it is done; a pod that runs by then ends the wait.
    #[serde(deserialize_with = "crate::lenient::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub timeout: Option<Duration>,
}
