//! ResourceQuotas.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{ResourceList, meta, or_default};

/// A ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: ResourceQuotaSpec,
    /// What was observed.
    #[serde(deserialize_with = "or_default")]
    pub status: ResourceQuotaStatus,
}

/// `spec` of a ResourceQuota. Of scopes it counts only that there are any.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct ResourceQuotaSpec {
    #[serde(deserialize_with = "or_default")]
    pub hard: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub scopes: Vec<IgnoredAny>,
    pub scope_selector: Option<IgnoredAny>,
}

/// `status` of a ResourceQuota.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct ResourceQuotaStatus {
    #[serde(deserialize_with = "or_default")]
    pub hard: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub used: ResourceList,
}
