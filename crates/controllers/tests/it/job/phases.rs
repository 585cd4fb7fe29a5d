//! Phases and the transitions between them.

use phalanx_api::batch::JobPhase;

use super::{ALL, running, spec};
use crate::cluster::Cluster;

#[test]
fn a_job_waits_for_its_group_then_makes_its_pods_then_runs_then_completes() {
    let mut cluster = Cluster::new(&spec(""));
    cluster.admits = false;
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Pending, 0), "its PodGroup is Pending");
    cluster.admits = true;
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.names()), (JobPhase::Pending, ALL.map(str::to_owned).into()));
    assert_eq!((cluster.status().pending, cluster.status().min_available), (3, 3));
    cluster.set(&["master-0", "worker-0"], "Running");
    cluster.settle();
    assert_eq!(cluster.phase(), JobPhase::Pending, "2 of 3 run");
    cluster.set(&["worker-1"], "Running");
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.status().running), (JobPhase::Running, 3));
    cluster.wait(60);
    cluster.set_all("Succeeded");
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.status().succeeded), (JobPhase::Completed, 3));
    assert_eq!(cluster.names().len(), 3, "pods that ended stay");
    assert!(cluster.group.is_none(), "its PodGroup is deleted");
    let conditions = cluster.status().conditions;
    let phases: Vec<_> = conditions.iter().map(|condition| condition.status.clone()).collect();
    assert_eq!(phases, [JobPhase::Pending, JobPhase::Running, JobPhase::Completed]);
    assert_eq!(serde_json::to_value(cluster.status().running_duration).unwrap(), "60s");
    let worker = &cluster.status().task_status_count["worker"];
    assert_eq!(worker.phase.iter().collect::<Vec<_>>(), [(&"Succeeded".to_owned(), &2)]);
}

/// Conditions of its PodGroup, and what an event on the job says.
#[test]
fn a_job_tells_why_its_group_waits() {
    let condition = |kind: &str, status: &str, second: u8| {
        format!(
            "{{type: {kind}, status: '{status}', message: {kind} at {second}, lastTransitionTime: '2026-11-23T00:00:0{second}Z'}}"
        )
    };
    let waits = "PodGroupPending: PodGroup vision:train unschedulable, reason: Unschedulable at 2";
    for (conditions, expected) in [
        (vec![condition("Unschedulable", "True", 2)], Some(waits)),
        (vec![condition("Unschedulable", "True", 2), condition("Scheduled", "True", 1)], Some(waits)),
        (vec![condition("Unschedulable", "True", 2), condition("Scheduled", "True", 3)], None),
        (vec![condition("Unschedulable", "False", 2)], None),
        (vec![], None),
    ] {
        let mut cluster = Cluster::new(&spec(""));
        cluster.admits = false;
        cluster.settle();
        let status = format!("{{phase: Pending, conditions: [{}]}}", conditions.join(", "));
        cluster.group.as_mut().unwrap().status = Some(serde_yaml::from_str(&status).unwrap());
        cluster.settle();
        assert_eq!(cluster.notes.last().map(String::as_str), expected, "{status}");
    }
}

/// The scheduler writes that pods are missing as soon as the PodGroup is admitted, before they can be made.
#[test]
fn a_job_does_not_warn_of_pods_that_could_not_be_made_yet() {
    for (reason, message, warns) in [
        ("NotEnoughTasks", "0/0 tasks in gang unschedulable: 0 exist, minMember is 3", false),
        ("NotEnoughPodsOfTask", "0/0 tasks in gang unschedulable: 0 exist, minTaskMember is 1", false),
        ("NotEnoughTasks", "1/1 tasks in gang unschedulable: 1 exist, minMember is 3", true),
        ("NotEnoughResources", "0/0 tasks in gang unschedulable: queue q is full", true),
    ] {
        let mut cluster = Cluster::new(&spec(""));
        cluster.settle();
        let status = format!(
            "{{phase: Inqueue, conditions: [{{type: Unschedulable, status: 'True', reason: {reason}, message: '{message}'}}]}}"
        );
        cluster.group.as_mut().unwrap().status = Some(serde_yaml::from_str(&status).unwrap());
        cluster.settle();
        let told = cluster.notes.iter().any(|note| note.starts_with("PodGroupPending"));
        assert_eq!(told, warns, "{reason} {message}: {:?}", cluster.notes);
    }
}

