//! What the pods of a Job request: `minResources` of its PodGroup.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use phalanx_api::batch::{Job, TaskSpec};
use phalanx_api::v1beta1::ResourceList;

use crate::requests::Requests;

/// What the first `minAvailable` pods request together: those of tasks with high priority first, and of each task those
/// that it needs before others.
pub(crate) fn min_resources(job: &Job, priorities: &BTreeMap<String, i32>) -> ResourceList {
    let mut requests = Requests::default();
    for (task, count) in counts(job, priorities) {
        requests.add(task.template.spec.as_ref(), count);
    }
    requests.named()
}

/// How many pods of each task count.
fn counts<'a>(job: &'a Job, priorities: &BTreeMap<String, i32>) -> Vec<(&'a TaskSpec, i32)> {
    let mut tasks: Vec<&TaskSpec> = job.spec.tasks.iter().collect();
    let class =
        |task: &TaskSpec| task.template.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    tasks.sort_by_key(|task| {
        Reverse(class(task).and_then(|name| priorities.get(&name).copied()).unwrap_or(0))
    });
    let needed = tasks.iter().filter_map(|task| task.min_available).fold(0, i32::saturating_add);
    let mut left = job.spec.min_available;
    let mut take = |most: i32| {
        let taken = most.clamp(0, left.max(0));
        left -= taken;
        taken
    };
    if job.spec.min_available < needed {
        return tasks.into_iter().map(|task| (task, take(task.replicas))).collect();
    }
    let minimum = |task: &TaskSpec| task.min_available.unwrap_or(0);
    let first: Vec<i32> = tasks.iter().map(|task| take(minimum(task))).collect();
    tasks
        .into_iter()
        .zip(first)
        .map(|(task, first)| (task, first + take(task.replicas - minimum(task))))
        .collect()
}
