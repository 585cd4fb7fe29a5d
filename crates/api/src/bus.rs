//! `bus.volcano.sh/v1alpha1`: [`Command`], and the actions and events of lifecycle policies.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::embedded;
use crate::lenient::{null_is_default, open_enum};

/// The API group.
pub const GROUP: &str = "bus.volcano.sh";
/// The only version.
pub const VERSION: &str = "v1alpha1";

/// What somebody wants done with a Job or Queue, once. It is deleted when it was carried out.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Command {
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What is to be done.
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// The Job, in the namespace of the Command, or the Queue.
    pub target: Option<OwnerReference>,
    /// Why, in one word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}

/// The fields of a [`Command`], for its schema.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "the schema is all that is made of it")]
pub(crate) struct CommandFields {
    /// What is to be done: AbortJob, ResumeJob, RestartJob, CompleteJob or TerminateJob for a Job, OpenQueue or CloseQueue
    /// for a Queue.
    #[schemars(schema_with = "commands")]
    action: Option<Action>,
    /// The Job, in the namespace of the Command, or the Queue.
    #[schemars(schema_with = "embedded::owner")]
    target: Option<OwnerReference>,
    /// Why, in one word.
    #[schemars(with = "String")]
    reason: Option<String>,
    /// Why, for people.
    #[schemars(with = "String")]
    message: Option<String>,
}

fn commands(_: &mut SchemaGenerator) -> Schema {
    let actions =
        ["AbortJob", "ResumeJob", "RestartJob", "CompleteJob", "TerminateJob", "OpenQueue", "CloseQueue"];
    json_schema!({ "type": "string", "enum": actions })
}

open_enum! {
    /// What is done with a Job or Queue.
    #[derive(Default)]
    Action {
        /// Its pods are deleted, and made again on ResumeJob only.
        AbortJob = "AbortJob",
        /// All its pods are deleted and made again.
        RestartJob = "RestartJob",
        /// The pods of one task are deleted and made again.
        RestartTask = "RestartTask",
        /// One pod is deleted and made again.
        RestartPod = "RestartPod",
        /// The pods of one partition are deleted and made again.
        RestartPartition = "RestartPartition",
        /// Its pods are deleted for good.
        TerminateJob = "TerminateJob",
        /// Its unfinished pods are deleted, and it counts as completed.
        CompleteJob = "CompleteJob",
        /// An aborted Job goes on.
        ResumeJob = "ResumeJob",
        /// Nothing beyond what is done always.
        #[default]
        SyncJob = "SyncJob",
        /// A Queue takes jobs again.
        OpenQueue = "OpenQueue",
        /// A Queue takes no jobs.
        CloseQueue = "CloseQueue",
    }
}

open_enum! {
    /// What a lifecycle policy answers.
    Event {
        /// Any of those below that users may name, except PodPending.
        Any = "*",
        /// A pod waits; only with a timeout.
        PodPending = "PodPending",
        /// A pod runs. Internal, as OutOfSync and CommandIssued: no policy answers it.
        PodRunning = "PodRunning",
        /// A pod failed.
        PodFailed = "PodFailed",
        /// A pod was deleted before it ended.
        PodEvicted = "PodEvicted",
        /// Some pods run while others have no place.
        Unknown = "Unknown",
        /// All pods of a task succeeded.
        TaskCompleted = "TaskCompleted",
        /// Containers of a task's pods restarted maxRetry times together.
        TaskFailed = "TaskFailed",
        /// An object changed.
        OutOfSync = "OutOfSync",
        /// A Command came.
        CommandIssued = "CommandIssued",
        /// The Job changed. Accepted, and never raised, as in Volcano.
        JobUpdated = "JobUpdated",
    }
}
