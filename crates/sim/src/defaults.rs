//! What an API server, or a kubelet that reports its node, would have filled in.
use serde_json::{Map, Value, json};

/// The pods a kubelet takes when nobody told it otherwise.
const PODS_DEFAULT: &str = "110";

/// Completes a Pod: requests default to limits, and host ports to container ports on the host's network.
pub(crate) fn pod(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    if let Some(resources) = spec.get_mut("resources") {
        requests_from_limits(resources);
    }
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(resources) = container.get_mut("resources") {
                requests_from_limits(resources);
            }
            if host_network {
                host_ports(container);
            }
        }
    }
}

fn requests_from_limits(resources: &mut Value) {
    let Some(resources) = resources.as_object_mut() else { return };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else { return };
    if let Value::Object(requests) = slot(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

fn host_ports(container: &mut Value) {
    let ports = container.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(number) = port.get("containerPort").cloned() {
            port.entry("hostPort").or_insert(number);
        }
    }
}

/// Completes a Node: allocatable defaults to capacity, a kubelet reports its host name, takes 110 pods and is ready.
pub(crate) fn node(node: &mut Value) {
    let Some(node) = node.as_object_mut() else { return };
    if let Value::Object(metadata) = slot(node, "metadata")
        && let Some(name) = metadata.get("name").cloned()
        && let Value::Object(labels) = slot(metadata, "labels")
    {
        labels.entry("kubernetes.io/hostname").or_insert(name);
    }
    if let Value::Object(status) = slot(node, "status") {
        node_status(status);
    }
}

fn node_status(status: &mut Map<String, Value>) {
    let capacity = status.get("capacity").cloned();
    let allocatable = slot(status, "allocatable");
    if let (Value::Object(allocatable), Some(Value::Object(capacity))) = (&mut *allocatable, capacity)
        && allocatable.is_empty()
    {
        *allocatable = capacity;
    }
    if let Value::Object(allocatable) = allocatable {
        allocatable.entry("pods").or_insert_with(|| json!(PODS_DEFAULT));
    }
    if status.get("conditions").is_none_or(Value::is_null) {
        status.insert("conditions".into(), json!([]));
    }
    if let Some(Value::Array(conditions)) = status.get_mut("conditions")
        && !conditions.iter().any(|condition| condition["type"] == "Ready")
    {
        conditions.push(json!({"type": "Ready", "status": "True"}));
    }
}

/// The value under a key, an empty mapping when there is none or null.
fn slot<'v>(map: &'v mut Map<String, Value>, key: &str) -> &'v mut Value {
    let value = map.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = json!({});
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_host_ports_are_filled_in_and_nothing_is_overwritten() {
        let mut value = json!({"spec": {"hostNetwork": true, "containers": [
            {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}},
             "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]},
            {"resources": {"limits": {"nvidia.com/gpu": 1}, "requests": null}},
            {"name": "plain"}]}});
        pod(&mut value);
        let containers = &value["spec"]["containers"];
        assert_eq!(containers[0]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(containers[0]["ports"][0]["hostPort"], 80);
        assert_eq!(containers[0]["ports"][1]["hostPort"], 82);
        assert_eq!(containers[1]["resources"]["requests"], json!({"nvidia.com/gpu": 1}));
        assert_eq!(containers[2], json!({"name": "plain"}));
    }

    #[test]
    fn a_bare_node_is_ready_and_takes_pods() {
        let mut bare = json!({"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": 4}}});
        node(&mut bare);
        assert_eq!(bare["status"]["allocatable"], json!({"cpu": 4, "pods": "110"}));
        assert_eq!(bare["status"]["conditions"][0]["status"], "True");
        assert_eq!(bare["metadata"]["labels"]["kubernetes.io/hostname"], "n1");
        let mut told = json!({"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "h"}}, "status": {
            "allocatable": {"pods": 5}, "capacity": {"pods": 9},
            "conditions": [{"type": "Ready", "status": "False"}]}});
        let before = told.clone();
        node(&mut told);
        assert_eq!(told, before);
    }

    #[test]
    fn wrong_types_are_left_for_the_reader_to_report() {
        for mut value in [json!({"spec": 3}), json!({"spec": {"containers": {"a": [1]}}}), json!([1])] {
            let before = value.clone();
            pod(&mut value);
            assert_eq!(value, before);
        }
        let mut value = json!({"metadata": 1, "status": "up"});
        node(&mut value);
        assert_eq!(value, json!({"metadata": 1, "status": "up"}));
    }
}
