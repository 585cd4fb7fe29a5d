//! Selectors of nodes and pods in a pod.
use std::sync::LazyLock;

use phalanx_cluster::Cluster;
use serde_json::{Map, Value, json};

use crate::world::{cluster_of, node, pod};

/// JSON with `affinity`, `nodeSelector`, `topologySpreadConstraints` or `tolerations`, as the spec of a pod that waits
/// and of one that runs.
pub fn selector(bytes: &[u8]) {
    let Ok(Value::Object(mut spec)) = serde_json::from_slice(bytes) else { return };
    let labels = spec.remove("labels").filter(Value::is_object).unwrap_or_else(|| json!({"app": "web"}));
    let mut cluster = CLUSTER.clone();
    for (name, node) in [("runs", Some("a")), ("waits", None)] {
        if let Some(event) = pod(&object(&spec, &labels, (name, node))) {
            cluster.apply(event);
        }
    }
}

static CLUSTER: LazyLock<Cluster> =
    LazyLock::new(|| cluster_of(["a", "b"].iter().filter_map(|name| node(name))));

fn object(rules: &Map<String, Value>, labels: &Value, (name, node): (&str, Option<&str>)) -> Value {
    let mut spec = rules.clone();
    spec.insert("schedulerName".to_owned(), json!("volcano"));
    spec.insert("containers".to_owned(), json!([{"name": "main"}]));
    spec.insert("nodeName".to_owned(), json!(node));
    json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": labels}, "spec": spec})
}
