//! `tensorflow`: `TF_CONFIG`, the cluster and the place of the pod in it.

use serde::Serialize;

use super::arguments::{Argument, Arguments, number, text};
use super::pods::{add_env, variable};
use super::{Made, Plugin, any_job, nothing};
use crate::job::task_host;

pub(super) const PLUGIN: Plugin =
    Plugin { name: "tensorflow", arguments: ARGUMENTS, objects: nothing, change_pod, check: any_job };

const ARGUMENTS: &[Argument] = &[
    text("ps", "ps"),
    text("worker", "worker"),
    text("chief", "chief"),
    text("evaluator", "evaluator"),
    number("port", "2222"),
];

#[derive(Serialize)]
struct Config {
    cluster: Cluster,
    task: Task,
}

#[derive(Default, Serialize)]
struct Cluster {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ps: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    worker: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chief: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    evaluator: Vec<String>,
}

#[derive(Serialize)]
struct Task {
    #[serde(rename = "type")]
    role: String,
    index: i32,
}

fn change_pod(made: &mut Made<'_>, arguments: &Arguments<'_>) {
    let tasks = &made.job.spec.tasks;
    if tasks.len() == 1 && tasks[0].replicas == 1 {
        return;
    }
    let role = |task: &str| {
        ["ps", "worker", "chief", "evaluator"].into_iter().find(|role| arguments.text(role) == task)
    };
    let mut cluster = Cluster::default();
    for task in tasks {
        let port = arguments.number("port");
        let hosts =
            (0..task.replicas).map(|index| format!("{}:{port}", task_host(made.job, task, index))).collect();
        match role(&task.name) {
            Some("ps") => cluster.ps = hosts,
            Some("worker") => cluster.worker = hosts,
            Some("chief") => cluster.chief = hosts,
            Some(_) => cluster.evaluator = hosts,
            None => {}
        }
    }
    let own = role(&made.task.name).unwrap_or(&made.task.name).to_owned();
    let config = Config { cluster, task: Task { role: own, index: made.index } };
    let text = serde_json::to_string(&config).unwrap_or_default();
    for container in &mut made.spec().containers {
        add_env(container, &[variable("TF_CONFIG", text.clone())]);
    }
}
