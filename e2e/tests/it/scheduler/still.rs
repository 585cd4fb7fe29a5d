//! No cycle runs while no object changes.

use std::pin::pin;

use anyhow::{Context as _, Result, ensure};
use futures::{Stream, TryStreamExt as _};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use phalanx_e2e::{deploy::NAMESPACE, fake, wait};

use super::cluster::{Cluster, PodSpec, SOON};
use super::pools::until_pools;

/// The scheduler renews its lease about every second: a clock of its own process.
const LEASE: [&str; 2] = ["--leader-elect=true", "--leader-elect-retry-period=1s"];
/// Longer than any back-off.
const RENEWALS: usize = 12;
/// So many without a cycle, and with nothing left to write, show that all of our own writes were seen.
const SETTLED: usize = 3;
/// How long that may take.
const SETTLES_WITHIN: usize = 120;

/// Each time the scheduler renews its lease.
fn renewals(cluster: &Cluster) -> impl Stream<Item = watcher::Result<()>> + use<> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    watcher(leases, watcher::Config::default()).default_backoff().applied_objects().map_ok(drop)
}

/// How many requests wait or are on their way.
async fn unsent(cluster: &Cluster) -> Result<f64> {
    let mut depth = 0.0;
    for kind in ["binds", "statuses", "events"] {
        depth += cluster.phalanx().metric(&format!("phalanx_outbox_depth{{kind=\"{kind}\"}}")).await?;
    }
    Ok(depth)
}

async fn until_all_run(cluster: &Cluster) -> Result<()> {
    wait::until(SOON, "all bound pods to run", async || {
        let pods = cluster.pods().await?;
        let bound = pods.iter().filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()));
        let phases: Vec<_> = bound.map(|pod| pod.status.as_ref()?.phase.as_deref()).collect();
        ensure!(phases.iter().all(|phase| *phase == Some("Running")), "{phases:?}");
        Ok(())
    })
    .await
}

/// Waits until nothing is left to do; then there is no cycle for many renewals.
async fn no_cycles(cluster: &Cluster) -> Result<()> {
    until_all_run(cluster).await?;
    let cycles = async || cluster.phalanx().metric("phalanx_cycles_total").await;
    let mut renewals = pin!(renewals(cluster));
    let mut renewal = async || renewals.try_next().await?.context("no more renewals");
    let (mut still, mut quiet) = (cycles().await?, 0);
    for _ in 0..SETTLES_WITHIN {
        renewal().await?;
        let (before, left) = (still, unsent(cluster).await?);
        still = cycles().await?;
        quiet = if still > before || left > 0.0 { 0 } else { quiet + 1 };
        if quiet > SETTLED {
            break;
        }
    }
    ensure!(quiet > SETTLED, "cycles go on: {still}");
    for passed in 1..=RENEWALS {
        renewal().await?;
        let now = cycles().await?;
        ensure!(now <= still, "{} cycles more after {passed} renewals", now - still);
    }
    Ok(())
}

#[tokio::test]
async fn no_cycle_runs_while_no_object_changes() -> Result<()> {
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

    // The scheduler still runs, and its metrics count the waiting jobs. Wherever the gang goes, a node has room for the
    // other pod.
    fake::Nodes::new(2).cpu("18").starting_at(2).create(&cluster.client).await?;
    cluster.until_bound("waits-", 9).await?;
    cluster.until_bound("big", 1).await
}
