//! What a pod asks of the place it gets, where that cannot be read: the pod waits for a reason, and others go on.
use std::sync::Arc;

use phalanx_cache::Invalid;
use phalanx_cluster::event::{Constraints, PodInfo};
use serde_json::Value;

const FIELDS: [&str; 2] = ["affinity", "topologySpreadConstraints"];

/// Whether a fault of a pod is about affinity or spread.
pub(crate) fn is_of(fault: &Invalid) -> bool {
    let field = fault.field.strip_prefix("spec.").unwrap_or_default();
    FIELDS.iter().any(|name| field.starts_with(name))
}

/// Takes them out of a pod.
pub(crate) fn strip(pod: &mut Value) {
    for name in FIELDS {
        pod["spec"][name].take();
    }
}

/// No node will do for a pod. One that has its node stays.
pub(crate) fn hinder(pod: &mut PodInfo, fault: &Invalid) {
    let unreadable = Some(fault.to_string().into());
    pod.constraints = Arc::new(Constraints { unreadable, ..Constraints::clone(&pod.constraints) });
}
