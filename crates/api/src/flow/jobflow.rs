//! JobFlow: Jobs one after the other; JobTemplate: what they are made from.

use k8s_openapi::api::core::v1::HTTPHeader;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{JobFlowStatus, rules};
use crate::batch::JobSpec;
use crate::embedded;
use crate::lenient::{is_zero, non_empty, null_is_default, open_enum};

/// Jobs one after the other.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct JobFlow {
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: JobFlowSpec,
    /// What was observed; written through the status subresource.
    pub status: Option<JobFlowStatus>,
}

/// A Job to be made by JobFlows; it has no effect of its own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct JobTemplate {
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What its Jobs ask for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: JobSpec,
    /// What was observed; written through the status subresource.
    pub status: Option<JobTemplateStatus>,
}

/// What was observed of a JobTemplate.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobTemplateStatus {
    /// Jobs that were made from it.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub job_depends_on_list: Vec<String>,
}

/// What a JobFlow asks for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::flows()))]
pub struct JobFlowSpec {
    /// The Jobs.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 128))]
    pub flows: Vec<Flow>,
    /// Whether the Jobs stay when all have completed; absent means that they stay.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "RetainPolicy")]
    pub job_retain_policy: Option<RetainPolicy>,
}

open_enum! {
    /// Whether Jobs stay.
    RetainPolicy {
        /// They stay.
        Retain = "retain",
        /// They are deleted.
        Delete = "delete",
    }
}

/// A Job of a flow.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct Flow {
    /// The JobTemplate; the Job is named FLOW-TEMPLATE.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What has to be before the Job is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FlowDependsOn")]
    pub depends_on: Option<FlowDependsOn>,
    /// What is different from the template.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Patch")]
    pub patch: Option<Patch>,
}

/// What has to be before a Job of a flow is made.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowDependsOn {
    /// Jobs of the flow that have to be completed or, with a probe, to have passed it.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 253)))]
    pub targets: Vec<String>,
    /// What is asked of the targets in place of their completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Probe")]
    pub probe: Option<Probe>,
}

/// What is asked of the targets: all of the lists.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Probe {
    /// Requests that the pods of a task have to answer.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub http_get_list: Vec<HttpGet>,
    /// Ports at which the pods of a task have to listen.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub tcp_socket_list: Vec<TcpSocket>,
    /// Phases in which the pods of a task have to be.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub task_status_list: Vec<TaskStatus>,
}

/// A request that the pods of a task have to answer with a status from 200 to 399.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpGet {
    /// The task.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub task_name: String,
    /// The path.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The port.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
    /// A header of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "embedded::header")]
    pub http_header: Option<HTTPHeader>,
}

/// A port at which the pods of a task have to listen.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["port"]))]
pub struct TcpSocket {
    /// The task.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub task_name: String,
    /// The port.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 65535))]
    pub port: i32,
}

/// A phase in which the pods of a task have to be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskStatus {
    /// The task.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub task_name: String,
    /// The phase of its pods.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub phase: String,
}

/// What is different from the template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Patch {
    /// Fields of a job's spec: a merge patch of that of the template. Lists are replaced whole, tasks by name.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(schema_with = "embedded::metadata")]
    pub job_spec: Value,
}
