//! Lifecycle policies: each event, each action, timeouts, exit codes, which policy goes first.

use phalanx_api::batch::JobPhase;
use phalanx_api::v1beta1::PodGroupPhase;

use super::{running, spec};
use crate::cluster::Cluster;

/// Makes an event happen to worker-0, or to its task or job.
fn happen(cluster: &mut Cluster, event: &str) {
    match event {
        "PodFailed" => cluster.fail("worker-0", 3),
        "PodEvicted" => cluster.evict("worker-0"),
        "PodEvicted, unseen" => cluster.vanish("worker-0"),
        "TaskCompleted" => cluster.set(&["worker-0", "worker-1"], "Succeeded"),
        "TaskFailed" => cluster.restart_container("worker-0", 3),
        "Unknown" => {
            cluster.group.as_mut().unwrap().status.as_mut().unwrap().phase = Some(PodGroupPhase::Unknown);
        }
        "PodPending" => {
            cluster.set(&["worker-0"], "Pending");
            cluster.wait(300);
        }
        event => panic!("{event}"),
    }
}

const EVENTS: [&str; 7] =
    ["PodFailed", "PodEvicted", "PodEvicted, unseen", "TaskCompleted", "TaskFailed", "Unknown", "PodPending"];

fn name(event: &str) -> &str {
    event.split(',').next().unwrap()
}

/// A policy, with the timeout that PodPending needs.
fn policy(event: &str, action: &str) -> String {
    let timeout = if event == "PodPending" { ", timeout: 60s" } else { "" };
    format!("policies: [{{event: {}, action: {action}{timeout}}}]", name(event))
}

/// Pods of the job that were made anew.
fn renewed(cluster: &Cluster, before: &Cluster) -> Vec<String> {
    let uid = |cluster: &Cluster, name: &str| cluster.pod(name).metadata.uid.clone();
    cluster.names().into_iter().filter(|name| uid(cluster, name) != uid(before, name)).collect()
}

#[test]
fn each_event_makes_each_action_happen() {
    for event in EVENTS {
        for action in ["RestartJob", "RestartTask", "RestartPod", "AbortJob", "CompleteJob", "TerminateJob"] {
            let mut cluster = running(&policy(event, action));
            let before = cluster.clone();
            happen(&mut cluster, event);
            cluster.settle();
            let of_job = event == "Unknown";
            let (phase, retries) = match action {
                "AbortJob" => (JobPhase::Aborted, 0),
                "CompleteJob" => (JobPhase::Completed, 0),
                "TerminateJob" => (JobPhase::Terminated, 0),
                "RestartTask" | "RestartPod" if of_job => (JobPhase::Running, 0),
                // One pod that waits keeps a job that needs three from running.
                _ => (JobPhase::Pending, 1),
            };
            let case = format!("{event}: {action}");
            assert_eq!((cluster.phase(), cluster.status().retry_count), (phase, retries), "{case}");
            if cluster.phase() == JobPhase::Pending {
                let renewed = renewed(&cluster, &before);
                // The event of a task names its last pod; worker-0 where nothing tells them apart.
                let expected: &[&str] = match action {
                    "RestartJob" => &["master-0", "worker-0", "worker-1"],
                    "RestartTask" => &["worker-0", "worker-1"],
                    _ => &["worker-0"],
                };
                assert_eq!(renewed, expected, "{case}");
            }
        }
    }
}

#[test]
fn the_event_of_a_policy_names_pod_and_exit_code() {
    let mut cluster = running("policies: [{exitCode: 137, action: AbortJob}]");
    cluster.fail("worker-0", 137);
    cluster.settle();
    assert_eq!(cluster.notes, ["ExecuteAction: AbortJob: PodFailed of train-worker-0 (exit code 137)"]);
}

/// `SyncJob` is what is done always, and only a Job that was aborted can be resumed.
#[test]
fn an_action_that_a_live_job_does_not_know_holds_nothing_up() {
    let worker = "{name: worker, replicas: 2, policies: [{event: PodFailed, action: RestartTask}]}";
    for action in ["ResumeJob", "SyncJob"] {
        for event in EVENTS {
            let mut cluster = running(&policy(event, action));
            let before = cluster.clone();
            happen(&mut cluster, event);
            cluster.settle();
            let expected: &[&str] = if event.starts_with("PodEvicted") { &["worker-0"] } else { &[] };
            assert_eq!(renewed(&cluster, &before), expected, "{event}: {action}");
            assert_eq!(cluster.status().retry_count, 0, "{event}: {action}");
        }
        let other = format!("policies: [{{event: Unknown, action: {action}}}]");
        let mut cluster = Cluster::new(&format!("tasks: [{worker}]\n{other}"));
        cluster.settle();
        cluster.set_all("Running");
        cluster.settle();
        happen(&mut cluster, "Unknown");
        happen(&mut cluster, "PodFailed");
        cluster.settle();
        assert_eq!(cluster.status().retry_count, 1, "RestartTask beside {action}");
    }
}

