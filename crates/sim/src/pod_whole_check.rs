//! Checks of the API server on a pod as a whole: gates of a bound pod, and pod-level resources that contradict
//! those of its containers.
//!
//! Source: Kubernetes' validation of pods (`ValidatePodSpec`, `validateSchedulingGates`,
//! `validatePodResourceConsistency`).
use std::collections::BTreeSet;

use phalanx_cache::{Invalid, slim};
use phalanx_resource::Quantity;

/// Returns all problems.
pub(crate) fn check(spec: &slim::PodSpec) -> Vec<Invalid> {
    let mut found = gates(spec);
    if let Some(whole) = &spec.resources {
        names(whole, &mut found);
        at_least_the_containers(spec, whole, &mut found);
        at_most_the_limits(whole, &mut found);
    }
    found
}

fn wrong(field: String, problem: String) -> Invalid {
    Invalid { field, problem }
}

fn gates(spec: &slim::PodSpec) -> Vec<Invalid> {
    let mut seen = BTreeSet::new();
    let gates = spec.scheduling_gates.iter().enumerate();
    let again = gates.filter(|(_, gate)| !seen.insert(&gate.name));
    let again = again.map(|(at, gate)| {
        let problem = format!("found {:?} again, expected each gate once", gate.name);
        wrong(format!("spec.schedulingGates[{at}].name"), problem)
    });
    let mut found: Vec<Invalid> = again.collect();
    if let (Some(node), false) = (&spec.node_name, spec.scheduling_gates.is_empty()) {
        let problem = format!("found {node:?} beside schedulingGates, expected no node before they are gone");
        found.push(wrong("spec.nodeName".to_owned(), problem));
    }
    found
}

/// The pod-level resources of Kubernetes (KEP-2837).
fn names(whole: &slim::Resources, found: &mut Vec<Invalid>) {
    for (kind, list) in [("requests", &whole.requests), ("limits", &whole.limits)] {
        let known = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        for name in list.keys().filter(|name| !known(name)) {
            let problem = format!("found resource {name:?}, expected cpu, memory or hugepages-SIZE of a pod");
            found.push(wrong(format!("spec.resources.{kind}.{name}"), problem));
        }
    }
}

fn at_least_the_containers(spec: &slim::PodSpec, whole: &slim::Resources, found: &mut Vec<Invalid>) {
    for (name, request) in &whole.requests {
        let Ok(request) = request.0 else { continue };
        let sum = of_containers(spec, name);
        if i128::from(request.milli()) < sum {
            let sum = phalanx_resource::format_milli(i64::try_from(sum).unwrap_or(i64::MAX));
            let problem = format!("found {request}, expected at least what its containers request, {sum}");
            found.push(wrong(format!("spec.resources.requests.{name}"), problem));
        }
    }
}

fn at_most_the_limits(whole: &slim::Resources, found: &mut Vec<Invalid>) {
    for (name, request) in &whole.requests {
        let (Ok(request), Some(Ok(limit))) = (&request.0, whole.limits.get(name).map(|limit| &limit.0))
        else {
            continue;
        };
        if request > limit {
            let problem = format!("found {request}, expected at most the limit, {limit}");
            found.push(wrong(format!("spec.resources.requests.{name}"), problem));
        }
    }
}

/// The largest sum of requests at a time, in thousandths: of all containers and sidecars, or of one init container and
/// the sidecars before it.
fn of_containers(spec: &slim::PodSpec, name: &str) -> i128 {
    let (mut sidecars, mut most) = (0, 0);
    for container in &spec.init_containers {
        let own = request(container, name);
        most = most.max(sidecars + own);
        if container.is_sidecar() {
            sidecars += own;
        }
    }
    let all: i128 = spec.containers.iter().map(|container| request(container, name)).sum();
    most.max(sidecars + all)
}

/// A limit replaces a missing request.
fn request(container: &slim::Container, name: &str) -> i128 {
    let slim::Resources { requests, limits } = &container.resources;
    let amount = requests.get(name).or_else(|| limits.get(name)).and_then(|amount| amount.0.as_ref().ok());
    amount.map_or(0, |amount: &Quantity| i128::from(amount.milli()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(spec: &Value) -> Vec<String> {
        let pod: slim::Pod = phalanx_cache::decode(&json!({"spec": spec})).expect("a pod");
        check(&pod.spec).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_gate_occurs_once_and_not_on_a_bound_pod() {
        for (spec, expected) in [
            (json!({"schedulingGates": [{"name": "a"}, {"name": "b"}]}), vec![]),
            (json!({"nodeName": "n1", "schedulingGates": []}), vec![]),
            (
                json!({"schedulingGates": [{"name": "a"}, {"name": "b"}, {"name": "a"}]}),
                vec!["spec.schedulingGates[2].name: found \"a\" again, expected each gate once"],
            ),
            (
                json!({"nodeName": "n1", "schedulingGates": [{"name": "a"}]}),
                vec![
                    "spec.nodeName: found \"n1\" beside schedulingGates, expected no node before they are gone",
                ],
            ),
        ] {
            assert_eq!(said(&spec), expected, "{spec}");
        }
    }

    #[test]
    fn a_pod_level_request_is_at_least_that_of_its_containers() {
        let container = |list: Value| json!({"name": "c", "resources": {"requests": list}});
        let sidecar =
            |list: Value| json!({"name": "s", "restartPolicy": "Always", "resources": {"limits": list}});
        for (whole, init, expected) in [
            (json!({"requests": {"cpu": 3, "memory": "1Gi", "hugepages-2Mi": "2Mi"}}), vec![], vec![]),
            (json!({"limits": {"cpu": 1}}), vec![], vec![]),
            (
                json!({"requests": {"cpu": "1999m"}}),
                vec![],
                vec![
                    "spec.resources.requests.cpu: found 1999m, expected at least what its containers request, 2",
                ],
            ),
            (
                json!({"requests": {"cpu": 2}}),
                vec![sidecar(json!({"cpu": "500m"}))],
                vec![
                    "spec.resources.requests.cpu: found 2, expected at least what its containers request, 2500m",
                ],
            ),
            (
                json!({"requests": {"cpu": 2}}),
                vec![container(json!({"cpu": 3}))],
                vec![
                    "spec.resources.requests.cpu: found 2, expected at least what its containers request, 3",
                ],
            ),
            (
                json!({"requests": {"cpu": 4}, "limits": {"cpu": 3, "x/gpu": 1}}),
                vec![],
                vec![
                    "spec.resources.limits.x/gpu: found resource \"x/gpu\", expected cpu, memory or hugepages-SIZE of a pod",
                    "spec.resources.requests.cpu: found 4, expected at most the limit, 3",
                ],
            ),
        ] {
            let spec = json!({"resources": whole, "initContainers": init,
                "containers": [container(json!({"cpu": 1})), container(json!({"cpu": 1}))]});
            assert_eq!(said(&spec), expected, "{spec}");
        }
    }
}
