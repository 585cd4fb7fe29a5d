//! Objects that plugins make: names, owners, and what is kept in step.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{API_VERSION, Job};
use phalanx_api::names;

use crate::change::Object;
use crate::meta::{controller, map, text};

/// The name of the job with a suffix.
pub(crate) fn name(job: &Job, suffix: &str) -> String {
    format!("{}{suffix}", text(job.metadata.name.as_ref()))
}

/// The metadata of an object of the job.
pub(crate) fn metadata(job: &Job, suffix: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name(job, suffix)),
        namespace: job.metadata.namespace.clone(),
        owner_references: Some(vec![controller(API_VERSION, "Job", &job.metadata)]),
        ..ObjectMeta::default()
    }
}

/// Labels of the pods of a job.
pub(crate) fn selector(job: &Job) -> std::collections::BTreeMap<String, String> {
    let (name, namespace) = (text(job.metadata.name.as_ref()), text(job.metadata.namespace.as_ref()));
    map([(names::JOB_NAME, name), (names::JOB_NAMESPACE, namespace)])
}

/// A ConfigMap of hosts follows the replicas. Secrets are mounted as part of a volume, which is not updated in pods;
/// other objects do not change.
pub(crate) fn updated(found: &Object, wanted: &Object) -> Option<Object> {
    let (Object::ConfigMap(found), Object::ConfigMap(wanted)) = (found, wanted) else { return None };
    let changed = ConfigMap { data: wanted.data.clone(), ..(**found).clone() };
    (found.data != wanted.data).then(|| Object::ConfigMap(Box::new(changed)))
}