#[test]
fn an_event_without_a_policy_makes_evicted_pods_anew_and_nothing_else() {
    for event in EVENTS {
        let mut cluster = running("");
        let before = cluster.clone();
        happen(&mut cluster, event);
        cluster.settle();
        let expected: &[&str] = if event.starts_with("PodEvicted") { &["worker-0"] } else { &[] };
        assert_eq!(renewed(&cluster, &before), expected, "{event}");
        assert_eq!((cluster.status().retry_count, cluster.status().version), (0, 0), "{event}");
    }
}

/// `*` answers every event but PodPending, which needs a timeout.
#[test]
fn any_event_is_answered() {
    for event in EVENTS {
        let mut cluster = running("policies: [{event: '*', action: AbortJob}]");
        happen(&mut cluster, event);
        cluster.settle();
        assert_eq!(cluster.phase() == JobPhase::Aborted, event != "PodPending", "{event}");
    }
}

/// As in Volcano, which takes such a policy.
#[test]
fn a_policy_without_a_timeout_answers_its_other_events_than_pod_pending() {
    for event in ["PodFailed", "PodPending"] {
        let mut cluster = running("policies: [{events: [PodFailed, PodPending], action: AbortJob}]");
        happen(&mut cluster, event);
        cluster.settle();
        assert_eq!(cluster.phase() == JobPhase::Aborted, event == "PodFailed", "{event}");
    }
}

#[test]
fn internal_events_are_answered_by_no_policy() {
    for event in ["PodRunning", "OutOfSync", "CommandIssued", "JobUpdated"] {
        let mut cluster = running(&policy(event, "AbortJob"));
        cluster.settle();
        assert_eq!(cluster.phase(), JobPhase::Running, "{event}");
    }
}

#[test]
fn policies_of_the_task_go_before_those_of_the_job_and_earlier_ones_before_later_ones() {
    let task = |policies: &str| format!("tasks: [{{name: worker, replicas: 2, policies: [{policies}]}}]");
    let job = "policies: [{event: PodFailed, action: TerminateJob}, {event: '*', action: CompleteJob}]";
    for (policies, expected) in [
        ("", JobPhase::Terminated),
        ("{event: PodFailed, action: AbortJob}", JobPhase::Aborted),
        ("{event: PodEvicted, action: AbortJob}", JobPhase::Terminated),
        ("{exitCode: 3, action: AbortJob}, {event: PodFailed, action: CompleteJob}", JobPhase::Aborted),
        (
            "{exitCode: 4, action: AbortJob}, {events: [PodEvicted, PodFailed], action: CompleteJob}",
            JobPhase::Completed,
        ),
        ("{exitCode: 4, action: AbortJob}", JobPhase::Terminated),
        // The API server refuses these: what is answered twice is answered by the first.
        (
            "{event: PodFailed, action: AbortJob}, {events: [PodFailed], action: CompleteJob}",
            JobPhase::Aborted,
        ),
        ("{event: '*', action: CompleteJob}, {event: PodFailed, action: AbortJob}", JobPhase::Completed),
        ("{event: PodFailed, action: AbortJob}, {event: '*', action: CompleteJob}", JobPhase::Aborted),
        ("{exitCode: 3, action: AbortJob}, {exitCode: 3, action: CompleteJob}", JobPhase::Aborted),
        ("{event: PodFailed, exitCode: 4, action: AbortJob}", JobPhase::Aborted),
        ("{action: AbortJob}", JobPhase::Terminated),
        // An event without an action is answered by nothing.
        ("{event: PodFailed}, {event: '*', action: AbortJob}", JobPhase::Running),
    ] {
        let mut cluster = Cluster::new(&format!("{}\n{job}", task(policies)));
        cluster.settle();
        cluster.set_all("Running");
        cluster.settle();
        cluster.fail("worker-0", 3);
        cluster.settle();
        assert_eq!(cluster.phase(), expected, "{policies}");
    }
}

#[test]
fn a_partition_is_restarted_alone() {
    let mut cluster = Cluster::new(
        "tasks: [{name: w, replicas: 4, partitionPolicy: {totalPartitions: 2, partitionSize: 2}}]\npolicies: [{event: \
         PodFailed, action: RestartPartition}]",
    );
    cluster.settle();
    cluster.set_all("Running");
    cluster.settle();
    let before = cluster.clone();
    cluster.fail("w-3", 1);
    cluster.settle();
    assert_eq!(renewed(&cluster, &before), ["w-2", "w-3"]);
    assert_eq!(cluster.status().retry_count, 1);
}

