//! What is wrong with a Job that slipped past the API server's checks.

use std::collections::BTreeMap;

use phalanx_api::batch::{Job, PLUGINS, TaskSpec};

use crate::meta::text;
use crate::plugin;

/// The longest name of a pod: it is its host name too.
const POD_NAME_MAX: usize = 63;
/// The most pods of a Job: it is looked at whole, with each of its pods.
const PODS_MAX: i64 = 100_000;

/// Whether a Job has more pods than can be looked at.
pub(crate) fn too_many_pods(job: &Job) -> Option<String> {
    let total = total(job);
    (total > PODS_MAX).then(|| format!("spec.tasks: {total} pods in all, expected at most {PODS_MAX}"))
}

fn total(job: &Job) -> i64 {
    job.spec.tasks.iter().map(|task| i64::from(task.replicas.max(0))).sum()
}

/// The first problem, with the path of the field. The Job has its defaults.
pub fn check(job: &Job) -> Option<String> {
    if job.spec.tasks.is_empty() {
        return Some("spec.tasks: none given".to_owned());
    }
    let tasks = job.spec.tasks.iter().enumerate();
    let mut first = BTreeMap::new();
    for (at, task) in tasks.clone() {
        first.entry(task.name.as_str()).or_insert(at);
    }
    let total = total(job);
    let few = i64::from(job.spec.min_available) > total;
    few.then(|| {
        format!(
            "spec.minAvailable: {} is more than the {total} replicas of all tasks",
            job.spec.min_available
        )
    })
    .or_else(|| tasks.clone().find_map(|(at, task)| check_task(job, &first, at, task)))
    .or_else(|| ring(job))
    .or_else(|| unknown_plugin(job))
    .or_else(|| plugin::check(job))
}

/// `first` is where the first task of each name is.
fn check_task(job: &Job, first: &BTreeMap<&str, usize>, at: usize, task: &TaskSpec) -> Option<String> {
    let path = format!("spec.tasks[{at}]");
    let longest = super::pod_name(job, task, (task.replicas - 1).max(0));
    let minimum = task.min_available.unwrap_or(0);
    let unknown = depends_on(task).iter().find(|name| !first.contains_key(name.as_str()));
    if first.get(task.name.as_str()) != Some(&at) {
        Some(format!("{path}.name: {} is the name of another task too", task.name))
    } else if longest.len() > POD_NAME_MAX {
        Some(format!("{path}.name: the name {longest} of a pod is longer than {POD_NAME_MAX} characters"))
    } else if minimum > task.replicas {
        Some(format!("{path}.minAvailable: {minimum} is more than the {} replicas", task.replicas))
    } else {
        unknown.map(|name| format!("{path}.dependsOn.name: there is no task {name}"))
    }
}

fn depends_on(task: &TaskSpec) -> &[String] {
    task.depends_on.as_ref().map_or(&[], |depends_on| &depends_on.name)
}

fn ring(job: &Job) -> Option<String> {
    let left = crate::ring::ring(&job.spec.tasks, |task| &task.name, depends_on);
    let names: Vec<&str> = left.iter().map(|task| task.name.as_str()).collect();
    let at = job.spec.tasks.iter().position(|task| names.first() == Some(&task.name.as_str()))?;
    Some(format!("spec.tasks[{at}].dependsOn: tasks wait for each other: {}", names.join(", ")))
}

fn unknown_plugin(job: &Job) -> Option<String> {
    let name = job.spec.plugins.keys().find(|name| !PLUGINS.contains(&name.as_str()))?;
    let of = text(job.metadata.name.as_ref());
    Some(format!("spec.plugins: {name} of job {of} is none of {}", PLUGINS.join(", ")))
}
