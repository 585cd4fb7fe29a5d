//! What a controller wants changed.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{CronJob, Job};
use phalanx_api::flow::{JobFlow, JobTemplate};
use phalanx_api::topology::HyperNode;
use phalanx_api::v1beta1::{PodGroup, Queue};
use serde::Serialize;

/// What reconciling an object came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// To be carried out in this order; after an error the rest is dropped.
    pub changes: Vec<Change>,
    /// When to reconcile again, where that is due without a change of the objects.
    pub next: Option<Timestamp>,
    /// A key pair is needed for plugin ssh: it is handed in the next time.
    pub wants_ssh_key: bool,
}

impl Outcome {
    /// Reconciles again at this time at the latest.
    pub(crate) fn requeue_at(&mut self, time: Timestamp) {
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
    }
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The object is made. One of the same name and owner that is there already is as good.
    Create(Object),
    /// The object is replaced at the resource version that was observed.
    Replace(Object),
    /// The object is deleted, if it is still the one that was observed.
    Delete(Target),
    /// The status of the object is replaced, at the resource version that was observed.
    Status {
        /// The object with its new status.
        object: Object,
        /// False where the status only counts: it may be delayed, and merged with later ones.
        urgent: bool,
    },
    /// The pod is put into the PodGroup of this name, by annotation, if it is still the one that was observed.
    Join(Target, String),
    /// An event on the object.
    Note(Note),
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// On what.
    pub on: Target,
    /// Type `Warning` rather than `Normal`.
    pub warning: bool,
    /// In one word.
    pub reason: &'static str,
    /// For people.
    pub message: String,
}

/// An object that a controller writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[expect(missing_docs, reason = "each is named after its kind")]
pub enum Object {
    Pod(Box<Pod>),
    PodGroup(Box<PodGroup>),
    Queue(Box<Queue>),
    Job(Box<Job>),
    CronJob(Box<CronJob>),
    JobFlow(Box<JobFlow>),
    JobTemplate(Box<JobTemplate>),
    Service(Box<Service>),
    Secret(Box<Secret>),
    ConfigMap(Box<ConfigMap>),
    NetworkPolicy(Box<NetworkPolicy>),
    Claim(Box<PersistentVolumeClaim>),
    HyperNode(Box<HyperNode>),
}

/// The kind of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is named after its kind")]
pub enum Kind {
    Pod,
    PodGroup,
    Queue,
    Job,
    CronJob,
    JobFlow,
    JobTemplate,
    Service,
    Secret,
    ConfigMap,
    NetworkPolicy,
    Claim,
    Command,
    HyperNode,
}

/// An object that exists, by name and identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for a Queue and a HyperNode.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Whether a deletion waits for what the object owns.
    pub foreground: bool,
}

impl Target {
    pub(crate) fn of(kind: Kind, metadata: &ObjectMeta) -> Self {
        Self {
            kind,
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            foreground: false,
        }
    }
}

impl Object {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Pod(_) => Kind::Pod,
            Self::PodGroup(_) => Kind::PodGroup,
            Self::Queue(_) => Kind::Queue,
            Self::Job(_) => Kind::Job,
            Self::CronJob(_) => Kind::CronJob,
            Self::JobFlow(_) => Kind::JobFlow,
            Self::JobTemplate(_) => Kind::JobTemplate,
            Self::Service(_) => Kind::Service,
            Self::Secret(_) => Kind::Secret,
            Self::ConfigMap(_) => Kind::ConfigMap,
            Self::NetworkPolicy(_) => Kind::NetworkPolicy,
            Self::Claim(_) => Kind::Claim,
            Self::HyperNode(_) => Kind::HyperNode,
        }
    }

    /// Its metadata.
    pub fn metadata(&self) -> &ObjectMeta {
        match self {
            Self::Pod(object) => &object.metadata,
            Self::PodGroup(object) => &object.metadata,
            Self::Queue(object) => &object.metadata,
            Self::Job(object) => &object.metadata,
            Self::CronJob(object) => &object.metadata,
            Self::JobFlow(object) => &object.metadata,
            Self::JobTemplate(object) => &object.metadata,
            Self::Service(object) => &object.metadata,
            Self::Secret(object) => &object.metadata,
            Self::ConfigMap(object) => &object.metadata,
            Self::NetworkPolicy(object) => &object.metadata,
            Self::Claim(object) => &object.metadata,
            Self::HyperNode(object) => &object.metadata,
        }
    }

    /// The object as the target of a deletion.
    pub fn target(&self) -> Target {
        Target::of(self.kind(), self.metadata())
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }
}
