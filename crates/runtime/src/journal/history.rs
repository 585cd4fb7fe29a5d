//! What a journal tells of one pod or PodGroup.
use std::fmt::{self, Write as _};

use phalanx_cluster::event::Key;
use serde_json::Value;

use super::line::{Cycle, Line};

/// Whose history is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A pod.
    Pod(Key),
    /// A PodGroup.
    PodGroup(Key),
    /// A Job of Volcano: the PodGroup that has its name.
    Job(Key),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(key) => write!(f, "pod {key}"),
            Self::PodGroup(key) => write!(f, "PodGroup {key}"),
            Self::Job(key) => write!(f, "Job {key}"),
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// When.
    pub time: String,
    /// In which cycle.
    pub cycle: u64,
    /// What, in words.
    pub what: String,
}

/// What a line tells of a pod or PodGroup, in the order of decisions.
pub fn history(line: &Line<Value>, subject: &Subject) -> Vec<Happened> {
    let Line::Cycle(Cycle { number, time, decisions, .. }) = line else { return Vec::new() };
    let mut happened = Vec::new();
    for decision in decisions {
        let Some((kind, it)) = decision.as_object().and_then(|it| it.iter().next()) else { continue };
        let what = match subject {
            Subject::Pod(pod) => of_pod(kind, it, pod),
            Subject::PodGroup(group) => of_group(kind, it, &|it| is(it, group)),
            Subject::Job(job) => of_group(kind, it, &|it| is_of_job(it, job)),
        };
        happened.extend(what.map(|what| Happened { time: time.clone(), cycle: *number, what }));
    }
    happened
}

/// A decision in words.
pub fn words(decision: &Value) -> String {
    let Some((kind, it)) = decision.as_object().and_then(|it| it.iter().next()) else {
        return decision.to_string();
    };
    let pod = || named(&it["pod"]);
    let of_pod = || of_pod(kind, it, &key(&it["pod"])).map(|what| format!("pod {} {what}", pod()));
    match kind.as_str() {
        "bind" => {
            let place =
                |binding: &Value| format!("{} on {}", text(&binding["pod"]["name"]), text(&binding["node"]));
            let pods: Vec<String> = it["pods"].as_array().into_iter().flatten().map(place).collect();
            format!("{} bound: {}", named(&it["job"]), pods.join(", "))
        }
        "podGroupStatus" => format!("PodGroup {} {}", named(&it["group"]), phase(&it["status"])),
        "podGroupUnschedulable" | "podGroupInvalid" => {
            format!("PodGroup {}: {}", named(&it["group"]), text(&it["message"]))
        }
        "queueStatus" => format!("queue {} allocated {}", text(&it["queue"]), it["allocated"]),
        "queueInvalid" => format!("queue {}: {}", text(&it["queue"]), text(&it["message"])),
        _ => of_pod().unwrap_or_else(|| decision.to_string()),
    }
}

fn key(it: &Value) -> Key {
    Key::new(text(&it["namespace"]), text(&it["name"]))
}

fn is(it: &Value, key: &Key) -> bool {
    it["namespace"] == *key.namespace && it["name"] == *key.name
}

/// Whether a PodGroup is that of a Job, by its name: `NAME-UID`, or `NAME` as Volcano made it before 1.5.
fn is_of_job(it: &Value, job: &Key) -> bool {
    let is_uid = |text: &str| {
        let hexadecimal = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
        text.len() == 36 && text.split('-').all(hexadecimal)
    };
    let rest = text(&it["name"]).strip_prefix(&*job.name);
    let named = rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix('-').is_some_and(is_uid));
    it["namespace"] == *job.namespace && named
}

fn text(it: &Value) -> &str {
    it.as_str().unwrap_or_default()
}

/// `namespace/name`.
fn named(it: &Value) -> String {
    format!("{}/{}", text(&it["namespace"]), text(&it["name"]))
}

fn of_pod(kind: &str, it: &Value, pod: &Key) -> Option<String> {
    if kind == "bind" {
        return bound(it, pod);
    }
    if !is(&it["pod"], pod) {
        return None;
    }
    Some(match (kind, &it["node"]) {
        ("evict", _) => evicted(it),
        ("nominate", Value::String(node)) => {
            format!("nominated to node {node}, where it waits for resources")
        }
        ("nominate", _) => "nomination ended".to_owned(),
        ("openGate", _) => "scheduling gate removed: its queue has room".to_owned(),
        ("podUnscheduled", _) => format!("{}: {}", text(&it["reason"]), text(&it["message"])),
        ("podUngrouped", _) => text(&it["message"]).to_owned(),
        _ => return None,
    })
}

fn bound(it: &Value, pod: &Key) -> Option<String> {
    let pods = it["pods"].as_array()?;
    let binding = pods.iter().find(|binding| is(&binding["pod"], pod))?;
    let mut what = format!("bound to node {}", text(&binding["node"]));
    if !is(&it["job"], pod) {
        let _ = match pods.len() - 1 {
            0 => write!(what, " for PodGroup {}", named(&it["job"])),
            1 => write!(what, " with 1 other pod of PodGroup {}", named(&it["job"])),
            others => write!(what, " with {others} other pods of PodGroup {}", named(&it["job"])),
        };
    }
    Some(what)
}

fn evicted(it: &Value) -> String {
    let cause = &it["cause"];
    let by = if cause["by"].is_null() { String::new() } else { format!(" for {}", named(&cause["by"])) };
    format!("evicted by action {}{by}: {}", text(&cause["action"]), text(&cause["reason"]))
}

fn of_group(kind: &str, it: &Value, is: &dyn Fn(&Value) -> bool) -> Option<String> {
    match kind {
        "bind" if is(&it["job"]) => {
            let pods = it["pods"].as_array()?;
            let nodes: std::collections::BTreeSet<&str> =
                pods.iter().map(|binding| text(&binding["node"])).collect();
            let nodes: Vec<&str> = nodes.into_iter().collect();
            let (count, s) = (pods.len(), if pods.len() == 1 { "" } else { "s" });
            Some(format!("{count} pod{s} bound to {}", nodes.join(", ")))
        }
        "evict" if is(&it["group"]["key"]) => Some(format!("pod {} {}", named(&it["pod"]), evicted(it))),
        "evict" if is(&it["cause"]["by"]) => {
            Some(format!("had pod {} evicted by action {}", named(&it["pod"]), text(&it["cause"]["action"])))
        }
        "podGroupStatus" if is(&it["group"]) => Some(phase(&it["status"])),
        "podGroupUnschedulable" | "podGroupInvalid" if is(&it["group"]) => {
            Some(text(&it["message"]).to_owned())
        }
        _ => None,
    }
}

/// The phase, and the last condition with its reason.
fn phase(status: &Value) -> String {
    let mut what = format!("phase {}", text(&status["phase"]));
    let condition = status["conditions"].as_array().and_then(|list| list.last());
    if let Some(condition) = condition {
        let (kind, message) = (text(&condition["kind"]), text(&condition["message"]));
        let _ =
            if message.is_empty() { write!(what, ", {kind}") } else { write!(what, ", {kind}: {message}") };
    }
    what
}
