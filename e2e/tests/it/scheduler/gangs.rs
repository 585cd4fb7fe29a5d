//! Gangs: all or nothing.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{core::v1::Pod, scheduling::v1::PriorityClass};
use kube::{Api, api::PostParams};
use phalanx_e2e::{fake, wait};
use serde_json::json;

use super::cluster::{Cluster, PodSpec, SOON};
use super::pools::until_pools;

#[tokio::test]
async fn a_gang_that_fits_runs_and_its_podgroup_is_running() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("4"), &[]).await?;
    cluster.gang("train", 4, &PodSpec::cpu(2)).await?;
    cluster.until_bound("train-", 4).await?;
    cluster.check_room(4).await?;
    let running = |status: &serde_json::Value| status["phase"] == "Running" && status["running"] == 4;
    let status = cluster.until_status("PodGroup", "train", "4 running", running).await?;
    let scheduled = status["conditions"].as_array().into_iter().flatten();
    ensure!(scheduled.clone().any(|condition| condition["type"] == "Scheduled"), "{status}");
    let allocated =
        |status: &serde_json::Value| status["allocated"]["cpu"] == "8" && status["state"] == "Open";
    cluster.until_status("Queue", "default", "8 CPUs allocated", allocated).await?;
    let note = cluster.until_event("Scheduled", "train-0").await?;
    ensure!(note.starts_with("Successfully assigned default/train-0 to node-"), "{note}");
    let root = cluster.volcano("Queue").get("root").await?;
    assert_eq!(root.data["spec"]["reclaimable"], false);
    Ok(())
}

#[tokio::test]
async fn a_gang_that_lacks_room_starts_after_a_node_is_added() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("4"), &[]).await?;
    cluster.gang("train", 5, &PodSpec::cpu(2)).await?;
    cluster.until_waits("train-0", "Insufficient cpu").await?;
    let reason = |status: &serde_json::Value| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.any(|it| it["type"] == "Unschedulable" && it["status"] == "True")
    };
    let status = cluster.until_status("PodGroup", "train", "an Unschedulable condition", reason).await?;
    let text = status.to_string();
    ensure!(text.contains("0/2 nodes are available") && text.contains("Insufficient cpu"), "{text}");
    ensure!(text.contains("least missing, on node node-"), "{text}");
    cluster.until_event("Unschedulable", "train").await?;
    cluster.until_event("FailedScheduling", "train-0").await?;
    assert_eq!(cluster.bound_of("train-").await?, 0);
    until_pools(&cluster, [0, 0, 1]).await?;

    fake::Nodes::new(1).cpu("4").starting_at(2).create(&cluster.client).await?;
    cluster.until_bound("train-", 5).await?;
    until_pools(&cluster, [0, 0, 0]).await?;
    cluster.until_phase("train", "Running").await?;
    cluster.check_room(4).await
}

/// Pod by pod, each would take half of the room and wait for the other for ever.
#[tokio::test]
async fn two_gangs_that_could_deadlock_run_one_after_the_other() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("2"), &[]).await?;
    let pod = PodSpec::cpu(1);
    for gang in ["a", "b"] {
        cluster.pod_group(gang, json!({"minMember": 3})).await?;
    }
    for index in 0..3 {
        for gang in ["a", "b"] {
            let mut pod = pod.single(&format!("{gang}-{index}"));
            pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!(gang);
            cluster.create::<Pod>(pod).await?;
        }
    }
    cluster.until_bound("", 3).await?;
    cluster.stays_bound("", 3).await?;
    let first = if cluster.bound_of("a-").await? == 3 { "a" } else { "b" };
    let second = if first == "a" { "b" } else { "a" };
    assert_eq!(cluster.bound_of(&format!("{first}-")).await?, 3, "one of them runs whole");
    cluster.delete_pods(&format!("{first}-")).await?;
    cluster.until_bound(&format!("{second}-"), 3).await
}

