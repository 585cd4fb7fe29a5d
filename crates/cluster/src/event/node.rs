//! A node, its taints and its measured usage.
use std::sync::Arc;

use phalanx_resource::Quantity;
use serde::{Deserialize, Serialize};

use super::{Resources, Time};

/// The effect of a taint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TaintEffect {
    /// Pods that do not tolerate the taint cannot use the node.
    NoSchedule,
    /// The node scores lower for such pods.
    PreferNoSchedule,
    /// Such pods cannot use the node, and running ones are evicted.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Value; empty when there is none.
    pub value: Arc<str>,
    /// Effect.
    pub effect: TaintEffect,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    /// Name.
    pub name: Arc<str>,
    /// Labels, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// The condition Ready is True.
    pub ready: bool,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `status.images`: each name with the size in bytes, sorted by name, without duplicates.
    pub images: Vec<(Arc<str>, i64)>,
}

/// The measured usage of a resource of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Measure {
    /// An amount.
    Amount(Quantity),
    /// Millionths of the node's amount.
    Part(u32),
}

/// The measured usage of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeUsage {
    /// The node.
    pub node: Arc<str>,
    /// cpu.
    pub cpu: Measure,
    /// Memory.
    pub memory: Measure,
    /// The begin of the measurement: the usage of pods that started later is not included.
    pub since: Time,
    /// The end of the measurement; usage without it does not expire.
    pub at: Option<Time>,
}
