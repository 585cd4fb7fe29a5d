//! The `metrics` section: where usage figures of nodes come from.
use std::collections::BTreeMap;
use std::rc::Rc;

use phalanx_cluster::duration::parse_duration;
use phalanx_framework::conf::is_url;

use crate::near::one_of;
use crate::problem::{Problems, quoted};
use crate::yaml::{Content, Key, Node, Scalar};

/// A key of the section.
pub(crate) struct KeyDoc {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) default: &'static str,
    pub(crate) doc: &'static str,
}

const fn key(name: &'static str, kind: &'static str, default: &'static str, doc: &'static str) -> KeyDoc {
    KeyDoc { name, kind, default, doc }
}

pub(crate) const KEYS: [KeyDoc; 9] = [
    key(
        "type",
        "text",
        "metrics_api",
        "Where figures come from. `metrics_api`: `metrics.k8s.io`, as `kubectl top` shows them. `prometheus_adaptor`: \
         `custom.metrics.k8s.io`, `node_cpu_usage_avg` and `node_memory_usage_avg` of nodes. `prometheus`: a Prometheus server that \
         scrapes node exporters under the names of the nodes. `elasticsearch`: a server that metricbeat writes to.",
    ),
    key(
        "address",
        "text",
        "",
        "URL of the server, such as `http://prometheus:9090`. Needed by `prometheus` and `elasticsearch`, not read by the others.",
    ),
    key("interval", "duration, at least 1ms", "30s", "How often figures are asked for."),
    key(
        "tls.insecureSkipVerify",
        "boolean",
        "false",
        "Whether any certificate of `prometheus` or `elasticsearch` will do.",
    ),
    key("elasticsearch.index", "text", "metricbeat-*", "The index that is searched."),
    key(
        "elasticsearch.username",
        "text",
        "",
        "The user at Elasticsearch; without it requests have no credentials.",
    ),
    key(
        "elasticsearch.password",
        "text",
        "",
        "The user's password. Neither the log nor `conf show` and `conf diff` show it, but whoever reads scheduler.conf does: \
         prefer `elasticsearch.passwordFile`.",
    ),
    key(
        "elasticsearch.passwordFile",
        "text",
        "",
        "A file with the user's password, such as a key of a mounted Secret; used in place of `elasticsearch.password`. \
         White space at its end is not part of the password. The file is read again when Elasticsearch does not answer as expected.",
    ),
    key(
        "elasticsearch.hostnameFieldName",
        "text",
        "host.hostname",
        "The field that has the name of the node.",
    ),
];
/// A password: the value is never shown.
const PASSWORD: &str = "elasticsearch.password";

/// Whether the value of a key may be shown: that of a key which is not known may be a password too.
pub(crate) fn may_be_shown(key: &str) -> bool {
    key != PASSWORD && KEYS.iter().any(|known| known.name == key)
}

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
        let known = KEYS.map(|key| key.name);
        if let Some(whole) = written_apart(key, value) {
            let what = format!("{} is a mapping", quoted(&key.text));
            problems.error(key.at, what, format!("keys in one word, such as {whole}"));
            continue;
        }
        if !known.contains(&key.text.as_str()) {
            problems.warning(key.at, format!("unknown key {}", quoted(&key.text)), one_of(&known, &key.text));
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
    without_address(entries, &metrics, problems);
    two_passwords(entries, &metrics, problems);
    metrics
}

/// The key that was meant by a mapping in a mapping.
fn written_apart(key: &Key, value: &Node) -> Option<&'static str> {
    let Content::Map(inner) = &value.content else { return None };
    let (first, _) = inner.first()?;
    let whole = format!("{}.{}", key.text, first.text);
    KEYS.iter().map(|key| key.name).find(|name| *name == whole)
}

fn two_passwords(entries: &[(Key, Rc<Node>)], metrics: &BTreeMap<String, String>, problems: &mut Problems) {
    let password = entries.iter().find(|(key, _)| key.text == PASSWORD);
    if let Some((key, _)) = password.filter(|_| metrics.contains_key("elasticsearch.passwordFile")) {
        let what = format!("{} is not read", quoted(PASSWORD));
        problems.warning(key.at, what, "only one of it and elasticsearch.passwordFile, which is taken");
    }
}

/// These have no address of their own.
fn without_address(entries: &[(Key, Rc<Node>)], metrics: &BTreeMap<String, String>, problems: &mut Problems) {
    let source = entries.iter().find(|(key, _)| key.text == "type");
    let Some((_, value)) = source.filter(|_| !metrics.contains_key("address")) else { return };
    if let Some(source @ ("prometheus" | "elasticsearch")) = metrics.get("type").map(String::as_str) {
        let what = format!("type is {source}, and there is no address; no server is asked");
        problems.warning(value.at, what, "an address such as http://prometheus:9090");
    }
}

/// Volcano logs these two at each session and goes on without the source; so they are no errors.
fn check(key: &str, value: &Node, scalar: &Scalar, problems: &mut Problems) {
    let text = &scalar.text;
    match key {
        "type" if !TYPES.contains(&text.as_str()) => {
            problems.warning(value.at, format!("unknown type {}", quoted(text)), one_of(&TYPES, text));
        }
        "interval" if parse_duration(text).is_none() => {
            problems.warning(value.at, format!("interval is {}", value.describe()), "a duration such as 30s");
        }
        "interval" if parse_duration(text).is_none_or(|ms| ms < 1) => {
            let what = format!("interval is {}; 30s is taken instead", value.describe());
            problems.warning(value.at, what, "a duration such as 30s, at least 1ms");
        }
        "address" if !text.is_empty() && !is_url(text) => {
            let what = format!("address is {}; no server is asked", value.describe());
            problems.warning(value.at, what, "an address such as http://prometheus:9090");
        }
        "tls.insecureSkipVerify" if !["true", "false"].contains(&text.as_str()) => {
            let what = format!("{key} is {}; false is taken instead", value.describe());
            problems.warning(value.at, what, "true or false");
        }
        _ => {}
    }
}
