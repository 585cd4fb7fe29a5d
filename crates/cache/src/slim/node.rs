//! Nodes and PriorityClasses.

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{Condition, ResourceList, meta, or_default};

/// A node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// As a [`Pod`](super::Pod)'s.
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "or_default")]
    pub spec: NodeSpec,
    /// What was observed.
    #[serde(deserialize_with = "or_default")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeSpec {
    #[serde(deserialize_with = "or_default")]
    pub unschedulable: bool,
    #[serde(deserialize_with = "or_default")]
    pub taints: Vec<Taint>,
}

/// `status` of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub allocatable: ResourceList,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

/// What a priority class name stands for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PriorityClass {
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub value: i32,
    #[serde(deserialize_with = "or_default")]
    pub global_default: bool,
}
