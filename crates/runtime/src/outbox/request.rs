//! Work as HTTP requests, with bodies written once.
use std::time::Instant;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request};
use hyper::body::Bytes;
use phalanx_cluster::event::{Condition, GroupStatus, Key, PodRef, Time};
use phalanx_core::decision::{Binding, VolumeBinding};
use serde::Serialize;
use serde_json::{Value, json};

use super::kubernetes_group;
use super::status::{GroupWrite, PodPatch, QueuePatch, Write};
use super::{Job, PvcWrite, Work};
use crate::recorder::{self, Posting};

/// The settings of all requests.
#[derive(Clone, Debug)]
pub struct Context {
    /// The PodGroup resource has a status subresource (Volcano's has none).
    pub pod_group_status: bool,
    /// Reporting controller of events.
    pub controller: String,
    /// Reporting instance of events.
    pub instance: String,
}

pub(crate) const JSON: &str = "application/json";
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(super) const STRATEGIC: &str = "application/strategic-merge-patch+json";
const GROUP: &str = "/apis/scheduling.volcano.sh/v1beta1";

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// On the monotonic clock.
    pub instant: Instant,
    /// On the wall clock.
    pub wall: jiff::Timestamp,
}

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self { instant: Instant::now(), wall: jiff::Timestamp::now() }
    }

    /// Another moment as wall time.
    pub fn wall_at(self, at: Instant) -> jiff::Timestamp {
        let (before, after) =
            (self.instant.saturating_duration_since(at), at.saturating_duration_since(self.instant));
        self.wall.checked_sub(before).and_then(|wall| wall.checked_add(after)).unwrap_or(self.wall)
    }
}

/// The request of a job, as it is sent at this moment.
pub fn build(job: &Job, context: &Context, moment: Moment) -> Result<Request<Bytes>, http::Error> {
    match &job.work {
        Work::Bind(binding) => bind(binding),
        Work::Settle(settle) => get_pod(&settle.binding.pod),
        Work::Pvc(write) => pvc(write),
        Work::Evict(eviction) => evict(&eviction.pod),
        Work::OpenGate(pod) => open_gate(pod),
        Work::Write(write) => status(write, context, moment),
        Work::Post(posting) => event(posting, (&context.controller, &context.instance), moment),
    }
}

/// Reads the pod, to learn the outcome of a bind.
pub fn get_pod(pod: &PodRef) -> Result<Request<Bytes>, http::Error> {
    Request::get(pod_path(pod, "")).body(Bytes::new())
}

/// The PodGroup itself.
pub fn get_pod_group(group: &Key) -> Result<Request<Bytes>, http::Error> {
    Request::get(pod_group_path(group)).body(Bytes::new())
}

fn pod_group_path(group: &Key) -> String {
    let volcano = || format!("{GROUP}/namespaces/{}/podgroups/{}", group.namespace, group.name);
    kubernetes_group::path(group).unwrap_or_else(volcano)
}

fn pod_path(pod: &PodRef, subresource: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{}{subresource}", pod.namespace, pod.name)
}

pub(crate) fn send(
    method: Method,
    path: String,
    content: &'static str,
    body: &impl Serialize,
) -> Result<Request<Bytes>, http::Error> {
    let body = serde_json::to_vec(body).expect("bodies are made of strings and numbers");
    let content = HeaderValue::from_static(content);
    Request::builder().method(method).uri(path).header(CONTENT_TYPE, content).body(body.into())
}

/// `v1.Binding`. Written without a tree of values: there are as many of them as pods.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMeta<'a>,
    target: BindingTarget<'a>,
}

/// The UID is a precondition: a successor of the same name is not bound.
#[derive(Serialize)]
struct BindingMeta<'a> {
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingTarget<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

fn bind(binding: &Binding) -> Result<Request<Bytes>, http::Error> {
    let pod = &binding.pod;
    let body = BindingBody {
        api_version: "v1",
        kind: "Binding",
        metadata: BindingMeta { namespace: &pod.namespace, name: &pod.name, uid: &pod.uid },
        target: BindingTarget { api_version: "v1", kind: "Node", name: &binding.node },
    };
    send(Method::POST, pod_path(pod, "/binding"), JSON, &body)
}

/// The gate is the pod's only one, and none can be added to a pod.
fn open_gate(pod: &PodRef) -> Result<Request<Bytes>, http::Error> {
    let body = json!({"metadata": {"uid": &*pod.uid}, "spec": {"schedulingGates": null}});
    send(Method::PATCH, pod_path(pod, ""), MERGE, &body)
}

/// The node for which a claim's volume is to be made.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Tells the volume controller that the claim was not written into the volume by hand.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";

/// Names the volume of a claim, or the node for which the volume is to be provisioned.
fn pvc(write: &PvcWrite) -> Result<Request<Bytes>, http::Error> {
    let VolumeBinding { claim, uid, volume, made_of: _ } = &*write.claim;
    let (namespace, name) = (&*claim.namespace, &*claim.name);
    let Some(volume) = volume else {
        let annotations = json!({SELECTED_NODE: &*write.binding.node});
        let body = json!({"metadata": {"uid": &**uid, "annotations": annotations}});
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        return send(Method::PATCH, path, MERGE, &body);
    };
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": namespace, "name": name, "uid": &**uid,
    });
    let metadata = json!({
        "resourceVersion": write.version.as_deref(), "annotations": {BOUND_BY_CONTROLLER: "yes"},
    });
    let body = json!({"metadata": metadata, "spec": {"claimRef": reference}});
    send(Method::PATCH, format!("/api/v1/persistentvolumes/{volume}"), MERGE, &body)
}

