//! Schemas of fields that the Rust type alone does not say.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::rules;

/// The text of a Kubernetes quantity after its sign.
const UNSIGNED: &str = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";

/// The text of a Kubernetes object name (DNS subdomain), or none: "" stands for absent, and Volcano's definitions
/// took it up to version 1.13.
pub(crate) const OBJECT_NAME: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";

/// The text of a Kubernetes object name.
pub(crate) const SOME_NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// An enumeration of a status, in which "" stands for absent, and which Volcano's definitions did not bound up to
/// version 1.13.
pub(crate) fn or_empty<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator);
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(json!(""));
    }
    schema
}

/// [`ResourceList`](super::ResourceList): quantities as text or number, as the API server stores them.
pub(crate) fn resource_list(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": quantity("[+-]?") })
}

/// A resource list whose values Volcano's admission checks too: none below zero, some whole.
pub(crate) fn checked_resource_list(_: &mut SchemaGenerator) -> Schema {
    let mut amount = quantity(r"\+?");
    amount["minimum"] = json!(0);
    json_schema!({
        "type": "object",
        "additionalProperties": amount,
        "x-kubernetes-validations": [rules::whole_numbers()],
    })
}

fn quantity(sign: &str) -> Value {
    json!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": format!("^{sign}{UNSIGNED}"),
        "x-kubernetes-int-or-string": true,
    })
}

/// Go's plain `int`: an integer without a format.
pub(crate) fn tier(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "minimum": 0 })
}
