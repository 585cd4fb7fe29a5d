//! PodDisruptionBudgets and ResourceQuotas.

use serde::{Deserialize, Serialize};

use super::{Key, Resources};
use crate::label::Selector;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PdbInfo {
    /// Name.
    pub key: Key,
    /// `selector`; without one the budget selects no pod.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`; 0 while the controller has not observed the current generation.
    pub allowed: u32,
    /// Whether unready pods may be evicted whatever the budget allows: by `unhealthyPodEvictionPolicy` and the healthy
    /// pods.
    pub frees_unready: bool,
}

/// A ResourceQuota without scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaInfo {
    /// Name.
    pub key: Key,
    /// `status.hard`, or `spec.hard` while there is no status.
    pub hard: Resources,
    /// `status.used`.
    pub used: Resources,
}
