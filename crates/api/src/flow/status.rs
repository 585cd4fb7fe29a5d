//! What was observed of a JobFlow.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::batch::{JobPhase, TaskState};
use crate::lenient::{is_zero, null_is_default, open_enum};

/// What was observed of a JobFlow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobFlowStatus {
    /// Jobs in phase Pending.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub pending_jobs: Vec<String>,
    /// Jobs in phase Running.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub running_jobs: Vec<String>,
    /// Jobs in phase Failed.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub failed_jobs: Vec<String>,
    /// Jobs in phase Completed.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub completed_jobs: Vec<String>,
    /// Jobs in phase Terminated.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub terminated_jobs: Vec<String>,
    /// Jobs in other phases.
    #[serde(
        rename = "unKnowJobs",
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub unknown_jobs: Vec<String>,
    /// Each Job so far.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub job_status_list: Vec<FlowJobStatus>,
    /// Each Job that exists.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, FlowCondition>,
    /// How far the flow has come.
    #[serde(deserialize_with = "null_is_default")]
    pub state: FlowState,
}

/// How far a JobFlow has come.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct FlowState {
    /// How far.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FlowPhase")]
    pub phase: Option<FlowPhase>,
}

open_enum! {
    /// How far a JobFlow has come.
    FlowPhase {
        /// All Jobs have completed.
        Succeed = "Succeed",
        /// It is being deleted.
        Terminating = "Terminating",
        /// A Job has failed.
        Failed = "Failed",
        /// Jobs run.
        Running = "Running",
        /// No Job runs yet.
        Pending = "Pending",
    }
}

/// A Job of a flow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowJobStatus {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub state: Option<JobPhase>,
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub start_timestamp: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub end_timestamp: Option<Time>,
    /// How often it was restarted.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub restart_count: i32,
    /// The phases so far.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub running_histories: Vec<JobRunningHistory>,
}

/// A phase of a Job of a flow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobRunningHistory {
    /// When it was first seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub start_timestamp: Option<Time>,
    /// When the next one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub end_timestamp: Option<Time>,
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub state: Option<JobPhase>,
}

/// A Job of a flow that exists.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowCondition {
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub phase: Option<JobPhase>,
    /// When it was made.
    #[serde(rename = "createTime", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub create_timestamp: Option<Time>,
    /// From its creation to its end.
    #[serde(deserialize_with = "crate::lenient::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub running_duration: Option<Duration>,
    /// The number of pods of each task, by phase.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub task_status_count: BTreeMap<String, TaskState>,
}
