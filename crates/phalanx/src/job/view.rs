//! `phalanx job view`: the fields of a Job and its events, line by line as vcctl prints them.
use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Container, ContainerPort, Event, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::batch::{API_VERSION, Job, JobCondition, JobStatus, TaskSpec};
use phalanx_runtime::objects::Wanted;

use super::{events, read};
use crate::exit::{print, tell};
use crate::remote::output::Data;
use crate::remote::times::{Millis, moment};
use crate::remote::{Connection, Remote, amounts, required};

/// Flags of `job view`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The namespace of the Job; that of the context unless it is given
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The name of the Job
    #[arg(short = 'N', long, value_name = "NAME")]
    name: Option<String>,
    /// The object itself, without events
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Data>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let missing = "job name (specified by --name or -N) is mandatory to view a particular job";
    let name = required(args.name.as_deref(), missing)?;
    let remote = args.connection.open().await?;
    let namespace = remote.namespace(args.namespace.as_deref());
    let object = remote.objects.get::<Job>(Some(namespace), name).await?;
    if let Some(data) = args.output {
        return print(&data.one(object)?);
    }
    let job = read(&object)?;
    let events = events_of(&remote, namespace, &job).await;
    print(&(fields(&job) + &events::shown(&events, Millis::now())))
}

/// The events on the Job whose names begin with its own, as recorders name them, and not those on an earlier Job of its
/// name. Without them the Job is still shown.
async fn events_of(remote: &Remote, namespace: &str, job: &Job) -> Vec<Event> {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    let selector = format!("involvedObject.name={name}");
    let found = remote.objects.list::<Event>(Some(namespace), Wanted::Fields(&selector)).await;
    let found = found.unwrap_or_else(|error| {
        tell(format_args!("Failed to list events: {error:#}"));
        Vec::new()
    });
    let prefix = format!("{name}.");
    let of_job = |event: &Event| {
        let uid = event.involved_object.uid.as_ref();
        let is_named = event.metadata.name.as_ref().is_some_and(|name| name.starts_with(&prefix));
        is_named && uid.is_none_or(|uid| Some(uid) == job.metadata.uid.as_ref())
    };
    found.into_iter().filter_map(|event| serde_json::from_value(event).ok()).filter(of_job).collect()
}

/// Lines with two blanks for each level.
#[derive(Default)]
struct Page(String);

impl Page {
    fn line(&mut self, level: usize, text: &str) {
        self.0 += &"  ".repeat(level);
        self.0 += text;
        self.0.push('\n');
    }

    /// A title that is filled up with blanks as vcctl does it, a tabulator, the value.
    fn field(&mut self, level: usize, title: &str, value: impl std::fmt::Display) {
        self.line(level, &format!("{title}\t{value}"));
    }
}

fn fields(job: &Job) -> String {
    let mut page = Page::default();
    head(&mut page, &job.metadata);
    metadata(&mut page, &job.metadata);
    spec(&mut page, job);
    status(&mut page, &job.status.clone().unwrap_or_default());
    page.0
}

fn head(page: &mut Page, meta: &ObjectMeta) {
    page.field(0, "Name:       ", text(meta.name.as_deref()));
    page.field(0, "Namespace:  ", text(meta.namespace.as_deref()));
    page.field(0, "Labels:     ", pairs(meta.labels.as_ref()));
    page.field(0, "Annotations:", pairs(meta.annotations.as_ref()));
    page.field(0, "API Version:", API_VERSION);
    page.field(0, "Kind:       ", "Job");
}

fn metadata(page: &mut Page, meta: &ObjectMeta) {
    page.line(0, "Metadata:");
    page.field(1, "Creation Timestamp:", moment(meta.creation_timestamp.as_ref()));
    page.field(1, "Generate Name:     ", text(meta.generate_name.as_deref()));
    page.field(1, "Generation:        ", meta.generation.unwrap_or_default());
    page.field(1, "Resource Version:  ", text(meta.resource_version.as_deref()));
    page.field(1, "UID:               ", text(meta.uid.as_deref()));
}

