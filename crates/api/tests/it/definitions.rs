//! The files in `crds/` and what they say.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_core::Resource;
use kube_core::crd::v1::CustomResourceExt;
use phalanx_api::v1beta1::{PodGroup, Queue};
use serde_json::{Value, json};

/// The definition of this kind as it is installed.
pub(crate) fn definition(kind: &str) -> Value {
    let definitions = phalanx_api::crds().into_iter();
    let mut parsed = definitions.map(|(_, text)| serde_yaml::from_str::<Value>(&text).unwrap());
    parsed.find(|definition| definition["spec"]["names"]["kind"] == kind).unwrap()
}

#[test]
fn the_crd_files_equal_the_types() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let mut expected = phalanx_api::crds();
    expected.sort();
    let mut found: Vec<_> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "yaml"))
        .collect();
    found.sort();
    assert_eq!(found, expected.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
    for (name, text) in expected {
        let stored = std::fs::read_to_string(directory.join(&name)).unwrap();
        assert!(stored == text, "crds/{name} is stale: write it anew with `phalanx crds`");
    }
}

#[test]
fn names_and_scopes_equal_those_of_volcano() {
    let names = |kind: &str| definition(kind)["spec"]["names"].clone();
    assert_eq!(
        names("PodGroup"),
        json!({
            "kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups",
            "singular": "podgroup", "shortNames": ["pg", "podgroup-v1beta1"],
        })
    );
    assert_eq!(
        names("Queue"),
        json!({
            "kind": "Queue", "listKind": "QueueList", "plural": "queues",
            "singular": "queue", "shortNames": ["q", "queue-v1beta1"],
        })
    );
    for (kind, plural, short) in [
        ("Job", "jobs.batch.volcano.sh", json!(["vcjob", "vj"])),
        ("CronJob", "cronjobs.batch.volcano.sh", json!(["cronvcjob", "cronvj"])),
        ("Command", "commands.bus.volcano.sh", json!([])),
        ("JobFlow", "jobflows.flow.volcano.sh", json!(["jf"])),
        ("JobTemplate", "jobtemplates.flow.volcano.sh", json!(["jt"])),
        ("HyperNode", "hypernodes.topology.volcano.sh", json!(["hn"])),
    ] {
        let definition = definition(kind);
        assert_eq!(
            (&definition["metadata"]["name"], &definition["spec"]["scope"]),
            (&json!(plural), &json!(if kind == "HyperNode" { "Cluster" } else { "Namespaced" }))
        );
        assert_eq!(definition["spec"]["names"]["shortNames"], short, "{kind}");
        assert_eq!(definition["spec"]["versions"][0]["name"], "v1alpha1", "{kind}");
    }
    assert_eq!(definition("PodGroup")["spec"]["scope"], "Namespaced");
    assert_eq!(definition("Queue")["spec"]["scope"], "Cluster");
}

#[test]
fn all_but_podgroups_and_commands_have_a_status_subresource() {
    let subresources = |kind: &str| definition(kind)["spec"]["versions"][0]["subresources"].clone();
    for kind in ["PodGroup", "Command"] {
        assert_eq!(subresources(kind), json!({}), "{kind}");
    }
    for kind in ["Job", "CronJob", "JobFlow", "JobTemplate", "HyperNode"] {
        assert_eq!(subresources(kind), json!({ "status": {} }), "{kind}");
    }
    assert_eq!(subresources("Queue"), json!({ "status": {} }));
}