/// Phases of pods, and what becomes of a job that runs.
#[test]
fn a_job_ends_as_its_pods_do() {
    let (ok, bad) = ("Succeeded", "Failed");
    for (more, pods, expected) in [
        ("", [ok, ok, ok], JobPhase::Completed),
        ("", [ok, ok, bad], JobPhase::Failed),
        ("", [ok, ok, "Running"], JobPhase::Running),
        ("", [ok, "Running", "Pending"], JobPhase::Pending),
        ("minAvailable: 2", [ok, "Running", "Pending"], JobPhase::Running),
        ("minAvailable: 2", [ok, ok, bad], JobPhase::Completed),
        ("minAvailable: 2", [ok, bad, bad], JobPhase::Failed),
        ("minSuccess: 1", [ok, "Running", "Running"], JobPhase::Completed),
        ("minSuccess: 2", [ok, "Running", "Running"], JobPhase::Running),
        ("minSuccess: 2", [ok, ok, bad], JobPhase::Completed),
        ("minSuccess: 3", [ok, ok, bad], JobPhase::Failed),
    ] {
        let mut cluster = running(more);
        for (name, phase) in ALL.iter().zip(pods) {
            cluster.set(&[name], phase);
        }
        cluster.settle();
        assert_eq!(cluster.phase(), expected, "{more} {pods:?}");
        let left = cluster.names().len();
        let unfinished = pods.iter().filter(|phase| ![ok, bad].contains(phase)).count();
        let killed = if expected == JobPhase::Completed { unfinished } else { 0 };
        assert_eq!(left, 3 - killed, "{more} {pods:?}: unfinished pods of a job that ended are deleted");
    }
}

#[test]
fn a_job_that_failed_says_why_in_its_status_and_in_an_event() {
    let tasks =
        "minAvailable: 2\ntasks:\n- {name: a, replicas: 2, minAvailable: 1}\n- {name: b, replicas: 1}";
    for (spec, failed, expected) in [
        (spec("minSuccess: 3"), "worker-1", "minSuccess 3 not reached: 2 succeeded"),
        (spec(""), "worker-1", "minAvailable 3 not reached: 2 succeeded, 1 failed"),
        (tasks.to_owned(), "b-0", "minAvailable 1 of task b not reached: 0 succeeded, 1 failed"),
    ] {
        let mut cluster = Cluster::new(&spec);
        cluster.settle();
        cluster.set_all("Running");
        cluster.settle();
        cluster.set_all("Succeeded");
        cluster.set(&[failed], "Failed");
        cluster.settle();
        fails(&cluster, expected);
    }
    let mut cluster = running("maxRetry: 1");
    cluster.command("RestartJob");
    cluster.settle();
    fails(&cluster, "maxRetry 1 used up");
}

fn fails(cluster: &Cluster, expected: &str) {
    let state = cluster.status().state;
    assert_eq!(state.phase, Some(JobPhase::Failed));
    assert_eq!((&*state.reason, &*state.message), ("JobFailed", expected));
    let told: Vec<_> = cluster.notes.iter().filter(|note| note.starts_with("JobFailed")).collect();
    assert_eq!(told, [&format!("JobFailed: {expected}")]);
}

/// A task that has too few pods that succeeded makes its job fail, where the job needs all that its tasks need.
#[test]
fn a_task_below_its_minimum_fails_the_job() {
    let tasks = |minimum: i32| {
        format!(
            "minAvailable: {minimum}\ntasks:\n- {{name: a, replicas: 2, minAvailable: 1}}\n- {{name: b, replicas: 2, minAvailable: 2}}"
        )
    };
    for (minimum, expected) in [(3, JobPhase::Failed), (2, JobPhase::Completed)] {
        let mut cluster = Cluster::new(&tasks(minimum));
        cluster.settle();
        cluster.set_all("Running");
        cluster.settle();
        cluster.set(&["a-0", "a-1", "b-0"], "Succeeded");
        cluster.set(&["b-1"], "Failed");
        cluster.settle();
        assert_eq!(cluster.phase(), expected, "minAvailable {minimum}");
    }
}

#[test]
fn a_job_is_deleted_its_ttl_after_it_ended() {
    let mut cluster = running("ttlSecondsAfterFinished: 100");
    cluster.wait(10);
    cluster.set_all("Succeeded");
    cluster.settle();
    assert_eq!(cluster.reconcile().next, Some("2026-11-23T00:01:50Z".parse().unwrap()));
    cluster.wait(99);
    cluster.settle();
    assert!(cluster.job.is_some());
    cluster.wait(1);
    cluster.settle();
    assert!(cluster.job.is_none());
}

#[test]
fn a_job_scaled_to_nothing_keeps_its_phase() {
    let mut cluster = running("");
    for task in &mut cluster.job.as_mut().unwrap().spec.tasks {
        task.replicas = 0;
    }
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Running, 0));
}

#[test]
fn a_job_for_which_nothing_can_be_written_is_terminated() {
    let mut cluster = running("");
    cluster.failures = 14;
    cluster.settle();
    assert_eq!(cluster.phase(), JobPhase::Running);
    cluster.failures = 15;
    cluster.settle();
    assert_eq!((cluster.phase(), cluster.names().len()), (JobPhase::Terminated, 0));
}

#[test]
fn a_job_that_is_being_deleted_is_left_alone() {
    let mut cluster = running("");
    let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(cluster.now);
    cluster.job.as_mut().unwrap().metadata.deletion_timestamp = Some(now);
    cluster.vanish("worker-0");
    assert_eq!(cluster.reconcile(), phalanx_controllers::Outcome::default());
}
