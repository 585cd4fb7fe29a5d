//! Names of pods and hosts.

use phalanx_api::batch::{Job, TaskSpec};

use crate::meta::text;

/// `JOB-TASK-INDEX`.
pub(crate) fn pod_name(job: &Job, task: &TaskSpec, index: i32) -> String {
    format!("{}-{}-{index}", text(job.metadata.name.as_ref()), task.name)
}

/// The index of a pod of a task, by its name.
pub(crate) fn index_of(job: &Job, task: &TaskSpec, pod: &str) -> Option<i32> {
    let index = pod.strip_prefix(text(job.metadata.name.as_ref()))?.strip_prefix('-')?;
    index.strip_prefix(task.name.as_str())?.strip_prefix('-')?.parse().ok()
}

/// The partition of a pod of a task, where the task has partitions.
pub(crate) fn partition(task: &TaskSpec, index: i32) -> Option<String> {
    let policy = task.partition_policy.as_ref()?;
    Some((index / policy.partition_size.max(1)).to_string())
}

/// The host of a pod, `HOSTNAME.SUBDOMAIN`, which the template may name.
pub(crate) fn task_host(job: &Job, task: &TaskSpec, index: i32) -> String {
    let spec = task.template.spec.as_ref();
    let named = |value: Option<&String>| value.filter(|text| !text.is_empty()).cloned();
    let host =
        named(spec.and_then(|spec| spec.hostname.as_ref())).unwrap_or_else(|| pod_name(job, task, index));
    let domain = named(spec.and_then(|spec| spec.subdomain.as_ref()));
    format!("{host}.{}", domain.as_deref().unwrap_or(text(job.metadata.name.as_ref())))
}

/// The hosts of a task: one only where the template names it.
pub(crate) fn hosts(job: &Job, task: &TaskSpec) -> Vec<String> {
    let spec = task.template.spec.as_ref();
    let one = spec.and_then(|spec| spec.hostname.as_ref()).is_some_and(|host| !host.is_empty());
    let count = if one { task.replicas.min(1) } else { task.replicas };
    (0..count).map(|index| task_host(job, task, index)).collect()
}
