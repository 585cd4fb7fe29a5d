//! What the pods of a Job request: `minResources` of its PodGroup.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use phalanx_api::batch::{Job, TaskSpec};
use phalanx_api::v1beta1::ResourceList;
use phalanx_resource::{Amounts, Dims, InitContainer, PodResources, Quantity};

type List = BTreeMap<String, Text>;

/// What the first `minAvailable` pods request together: those of tasks with high priority first, and of each task those
/// that it needs before others.
pub(crate) fn min_resources(job: &Job, priorities: &BTreeMap<String, i32>) -> ResourceList {
    let mut dims = Dims::new();
    let mut sums = [Amounts::new(), Amounts::new()];
    for (task, count) in counts(job, priorities) {
        for (sum, limits) in sums.iter_mut().zip([false, true]) {
            let one = pod(task.template.spec.as_ref(), limits, &mut dims);
            (0..count).for_each(|_| sum.add(&one));
        }
    }
    named(&dims, &sums)
}

/// How many pods of each task count.
fn counts<'a>(job: &'a Job, priorities: &BTreeMap<String, i32>) -> Vec<(&'a TaskSpec, i32)> {
    let mut tasks: Vec<&TaskSpec> = job.spec.tasks.iter().collect();
    let class =
        |task: &TaskSpec| task.template.spec.as_ref().and_then(|spec| spec.priority_class_name.clone());
    tasks.sort_by_key(|task| {
        Reverse(class(task).and_then(|name| priorities.get(&name).copied()).unwrap_or(0))
    });
    let needed: i32 = tasks.iter().filter_map(|task| task.min_available).sum();
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

/// What one pod requests, or its limits.
fn pod(spec: Option<&PodSpec>, limits: bool, dims: &mut Dims) -> Amounts {
    let Some(spec) = spec else { return Amounts::new() };
    let containers = spec.containers.iter().map(|container| of(container, limits, dims)).collect();
    let init = spec.init_containers.iter().flatten().map(|container| InitContainer {
        request: of(container, limits, dims),
        sidecar: container.restart_policy.as_deref() == Some("Always"),
    });
    let init = init.collect();
    let whole =
        spec.resources.as_ref().map(|resources| if limits { &resources.limits } else { &resources.requests });
    let pod_level = whole.and_then(|list| list.as_ref().map(|list| amounts([Some(list), None], dims)));
    let overhead = amounts([spec.overhead.as_ref(), None], dims);
    PodResources { containers, init, overhead, pod_level }.total()
}

/// Limits stand for requests that are missing.
fn of(container: &Container, limits: bool, dims: &mut Dims) -> Amounts {
    let Some(resources) = &container.resources else { return Amounts::new() };
    let requests = if limits { None } else { resources.requests.as_ref() };
    amounts([resources.limits.as_ref(), requests], dims)
}

/// The amounts of the lists; later ones go before earlier ones. What is no quantity is left out.
fn amounts(lists: [Option<&List>; 2], dims: &mut Dims) -> Amounts {
    let mut amounts = Amounts::new();
    for (name, text) in lists.into_iter().flatten().flatten() {
        if let Ok(quantity) = text.0.parse::<Quantity>() {
            let dim = dims.intern(name);
            amounts.set(dim, dims.amount(dim, quantity));
        }
    }
    amounts
}

/// As quotas name them: `cpu` and `requests.cpu`, `limits.cpu`, `pods` and `count/pods`.
fn named(dims: &Dims, [requests, limits]: &[Amounts; 2]) -> ResourceList {
    let mut list = ResourceList::new();
    let native = |name: &str| matches!(name, "cpu" | "memory" | "ephemeral-storage");
    for (dim, amount) in requests.iter() {
        let (name, text) = (dims.name(dim), Text(dims.format(dim, amount)));
        if native(name) {
            list.insert(format!("requests.{name}"), text.clone());
        } else if name == "pods" {
            list.insert("count/pods".to_owned(), text.clone());
        }
        list.insert(name.to_owned(), text);
    }
    for (dim, amount) in limits.iter().filter(|(dim, amount)| *amount > 0 && native(dims.name(*dim))) {
        list.insert(format!("limits.{}", dims.name(dim)), Text(dims.format(dim, amount)));
    }
    list
}
