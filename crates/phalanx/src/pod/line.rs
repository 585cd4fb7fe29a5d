//! One line about a pod, as kubectl and vcctl print it.
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::remote::table::Column;
use crate::remote::times::{Millis, since};

/// What a list shows of a pod.
pub(super) struct Line {
    namespace: String,
    name: String,
    ready: String,
    status: String,
    restarts: String,
    age: String,
}

pub(super) fn columns(with_namespace: bool) -> Vec<Column<Line>> {
    let column = |title: &'static str, cell: fn(&Line) -> String| Column::spaced(title, [2, 8], cell);
    let namespace = with_namespace.then(|| column("Namespace", |line| line.namespace.clone()));
    let others = [
        column("Name", |line| line.name.clone()),
        column("Ready", |line| line.ready.clone()),
        column("Status", |line| line.status.clone()),
        column("Restart", |line| line.restarts.clone()),
        column("Age", |line| line.age.clone()),
    ];
    namespace.into_iter().chain(others).collect()
}

pub(super) fn of(pod: &Pod, now: Millis) -> Line {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let seen = observed(pod);
    let restarts = match &seen.restarts {
        Restarts { count, last: Some(last) } if *count > 0 => {
            format!("{count} ({} ago)", since(Some(last), now))
        }
        Restarts { count, .. } => count.to_string(),
    };
    Line {
        namespace: text(&pod.metadata.namespace),
        name: text(&pod.metadata.name),
        ready: format!("{}/{}", seen.ready, containers(pod)),
        status: ending(pod).unwrap_or(seen.reason),
        restarts,
        age: since(pod.metadata.creation_timestamp.as_ref(), now),
    }
}

/// Restarts of containers, and when the last one ended before its restart.
#[derive(Default)]
struct Restarts {
    count: i32,
    last: Option<Time>,
}

impl Restarts {
    fn add(&mut self, status: &ContainerStatus) {
        self.count += status.restart_count;
        let ended = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
        self.last = self.last.take().max(ended.and_then(|ended| ended.finished_at.clone()));
    }
}

/// What the statuses of the containers say.
#[derive(Default)]
struct Seen {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

fn observed(pod: &Pod) -> Seen {
    let status = pod.status.clone().unwrap_or_default();
    let mut seen = Seen { reason: reason(&status), ..Seen::default() };
    let (initializing, sidecars) = init(pod, &status, &mut seen);
    if !initializing || has_condition(&status, "Initialized") {
        seen.restarts = sidecars;
        run(&status, &mut seen);
    }
    seen
}

/// The reason of the pod itself, before those of its containers.
fn reason(status: &PodStatus) -> String {
    let gated = |reason: &Option<String>| reason.as_deref() == Some("SchedulingGated");
    let mut conditions = status.conditions.iter().flatten();
    if conditions.any(|condition| condition.type_ == "PodScheduled" && gated(&condition.reason)) {
        return "SchedulingGated".to_owned();
    }
    let reason = status.reason.as_ref().filter(|reason| !reason.is_empty());
    reason.or(status.phase.as_ref()).cloned().unwrap_or_default()
}

/// Adds what the init containers say. Returns whether one is not done, and the restarts of sidecars.
fn init(pod: &Pod, status: &PodStatus, seen: &mut Seen) -> (bool, Restarts) {
    let mut sidecars = Restarts::default();
    let total = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref()).map_or(0, Vec::len);
    for (at, container) in status.init_container_statuses.iter().flatten().enumerate() {
        seen.restarts.add(container);
        let is_sidecar = is_sidecar(pod, &container.name);
        if is_sidecar {
            sidecars.add(container);
        }
        let state = container.state.clone().unwrap_or_default();
        if state.terminated.as_ref().is_some_and(|ended| ended.exit_code == 0) {
            continue;
        }
        if is_sidecar && container.started == Some(true) {
            seen.ready += usize::from(container.ready);
            continue;
        }
        seen.reason = format!("Init:{}", not_done(&state).unwrap_or_else(|| format!("{at}/{total}")));
        return (true, sidecars);
    }
    (false, sidecars)
}

fn not_done(state: &ContainerState) -> Option<String> {
    let waits = || state.waiting.as_ref()?.reason.clone();
    match &state.terminated {
        Some(ended) => Some(end(ended)),
        None => waits().filter(|reason| !reason.is_empty() && reason != "PodInitializing"),
    }
}

