//! Evictions use the eviction API, stay within budgets and are reported on the victim.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};

/// A node of four CPUs that a gang of four fills, which can do with one; and the class `urgent`.
pub(crate) async fn full(options: PlaneOptions, flags: &[&str]) -> Result<Cluster> {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/preempt-and-reclaim.yaml");
    let flag = format!("--scheduler-conf={}", conf.display());
    let cluster = Cluster::with(options, fake::Nodes::new(1).cpu("4"), &[&[&*flag], flags].concat()).await?;
    let class: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "urgent"}, "value": 1000}))?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    cluster.pod_group("low", json!({"minMember": 1})).await?;
    cluster.members("low", 4, &PodSpec::cpu(1)).await?;
    let running = |status: &serde_json::Value| status["running"] == 4;
    cluster.until_status("PodGroup", "low", "4 running", running).await?;
    Ok(cluster)
}

pub(crate) async fn urgent(cluster: &Cluster, count: usize) -> Result<()> {
    let spec = json!({"minMember": count, "priorityClassName": "urgent"});
    cluster.pod_group("urgent", spec).await?;
    let pod = PodSpec { priority_class: Some("urgent"), ..PodSpec::cpu(1) };
    cluster.members("urgent", count, &pod).await
}

#[tokio::test]
async fn victims_their_podgroup_and_the_log_name_the_preemptor() -> Result<()> {
    let cluster = full(PlaneOptions::default(), &[]).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    // The victims' objects stay until the test has read them.
    for index in 0..4 {
        hold(&pods, &format!("low-{index}")).await?;
    }
    urgent(&cluster, 2).await?;
    let reason = "preempted by default/urgent (priority 1000) in queue default";
    for victim in ["low-2", "low-3"] {
        until_evicted(&cluster, victim, reason).await?;
    }
    let note = cluster.until_event("Evict", "low").await?;
    assert_eq!(note, format!("pod of the group evicted: {reason}"));
    // Half of the room is not enough, and is kept.
    release(&pods, "low-2").await?;
    cluster.stays_bound("urgent-", 0).await?;
    release(&pods, "low-3").await?;
    cluster.until_bound("urgent-", 2).await?;
    let left: Vec<String> = cluster.pods().await?.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(left, ["low-0", "low-1", "urgent-0", "urgent-1"]);
    let log = logged(&cluster);
    for victim in ["low-2", "low-3"] {
        let line = format!("INFO evicting pod=default/{victim} action=preempt reason={reason}");
        ensure!(log.contains(&line), "{line:?} is missing: {log:#?}");
    }
    let line = "INFO binding job=default/urgent pods=2 nodes=node-0".to_owned();
    ensure!(log.contains(&line), "{line:?} is missing: {log:#?}");
    Ok(())
}

/// The lines of the log about binds and evictions.
fn logged(cluster: &Cluster) -> Vec<String> {
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = |field: &str| line[field].as_str().map_or_else(|| line[field].to_string(), str::to_owned);
        let fields: &[&str] = match line["message"].as_str()? {
            "binding" => &["job", "pods", "nodes"],
            "evicting" => &["pod", "action", "reason"],
            _ => return None,
        };
        let fields: Vec<String> = fields.iter().map(|field| format!("{field}={}", text(field))).collect();
        Some(format!("{} {} {}", text("level"), text("message"), fields.join(" ")))
    };
    cluster.phalanx().log_text().lines().filter_map(line).collect()
}

/// A department of two teams, each of which deserves half: one has all of it, the other takes its half back.
#[tokio::test]
async fn a_queue_in_a_tree_reclaims_its_deserved() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(2).cpu("2")).await?;
    let path = cluster.file("scheduler.conf");
    fs::write(&path, TREE)?;
    let flag = format!("--scheduler-conf={}", path.display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    cluster.queue("department", json!({"deserved": {"cpu": 4}})).await?;
    for team in ["red", "blue"] {
        cluster.queue(team, json!({"parent": "department", "deserved": {"cpu": 2}})).await?;
    }
    cluster.pod_group("batch", json!({"minMember": 1, "queue": "red"})).await?;
    cluster.members("batch", 4, &PodSpec::cpu(1)).await?;
    let running = |status: &serde_json::Value| status["running"] == 4;
    cluster.until_status("PodGroup", "batch", "4 running", running).await?;
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for index in 0..4 {
        hold(&pods, &format!("batch-{index}")).await?;
    }
    cluster.pod_group("train", json!({"minMember": 2, "queue": "blue"})).await?;
    cluster.members("train", 2, &PodSpec::cpu(1)).await?;
    let reason = "reclaimed by default/train (priority 0) in queue blue";
    for victim in ["batch-2", "batch-3"] {
        until_evicted(&cluster, victim, reason).await?;
    }
    for victim in ["batch-2", "batch-3"] {
        release(&pods, victim).await?;
    }
    cluster.until_bound("train-", 2).await?;
    // What is deserved is left, and a third one gets nothing more.
    cluster.create::<Pod>(PodSpec::cpu(1).member("train", 2)).await?;
    cluster.until_waits("train-2", "").await?;
    cluster.another_cycle().await?;
    assert_eq!((cluster.bound_of("batch-").await?, cluster.bound_of("train-").await?), (2, 2));
    let halves = |status: &serde_json::Value| status["allocated"]["cpu"] == "2";
    for team in ["red", "blue"] {
        cluster.until_status("Queue", team, "2 CPUs allocated", halves).await?;
    }
    Ok(())
}

const TREE: &str = "
actions: \"enqueue, allocate, backfill, reclaim\"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
";

async fn hold(pods: &Api<Pod>, name: &str) -> Result<()> {
    let held = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(held)).await?;
    Ok(())
}

/// The victim is being deleted, and its condition and an event name preemptor and reason.
async fn until_evicted(cluster: &Cluster, victim: &str, reason: &str) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
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
    Ok(())
}

async fn release(pods: &Api<Pod>, name: &str) -> Result<()> {
    let free = json!({"metadata": {"finalizers": null}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(free)).await?;
    Ok(())
}

#[tokio::test]
async fn a_pod_is_evicted_after_its_disruption_budget_is_deleted() -> Result<()> {
    let cluster = full(PlaneOptions { controllers: true, ..PlaneOptions::default() }, &[]).await?;
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
