//! Schemas of Kubernetes' own types where they stand inside ours.

use k8s_openapi::api::core::v1::{HTTPHeader, ObjectReference, PersistentVolumeClaimSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// A pod template. Its metadata keeps every field, as the API server keeps that of objects.
pub(crate) fn pod_template(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = plain::<PodTemplateSpec>(generator).to_value();
    schema["properties"]["metadata"] = metadata(generator).to_value();
    Schema::try_from(schema).unwrap_or_default()
}

/// The metadata of an object that is made from a template.
pub(crate) fn metadata(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

pub(crate) fn claim(generator: &mut SchemaGenerator) -> Schema {
    plain::<PersistentVolumeClaimSpec>(generator)
}

pub(crate) fn owner(generator: &mut SchemaGenerator) -> Schema {
    plain::<OwnerReference>(generator)
}

pub(crate) fn references(generator: &mut SchemaGenerator) -> Schema {
    let item = plain::<ObjectReference>(generator).to_value();
    json_schema!({ "type": "array", "items": item, "x-kubernetes-list-type": "atomic" })
}

pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": plain::<Condition>(generator).to_value() })
}

/// Its name and value are not required: Volcano's probes leave out the whole header.
pub(crate) fn header(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = plain::<HTTPHeader>(generator);
    schema.remove("required");
    schema
}

/// Without descriptions, of which a pod template has more than a client-side apply may store.
fn plain<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = T::json_schema(generator).to_value();
    clean(&mut schema);
    Schema::try_from(schema).unwrap_or_default()
}

fn clean(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    fields.remove("description");
    if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
        fields.insert("anyOf".into(), json!([{ "type": "integer" }, { "type": "string" }]));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            clean(inner);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        Map::values_mut(properties).for_each(clean);
    }
}