/// Volcano's are the first ones: for queues it shows the parent only.
#[test]
fn printer_columns_begin_with_those_of_volcano() {
    let columns = |kind: &str| {
        let version = &definition(kind)["spec"]["versions"][0];
        let columns = version["additionalPrinterColumns"].as_array().unwrap().clone();
        columns
            .iter()
            .map(|c| format!("{} {} {}", c["name"], c["jsonPath"], c["priority"]))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        columns("PodGroup"),
        [
            r#""STATUS" ".status.phase" null"#,
            r#""minMember" ".spec.minMember" null"#,
            r#""RUNNINGS" ".status.running" null"#,
            r#""AGE" ".metadata.creationTimestamp" null"#,
            r#""QUEUE" ".spec.queue" 1"#,
        ]
    );
    assert_eq!(
        columns("Queue"),
        [
            r#""PARENT" ".spec.parent" null"#,
            r#""STATE" ".status.state" null"#,
            r#""WEIGHT" ".spec.weight" null"#,
            r#""PRIORITY" ".spec.priority" null"#,
            r#""AGE" ".metadata.creationTimestamp" null"#,
        ]
    );
}

/// A HyperNode without a tier, or without members, has no place in the tree.
#[test]
fn a_hyper_node_has_the_columns_rules_and_required_fields_of_volcano() {
    let version = definition("HyperNode")["spec"]["versions"][0].clone();
    let columns = version["additionalPrinterColumns"].as_array().unwrap().clone();
    let columns: Vec<String> = columns.iter().map(|c| format!("{} {}", c["name"], c["jsonPath"])).collect();
    assert_eq!(
        columns,
        [
            r#""Tier" ".spec.tier""#,
            r#""TierName" ".spec.tierName""#,
            r#""NodeCount" ".status.nodeCount""#,
            r#""Age" ".metadata.creationTimestamp""#,
        ]
    );
    let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["tier", "members"]));
    assert_eq!(spec["properties"]["tier"]["minimum"], 0);
    let members = &spec["properties"]["members"];
    assert_eq!(
        (&members["minItems"], &members["items"]["required"]),
        (&json!(1), &json!(["type", "selector"]))
    );
    assert_eq!(members["items"]["properties"]["type"]["enum"], json!(["Node", "HyperNode"]));
    let selector = &members["items"]["properties"]["selector"];
    assert_eq!(selector["x-kubernetes-validations"].as_array().unwrap().len(), 2);
    assert_eq!(selector["properties"]["exactMatch"]["required"], json!(["name"]));
    let pattern = &selector["properties"]["regexMatch"]["properties"]["pattern"];
    assert_eq!((&pattern["minLength"], &pattern["maxLength"]), (&json!(1), &json!(512)));
    let rules = pattern["x-kubernetes-validations"].as_array().unwrap();
    assert!(
        rules[0]["message"].as_str().unwrap().contains("member regexMatch pattern is invalid"),
        "{rules:?}"
    );
}

/// Volcano's tools look for these words in what the API server answers.
#[test]
fn invalid_amounts_of_a_queue_have_the_messages_of_volcano() {
    let spec = &definition("Queue")["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let rules = spec["x-kubernetes-validations"].as_array().unwrap();
    for (field, message) in [
        (".deserved['cpu']", "deserved of cpu must be >= guarantee"),
        (".deserved['cpu']", "deserved of cpu must be <= capability"),
        (".guarantee.resource['cpu']", "guarantee.resource of cpu must be <= capability"),
    ] {
        let found = rules.iter().filter(|rule| rule["message"] == message && rule["fieldPath"] == field);
        assert_eq!(found.count(), 1, "{message}");
    }
}

/// Amounts are compared for many resources; the page has those of cpu.
#[test]
fn the_page_on_admission_has_the_message_of_each_rule() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/admission.md");
    let page = std::fs::read_to_string(path).unwrap();
    for (name, text) in phalanx_api::crds() {
        let mut messages = Vec::new();
        collect_messages(&serde_yaml::from_str(&text).unwrap(), &mut messages);
        let is_amount =
            |message: &String| message.contains(" must be >= ") || message.contains(" must be <= ");
        for message in messages.iter().filter(|message| !is_amount(message) || message.contains(" cpu ")) {
            assert!(page.contains(&format!("`{message}`")), "{name}: {message}");
        }
    }
}

