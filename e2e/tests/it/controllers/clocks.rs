//! CronJobs and JobFlows.

use anyhow::{Result, ensure};
use k8s_openapi::jiff::Timestamp;
use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use phalanx_e2e::{fake, wait};
use serde_json::{Value, json};

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

/// A CronJob whose time came half an hour ago. Jobs are named after their minutes.
struct Cron<'a> {
    world: &'a World,
    name: &'static str,
    minute: i64,
}

impl<'a> Cron<'a> {
    /// It is suspended.
    async fn create(world: &'a World, name: &'static str, mut spec: Value) -> Result<Self> {
        let minute = Timestamp::now().as_second().div_euclid(60) - 30;
        spec["schedule"] = json!(format!("{} {} * * *", minute % 60, minute / 60 % 24));
        spec["suspend"] = json!(true);
        spec["jobTemplate"] = json!({"spec": {"tasks": [task("worker", 1, None, "")]}});
        world.create("CronJob", name, spec).await?;
        Ok(Self { world, name, minute })
    }

    fn job(&self, minutes_before: i64) -> String {
        format!("{}-{}", self.name, self.minute - minutes_before)
    }

    /// A Job as if it were made at an earlier time.
    async fn earlier(&self, minutes_before: i64, task: Value) -> Result<()> {
        let uid = self.world.cluster.volcano("CronJob").get(self.name).await?.uid();
        let owner = json!({
            "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "name": self.name, "uid": uid,
            "controller": true,
        });
        let metadata = json!({"name": self.job(minutes_before), "ownerReferences": [owner]});
        self.world.create_whole("Job", json!({"metadata": metadata, "spec": {"tasks": [task]}})).await?;
        Ok(())
    }

    async fn jobs(&self) -> Result<Vec<String>> {
        let jobs = self.world.cluster.volcano("Job").list(&ListParams::default()).await?.items;
        let begin = format!("{}-", self.name);
        Ok(jobs.iter().map(kube::ResourceExt::name_any).filter(|name| name.starts_with(&begin)).collect())
    }

    /// Waits until it has just the Jobs of these times, oldest first.
    async fn until_jobs(&self, minutes_before: &[i64]) -> Result<()> {
        let expected: Vec<String> = minutes_before.iter().map(|minutes| self.job(*minutes)).collect();
        wait::until(SOON, &format!("{} to have the jobs {expected:?}", self.name), async || {
            let jobs = self.jobs().await?;
            ensure!(jobs == expected, "{jobs:?}");
            Ok(())
        })
        .await
    }

    async fn resume(&self) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"suspend": false}}));
        self.world.cluster.volcano("CronJob").patch(self.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// The last Job of each still runs when the time comes.
async fn concurrency_policies_are_honoured(world: &World) -> Result<()> {
    let mut crons = Vec::new();
    for (name, policy) in [("forbid", "Forbid"), ("allow", "Allow"), ("replace", "Replace")] {
        let cron = Cron::create(world, name, json!({"concurrencyPolicy": policy})).await?;
        cron.earlier(10, task("worker", 1, None, "")).await?;
        world.until_job(&cron.job(10), "Running").await?;
        let active = |status: &Value| {
            status["active"][0]["name"] == cron.job(10) && !status["lastScheduleTime"].is_null()
        };
        world.cluster.until_status("CronJob", name, "a job that runs", active).await?;
        crons.push(cron);
    }
    for cron in &crons {
        assert_eq!(cron.jobs().await?, [cron.job(10)], "it is suspended");
    }
    let [forbid, allow, replace] = &crons[..] else { unreachable!("there are three") };
    forbid.resume().await?;
    allow.resume().await?;
    allow.until_jobs(&[10, 0]).await?;
    replace.resume().await?;
    replace.until_jobs(&[0]).await?;
    assert_eq!(forbid.jobs().await?, [forbid.job(10)], "another job runs");
    world.command("CompleteJob", "Job", &forbid.job(10)).await?;
    forbid.until_jobs(&[10, 0]).await
}

async fn old_jobs_are_deleted(world: &World) -> Result<()> {
    let limits = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
    let cron = Cron::create(world, "history", limits).await?;
    for (minutes_before, code) in [(12, "1"), (11, "0"), (10, "0")] {
        cron.earlier(minutes_before, task("worker", 1, Some("0.2"), code)).await?;
    }
    cron.until_jobs(&[10]).await?;
    world.until_job(&cron.job(10), "Completed").await?;
    Ok(())
}

/// The second Job starts while the first one runs, and with more pods than its template has.
async fn a_flow_honours_probe_patch_and_retain_policy(world: &World) -> Result<()> {
    for (name, seconds) in [("serve", None), ("fit", Some("0.5"))] {
        world.create("JobTemplate", name, json!({"tasks": [task("worker", 1, seconds, "0")]})).await?;
    }
    let probe = json!({"taskStatusList": [{"taskName": "worker", "phase": "Running"}]});
    let fit = json!({
        "name": "fit", "dependsOn": {"targets": ["serve"], "probe": probe},
        "patch": {"jobSpec": {"tasks": [{"name": "worker", "replicas": 2}]}},
    });
    let spec = json!({"jobRetainPolicy": "delete", "flows": [{"name": "serve"}, fit]});
    world.create("JobFlow", "probed", spec).await?;
    let status = world.until_job("probed-fit", "Completed").await?;
    assert_eq!(status["succeeded"], 2, "{status}");
    world.until_job("probed-serve", "Running").await?;
    world.command("CompleteJob", "Job", "probed-serve").await?;
    let succeeded = |status: &Value| status["state"]["phase"] == "Succeed";
    world.cluster.until_status("JobFlow", "probed", "success", succeeded).await?;
    wait::until(SOON, "no jobs of the flow", async || {
        let jobs = world.cluster.volcano("Job").list(&ListParams::default()).await?.items;
        let left = jobs.iter().filter(|job| job.name_any().starts_with("probed-")).count();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn cron_jobs_and_flows_honour_their_fields() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("16")).await?;
    tokio::try_join!(
        concurrency_policies_are_honoured(&world),
        old_jobs_are_deleted(&world),
        a_flow_honours_probe_patch_and_retain_policy(&world),
    )?;
    Ok(())
}
