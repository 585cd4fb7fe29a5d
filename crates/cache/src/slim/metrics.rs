//! What the metrics API says of nodes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::Deserialize;

use super::{ResourceList, meta, or_default};

/// The use of a node (`metrics.k8s.io/v1beta1`).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeMetrics {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    pub timestamp: Option<Time>,
    #[serde(deserialize_with = "or_default")]
    pub window: String,
    #[serde(deserialize_with = "or_default")]
    pub usage: ResourceList,
}
