//! The pods that a Job makes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{API_VERSION, TaskSpec};
use phalanx_api::names;

use super::{JobView, partition, pod_name, volumes};
use crate::meta::{annotation, controller, text};
use crate::plugin;

/// Annotations of a job that its pods have too.
const INHERITED: [&str; 3] = [names::PREEMPTABLE, names::COOLDOWN_TIME, names::REVOCABLE_ZONE];
/// Of these the pods have the first one that the job has.
const BUDGETS: [&str; 2] = [names::JDB_MIN_AVAILABLE, names::JDB_MAX_UNAVAILABLE];
const INHERITED_LABELS: [&str; 2] = [names::PREEMPTABLE, names::COOLDOWN_TIME];

/// A pod of a task.
pub(crate) fn pod(view: &JobView<'_>, task: &TaskSpec, index: i32) -> Pod {
    let job = &view.job;
    let template = task.template.metadata.clone().unwrap_or_default();
    let mut annotations = template.annotations.unwrap_or_default();
    let mut labels = template.labels.unwrap_or_default();
    annotations.extend(own_annotations(view, task, index));
    labels.extend(own_labels(view, task, index));
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(pod_name(job, task, index)),
            namespace: job.metadata.namespace.clone(),
            owner_references: Some(vec![controller(API_VERSION, "Job", &job.metadata)]),
            annotations: Some(annotations),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        spec: Some(spec(view, task)),
        status: None,
    };
    plugin::change_pod(job, task, index, &mut pod);
    pod
}

fn spec(view: &JobView<'_>, task: &TaskSpec) -> PodSpec {
    let job = &view.job;
    let mut spec = task.template.spec.clone().unwrap_or_default();
    let missing = |value: &Option<String>| value.as_ref().is_none_or(String::is_empty);
    if missing(&spec.scheduler_name) {
        spec.scheduler_name = Some(job.spec.scheduler_name.clone());
    }
    if missing(&spec.priority_class_name) {
        spec.priority_class_name.clone_from(&job.spec.priority_class_name);
    }
    volumes::mount(job, &mut spec);
    spec
}

fn own_annotations(view: &JobView<'_>, task: &TaskSpec, index: i32) -> BTreeMap<String, String> {
    let (job, status) = (&view.job, view.status());
    let name = text(job.metadata.name.as_ref());
    let group = super::group::name(view);
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |key: &str, value: String| own.insert(key.to_owned(), value);
    set(names::TASK_INDEX, index.to_string());
    set(names::TASK_SPEC, task.name.clone());
    set(names::GROUP_NAME_ANNOTATION, group);
    set(names::JOB_NAME, name.to_owned());
    set(names::JOB_QUEUE_NAME, job.spec.queue.clone());
    set(names::JOB_VERSION, status.version.to_string());
    set(names::TEMPLATE_UID, format!("{name}-{}", task.name));
    set(names::JOB_RETRY_COUNT, status.retry_count.to_string());
    if let Some(policy) = &task.topology_policy {
        set(names::NUMA_TOPOLOGY_POLICY, policy.to_string());
    }
    let value = |key: &'static str| annotation(&job.metadata, key).map(|value| (key, value.to_owned()));
    for (key, value) in
        INHERITED.iter().filter_map(|key| value(key)).chain(BUDGETS.iter().find_map(|key| value(key)))
    {
        set(key, value);
    }
    if view.seen.forwards {
        set(names::JOB_FORWARDING, "true".to_owned());
    }
    own
}

fn own_labels(view: &JobView<'_>, task: &TaskSpec, index: i32) -> BTreeMap<String, String> {
    let metadata = &view.job.metadata;
    let mut own: BTreeMap<String, String> = BTreeMap::new();
    let mut set = |key: &str, value: String| own.insert(key.to_owned(), value);
    set(names::TASK_INDEX, index.to_string());
    set(names::JOB_NAME, text(metadata.name.as_ref()).to_owned());
    set(names::TASK_SPEC, task.name.clone());
    set(names::JOB_NAMESPACE, text(metadata.namespace.as_ref()).to_owned());
    set(names::JOB_QUEUE_NAME, view.job.spec.queue.clone());
    for key in INHERITED_LABELS {
        if let Some(value) = metadata.labels.as_ref().and_then(|labels| labels.get(key)) {
            set(key, value.clone());
        }
    }
    if view.seen.forwards {
        set(names::JOB_FORWARDING, "true".to_owned());
    }
    if let Some(partition) = partition(task, index) {
        set(names::PARTITION_ID, partition);
    }
    own
}
