//! What stands on an object and counts for something else than was meant: told once, and nothing waits for it.
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::{names, v1beta1};
use phalanx_core::conf::parse_bool;
use phalanx_core::duration::parse_duration;

use crate::pod::Marks;
use crate::{Invalid, slim};

/// A mark that people write by hand.
struct Known {
    key: &'static str,
    /// Where it is looked for, in order.
    of: &'static [Of],
    good: fn(&str) -> bool,
    expected: &'static str,
    /// What becomes of a value that is not good.
    instead: &'static str,
}

#[derive(Clone, Copy)]
enum Of {
    Annotations,
    Labels,
}

const fn annotation(
    key: &'static str,
    good: fn(&str) -> bool,
    expected: &'static str,
    instead: &'static str,
) -> Known {
    Known { key, of: &[Of::Annotations], good, expected, instead }
}

const PREEMPTABLE: Known = Known {
    key: names::PREEMPTABLE,
    of: &[Of::Annotations, Of::Labels],
    good: |text| parse_bool(text).is_some(),
    expected: "true or false",
    instead: "it counts as false",
};

const OF_PODS: &[Known] = &[
    PREEMPTABLE,
    annotation(
        names::TASK_PRIORITY,
        |text| text.parse::<i32>().is_ok(),
        "an integer",
        "spec.priority counts",
    ),
    annotation(
        names::TASK_INDEX,
        |text| text.parse::<u32>().is_ok(),
        "an integer, 0 or more",
        "the number behind the last dash of the pod's name counts",
    ),
    Known {
        key: names::COOLDOWN_TIME,
        of: &[Of::Labels, Of::Annotations],
        good: |text| parse_duration(text).is_some_and(|time| time >= 0),
        expected: "a duration such as 10m",
        instead: "the pod is not protected",
    },
    annotation(names::REVOCABLE_ZONE, |text| text == "*", "*", "the pod is kept off nodes that are lent"),
    annotation(
        names::RESOURCE_STRATEGY_SCORING_TYPE,
        |text| matches!(text, "LeastAllocated" | "MostAllocated"),
        "LeastAllocated or MostAllocated",
        "all nodes are alike for the pod",
    ),
    annotation(
        names::RESOURCE_STRATEGY_WEIGHT,
        |text| serde_json::from_str::<BTreeMap<String, i64>>(text).is_ok(),
        "a JSON object of integers",
        "all nodes are alike for the pod",
    ),
    annotation(
        names::QUEUE_ALLOCATION_GATE,
        |text| matches!(text, "true" | "false"),
        "true or false",
        "it counts as false",
    ),
];

/// A pod without a PodGroup is its own.
const OF_GROUPS: &[Known] = &[
    waiting(names::SLA_WAITING_TIME),
    waiting(names::BARE_SLA_WAITING_TIME),
    budget(names::JDB_MIN_AVAILABLE),
    budget(names::JDB_MAX_UNAVAILABLE),
];

const fn waiting(key: &'static str) -> Known {
    annotation(
        key,
        |text| parse_duration(text).is_some_and(|time| time > 0),
        "a duration above 0 such as 30m",
        "it counts as missing",
    )
}

const fn budget(key: &'static str) -> Known {
    annotation(
        key,
        |text| text.strip_suffix('%').unwrap_or(text).parse::<u32>().is_ok(),
        "a number of pods such as 2, or a part such as 50%",
        "it counts as 0",
    )
}

/// Of a pod.
pub fn of_pod(pod: &slim::Pod) -> Vec<Invalid> {
    let marks = Marks(&pod.metadata);
    let mut found = odd(OF_PODS, &pod.metadata);
    if marks.annotation(names::GROUP_NAME_ANNOTATION).is_none() {
        found.extend(of_budgets(&pod.metadata));
    }
    if marks.annotation(names::RESOURCE_STRATEGY_WEIGHT).is_some()
        && marks.annotation(names::RESOURCE_STRATEGY_SCORING_TYPE).is_none()
    {
        found.push(beside(
            names::RESOURCE_STRATEGY_WEIGHT,
            "found it without",
            names::RESOURCE_STRATEGY_SCORING_TYPE,
        ));
    }
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
    let mut found = odd(&[PREEMPTABLE], &group.metadata);
    found.extend(of_budgets(&group.metadata));
    found
}

/// How long a job may wait, and how many of its pods may go.
fn of_budgets(metadata: &ObjectMeta) -> Vec<Invalid> {
    let mut found = odd(OF_GROUPS, metadata);
    let marks = Marks(metadata);
    let has = |key| marks.annotation(key).is_some();
    if has(names::JDB_MIN_AVAILABLE) && has(names::JDB_MAX_UNAVAILABLE) {
        found.push(beside(names::JDB_MAX_UNAVAILABLE, "found it beside", names::JDB_MIN_AVAILABLE));
    }
    found
}

fn odd(known: &[Known], metadata: &ObjectMeta) -> Vec<Invalid> {
    known.iter().filter_map(|known| known.wrong(metadata)).collect()
}

fn beside(key: &str, how: &str, other: &str) -> Invalid {
    Invalid {
        field: format!("metadata.annotations.{key}"),
        problem: format!("{how} {other}; it has no effect"),
    }
}

