//! The status that a kubelet writes.

use k8s_openapi::{api::core::v1::Pod, jiff::Timestamp};
use serde_json::{Value, json};

/// Of a pod whose containers all run.
pub(super) fn running(pod: &Pod, now: Timestamp) -> Value {
    let now = seconds(now);
    json!({
        "phase": "Running",
        "startTime": now,
        "conditions": conditions(true, None, &now),
        "containerStatuses": containers(pod, true, &json!({ "running": { "startedAt": now } })),
    })
}

/// Of a pod whose containers all ended with this code.
pub(super) fn ended(pod: &Pod, code: i32, now: Timestamp) -> Value {
    let now = seconds(now);
    let (phase, reason, condition) =
        if code == 0 { ("Succeeded", "Completed", "PodCompleted") } else { ("Failed", "Error", "PodFailed") };
    let terminated = json!({ "exitCode": code, "reason": reason, "finishedAt": now });
    json!({
        "phase": phase,
        "conditions": conditions(false, Some(condition), &now),
        "containerStatuses": containers(pod, false, &json!({ "terminated": terminated })),
    })
}

/// PodScheduled is the binding's and not ours; the server merges conditions by their type.
fn conditions(ready: bool, reason: Option<&str>, now: &str) -> Value {
    let condition = |kind: &str, holds: bool| {
        let status = if holds { "True" } else { "False" };
        let reason = reason.filter(|_| !holds);
        json!({ "type": kind, "status": status, "reason": reason, "lastTransitionTime": now })
    };
    json!([
        condition("PodReadyToStartContainers", ready),
        condition("Initialized", true),
        condition("ContainersReady", ready),
        condition("Ready", ready),
    ])
}

fn containers(pod: &Pod, ready: bool, state: &Value) -> Vec<Value> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let report = |name: &str, image: Option<&str>| {
        json!({
            "name": name,
            "image": image.unwrap_or_default(),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        })
    };
    containers.map(|container| report(&container.name, container.image.as_deref())).collect()
}

/// Kubernetes keeps whole seconds.
fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
