//! How many writes a job costs.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use phalanx_e2e::fake;
use serde_json::json;

use super::{Cluster, World, task};

/// Writes that the API server has carried out, by resource and subresource.
async fn writes(cluster: &Cluster) -> Result<BTreeMap<String, f64>> {
    let metrics = cluster.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
    let mut writes = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let rest = line.split_once(&format!("{name}=\"")).map_or("", |(_, rest)| rest);
            rest.split_once('"').map_or("", |(value, _)| value)
        };
        if matches!(label("verb"), "POST" | "PUT" | "PATCH" | "DELETE" | "APPLY") {
            let count: f64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
            let resource = format!("{}/{}", label("resource"), label("subresource"));
            *writes.entry(resource).or_default() += count;
        }
    }
    Ok(writes)
}

/// Of all who write: controllers, scheduler, and kubelets that report twice.
#[tokio::test]
async fn a_pod_costs_six_writes_at_most_and_a_job_eight() -> Result<()> {
    const JOBS: u32 = 10;
    const PODS: f64 = 10.0 * JOBS as f64;
    let world = World::start(fake::Nodes::new(4).cpu("32")).await?;
    let open = |status: &serde_json::Value| status["state"] == "Open";
    world.cluster.until_status("Queue", "default", "open", open).await?;
    let before = writes(&world.cluster).await?;
    for job in 0..JOBS {
        world
            .create("Job", &format!("ten-{job}"), json!({"tasks": [task("worker", 10, Some("3"), "0")]}))
            .await?;
    }
    for job in 0..JOBS {
        world.until_job(&format!("ten-{job}"), "Completed").await?;
    }
    let mut spent = writes(&world.cluster).await?;
    for (resource, count) in &mut spent {
        *count -= before.get(resource).copied().unwrap_or(0.0);
    }
    spent.retain(|resource, count| *count > 0.5 && !resource.starts_with("leases") && resource != "jobs/");
    eprintln!("writes for {JOBS} jobs of 10 pods: {spent:?}");
    let of_pods = |resource: &str| resource.starts_with("pods/") || resource == "events/";
    let sum = |pods: bool| -> f64 {
        spent.iter().filter(|(resource, _)| of_pods(resource) == pods).map(|(_, count)| count).sum()
    };
    let (pod, job) = (sum(true) / PODS, sum(false) / f64::from(JOBS));
    eprintln!("{pod} writes a pod, {job} a job");
    // Of the writes for a job, the controllers send five: three statuses, a PodGroup and its deletion. The scheduler
    // writes the status of the PodGroup twice, Inqueue and Running, and its counts once more where pods take long to
    // start. The queue's status is written a few times for all of them.
    ensure!(pod <= 6.0 && job <= 8.0, "{pod} writes a pod, {job} a job: {spent:?}");
    Ok(())
}
