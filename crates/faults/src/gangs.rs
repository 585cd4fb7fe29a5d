//! The objects of a story: nodes, queues, PodGroups, Jobs and pods.
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use phalanx_api::batch::{Job, JobSpec};
use phalanx_api::bus::Command;
use phalanx_api::names::{GROUP_NAME_ANNOTATION, QUEUE_NAME_ANNOTATION};
use phalanx_api::v1beta1::{PodGroup, PodGroupSpec, Queue, QueueSpec, QueueState};
use phalanx_cache::slim;
use serde_json::{Value, json};

use crate::server::{NAMESPACE, Object, Server};
use crate::story::{Gang, MAX_RETRY, Maker, Micros, OnLoss};

/// The PriorityClass of gangs of high priority, and its value.
pub const HIGH: (&str, i32) = ("high", 1000);

/// The wall clock of the API server at the begin of a run.
const EPOCH_SECONDS: i64 = 1_750_000_000;

/// The wall time of the API server.
pub fn wall(at: Micros) -> Timestamp {
    wall_ahead(at, 0)
}

/// The time of a wall clock that is ahead by so many seconds.
pub fn wall_ahead(at: Micros, seconds: i64) -> Timestamp {
    Timestamp::from_microsecond((EPOCH_SECONDS + seconds) * 1_000_000 + at as i64).unwrap_or_default()
}

/// The name of a node.
pub fn node_name(node: usize) -> String {
    format!("node-{node}")
}

/// The name of a gang: that of its Job, or of the PodGroup that the user made.
pub fn gang_name(gang: usize) -> String {
    format!("gang-{gang}")
}

/// The task of all Jobs.
const TASK: &str = "worker";

/// The name of a pod of a gang.
pub fn pod_name(gang: usize, member: usize, maker: Maker) -> String {
    match maker {
        Maker::User | Maker::Owner => format!("gang-{gang}-{member}"),
        Maker::Job(_) => format!("gang-{gang}-{TASK}-{member}"),
    }
}

/// The gang that a Job, a PodGroup or a pod belongs to, by its name.
pub fn gang_of(name: &str) -> Option<usize> {
    let name = name.strip_prefix("podgroup-").unwrap_or(name).strip_prefix("gang-")?;
    name.split('-').next()?.parse().ok()
}

/// The gang and the number of a pod.
pub fn member(pod: &str) -> Option<(usize, usize)> {
    Some((gang_of(pod)?, pod.rsplit('-').next()?.parse().ok()?))
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

/// A node.
pub fn node(server: &mut Server, node: usize, capacity: u32, ready: bool, at: Micros) {
    let mut metadata = meta(server, node_name(node), at);
    metadata.labels = Some(BTreeMap::from([("kubernetes.io/hostname".to_owned(), node_name(node))]));
    let mut allocatable = cores(capacity);
    allocatable.extend(PODS.clone());
    let status = slim::NodeStatus { allocatable, ..slim::NodeStatus::default() };
    let mut node = slim::Node { metadata, spec: slim::NodeSpec::default(), status };
    set_ready(&mut node, ready);
    server.put(Object::Node(Arc::new(node)));
}

/// Sets the condition of a node and the taint that goes with it, as the node controller does.
pub fn set_ready(node: &mut slim::Node, ready: bool) {
    let status = if ready { "True" } else { "Unknown" }.to_owned();
    node.status.conditions = vec![slim::Condition { type_: "Ready".into(), status, ..Default::default() }];
    let taint = |effect: &str| Taint {
        key: "node.kubernetes.io/unreachable".into(),
        effect: effect.into(),
        ..Taint::default()
    };
    node.spec.taints = if ready { Vec::new() } else { vec![taint("NoSchedule"), taint("NoExecute")] };
}

/// Whether a node is there, ready, and not cordoned.
pub fn takes_pods(server: &Server, node: &str) -> bool {
    let is_ready = |it: &slim::Condition| it.type_ == "Ready" && it.status == "True";
    let node = server.nodes.get(node).filter(|node| !node.spec.unschedulable);
    node.is_some_and(|node| node.status.conditions.iter().any(is_ready))
}

/// A Command of the user for a queue.
pub fn command(server: &mut Server, action: &str, queue: &str, at: Micros) {
    let name = format!("command-{}", server.version());
    let mut metadata = meta(server, name, at);
    metadata.namespace = Some(NAMESPACE.to_owned());
    let target = OwnerReference {
        api_version: "scheduling.volcano.sh/v1beta1".to_owned(),
        kind: "Queue".to_owned(),
        name: queue.to_owned(),
        ..OwnerReference::default()
    };
    let command = Command { metadata, action: action.to_owned(), target: Some(target), ..Command::default() };
    server.put(Object::Command(Arc::new(command)));
}

/// The state of a queue.
pub fn is_open(server: &Server, queue: &str) -> bool {
    let state = server.queues.get(queue).and_then(|queue| queue.status.as_ref()?.state.clone());
    state == Some(QueueState::Open)
}

/// The queues `root`, `default` and `limited`.
pub fn queues(server: &mut Server, limit: u32, deserved: u32) {
    for (name, spec) in [
        ("root", json!({"weight": 1})),
        ("default", json!({"weight": 1, "parent": "root"})),
        (
            "limited",
            json!({
                "weight": 1, "parent": "root", "capability": {"cpu": limit.to_string()},
                "deserved": {"cpu": deserved.to_string()},
            }),
        ),
    ] {
        let metadata = meta(server, name.to_owned(), 0);
        let (spec, status) = (part::<QueueSpec>(spec), part(json!({"state": "Open"})));
        server.put(Object::Queue(Arc::new(Queue { metadata, spec, status: Some(status) })));
    }
}

/// The PodGroup of a gang that the user makes.
pub fn group(server: &mut Server, index: usize, gang: &Gang, at: Micros) {
    let mut metadata = meta(server, gang_name(index), at);
    metadata.namespace = Some(NAMESPACE.to_owned());
    let spec = PodGroupSpec {
        min_member: gang.min as i32,
        queue: queue_name(gang).to_owned(),
        priority_class_name: gang.high.then(|| HIGH.0.to_owned()),
        ..PodGroupSpec::default()
    };
    server.put(Object::PodGroup(Arc::new(PodGroup { metadata, spec, status: None })));
}

/// The queue of a gang.
pub fn queue_name(gang: &Gang) -> &'static str {
    if gang.limited { "limited" } else { "default" }
}