fn evict(pod: &PodRef) -> Result<Request<Bytes>, http::Error> {
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": pod.namespace, "name": pod.name},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    });
    send(Method::POST, pod_path(pod, "/eviction"), JSON, &body)
}

/// The request of an event; the reporter is the name of a controller, and its instance.
pub(crate) fn event(
    posting: &Posting,
    reporter: (&str, &str),
    moment: Moment,
) -> Result<Request<Bytes>, http::Error> {
    let at = micro_time(moment.wall_at(posting.at()));
    let (namespace, body) = recorder::body(posting, reporter, &at);
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    match posting {
        Posting::Create(..) => send(Method::POST, events, JSON, &body),
        Posting::Series { name, .. } => send(Method::PATCH, format!("{events}/{name}"), MERGE, &body),
    }
}

fn status(write: &Write, context: &Context, moment: Moment) -> Result<Request<Bytes>, http::Error> {
    match write {
        Write::Pod(pod, patch) => {
            let body = json!({"metadata": {"uid": pod.uid}, "status": pod_status(patch, moment)});
            send(Method::PATCH, pod_path(pod, "/status"), STRATEGIC, &body)
        }
        Write::PodGroup(write) => {
            if let Some(path) = kubernetes_group::path(&write.group) {
                return kubernetes_group::status(write, &path, moment);
            }
            let subresource = if context.pod_group_status { "/status" } else { "" };
            let path = pod_group_path(&write.group) + subresource;
            let conditions: Vec<ConditionBody<'_>> =
                write.status.conditions.iter().map(ConditionBody::of).collect();
            group_status(write, path, &conditions)
        }
        Write::Queue(queue, patch) => {
            send(Method::PATCH, format!("{GROUP}/queues/{queue}/status"), MERGE, &queue_status(patch))
        }
    }
}

fn queue_status(patch: &QueuePatch) -> Value {
    let allocated: serde_json::Map<String, Value> =
        patch.allocated.iter().map(|(name, amount)| (name.to_string(), json!(amount))).collect();
    match &patch.open {
        Some(version) => json!({
            "metadata": {"resourceVersion": version}, "status": {"allocated": allocated, "state": "Open"},
        }),
        None => json!({"status": {"allocated": allocated}}),
    }
}

fn pod_status(patch: &PodPatch, moment: Moment) -> Value {
    let mut status = json!({});
    let mut conditions = Vec::new();
    if let Some((reason, message)) = &patch.condition {
        let mut condition = json!({
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
        });
        if patch.transition {
            condition["lastTransitionTime"] = json!(seconds(moment.wall));
        }
        conditions.push(condition);
    }
    if let Some(message) = &patch.disrupted {
        conditions.push(json!({
            "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": message,
            "lastTransitionTime": seconds(moment.wall),
        }));
    }
    if !conditions.is_empty() {
        status["conditions"] = json!(conditions);
    }
    if let Some(node) = &patch.nominated {
        status["nominatedNodeName"] = json!(node);
    }
    status
}

/// The status of a PodGroup that has these conditions beside ours.
pub(super) fn group_status_over(
    write: &GroupWrite,
    path: &str,
    mut others: Vec<Value>,
) -> Result<Request<Bytes>, http::Error> {
    if let Some(path) = kubernetes_group::path(&write.group) {
        return kubernetes_group::status(write, &path, Moment::now());
    }
    let own = write.status.conditions.iter().filter(|condition| Condition::is_own(&condition.kind));
    others.extend(own.map(condition));
    group_status(write, path.to_owned(), &others)
}

/// Written without a tree of values: each gang is written several times.
#[derive(Serialize)]
struct GroupBody<'a, C> {
    metadata: GroupMeta<'a>,
    status: GroupFields<'a, C>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupMeta<'a> {
    uid: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    resource_version: &'a str,
}

/// The fields we own. Zero counts are written as null: Volcano leaves them out.
#[derive(Serialize)]
struct GroupFields<'a, C> {
    phase: &'a str,
    running: Option<u32>,
    succeeded: Option<u32>,
    failed: Option<u32>,
    conditions: &'a [C],
}

fn group_status<C: Serialize>(
    write: &GroupWrite,
    path: String,
    conditions: &[C],
) -> Result<Request<Bytes>, http::Error> {
    let GroupStatus { phase, running, succeeded, failed, .. } = &write.status;
    let count = |count: u32| (count > 0).then_some(count);
    let body = GroupBody {
        metadata: GroupMeta { uid: &write.uid, resource_version: &write.stands },
        status: GroupFields {
            phase: phase.as_str(),
            running: count(*running),
            succeeded: count(*succeeded),
            failed: count(*failed),
            conditions,
        },
    };
    send(Method::PATCH, path, MERGE, &body)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConditionBody<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    status: &'static str,
    reason: &'a str,
    message: &'a str,
    #[serde(rename = "transitionID")]
    transition: &'a str,
    last_transition_time: Option<String>,
}

/// The same beside conditions that were read.
pub(super) fn condition(condition: &Condition) -> Value {
    json!(ConditionBody::of(condition))
}

impl<'a> ConditionBody<'a> {
    fn of(condition: &'a Condition) -> Self {
        Self {
            kind: &condition.kind,
            status: if condition.status { "True" } else { "False" },
            reason: &condition.reason,
            message: &condition.message,
            transition: &condition.transition,
            last_transition_time: timestamp(condition.since),
        }
    }
}

pub(super) fn timestamp(time: Time) -> Option<String> {
    jiff::Timestamp::from_millisecond(time.0).ok().map(seconds)
}

/// RFC 3339 in whole seconds, as metav1.Time is written.
pub(super) fn seconds(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 with six digits, as metav1.MicroTime must be written.
fn micro_time(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
