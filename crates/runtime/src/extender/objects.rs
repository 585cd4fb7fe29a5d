//! Kubernetes objects as far as the Cluster knows them.
use phalanx_cluster::event::{Taint, TaintEffect, Time};
use phalanx_cluster::id::{NodeId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_resource::Amounts;
use serde_json::{Map, Value, json};

/// A resource list.
pub(super) fn resources(cluster: &Cluster, amounts: &Amounts) -> Value {
    Value::Object(
        cluster.render(amounts).into_iter().map(|(name, text)| (name.to_string(), json!(text))).collect(),
    )
}

/// RFC 3339, as metav1.Time is written; null for a time that is not known.
pub(super) fn time(time: Time) -> Value {
    let known = jiff::Timestamp::from_millisecond(time.0).ok().filter(|_| time.0 > 0);
    known.map_or(Value::Null, |time| json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()))
}

/// A v1.Pod. Its one container requests all that the pod does; extended resources are limits too, as they always are.
pub(super) fn pod(cluster: &Cluster, id: TaskId) -> Value {
    let task = &cluster.tasks[id];
    let mut requests = cluster.request_of(id).clone();
    requests.set(phalanx_resource::DimId::PODS, 0);
    let extended = requests.iter().filter(|(dim, _)| cluster.dims.name(*dim).contains('/')).collect();
    let labels: Map<String, Value> =
        task.details.labels.iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect();
    let job = task.job.map(|job| &cluster.jobs[job]);
    let group = job.filter(|job| job.kind == phalanx_cluster::JobKind::Group);
    let annotations =
        group.map_or_else(|| json!({}), |job| json!({"scheduling.k8s.io/group-name": job.key.name}));
    let node = task.node.map(|node| &cluster.nodes[node].name);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": task.pod.name, "namespace": task.pod.namespace, "uid": task.pod.uid,
            "labels": labels, "annotations": annotations, "creationTimestamp": time(task.details.created),
        },
        "spec": {
            "nodeName": node.filter(|_| is_bound(task.status)),
            "priority": task.priority,
            "containers": [{
                "name": "all",
                "resources": {
                    "requests": resources(cluster, &requests), "limits": resources(cluster, &extended),
                },
            }],
        },
        "status": {"phase": phase(task.status), "nominatedNodeName": task.written.nominated},
    })
}

fn is_bound(status: Status) -> bool {
    matches!(status, Status::Bound | Status::Running | Status::Releasing)
}

fn phase(status: Status) -> &'static str {
    match status {
        Status::Running | Status::Releasing => "Running",
        Status::Succeeded => "Succeeded",
        Status::Failed => "Failed",
        Status::Unknown => "Unknown",
        Status::Pending | Status::Allocated | Status::Pipelined | Status::Binding | Status::Bound => {
            "Pending"
        }
    }
}

/// A v1.Node.
pub(super) fn node(cluster: &Cluster, id: NodeId) -> Value {
    let node = &cluster.nodes[id];
    let labels: Map<String, Value> =
        node.labels.iter().map(|(key, value)| (key.to_string(), json!(&**value))).collect();
    let allocatable = resources(cluster, &node.allocatable);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels},
        "spec": {"unschedulable": node.unschedulable, "taints": node.taints.iter().map(taint).collect::<Vec<_>>()},
        "status": {
            "allocatable": &allocatable, "capacity": &allocatable,
            "conditions": [{"type": "Ready", "status": if node.ready { "True" } else { "False" }}],
        },
    })
}

fn taint(taint: &Taint) -> Value {
    let effect = match taint.effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    };
    json!({"key": taint.key, "value": taint.value, "effect": effect})
}
