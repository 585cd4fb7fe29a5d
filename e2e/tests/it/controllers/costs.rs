//! How many writes a job costs.

use anyhow::{Result, ensure};
use phalanx_e2e::fake;
use serde_json::json;

use super::{World, task};

#[tokio::test]
async fn a_job_of_ten_pods_costs_one_write_a_pod_and_few_for_itself() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("10")).await?;
    world.create("Job", "ten", json!({"tasks": [task("worker", 10, Some("3"), "0")]})).await?;
    world.until_job("ten", "Completed").await?;
    let mut writes = Vec::new();
    for kind in ["create-pod", "delete-pod", "create", "replace", "status", "delete", "event"] {
        writes.push((kind, world.requests(kind).await?));
    }
    eprintln!("writes of the controllers: {writes:?}");
    let pods: f64 = writes[..2].iter().map(|(_, count)| count).sum();
    let queues = 2.0;
    let others: f64 = writes[2..].iter().map(|(_, count)| count).sum::<f64>() - queues;
    ensure!((pods - 10.0).abs() < 0.5 && others <= 8.0, "{writes:?}");
    Ok(())
}
