//! The simulated API server: objects, versions, a log of changes for each kind, and the requests that the outbox makes.
mod controllers;

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use http::{Method, Request, StatusCode};
use hyper::body::Bytes;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::Job;
use phalanx_api::bus::Command;
use phalanx_api::v1beta1::{PodGroup, PodGroupPhase, PodGroupStatus, Queue, QueueState, QueueStatus};
use phalanx_cache::slim;
use phalanx_runtime::lease::Record;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::gangs::whole_pod;
use crate::story::{KINDS, Micros, Watched};

/// The namespace of all objects.
pub const NAMESPACE: &str = "team";

/// An object of a kind that is watched: etcd, its log and all who read it share it.
#[derive(Clone, Debug)]
pub enum Object {
    /// A pod.
    Pod(Arc<slim::Pod>),
    /// A node.
    Node(Arc<slim::Node>),
    /// A PodGroup.
    PodGroup(Arc<PodGroup>),
    /// A Queue.
    Queue(Arc<Queue>),
    /// A Job.
    Job(Arc<Job>),
    /// A Command.
    Command(Arc<Command>),
}

impl Object {
    fn kind(&self) -> Watched {
        match self {
            Self::Pod(_) => Watched::Pods,
            Self::Node(_) => Watched::Nodes,
            Self::PodGroup(_) => Watched::PodGroups,
            Self::Queue(_) => Watched::Queues,
            Self::Job(_) => Watched::Jobs,
            Self::Command(_) => Watched::Commands,
        }
    }

    fn meta(&mut self) -> &mut ObjectMeta {
        match self {
            Self::Pod(it) => &mut Arc::make_mut(it).metadata,
            Self::Node(it) => &mut Arc::make_mut(it).metadata,
            Self::PodGroup(it) => &mut Arc::make_mut(it).metadata,
            Self::Queue(it) => &mut Arc::make_mut(it).metadata,
            Self::Job(it) => &mut Arc::make_mut(it).metadata,
            Self::Command(it) => &mut Arc::make_mut(it).metadata,
        }
    }
}

/// A change as watches tell it.
#[derive(Clone, Debug)]
pub struct Logged {
    /// The version of the object.
    pub version: u64,
    /// It was deleted.
    pub gone: bool,
    /// The object after the change, or before its deletion.
    pub object: Object,
}

/// What a request has changed that is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing, or a status or event.
    Other,
    /// A pod got a node.
    Bound(String),
    /// A pod was to be bound to another node than the node that it has.
    BoundTwice(String),
    /// A pod was evicted.
    Evicted(String),
    /// The controllers deleted a pod.
    Deleted(String),
    /// A PodGroup was admitted to its queue.
    Admitted(String),
    /// The status of a queue was written, which may be open or closed now.
    Queue(String),
}

/// An answer, and what the request has changed.
pub type Answered = (StatusCode, Bytes, Effect);

/// The API server and etcd.
#[derive(Debug, Default)]
pub struct Server {
    /// Pods by name.
    pub pods: BTreeMap<String, Arc<slim::Pod>>,
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<slim::Node>>,
    /// PodGroups by name.
    pub groups: BTreeMap<String, Arc<PodGroup>>,
    /// Queues by name.
    pub queues: BTreeMap<String, Arc<Queue>>,
    /// Jobs by name.
    pub jobs: BTreeMap<String, Arc<Job>>,
    /// Commands by name.
    pub commands: BTreeMap<String, Arc<Command>>,
    /// The time, for creation timestamps.
    pub now: Micros,
    /// The Leases, by role, and when each was written last.
    pub leases: [(Option<Arc<Record>>, Micros); 2],
    version: u64,
    uids: u64,
    logs: [Vec<Logged>; KINDS],
}

impl Server {
    /// The version of the last change of any object.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The changes of a kind, in order.
    pub fn log(&self, kind: Watched) -> &[Logged] {
        &self.logs[kind as usize]
    }

    /// All objects of a kind, by name.
    pub fn list(&self, kind: Watched) -> Vec<Object> {
        match kind {
            Watched::Pods => self.pods.values().cloned().map(Object::Pod).collect(),
            Watched::Nodes => self.nodes.values().cloned().map(Object::Node).collect(),
            Watched::PodGroups => self.groups.values().cloned().map(Object::PodGroup).collect(),
            Watched::Queues => self.queues.values().cloned().map(Object::Queue).collect(),
            Watched::Jobs => self.jobs.values().cloned().map(Object::Job).collect(),
            Watched::Commands => self.commands.values().cloned().map(Object::Command).collect(),
        }
    }

    /// A UID that no other object has.
    pub fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// Creates or changes an object.
    pub fn put(&mut self, mut object: Object) {
        self.version += 1;
        object.meta().resource_version = Some(self.version.to_string());
        let name = object.meta().name.clone().unwrap_or_default();
        self.write(false, object.clone());
        match object {
            Object::Pod(it) => drop(self.pods.insert(name, it)),
            Object::Node(it) => drop(self.nodes.insert(name, it)),
            Object::PodGroup(it) => drop(self.groups.insert(name, it)),
            Object::Queue(it) => drop(self.queues.insert(name, it)),
            Object::Job(it) => drop(self.jobs.insert(name, it)),
            Object::Command(it) => drop(self.commands.insert(name, it)),
        }
    }

