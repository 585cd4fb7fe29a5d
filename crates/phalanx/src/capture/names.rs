//! Other names for a copy of a cluster.
//!
//! Names of objects, and values of labels, consist of words: what stands between other signs. Each word becomes another
//! one, everywhere the same, so `train-worker-0` stays the name of pod 0 of task `worker` of Job `train`, wherever a
//! name is made of names.
use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

/// Words that stay: names that mean something to Kubernetes or to Volcano are made of them.
const KEPT: [&str; 12] = [
    "default", "root", "kube", "system", "node", "cluster", "critical", "podgroup", "volcano", "rbd", "true",
    "false",
];

/// Fields with names, beside `name` and those that end with `Name` or `Handle`.
const NAMED: [&str; 25] = [
    "namespace",
    "namespaces",
    "uid",
    "generateName",
    "queue",
    "parent",
    "image",
    "names",
    "value",
    "values",
    "hostname",
    "subdomain",
    "serviceAccount",
    "targets",
    "path",
    "server",
    "pattern",
    "device",
    "pool",
    "request",
    "requests",
    "counterSet",
    "volumeID",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
];

/// Fields that are maps by names.
const BY_NAME: [&str; 2] = ["minTaskMember", "taskStatusCount"];

/// Fields whose names stay: those of programs, and those by which resources, labels and tiers are called.
const CALLED: [&str; 7] = [
    "schedulerName",
    "schedulingGates",
    "drivers",
    "deviceClassName",
    "ports",
    "tierName",
    "highestTierName",
];

/// Kinds whose names stay, likewise.
const CALLED_KINDS: [&str; 2] = ["CSIDriver", "DeviceClass"];

/// Maps of names to texts that anybody may choose.
const FREE: [&str; 3] = ["labels", "matchLabels", "nodeSelector"];

/// Fields that scheduling does not read and that tell who runs what where.
const LEFT_OUT: [&str; 12] = [
    "message",
    "addresses",
    "nodeInfo",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "podCIDR",
    "podCIDRs",
    "providerID",
    "imageID",
    "containerID",
];

/// An annotation of Volcano without a domain.
const WAITING_TIME: &str = "sla-waiting-time";

/// How annotations with the name of a tier end, which stays.
const TIER: &str = "-tier-name";

/// Domains of the annotations that stay.
const DOMAINS: [&str; 4] = ["volcano.sh", "phalanx.sh", "k8s.io", "kubernetes.io"];

/// How the annotations end whose values are names.
const NAMES_IN_ANNOTATIONS: [&str; 10] = [
    "-name",
    "-uid",
    "-node",
    "-namespace",
    "-hypernode",
    "/hierarchy",
    "/task-spec",
    "/storage-class",
    "affinity",
    "-task-order",
];

/// What each word becomes.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, String>);

impl Names {
    /// For all words of these objects. Words keep their order, so that what is decided by the order of names is decided
    /// as before.
    pub(super) fn of(objects: &[Value]) -> Self {
        let mut words = BTreeSet::new();
        for object in objects {
            // A visit changes the object; the texts that it shows are the same.
            each(&mut object.clone(), &mut |text| {
                words.extend(parts(text).filter(|part| is_replaced(part)).map(str::to_owned));
            });
        }
        let width = words.len().to_string().len();
        Self(words.into_iter().enumerate().map(|(index, word)| (word, format!("w{index:0width$}"))).collect())
    }

    pub(super) fn replace(&self, objects: &mut [Value]) {
        for object in objects {
            each(object, &mut |text| *text = self.of_text(text));
        }
    }

    fn of_text(&self, text: &str) -> String {
        parts(text).map(|part| self.0.get(part).map_or(part, String::as_str)).collect()
    }
}

/// The words of a text, and what stands between them.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.starts_with(is_of_word);
        let end = rest.find(|sign| is_of_word(sign) != word).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        (!part.is_empty()).then_some(part)
    })
}

fn is_of_word(sign: char) -> bool {
    sign.is_alphanumeric()
}

/// Numbers, quantities and times begin with a digit.
fn is_replaced(part: &str) -> bool {
    part.starts_with(char::is_alphabetic) && !KEPT.contains(&part)
}

/// Shows each name of an object, and leaves out what is left out.
fn each(object: &mut Value, see: &mut impl FnMut(&mut String)) {
    let called = object["kind"].as_str().is_some_and(|kind| CALLED_KINDS.contains(&kind));
    if !called {
        visit(object, false, see);
    }
}

/// The same of a value, whose texts are names or not.
fn visit(value: &mut Value, named: bool, see: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) if named => see(text),
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, named, see)),
        Value::Object(fields) => fields_of(fields, see),
        _ => {}
    }
}

fn fields_of(fields: &mut Map<String, Value>, see: &mut impl FnMut(&mut String)) {
    fields.retain(|key, _| !LEFT_OUT.contains(&&**key));
    for (key, value) in fields {
        match (&**key, value) {
            (key, _) if CALLED.contains(&key) => {}
            ("annotations", Value::Object(fields)) => annotations(fields, see),
            (key, Value::Object(fields)) if FREE.contains(&key) => {
                fields.values_mut().for_each(|value| visit(value, true, see));
            }
            (key, Value::Object(fields)) if BY_NAME.contains(&key) => {
                let named = std::mem::take(fields).into_iter();
                fields.extend(named.map(|(mut name, value)| {
                    see(&mut name);
                    (name, value)
                }));
            }
            (key, value) => visit(value, is_named(key), see),
        }
    }
}

