//! Commands for Jobs.

use anyhow::{Result, ensure};
use kube::{ResourceExt as _, api::ListParams};
use phalanx_e2e::{fake, wait};
use serde_json::json;

use super::{SOON, World, task};

async fn until_commands_are_gone(world: &World) -> Result<()> {
    wait::until(SOON, "the commands to be deleted", async || {
        let left = world.cluster.volcano("Command").list(&ListParams::default()).await?.items;
        ensure!(left.is_empty(), "{:?}", left.iter().map(kube::ResourceExt::name_any).collect::<Vec<_>>());
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_job_is_aborted_and_resumed_by_commands() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("4")).await?;
    world.create("Job", "stops", json!({"tasks": [task("worker", 2, None, "")]})).await?;
    let before = world.until_pods("stops", 2, "Running").await?;
    world.until_job("stops", "Running").await?;
    world.command("AbortJob", "Job", "stops").await?;
    world.until_job("stops", "Aborted").await?;
    world.until_pods("stops", 0, "").await?;
    until_commands_are_gone(&world).await?;
    world.command("ResumeJob", "Job", "stops").await?;
    let after = world.until_pods("stops", 2, "Running").await?;
    world.until_job("stops", "Running").await?;
    until_commands_are_gone(&world).await?;
    ensure!(before.iter().zip(&after).all(|(a, b)| a.uid() != b.uid()), "the pods are the same");
    Ok(())
}
