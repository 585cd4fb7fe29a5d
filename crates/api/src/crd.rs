//! The CustomResourceDefinitions, made from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::batch::{self, CronJobSpec, CronJobStatus, JobSpec, JobStatus};
use crate::bus::{self, CommandFields};
use crate::flow::{self, JobFlowSpec, JobFlowStatus, JobTemplateStatus};
use crate::topology::{self, HyperNodeSpec, HyperNodeStatus};
use crate::v1beta1::{self, PodGroupSpec, PodGroupStatus, QueueSpec, QueueStatus};

/// Stands at the top of each rendered file.
const HEADER: &str = "# Generated from the Rust types by `phalanx crds`; do not edit.\n";

/// All definitions.
const ALL: [&Definition; 8] =
    [&CRON_JOB, &JOB, &COMMAND, &JOB_FLOW, &JOB_TEMPLATE, &POD_GROUP, &QUEUE, &HYPER_NODE];

/// The definitions as files: name and YAML text. The same text for every call and build.
pub fn crds() -> Vec<(String, String)> {
    let name = |it: &Definition| format!("{}_{}.yaml", it.group, it.plural);
    ALL.iter().map(|definition| (name(definition), definition.yaml())).collect()
}

/// The schema of a kind by its plural name, as in `podgroups`.
pub fn schema(plural: &str) -> Option<Value> {
    ALL.iter().find(|definition| definition.plural == plural).map(|definition| definition.schema())
}

