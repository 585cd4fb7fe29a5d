//! Invalid affinity or topology spread of a pod: the pod waits with a reason, and others are scheduled.
use std::sync::Arc;

use phalanx_cache::Invalid;
use phalanx_cluster::event::{Constraints, PodInfo};
use serde_json::Value;

const FIELDS: [&str; 2] = ["affinity", "topologySpreadConstraints"];

/// Whether a problem of a pod is about affinity or topology spread.
pub(crate) fn is_of(fault: &Invalid) -> bool {
    let field = fault.field.strip_prefix("spec.").unwrap_or_default();
    FIELDS.iter().any(|name| field.starts_with(name))
}

/// Removes affinity and topology spread of a pod.
pub(crate) fn strip(pod: &mut Value) {
    for name in FIELDS {
        pod["spec"][name].take();
    }
}

/// Makes all nodes infeasible for a pod. A bound pod stays.
pub(crate) fn hinder(pod: &mut PodInfo, fault: &Invalid) {
    let unreadable = Some(fault.to_string().into());
    pod.constraints = Arc::new(Constraints { unreadable, ..Constraints::clone(&pod.constraints) });
}
