//! The journal of a scheduler on a real API server, and what `phalanx replay` and `explain --journal` make of it.

use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, PostParams};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, phalanx};
use serde_json::json;

use super::api::{account, allow_all, ask};
use super::cluster::{Cluster, PodSpec};

async fn run(args: &[&str]) -> Result<Output> {
    let program = tokio::task::spawn_blocking(phalanx::binary).await??;
    Ok(tokio::process::Command::new(program).args(args).output().await?)
}

#[tokio::test]
async fn a_running_scheduler_is_captured_and_replayed() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(2).cpu("4")).await?;
    let journal = format!("--journal-path={}", cluster.file("journal").display());
    let flags = ["--api-address=127.0.0.1:0", &journal, "--journal-inputs"];
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &flags).await?);
    let (reader, stranger) = (account(&cluster, "reader").await?, account(&cluster, "stranger").await?);
    allow_all(&cluster, "reader", &["/debug/capture"]).await?;
    cluster.gang("a", 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound("a-", 4).await?;
    cluster.gang("b", 4, &PodSpec::cpu(2)).await?;
    cluster.until_waits("b-0", "Insufficient cpu").await?;

    let refused = ask(&cluster, &stranger, &["capture"]).await?;
    ensure!(refused.contains("may not get the path /debug/capture"), "{refused}");
    let told = ask(&cluster, &reader, &["explain", "podgroup", "a", "--journal"]).await?;
    ensure!(told.contains("4 pods bound to node-"), "{told}");
    let path = cluster.file("capture");
    std::fs::write(&path, ask(&cluster, &reader, &["capture"]).await?)?;
    let replayed = run(&["replay", path.to_str().context("a path")?]).await?;
    let (text, said) = (String::from_utf8(replayed.stdout)?, String::from_utf8(replayed.stderr)?);
    ensure!(replayed.status.success() && said.ends_with("all as recorded\n"), "{said}");
    ensure!(text.contains("default/a bound: ") && text.contains("default/b: "), "{text}");

    // The scheduler goes on, and so does its recording.
    fake::Nodes::new(2).starting_at(2).cpu("4").create(&cluster.client).await?;
    cluster.until_bound("b-", 4).await?;
    std::fs::write(&path, ask(&cluster, &reader, &["capture"]).await?)?;
    let replayed = run(&["replay", path.to_str().context("a path")?]).await?;
    ensure!(replayed.status.success(), "{replayed:?}");
    ensure!(String::from_utf8(replayed.stdout)?.contains("default/b bound: "), "the bind is a part of it");
    Ok(())
}

#[tokio::test]
async fn what_a_live_scheduler_decided_is_explained_and_replayed() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(2).cpu("4")).await?;
    let classes: Api<PriorityClass> = Api::all(cluster.client.clone());
    let high = serde_json::from_value(json!({"metadata": {"name": "high"}, "value": 1000}))?;
    classes.create(&PostParams::default(), &high).await?;
    let path = cluster.file("journal");
    let path = path.to_str().context("a path")?;
    let conf = concat!(env!("CARGO_MANIFEST_DIR"), "/../config/preempt-and-reclaim.yaml");
    let flags = [&format!("--journal-path={path}"), "--journal-inputs", &format!("--scheduler-conf={conf}")];
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &flags).await?);
    cluster.pod_group("low", json!({"minMember": 1})).await?;
    cluster.members("low", 8, &PodSpec::cpu(1)).await?;
    cluster.until_bound("low-", 8).await?;
    let spec = json!({"minMember": 2, "priorityClassName": "high"});
    cluster.pod_group("first", spec).await?;
    cluster.members("first", 2, &PodSpec { priority_class: Some("high"), ..PodSpec::cpu(1) }).await?;
    cluster.until_bound("first-", 2).await?;
    let scheduler = cluster.scheduler.take().context("a scheduler")?;
    ensure!(scheduler.stop().await?.success(), "the scheduler ends well");
    let replayed = run(&["replay", path]).await?;
    let said = String::from_utf8_lossy(&replayed.stderr);
    ensure!(replayed.status.success() && said.ends_with("all as recorded\n"), "{replayed:?}");
    let explained = run(&["explain", "podgroup", "first", "--journal", path]).await?;
    let text = String::from_utf8(explained.stdout)?;
    ensure!(text.contains("had pod default/low-"), "{text}");
    ensure!(text.contains("2 pods bound to "), "{text}");
    Ok(())
}
