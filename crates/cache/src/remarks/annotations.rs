//! Annotations and labels that users write by hand, what their values may be, and what a wrong value counts as.
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::names;
use phalanx_cluster::duration::{LONGEST, is_too_long, parse_duration};
use phalanx_framework::conf::parse_bool;

use crate::Invalid;

/// An annotation or a label that users write by hand.
pub(super) struct Known {
    key: &'static str,
    /// The objects on which it is read, in order.
    of: &'static [Of],
    good: fn(&str) -> bool,
    expected: &'static str,
    /// What an invalid value counts as.
    instead: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum Of {
    Annotations,
    Labels,
}

impl Of {
    /// The field and its value.
    pub(super) fn value<'m>(self, metadata: &'m ObjectMeta, key: &str) -> Option<(&'static str, &'m String)> {
        let (field, map) = match self {
            Of::Annotations => ("annotations", &metadata.annotations),
            Of::Labels => ("labels", &metadata.labels),
        };
        Some((field, map.as_ref()?.get(key).filter(|text| !text.is_empty())?))
    }
}

const fn annotation(
    key: &'static str,
    good: fn(&str) -> bool,
    expected: &'static str,
    instead: &'static str,
) -> Known {
    Known { key, of: &[Of::Annotations], good, expected, instead }
}

pub(super) const PREEMPTABLE: Known = Known {
    key: names::PREEMPTABLE,
    of: &[Of::Annotations, Of::Labels],
    good: |text| parse_bool(text).is_some(),
    expected: "true or false",
    instead: "it counts as false",
};

pub(super) const OF_PODS: &[Known] = &[
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
    annotation(
        names::NUMA_TOPOLOGY_POLICY,
        |text| text == "none",
        "none",
        "NUMA nodes are not looked at, and the pod may be placed across them",
    ),
    annotation(
        names::NETWORK_TOPOLOGY_MODE,
        |text| ["hard", "soft"].iter().any(|mode| text.eq_ignore_ascii_case(mode)),
        "hard or soft",
        "it counts as hard",
    ),
    annotation(
        names::NETWORK_TOPOLOGY_HIGHEST_TIER,
        |text| text.parse::<i32>().is_ok_and(|tier| tier >= 0),
        "an integer, 0 or more",
        "it counts as missing, and the pods may be in any HyperNode",
    ),
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
pub(super) const OF_GROUPS: &[Known] = &[
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

impl Known {
    pub(super) fn wrong(&self, metadata: &ObjectMeta) -> Option<Invalid> {
        let value = self.of.iter().find_map(|of| of.value(metadata, self.key));
        let (field, text) = value.filter(|(_, text)| !(self.good)(text))?;
        let durations = self.expected.starts_with("a duration");
        let most =
            if durations && is_too_long(text) { format!(", at most {LONGEST}") } else { String::new() };
        Some(Invalid {
            field: format!("metadata.{field}.{}", self.key),
            problem: format!("found {text:?}, expected {}{most}; {}", self.expected, self.instead),
        })
    }
}

/// A remark on each of these with a wrong value.
pub(super) fn odd(known: &[Known], metadata: &ObjectMeta) -> Vec<Invalid> {
    known.iter().filter_map(|known| known.wrong(metadata)).collect()
}
