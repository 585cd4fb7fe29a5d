//! What a step changes of its template.

use phalanx_api::batch::JobSpec;
use serde_json::Value;

/// The spec with a merge patch: objects field by field, null removes, lists whole, but for tasks, which go by name.
pub(super) fn patched(spec: &JobSpec, changes: Option<&Value>) -> Result<JobSpec, String> {
    let Some(changes) = changes.filter(|changes| !changes.is_null()) else { return Ok(spec.clone()) };
    let wrong = |error: serde_json::Error| format!("spec.flows.patch.jobSpec: {error}");
    let mut value = serde_json::to_value(spec).map_err(wrong)?;
    merge(&mut value, changes);
    serde_json::from_value(value).map_err(wrong)
}

fn merge(into: &mut Value, changes: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *into, changes) else {
        *into = changes.clone();
        return;
    };
    for (key, change) in changes {
        match (fields.get_mut(key), change) {
            (_, Value::Null) => {
                fields.remove(key);
            }
            (Some(Value::Array(tasks)), Value::Array(changes)) if key == "tasks" => {
                merge_tasks(tasks, changes);
            }
            (Some(field), change) => merge(field, change),
            (None, change) => {
                fields.insert(key.clone(), change.clone());
            }
        }
    }
}

fn merge_tasks(tasks: &mut Vec<Value>, changes: &[Value]) {
    for change in changes {
        match tasks.iter_mut().find(|task| task["name"] == change["name"]) {
            Some(task) => merge(task, change),
            None => tasks.push(change.clone()),
        }
    }
}