fn spec(page: &mut Page, job: &Job) {
    let arguments = |plugin: &str| job.spec.plugins.get(plugin).map_or(String::new(), |list| list.join(" "));
    page.line(0, "Spec:");
    page.field(1, "Min Available:     ", job.spec.min_available);
    page.line(1, "Plugins:");
    page.field(2, "Env:", format!("[{}]", arguments("env")));
    page.field(2, "Ssh:", format!("[{}]", arguments("ssh")));
    page.field(1, "Scheduler Name:    ", &job.spec.scheduler_name);
    page.line(1, "Tasks:");
    job.spec.tasks.iter().for_each(|it| task(page, it));
}

fn task(page: &mut Page, task: &TaskSpec) {
    page.field(2, "Name:", &task.name);
    page.field(2, "Replicas:", task.replicas);
    page.line(2, "Template:");
    template(page, &task.template);
    page.line(3, "Spec:");
    page.line(4, "Containers:");
    let Some(pod) = &task.template.spec else { return pod_end(page, &[], "") };
    pod.containers.iter().for_each(|it| container(page, it));
    let secrets = pod.image_pull_secrets.iter().flatten().map(|secret| &*secret.name);
    pod_end(page, &secrets.collect::<Vec<_>>(), text(pod.restart_policy.as_deref()));
}

fn pod_end(page: &mut Page, secrets: &[&str], restart_policy: &str) {
    page.line(4, "Image Pull Secrets:");
    for name in secrets {
        page.field(5, "Name:     ", name);
    }
    page.field(4, "Restart Policy:   ", restart_policy);
}

fn template(page: &mut Page, template: &PodTemplateSpec) {
    let annotations = template.metadata.as_ref().and_then(|meta| meta.annotations.as_ref());
    let annotation = |key: &str| annotations.and_then(|all| all.get(key)).map_or("", String::as_str);
    page.line(3, "Metadata:");
    page.line(4, "Annotations:");
    for (title, key) in [
        ("Cri . Cci . Io / Container - Type:          ", "cri.cci.io/container-type"),
        ("Kubernetes . Io / Availablezone:            ", "kubernetes.io/availablezone"),
        ("Network . Alpha . Kubernetes . Io / Network:", "network.alpha.kubernetes.io/network"),
    ] {
        page.field(5, title, annotation(key));
    }
    let created = template.metadata.as_ref().and_then(|meta| meta.creation_timestamp.as_ref());
    page.field(4, "Creation Timestamp:", moment(created));
}

fn container(page: &mut Page, container: &Container) {
    page.line(5, "Command:");
    container.command.iter().flatten().for_each(|word| page.line(6, word));
    page.field(5, "Image:", text(container.image.as_deref()));
    page.field(5, "Name: ", &container.name);
    page.line(5, "Ports:");
    container.ports.iter().flatten().for_each(|it| port(page, it));
    page.line(5, "Resources:");
    let resources = container.resources.as_ref();
    amounts_of(page, "Limits:", resources.and_then(|it| it.limits.as_ref()));
    amounts_of(page, "Requests:", resources.and_then(|it| it.requests.as_ref()));
    page.field(6, "Working Dir:", text(container.working_dir.as_deref()));
}

fn port(page: &mut Page, port: &ContainerPort) {
    page.field(6, "Container Port:", port.container_port);
    page.field(6, "Name:          ", text(port.name.as_deref()));
}

fn amounts_of(page: &mut Page, title: &str, amounts: Option<&BTreeMap<String, Quantity>>) {
    let amount = |resource: &str| {
        let found = amounts.and_then(|all| all.get(resource));
        found.map_or_else(|| "0".to_owned(), |found| canonical(&found.0))
    };
    page.line(6, title);
    page.field(7, "Cpu:   ", amount("cpu"));
    page.field(7, "Memory:", amount("memory"));
}

/// What is no quantity is shown as it is.
fn canonical(text: &str) -> String {
    amounts::canonical(text).unwrap_or_else(|_| text.to_owned())
}