#[test]
fn a_timeout_delays_the_action() {
    for event in ["PodFailed", "PodEvicted", "PodEvicted, unseen", "PodPending"] {
        let mut cluster =
            running(&format!("policies: [{{event: {}, action: AbortJob, timeout: 10m}}]", name(event)));
        happen(&mut cluster, event);
        cluster.settle();
        assert_ne!(cluster.phase(), JobPhase::Aborted, "{event}");
        let due = cluster.reconcile().next.unwrap();
        cluster.now = due - jiff::SignedDuration::from_secs(1);
        cluster.settle();
        assert_ne!(cluster.phase(), JobPhase::Aborted, "{event}");
        cluster.now = due;
        cluster.settle();
        assert_eq!(cluster.phase(), JobPhase::Aborted, "{event}");
    }
}

#[test]
fn a_pod_that_runs_again_ends_the_timeout() {
    for event in ["PodEvicted", "PodEvicted, unseen", "PodPending"] {
        let mut cluster =
            running(&format!("policies: [{{event: {}, action: AbortJob, timeout: 10m}}]", name(event)));
        happen(&mut cluster, event);
        cluster.settle();
        cluster.set(&["worker-0"], "Running");
        cluster.settle();
        cluster.wait(3600);
        cluster.settle();
        assert_eq!(cluster.phase(), JobPhase::Running, "{event}");
        assert_eq!(cluster.reconcile().next, None, "{event}");
    }
}

#[test]
fn a_job_that_was_restarted_as_often_as_it_may_has_failed() {
    let mut cluster = running("maxRetry: 2\npolicies: [{event: PodFailed, action: RestartJob}]");
    for retry in 1..=2 {
        cluster.fail("worker-1", 1);
        cluster.settle();
        assert_eq!(cluster.status().retry_count, retry);
        if retry == 1 {
            assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Pending, 3));
            cluster.set_all("Running");
            cluster.settle();
        }
    }
    assert_eq!(cluster.phase(), JobPhase::Failed);
    assert_eq!(cluster.names(), ["worker-1"], "what failed last stays, for those who look for the cause");
}

#[test]
fn pods_that_fail_together_are_one_retry() {
    let mut cluster = running("policies: [{event: PodFailed, action: RestartPod}]");
    cluster.fail("worker-0", 1);
    cluster.fail("worker-1", 1);
    let before = cluster.clone();
    cluster.settle();
    assert_eq!((renewed(&cluster, &before).len(), cluster.status().retry_count), (2, 1));
    cluster.set_all("Running");
    cluster.settle();
    assert_eq!(cluster.phase(), JobPhase::Running);
    let marks = cluster.status().controlled_resources;
    assert!(marks.keys().all(|key| !key.starts_with("restart-")), "{marks:?}");
}

#[test]
fn a_task_that_may_restart_for_ever_never_fails() {
    for (max_retry, expected) in
        [(-1, JobPhase::Running), (5, JobPhase::Running), (0, JobPhase::Aborted), (3, JobPhase::Aborted)]
    {
        let tasks = format!("tasks: [{{name: worker, replicas: 1, maxRetry: {max_retry}}}]");
        let mut cluster =
            Cluster::new(&format!("{tasks}\npolicies: [{{event: TaskFailed, action: AbortJob}}]"));
        cluster.settle();
        cluster.set_all("Running");
        cluster.restart_container("worker-0", 4);
        cluster.settle();
        assert_eq!(cluster.phase(), expected, "maxRetry {max_retry}");
    }
}

#[test]
fn a_finished_pod_that_is_deleted_was_not_evicted() {
    let mut cluster = running("policies: [{event: PodEvicted, action: AbortJob}]");
    cluster.set(&["worker-0"], "Succeeded");
    cluster.settle();
    cluster.vanish("worker-0");
    cluster.settle();
    assert_ne!(cluster.phase(), JobPhase::Aborted);
}

#[test]
fn scaling_down_evicts_nobody() {
    let mut cluster =
        Cluster::new(&spec("minAvailable: 1\npolicies: [{event: PodEvicted, action: AbortJob}]"));
    cluster.settle();
    cluster.set_all("Running");
    cluster.settle();
    cluster.job.as_mut().unwrap().spec.tasks[1].replicas = 1;
    cluster.job.as_mut().unwrap().spec.tasks[1].min_available = Some(1);
    cluster.settle();
    assert_eq!(
        (cluster.phase(), cluster.names()),
        (JobPhase::Running, vec!["master-0".to_owned(), "worker-0".to_owned()])
    );
}
