//! A pod that no Job of Volcano made, as far as the controller reads it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use phalanx_api::names;
use phalanx_api::v1beta1::ResourceList;

use crate::meta::{annotation, controller_of, text};
use crate::requests::Requests;

/// Annotations that are read.
const ANNOTATIONS: [&str; 11] = [
    names::QUEUE_NAME_ANNOTATION,
    names::PREEMPTABLE,
    names::COOLDOWN_TIME,
    names::REVOCABLE_ZONE,
    names::JDB_MIN_AVAILABLE,
    names::JDB_MAX_UNAVAILABLE,
    names::NETWORK_TOPOLOGY_MODE,
    names::NETWORK_TOPOLOGY_HIGHEST_TIER,
    names::KUEUE_REQUIRED_TOPOLOGY,
    names::KUEUE_PREFERRED_TOPOLOGY,
    names::KUEUE_WORKLOAD,
];

/// A pod that no Job of Volcano made, as far as the controller reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainPod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The PodGroup that it names: Volcano's, or Kubernetes' own with the prefix of these.
    pub group: Option<String>,
    /// The object that controls it.
    pub controller: Option<OwnerReference>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Those of its annotations that are read.
    pub annotations: BTreeMap<String, String>,
    /// Its PriorityClass.
    pub priority_class: Option<String>,
    /// What it requests, as quotas name it.
    pub requests: ResourceList,
    /// When it was made.
    pub created_at: Option<Timestamp>,
    /// It has ended, or is being deleted.
    pub ended: bool,
}

impl From<&Pod> for PlainPod {
    fn from(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let mut requests = Requests::default();
        requests.add(pod.spec.as_ref(), 1);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let read = |key: &str| annotation(metadata, key).map(|value| (key.to_owned(), value.to_owned()));
        Self {
            name: text(metadata.name.as_ref()).to_owned(),
            uid: text(metadata.uid.as_ref()).to_owned(),
            group: group_of(pod),
            controller: controller_of(metadata).cloned(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations: ANNOTATIONS.into_iter().filter_map(read).collect(),
            priority_class: pod.spec.as_ref().and_then(|spec| spec.priority_class_name.clone()),
            requests: requests.named(),
            created_at: metadata.creation_timestamp.as_ref().map(|time| time.0),
            ended: metadata.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed")),
        }
    }
}

fn group_of(pod: &Pod) -> Option<String> {
    let named = annotation(&pod.metadata, names::GROUP_NAME_ANNOTATION).filter(|name| !name.is_empty());
    let own = || pod.spec.as_ref()?.scheduling_group.as_ref()?.pod_group_name.as_deref();
    let own = || own().map(|name| format!("{}{name}", names::KUBERNETES_POD_GROUP_PREFIX));
    named.map(str::to_owned).or_else(own)
}
