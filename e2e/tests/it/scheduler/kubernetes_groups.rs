//! Gangs of Kubernetes' own PodGroups (`scheduling.k8s.io`).

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{core::v1::Pod, scheduling::v1alpha2::PodGroup};
use kube::Api;
use phalanx_e2e::{PlaneOptions, fake, wait};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};

pub(super) async fn gang(
    cluster: &Cluster,
    name: &str,
    queue: &str,
    count: usize,
    pod: &PodSpec,
) -> Result<()> {
    let metadata = json!({"name": name, "annotations": {"scheduling.volcano.sh/queue-name": queue}});
    let spec = json!({"schedulingPolicy": {"gang": {"minCount": count}}});
    cluster.create::<PodGroup>(json!({"metadata": metadata, "spec": spec})).await?;
    for index in 0..count {
        let mut pod = pod.single(&format!("{name}-{index}"));
        pod["spec"]["schedulingGroup"] = json!({"podGroupName": name});
        cluster.create::<Pod>(pod).await?;
    }
    Ok(())
}

/// Waits for the condition `PodGroupScheduled` with this status, and for the phase, and this text in a message.
pub(super) async fn until_told(
    cluster: &Cluster,
    group: &str,
    phase: &str,
    status: &str,
    text: &str,
) -> Result<Value> {
    let groups: Api<PodGroup> = Api::default_namespaced(cluster.client.clone());
    wait::until(SOON, &format!("PodGroup {group}: {phase}, {status}"), async || {
        let conditions = groups.get(group).await?.status.and_then(|status| status.conditions);
        let conditions = conditions.unwrap_or_default();
        let of = |kind: &str| conditions.iter().find(|one| one.type_ == kind);
        let scheduled = of("PodGroupScheduled").context("no condition PodGroupScheduled")?;
        let kept = of("scheduling.volcano.sh/Phase").context("no phase")?;
        let messages = [&scheduled.message, &kept.message];
        let says = messages.iter().any(|message| message.contains(text));
        let good = scheduled.status == status && says && kept.reason == phase;
        ensure!(good, "{conditions:?}");
        Ok(json!(conditions))
    })
    .await
}

#[tokio::test]
async fn a_gang_of_kubernetes_own_podgroup_starts_whole_within_its_queue() -> Result<()> {
    let options = PlaneOptions { native_gangs: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(2).cpu("4"), &[]).await?;
    cluster.queue("small", json!({"capability": {"cpu": "2"}})).await?;
    gang(&cluster, "large", "default", 5, &PodSpec::cpu(2)).await?;
    until_told(&cluster, "large", "Inqueue", "False", "Insufficient cpu").await?;
    assert_eq!(cluster.bound_of("large-").await?, 0);
    cluster.until_event("Unschedulable", "large").await?;

    gang(&cluster, "train", "default", 3, &PodSpec::cpu(2)).await?;
    cluster.until_bound("train-", 3).await?;
    let told = until_told(&cluster, "train", "Running", "True", "3 running").await?;

    // There is room for one more on the nodes, but not in the queue.
    gang(&cluster, "capped", "small", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("capped-", 2).await?;
    gang(&cluster, "beyond", "small", 1, &PodSpec::cpu(1)).await?;
    until_told(&cluster, "beyond", "Inqueue", "False", "small").await?;
    cluster.stays_bound("beyond-", 0).await?;
    assert_eq!(
        until_told(&cluster, "train", "Running", "True", "3 running").await?,
        told,
        "nothing is written anew"
    );

    fake::Nodes::new(3).cpu("4").starting_at(2).create(&cluster.client).await?;
    cluster.until_bound("large-", 5).await?;
    cluster.check_room(4).await
}

#[tokio::test]
async fn pods_of_a_missing_kubernetes_podgroup_wait_for_it() -> Result<()> {
    let options = PlaneOptions { native_gangs: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(1).cpu("4"), &[]).await?;
    // A PodGroup of Volcano with the same name is another one.
    cluster.pod_group("train", json!({"minMember": 1})).await?;
    let mut pod = PodSpec::cpu(1).single("train-0");
    pod["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
    cluster.create::<Pod>(pod).await?;
    cluster.until_event("FailedScheduling", "train-0").await?;
    cluster.stays_bound("train-", 0).await?;
    let spec = json!({"schedulingPolicy": {"basic": {}}});
    cluster.create::<PodGroup>(json!({"metadata": {"name": "train"}, "spec": spec})).await?;
    cluster.until_bound("train-", 1).await
}
