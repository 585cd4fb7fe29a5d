//! Devices: claims are given theirs before their pods are bound, and freed when these go.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use kube::Api;
use kube::api::{ListParams, PostParams};
use phalanx_e2e::{PlaneOptions, fake, wait};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};

/// Two nodes, of which one has two devices, and a template for claims to one of them.
async fn with_devices() -> Result<Cluster> {
    let options = PlaneOptions { controllers: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(2).cpu("8"), &[]).await?;
    let class = json!({
        "metadata": {"name": "gpu"},
        "spec": {
            "selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"sharing": "none"}}}],
        },
    });
    let class: DeviceClass = serde_json::from_value(class)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    let slice = json!({
        "metadata": {"name": "node-1"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
        },
    });
    let slice: ResourceSlice = serde_json::from_value(slice)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &slice).await?;
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let template = json!({
        "metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}},
    });
    cluster.create::<ResourceClaimTemplate>(template).await?;
    Ok(cluster)
}

fn claiming(name: &str, group: Option<&str>) -> Value {
    let mut pod = PodSpec::cpu(1).single(name);
    if let Some(group) = group {
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!(group);
    }
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
    pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
    pod
}

/// Devices by the pods for which they are reserved.
async fn given(cluster: &Cluster) -> Result<BTreeSet<(String, String)>> {
    let claims: Api<ResourceClaim> = Api::default_namespaced(cluster.client.clone());
    let mut given = BTreeSet::new();
    for status in
        claims.list(&ListParams::default()).await?.items.into_iter().filter_map(|claim| claim.status)
    {
        let Some(allocation) = status.allocation else { continue };
        let devices = allocation.devices.context("devices")?;
        ensure!(devices.config.unwrap_or_default().len() == 1, "the class's configuration goes with them");
        let terms = allocation.node_selector.context("a node selector")?.node_selector_terms;
        let fields = terms[0].match_fields.clone().context("fields")?;
        ensure!(fields[0].values.as_deref() == Some(&["node-1".to_owned()]), "{fields:?}");
        for result in devices.results.unwrap_or_default() {
            let pods = status.reserved_for.clone().unwrap_or_default();
            given.extend(pods.into_iter().map(|pod| (pod.name, result.device.clone())));
        }
    }
    Ok(given)
}

#[tokio::test]
async fn a_gang_gets_its_devices_and_a_freed_device_goes_to_the_next_pod() -> Result<()> {
    let cluster = with_devices().await?;
    cluster.pod_group("g", json!({"minMember": 2})).await?;
    for name in ["g-0", "g-1"] {
        cluster.create::<Pod>(claiming(name, Some("g"))).await?;
    }
    cluster.until_bound("g-", 2).await?;
    ensure!(cluster.bound().await?.values().all(|node| node == "node-1"), "where the devices are");
    let devices = given(&cluster).await?;
    let pods: BTreeSet<&str> = devices.iter().map(|(pod, _)| pod.as_str()).collect();
    let names: BTreeSet<&str> = devices.iter().map(|(_, device)| device.as_str()).collect();
    ensure!(pods == BTreeSet::from(["g-0", "g-1"]), "{devices:?}");
    ensure!(names == BTreeSet::from(["gpu-0", "gpu-1"]), "{devices:?}");

    cluster.create::<Pod>(claiming("next", None)).await?;
    cluster.until_waits("next", "cannot allocate all claims").await?;
    cluster.delete_pods("g-0").await?;
    cluster.until_bound("next", 1).await?;
    wait::until(SOON, "the device to be the next pod's", async || {
        let devices = given(&cluster).await?;
        ensure!(devices.len() == 2 && devices.iter().any(|(pod, _)| pod == "next"), "{devices:?}");
        Ok(())
    })
    .await
}
