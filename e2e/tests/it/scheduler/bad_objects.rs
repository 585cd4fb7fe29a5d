//! Invalid objects that no schema refused: they get an event, and other objects are scheduled.

use std::fs;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
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

/// Opaque parameters that the API server takes and that nest deeper than the scheduler reads.
pub(super) async fn deep(cluster: &Cluster, path: &str, object: Value) -> Result<()> {
    let parameters = format!("{}1{}", "{\"a\":".repeat(140), "}".repeat(140));
    let text = object.to_string().replace("\"PARAMETERS\"", &parameters);
    let request = http::Request::post(format!("/apis/resource.k8s.io/v1/{path}"))
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(text.into_bytes())?;
    cluster.client.request_text(request).await?;
    Ok(())
}

#[tokio::test]
async fn claims_that_nest_too_deep_are_told_so_and_stop_nobody() -> Result<()> {
    let nodes = fake::Nodes::new(1).cpu("8");
    let mut cluster = Cluster::without_scheduler(PlaneOptions::default(), nodes).await?;
    let config = json!([{"opaque": {"driver": "gpu.example.com", "parameters": "PARAMETERS"}}]);
    let class = json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": "deep"}, "spec": {"config": config},
    });
    deep(&cluster, "deviceclasses", class).await?;
    let claim = |name: &str| {
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": "deep"}});
        json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
            "metadata": {"name": name}, "spec": {"devices": {"requests": [request], "config": config}},
        })
    };
    let claims = "namespaces/default/resourceclaims";
    deep(&cluster, claims, claim("listed")).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    deep(&cluster, claims, claim("watched")).await?;
    cluster.gang("good", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("good-", 2).await?;
    for object in ["deep", "listed", "watched"] {
        cluster.until_event_with("Invalid", object, "levels of lists and mappings").await?;
    }
    for claim in ["listed", "watched"] {
        let mut pod = PodSpec::cpu(1).single(&format!("of-{claim}"));
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": claim}]);
        cluster.create::<Pod>(pod).await?;
        cluster.until_waits(&format!("of-{claim}"), claim).await?;
    }
    Ok(())
}
