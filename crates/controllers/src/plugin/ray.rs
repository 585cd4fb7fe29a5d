//! `ray`: the commands that start a Ray cluster, its ports, and a Service for its head.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use phalanx_api::batch::Job;
use phalanx_api::names;

use super::arguments::{Argument, Arguments, number, text};
use super::objects::{metadata, selector};
use super::pods::open_port;
use super::{Made, Plugin};
use crate::change::Object;
use crate::job::{SshKey, task_host};

pub(super) const PLUGIN: Plugin = Plugin { name: "ray", arguments: ARGUMENTS, objects, change_pod, check };

const ARGUMENTS: &[Argument] = &[
    text("head", "head"),
    text("headContainer", "head"),
    text("worker", "worker"),
    text("workerContainer", "worker"),
    number("port", "6379"),
    number("dashboardPort", "8265"),
    number("clientPort", "10001"),
];

/// Names of ports, and the arguments that say their numbers.
const PORTS: [(&str, &str); 3] =
    [("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort")];

fn ports(arguments: &Arguments<'_>) -> [(&'static str, i32); 3] {
    PORTS.map(|(name, argument)| (name, arguments.number(argument)))
}

fn check(job: &Job, arguments: &Arguments<'_>) -> Option<String> {
    let head = arguments.text("head");
    let missing = !job.spec.tasks.iter().any(|task| task.name == head);
    missing.then(|| format!("spec.plugins.ray: there is no head task {head}"))
}

fn objects(job: &Job, arguments: &Arguments<'_>, _: Option<&SshKey>) -> Vec<Object> {
    let mut labels = selector(job);
    labels.insert(names::TASK_SPEC.to_owned(), arguments.text("head").to_owned());
    let ports = ports(arguments).map(|(name, port)| ServicePort {
        name: Some(name.to_owned()),
        port,
        target_port: Some(IntOrString::String(name.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    });
    let spec = ServiceSpec { selector: Some(labels), ports: Some(ports.into()), ..ServiceSpec::default() };
    let service = Service { metadata: metadata(job, "-head-svc"), spec: Some(spec), status: None };
    vec![Object::Service(Box::new(service))]
}

fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    let Some(head) = made.task(arguments.text("head")) else {
        return;
    };
    let (task, ports) = (made.task.name.clone(), ports(arguments));
    let [gcs, dashboard, client] = ports.map(|(_, port)| port);
    let address = task_host(made.job, head, 0);
    let is_head = task == head.name;
    let is_worker = task == arguments.text("worker");
    for container in &mut made.spec().containers {
        let command = if is_head && container.name == arguments.text("headContainer") {
            for (name, port) in ports {
                open_port(container, name, port);
            }
            format!(
                "ray start --head --block --dashboard-host=0.0.0.0 --port={gcs} --dashboard-port={dashboard} \
                 --ray-client-server-port={client}"
            )
        } else if is_worker && container.name == arguments.text("workerContainer") {
            format!("ray start --block --address={address}:{gcs}")
        } else {
            continue;
        };
        container.command = Some(vec!["sh".to_owned(), "-c".to_owned(), command]);
    }
}
