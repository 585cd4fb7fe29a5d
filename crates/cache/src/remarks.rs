//! What stands on an object and counts for something else than was meant: told once, and nothing waits for it.
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::{names, v1beta1};
use phalanx_core::conf::parse_bool;
use phalanx_core::duration::parse_duration;

use crate::pod::Marks;
use crate::{Invalid, slim};

/// Of a pod.
pub fn of_pod(pod: &slim::Pod) -> Vec<Invalid> {
    let marks = Marks(&pod.metadata);
    let mut found = preemptable(&pod.metadata);
    let priority = marks.annotation(names::TASK_PRIORITY).filter(|text| text.parse::<i32>().is_err());
    found.extend(priority.map(|text| {
        let problem = format!("found {text:?}, expected an integer; spec.priority counts");
        annotation(names::TASK_PRIORITY, problem)
    }));
    found.extend(cooldown(&pod.metadata));
    let weights = marks.annotation(names::RESOURCE_STRATEGY_WEIGHT).filter(|text| !text.is_empty());
    found.extend(weights.filter(|text| !are_weights(text)).map(|text| {
        let problem =
            format!("found {text:?}, expected a JSON object of integers; the plugin's own weights count");
        annotation(names::RESOURCE_STRATEGY_WEIGHT, problem)
    }));
    let gate = pod.spec.scheduling_gates.iter().any(|gate| gate.name == names::QUEUE_ALLOCATION_GATE);
    if gate && marks.annotation(names::QUEUE_ALLOCATION_GATE) != Some("true") {
        let problem = format!(
            "found {}, expected the annotation of this name too; nobody removes the gate",
            names::QUEUE_ALLOCATION_GATE
        );
        found.push(Invalid { field: "spec.schedulingGates".to_owned(), problem });
    }
    found
}

/// Of a PodGroup.
pub fn of_group(group: &v1beta1::PodGroup) -> Vec<Invalid> {
    preemptable(&group.metadata)
}

fn preemptable(metadata: &ObjectMeta) -> Vec<Invalid> {
    let maps = [("annotations", &metadata.annotations), ("labels", &metadata.labels)];
    let value = |(field, map): (&'static str, &'_ Option<std::collections::BTreeMap<String, String>>)| {
        let text = map.as_ref()?.get(names::PREEMPTABLE).filter(|text| !text.is_empty())?;
        Some((field, text.clone()))
    };
    let first = maps.into_iter().find_map(value).filter(|(_, text)| parse_bool(text).is_none());
    let told = first.map(|(field, text)| Invalid {
        field: format!("metadata.{field}.{}", names::PREEMPTABLE),
        problem: format!("found {text:?}, expected true or false; it counts as false"),
    });
    told.into_iter().collect()
}

/// A time that is not one protects nobody.
fn cooldown(metadata: &ObjectMeta) -> Option<Invalid> {
    let maps = [("labels", &metadata.labels), ("annotations", &metadata.annotations)];
    let (field, text) = maps
        .into_iter()
        .find_map(|(field, map)| Some((field, map.as_ref()?.get(names::COOLDOWN_TIME)?)))
        .filter(|(_, text)| !text.is_empty() && parse_duration(text).is_none())?;
    Some(Invalid {
        field: format!("metadata.{field}.{}", names::COOLDOWN_TIME),
        problem: format!("found {text:?}, expected a duration such as 10m; the pod is not protected"),
    })
}

fn are_weights(text: &str) -> bool {
    serde_json::from_str::<BTreeMap<String, i64>>(text).is_ok()
}

fn annotation(key: &str, problem: String) -> Invalid {
    Invalid { field: format!("metadata.annotations.{key}"), problem }
}
