//! The states of queues.

use anyhow::Result;
use phalanx_e2e::fake;
use serde_json::json;

use super::{World, task};

#[tokio::test]
async fn a_queue_is_closed_once_its_last_job_has_ended() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    world.cluster.queue("batch", json!({"weight": 1})).await?;
    let state = async |state: &str| {
        world.cluster.until_status("Queue", "batch", state, |status| status["state"] == state).await
    };
    state("Open").await?;
    world.create("Job", "last", json!({"queue": "batch", "tasks": [task("worker", 1, None, "")]})).await?;
    world.until_pods("last", 1, "Running").await?;
    let counts = |status: &serde_json::Value| status["running"] == 1;
    world.cluster.until_status("Queue", "batch", "one running", counts).await?;
    world.command("CloseQueue", "Queue", "batch").await?;
    state("Closing").await?;
    world.command("CompleteJob", "Job", "last").await?;
    world.until_job("last", "Completed").await?;
    state("Closed").await?;
    world.command("OpenQueue", "Queue", "batch").await?;
    state("Open").await?;
    Ok(())
}

#[tokio::test]
async fn children_are_closed_and_opened_with_their_parent() -> Result<()> {
    let world = World::start(fake::Nodes::new(1)).await?;
    world.cluster.queue("parent", json!({"weight": 1})).await?;
    world.cluster.queue("child", json!({"weight": 1, "parent": "parent"})).await?;
    let state = async |queue: &str, state: &str| {
        world.cluster.until_status("Queue", queue, state, |status| status["state"] == state).await
    };
    state("child", "Open").await?;
    world.command("CloseQueue", "Queue", "parent").await?;
    state("child", "Closed").await?;
    world.command("OpenQueue", "Queue", "parent").await?;
    state("child", "Open").await?;
    Ok(())
}
