//! A few objects around what is read.
use phalanx_cache::{Interner, Names, slim};
use phalanx_cluster::event::Event;
use phalanx_cluster::{Cluster, ClusterOptions};
use serde_json::{Value, json};

/// A cluster after these events.
pub(crate) fn cluster_of(events: impl Iterator<Item = Event>) -> Cluster {
    let mut cluster = Cluster::new(ClusterOptions::default());
    for event in events {
        cluster.apply(event);
    }
    cluster
}

/// A node that is ready.
pub(crate) fn node(name: &str) -> Option<Event> {
    let status = json!({
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    });
    let node: slim::Node =
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {}, "status": status})).ok()?;
    phalanx_cache::node(&node, &mut Interner::default()).ok().map(Event::Node)
}

/// A pod, unless it is refused.
pub(crate) fn pod(object: &Value) -> Option<Event> {
    let pod: slim::Pod = serde_json::from_value(object.clone()).ok()?;
    let info = phalanx_cache::pod(&pod, &Names::default(), &mut Interner::default()).ok()?;
    Some(Event::Pod(Box::new(info)))
}
