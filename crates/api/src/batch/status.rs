//! What was observed of a Job.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::{non_empty, null_is_default, open_enum};
use crate::v1beta1::schema;

/// What was observed of a Job. The counts are of pods that exist, by phase.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// How far the job has come.
    #[serde(deserialize_with = "null_is_default")]
    pub state: JobState,
    /// Pods that must get a node before any of them starts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub min_available: i32,
    /// The number of pods of each task, by phase.
    #[serde(deserialize_with = "null_is_default")]
    pub task_status_count: BTreeMap<String, TaskState>,
    /// Pods that wait.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// Pods that run.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub running: i32,
    /// Pods that succeeded.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub failed: i32,
    /// Pods that are being deleted.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub terminating: i32,
    /// Pods of which nothing is known.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub unknown: i32,
    /// Counted up whenever all pods are deleted: those of an earlier version count no more.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub version: i32,
    /// How often the job or a part of it was restarted.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub retry_count: i32,
    /// From the creation of the job to its end.
    #[serde(deserialize_with = "crate::lenient::optional_duration", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub running_duration: Option<Duration>,
    /// What plugins made for the job, its claims, and what the controller has to remember.
    #[serde(deserialize_with = "null_is_default")]
    pub controlled_resources: BTreeMap<String, String>,
    /// The phases so far, each with the time when it last began.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<JobCondition>,
}

/// How far a Job has come, and why.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobState {
    /// How far.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::or_empty::<JobPhase>")]
    pub phase: Option<JobPhase>,
    /// Why, in one word.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the phase began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub last_transition_time: Option<Time>,
}

open_enum! {
    /// How far a Job has come.
    #[derive(Default)]
    JobPhase {
        /// It waits for its pods to run.
        #[default]
        Pending = "Pending",
        /// Its pods are being deleted, and made again on ResumeJob only.
        Aborting = "Aborting",
        /// They are gone.
        Aborted = "Aborted",
        /// As many pods as it needs run or ran.
        Running = "Running",
        /// Pods are being deleted and made again.
        Restarting = "Restarting",
        /// Its pods are being deleted, since it has what it wanted.
        Completing = "Completing",
        /// It has what it wanted.
        Completed = "Completed",
        /// Its pods are being deleted for good.
        Terminating = "Terminating",
        /// They are gone.
        Terminated = "Terminated",
        /// Too few pods succeeded, or it was restarted too often.
        Failed = "Failed",
    }
}

/// The pods of a task.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct TaskState {
    /// Their number in each phase.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: BTreeMap<String, i32>,
}

/// A phase that a Job has been in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["status"]))]
pub struct JobCondition {
    /// The phase.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "String")]
    pub status: JobPhase,
    /// When it last began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub last_transition_time: Option<Time>,
}
