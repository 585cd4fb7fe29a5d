//! Invalid objects that no schema refused: they get an event, and other objects are scheduled.

use std::fs;

use anyhow::{Result, ensure};
use kube::api::{Patch, PatchParams};
use phalanx_e2e::{Phalanx, PlaneOptions, crds, fake};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec};

/// Our definitions as an older cluster may have them: any object is accepted.
fn permissive(folder: &std::path::Path) -> Result<()> {
    for entry in fs::read_dir(crds::dir())? {
        let path = entry?.path();
        let mut crd: Value = serde_yaml::from_str(&fs::read_to_string(&path)?)?;
        for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
            version["schema"]["openAPIV3Schema"] =
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        fs::write(folder.join(path.file_name().unwrap_or_default()), serde_yaml::to_string(&crd)?)?;
    }
    Ok(())
}

#[tokio::test]
async fn an_invalid_object_gets_an_event_and_others_are_scheduled() -> Result<()> {
    let nodes = fake::Nodes::new(1).cpu("8");
    let mut cluster = Cluster::bare(PlaneOptions::default(), nodes).await?;
    let folder = tempfile::tempdir()?;
    permissive(folder.path())?;
    crds::apply(&cluster.client, folder.path()).await?;
    cluster.pod_group("words", json!({"minMember": "three"})).await?;
    cluster.queue("words", json!({"weight": "heavy"})).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    cluster.members("words", 3, &PodSpec::cpu(1)).await?;
    cluster.gang("good", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("good-", 2).await?;

    let why = cluster.until_event_with("QueueInvalid", "words", "weight").await?;
    ensure!(why.contains("heavy"), "{why}");
    cluster.pod_group("heavy", json!({"minMember": 1, "queue": "words"})).await?;
    cluster.members("heavy", 1, &PodSpec::cpu(1)).await?;
    cluster.until_waits("heavy-0", "weight").await?;
    let why = cluster.until_event_with("Unschedulable", "words", "minMember").await?;
    ensure!(why.contains("three"), "{why}");
    cluster.until_waits("words-0", "minMember").await?;
    cluster.stays_bound("words-", 0).await?;
    assert_eq!(cluster.bound_of("heavy-").await?, 0);

    let fixed = json!({"spec": {"minMember": 3}});
    cluster.volcano("PodGroup").patch("words", &PatchParams::default(), &Patch::Merge(fixed)).await?;
    cluster.until_bound("words-", 3).await?;
    let fixed = json!({"spec": {"weight": 2}});
    cluster.volcano("Queue").patch("words", &PatchParams::default(), &Patch::Merge(fixed)).await?;
    cluster.until_bound("heavy-", 1).await
}
