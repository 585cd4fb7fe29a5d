//! Checks of the API server on containers that go beyond what the scheduler reads.
//!
//! Source: Kubernetes' validation of pods (`ValidateContainers`, `ValidateResourceRequirements`).
use std::collections::BTreeSet;

use phalanx_cache::{Invalid, slim};
use phalanx_resource::Quantity;

/// Returns all problems.
pub(crate) fn check(spec: &slim::PodSpec) -> Vec<Invalid> {
    let (mut names, mut found) = (BTreeSet::new(), Vec::new());
    for (list, containers) in
        [("spec.containers", &spec.containers), ("spec.initContainers", &spec.init_containers)]
    {
        for (at, container) in containers.iter().enumerate() {
            if !container.name.is_empty() && !names.insert(&container.name) {
                let problem = format!("found {:?} again, expected a name of its own", container.name);
                found.push(wrong(format!("{list}[{at}].name"), problem));
            }
            let place = |it: Invalid| wrong(format!("{list}[{at}].resources.{}", it.field), it.problem);
            found.extend(resources(&container.resources).err().map(place));
        }
    }
    found
}

fn wrong(field: String, problem: String) -> Invalid {
    Invalid { field, problem }
}

/// A problem names the field below `resources`.
fn resources(of: &slim::Resources) -> Result<(), Invalid> {
    for (kind, list) in [("requests", &of.requests), ("limits", &of.limits)] {
        for (name, amount) in list {
            if let Some(problem) = name_or_amount(name, amount.0.as_ref().ok()) {
                return Err(wrong(format!("{kind}.{name}"), problem));
            }
        }
    }
    for (name, request) in &of.requests {
        // The API server requires a limit too, but traces have requests only.
        let (Ok(request), Some(Ok(limit))) = (&request.0, of.limits.get(name).map(|limit| &limit.0)) else {
            continue;
        };
        if request > limit {
            return Err(wrong(
                format!("requests.{name}"),
                format!("found {request}, expected at most the limit, {limit}"),
            ));
        }
        if request != limit && !may_be_more(name) {
            let problem =
                format!("found {request}, expected the same as the limit, {limit}, for {name} is not shared");
            return Err(wrong(format!("requests.{name}"), problem));
        }
    }
    Ok(())
}

fn name_or_amount(name: &str, amount: Option<&Quantity>) -> Option<String> {
    let own = name.contains('/');
    if !own && !may_be_more(name) && !name.starts_with("hugepages-") {
        return Some(format!(
            "found resource {name:?}, expected cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain"
        ));
    }
    let part = amount.filter(|amount| own && amount.units() != amount.units_floor())?;
    Some(format!("found {part}, expected a whole number"))
}

/// Resources that can be overcommitted.
fn may_be_more(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn said(containers: &Value) -> Result<(), String> {
        let pod: slim::Pod =
            phalanx_cache::decode(&json!({"spec": {"containers": containers}})).expect("a pod");
        check(&pod.spec).first().map_or(Ok(()), |wrong| Err(wrong.to_string()))
    }

    #[test]
    fn containers_that_the_api_server_refuses_are_reported() {
        for (containers, expected) in [
            (
                json!([{"name": "a", "resources": {"requests": {"cpu": 1, "x/gpu": 2}, "limits": {"cpu": 2, "x/gpu": 2}}}, {"name": "b"}]),
                None,
            ),
            (json!([{"name": "a", "resources": {"limits": {"x/gpu": 2}}}]), None),
            (json!([{"name": "a", "resources": {"requests": {"x/gpu": 2, "hugepages-2Mi": "4Mi"}}}]), None),
            (
                json!([{"name": "a", "resources": {"requests": {"hugepages-2Mi": "4Mi"}, "limits": {"hugepages-2Mi": "4Mi"}}}]),
                None,
            ),
            (
                json!([{"name": "a"}, {"name": "a"}]),
                Some("spec.containers[1].name: found \"a\" again, expected a name of its own"),
            ),
            (
                json!([{"resources": {"requests": {"cpu": 3}, "limits": {"cpu": 1}}}]),
                Some("spec.containers[0].resources.requests.cpu: found 3, expected at most the limit, 1"),
            ),
            (
                json!([{"resources": {"requests": {"x/gpu": 1}, "limits": {"x/gpu": 2}}}]),
                Some(
                    "spec.containers[0].resources.requests.x/gpu: found 1, expected the same as the limit, 2, for x/gpu is not shared",
                ),
            ),
            (
                json!([{"resources": {"limits": {"x/gpu": "500m"}}}]),
                Some("spec.containers[0].resources.limits.x/gpu: found 500m, expected a whole number"),
            ),
            (
                json!([{"resources": {"requests": {"cpus": 1}}}]),
                Some(
                    "spec.containers[0].resources.requests.cpus: found resource \"cpus\", expected cpu, memory, ephemeral-storage, hugepages-SIZE or a name with a domain",
                ),
            ),
        ] {
            assert_eq!(said(&containers).err().as_deref(), expected, "{containers}");
        }
    }
}
