//! Checks of types and ranges as in an API server, and unknown fields.
//!
//! The schemas are those of the kinds themselves: Kubernetes' own, and the CustomResourceDefinitions of Volcano's
//! kinds; fields that they require are required except in status. What Kubernetes checks in code is in `ENUMS` and in
//! the checks of pods. Rules in CEL are evaluated for Volcano's kinds except Queue: queues that contradict themselves
//! wait with a reason.
mod path;
mod prepare;
mod rules;
mod sources;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use phalanx_cache::{Invalid, is_name};
use serde::Deserialize;
use serde_json::Value;

use path::Path;
use prepare::Preparation;

use crate::kind::{Controlled, Kind};
use crate::object::NAME;

/// The prepared schemas of the kinds in the input.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    shapes: BTreeMap<String, Arc<Shape>>,
    /// Schemas of Volcano's kinds, with their rules.
    definitions: BTreeMap<&'static str, Arc<Value>>,
}

impl Schemas {
    /// Unknown and invalid fields of an object.
    pub(crate) fn check(&mut self, kind: Kind, object: &Value) -> Checked {
        self.check_by(&format!("{kind:?}"), || sources::of(kind), object)
    }

    /// Unknown and invalid fields of a workload except in its template.
    pub(crate) fn check_workload(&mut self, kind: &str, object: &Value) -> Checked {
        self.check_by(kind, || sources::of_workload(kind), object)
    }

    /// Unknown and invalid fields of an object of Volcano's controllers, except in templates of pods, which are pods of
    /// their own.
    pub(crate) fn check_controlled(&mut self, kind: Controlled, object: &Value) -> Checked {
        let schema = self.definition(sources::plural_of(kind));
        let mut checked = self.check_by(&format!("Volcano {}", kind.name()), || (*schema).clone(), object);
        let of_template = |path: &str| path.contains(".template.");
        checked.unknown.retain(|unknown| !of_template(&unknown.path));
        checked.invalid.retain(|invalid| !of_template(&invalid.field));
        checked
    }

    /// The rules of its definition that an object of Volcano's controllers breaks.
    pub(crate) fn broken_rules(&mut self, kind: Controlled, object: &Value) -> Vec<Invalid> {
        rules::broken(&self.definition(sources::plural_of(kind)), object)
    }

    /// The rules of the definition of HyperNodes, and of PodGroups, that an object breaks.
    pub(crate) fn broken_topology_rules(&mut self, kind: Kind, object: &Value) -> Vec<Invalid> {
        let spec = &object["spec"];
        let asks = ["networkTopology", "subGroupPolicy"].iter().any(|field| !spec[field].is_null());
        match kind {
            Kind::HyperNode => rules::broken(&self.definition(sources::HYPER_NODES), object),
            Kind::PodGroup if asks => rules::broken(&self.definition(sources::POD_GROUPS), object),
            _ => Vec::new(),
        }
    }

    fn definition(&mut self, plural: &'static str) -> Arc<Value> {
        let made = || Arc::new(sources::of_definition(plural));
        Arc::clone(self.definitions.entry(plural).or_insert_with(made))
    }

    fn check_by(&mut self, kind: &str, schema: impl FnOnce() -> Value, object: &Value) -> Checked {
        let shape = match self.shapes.get(kind) {
            Some(shape) => Arc::clone(shape),
            None => Preparation::of(&schema()),
        };
        self.shapes.entry(kind.to_owned()).or_insert_with(|| Arc::clone(&shape));
        let mut found = Checked::default();
        shape.check(object, &Path::Top, &mut found);
        found
    }
}

/// An unknown field, and the field that was probably meant.
#[derive(Debug, PartialEq)]
pub(crate) struct UnknownField {
    pub(crate) path: String,
    pub(crate) near: Option<String>,
}

/// The results of a check.
#[derive(Default)]
pub(crate) struct Checked {
    /// Unknown fields.
    pub(crate) unknown: Vec<UnknownField>,
    /// Invalid or missing fields.
    pub(crate) invalid: Vec<Invalid>,
}

impl Checked {
    /// All of it, where unknown fields are refused as `kubectl apply` refuses them.
    pub(crate) fn problems(self, kind: &str) -> Vec<Invalid> {
        let unknown = self.unknown.iter().map(|unknown| unknown.refused(kind));
        unknown.chain(self.invalid).collect()
    }

