//! Whether a real API server takes the schemas: its rules for structural schemas, checked here so
//! that a change which breaks them fails without one.

use serde_json::{Map, Value, json};

use crate::definitions::definition;

/// Keys that have a meaning in a definition; any other was forgotten by the generator.
const KNOWN: [&str; 23] = [
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "format",
    "items",
    "maximum",
    "maxLength",
    "minimum",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "minLength",
    "minItems",
    "x-kubernetes-validations",
    "maxItems",
    "maxProperties",
];

#[test]
fn the_schemas_are_structural() {
    for kind in ["PodGroup", "Queue", "Job", "CronJob", "Command", "JobFlow", "JobTemplate", "HyperNode"] {
        check(&root(kind), "");
    }
}

fn root(kind: &str) -> Value {
    definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone()
}

fn check(schema: &Value, path: &str) {
    let fields = schema.as_object().unwrap_or_else(|| panic!("{path}: not a schema: {schema}"));
    for key in fields.keys() {
        assert!(KNOWN.contains(&key.as_str()), "{path}: {key} has no place in a definition");
    }
    check_type(fields, path);
    check_default(fields, path);
    check_rules(fields, path);
    for (name, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
        check(property, &format!("{path}.{name}"));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(schema) = fields.get(key) {
            check(schema, &format!("{path}[]"));
        }
    }
}

fn check_type(fields: &Map<String, Value>, path: &str) {
    if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        assert!(!fields.contains_key("type"), "{path}: a type beside int-or-string");
        assert_eq!(fields["anyOf"], json!([{ "type": "integer" }, { "type": "string" }]), "{path}");
        return;
    }
    assert!(!fields.contains_key("anyOf"), "{path}: anyOf");
    match fields.get("type").and_then(Value::as_str) {
        Some("object") => assert!(
            !(fields.contains_key("properties") && fields.contains_key("additionalProperties")),
            "{path}: both properties and additionalProperties"
        ),
        Some("array") => assert!(fields.contains_key("items"), "{path}: an array of what?"),
        Some("string" | "integer" | "boolean" | "number") => {}
        other => panic!("{path}: type {other:?}"),
    }
}

/// A default must itself be valid, or the definition is refused.
fn check_default(fields: &Map<String, Value>, path: &str) {
    let Some(default) = fields.get("default") else { return };
    match fields["type"].as_str().unwrap() {
        "string" => assert!(default.is_string(), "{path}: default {default}"),
        "boolean" => assert!(default.is_boolean(), "{path}: default {default}"),
        "integer" => assert!(default.as_i64() >= fields["minimum"].as_i64(), "{path}: default {default}"),
        other => panic!("{path}: a default for {other}"),
    }
    if let Some(values) = fields.get("enum") {
        assert!(values.as_array().unwrap().contains(default), "{path}: default {default}");
    }
}

fn check_rules(fields: &Map<String, Value>, path: &str) {
    for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
        for key in ["rule", "message"] {
            let text = rule[key].as_str().unwrap_or_default();
            assert!(!text.is_empty() && !text.contains('\n'), "{path}: {key} of {rule}");
        }
        if let Some(field) = rule.get("fieldPath") {
            assert!(field.as_str().unwrap().starts_with('.'), "{path}: {field}");
        }
    }
}
