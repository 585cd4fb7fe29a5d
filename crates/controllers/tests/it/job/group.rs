//! The PodGroup of a job.

use phalanx_api::batch::JobPhase;
use phalanx_api::v1beta1::PodGroupPhase;
use serde_json::{Value, json};

use super::{running, spec};
use crate::cluster::Cluster;

fn group(cluster: &Cluster) -> Value {
    serde_json::to_value(cluster.group.as_ref().unwrap()).unwrap()
}

#[test]
fn the_group_says_what_the_job_needs() {
    let mut cluster = Cluster::new(&spec(
        "queue: gold\npriorityClassName: high\nminAvailable: 2\nnetworkTopology: {mode: soft, highestTierAllowed: 2}",
    ));
    cluster.settle();
    let group = group(&cluster);
    assert_eq!(group["metadata"]["name"], "train-j1");
    assert_eq!(group["metadata"]["annotations"]["volcano.sh/job-version"], "0");
    assert_eq!(
        group["spec"],
        json!({
            "minMember": 2, "minTaskMember": {"master": 1, "worker": 2}, "queue": "gold", "priorityClassName": "high",
            "minResources": {"cpu": "1", "requests.cpu": "1", "pods": "2", "count/pods": "2"},
            "networkTopology": {"mode": "soft", "highestTierAllowed": 2},
        })
    );
}

#[test]
fn partitions_are_subgroups() {
    for (minimum, members, sub_groups) in [(2, 4, json!(2)), (1, 2, json!(1)), (0, 4, json!(0))] {
        let mut cluster = Cluster::new(&format!(
            "tasks: [{{name: w, replicas: 4, partitionPolicy: {{totalPartitions: 2, partitionSize: 2, minPartitions: \
             {minimum}, networkTopology: {{highestTierName: rack}}}}}}]"
        ));
        cluster.settle();
        let spec = &group(&cluster)["spec"];
        assert_eq!((&spec["minMember"], &spec["minTaskMember"]), (&json!(members), &json!({"w": members})));
        let policy = &spec["subGroupPolicy"][0];
        assert_eq!(policy["minSubGroups"], sub_groups, "minPartitions {minimum}");
        assert_eq!((&policy["name"], &policy["subGroupSize"]), (&json!("w"), &json!(2)));
        assert_eq!(policy["matchLabelKeys"], json!(["volcano.sh/partition-id"]));
        assert_eq!(policy["labelSelector"], json!({"matchLabels": {"volcano.sh/task-spec": "w"}}));
        assert_eq!(policy["networkTopology"], json!({"mode": "hard", "highestTierName": "rack"}));
    }
}

#[test]
fn the_group_follows_the_job() {
    let mut cluster = running("");
    let job = cluster.job.as_mut().unwrap();
    job.spec.min_available = 1;
    job.spec.priority_class_name = Some("urgent".to_owned());
    cluster.settle();
    let group = group(&cluster);
    assert_eq!(
        (&group["spec"]["minMember"], &group["spec"]["priorityClassName"]),
        (&json!(1), &json!("urgent"))
    );
    assert_eq!(group["spec"]["minResources"]["cpu"], "500m");
    assert_eq!(group["status"]["phase"], "Inqueue", "the status stays");
}

/// Requests of tasks with priorities: the minimum is made of those that are placed first.
#[test]
fn the_minimum_is_that_of_the_first_pods() {
    let task = |name: &str, class: &str, replicas: i32, min: &str, cpu: i32| {
        format!(
            "- {{name: {name}, replicas: {replicas}{min}, template: {{spec: {{priorityClassName: {class}, containers: [{{name: \
             c, resources: {{limits: {{cpu: {cpu}}}}}}}]}}}}}}\n"
        )
    };
    for (min_available, a, b, expected) in [
        (3, "", "", "12"),
        (1, "", "", "10"),
        (2, "", "", "11"),
        // The minimum of each task goes before the rest of the first.
        (2, ", minAvailable: 1", ", minAvailable: 1", "11"),
        (3, ", minAvailable: 0", ", minAvailable: 1", "12"),
    ] {
        let tasks = task("a", "low", 2, a, 1) + &task("b", "high", 1, b, 10);
        let mut cluster = Cluster::new(&format!("minAvailable: {min_available}\ntasks:\n{tasks}"));
        cluster.priorities = [("low".to_owned(), 1), ("high".to_owned(), 9)].into();
        cluster.settle();
        let minimum = &group(&cluster)["spec"]["minResources"];
        assert_eq!(
            (&minimum["cpu"], &minimum["limits.cpu"]),
            (&json!(expected), &json!(expected)),
            "{min_available} {a} {b}"
        );
    }
}

/// A job of Volcano that runs: its PodGroup has no version.
fn taken_over(more: &str) -> Cluster {
    let mut cluster = running(more);
    let group = cluster.group.as_mut().unwrap();
    group.metadata.annotations = None;
    group.metadata.name = Some("train".to_owned());
    cluster
}

#[test]
fn a_group_of_volcano_is_kept_until_the_job_restarts() {
    let mut cluster = taken_over("");
    cluster.settle();
    assert_eq!(cluster.group.as_ref().unwrap().metadata.name.as_deref(), Some("train"));
    cluster.admits = false;
    cluster.command("RestartJob");
    cluster.settle();
    assert_eq!(group(&cluster)["metadata"]["name"], "train-j1", "the job is queued again");
    assert_eq!((cluster.names().len(), cluster.status().retry_count), (0, 1));
    let mut cluster = taken_over("");
    cluster.command("RestartJob");
    cluster.settle();
    assert_eq!(group(&cluster)["metadata"]["name"], "train-j1", "restarted before it was looked at");
}

#[test]
fn a_group_of_volcano_in_phase_unknown_restarts_the_job_once() {
    for restarting in [false, true] {
        let mut cluster = taken_over("policies: [{event: Unknown, action: RestartJob}]");
        cluster.group.as_mut().unwrap().status.as_mut().unwrap().phase = Some(PodGroupPhase::Unknown);
        if restarting {
            let status = cluster.job.as_mut().unwrap().status.as_mut().unwrap();
            (status.state.phase, status.version, status.retry_count) = (Some(JobPhase::Restarting), 1, 1);
        }
        cluster.settle();
        assert_eq!((cluster.phase(), cluster.status().retry_count), (JobPhase::Pending, 1), "{restarting}");
    }
}
