//! Schemas to shapes.
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Shape;

/// Types whose required fields are checked elsewhere or may be missing here: traces do not need names of
/// containers.
const PARTIAL: [&str; 2] = ["#/$defs/io.k8s.api.core.v1.PodSpec", "#/$defs/io.k8s.api.core.v1.Container"];

/// Turns a schema into a shape; referenced definitions are prepared once.
pub(super) struct Preparation<'s> {
    root: &'s Value,
    known: BTreeMap<&'s str, Arc<Shape>>,
}

impl<'s> Preparation<'s> {
    pub(super) fn of(root: &'s Value) -> Arc<Shape> {
        Self { root, known: BTreeMap::new() }.shape(root)
    }

    fn shape(&mut self, schema: &'s Value) -> Arc<Shape> {
        if let Some(reference) = schema["$ref"].as_str() {
            return self.referred(reference);
        }
        Arc::new(match schema["type"].as_str() {
            _ if schema["x-kubernetes-int-or-string"] == true => Shape::TextOrNumber,
            Some("object") => self.object(schema),
            Some("array") => Shape::List(self.shape(&schema["items"])),
            Some("string") => text(schema),
            Some("integer") => integer(schema),
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Bool,
            _ => Shape::Any,
        })
    }

    fn referred(&mut self, reference: &'s str) -> Arc<Shape> {
        if let Some(shape) = self.known.get(reference) {
            return Arc::clone(shape);
        }
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        // A placeholder while a definition is being prepared, in case it refers to itself.
        self.known.insert(reference, Arc::new(Shape::Any));
        let mut shape = target.map_or_else(|| Arc::new(Shape::Any), |target| self.shape(target));
        if PARTIAL.contains(&reference)
            && let Some(Shape::Fields { required, .. }) = Arc::get_mut(&mut shape)
        {
            required.clear();
        }
        self.known.insert(reference, Arc::clone(&shape));
        shape
    }

    fn object(&mut self, schema: &'s Value) -> Shape {
        let open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        match (schema["properties"].as_object(), &schema["additionalProperties"]) {
            (Some(fields), _) if !open => {
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                // Missing metadata is reported elsewhere.
                let required = required.filter(|key| *key != "metadata");
                Shape::Fields {
                    fields: fields.iter().map(|(key, field)| (key.clone(), self.shape(field))).collect(),
                    required: required.map(ToOwned::to_owned).collect(),
                }
            }
            (None, values @ Value::Object(_)) => Shape::Map(self.shape(values)),
            _ => Shape::Any,
        }
    }
}

/// The name of an object, or an empty text.
const NAME_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// A name without dots, or an empty text.
const LABEL_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$";

fn text(schema: &Value) -> Shape {
    if schema["format"] == "date-time" {
        return Shape::Time;
    }
    match schema["pattern"].as_str() {
        Some(NAME_PATTERN) => return Shape::Name,
        Some(LABEL_PATTERN) => return Shape::Label,
        // Schedules and time zones are read when their CronJob is.
        _ => {}
    }
    let one_of = schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Shape::Text {
        max: schema["maxLength"].as_u64().map_or(usize::MAX, |max| max as usize),
        one_of: one_of.map(ToOwned::to_owned).collect(),
    }
}

fn integer(schema: &Value) -> Shape {
    let bound = |key: &str| schema[key].as_f64().map(|bound| bound as i64);
    let (min, max) = match schema["format"].as_str() {
        Some("int32") => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    };
    Shape::Integer { min: bound("minimum").unwrap_or(min), max: bound("maximum").unwrap_or(max) }
}
