//! Servers, connections and processes that fail while gangs are bound.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use http::Method;
use phalanx_e2e::{Account, Link, Phalanx, fake, wait};
use serde_json::json;
use tokio::sync::watch;

use super::{
    cluster::{Cluster, PodSpec, SOON},
    proxy::{Fate, Proxy, Write},
};

/// How long servers are away and links are held, in seconds: more than 45 covers requests that time out, and binds
/// whose outcome is not known when they are given up.
const OUTAGE: &str = "PHALANX_E2E_OUTAGE_SECONDS";
/// Binding takes long enough to be in the middle of it.
const SLOW: [&str; 2] = ["--kube-api-qps=20", "--kube-api-burst=1"];

fn outage() -> Result<Duration> {
    let seconds = std::env::var(OUTAGE).ok();
    Ok(Duration::from_secs(seconds.map_or(Ok(3), |text| text.parse()).context(OUTAGE)?))
}

fn is_bind((method, path): &Write) -> bool {
    *method == Method::POST && path.ends_with("/binding")
}

fn is_group_status((method, path): &Write) -> bool {
    *method == Method::PATCH && path.contains("/podgroups/")
}

/// Where a scheduler is killed: which write it is, counted from 0, and what became of that one. None follows.
pub(super) struct Step {
    pub(super) at: &'static str,
    pub(super) write: fn(&Write) -> bool,
    pub(super) number: usize,
    pub(super) fate: Fate,
}

const GANG: usize = 4;

const STEPS: [Step; 6] = [
    Step { at: "before-admission", write: is_group_status, number: 0, fate: Fate::IsLost },
    Step { at: "before-the-first-bind", write: is_bind, number: 0, fate: Fate::IsLost },
    Step { at: "behind-the-first-bind", write: is_bind, number: 0, fate: Fate::IsCarriedOut },
    Step { at: "between-binds", write: is_bind, number: 2, fate: Fate::IsLost },
    Step { at: "behind-the-last-bind", write: is_bind, number: GANG - 1, fate: Fate::IsCarriedOut },
    Step { at: "before-the-status", write: is_group_status, number: 1, fate: Fate::IsLost },
];

#[tokio::test]
async fn a_gang_is_bound_whole_wherever_the_scheduler_was_killed() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(3).cpu("8"), &[]).await?;
    for step in STEPS {
        drop(cluster.scheduler.take());
        // Where all is seen at once, its first status may be its last: so its admission is on the API server before.
        let gang = async || {
            cluster.pod_group(step.at, json!({"minMember": GANG})).await?;
            if step.number > 0 {
                cluster.until_phase(step.at, "Inqueue").await?;
            }
            cluster.members(step.at, GANG, &PodSpec::cpu(1)).await
        };
        killed_at(&cluster, &step, &[], gang).await.context(step.at)?;
        cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
        cluster.until_bound(&format!("{}-", step.at), GANG).await?;
        cluster.until_phase(step.at, "Running").await?;
        cluster.until_sound().await.context(step.at)?;
    }
    Ok(())
}

/// Has a scheduler with these flags schedule what is submitted, and kills it at one step of that.
pub(super) async fn killed_at(
    cluster: &Cluster,
    step: &Step,
    flags: &[&str],
    submit: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let (reach, mut reached) = watch::channel(false);
    let count = AtomicUsize::new(0);
    let (write, number, fate) = (step.write, step.number, step.fate);
    let proxy = Proxy::start(cluster.plane.client_of(Account::Scheduler).await?, move |seen| {
        if *reach.borrow() {
            return Fate::IsLost;
        }
        if !write(seen) || count.fetch_add(1, Ordering::Relaxed) < number {
            return Fate::Passes;
        }
        reach.send_replace(true);
        fate
    })
    .await?;
    // One request after the other: what comes before the step has been carried out.
    let proxied = proxy.flag();
    let own = [&*proxied, "--binds-in-flight=1", "--scheduled-events=false"];
    let scheduler = Phalanx::start(&cluster.plane, &[&own, flags].concat()).await?;
    submit().await?;
    tokio::time::timeout(SOON, reached.wait_for(|reached| *reached))
        .await
        .context("the step is reached")??;
    if step.fate == Fate::IsCarriedOut {
        proxy.until_carried_out().await?;
    }
    drop(scheduler);
    Ok(())
}

