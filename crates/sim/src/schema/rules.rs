//! Rules of definitions in CEL (`x-kubernetes-validations`), for objects that are created.
//!
//! Source: Kubernetes' documentation of CustomResourceDefinitions, "Validation rules".
use phalanx_cache::Invalid;
use phalanx_cel::{Budget, Data, Expression};
use serde_json::Value;

use super::path::Path;

/// Steps of all rules of an object: what an API server allows is less.
const STEPS_MAX: u64 = 100_000_000;

/// The rules of a schema that an object breaks, by the paths of the fields.
pub(super) fn broken(schema: &Value, object: &Value) -> Vec<Invalid> {
    let mut rules = Rules { budget: Budget::new(STEPS_MAX), broken: Vec::new() };
    rules.check(schema, &with_defaults(schema, object), &Path::Top);
    rules.broken
}

/// An object with the defaults of fields that it leaves out, as an API server checks it.
fn with_defaults(schema: &Value, value: &Value) -> Value {
    match value {
        Value::Object(given) => {
            let mut fields = given.clone();
            let defaults = schema["properties"].as_object().into_iter().flatten();
            for (key, default) in defaults.filter_map(|(key, of)| Some((key, of.get("default")?))) {
                let field = fields.entry(key.clone()).or_insert(Value::Null);
                if field.is_null() {
                    *field = default.clone();
                }
            }
            for (key, field) in &mut fields {
                *field = with_defaults(of_field(schema, key), field);
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(|item| with_defaults(&schema["items"], item)).collect(),
        other => other.clone(),
    }
}

/// The schema of a field.
fn of_field<'s>(schema: &'s Value, key: &str) -> &'s Value {
    let own = &schema["properties"][key];
    if own.is_null() { &schema["additionalProperties"] } else { own }
}

struct Rules {
    budget: Budget,
    broken: Vec<Invalid>,
}

impl Rules {
    fn check(&mut self, schema: &Value, value: &Value, path: &Path<'_>) {
        let rules = schema["x-kubernetes-validations"].as_array().filter(|rules| !rules.is_empty());
        let object = rules.map_or(Data::None, |_| data(value));
        for rule in rules.into_iter().flatten() {
            if self.is_broken(rule, &object) {
                let problem = rule["message"].as_str().unwrap_or("breaks a rule").to_owned();
                self.broken.push(Invalid { field: path.to_string(), problem });
            }
        }
        match value {
            Value::Object(fields) => {
                for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                    self.check(of_field(schema, key), value, &Path::Key(path, key));
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.check(&schema["items"], item, &Path::Item(path, index));
                }
            }
            _ => {}
        }
    }

    /// Rules about changes do not hold for objects that are created. As on an API server, a rule that fails on the
    /// object is broken; one that cannot be read here, or takes too long, is left to the API server.
    fn is_broken(&mut self, rule: &Value, object: &Data) -> bool {
        let text = rule["rule"].as_str().unwrap_or_default();
        if text.contains("oldSelf") && rule["optionalOldSelf"] != true {
            return false;
        }
        let variables = [("self", object), ("oldSelf", &Data::None)];
        let Ok(rule) = Expression::parse(text, &mut self.budget) else { return false };
        match rule.holds(&variables, &mut self.budget) {
            Ok(holds) => !holds,
            Err(_) => !self.budget.is_spent(),
        }
    }
}

/// Fields that are null are missing. Numbers with a fraction are text: no rule computes with them.
fn data(json: &Value) -> Data {
    match json {
        Value::Null => Data::None,
        Value::Bool(value) => Data::Bool(*value),
        Value::Number(number) => number.as_i64().map_or_else(|| Data::Text(number.to_string()), Data::Int),
        Value::String(text) => Data::Text(text.clone()),
        Value::Array(list) => Data::List(list.iter().map(data).collect()),
        Value::Object(fields) => {
            let given = fields.iter().filter(|(_, value)| !value.is_null());
            Data::Map(given.map(|(name, value)| (name.clone(), data(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules of this kind's definition that the part of CEL here cannot read.
    fn unread(plural: &str) -> Vec<String> {
        let mut unread = Vec::new();
        visit(&super::super::sources::of_definition(plural), &mut |rule| {
            let text = rule["rule"].as_str().unwrap();
            if let Err(error) = Expression::parse(text, &mut Budget::new(STEPS_MAX)) {
                unread.push(format!("{error}: {text}"));
            }
        });
        unread
    }

    fn visit(schema: &Value, each: &mut dyn FnMut(&Value)) {
        schema["x-kubernetes-validations"].as_array().into_iter().flatten().for_each(&mut *each);
        for nested in schema.as_object().into_iter().flat_map(serde_json::Map::values) {
            match nested {
                Value::Object(_) => visit(nested, each),
                Value::Array(list) => list.iter().for_each(|item| visit(item, each)),
                _ => {}
            }
        }
    }

    #[test]
    fn rules_see_the_defaults_of_fields_that_are_left_out() {
        let task = serde_json::json!({
            "name": "worker", "replicas": 4, "minAvailable": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2},
        });
        let mut job =
            serde_json::json!({"metadata": {"name": "train"}, "spec": {"minAvailable": 4, "tasks": [task]}});
        let jobs = super::super::sources::of_definition("jobs");
        assert_eq!(broken(&jobs, &job), [], "minPartitions is 0");
        job["spec"]["tasks"][0]["partitionPolicy"]["minPartitions"] = 1.into();
        assert_eq!(broken(&jobs, &job).len(), 1);
    }

    #[test]
    fn all_rules_that_are_evaluated_can_be_read() {
        for plural in ["jobs", "cronjobs", "jobflows", "jobtemplates", "podgroups", "hypernodes"] {
            assert_eq!(unread(plural), Vec::<String>::new(), "{plural}");
        }
    }
}