fn end(ended: &ContainerStateTerminated) -> String {
    match (ended.reason.as_deref().unwrap_or_default(), ended.signal.unwrap_or_default()) {
        ("", 0) => format!("ExitCode:{}", ended.exit_code),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// Adds what the containers say, from the last to the first, which gives the reason.
fn run(status: &PodStatus, seen: &mut Seen) {
    let mut runs = false;
    for container in status.container_statuses.iter().flatten().rev() {
        seen.restarts.add(container);
        let state = container.state.clone().unwrap_or_default();
        let waits = state.waiting.and_then(|waits| waits.reason).filter(|reason| !reason.is_empty());
        if let Some(reason) = waits.or_else(|| state.terminated.as_ref().map(end)) {
            seen.reason = reason;
        } else if container.ready && state.running.is_some() {
            runs = true;
            seen.ready += 1;
        }
    }
    if runs && seen.reason == "Completed" {
        let ready = has_condition(status, "Ready");
        seen.reason = if ready { "Running".to_owned() } else { "NotReady".to_owned() };
    }
}

/// What is said of a pod that is being deleted, whatever its containers do.
fn ending(pod: &Pod) -> Option<String> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let status = pod.status.clone().unwrap_or_default();
    if status.reason.as_deref() == Some("NodeLost") {
        return Some("Unknown".to_owned());
    }
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    (!ended).then(|| "Terminating".to_owned())
}

/// Containers that may be ready: sidecars too.
fn containers(pod: &Pod) -> usize {
    let Some(spec) = &pod.spec else { return 0 };
    let init = spec.init_containers.iter().flatten();
    spec.containers.len() + init.filter(|container| is_sidecar(pod, &container.name)).count()
}

fn is_sidecar(pod: &Pod, name: &str) -> bool {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let mut of_name = init.filter(|container| container.name == name);
    of_name.any(|container| container.restart_policy.as_deref() == Some("Always"))
}

fn has_condition(status: &PodStatus, kind: &str) -> bool {
    let mut conditions = status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == kind && condition.status == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Ready containers, status and restarts of a pod of two containers, an init container and a sidecar.
    fn shown(meta: &Value, status: &Value) -> [String; 3] {
        let init = json!([{"name": "init"}, {"name": "proxy", "restartPolicy": "Always"}]);
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}], "initContainers": init});
        let pod = json!({"metadata": meta, "spec": spec, "status": status});
        let line = of(&serde_json::from_value(pod).unwrap(), Millis(60_000));
        [line.ready, line.status, line.restarts]
    }

    fn container(name: &str, ready: bool, restarts: u32, state: &Value) -> Value {
        json!({
            "name": name, "ready": ready, "restartCount": restarts, "image": "", "imageID": "", "state": state,
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "1970-01-01T00:00:30Z"}},
        })
    }

    #[test]
    fn the_status_is_that_of_the_pod_or_of_its_first_container_that_does_not_run() {
        let runs = json!({"running": {}});
        let done = json!({"terminated": {"exitCode": 0, "reason": "Completed"}});
        let failed = json!({"terminated": {"exitCode": 3}});
        let waits = json!({"waiting": {"reason": "ImagePullBackOff"}});
        let both = |a: &Value, b: &Value| {
            json!({"phase": "Running", "containerStatuses": [
                container("a", *a == json!({"running": {}}), 0, a),
                container("b", *b == json!({"running": {}}), 2, b),
            ]})
        };
        let gate = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        for (status, expected) in [
            (json!({"phase": "Pending"}), ["0/3", "Pending", "0"]),
            (json!({"phase": "Failed", "reason": "Evicted"}), ["0/3", "Evicted", "0"]),
            (json!({"phase": "Pending", "conditions": gate}), ["0/3", "SchedulingGated", "0"]),
            (both(&runs, &runs), ["2/3", "Running", "2 (30s ago)"]),
            (both(&waits, &failed), ["0/3", "ImagePullBackOff", "2 (30s ago)"]),
            (both(&runs, &failed), ["1/3", "ExitCode:3", "2 (30s ago)"]),
            (both(&runs, &done), ["1/3", "NotReady", "2 (30s ago)"]),
        ] {
            assert_eq!(shown(&json!({}), &status), expected, "{status}");
        }
    }

    #[test]
    fn init_containers_that_are_not_done_come_first() {
        let init = |first: &Value, second: &Value| json!({"phase": "Pending", "initContainerStatuses": [first, second]});
        let done = container("init", false, 0, &json!({"terminated": {"exitCode": 0}}));
        let failed = container("init", false, 1, &json!({"terminated": {"exitCode": 1, "reason": "Error"}}));
        let waits = container("init", false, 0, &json!({"waiting": {"reason": "PodInitializing"}}));
        let mut proxy = container("proxy", true, 0, &json!({"running": {}}));
        proxy["started"] = json!(true);
        for (status, expected) in [
            (init(&failed, &proxy), ["0/3", "Init:Error", "1 (30s ago)"]),
            (init(&waits, &proxy), ["0/3", "Init:0/2", "0"]),
            (init(&done, &proxy), ["1/3", "Pending", "0"]),
        ] {
            assert_eq!(shown(&json!({}), &status), expected, "{status}");
        }
    }

    #[test]
    fn a_pod_that_is_being_deleted_terminates_or_is_unknown() {
        let deleted = json!({"deletionTimestamp": "1970-01-01T00:00:00Z"});
        for (status, expected) in [
            (json!({"phase": "Running"}), "Terminating"),
            (json!({"phase": "Running", "reason": "NodeLost"}), "Unknown"),
            (json!({"phase": "Succeeded"}), "Succeeded"),
        ] {
            assert_eq!(shown(&deleted, &status)[1], expected, "{status}");
        }
    }
}