    /// Deletes a pod.
    pub fn delete_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.gone(Object::Pod(pod));
        }
    }

    /// Deletes a PodGroup.
    pub fn delete_group(&mut self, name: &str) {
        if let Some(group) = self.groups.remove(name) {
            self.gone(Object::PodGroup(group));
        }
    }

    /// Deletes a Job.
    pub fn delete_job(&mut self, name: &str) {
        if let Some(job) = self.jobs.remove(name) {
            self.gone(Object::Job(job));
        }
    }

    /// Deletes a node.
    pub fn delete_node(&mut self, name: &str) {
        if let Some(node) = self.nodes.remove(name) {
            self.gone(Object::Node(node));
        }
    }

    fn gone(&mut self, mut object: Object) {
        self.version += 1;
        object.meta().resource_version = Some(self.version.to_string());
        self.write(true, object);
    }

    fn write(&mut self, gone: bool, object: Object) {
        let kind = object.kind();
        self.logs[kind as usize].push(Logged { version: self.version, gone, object });
    }

    /// Changes a pod, if it is there.
    pub fn update_pod(&mut self, name: &str, change: impl FnOnce(&mut slim::Pod)) {
        if let Some(mut pod) = self.pods.get(name).cloned() {
            change(Arc::make_mut(&mut pod));
            self.put(Object::Pod(pod));
        }
    }

    /// Changes a node, if it is there.
    pub fn update_node(&mut self, name: &str, change: impl FnOnce(&mut slim::Node)) {
        if let Some(mut node) = self.nodes.get(name).cloned() {
            change(Arc::make_mut(&mut node));
            self.put(Object::Node(node));
        }
    }

    /// Carries out a request. An error is a request that no API server of this simulation knows.
    pub fn handle(&mut self, request: &Request<Bytes>) -> Result<Answered> {
        let path: Vec<&str> = request.uri().path().trim_start_matches('/').split('/').collect();
        let body = request.body();
        match (request.method(), path.as_slice()) {
            (&Method::GET, ["api", "v1", "namespaces", _, "pods", name]) => Ok(self.read_pod(name)),
            (&Method::POST, ["api", "v1", "namespaces", _, "pods", name, "binding"]) => {
                Ok(self.bind(name, read(body)?))
            }
            (&Method::POST, ["api", "v1", "namespaces", _, "pods", name, "eviction"]) => {
                Ok(self.evict(name, &read(body)?))
            }
            (&Method::PATCH, ["api", "v1", "namespaces", _, "pods", name, "status"]) => {
                Ok(self.patch_pod(name, &read(body)?))
            }
            (&Method::GET, [.., "podgroups", name]) => Ok(self.read_group(name)),
            (&Method::PATCH, [.., "podgroups", name, "status"]) => Ok(self.patch_group(name, read(body)?)),
            (&Method::PATCH, [.., "queues", name, "status"]) => Ok(self.patch_queue(name, read(body)?)),
            (&Method::POST | &Method::PATCH, ["apis", "events.k8s.io", ..]) => Ok(done(&json!({}))),
            (method, path) => self
                .handle_controllers(method, path, request.body())?
                .with_context(|| format!("{method} {} is not simulated", request.uri())),
        }
    }

    fn read_pod(&self, name: &str) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        done(&whole_pod(pod))
    }

    fn bind(&mut self, name: &str, binding: Binding) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        if binding.metadata.uid != pod.metadata.uid {
            return conflict(OTHER_UID);
        }
        let node = binding.target.name;
        if let Some(has) = &pod.spec.node_name {
            let other = *has != node;
            let (status, body, _) = conflict(&format!("pod {name} is already assigned to node {has}"));
            return (status, body, if other { Effect::BoundTwice(name.to_owned()) } else { Effect::Other });
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return conflict(&format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        self.update_pod(name, |pod| pod.spec.node_name = Some(node));
        (StatusCode::CREATED, Bytes::from_static(b"{}"), Effect::Bound(name.to_owned()))
    }

    /// A pod on a node stops first; the kubelet then deletes it.
    fn evict(&mut self, name: &str, eviction: &Eviction) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        if eviction.delete_options.preconditions.uid != pod.metadata.uid {
            return conflict(OTHER_UID);
        }
        (StatusCode::CREATED, Bytes::from_static(b"{}"), Effect::Evicted(name.to_owned()))
    }

    fn patch_pod(&mut self, name: &str, patch: &Patch<Value>) -> Answered {
        let Some(pod) = self.pods.get(name) else { return missing(name) };
        if patch.metadata.uid != pod.metadata.uid {
            return conflict(OTHER_UID);
        }
        self.update_pod(name, |pod| patch_status(pod, &patch.status));
        done(&json!({}))
    }

    fn read_group(&self, name: &str) -> Answered {
        let Some(group) = self.groups.get(name) else { return missing(name) };
        done(&**group)
    }

    fn patch_group(&mut self, name: &str, patch: Patch<PodGroupStatus>) -> Answered {
        let Some(mut group) = self.groups.get(name).cloned() else { return missing(name) };
        let Precondition { uid, resource_version } = patch.metadata;
        if uid != group.metadata.uid {
            return conflict(OTHER_UID);
        }
        if resource_version.is_some() && resource_version != group.metadata.resource_version {
            return conflict(MODIFIED);
        }
        let admitted = phase(group.status.as_ref()) == PodGroupPhase::Pending
            && phase(Some(&patch.status)) == PodGroupPhase::Inqueue;
        Arc::make_mut(&mut group).status = Some(patch.status);
        self.put(Object::PodGroup(group));
        let (status, body, _) = done(&json!({"metadata": {"resourceVersion": self.version.to_string()}}));
        (status, body, if admitted { Effect::Admitted(name.to_owned()) } else { Effect::Other })
    }

    fn patch_queue(&mut self, name: &str, patch: Patch<QueuePatch>) -> Answered {
        let Some(mut queue) = self.queues.get(name).cloned() else { return missing(name) };
        let version = patch.metadata.resource_version;
        if version.is_some() && version != queue.metadata.resource_version {
            return conflict(MODIFIED);
        }
        patch.status.apply(Arc::make_mut(&mut queue).status.get_or_insert_default());
        self.put(Object::Queue(queue));
        let (status, body, _) = done(&*self.queues[name]);
        (status, body, Effect::Queue(name.to_owned()))
    }
}

