//! Two schedulers and one lease.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use phalanx_e2e::{Account, Phalanx, deploy::NAMESPACE, fake, wait};
use serde_json::json;

use super::{
    cluster::{Cluster, PodSpec, SOON},
    proxy::{Fate, Proxy},
};

const DURATION: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(2);
const LEASE: [&str; 4] = [
    "--leader-elect=true",
    "--leader-elect-lease-duration=5s",
    "--leader-elect-renew-deadline=3s",
    "--leader-elect-retry-period=2s",
];

async fn until_leads(scheduler: &Phalanx) -> Result<()> {
    wait::until(SOON, "a leader", async || {
        ensure!(scheduler.metric("phalanx_leader").await? > 0.5, "it waits");
        Ok(())
    })
    .await
}

/// Waits until the process ends by itself.
async fn until_ended(scheduler: &mut Phalanx) -> Result<()> {
    let scheduler = std::cell::RefCell::new(scheduler);
    wait::until(SOON, "the scheduler to end", || {
        let runs = scheduler.borrow_mut().runs();
        async move {
            ensure!(!runs, "it runs");
            Ok(())
        }
    })
    .await
}

#[tokio::test]
async fn a_leader_that_is_killed_is_succeeded_when_its_lease_runs_out() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(2).cpu("8"), &LEASE).await?;
    until_leads(cluster.phalanx()).await?;
    let follower = Phalanx::start(&cluster.plane, &LEASE).await?;
    cluster.gang("before", 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound("before-", 4).await?;
    let killed = Instant::now();
    cluster.scheduler = Some(follower);
    until_leads(cluster.phalanx()).await?;
    let took = killed.elapsed();
    eprintln!("taken over {took:?} after the leader was killed");
    ensure!(took <= DURATION + RETRY, "taken over after {took:?}");
    cluster.gang("after", 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound("after-", 4).await?;
    cluster.until_sound().await
}

/// Neither the lease nor the next try would come before the test has failed.
#[tokio::test]
async fn a_lease_that_is_released_is_taken_at_once() -> Result<()> {
    let patient = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=3h",
        "--leader-elect-renew-deadline=2h",
        "--leader-elect-retry-period=1h",
    ];
    let mut cluster = Cluster::start(fake::Nodes::new(1), &patient).await?;
    until_leads(cluster.phalanx()).await?;
    let follower = Phalanx::start(&cluster.plane, &patient).await?;
    let said = || async {
        ensure!(follower.log_text().contains("waiting for the lease"), "not yet");
        Ok(())
    };
    wait::until(SOON, "the follower to wait", said).await?;
    let leader = cluster.scheduler.take().context("a leader")?;
    let started = Instant::now();
    ensure!(leader.stop().await?.success());
    let ended = started.elapsed();
    until_leads(&follower).await?;
    eprintln!(
        "taken over {:?} after the signal to the leader, which ended after {ended:?}",
        started.elapsed()
    );
    Ok(())
}

#[tokio::test]
async fn a_leader_that_was_stopped_past_its_lease_writes_nothing_when_it_goes_on() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(3).cpu("8"), &[]).await?;
    drop(cluster.scheduler.take());
    let proxy = Proxy::start(cluster.plane.client_of(Account::Scheduler).await?, |_| Fate::Passes).await?;
    let flag = proxy.flag();
    let slow = [&LEASE[..], &[&*flag, "--kube-api-qps=4", "--kube-api-burst=1"]].concat();
    let mut leader = Phalanx::start(&cluster.plane, &slow).await?;
    until_leads(&leader).await?;
    let follower = Phalanx::start(&cluster.plane, &LEASE).await?;
    cluster.gang("g", 12, &PodSpec::cpu(1)).await?;
    wait::until(SOON, "some pods bound", async || {
        let bound = cluster.bound_of("g-").await?;
        ensure!(bound >= 3, "{bound} are bound");
        Ok(())
    })
    .await?;
    leader.pause()?;
    ensure!(cluster.bound_of("g-").await? < 12, "all are bound already");
    until_leads(&follower).await?;
    cluster.until_bound("g-", 12).await?;
    // A bind that was held up would put a pod where another one is by now.
    let before = proxy.writes().len();
    leader.resume()?;
    until_ended(&mut leader).await?;
    let after = &proxy.writes()[before..];
    ensure!(after.is_empty(), "{after:?}");
    ensure!(leader.log_text().contains("lost the lease"), "{}", leader.log_text());
    cluster.scheduler = Some(follower);
    cluster.until_sound().await
}

#[tokio::test]
async fn a_leader_whose_lease_is_taken_ends_and_comes_back_after_it() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(2).cpu("8"), &[]).await?;
    drop(cluster.scheduler.take());
    let proxy = Proxy::start(cluster.plane.client_of(Account::Scheduler).await?, |_| Fate::Passes).await?;
    let flag = proxy.flag();
    let flags = [&LEASE[..], &[&*flag]].concat();
    let mut leader = Phalanx::start(&cluster.plane, &flags).await?;
    until_leads(&leader).await?;
    let queue = cluster.volcano("Queue");
    wait::until(SOON, "the leader's queues", async || {
        ensure!(queue.get("default").await?.data["status"]["state"] == "Open", "not open");
        Ok(())
    })
    .await?;
    let before = proxy.writes().len();
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let thief = Patch::Merge(json!({"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 5}}));
    leases.patch("volcano", &PatchParams::default(), &thief).await?;
    let taken = Instant::now();
    until_ended(&mut leader).await?;
    ensure!(leader.log_text().contains("lost the lease"), "{}", leader.log_text());
    let after = &proxy.writes()[before..];
    ensure!(after.iter().all(|(_, path)| path.contains("/leases/")), "{after:?}");
    cluster.gang("g", 4, &PodSpec::cpu(1)).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &LEASE).await?);
    cluster.until_bound("g-", 4).await?;
    ensure!(taken.elapsed() >= DURATION, "the thief's time was not over after {:?}", taken.elapsed());
    cluster.until_sound().await
}