/// Waits until some pods are bound, and makes sure that not all are.
async fn until_in_the_middle(cluster: &Cluster, count: usize) -> Result<()> {
    wait::until(SOON, "some pods bound", async || {
        let bound = cluster.bound_of("").await?;
        ensure!(bound >= 3, "{bound} are bound");
        Ok(())
    })
    .await?;
    let bound = cluster.bound_of("").await?;
    ensure!(bound < count, "all are bound already");
    Ok(())
}

#[tokio::test]
async fn an_outage_of_api_server_and_etcd_loses_nothing() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(5).cpu("10"), &SLOW).await?;
    for gang in ["a", "b"] {
        cluster.gang(gang, 20, &PodSpec::cpu(1)).await?;
    }
    // There is no room for the third beside these two.
    cluster.gang("c", 20, &PodSpec::cpu(1)).await?;
    until_in_the_middle(&cluster, 40).await?;
    cluster.plane.pause_etcd();
    tokio::time::sleep(outage()?).await;
    cluster.plane.resume_etcd();
    cluster.plane.stop_apiserver().await?;
    tokio::time::sleep(outage()?).await;
    cluster.plane.start_apiserver().await?;
    cluster.until_bound("", 40).await?;
    cluster.until_sound().await?;
    // The watches are back: room that becomes free is found.
    let bound = cluster.bound().await?;
    let first = if bound.contains_key("a-0") { "a-" } else { "b-" };
    cluster.delete_pods(first).await?;
    cluster.until_bound("c-", 20).await
}

#[tokio::test]
async fn connections_that_are_cut_or_held_up_lose_nothing() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(5).cpu("10"), &[]).await?;
    drop(cluster.scheduler.take());
    let link = Link::to(&cluster.plane.url()).await?;
    let flag = link.flag();
    let flags = [&[&*flag][..], &SLOW].concat();
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &flags).await?);
    for gang in ["a", "b", "c"] {
        cluster.gang(gang, 20, &PodSpec::cpu(1)).await?;
    }
    until_in_the_middle(&cluster, 40).await?;
    link.cut();
    until_more_than(&cluster, 5).await?;
    link.hold();
    tokio::time::sleep(outage()?).await;
    link.let_go();
    until_more_than(&cluster, 12).await?;
    // What is on its way is lost with the connection, on either side of being carried out.
    link.hold();
    tokio::time::sleep(Duration::from_millis(500)).await;
    link.cut();
    link.let_go();
    cluster.until_bound("", 40).await?;
    cluster.until_sound().await
}

async fn until_more_than(cluster: &Cluster, count: usize) -> Result<()> {
    wait::until(SOON, &format!("more than {count} pods bound"), async || {
        let bound = cluster.bound_of("").await?;
        ensure!(bound > count, "{bound} are bound");
        Ok(())
    })
    .await
}

/// Of the first writes hardly one goes as it should; and some that fail have been carried out.
#[tokio::test]
async fn storms_of_refusals_and_conflicts_lose_nothing() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(5).cpu("10"), &[]).await?;
    drop(cluster.scheduler.take());
    let count = AtomicUsize::new(0);
    let proxy = Proxy::start(cluster.plane.client_of(Account::Scheduler).await?, move |_| {
        let storm = [
            Fate::IsAnswered(429),
            Fate::IsAnswered(409),
            Fate::Passes,
            Fate::IsCarriedOutAndAnswered(409),
            Fate::IsAnswered(429),
            Fate::IsCarriedOutAndAnswered(504),
            Fate::IsAnswered(503),
        ];
        let number = count.fetch_add(1, Ordering::Relaxed);
        if number < 200 { storm[number % storm.len()] } else { Fate::Passes }
    })
    .await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&proxy.flag()]).await?);
    for gang in ["a", "b", "c"] {
        cluster.gang(gang, 20, &PodSpec::cpu(1)).await?;
    }
    cluster.until_bound("", 40).await?;
    cluster.until_sound().await?;
    ensure!(proxy.writes().len() > 60, "there was no storm");
    Ok(())
}