/// What a definition says beside the schemas of spec and status.
pub(crate) struct Definition {
    pub(crate) name: &'static str,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) short_names: &'static [&'static str],
    kind: &'static str,
    singular: &'static str,
    scope: &'static str,
    description: &'static str,
    columns: &'static [Column],
    status_subresource: bool,
    body: Body,
    /// CEL rules on the whole object.
    rules: fn() -> Option<Value>,
}

type Schemed = fn(&mut SchemaGenerator) -> schemars::Schema;

/// What an object holds beside its metadata.
enum Body {
    SpecAndStatus(Schemed, Schemed),
    /// Fields of its own.
    Fields(Schemed),
}

/// A column of `kubectl get`.
struct Column {
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    /// Shown by `-o wide` only.
    wide: bool,
}

const fn column(name: &'static str, kind: &'static str, path: &'static str) -> Column {
    Column { name, kind, path, wide: false }
}

pub(crate) const POD_GROUP: Definition = Definition {
    name: "podgroups.scheduling.volcano.sh",
    group: v1beta1::GROUP,
    version: v1beta1::VERSION,
    plural: "podgroups",
    short_names: &["pg", "podgroup-v1beta1"],
    kind: "PodGroup",
    singular: "podgroup",
    scope: "Namespaced",
    description: "A gang: its pods start together or not at all.",
    columns: &[
        column("STATUS", "string", ".status.phase"),
        column("minMember", "integer", ".spec.minMember"),
        column("RUNNINGS", "integer", ".status.running"),
        column("AGE", "date", ".metadata.creationTimestamp"),
        Column { name: "QUEUE", kind: "string", path: ".spec.queue", wide: true },
    ],
    status_subresource: false,
    body: Body::SpecAndStatus(PodGroupSpec::json_schema, PodGroupStatus::json_schema),
    rules: || None,
};

pub(crate) const QUEUE: Definition = Definition {
    name: "queues.scheduling.volcano.sh",
    group: v1beta1::GROUP,
    version: v1beta1::VERSION,
    plural: "queues",
    short_names: &["q", "queue-v1beta1"],
    kind: "Queue",
    singular: "queue",
    scope: "Cluster",
    description: "A share of the cluster that PodGroups use.",
    columns: &[
        column("PARENT", "string", ".spec.parent"),
        column("STATE", "string", ".status.state"),
        column("WEIGHT", "integer", ".spec.weight"),
        column("PRIORITY", "integer", ".spec.priority"),
        column("AGE", "date", ".metadata.creationTimestamp"),
    ],
    status_subresource: true,
    body: Body::SpecAndStatus(QueueSpec::json_schema, QueueStatus::json_schema),
    rules: || Some(v1beta1::queue_rules()),
};

pub(crate) const JOB: Definition = Definition {
    name: "jobs.batch.volcano.sh",
    group: batch::GROUP,
    version: batch::VERSION,
    plural: "jobs",
    short_names: &["vcjob", "vj"],
    kind: "Job",
    singular: "job",
    scope: "Namespaced",
    description: "Pods in tasks that start together and are restarted by policies.",
    columns: &[
        column("STATUS", "string", ".status.state.phase"),
        column("minAvailable", "integer", ".status.minAvailable"),
        column("RUNNINGS", "integer", ".status.running"),
        column("AGE", "date", ".metadata.creationTimestamp"),
        Column { name: "QUEUE", kind: "string", path: ".spec.queue", wide: true },
    ],
    status_subresource: true,
    body: Body::SpecAndStatus(JobSpec::json_schema, JobStatus::json_schema),
    rules: || Some(batch::rules::job_object()),
};

pub(crate) const CRON_JOB: Definition = Definition {
    name: "cronjobs.batch.volcano.sh",
    group: batch::GROUP,
    version: batch::VERSION,
    plural: "cronjobs",
    short_names: &["cronvcjob", "cronvj"],
    kind: "CronJob",
    singular: "cronjob",
    scope: "Namespaced",
    description: "Jobs by the clock.",
    columns: &[
        column("SCHEDULE", "string", ".spec.schedule"),
        column("SUSPEND", "boolean", ".spec.suspend"),
        column("LAST SCHEDULE", "date", ".status.lastScheduleTime"),
        column("AGE", "date", ".metadata.creationTimestamp"),
    ],
    status_subresource: true,
    body: Body::SpecAndStatus(CronJobSpec::json_schema, CronJobStatus::json_schema),
    rules: || Some(batch::rules::cron_job()),
};

pub(crate) const COMMAND: Definition = Definition {
    name: "commands.bus.volcano.sh",
    group: bus::GROUP,
    version: bus::VERSION,
    plural: "commands",
    short_names: &[],
    kind: "Command",
    singular: "command",
    scope: "Namespaced",
    description: "What somebody wants done with a Job or Queue, once.",
    columns: &[],
    status_subresource: false,
    body: Body::Fields(CommandFields::json_schema),
    rules: || None,
};

pub(crate) const JOB_FLOW: Definition = Definition {
    name: "jobflows.flow.volcano.sh",
    group: flow::GROUP,
    version: flow::VERSION,
    plural: "jobflows",
    short_names: &["jf"],
    kind: "JobFlow",
    singular: "jobflow",
    scope: "Namespaced",
    description: "Jobs one after the other.",
    columns: &[
        column("Status", "string", ".status.state.phase"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ],
    status_subresource: true,
    body: Body::SpecAndStatus(JobFlowSpec::json_schema, JobFlowStatus::json_schema),
    rules: || None,
};

pub(crate) const JOB_TEMPLATE: Definition = Definition {
    name: "jobtemplates.flow.volcano.sh",
    group: flow::GROUP,
    version: flow::VERSION,
    plural: "jobtemplates",
    short_names: &["jt"],
    kind: "JobTemplate",
    singular: "jobtemplate",
    scope: "Namespaced",
    description: "A Job to be made by JobFlows.",
    columns: &[],
    status_subresource: true,
    body: Body::SpecAndStatus(JobSpec::json_schema, JobTemplateStatus::json_schema),
    rules: || None,
};

pub(crate) const HYPER_NODE: Definition = Definition {
    name: "hypernodes.topology.volcano.sh",
    group: topology::GROUP,
    version: topology::VERSION,
    plural: "hypernodes",
    short_names: &["hn"],
    kind: "HyperNode",
    singular: "hypernode",
    scope: "Cluster",
    description: "Nodes that are near to each other in the network.",
    columns: &[
        column("Tier", "string", ".spec.tier"),
        column("TierName", "string", ".spec.tierName"),
        column("NodeCount", "integer", ".status.nodeCount"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ],
    status_subresource: true,
    body: Body::SpecAndStatus(HyperNodeSpec::json_schema, HyperNodeStatus::json_schema),
    rules: || None,
};

impl Definition {
    /// Group and version as they stand in `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    pub(crate) fn typed(&self) -> CustomResourceDefinition {
        serde_json::from_value(self.json()).expect("a definition has the shape of its type")
    }

    fn yaml(&self) -> String {
        let text = serde_yaml::to_string(&sorted(self.json())).expect("YAML can hold any JSON");
        format!("{HEADER}{text}")
    }

    fn json(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": self.name,
                // Removing a chart must not remove every gang and queue of the cluster.
                "annotations": { "helm.sh/resource-policy": "keep" },
            },
            "spec": {
                "group": self.group,
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "shortNames": self.short_names,
                    "singular": self.singular,
                },
                "scope": self.scope,
                "versions": [self.version()],
            },
        })
    }

    fn version(&self) -> Value {
        let columns: Vec<Value> = self.columns.iter().map(Column::json).collect();
        let subresources = if self.status_subresource { json!({ "status": {} }) } else { json!({}) };
        json!({
            "name": self.version,
            "served": true,
            "storage": true,
            "additionalPrinterColumns": columns,
            "subresources": subresources,
            "schema": { "openAPIV3Schema": self.schema() },
        })
    }

    fn schema(&self) -> Value {
        let mut root = json!({
            "type": "object",
            "description": self.description,
            "properties": {
                "apiVersion": { "type": "string" },
                "kind": { "type": "string" },
                "metadata": { "type": "object" },
            },
        });
        match self.body {
            Body::SpecAndStatus(spec, status) => {
                root["properties"]["spec"] = structural(spec);
                root["properties"]["status"] = without_defaults(structural(status));
            }
            Body::Fields(fields) => {
                for (name, schema) in structural(fields)["properties"].as_object().into_iter().flatten() {
                    root["properties"][name] = schema.clone();
                }
            }
        }
        if let Some(rules) = (self.rules)() {
            root["x-kubernetes-validations"] = rules;
        }
        root
    }
}

impl Column {
    fn json(&self) -> Value {
        let mut column = json!({ "name": self.name, "type": self.kind, "jsonPath": self.path });
        if self.wide {
            column["priority"] = json!(1);
        }
        column
    }
}

/// The schema of one type with everything in place: a structural schema has no references.
fn structural(schema: fn(&mut SchemaGenerator) -> schemars::Schema) -> Value {
    let settings = SchemaSettings::openapi3().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let mut generator = SchemaGenerator::new(settings);
    let mut schema = schema(&mut generator);
    for transform in generator.transforms_mut() {
        transform.transform(&mut schema);
    }
    schema.to_value()
}

/// A status is written by controllers, so the API server must add nothing to it.
fn without_defaults(mut schema: Value) -> Value {
    strip_defaults(&mut schema);
    schema
}

fn strip_defaults(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        fields.remove("default");
        fields.values_mut().for_each(strip_defaults);
    }
}

/// Keys in order, whatever map type serde_json was built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut entries: Vec<(String, Value)> = fields.into_iter().collect();
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(entries.into_iter().map(|(key, value)| (key, sorted(value))).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}