fn status(page: &mut Page, status: &JobStatus) {
    page.line(0, "Status:");
    for (title, count) in [
        ("Succeeded:    ", status.succeeded),
        ("Pending:      ", status.pending),
        ("Running:      ", status.running),
        ("Failed:       ", status.failed),
        ("Terminating:  ", status.terminating),
        ("Unknown:      ", status.unknown),
        ("RetryCount:   ", status.retry_count),
        ("Min Available:", status.min_available),
        ("Version:      ", status.version),
    ] {
        if count > 0 {
            page.field(1, title, count);
        }
    }
    page.line(1, "State:");
    page.field(2, "Phase:", status.state.phase.as_ref().map_or("", |phase| phase.as_str()));
    for (title, text) in [("Reason:", &status.state.reason), ("Message:", &status.state.message)] {
        if !text.is_empty() {
            page.field(2, title, text);
        }
    }
    if !status.controlled_resources.is_empty() {
        page.line(1, "Controlled Resources:");
        status.controlled_resources.iter().for_each(|(key, value)| page.field(2, &format!("{key}: "), value));
    }
    conditions(page, &status.conditions);
}

fn conditions(page: &mut Page, conditions: &[JobCondition]) {
    if conditions.is_empty() {
        return;
    }
    page.line(1, "Conditions:");
    page.line(2, "Status\tTransitionTime");
    for condition in conditions {
        let time = condition.last_transition_time.as_ref();
        let time = time.map_or_else(|| "<nil>".to_owned(), |time| moment(Some(time)));
        page.line(2, &format!("{} \t{time} ", condition.status));
    }
}

fn text(text: Option<&str>) -> &str {
    text.unwrap_or_default()
}

/// Labels or annotations as Go writes JSON, which is safe within HTML.
fn pairs(pairs: Option<&BTreeMap<String, String>>) -> String {
    let Some(pairs) = pairs.filter(|pairs| !pairs.is_empty()) else { return "<none>".to_owned() };
    let text = serde_json::to_string(pairs).unwrap_or_default();
    text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(job: &Value) -> String {
        fields(&read(job).unwrap())
    }

    /// The Job of vcctl's own test, and what vcctl prints of it beside apiVersion and kind.
    #[test]
    fn a_job_is_shown_line_by_line_as_vcctl_does() {
        let job = json!({
            "metadata": {
                "name": "testJob", "creationTimestamp": "2026-01-31T08:00:00Z",
                "labels": {"app": "a<b"}, "annotations": {"note": "x"}, "uid": "u1", "generation": 3,
            },
            "spec": {"tasks": [{
                "name": "worker",
                "replicas": 2147483647,
                "template": {
                    "metadata": {"annotations": {"kubernetes.io/availablezone": "z1"}},
                    "spec": {
                        "containers": [{
                            "name": "", "command": ["echo", "123"],
                            "ports": [{"name": "placeholder", "containerPort": 0}],
                            "resources": {"limits": {"cpu": "1000m"}, "requests": {"memory": "1024Mi"}},
                        }],
                        "imagePullSecrets": [{"name": "imagepull-secret"}],
                    },
                },
            }], "minAvailable": 1, "plugins": {"env": null, "ssh": ["--a", "--b"]}, "schedulerName": "volcano"},
            "status": {
                "state": {"phase": "Running"},
                "succeeded": 1, "pending": 3, "running": 1, "failed": 2, "unknown": 10, "terminating": 4,
                "retryCount": 5, "minAvailable": 6, "version": 7,
                "controlledResources": {"plugin-svc": "svc"},
                "conditions": [
                    {"status": "Pending", "lastTransitionTime": "2026-01-31T08:00:01Z"},
                    {"status": "Running"},
                ],
            },
        });
        assert_eq!(shown(&job), include_str!("view.txt"));
    }

    #[test]
    fn a_job_that_failed_shows_why() {
        let state = json!({"phase": "Failed", "reason": "JobFailed", "message": "maxRetry 3 used up"});
        let page = shown(&json!({"status": {"state": state}}));
        let expected = "    Phase:\tFailed\n    Reason:\tJobFailed\n    Message:\tmaxRetry 3 used up\n";
        assert!(page.ends_with(expected), "{page}");
    }

    #[test]
    fn an_empty_job_has_nothing_to_show() {
        let page = shown(&json!({}));
        assert!(page.contains("Labels:     \t<none>\nAnnotations:\t<none>\n"), "{page}");
        assert!(page.contains("  Creation Timestamp:\t0001-01-01 00:00:00 +0000 UTC\n"), "{page}");
        assert!(page.ends_with("  Tasks:\nStatus:\n  State:\n    Phase:\t\n"), "{page}");
    }
}