    fn missing(&mut self, path: &Path<'_>, shape: Option<&Arc<Shape>>) {
        let expected = shape.map(ToString::to_string).unwrap_or_default();
        self.invalid
            .push(Invalid { field: path.to_string(), problem: format!("missing, expected {expected}") });
    }
}

/// The hint after true or false in place of a text.
pub(crate) const YAML_BOOL: &str =
    "; without quotes YAML takes y, yes and on for true, and n, no and off for false";

/// The expected form of a value.
#[derive(Debug, PartialEq)]
enum Shape {
    Any,
    Text {
        max: usize,
        one_of: Vec<String>,
    },
    /// The name of an object, or an empty text.
    Name,
    /// A name without dots, or an empty text.
    Label,
    /// A point in time.
    Time,
    Integer {
        min: i64,
        max: i64,
    },
    Number,
    Bool,
    /// A quantity or a port: text or a number.
    TextOrNumber,
    List(Arc<Shape>),
    Map(Arc<Shape>),
    Fields {
        fields: BTreeMap<String, Arc<Shape>>,
        required: Vec<String>,
    },
}

impl UnknownField {
    /// The field that was probably meant, in brackets.
    pub(crate) fn hint(&self) -> String {
        self.near.as_ref().map(|near| format!(" (did you mean {near}?)")).unwrap_or_default()
    }

    /// As `kubectl apply` refuses it.
    pub(crate) fn refused(&self, kind: &str) -> Invalid {
        let problem = format!("unknown field, expected one that a {kind} has{}", self.hint());
        Invalid { field: self.path.clone(), problem }
    }

    fn new(path: &Path<'_>, key: &str, fields: &BTreeMap<String, Arc<Shape>>) -> Self {
        let names: Vec<&str> = fields.keys().map(String::as_str).collect();
        Self { path: path.to_string(), near: phalanx_conf::nearest(&names, key).map(ToOwned::to_owned) }
    }
}

impl Shape {
    fn check(&self, value: &Value, path: &Path<'_>, found: &mut Checked) {
        match (self, value) {
            // Null counts as missing.
            (_, Value::Null) | (Shape::Any, _) => {}
            (Shape::Fields { fields, required }, Value::Object(map)) => {
                for key in required.iter().filter(|key| map.get(*key).is_none_or(Value::is_null)) {
                    let path = Path::Key(path, key);
                    if !path.is_in_status() {
                        found.missing(&path, fields.get(key));
                    }
                }
                for (key, value) in map {
                    let path = Path::Key(path, key);
                    match fields.get(key) {
                        Some(shape) => shape.check(value, &path, found),
                        None => found.unknown.push(UnknownField::new(&path, key, fields)),
                    }
                }
            }
            (Shape::Map(shape), Value::Object(map)) => {
                map.iter().for_each(|(key, value)| shape.check(value, &Path::Key(path, key), found));
            }
            (Shape::List(shape), Value::Array(list)) => {
                let items = list.iter().enumerate();
                items.for_each(|(index, value)| shape.check(value, &Path::Item(path, index), found));
            }
            (scalar, value) if scalar.admits(value) => {}
            _ => found.invalid.push(Invalid {
                field: path.to_string(),
                problem: format!(
                    "found {}, expected {self}{}",
                    crate::reader::describe(value),
                    self.hint(value)
                ),
            }),
        }
    }

    /// What makes true or false of a word, and the last time there is: a day before the end of all four-digit years, so
    /// that it can be told in every time zone.
    fn hint(&self, value: &Value) -> &'static str {
        match (self, value) {
            (Shape::Time, Value::String(text)) if text.starts_with("9999-") => {
                ", at most 9999-12-30T22:00:00Z"
            }
            (Shape::Text { .. } | Shape::Name | Shape::Label, Value::Bool(_)) => YAML_BOOL,
            _ => "",
        }
    }

    fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Shape::Name, Value::String(text)) => text.is_empty() || is_name(text),
            (Shape::Label, Value::String(text)) => text.is_empty() || (is_name(text) && !text.contains('.')),
            (Shape::Time, Value::String(_)) => MicroTime::deserialize(value).is_ok(),
            (Shape::Text { max, one_of }, Value::String(text)) => {
                text.chars().count() <= *max && (one_of.is_empty() || one_of.contains(text))
            }
            (Shape::Integer { min, max }, Value::Number(number)) => {
                number.as_i64().is_some_and(|number| (*min..=*max).contains(&number))
            }
            (Shape::TextOrNumber, Value::String(_) | Value::Number(_))
            | (Shape::Number, Value::Number(_))
            | (Shape::Bool, Value::Bool(_)) => true,
            _ => false,
        }
    }
}

