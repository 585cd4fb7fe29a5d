//! Jobs that cannot work do not hold up others.

use anyhow::Result;
use phalanx_e2e::fake;
use serde_json::json;

use super::{World, task};

/// The API server takes it: nothing checks what the template of a pod holds before a pod is made.
#[tokio::test]
async fn a_job_whose_pods_are_refused_does_not_hold_up_another() -> Result<()> {
    // Room for both: a job that was admitted keeps its share until it is terminated.
    let world = World::start(fake::Nodes::new(1).cpu("16")).await?;
    let mut bad = task("worker", 3, None, "");
    bad["template"]["spec"]["containers"][0]["name"] = json!("Not A Name");
    world.create("Job", "bad", json!({"tasks": [bad]})).await?;
    world.cluster.until_event("FailedCreate", "bad").await?;
    world.create("Job", "good", json!({"tasks": [task("worker", 2, Some("0.5"), "0")]})).await?;
    world.until_job("good", "Completed").await?;
    Ok(())
}

#[tokio::test]
async fn a_job_that_waits_for_a_claim_goes_on_once_it_is_there() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let volumes = json!([{"mountPath": "/data", "volumeClaimName": "data"}]);
    let job = json!({"volumes": volumes, "tasks": [task("worker", 1, None, "")]});
    world.create("Job", "stores", job).await?;
    world.cluster.until_event("PVCError", "stores").await?;
    world.cluster.claim("data", "1Gi").await?;
    // It stays without a node: nobody makes the volume.
    world.until_pods("stores", 1, "Pending").await?;
    Ok(())
}
