//! Cycles without new decisions write nothing.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams},
};
use phalanx_e2e::{fake, wait};

use super::cluster::{Cluster, FOREIGN, PodSpec, SOON};

/// The resource versions of all that the scheduler writes.
async fn versions(cluster: &Cluster) -> Result<BTreeMap<String, String>> {
    let all = ListParams::default();
    let mut versions = BTreeMap::new();
    for pod in cluster.pods().await? {
        versions.insert(format!("pod {}", pod.name_any()), pod.resource_version().context("a version")?);
    }
    for kind in ["PodGroup", "Queue"] {
        for object in cluster.volcano(kind).list(&all).await?.items {
            versions.insert(format!("{kind} {}", object.name_any()), version(&object)?);
        }
    }
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    for event in events.list(&all).await?.items {
        versions
            .insert(format!("event {}", event.name_any()), event.resource_version().context("a version")?);
    }
    versions.retain(|object, _| !object.contains(FOREIGN));
    Ok(versions)
}

fn version(object: &DynamicObject) -> Result<String> {
    object.resource_version().context("a version")
}

#[tokio::test]
async fn cycles_that_decide_nothing_new_write_nothing() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("4"), &[]).await?;
    cluster.gang("runs", 2, &PodSpec::cpu(1)).await?;
    cluster.until_status("PodGroup", "runs", "2 running", |status| status["running"] == 2).await?;
    cluster.gang("waits", 9, &PodSpec::cpu(1)).await?;
    cluster.create::<Pod>(PodSpec::cpu(9).single("big")).await?;
    for waits in ["waits-0", "waits-8", "big"] {
        cluster.until_waits(waits, "").await?;
    }
    cluster.until_event("Unschedulable", "waits").await?;
    cluster.until_event("FailedScheduling", "big").await?;
    cluster.until_allocated_is_bound().await?;
    let before = wait::until(SOON, "the last writes to be done", async || {
        let before = versions(&cluster).await?;
        cluster.another_cycle().await?;
        cluster.another_cycle().await?;
        ensure!(before == versions(&cluster).await?, "more is written");
        Ok(before)
    })
    .await?;
    for object in ["pod big", "PodGroup waits", "Queue default"] {
        ensure!(before.contains_key(object), "{object} is missing: {before:?}");
    }
    for _ in 0..8 {
        cluster.another_cycle().await?;
        assert_eq!(before, versions(&cluster).await?);
    }
    Ok(())
}