fn is_named(key: &str) -> bool {
    key == "name" || key.ends_with("Name") || key.ends_with("Handle") || NAMED.contains(&key)
}

fn annotations(fields: &mut Map<String, Value>, see: &mut impl FnMut(&mut String)) {
    let known = |domain: &str| DOMAINS.iter().any(|kept| domain.ends_with(kept));
    fields
        .retain(|key, _| key == WAITING_TIME || key.split_once('/').is_some_and(|(domain, _)| known(domain)));
    for (key, value) in fields {
        let named = NAMES_IN_ANNOTATIONS.iter().any(|end| key.ends_with(end));
        visit(value, named && !key.ends_with(TIER), see);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use phalanx_conf::Known;
    use phalanx_framework::conf::Conf;
    use phalanx_sim::{Options, Report, Simulation, stopped_clock};
    use serde::Deserialize as _;
    use serde_json::json;

    use super::*;
    use crate::capture::lines;

    /// Other topics have configurations with names of queues or values of labels in them, or take long.
    const TOPICS: [&str; 3] = ["dra", "gangs", "jobs"];

    fn replaced(objects: Value) -> Vec<Value> {
        let Value::Array(mut objects) = objects else { return Vec::new() };
        Names::of(&objects).replace(&mut objects);
        objects
    }

    #[test]
    fn names_that_are_made_of_names_stay_so_and_keep_their_order() {
        let found = replaced(json!([
            {"metadata": {"name": "zeta-worker-0", "namespace": "team", "labels": {"app": "zeta"}}, "spec": {"nodeName": "alpha.example"}},
            {"metadata": {"name": "alpha.example"}},
        ]));
        let pod = json!({"metadata": {"name": "w4-w3-0", "namespace": "w2", "labels": {"app": "w4"}}, "spec": {"nodeName": "w0.w1"}});
        assert_eq!(found, [pod, json!({"metadata": {"name": "w0.w1"}})]);
    }

    #[test]
    fn what_is_no_name_stays_or_is_left_out() {
        let kept = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "kube-system", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"schedulerName": "canary", "schedulingGates": [{"name": "scheduling.volcano.sh/queue-allocation-gate"}],
                "tolerations": [{"key": "gpu", "operator": "Equal", "value": "true"}],
                "containers": [{"resources": {"requests": {"cpu": "500m", "nvidia.com/gpu": "1"}}}]},
        });
        let mut pod = kept.clone();
        pod["metadata"]["annotations"] =
            json!({"example.com/owner": "ann", "volcano.sh/preemptable": "true"});
        pod["status"] = json!({"message": "no node for ann"});
        let mut expected = kept;
        expected["metadata"]["annotations"] = json!({"volcano.sh/preemptable": "true"});
        expected["status"] = json!({});
        assert_eq!(replaced(json!([pod])), [expected]);
    }

    /// The objects of a scenario, and its configuration.
    fn scenario(folder: &Path) -> (Vec<Value>, Conf) {
        let text = fs::read_to_string(folder.join("cluster.yaml")).unwrap();
        let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
        // A copy of a cluster has no Lists.
        let items = |document: Result<Value, _>| {
            let document: Value = document.unwrap();
            document["items"].as_array().cloned().unwrap_or_else(|| vec![document])
        };
        let objects = documents.flat_map(items).filter(|object| !object.is_null()).collect();
        let conf = fs::read_to_string(folder.join("scheduler.conf"));
        let conf = conf.unwrap_or_else(|_| phalanx_conf::builtin_default().to_owned());
        (objects, phalanx_conf::parse(&conf, &Known::builtin()).conf.unwrap())
    }

    fn simulated(objects: &[Value], conf: Conf) -> Report {
        let texts = [("cluster".to_owned(), lines(objects))];
        let (schedulers, default_queue) = (vec!["volcano".to_owned()], "default".to_owned());
        let options = phalanx_sim::ReadOptions { schedulers, default_queue };
        let manifests = phalanx_sim::read(&texts, &options).unwrap();
        let mut simulation = Simulation::new(manifests, conf, &Options::default());
        let _ = simulation.run_to_rest(&mut stopped_clock());
        simulation.report()
    }

    /// What is decided, with other names: pods that are bound or evicted, and phases.
    fn decided(report: &Report, names: &Names) -> Vec<String> {
        let bound = report.bindings.keys().map(|pod| format!("bound {}", names.of_text(pod)));
        let evicted = report.evictions.iter().map(|pod| format!("evicted {}", names.of_text(pod)));
        let phases = report.pod_groups.iter();
        let phases = phases.map(|(group, told)| format!("{} {}", names.of_text(group), told.phase));
        let mut all: Vec<String> = bound.chain(evicted).chain(phases).collect();
        all.sort();
        all
    }

    #[test]
    fn the_same_is_decided_under_other_names() {
        let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
        for topic in TOPICS {
            for folder in fs::read_dir(Path::new(scenarios).join(topic)).unwrap() {
                let folder = folder.unwrap().path();
                let (mut objects, conf) = scenario(&folder);
                let names = Names::of(&objects);
                let before = decided(&simulated(&objects, conf.clone()), &names);
                names.replace(&mut objects);
                let after = decided(&simulated(&objects, conf), &Names::default());
                assert_eq!(before, after, "{}", folder.display());
            }
        }
    }
}
