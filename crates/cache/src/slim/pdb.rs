//! PodDisruptionBudgets.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::Deserialize;

use super::{meta, or_default};

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: PodDisruptionBudgetSpec,
    /// What was observed.
    #[serde(deserialize_with = "or_default")]
    pub status: PodDisruptionBudgetStatus,
}

/// `spec` of a PodDisruptionBudget; its numbers are for its controller.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodDisruptionBudgetSpec {
    pub selector: Option<LabelSelector>,
    pub unhealthy_pod_eviction_policy: Option<String>,
}

/// `status` of a PodDisruptionBudget.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PodDisruptionBudgetStatus {
    #[serde(deserialize_with = "or_default")]
    pub disruptions_allowed: i32,
    #[serde(deserialize_with = "or_default")]
    pub current_healthy: i32,
    #[serde(deserialize_with = "or_default")]
    pub desired_healthy: i32,
    #[serde(deserialize_with = "or_default")]
    pub observed_generation: i64,
}
