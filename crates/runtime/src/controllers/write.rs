//! Changes as HTTP requests, and answers as what is known now.
use std::net::IpAddr;

use http::{HeaderMap, Method, Request, StatusCode};
use hyper::body::Bytes;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use phalanx_api::names::{GROUP_NAME_ANNOTATION, JOB_NAME};
use phalanx_api::{batch, bus, flow, topology, v1beta1};
use phalanx_cache::decode_object;
use phalanx_cluster::event::Key;
use phalanx_controllers::job::JobPod;
use phalanx_controllers::podgroup::PlainPod;
use phalanx_controllers::{Change, Kind, Object, Target};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::store::{Claim, Fact, Seen, SeenPod};
use super::table::Identity;
use crate::outbox::reply::{Problem, Reply, read};
use crate::outbox::request::{JSON, MERGE, send};

/// Where objects of a kind are.
fn place(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::Pod => ("", "v1", "pods"),
        Kind::Service => ("", "v1", "services"),
        Kind::Secret => ("", "v1", "secrets"),
        Kind::ConfigMap => ("", "v1", "configmaps"),
        Kind::Claim => ("", "v1", "persistentvolumeclaims"),
        Kind::NetworkPolicy => ("networking.k8s.io", "v1", "networkpolicies"),
        Kind::PodGroup => (v1beta1::GROUP, v1beta1::VERSION, "podgroups"),
        Kind::Queue => (v1beta1::GROUP, v1beta1::VERSION, "queues"),
        Kind::Job => (batch::GROUP, batch::VERSION, "jobs"),
        Kind::CronJob => (batch::GROUP, batch::VERSION, "cronjobs"),
        Kind::JobFlow => (flow::GROUP, flow::VERSION, "jobflows"),
        Kind::JobTemplate => (flow::GROUP, flow::VERSION, "jobtemplates"),
        Kind::Command => (bus::GROUP, bus::VERSION, "commands"),
        Kind::HyperNode => (topology::GROUP, topology::VERSION, "hypernodes"),
    }
}

/// `apiVersion` and `kind` of objects.
pub(super) fn type_of(kind: Kind) -> (String, &'static str) {
    let name = match kind {
        Kind::Pod => "Pod",
        Kind::Service => "Service",
        Kind::Secret => "Secret",
        Kind::ConfigMap => "ConfigMap",
        Kind::Claim => "PersistentVolumeClaim",
        Kind::NetworkPolicy => "NetworkPolicy",
        Kind::PodGroup => "PodGroup",
        Kind::Queue => "Queue",
        Kind::Job => "Job",
        Kind::CronJob => "CronJob",
        Kind::JobFlow => "JobFlow",
        Kind::JobTemplate => "JobTemplate",
        Kind::Command => "Command",
        Kind::HyperNode => "HyperNode",
    };
    let (group, version, _) = place(kind);
    (if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }, name)
}

fn collection(kind: Kind, namespace: &str) -> String {
    let (group, version, plural) = place(kind);
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if matches!(kind, Kind::Queue | Kind::HyperNode) {
        format!("{root}/{plural}")
    } else {
        format!("{root}/namespaces/{namespace}/{plural}")
    }
}

fn object(kind: Kind, namespace: &str, name: &str) -> String {
    format!("{}/{name}", collection(kind, namespace))
}

fn of(kind: Kind, metadata: &ObjectMeta) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    object(kind, &text(&metadata.namespace), &text(&metadata.name))
}

/// The request that reads an object.
pub(super) fn get(kind: Kind, key: &Key) -> Result<Request<Bytes>, http::Error> {
    Request::get(object(kind, &key.namespace, &key.name)).body(Bytes::new())
}

/// The request of a change; nothing for an event, which is none of these.
pub(super) fn request(change: &Change) -> Result<Option<Request<Bytes>>, http::Error> {
    let request = match change {
        Change::Create(made) => {
            let namespace = made.metadata().namespace.as_deref().unwrap_or_default();
            send(Method::POST, collection(made.kind(), namespace), JSON, made)
        }
        Change::Replace(changed) => send(Method::PUT, of(changed.kind(), changed.metadata()), JSON, changed),
        Change::Delete(target) => {
            let path = object(target.kind, &target.namespace, &target.name);
            send(Method::DELETE, path, JSON, &deletion(target))
        }
        Change::Status { object, urgent } => {
            let path = format!("{}/status", of(object.kind(), object.metadata()));
            match object {
                Object::Queue(queue) => send(Method::PATCH, path, MERGE, &queue_status(queue, *urgent)),
                other => send(Method::PUT, path, JSON, &StatusBody::of(other)),
            }
        }
        Change::Join(pod, group) => {
            let path = object(pod.kind, &pod.namespace, &pod.name);
            send(Method::PATCH, path, MERGE, &joining(pod, group))
        }
        Change::Note(_) => return Ok(None),
    };
    request.map(Some)
}

