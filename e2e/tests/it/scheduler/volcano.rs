//! Phalanx in place of Volcano's scheduler: command line, job controller and metrics.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use kube::api::DeleteParams;
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::json;

use super::cluster::{Cluster, PodSpec, SOON};
use super::pools::until_pools;

/// What Volcano's chart makes of its values as they come, up to the file.
const CHART: [&str; 9] = [
    "--enable-healthz=true",
    "--enable-metrics=true",
    "--leader-elect=false",
    "--kube-api-qps=2000",
    "--kube-api-burst=2000",
    "--schedule-period=1s",
    "--node-worker-threads=20",
    "-v=3",
    "2>&1",
];

#[tokio::test]
async fn linked_as_vc_scheduler_the_binary_runs_with_the_flags_of_volcanos_chart() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(2).cpu("4")).await?;
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/helm-default.yaml");
    let file = format!("--scheduler-conf={}", conf.display());
    let args = [&["--logtostderr", &*file], &CHART[..]].concat();
    cluster.scheduler = Some(Phalanx::start_as_vc_scheduler(&cluster.plane, &args).await?);
    cluster.gang("train", 4, &PodSpec::cpu(2)).await?;
    cluster.until_bound("train-", 4).await?;
    cluster.until_phase("train", "Running").await?;
    Ok(())
}

/// Stands in for Volcano's job controller: makes the PodGroup of a job, and its pods once the phase has left Pending.
async fn volcano_job(cluster: &Cluster, name: &str, count: u32) -> Result<()> {
    let needed = json!({"cpu": count.to_string()});
    cluster.pod_group(name, json!({"minMember": count, "minResources": needed})).await?;
    let admitted = |status: &serde_json::Value| status["phase"].as_str().is_some_and(|it| it != "Pending");
    cluster.until_status("PodGroup", name, "another phase than Pending", admitted).await?;
    cluster.members(name, count as usize, &PodSpec::cpu(1)).await
}

#[tokio::test]
async fn without_the_action_enqueue_a_job_with_later_pods_runs() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("4")).await?;
    let conf = cluster.file("scheduler.conf");
    let chart = include_str!("../../../../config/helm-default.yaml");
    fs::write(&conf, chart.replace("enqueue, ", ""))?;
    let flag = format!("--scheduler-conf={}", conf.display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    volcano_job(&cluster, "job", 3).await?;
    cluster.until_bound("job-", 3).await?;
    cluster.until_phase("job", "Running").await?;
    Ok(())
}

/// Waits until metrics have these values.
async fn until_metrics(cluster: &Cluster, wanted: &[(&str, f64)]) -> Result<()> {
    wait::until(SOON, &format!("metrics {wanted:?}"), async || {
        for (name, value) in wanted {
            let found = cluster.phalanx().metric(name).await?;
            ensure!((found - value).abs() < 0.5, "{name} {found}, expected {value}");
        }
        Ok(())
    })
    .await
}

/// Volcano declares `volcano_schedule_attempts_total` and never counts it.
#[tokio::test]
async fn metrics_with_volcanos_names_have_volcanos_meaning() -> Result<()> {
    const LATENCY: &str = "volcano_task_scheduling_latency_milliseconds";
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("1"), &[]).await?;
    cluster.gang("train", 2, &PodSpec::cpu(1)).await?;
    cluster.until_waits("train-0", "Insufficient cpu").await?;
    until_pools(&cluster, [0, 0, 1]).await?;
    let waits = std::time::Instant::now();
    cluster.stays_bound("train-", 0).await?;
    let waited = waits.elapsed().as_secs_f64();
    let waiting = [
        ("volcano_queue_allocated_milli_cpu{queue_name=\"default\"}", 0.0),
        ("volcano_queue_request_milli_cpu{queue_name=\"default\"}", 2000.0),
        ("phalanx_queue_waiting_jobs{queue_name=\"default\"}", 1.0),
        ("phalanx_queue_waiting_pods{queue_name=\"default\"}", 2.0),
        ("volcano_unschedule_job_count", 1.0),
    ];
    until_metrics(&cluster, &waiting).await?;
    let oldest =
        cluster.phalanx().metric("phalanx_queue_oldest_waiting_seconds{queue_name=\"default\"}").await?;
    ensure!(oldest >= waited, "{oldest} s, though train waits for {waited} s");
    fake::Nodes::new(1).cpu("1").starting_at(1).create(&cluster.client).await?;
    cluster.until_bound("train-", 2).await?;
    until_pools(&cluster, [0, 0, 0]).await?;

    let metric = async |name: &str| cluster.phalanx().metric(name).await;
    let bound = [
        (&*format!("{LATENCY}_count{{stage=\"Watched\"}}"), 2.0),
        (&*format!("{LATENCY}_count{{stage=\"Assumed\"}}"), 2.0),
        (&*format!("{LATENCY}_count{{stage=\"Bound\"}}"), 2.0),
        ("volcano_queue_allocated_milli_cpu{queue_name=\"default\"}", 2000.0),
        ("volcano_queue_deserved_milli_cpu{queue_name=\"default\"}", 2000.0),
        ("volcano_queue_share{queue_name=\"default\"}", 1.0),
        ("phalanx_queue_waiting_jobs{queue_name=\"default\"}", 0.0),
        ("phalanx_queue_jobs_started_total{queue_name=\"default\"}", 1.0),
        ("volcano_e2e_job_scheduling_latency_milliseconds_count", 1.0),
        ("volcano_unschedule_job_count", 0.0),
        ("phalanx_bind_oldest_timestamp_seconds", 0.0),
    ];
    until_metrics(&cluster, &bound).await?;
    let cycles = metric("phalanx_cycles_total").await?;
    let actions = metric("volcano_action_scheduling_latency_milliseconds_count{action=\"allocate\"}").await?;
    ensure!(cycles - actions < 1.5, "{actions} times allocate in {cycles} cycles");
    let latency = metric(&format!("{LATENCY}_sum{{stage=\"Bound\"}}")).await? / 1000.0;
    ensure!(latency >= 2.0 * waited, "{latency} s for two pods that waited for {waited} s each");
    let requests = metric("phalanx_bind_duration_seconds_sum").await?;
    ensure!(requests < latency, "{requests} s for the requests alone");
    let metrics = cluster.phalanx().metrics().await?;
    ensure!(!metrics.contains("volcano_schedule_attempts"), "{metrics}");
    let duration = metrics.lines().find(|line| line.starts_with("volcano_e2e_job_scheduling_duration{"));
    ensure!(
        duration.is_some_and(|line| line.contains("job_name=\"train\",queue=\"default\"")),
        "{duration:?}"
    );

    cluster.delete_pods("train-").await?;
    cluster.volcano("PodGroup").delete("train", &DeleteParams::default()).await?;
    wait::until(SOON, "the series of train to end", async || {
        let metrics = cluster.phalanx().metrics().await?;
        ensure!(!metrics.contains("job_name=\"train\""), "{metrics}");
        Ok(())
    })
    .await
}
