//! Pods of Deployments, and pods of other schedulers.

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use phalanx_e2e::{PlaneOptions, fake, wait};
use serde_json::json;

use super::cluster::{Cluster, PodSpec, SOON};

#[tokio::test]
async fn a_deployment_with_the_scheduler_name_runs() -> Result<()> {
    let options = PlaneOptions { controllers: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(2).cpu("2"), &[]).await?;
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": PodSpec::cpu(1).single("unused")["spec"],
            },
        },
    });
    cluster.create::<Deployment>(deployment).await?;
    cluster.until_bound("web-", 3).await?;
    let deployments: kube::Api<Deployment> = kube::Api::default_namespaced(cluster.client.clone());
    wait::until(SOON, "3 ready replicas", async || {
        let status = deployments.get("web").await?.status.unwrap_or_default();
        ensure!(status.ready_replicas == Some(3), "{status:?}");
        Ok(())
    })
    .await?;
    cluster.delete_pods("web-").await?;
    cluster.until_bound("web-", 3).await
}

#[tokio::test]
async fn pods_of_other_schedulers_use_their_node_and_are_not_touched() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[]).await?;
    let other = PodSpec { scheduler: "default-scheduler", ..PodSpec::cpu(3) };
    cluster.create::<Pod>(other.single("other")).await?;
    cluster.stays_bound("other", 0).await?;
    let _kube_scheduler = cluster.plane.kube_scheduler().await?;
    cluster.until_bound("other", 1).await?;
    cluster.create::<Pod>(PodSpec::cpu(2).single("ours")).await?;
    let why = cluster.until_waits("ours", "Insufficient cpu").await?;
    ensure!(why.contains("0/1 nodes are available"), "{why}");
    cluster.stays_bound("ours", 0).await?;
    cluster.delete_pods("other").await?;
    cluster.until_bound("ours", 1).await
}