fn collect_messages(part: &Value, messages: &mut Vec<String>) {
    match part {
        Value::Object(fields) => {
            let rules = fields.get("x-kubernetes-validations").and_then(Value::as_array);
            messages
                .extend(rules.into_iter().flatten().map(|rule| rule["message"].as_str().unwrap().to_owned()));
            fields.values().for_each(|part| collect_messages(part, messages));
        }
        Value::Array(parts) => parts.iter().for_each(|part| collect_messages(part, messages)),
        _ => {}
    }
}

#[test]
fn helm_uninstall_keeps_the_crds() {
    for kind in ["PodGroup", "Queue", "Job", "CronJob", "Command", "JobFlow", "JobTemplate", "HyperNode"] {
        let metadata = &definition(kind)["metadata"];
        assert_eq!(metadata["annotations"]["helm.sh/resource-policy"], "keep");
    }
}

#[test]
fn defaults_of_the_crds_equal_those_of_volcano() {
    let schema = |kind: &str| {
        let version = definition(kind)["spec"]["versions"][0].clone();
        version["schema"]["openAPIV3Schema"]["properties"].clone()
    };
    let defaults = |kind: &str| {
        let mut found = Vec::new();
        collect_defaults(&schema(kind), "", &mut found);
        found.sort();
        found
    };
    assert_eq!(
        defaults("PodGroup"),
        [
            r#"/spec/networkTopology/mode "hard""#,
            r#"/spec/queue "default""#,
            "/spec/subGroupPolicy/minSubGroups 0",
            r#"/spec/subGroupPolicy/networkTopology/mode "hard""#,
            "/spec/subGroupPolicy/subGroupSize 1",
        ]
    );
    assert_eq!(defaults("Queue"), [r#"/spec/dequeueStrategy "traverse""#, "/spec/weight 1"]);
}

#[test]
fn enumerations_equal_those_of_volcano_and_a_status_may_be_empty() {
    let values = |kind: &str, path: &str| {
        let version = definition(kind)["spec"]["versions"][0].clone();
        let schema = version["schema"]["openAPIV3Schema"].pointer(path).cloned().unwrap_or_default();
        let values: Vec<String> = serde_json::from_value(schema["enum"].clone()).unwrap();
        values.join(" ")
    };
    let phase = "/properties/status/properties/phase";
    assert_eq!(values("PodGroup", phase), "Pending Running Unknown Inqueue Completed ");
    let mode = "/properties/spec/properties/networkTopology/properties/mode";
    assert_eq!(values("PodGroup", mode), "hard soft");
    assert_eq!(values("Queue", "/properties/status/properties/state"), "Open Closed Closing Unknown ");
    assert_eq!(values("Queue", "/properties/spec/properties/dequeueStrategy"), "fifo traverse");
}

/// "path default" of each property below `properties` that has one.
fn collect_defaults(properties: &Value, path: &str, found: &mut Vec<String>) {
    for (name, schema) in properties.as_object().into_iter().flatten() {
        let path = format!("{path}/{name}");
        if let Some(default) = schema.get("default") {
            found.push(format!("{path} {default}"));
        }
        collect_defaults(&schema["properties"], &path, found);
        collect_defaults(&schema["items"]["properties"], &path, found);
    }
}

#[test]
fn the_type_and_the_file_define_the_same_schema() {
    let read = |kind: &str| -> CustomResourceDefinition { serde_json::from_value(definition(kind)).unwrap() };
    assert_eq!(PodGroup::crd(), read("PodGroup"));
    assert_eq!(Queue::crd(), read("Queue"));
    assert_eq!(PodGroup::crd_name(), "podgroups.scheduling.volcano.sh");
    assert_eq!(Queue::shortnames(), ["q", "queue-v1beta1"]);
}

#[test]
fn urls_of_the_resources_equal_those_of_volcano() {
    assert_eq!(
        PodGroup::url_path(&(), Some("team")),
        "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups"
    );
    assert_eq!(Queue::url_path(&(), None), "/apis/scheduling.volcano.sh/v1beta1/queues");
}
