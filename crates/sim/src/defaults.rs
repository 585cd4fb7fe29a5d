//! Fields that a kubelet fills in on its node.
use serde_json::{Map, Value, json};

/// The default maximum number of pods of a kubelet.
const PODS_DEFAULT: &str = "110";

/// Completes a Node: allocatable defaults to capacity, the host name to the name, pods to 110, and the node is ready.
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

/// Completes a PersistentVolumeClaim: a claim that names its volume is bound to it.
pub(crate) fn pvc(claim: &mut Value) {
    let named = !claim["spec"]["volumeName"].is_null();
    let Some(claim) = claim.as_object_mut() else { return };
    if let Value::Object(status) = slot(claim, "status")
        && named
    {
        status.entry("phase").or_insert(json!("Bound"));
    }
}

/// The value of a key; an empty mapping if it is missing or null.
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
        let mut value = json!({"metadata": 1, "status": "up"});
        node(&mut value);
        assert_eq!(value, json!({"metadata": 1, "status": "up"}));
    }
}
