//! Limits that bind pods from outside: budgets for disruption, quotas of namespaces.

use super::{Key, Resources};
use crate::label::Selector;

/// A PodDisruptionBudget.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PdbInfo {
    /// Name.
    pub key: Key,
    /// `selector`; without one no pod is meant.
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`; 0 while its controller has not seen the object as it is.
    pub allowed: u32,
    /// Its pods that are not ready may go whatever it allows, by `unhealthyPodEvictionPolicy` and what is healthy.
    pub frees_unready: bool,
}

/// A ResourceQuota without scopes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct QuotaInfo {
    /// Name.
    pub key: Key,
    /// `status.hard`, or `spec.hard` as long as there is no status.
    pub hard: Resources,
    /// `status.used`.
    pub used: Resources,
}
