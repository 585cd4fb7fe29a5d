//! A node, its taints, and what was measured on it.
use std::sync::Arc;

use phalanx_resource::Quantity;

use super::{Resources, Time};

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// Keeps pods away that do not tolerate it.
    NoSchedule,
    /// Scores the node lower for them.
    PreferNoSchedule,
    /// Keeps them away, and the kubelet evicts those that run.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Arc<str>,
    /// Value; empty when there is none.
    pub value: Arc<str>,
    /// Effect.
    pub effect: TaintEffect,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Hash)]
pub struct NodeInfo {
    /// Name.
    pub name: Arc<str>,
    /// Labels, sorted by key.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Taints.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// Its Ready condition is True.
    pub ready: bool,
    /// `status.allocatable`.
    pub allocatable: Resources,
    /// `status.images`: each name with its size in bytes, sorted by name, none twice.
    pub images: Vec<(Arc<str>, i64)>,
}

/// How much of a resource of a node is in use, as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measure {
    /// That much.
    Amount(Quantity),
    /// Millionths of what the node has.
    Part(u32),
}

/// How much of a node is in use, as it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeUsage {
    /// The node.
    pub node: Arc<str>,
    /// cpu.
    pub cpu: Measure,
    /// Memory.
    pub memory: Measure,
    /// Since when it was measured: pods that came later are not in the figures.
    pub since: Time,
    /// Until when; figures without it do not grow old.
    pub at: Option<Time>,
}
