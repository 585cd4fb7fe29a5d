//! The pools of waiting jobs in the metrics.

use std::fs;

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};

use super::cluster::{Cluster, PodSpec, SOON};
use super::restarts::{hold, until_nominated};

/// How many jobs wait: active, backoff, unschedulable.
pub(super) async fn until_pools(cluster: &Cluster, wanted: [u32; 3]) -> Result<()> {
    wait::until(SOON, &format!("jobs that wait: {wanted:?}"), async || {
        let mut found = Vec::new();
        for pool in ["active", "backoff", "unschedulable"] {
            let metric = format!("phalanx_pending_jobs{{pool=\"{pool}\"}}");
            found.push(cluster.phalanx().metric(&metric).await?);
        }
        ensure!(found == wanted.map(f64::from), "{found:?}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_nominated_gang_is_active_and_a_gang_without_room_unschedulable() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[]).await?;
    cluster.gang("old", 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound("old-", 4).await?;
    until_pools(&cluster, [0, 0, 0]).await?;

    cluster.gang("large", 9, &PodSpec::cpu(1)).await?;
    cluster.create::<Pod>(PodSpec::cpu(9).single("larger")).await?;
    cluster.until_waits("large-0", "Insufficient cpu").await?;
    cluster.until_waits("larger", "Insufficient cpu").await?;
    until_pools(&cluster, [0, 0, 2]).await?;

    hold(&cluster, "old-", true).await?;
    cluster.delete_pods("old-").await?;
    cluster.gang("promised", 3, &PodSpec::cpu(1)).await?;
    until_nominated(&cluster, "promised-", 3).await?;
    until_pools(&cluster, [1, 0, 2]).await?;

    hold(&cluster, "old-", false).await?;
    cluster.until_bound("promised-", 3).await?;
    until_pools(&cluster, [0, 0, 2]).await?;

    fake::Nodes::new(2).cpu("4").starting_at(1).create(&cluster.client).await?;
    cluster.until_bound("large-", 9).await?;
    until_pools(&cluster, [0, 0, 1]).await?;
    cluster.delete_pods("larger").await?;
    until_pools(&cluster, [0, 0, 0]).await
}

/// Pods that any event may help: of many such pods, those beyond the limit of a cycle wait in the pool backoff.
#[tokio::test]
async fn jobs_that_any_event_may_help_are_in_backoff() -> Result<()> {
    const FIRST: u32 = 500;
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("1")).await?;
    let path = cluster.file("scheduler.conf");
    let plugins =
        ["priority", "gang", "predicates", "usage"].map(|name| format!("  - name: {name}\n")).concat();
    fs::write(&path, format!("actions: \"enqueue, allocate, backfill\"\ntiers:\n- plugins:\n{plugins}"))?;
    let pods = (0..FIRST + 20).map(|index| PodSpec::cpu(2).single(&format!("p{index}")));
    stream::iter(pods)
        .map(|pod| cluster.create::<Pod>(pod))
        .buffer_unordered(32)
        .try_collect::<Vec<_>>()
        .await?;
    let flag = format!("--scheduler-conf={}", path.display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    until_pools(&cluster, [0, 20, FIRST]).await?;

    // All of them are tried in the end.
    fake::Nodes::new(1).cpu("2000").pods(1000).starting_at(1).create(&cluster.client).await?;
    cluster.until_bound("p", FIRST as usize + 20).await?;
    until_pools(&cluster, [0, 0, 0]).await
}