#[tokio::test]
async fn a_podgroup_created_after_its_pods_is_scheduled() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[]).await?;
    cluster.members("late", 3, &PodSpec::cpu(1)).await?;
    cluster.until_waits("late-0", "PodGroup default/late does not exist").await?;
    cluster.stays_bound("late-", 0).await?;
    cluster.pod_group("late", json!({"minMember": 3})).await?;
    cluster.until_bound("late-", 3).await
}

#[tokio::test]
async fn the_gang_of_higher_priority_starts_first() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("1"), &[]).await?;
    let class = json!({"metadata": {"name": "urgent"}, "value": 1000});
    let class: PriorityClass = serde_json::from_value(class)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    cluster.gang("patient", 3, &PodSpec::cpu(1)).await?;
    cluster.until_waits("patient-0", "").await?;
    cluster.pod_group("urgent", json!({"minMember": 3, "priorityClassName": "urgent"})).await?;
    let pod = PodSpec { priority_class: Some("urgent"), ..PodSpec::cpu(1) };
    cluster.members("urgent", 3, &pod).await?;
    cluster.until_waits("urgent-0", "").await?;
    fake::Nodes::new(1).cpu("3").starting_at(1).create(&cluster.client).await?;
    cluster.until_bound("urgent-", 3).await?;
    cluster.stays_bound("patient-", 0).await
}

#[tokio::test]
async fn a_finished_gang_is_completed_and_frees_its_room() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[]).await?;
    let pod = PodSpec { run_seconds: Some("0.3"), ..PodSpec::cpu(2) };
    cluster.gang("short", 2, &pod).await?;
    cluster.until_bound("short-", 2).await?;
    cluster.gang("next", 2, &PodSpec::cpu(2)).await?;
    let done = |status: &serde_json::Value| status["phase"] == "Completed" && status["succeeded"] == 2;
    cluster.until_status("PodGroup", "short", "2 succeeded", done).await?;
    cluster.until_bound("next-", 2).await
}

/// One write a pod and two a gang: it is admitted, and it has its nodes. On a slow machine there would be more, of
/// gangs in the making and of pods that run one by one; so the pods are seen at once here, and none runs.
#[tokio::test]
async fn a_gang_that_starts_at_once_needs_few_writes() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(10).cpu("32"), &["--scheduled-events=false"]).await?;
    cluster.kubelet = None;
    for gang in 0..5 {
        cluster.pod_group(&format!("g{gang}"), json!({"minMember": 20})).await?;
    }
    for gang in 0..5 {
        cluster.until_phase(&format!("g{gang}"), "Inqueue").await?;
    }
    cluster.phalanx().pause()?;
    for gang in 0..5 {
        cluster.members(&format!("g{gang}"), 20, &PodSpec::cpu(1)).await?;
    }
    cluster.phalanx().resume()?;
    cluster.until_bound("g", 100).await?;
    for gang in 0..5 {
        cluster.until_phase(&format!("g{gang}"), "Running").await?;
    }
    let metric = async |name: &str| cluster.phalanx().metric(name).await;
    wait::until(SOON, "100 binds to be answered", async || {
        let binds = metric("phalanx_requests_total{kind=\"bind\",result=\"done\"}").await?;
        ensure!((binds - 100.0).abs() < 0.5, "{binds} binds");
        Ok(())
    })
    .await?;
    let statuses =
        metric("phalanx_requests_total{kind=\"status\",result=\"done\"}").await.unwrap_or_default();
    // Inqueue and Running of each, and what the queue has allocated.
    ensure!(statuses <= 12.0, "{statuses} statuses for 5 gangs");
    let retried = metric("phalanx_requests_total{kind=\"bind\",result=\"retry\"}").await;
    ensure!(retried.is_err(), "binds were tried again");
    let note = cluster.phalanx().metric("phalanx_pods_bound_total").await.context("the metric")?;
    assert!((note - 100.0).abs() < 0.5);
    Ok(())
}
