//! Requests in words, for stories that are told.
use http::{Method, Request};
use hyper::body::Bytes;
use serde_json::Value;

/// What a request asks for, such as `binds pod gang-0-1 to node-0`. Of what is seldom sent: method, path and body.
pub(super) fn words(request: &Request<Bytes>) -> String {
    let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
    let parts: Vec<&str> = request.uri().path().rsplit('/').take(3).collect();
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).unwrap_or("?").to_owned();
    match (request.method(), parts.as_slice()) {
        (&Method::POST, ["binding", pod, ..]) => format!("binds pod {pod} to {}", text("/target/name")),
        (&Method::POST, ["eviction", pod, ..]) => format!("evicts pod {pod}"),
        (&Method::DELETE, [name, plural, ..]) => format!("deletes {plural}/{name}"),
        (&Method::POST, ["events", ..]) => {
            format!("sends event {} of {}: {}", text("/reason"), text("/regarding/name"), text("/note"))
        }
        (&Method::POST, [plural, ..]) => format!("creates {plural}/{}", text("/metadata/name")),
        (_, ["status", name, plural]) => {
            format!("writes the status of {plural}/{name}: {}", told(&body["status"]))
        }
        (method, _) => format!("{method} {} {body}", request.uri().path()),
    }
}

/// A status without what is empty, and of its conditions reason and message alone.
fn told(status: &Value) -> String {
    let Value::Object(fields) = status else { return status.to_string() };
    let told = fields.iter().filter(|(_, value)| !is_empty(value)).map(|(name, value)| match value {
        Value::Array(conditions) if name == "conditions" => {
            conditions.iter().filter_map(condition).collect::<Vec<_>>().join("; ")
        }
        value => format!("{name} {value}"),
    });
    told.collect::<Vec<_>>().join(", ")
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(values) => values.iter().all(|it| condition(it).is_none()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Those of Jobs, which only repeat the phase, have no type.
fn condition(condition: &Value) -> Option<String> {
    let text = |name: &str| condition[name].as_str().unwrap_or_default();
    Some(format!("{} {} ({})", condition["type"].as_str()?, text("message"), text("reason")))
}