fn deletion(target: &Target) -> Value {
    let policy = if target.foreground { "Foreground" } else { "Background" };
    json!({
        "apiVersion": "v1", "kind": "DeleteOptions",
        "preconditions": {"uid": target.uid}, "propagationPolicy": policy,
    })
}

/// The status alone: the API server takes the rest from the object that it has.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusBody<'a> {
    api_version: String,
    kind: &'static str,
    metadata: StatusMeta<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<AnyStatus<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusMeta<'a> {
    name: Option<&'a str>,
    namespace: Option<&'a str>,
    uid: Option<&'a str>,
    resource_version: Option<&'a str>,
}

/// A status that the controllers write; that of a Queue is a patch.
#[derive(Serialize)]
#[serde(untagged)]
enum AnyStatus<'a> {
    Job(&'a batch::JobStatus),
    CronJob(&'a batch::CronJobStatus),
    JobFlow(&'a flow::JobFlowStatus),
    JobTemplate(&'a flow::JobTemplateStatus),
    HyperNode(&'a topology::HyperNodeStatus),
}

impl<'a> StatusBody<'a> {
    fn of(object: &'a Object) -> Self {
        let (api_version, kind) = type_of(object.kind());
        let metadata = object.metadata();
        let metadata = StatusMeta {
            name: metadata.name.as_deref(),
            namespace: metadata.namespace.as_deref(),
            uid: metadata.uid.as_deref(),
            resource_version: metadata.resource_version.as_deref(),
        };
        let status = match object {
            Object::Job(it) => it.status.as_ref().map(AnyStatus::Job),
            Object::CronJob(it) => it.status.as_ref().map(AnyStatus::CronJob),
            Object::JobFlow(it) => it.status.as_ref().map(AnyStatus::JobFlow),
            Object::JobTemplate(it) => it.status.as_ref().map(AnyStatus::JobTemplate),
            Object::HyperNode(it) => it.status.as_ref().map(AnyStatus::HyperNode),
            Object::Pod(_)
            | Object::PodGroup(_)
            | Object::Queue(_)
            | Object::Service(_)
            | Object::Secret(_)
            | Object::ConfigMap(_)
            | Object::NetworkPolicy(_)
            | Object::Claim(_) => None,
        };
        Self { api_version, kind, metadata, status }
    }
}

/// The UID makes it a patch of this pod alone.
fn joining(pod: &Target, group: &str) -> Value {
    json!({"metadata": {"uid": pod.uid, "annotations": {GROUP_NAME_ANNOTATION: group}}})
}

/// The fields of a Queue's status that are the controllers'. The others are the scheduler's, so that no version is
/// asked for: both may write at the same time. A write that opens or closes the queue names the version that was
/// observed, so that it does not undo a later decision; a write of counts leaves the state alone.
fn queue_status(queue: &v1beta1::Queue, changes_state: bool) -> Value {
    let status = queue.status.clone().unwrap_or_default();
    let mut body = json!({
        "metadata": {"uid": queue.metadata.uid},
        "status": {
            "pending": status.pending, "inqueue": status.inqueue,
            "running": status.running, "unknown": status.unknown, "completed": status.completed,
        },
    });
    if changes_state {
        body["metadata"]["resourceVersion"] = json!(queue.metadata.resource_version);
        body["status"]["state"] = json!(status.state);
    }
    body
}

/// An object that an answer has brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Brought {
    /// One that is watched.
    Seen(Box<Seen>),
    /// One that a plugin made.
    Made(Box<Object>),
    /// None, or none that can be read: where it matters, a watch brings it.
    Nothing,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// It was carried out.
    Done(Brought),
    /// 404.
    NotFound(String),
    /// 409.
    Conflict(String),
    /// The API server refuses it.
    Refused(String),
    /// The API server is busy, or does not answer; it asks for this wait.
    Passing(String, Option<std::time::Duration>),
}

/// Reads the answer to a request about an object of this kind.
pub(super) fn answer(kind: Kind, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Answer {
    match read(status, headers, body) {
        Ok(()) => Answer::Done(brought(kind, body)),
        Err(Problem::NotFound(message)) => Answer::NotFound(message),
        Err(Problem::Conflict(message)) => Answer::Conflict(message),
        Err(Problem::Other(reply)) => failed(reply),
    }
}

/// A request without an answer.
pub(super) fn failed(reply: Reply) -> Answer {
    match reply {
        Reply::Passing { message, after, .. } => Answer::Passing(message, after),
        Reply::Conflict(message) => Answer::Conflict(message),
        Reply::Gone(message) | Reply::Refused(message) => Answer::Refused(message),
        Reply::Done => Answer::Done(Brought::Nothing),
    }
}

fn brought(kind: Kind, body: &[u8]) -> Brought {
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    // A deletion that is done at once is answered with a Status.
    let is_object = value["kind"] == type_of(kind).1;
    if is_object { read_object(kind, value).unwrap_or(Brought::Nothing) } else { Brought::Nothing }
}

fn read_object(kind: Kind, value: Value) -> Option<Brought> {
    match kind {
        Kind::Pod => seen::<Pod>(value, |pod| {
            let of_job = pod.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(JOB_NAME));
            if of_job { SeenPod::from(&pod).into() } else { PlainPod::from(&pod).into() }
        }),
        Kind::Claim => seen::<PartialObjectMeta<PersistentVolumeClaim>>(value, |_| Claim.into()),
        Kind::PodGroup => seen::<v1beta1::PodGroup>(value, Fact::from),
        Kind::Queue => seen::<v1beta1::Queue>(value, Fact::from),
        Kind::Job => seen::<batch::Job>(value, Fact::from),
        Kind::CronJob => seen::<batch::CronJob>(value, Fact::from),
        Kind::JobFlow => seen::<flow::JobFlow>(value, Fact::from),
        Kind::JobTemplate => seen::<flow::JobTemplate>(value, Fact::from),
        Kind::Command => seen::<bus::Command>(value, Fact::from),
        Kind::HyperNode => seen::<topology::HyperNode>(value, Fact::from),
        Kind::Service => made::<Service>(value, Object::Service),
        Kind::Secret => made::<Secret>(value, Object::Secret),
        Kind::ConfigMap => made::<ConfigMap>(value, Object::ConfigMap),
        Kind::NetworkPolicy => made::<NetworkPolicy>(value, Object::NetworkPolicy),
    }
}

fn seen<T: DeserializeOwned + Resource>(value: Value, fact: impl FnOnce(T) -> Fact) -> Option<Brought> {
    let object = decode_object::<T>(value).ok()?;
    let id = Identity::of(object.meta());
    Some(Brought::Seen(Box::new(Seen { id, fact: fact(object) })))
}

fn made<T: DeserializeOwned>(value: Value, wrap: impl FnOnce(Box<T>) -> Object) -> Option<Brought> {
    Some(Brought::Made(Box::new(wrap(Box::new(decode_object(value).ok()?)))))
}

impl From<&Pod> for SeenPod {
    fn from(pod: &Pod) -> Self {
        Self { pod: JobPod::from(pod), ip: own_address(pod) }
    }
}

/// The address of a pod. One in the network of its node has none of its own.
fn own_address(pod: &Pod) -> Option<IpAddr> {
    let of_node = pod.spec.as_ref().is_some_and(|spec| spec.host_network == Some(true));
    let status = pod.status.as_ref().filter(|_| !of_node)?;
    let ip = status.pod_ip.as_ref().filter(|ip| Some(*ip) != status.host_ip.as_ref())?;
    ip.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(change: &Change) -> (String, Value) {
        let request = request(change).expect("a good name").expect("a write");
        let body = serde_json::from_slice(request.body()).expect("JSON");
        (format!("{} {}", request.method(), request.uri()), body)
    }

    #[test]
    fn an_answer_brings_what_a_watch_would_read() {
        let brought = |kind, body: Value| brought(kind, body.to_string().as_bytes());
        let metadata = json!({
            "name": "a", "namespace": "team", "uid": "1", "resourceVersion": "7",
            "managedFields": [{"manager": "kubectl", "fieldsV1": {}}],
        });
        let group = |spec: Value| json!({"kind": "PodGroup", "metadata": metadata, "spec": spec});
        let Brought::Seen(seen) = brought(Kind::PodGroup, group(json!({"minMember": 2}))) else {
            panic!("a PodGroup is seen")
        };
        let Seen { id, fact: Fact::PodGroup(read) } = *seen else { panic!("a PodGroup is one") };
        assert_eq!((id.key.to_string().as_str(), id.version), ("team/a", 7));
        assert_eq!((read.spec.min_member, read.metadata.managed_fields), (2, None));
        let service = json!({"kind": "Service", "metadata": metadata});
        let Brought::Made(made) = brought(Kind::Service, service) else { panic!("a Service is made") };
        assert_eq!(made.metadata().managed_fields, None);
        let claim = json!({"kind": "PersistentVolumeClaim", "metadata": metadata});
        assert!(matches!(brought(Kind::Claim, claim), Brought::Seen(_)));
        for (kind, body) in [
            (Kind::PodGroup, json!({"kind": "Status", "status": "Success"})),
            (Kind::PodGroup, group(json!([2]))),
            (Kind::Queue, group(json!({}))),
            (Kind::PodGroup, json!(null)),
        ] {
            assert_eq!(brought(kind, body.clone()), Brought::Nothing, "{body}");
        }
    }

    #[test]
    fn a_pod_in_the_network_of_its_node_has_no_address() {
        let address = |host_network: bool, host: &str| {
            let status = json!({"podIP": "10.0.0.1", "hostIP": host});
            let spec = json!({"containers": [], "hostNetwork": host_network});
            let pod = json!({"metadata": {"name": "x"}, "spec": spec, "status": status});
            SeenPod::from(&serde_json::from_value::<Pod>(pod).expect("a pod")).ip
        };
        assert!(address(false, "10.0.0.2").is_some());
        assert_eq!((address(true, "10.0.0.2"), address(false, "10.0.0.1")), (None, None));
    }

    fn metadata(namespace: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            name: Some("x".to_owned()),
            namespace: namespace.map(str::to_owned),
            uid: Some("u".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectMeta::default()
        }
    }

    #[test]
    fn a_status_is_written_alone_at_the_version_that_was_observed() {
        let status = Some(batch::JobStatus { running: 2, ..batch::JobStatus::default() });
        let job = batch::Job { metadata: metadata(Some("ns")), status, ..batch::Job::default() };
        let change = Change::Status { object: Object::Job(Box::new(job)), urgent: true };
        let (line, body) = sent(&change);
        assert_eq!(line, "PUT /apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/x/status");
        assert_eq!(
            (&body["metadata"]["resourceVersion"], &body["status"]["running"]),
            (&json!("7"), &json!(2))
        );
        assert!(body.get("spec").is_none(), "{body}");
    }

    #[test]
    fn a_queue_is_opened_or_closed_at_the_version_that_was_observed() {
        let write = |urgent| {
            let queue = v1beta1::Queue { metadata: metadata(None), ..v1beta1::Queue::default() };
            let (line, body) = sent(&Change::Status { object: Object::Queue(Box::new(queue)), urgent });
            assert_eq!(line, "PATCH /apis/scheduling.volcano.sh/v1beta1/queues/x/status");
            let fields: Vec<String> = body["status"].as_object().expect("a status").keys().cloned().collect();
            (fields.join(" "), body["metadata"].clone())
        };
        let (fields, of) = write(true);
        assert_eq!(fields, "completed inqueue pending running state unknown");
        assert_eq!(of, json!({"uid": "u", "resourceVersion": "7"}));
        let (fields, of) = write(false);
        assert_eq!(fields, "completed inqueue pending running unknown");
        assert_eq!(of, json!({"uid": "u"}), "no version: the scheduler writes the rest");
    }

    fn pod() -> Target {
        Target {
            kind: Kind::Pod,
            namespace: "ns".to_owned(),
            name: "x".to_owned(),
            uid: "u".to_owned(),
            foreground: false,
        }
    }

    #[test]
    fn a_deletion_is_of_the_object_that_was_observed() {
        let (line, body) = sent(&Change::Delete(pod()));
        assert_eq!(line, "DELETE /api/v1/namespaces/ns/pods/x");
        assert_eq!(body["preconditions"]["uid"], "u");
    }

    #[test]
    fn a_pod_joins_its_podgroup_if_it_is_the_one_that_was_observed() {
        let (line, body) = sent(&Change::Join(pod(), "podgroup-u".to_owned()));
        assert_eq!(line, "PATCH /api/v1/namespaces/ns/pods/x");
        let annotations = json!({"scheduling.k8s.io/group-name": "podgroup-u"});
        assert_eq!(body["metadata"], json!({"uid": "u", "annotations": annotations}));
    }
}