/// The Job of a gang.
pub fn job(server: &mut Server, index: usize, gang: &Gang, on_loss: OnLoss, at: Micros) {
    let mut metadata = meta(server, gang_name(index), at);
    metadata.namespace = Some(NAMESPACE.to_owned());
    let action = match on_loss {
        OnLoss::RestartJob => "RestartJob",
        OnLoss::RestartTask => "RestartTask",
        OnLoss::RestartPod => "RestartPod",
    };
    let container = json!({
        "name": "main", "image": "main",
        "resources": {"requests": {"cpu": gang.cores.to_string()}},
    });
    let spec: JobSpec = part(json!({
        "schedulerName": "volcano", "queue": queue_name(gang), "minAvailable": gang.min, "maxRetry": MAX_RETRY,
        "priorityClassName": if gang.high { HIGH.0 } else { "" },
        "policies": [{"events": ["PodFailed", "PodEvicted"], "action": action}],
        "tasks": [{
            "name": TASK, "replicas": gang.size,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }],
    }));
    server.put(Object::Job(Arc::new(Job { metadata, spec, ..Job::default() })));
}

/// What the controllers read of a pod.
pub fn whole_pod(pod: &slim::Pod) -> Pod {
    let spec = PodSpec {
        node_name: pod.spec.node_name.clone(),
        scheduler_name: pod.spec.scheduler_name.clone(),
        priority_class_name: pod.spec.priority_class_name.clone(),
        ..PodSpec::default()
    };
    let status = PodStatus { phase: pod.status.phase.clone(), ..PodStatus::default() };
    Pod { metadata: pod.metadata.clone(), spec: Some(spec), status: Some(status) }
}

/// The PodGroup that a pod names.
pub fn named_group(pod: &slim::Pod) -> Option<&String> {
    pod.metadata.annotations.as_ref()?.get(GROUP_NAME_ANNOTATION)
}

/// An object that makes pods, and of whose kind the controllers know nothing.
fn owner(index: usize) -> OwnerReference {
    OwnerReference {
        api_version: "example.com/v1".to_owned(),
        kind: "Trainer".to_owned(),
        name: gang_name(index),
        uid: gang_name(index),
        controller: Some(true),
        ..OwnerReference::default()
    }
}

/// A pod of a gang that the user makes, or an owner.
pub fn pod(server: &mut Server, index: usize, number: usize, gang: &Gang, at: Micros) {
    let mut metadata = meta(server, pod_name(index, number, Maker::User), at);
    metadata.namespace = Some(NAMESPACE.to_owned());
    let annotation = if gang.maker == Maker::Owner {
        metadata.owner_references = Some(vec![owner(index)]);
        (QUEUE_NAME_ANNOTATION.to_owned(), queue_name(gang).to_owned())
    } else {
        (GROUP_NAME_ANNOTATION.to_owned(), gang_name(index))
    };
    metadata.annotations = Some(BTreeMap::from([annotation]));
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
    server.put(Object::Pod(Arc::new(slim::Pod { metadata, spec, status })));
}

/// Whether a pod uses a node: it has one and has not ended.
pub fn uses_node(pod: &slim::Pod) -> bool {
    pod.spec.node_name.is_some() && !has_ended(pod)
}

/// Whether a pod has ended.
pub fn has_ended(pod: &slim::Pod) -> bool {
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}
