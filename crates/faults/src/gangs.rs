//! The objects of a story: nodes, queues, PodGroups and pods.
use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use phalanx_api::v1beta1::{PodGroup, PodGroupSpec, Queue, QueueSpec};
use phalanx_cache::slim;
use serde_json::{Value, json};

use crate::server::{NAMESPACE, Object, Server};
use crate::story::{Gang, Micros};

/// The PriorityClass of gangs of high priority, and its value.
pub const HIGH: (&str, i32) = ("high", 1000);

/// The wall clock of the API server at the begin of a run.
const EPOCH_SECONDS: i64 = 1_750_000_000;

/// The wall time of the API server.
pub fn wall(at: Micros) -> Timestamp {
    Timestamp::from_microsecond(EPOCH_SECONDS * 1_000_000 + at as i64).unwrap_or_default()
}

/// The name of a node.
pub fn node_name(node: usize) -> String {
    format!("node-{node}")
}

/// The name of a PodGroup.
pub fn gang_name(gang: usize) -> String {
    format!("gang-{gang}")
}

/// The name of a pod of a gang.
pub fn pod_name(gang: usize, member: usize) -> String {
    format!("gang-{gang}-{member}")
}

/// The gang and the number of a pod.
pub fn member(pod: &str) -> Option<(usize, usize)> {
    let (gang, member) = pod.strip_prefix("gang-")?.split_once('-')?;
    Some((gang.parse().ok()?, member.parse().ok()?))
}

fn meta(server: &mut Server, name: String, at: Micros) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        uid: Some(server.next_uid()),
        creation_timestamp: Some(Time(wall(at))),
        ..ObjectMeta::default()
    }
}

/// Decodes a part of an object that is written down here; such a part is never wrong.
fn part<T: serde::de::DeserializeOwned + Default>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}

fn cores(cores: u32) -> slim::ResourceList {
    static LISTS: LazyLock<Vec<slim::ResourceList>> =
        LazyLock::new(|| (0..=16).map(|cores| part(json!({"cpu": cores.to_string()}))).collect());
    LISTS.get(cores as usize).cloned().unwrap_or_default()
}

/// The pods of a node.
static PODS: LazyLock<slim::ResourceList> = LazyLock::new(|| part(json!({"pods": "110"})));

/// A node that is ready.
pub fn node(server: &mut Server, node: usize, capacity: u32, at: Micros) {
    let mut metadata = meta(server, node_name(node), at);
    metadata.labels = Some(BTreeMap::from([("kubernetes.io/hostname".to_owned(), node_name(node))]));
    let mut allocatable = cores(capacity);
    allocatable.extend(PODS.clone());
    let ready = slim::Condition { type_: "Ready".into(), status: "True".into(), ..Default::default() };
    let status = slim::NodeStatus { allocatable, conditions: vec![ready], images: Vec::new() };
    server.put(Object::Node(slim::Node { metadata, spec: slim::NodeSpec::default(), status }));
}

/// The queues `default` and `limited`.
pub fn queues(server: &mut Server, limit: u32) {
    for (name, spec) in [
        ("default", json!({"weight": 1})),
        ("limited", json!({"weight": 1, "capability": {"cpu": limit.to_string()}})),
    ] {
        let metadata = meta(server, name.to_owned(), 0);
        let (spec, status) = (part::<QueueSpec>(spec), part(json!({"state": "Open"})));
        server.put(Object::Queue(Queue { metadata, spec, status: Some(status) }));
    }
}

/// The PodGroup of a gang.
pub fn group(server: &mut Server, index: usize, gang: &Gang, at: Micros) {
    let mut metadata = meta(server, gang_name(index), at);
    metadata.namespace = Some(NAMESPACE.to_owned());
    let spec = PodGroupSpec {
        min_member: gang.min as i32,
        queue: if gang.limited { "limited" } else { "default" }.to_owned(),
        priority_class_name: gang.high.then(|| HIGH.0.to_owned()),
        ..PodGroupSpec::default()
    };
    server.put(Object::PodGroup(PodGroup { metadata, spec, status: None }));
}

/// A pod of a gang.
pub fn pod(server: &mut Server, index: usize, number: usize, gang: &Gang, at: Micros) {
    let mut metadata = meta(server, pod_name(index, number), at);
    metadata.namespace = Some(NAMESPACE.to_owned());
    metadata.annotations =
        Some(BTreeMap::from([("scheduling.k8s.io/group-name".to_owned(), gang_name(index))]));
    let container = slim::Container {
        name: "main".to_owned(),
        resources: slim::Resources { requests: cores(gang.cores), ..slim::Resources::default() },
        ..slim::Container::default()
    };
    let spec = slim::PodSpec {
        scheduler_name: Some("volcano".to_owned()),
        priority: Some(if gang.high { HIGH.1 } else { 0 }),
        priority_class_name: gang.high.then(|| HIGH.0.to_owned()),
        containers: vec![container],
        ..slim::PodSpec::default()
    };
    let status = slim::PodStatus { phase: Some("Pending".to_owned()), ..slim::PodStatus::default() };
    server.put(Object::Pod(slim::Pod { metadata, spec, status }));
}

/// Whether a pod uses a node: it has one and has not ended.
pub fn uses_node(pod: &slim::Pod) -> bool {
    pod.spec.node_name.is_some() && !has_ended(pod)
}

/// Whether a pod has ended.
pub fn has_ended(pod: &slim::Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}