impl Known {
    fn wrong(&self, metadata: &ObjectMeta) -> Option<Invalid> {
        let value = |of: &Of| {
            let (field, map) = match of {
                Of::Annotations => ("annotations", &metadata.annotations),
                Of::Labels => ("labels", &metadata.labels),
            };
            let text = map.as_ref()?.get(self.key).filter(|text| !text.is_empty())?;
            Some((field, text))
        };
        let (field, text) = self.of.iter().find_map(value).filter(|(_, text)| !(self.good)(text))?;
        Some(Invalid {
            field: format!("metadata.{field}.{}", self.key),
            problem: format!("found {text:?}, expected {}; {}", self.expected, self.instead),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(metadata: &Value) -> Vec<String> {
        let pod: slim::Pod = crate::decode(&json!({"metadata": metadata})).expect("a pod");
        of_pod(&pod).iter().map(ToString::to_string).collect()
    }

    /// The annotation, and what is told of it: nothing, or what it counts as.
    #[test]
    fn annotations_that_count_for_something_else_are_told() {
        let scoring = names::RESOURCE_STRATEGY_SCORING_TYPE;
        for (key, value, expected) in [
            (names::PREEMPTABLE, "true", ""),
            (names::PREEMPTABLE, "maybe", "expected true or false; it counts as false"),
            (names::TASK_PRIORITY, "high", "expected an integer; spec.priority counts"),
            (names::TASK_INDEX, "7", ""),
            (names::TASK_INDEX, "-1", "the number behind the last dash of the pod's name counts"),
            (names::COOLDOWN_TIME, "10m", ""),
            (names::COOLDOWN_TIME, "0", ""),
            (names::COOLDOWN_TIME, "", ""),
            (names::COOLDOWN_TIME, "soon", "expected a duration such as 10m; the pod is not protected"),
            (names::COOLDOWN_TIME, "10", "expected a duration such as 10m; the pod is not protected"),
            (names::COOLDOWN_TIME, "-5s", "expected a duration such as 10m; the pod is not protected"),
            (names::REVOCABLE_ZONE, "*", ""),
            (names::REVOCABLE_ZONE, "rz1", "expected *; the pod is kept off nodes that are lent"),
            (scoring, "MostAllocated", ""),
            (scoring, "Most", "expected LeastAllocated or MostAllocated; all nodes are alike for the pod"),
            (names::QUEUE_ALLOCATION_GATE, "false", ""),
            (names::QUEUE_ALLOCATION_GATE, "yes", "expected true or false; it counts as false"),
            (names::SLA_WAITING_TIME, "1h30m", ""),
            (names::SLA_WAITING_TIME, "0s", "expected a duration above 0 such as 30m; it counts as missing"),
            (names::BARE_SLA_WAITING_TIME, "soon", "expected a duration above 0 such as 30m"),
            (names::JDB_MIN_AVAILABLE, "50%", ""),
            (names::JDB_MIN_AVAILABLE, "half", "it counts as 0"),
            (names::JDB_MAX_UNAVAILABLE, "-3", "it counts as 0"),
        ] {
            let found = of(&json!({"annotations": {key: value}}));
            let said = found.first().map(String::as_str).unwrap_or_default();
            let field = format!("metadata.annotations.{key}: found {value:?}, ");
            assert_eq!((said.is_empty(), found.len() < 2), (expected.is_empty(), true), "{key} {found:?}");
            assert!(said.is_empty() || said.starts_with(&field) && said.contains(expected), "{found:?}");
        }
    }

    #[test]
    fn weights_are_integers_in_json_and_need_a_type() {
        let (scoring, weight) = (names::RESOURCE_STRATEGY_SCORING_TYPE, names::RESOURCE_STRATEGY_WEIGHT);
        let with = |text: &str| of(&json!({"annotations": {scoring: "LeastAllocated", weight: text}}));
        for good in ["{}", "{\"cpu\": 2, \"nvidia.com/gpu\": 5}", ""] {
            assert_eq!(with(good), [""; 0], "{good}");
        }
        for bad in ["{", "[1]", "{\"cpu\": \"2\"}", "{\"cpu\": 1.5}", "cpu=2"] {
            let expected = format!(
                "metadata.annotations.{weight}: found {bad:?}, expected a JSON object of integers; all nodes are alike for the pod"
            );
            assert_eq!(with(bad), [expected]);
        }
        let alone = of(&json!({"annotations": {weight: "{\"cpu\": 2}"}}));
        assert_eq!(
            alone,
            [format!("metadata.annotations.{weight}: found it without {scoring}; it has no effect")]
        );
    }

    #[test]
    fn what_counts_first_is_told_of_labels_and_annotations() {
        let (cooldown, preemptable) = (names::COOLDOWN_TIME, names::PREEMPTABLE);
        for (labels, annotations, expected) in [
            (json!({cooldown: "soon"}), json!({cooldown: "1m"}), Some("metadata.labels.")),
            (json!({cooldown: "1m"}), json!({cooldown: "soon"}), None),
            (json!({cooldown: ""}), json!({cooldown: "soon"}), Some("metadata.annotations.")),
            (json!({preemptable: "maybe"}), json!({preemptable: "true"}), None),
            (json!({preemptable: "maybe"}), json!({}), Some("metadata.labels.")),
        ] {
            let found = of(&json!({"labels": labels, "annotations": annotations}));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{found:?}");
            assert!(
                found.iter().all(|one| expected.is_some_and(|field| one.starts_with(field))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn of_both_budgets_one_counts() {
        let annotations = json!({names::JDB_MIN_AVAILABLE: "1", names::JDB_MAX_UNAVAILABLE: "1"});
        let found = of(&json!({"annotations": annotations}));
        let expected =
            "volcano.sh/jdb-max-unavailable: found it beside volcano.sh/jdb-min-available; it has no effect";
        assert_eq!(found, [format!("metadata.annotations.{expected}")]);
        let group = "scheduling.k8s.io/group-name";
        let mut annotations = annotations;
        annotations[group] = "g".into();
        assert_eq!(of(&json!({"annotations": annotations})), [""; 0], "they are read on the PodGroup then");
    }
}
