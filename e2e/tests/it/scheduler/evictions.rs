//! Evictions: through the eviction API, within budgets, told on the victim.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use phalanx_e2e::{PlaneOptions, fake, wait};
use serde_json::json;

use super::cluster::{Cluster, PodSpec, SOON};

/// A node of four CPUs that a gang of four fills, which can do with one; and the class `urgent`.
async fn full(options: PlaneOptions) -> Result<Cluster> {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/preempt-and-reclaim.yaml");
    let flag = format!("--scheduler-conf={}", conf.display());
    let cluster = Cluster::with(options, fake::Nodes::new(1).cpu("4"), &[&flag]).await?;
    let class: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "urgent"}, "value": 1000}))?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    cluster.pod_group("low", json!({"minMember": 1})).await?;
    cluster.members("low", 4, &PodSpec::cpu(1)).await?;
    let running = |status: &serde_json::Value| status["running"] == 4;
    cluster.until_status("PodGroup", "low", "4 running", running).await?;
    Ok(cluster)
}

async fn urgent(cluster: &Cluster, count: usize) -> Result<()> {
    let spec = json!({"minMember": count, "priorityClassName": "urgent"});
    cluster.pod_group("urgent", spec).await?;
    let pod = PodSpec { priority_class: Some("urgent"), ..PodSpec::cpu(1) };
    cluster.members("urgent", count, &pod).await
}

#[tokio::test]
async fn a_gang_evicts_as_few_as_it_needs_and_says_so_on_them() -> Result<()> {
    let cluster = full(PlaneOptions::default()).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    // The victims' objects stay until the test has read them.
    for index in 0..4 {
        let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        pods.patch(&format!("low-{index}"), &PatchParams::default(), &Patch::Merge(held)).await?;
    }
    urgent(&cluster, 2).await?;
    let reason = "preempted by default/urgent (priority 1000) in queue default";
    for victim in ["low-2", "low-3"] {
        wait::until(SOON, &format!("{victim} to be evicted, with the reason"), async || {
            let pod = pods.get(victim).await?;
            ensure!(pod.metadata.deletion_timestamp.is_some(), "it is not being deleted");
            let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
            let condition = conditions.into_iter().find(|it| it.type_ == "DisruptionTarget");
            let condition = condition.context("no condition DisruptionTarget")?;
            let told = (condition.reason.as_deref(), condition.message.as_deref());
            ensure!(told == (Some("PreemptionByScheduler"), Some(reason)), "{told:?}");
            Ok(())
        })
        .await?;
        let note = cluster.until_event("Evict", victim).await?;
        ensure!(note == reason, "{note}");
    }
    // Half of the room is not enough, and is kept.
    release(&pods, "low-2").await?;
    cluster.stays_bound("urgent-", 0).await?;
    release(&pods, "low-3").await?;
    cluster.until_bound("urgent-", 2).await?;
    let left: Vec<String> = cluster.pods().await?.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(left, ["low-0", "low-1", "urgent-0", "urgent-1"]);
    Ok(())
}

async fn release(pods: &Api<Pod>, name: &str) -> Result<()> {
    let free = json!({"metadata": {"finalizers": null}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(free)).await?;
    Ok(())
}

#[tokio::test]
async fn a_disruption_budget_holds_and_its_end_is_noticed() -> Result<()> {
    let cluster = full(PlaneOptions { controllers: true, ..PlaneOptions::default() }).await?;
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(cluster.client.clone());
    let labelled = json!({"metadata": {"labels": {"app": "low"}}});
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in cluster.pods().await? {
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(&labelled)).await?;
    }
    let budget = json!({
        "metadata": {"name": "low"}, "spec": {"minAvailable": 4, "selector": {"matchLabels": {"app": "low"}}},
    });
    cluster.create::<PodDisruptionBudget>(budget).await?;
    let until_allows = async |allowed: i32| {
        wait::until(SOON, &format!("the budget to allow {allowed}"), async || {
            let status = budgets.get("low").await?.status.context("no status")?;
            ensure!(
                (status.disruptions_allowed, status.current_healthy) == (Some(allowed), Some(4)),
                "{status:?}"
            );
            Ok(())
        })
        .await
    };
    until_allows(0).await?;
    urgent(&cluster, 1).await?;
    cluster.until_waits("urgent-0", "no pod that may be evicted").await?;
    assert_eq!(cluster.bound_of("low-").await?, 4);
    let less = json!({"spec": {"minAvailable": 3}});
    budgets.patch("low", &PatchParams::default(), &Patch::Merge(less)).await?;
    cluster.until_bound("urgent-", 1).await?;
    cluster.until_bound("low-", 3).await
}
