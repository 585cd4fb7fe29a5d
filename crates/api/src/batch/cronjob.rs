//! CronJob: Jobs by the clock.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{JobSpec, rules};
use crate::embedded;
use crate::lenient::{is_default, null_is_default, open_enum};

/// Jobs by the clock.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct CronJob {
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: CronJobSpec,
    /// What was observed; written through the status subresource.
    pub status: Option<CronJobStatus>,
}

/// What a CronJob asks for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["schedule", "jobTemplate"]))]
pub struct CronJobSpec {
    /// When, in cron's five fields, or @hourly, @daily, @weekly, @monthly, @yearly.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "rules::schedule")]
    pub schedule: String,
    /// The time zone of the schedule; absent means UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "rules::time_zone")]
    pub time_zone: Option<String>,
    /// So many seconds after its time a Job is not started any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,
    /// What happens when the Job before still runs.
    #[serde(deserialize_with = "null_is_default")]
    pub concurrency_policy: ConcurrencyPolicy,
    /// No Jobs are started while it is true.
    #[serde(deserialize_with = "null_is_default")]
    pub suspend: bool,
    /// The Jobs.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    pub job_template: JobTemplateSpec,
    /// Completed Jobs that are kept.
    #[serde(deserialize_with = "three")]
    #[schemars(range(min = 0))]
    pub successful_jobs_history_limit: i32,
    /// Failed Jobs that are kept.
    #[serde(deserialize_with = "one")]
    #[schemars(range(min = 0))]
    pub failed_jobs_history_limit: i32,
}

impl Default for CronJobSpec {
    fn default() -> Self {
        Self {
            schedule: String::new(),
            time_zone: None,
            starting_deadline_seconds: None,
            concurrency_policy: ConcurrencyPolicy::Allow,
            suspend: false,
            job_template: JobTemplateSpec::default(),
            successful_jobs_history_limit: 3,
            failed_jobs_history_limit: 1,
        }
    }
}

fn three<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(3))
}

fn one<'de, D: serde::Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(1))
}

open_enum! {
    /// What happens when the Job before still runs.
    #[derive(Default)]
    ConcurrencyPolicy {
        /// Both run.
        #[default]
        Allow = "Allow",
        /// The new one is left out.
        Forbid = "Forbid",
        /// The old one is deleted.
        Replace = "Replace",
    }
}

/// The Jobs of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct JobTemplateSpec {
    /// Their labels and annotations.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    #[schemars(schema_with = "embedded::metadata")]
    pub metadata: ObjectMeta,
    /// What they ask for.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_default")]
    pub spec: JobSpec,
}

/// What was observed of a CronJob.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    /// Jobs that run.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(schema_with = "embedded::references")]
    pub active: Vec<ObjectReference>,
    /// The scheduled time of the last Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub last_schedule_time: Option<Time>,
    /// When a Job last completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub last_successful_time: Option<Time>,
}