/// The text of an expectation.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Shape::Any => f.write_str("anything"),
            Shape::Text { one_of, .. } if !one_of.is_empty() => {
                let texts = one_of.iter().map(String::as_str).filter(|text| !text.is_empty());
                write!(f, "one of {}", texts.collect::<Vec<_>>().join(", "))
            }
            Shape::Name => f.write_str(NAME),
            Shape::Label => {
                f.write_str("lower-case letters, digits and '-', with letters or digits at both ends")
            }
            Shape::Time => f.write_str("a time such as 2026-01-31T08:00:00Z"),
            Shape::Text { max: usize::MAX, .. } => f.write_str("text"),
            Shape::Text { max, .. } => write!(f, "text of at most {max} letters"),
            Shape::Integer { min: i64::MIN, max: i64::MAX } => f.write_str("an integer"),
            Shape::Integer { min, max: i64::MAX } => write!(f, "an integer of at least {min}"),
            Shape::Integer { min, max } => write!(f, "an integer from {min} to {max}"),
            Shape::Number => f.write_str("a number"),
            Shape::Bool => f.write_str("true or false"),
            Shape::TextOrNumber => f.write_str("text or a number"),
            Shape::List(_) => f.write_str("a list"),
            Shape::Map(_) | Shape::Fields { .. } => f.write_str("a mapping"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(kind: Kind, object: &Value) -> Result<Vec<String>, String> {
        let Checked { unknown, invalid } = Schemas::default().check(kind, object);
        let told = |unknown: UnknownField| match unknown.near {
            Some(near) => format!("{} ({near})", unknown.path),
            None => unknown.path,
        };
        let first = invalid.first().map(|wrong| Err(wrong.to_string()));
        first.unwrap_or_else(|| Ok(unknown.into_iter().map(told).collect()))
    }

    #[test]
    fn fields_have_the_types_and_ranges_of_their_kind() {
        for (kind, object, expected) in [
            (
                Kind::PodGroup,
                json!({"spec": {"minMember": "two"}}),
                "spec.minMember: found \"two\", expected an integer from 0 to 2147483647",
            ),
            (
                Kind::Queue,
                json!({"spec": {"weight": 0}}),
                "spec.weight: found 0, expected an integer from 1 to 65535",
            ),
            (
                Kind::Queue,
                json!({"spec": {"capability": {"cpu": [1]}}}),
                "spec.capability.cpu: found a list, expected text or a number",
            ),
            (
                Kind::PodGroup,
                json!({"spec": {"networkTopology": {"mode": "sofft"}}}),
                "spec.networkTopology.mode: found \"sofft\", expected one of hard, soft",
            ),
            (
                Kind::Pod,
                json!({"spec": {"containers": {"name": "main"}}}),
                "spec.containers: found a mapping, expected a list",
            ),
            (
                Kind::Pod,
                json!({"spec": {"containers": [{"name": 7}]}}),
                "spec.containers[0].name: found 7, expected text",
            ),
            (
                Kind::Pod,
                json!({"metadata": {"labels": {"a.b/c": true}}}),
                "metadata.labels.a.b/c: found true, expected text; without quotes YAML takes y, yes and on for true, and n, no and off for false",
            ),
        ] {
            assert_eq!(check(kind, &object), Err(expected.to_owned()));
        }
    }

    #[test]
    fn times_durations_and_quantities_are_read_as_kubernetes_does() {
        for (kind, object, expected) in [
            (
                Kind::Pod,
                json!({"spec": {"restartPolicy": "Sometimes"}}),
                "spec.restartPolicy: found \"Sometimes\", expected one of Always, OnFailure, Never",
            ),
            (
                Kind::Pod,
                json!({"spec": {"preemptionPolicy": "Maybe"}}),
                "spec.preemptionPolicy: found \"Maybe\", expected one of Never, PreemptLowerPriority",
            ),
            (
                Kind::PriorityClass,
                json!({"preemptionPolicy": "Maybe"}),
                "preemptionPolicy: found \"Maybe\", expected one of Never, PreemptLowerPriority",
            ),
            (
                Kind::Pod,
                json!({"status": {"phase": "Weird"}}),
                "status.phase: found \"Weird\", expected one of Pending, Running, Succeeded, Failed, Unknown",
            ),
            (
                Kind::Queue,
                json!({"status": {"state": "Ajar"}}),
                "status.state: found \"Ajar\", expected one of Open, Closed, Closing, Unknown",
            ),
            (
                Kind::PodGroup,
                json!({"spec": {"queue": "A_b"}}),
                "spec.queue: found \"A_b\", expected lower-case letters, digits, '-' and '.', at most 253",
            ),
            (
                Kind::Queue,
                json!({"spec": {"parent": "a\u{1b}[31mb\nc"}}),
                "spec.parent: found \"a\\u001b[31mb\\nc\", expected lower-case letters, digits, '-' and '.', at most 253",
            ),
            (
                Kind::Node,
                json!({"metadata": {"creationTimestamp": "yesterday"}}),
                "metadata.creationTimestamp: found \"yesterday\", expected a time such as 2026-01-31T08:00:00Z",
            ),
            (
                Kind::Node,
                json!({"metadata": {"creationTimestamp": "9999-12-31T23:59:59Z"}}),
                "metadata.creationTimestamp: found \"9999-12-31T23:59:59Z\", expected a time such as 2026-01-31T08:00:00Z, at most 9999-12-30T22:00:00Z",
            ),
            (
                Kind::Node,
                json!({"spec": {"unschedulable": "yes"}}),
                "spec.unschedulable: found \"yes\", expected true or false",
            ),
            (
                Kind::PriorityClass,
                json!({"value": 1.5}),
                "value: found 1.5, expected an integer from -2147483648 to 2147483647",
            ),
        ] {
            assert_eq!(check(kind, &object), Err(expected.to_owned()));
        }
    }

    #[test]
    fn missing_required_fields_are_reported_except_in_status() {
        for (kind, object, expected) in [
            (
                Kind::Pod,
                json!({"spec": {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}}),
                Err("spec.topologySpreadConstraints[0].whenUnsatisfiable: missing, expected text"),
            ),
            (
                Kind::Pod,
                json!({"spec": {"volumes": [{"persistentVolumeClaim": {"claimName": null}, "name": "v"}]}}),
                Err("spec.volumes[0].persistentVolumeClaim.claimName: missing, expected text"),
            ),
            (
                Kind::ResourceSlice,
                json!({"spec": {"driver": "d", "nodeName": "n"}}),
                Err("spec.pool: missing, expected a mapping"),
            ),
            (Kind::StorageClass, json!({}), Err("provisioner: missing, expected text")),
            (Kind::Pod, json!({"spec": {"containers": [{"image": "a"}]}}), Ok(())),
            (Kind::Pod, json!({"status": {"containerStatuses": [{"ready": true}]}}), Ok(())),
            (Kind::Node, json!({"status": {"nodeInfo": {"architecture": "arm64"}}}), Ok(())),
        ] {
            assert_eq!(check(kind, &object).map(|_| ()), expected.map_err(ToOwned::to_owned), "{object}");
        }
    }

    #[test]
    fn valid_objects_pass_and_unknown_fields_are_reported() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "creationTimestamp": null,
                "managedFields": [{"time": "2026-01-31T08:00:00.123456Z"}]}, "status": {"phase": ""},
            "spec": {"shedulerName": "volcano", "restartPolicy": "Never", "preemptionPolicy": "", "containers": [{"name": "main", "resource": {},
                "resources": {"requests": {"cpu": 0.5, "memory": "1Gi", "nvidia.com/gpu": 1}},
                "livenessProbe": {"httpGet": {"port": "http"}}}]}});
        let unknown = check(Kind::Pod, &pod).unwrap();
        assert_eq!(unknown, ["spec.containers[0].resource (resources)", "spec.shedulerName (schedulerName)"]);
        let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
            "spec": {"minMember": 1, "minMembers": 2, "minTaskMember": {"worker": 1}, "queue": "q"}});
        assert_eq!(check(Kind::PodGroup, &group), Ok(vec!["spec.minMembers (minMember)".to_owned()]));
    }
}
