//! Probes: what is asked of the pods of Jobs that a step waits for.

use phalanx_api::batch::{Job, TaskSpec};
use phalanx_api::flow::Probe;

use crate::meta::text;

/// A question to all pods of a task. The shell asks it, and hands in what was answered as wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbeRequest {
    /// The Job.
    pub job: String,
    /// The task.
    pub task: String,
    /// The port.
    pub port: i32,
    /// The path and header of an HTTP request, which is to be answered with a status from 200 to 399; otherwise the
    /// port is to listen.
    pub http: Option<(String, Option<(String, String)>)>,
}

/// The tasks of this name of the targets.
fn tasks<'a>(targets: &[&'a Job], name: &str) -> Vec<(&'a Job, &'a TaskSpec)> {
    let of = |job: &&'a Job| job.spec.tasks.iter().find(|task| task.name == name).map(|task| (*job, task));
    targets.iter().filter_map(of).collect()
}

/// What is to be asked.
pub(super) fn requests(probe: &Probe, targets: &[&Job]) -> Vec<ProbeRequest> {
    let request = |job: &Job, task: &TaskSpec, port| ProbeRequest {
        job: text(job.metadata.name.as_ref()).to_owned(),
        task: task.name.clone(),
        port,
        http: None,
    };
    let mut found = Vec::new();
    for one in &probe.http_get_list {
        let header = one.http_header.as_ref().map(|header| (header.name.clone(), header.value.clone()));
        for (job, task) in tasks(targets, &one.task_name) {
            found.push(ProbeRequest {
                http: Some((one.path.clone(), header.clone())),
                ..request(job, task, one.port)
            });
        }
    }
    for one in &probe.tcp_socket_list {
        found.extend(
            tasks(targets, &one.task_name).into_iter().map(|(job, task)| request(job, task, one.port)),
        );
    }
    found
}

/// As many pods of each task as it needs are in the phase that is wanted. A task that no target has is in none, unless
/// some of the targets have completed: it may have been theirs.
pub(super) fn phases_are_right(probe: &Probe, targets: &[&Job], some_completed: bool) -> bool {
    probe.task_status_list.iter().all(|one| {
        let tasks = tasks(targets, &one.task_name);
        (some_completed || !tasks.is_empty())
            && tasks.into_iter().all(|(job, task)| {
                count(job, task, &one.phase) >= task.min_available.unwrap_or(task.replicas)
            })
    })
}

fn count(job: &Job, task: &TaskSpec, phase: &str) -> i32 {
    let counts = job.status.as_ref().and_then(|status| status.task_status_count.get(&task.name));
    counts.and_then(|counts| counts.phase.get(phase)).copied().unwrap_or(0)
}
