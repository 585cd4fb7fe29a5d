//! What a Job means that leaves things out. Volcano's webhook writes it into the object; here it is read so.

use phalanx_api::batch::{DEFAULT_MAX_RETRY, Job, JobSpec, TaskSpec};

/// The Job with all defaults.
pub fn with_defaults(job: &Job, scheduler_name: &str) -> Job {
    let mut job = job.clone();
    for (index, task) in job.spec.tasks.iter_mut().enumerate() {
        task_defaults(task, index);
    }
    let spec = &mut job.spec;
    if spec.min_available == 0 {
        spec.min_available = spec.tasks.iter().map(TaskMinimum::minimum).fold(0, i32::saturating_add);
    }
    if spec.scheduler_name.is_empty() {
        scheduler_name.clone_into(&mut spec.scheduler_name);
    }
    plugins(spec);
    job
}

fn task_defaults(task: &mut TaskSpec, index: usize) {
    if task.name.is_empty() {
        task.name = format!("default{index}");
    }
    if task.max_retry == 0 {
        task.max_retry = DEFAULT_MAX_RETRY;
    }
    // Nothing is less than none, and a sum of counts is the number of pods.
    task.replicas = task.replicas.max(0);
    task.min_available = Some(task.minimum().max(0));
    if let Some(pod) = &mut task.template.spec
        && pod.host_network == Some(true)
        && pod.dns_policy.as_ref().is_none_or(String::is_empty)
    {
        pod.dns_policy = Some("ClusterFirstWithHostNet".to_owned());
    }
}

/// Distributed frameworks find each other by the names of plugin svc, and mpi starts its workers by ssh.
fn plugins(spec: &mut JobSpec) {
    if ["tensorflow", "mpi", "pytorch", "ray"].iter().any(|name| spec.plugins.contains_key(*name)) {
        spec.plugins.entry("svc".to_owned()).or_default();
    }
    if spec.plugins.contains_key("mpi") {
        spec.plugins.entry("ssh".to_owned()).or_default();
    }
}

/// The pods of a task that are needed.
pub(crate) trait TaskMinimum {
    fn minimum(&self) -> i32;
}

impl TaskMinimum for TaskSpec {
    fn minimum(&self) -> i32 {
        let partitions = self
            .partition_policy
            .as_ref()
            .map(|policy| policy.min_partitions.saturating_mul(policy.partition_size));
        self.min_available.or(partitions.filter(|count| *count > 0)).unwrap_or(self.replicas)
    }
}