/// The phase of a PodGroup.
pub fn phase(status: Option<&PodGroupStatus>) -> PodGroupPhase {
    status.and_then(|status| status.phase.clone()).unwrap_or(PodGroupPhase::Pending)
}

/// What a request says of the object that it means.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Precondition {
    uid: Option<String>,
    resource_version: Option<String>,
}

#[derive(Deserialize)]
struct Binding {
    metadata: Precondition,
    target: Target,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Eviction {
    delete_options: DeleteOptions,
}

#[derive(Deserialize)]
struct DeleteOptions {
    preconditions: Precondition,
}

/// A status, and the object that it is for.
#[derive(Deserialize)]
struct Patch<S> {
    #[serde(default)]
    metadata: Precondition,
    status: S,
}

/// A merge patch of a Queue's status: a field that is absent stays. Only an amount may be null, and is removed then.
#[derive(Deserialize)]
struct QueuePatch {
    #[serde(default)]
    allocated: BTreeMap<String, Option<Quantity>>,
    state: Option<QueueState>,
    pending: Option<i32>,
    inqueue: Option<i32>,
    running: Option<i32>,
    unknown: Option<i32>,
    completed: Option<i32>,
}

impl QueuePatch {
    fn apply(self, status: &mut QueueStatus) {
        for (name, amount) in self.allocated {
            match amount {
                Some(amount) => drop(status.allocated.insert(name, amount)),
                None => drop(status.allocated.remove(&name)),
            }
        }
        status.state = self.state.or(status.state.take());
        for (count, field) in [
            (self.pending, &mut status.pending),
            (self.inqueue, &mut status.inqueue),
            (self.running, &mut status.running),
            (self.unknown, &mut status.unknown),
            (self.completed, &mut status.completed),
        ] {
            *field = count.unwrap_or(*field);
        }
    }
}

const OTHER_UID: &str = "the UID in the precondition does not match the UID in record";
const MODIFIED: &str = "the object has been modified";

fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T> {
    serde_json::from_slice(body).context("the body of a request cannot be read")
}

/// A strategic merge patch: conditions are merged by type.
fn patch_status(pod: &mut slim::Pod, patch: &Value) {
    if let Some(node) = patch.get("nominatedNodeName") {
        pod.status.nominated_node_name = node.as_str().map(str::to_owned);
    }
    for condition in patch["conditions"].as_array().into_iter().flatten() {
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        let new = slim::Condition {
            type_: text("type"),
            status: text("status"),
            reason: text("reason"),
            message: condition["message"].as_str().map(str::to_owned),
            last_transition_time: None,
        };
        pod.status.conditions.retain(|old| old.type_ != new.type_);
        pod.status.conditions.push(new);
    }
}

fn done(body: &impl Serialize) -> Answered {
    answer(StatusCode::OK, body)
}

fn answer(status: StatusCode, body: &impl Serialize) -> Answered {
    let body = serde_json::to_vec(body).expect("objects are made of strings and numbers");
    (status, body.into(), Effect::Other)
}

/// An answer that says what is wrong.
pub fn failure(status: StatusCode, message: &str) -> Answered {
    answer(status, &json!({"kind": "Status", "message": message}))
}

fn missing(name: &str) -> Answered {
    failure(StatusCode::NOT_FOUND, &format!("{name} not found"))
}

fn conflict(message: &str) -> Answered {
    failure(StatusCode::CONFLICT, message)
}
