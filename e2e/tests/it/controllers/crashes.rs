//! Controllers that are killed.

use anyhow::{Result, ensure};
use kube::ResourceExt as _;
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::json;

use super::{Cluster, SOON, World, task};

/// A limit makes the creation of pods take long enough to be killed in the middle of it.
const SLOW: [&str; 2] = ["--kube-api-qps=20", "--kube-api-burst=1"];

#[tokio::test]
async fn the_next_controllers_make_what_killed_ones_have_not() -> Result<()> {
    let cluster = Cluster::with(PlaneOptions::default(), fake::Nodes::new(4).cpu("10"), &[]).await?;
    cluster.define_jobs().await?;
    let slow = Phalanx::start_controllers(&cluster.plane, &SLOW).await?;
    let mut world = World { cluster, controllers: Some(slow) };
    let spec = json!({"plugins": {"svc": []}, "tasks": [task("worker", 30, None, "")]});
    world.create("Job", "big", spec).await?;
    wait::until(SOON, "some pods", async || {
        let pods = world.pods_of("big").await?.len();
        ensure!(pods >= 5, "{pods} pods");
        Ok(())
    })
    .await?;
    // The process is killed.
    drop(world.controllers.take());
    let before = world.pods_of("big").await?;
    ensure!(before.len() < 30, "all pods were made");
    world.controllers = Some(Phalanx::start_controllers(&world.cluster.plane, &[]).await?);
    let after = world.until_pods("big", 30, "Running").await?;
    let status = world.until_job("big", "Running").await?;
    let kept = before.iter().filter(|pod| after.iter().any(|other| other.uid() == pod.uid())).count();
    assert_eq!((kept, &status["retryCount"]), (before.len(), &json!(0)), "{status}");
    let made = world.requests("create-pod").await?;
    assert_eq!(made as usize, 30 - before.len(), "each pod is made once");
    Ok(())
}

/// A job that restarts while nobody looks: the retry counts once.
#[tokio::test]
async fn a_restart_is_counted_once_by_controllers_that_are_killed_in_it() -> Result<()> {
    let cluster = Cluster::with(PlaneOptions::default(), fake::Nodes::new(4).cpu("10"), &[]).await?;
    cluster.define_jobs().await?;
    let slow = Phalanx::start_controllers(&cluster.plane, &SLOW).await?;
    let mut world = World { cluster, controllers: Some(slow) };
    let mut failing = task("worker", 10, Some("2"), "1,0");
    failing["template"]["metadata"]["annotations"][fake::RUN_SECONDS] = json!("2");
    let spec = json!({"policies": [{"event": "PodFailed", "action": "RestartJob"}], "tasks": [failing]});
    world.create("Job", "again", spec).await?;
    let retried = |status: &serde_json::Value| status["retryCount"] == 1;
    world.cluster.until_status("Job", "again", "a restart", retried).await?;
    drop(world.controllers.take());
    world.controllers = Some(Phalanx::start_controllers(&world.cluster.plane, &[]).await?);
    let status = world.until_job("again", "Completed").await?;
    assert_eq!((&status["retryCount"], &status["succeeded"]), (&json!(1), &json!(10)), "{status}");
    Ok(())
}

/// The lease would run out long after the test has failed.
#[tokio::test]
async fn controllers_that_are_stopped_let_others_go_on_at_once() -> Result<()> {
    let patient =
        ["--leader-elect=true", "--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m"];
    let cluster = Cluster::with(PlaneOptions::default(), fake::Nodes::new(1).cpu("4"), &[]).await?;
    cluster.define_jobs().await?;
    let leader = Phalanx::start_controllers(&cluster.plane, &patient).await?;
    wait::until(SOON, "a leader", async || {
        ensure!(leader.metric("phalanx_leader").await? > 0.5, "it waits");
        Ok(())
    })
    .await?;
    let follower = Phalanx::start_controllers(&cluster.plane, &patient).await?;
    let world = World { cluster, controllers: Some(follower) };
    world.create("Job", "before", json!({"tasks": [task("worker", 1, Some("0.2"), "0")]})).await?;
    world.until_job("before", "Completed").await?;
    let writes = world.requests("status").await? + world.requests("create-pod").await?;
    ensure!(writes < 0.5, "only the leader writes");
    let status = leader.stop().await?;
    ensure!(status.success(), "{status}");
    world.create("Job", "after", json!({"tasks": [task("worker", 1, Some("0.2"), "0")]})).await?;
    world.until_job("after", "Completed").await?;
    Ok(())
}
