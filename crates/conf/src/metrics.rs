//! The `metrics` section: where usage figures of nodes come from.
use std::collections::BTreeMap;

use crate::args::is_duration;
use crate::near::one_of;
use crate::problem::{Problems, quoted};
use crate::yaml::{Content, Node, Scalar};

const KEYS: [&str; 8] = [
    "type",
    "address",
    "interval",
    "tls.insecureSkipVerify",
    "elasticsearch.index",
    "elasticsearch.username",
    "elasticsearch.password",
    "elasticsearch.hostnameFieldName",
];
const TYPES: [&str; 4] = ["metrics_api", "prometheus", "prometheus_adaptor", "elasticsearch"];

pub(crate) fn read(node: &Node, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut metrics = BTreeMap::new();
    let entries = match &node.content {
        Content::Map(entries) => entries.as_slice(),
        _ if node.is_null() => &[],
        _ => {
            problems.error(node.at, format!("metrics is {}", node.describe()), "a mapping");
            &[]
        }
    };
    for (key, value) in entries {
        if !KEYS.contains(&key.text.as_str()) {
            problems.warning(key.at, format!("unknown key {}", quoted(&key.text)), one_of(&KEYS, &key.text));
        }
        match value.scalar() {
            Some(_) if value.is_null() => {
                problems.warning(key.at, format!("{} is empty", quoted(&key.text)), "text");
            }
            Some(scalar) => {
                check(&key.text, value, scalar, problems);
                metrics.insert(key.text.clone(), scalar.text.clone());
            }
            None => {
                problems.error(value.at, format!("{} is {}", quoted(&key.text), value.describe()), "text");
            }
        }
    }
    metrics
}

/// Volcano logs these two at each session and goes on without the source; so they are no errors.
fn check(key: &str, value: &Node, scalar: &Scalar, problems: &mut Problems) {
    let text = &scalar.text;
    match key {
        "type" if !TYPES.contains(&text.as_str()) => {
            problems.warning(value.at, format!("unknown type {}", quoted(text)), one_of(&TYPES, text));
        }
        "interval" if !is_duration(text) => {
            problems.warning(value.at, format!("interval is {}", value.describe()), "a duration such as 30s");
        }
        _ => {}
    }
}
