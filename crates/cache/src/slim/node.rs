//! Nodes and PriorityClasses.

use std::fmt;

use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

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
    #[serde(deserialize_with = "or_default")]
    pub images: Vec<Image>,
}

/// A container image that is on a node, by all of its names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct Image {
    #[serde(deserialize_with = "or_default")]
    pub names: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub size_bytes: i64,
}

/// What a priority class name stands for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(missing_docs, reason = "Kubernetes' own fields")]
pub struct PriorityClass {
    #[serde(deserialize_with = "meta::slim")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "priority")]
    pub value: i32,
    #[serde(deserialize_with = "or_default")]
    pub global_default: bool,
}

/// A priority; null counts as absent.
fn priority<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    from.deserialize_any(Priority)
}

/// Says what a user may write. Kubernetes' own classes are above that, so all that fits is taken.
struct Priority;

impl Visitor<'_> for Priority {
    type Value = i32;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an integer of at most 1000000000")
    }

    fn visit_unit<E: Error>(self) -> Result<i32, E> {
        Ok(0)
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_type(Unexpected::Signed(value), &self))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<i32, E> {
        i32::try_from(value).map_err(|_| E::invalid_type(Unexpected::Unsigned(value), &self))
    }
}
