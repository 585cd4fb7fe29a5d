//! The status of Kubernetes' own PodGroups: conditions only, which a strategic merge patch replaces by type.
use http::{Method, Request};
use hyper::body::Bytes;
use phalanx_api::names::KUBERNETES_POD_GROUP_PREFIX;
use phalanx_cache::{PHASE, POD_GROUP_SCHEDULED, counts_text};
use phalanx_cluster::event::{Condition, Key};
use serde_json::{Value, json};

use super::request::{Moment, STRATEGIC, seconds, send, timestamp};
use super::status::GroupWrite;

/// The path of a PodGroup, if it is Kubernetes' own.
pub(super) fn path(group: &Key) -> Option<String> {
    let name = group.name.strip_prefix(KUBERNETES_POD_GROUP_PREFIX)?;
    Some(format!("/apis/scheduling.k8s.io/v1alpha2/namespaces/{}/podgroups/{name}", group.namespace))
}

/// The request that writes the status to the PodGroup at `path`.
pub(super) fn status(write: &GroupWrite, path: &str, moment: Moment) -> Result<Request<Bytes>, http::Error> {
    let kept = json!({
        "type": PHASE,
        "status": "True",
        "reason": write.status.phase.as_str(),
        "message": counts_text(&write.status),
        "lastTransitionTime": seconds(moment.wall_at(write.decided)),
    });
    let conditions: Vec<Value> = write.status.conditions.iter().filter_map(scheduled).chain([kept]).collect();
    let body = json!({"metadata": {"uid": write.uid}, "status": {"conditions": conditions}});
    send(Method::PATCH, format!("{path}/status"), STRATEGIC, &body)
}

/// One of Volcano's two conditions as `PodGroupScheduled`.
fn scheduled(condition: &Condition) -> Option<Value> {
    let (status, reason) = match &*condition.kind {
        Condition::SCHEDULED => ("True", "Scheduled"),
        Condition::UNSCHEDULABLE => ("False", &*condition.reason),
        _ => return None,
    };
    Some(json!({
        "type": POD_GROUP_SCHEDULED,
        "status": status,
        "reason": reason,
        "message": condition.message,
        "lastTransitionTime": timestamp(condition.since),
    }))
}
