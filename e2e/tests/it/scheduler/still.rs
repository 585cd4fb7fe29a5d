//! Nothing new: no cycle at all.

use std::pin::pin;

use anyhow::{Context as _, Result, ensure};
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use phalanx_e2e::fake;

use super::cluster::{Cluster, PodSpec};
use super::pools::until_pools;

/// The scheduler renews its lease about every second: a clock of its own process.
const LEASE: [&str; 3] =
    ["--leader-elect=true", "--leader-elect-resource-namespace=default", "--leader-elect-retry-period=1s"];
/// Longer than anybody is left alone who waits in backoff.
const RENEWALS: usize = 12;
/// How long the cycles may last that follow from our own writes, in renewals.
const SETTLES_WITHIN: usize = 60;

/// Each time the scheduler renews its lease.
fn renewals(cluster: &Cluster) -> impl Stream<Item = watcher::Result<()>> + use<> {
    let leases: Api<Lease> = Api::default_namespaced(cluster.client.clone());
    watcher(leases, watcher::Config::default()).default_backoff().applied_objects().map_ok(drop)
}

/// Waits until one renewal follows another without a cycle between; then there is none for many of them.
async fn no_cycles(cluster: &Cluster) -> Result<()> {
    let cycles = async || cluster.phalanx().metric("phalanx_cycles_total").await;
    let mut renewals = pin!(renewals(cluster));
    let mut renewal = async || renewals.try_next().await?.context("no more renewals");
    // Of the list, then of the next renewal.
    renewal().await?;
    renewal().await?;
    let mut still = cycles().await?;
    for settling in 0.. {
        renewal().await?;
        let now = cycles().await?;
        if now == still {
            break;
        }
        ensure!(settling < SETTLES_WITHIN, "cycles go on: {now}");
        still = now;
    }
    for passed in 1..=RENEWALS {
        renewal().await?;
        let now = cycles().await?;
        ensure!(now == still, "{} cycles more after {passed} renewals", now - still);
    }
    Ok(())
}

#[tokio::test]
async fn no_cycle_runs_while_nothing_changes_with_pods_that_run_and_with_a_gang_that_waits() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("4"), &LEASE).await?;
    cluster.gang("runs", 4, &PodSpec::cpu(1)).await?;
    cluster.create::<Pod>(PodSpec::cpu(1).single("alone")).await?;
    cluster.until_status("PodGroup", "runs", "4 running", |status| status["running"] == 4).await?;
    cluster.until_bound("alone", 1).await?;
    no_cycles(&cluster).await?;

    cluster.gang("waits", 9, &PodSpec::cpu(1)).await?;
    cluster.create::<Pod>(PodSpec::cpu(9).single("big")).await?;
    cluster.until_event("Unschedulable", "waits").await?;
    cluster.until_event("FailedScheduling", "big").await?;
    until_pools(&cluster, [0, 0, 2]).await?;
    no_cycles(&cluster).await?;

    // It has not died, and knows what they wait for.
    fake::Nodes::new(2).cpu("12").starting_at(2).create(&cluster.client).await?;
    cluster.until_bound("waits-", 9).await?;
    cluster.until_bound("big", 1).await
}
