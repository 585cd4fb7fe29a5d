//! CronJobs and JobFlows.

use anyhow::{Result, ensure};
use kube::{ResourceExt as _, api::ListParams};
use phalanx_e2e::{fake, wait};
use serde_json::json;

use super::{SOON, World, task};

#[tokio::test]
async fn a_cron_job_starts_a_job_each_minute() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let job = json!({"spec": {"tasks": [task("worker", 1, Some("0.2"), "0")]}});
    let spec = json!({"schedule": "* * * * *", "timeZone": "Europe/Berlin", "jobTemplate": job});
    world.create("CronJob", "tick", spec).await?;
    let jobs = world.cluster.volcano("Job");
    let name = wait::until(SOON, "the first job", async || {
        let all = jobs.list(&ListParams::default()).await?.items;
        ensure!(all.len() == 1, "{} jobs", all.len());
        Ok(all[0].name_any())
    })
    .await?;
    ensure!(name.starts_with("tick-"), "{name}");
    world.until_job(&name, "Completed").await?;
    let succeeded = |status: &serde_json::Value| {
        !status["lastSuccessfulTime"].is_null() && !status["lastScheduleTime"].is_null()
    };
    world.cluster.until_status("CronJob", "tick", "a success", succeeded).await?;
    Ok(())
}

#[tokio::test]
async fn a_flow_makes_its_second_job_when_the_first_has_completed() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    for name in ["prepare", "train"] {
        let tasks = json!([task("worker", 1, Some("0.5"), "0")]);
        world.create("JobTemplate", name, json!({"tasks": tasks})).await?;
    }
    let flows = json!([{"name": "prepare"}, {"name": "train", "dependsOn": {"targets": ["prepare"]}}]);
    world.create("JobFlow", "flow", json!({"jobRetainPolicy": "retain", "flows": flows})).await?;
    let succeeded = |status: &serde_json::Value| status["state"]["phase"] == "Succeed";
    world.cluster.until_status("JobFlow", "flow", "success", succeeded).await?;
    let first = world.until_job("flow-prepare", "Completed").await?;
    let second = world.cluster.volcano("Job").get("flow-train").await?;
    let ended = first["state"]["lastTransitionTime"].as_str().unwrap_or_default().to_owned();
    let created = second.creation_timestamp().map(|time| time.0.to_string()).unwrap_or_default();
    ensure!(created >= ended, "made at {created}, while the first ended at {ended}");
    let names = |status: &serde_json::Value| status["jobDependsOnList"] == json!(["flow-train"]);
    world.cluster.until_status("JobTemplate", "train", "its job", names).await?;
    Ok(())
}
