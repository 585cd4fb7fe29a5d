//! A scheduler is killed while a gang evicts pods and is given volumes and devices.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result, ensure};
use http::Method;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{ListParams, PostParams};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};
use super::faults::{Step, killed_at};
use super::proxy::{Fate, Write};
use super::volumes::with_claim;

fn is_eviction((method, path): &Write) -> bool {
    *method == Method::POST && path.ends_with("/eviction")
}

fn is_volume((method, path): &Write) -> bool {
    *method == Method::PATCH && path.contains("/persistentvolumes/")
}

fn is_device_claim((method, path): &Write) -> bool {
    *method == Method::PUT && path.contains("/resourceclaims/") && path.ends_with("/status")
}

const STEPS: [Step; 7] = [
    Step { at: "before-evictions", write: is_eviction, number: 0, fate: Fate::IsLost },
    Step { at: "between-evictions", write: is_eviction, number: 0, fate: Fate::IsCarriedOut },
    Step { at: "behind-evictions", write: is_eviction, number: 1, fate: Fate::IsCarriedOut },
    Step { at: "before-volumes", write: is_volume, number: 0, fate: Fate::IsLost },
    Step { at: "between-volumes", write: is_volume, number: 0, fate: Fate::IsCarriedOut },
    Step { at: "before-devices", write: is_device_claim, number: 0, fate: Fate::IsLost },
    Step { at: "between-devices", write: is_device_claim, number: 0, fate: Fate::IsCarriedOut },
];

async fn create_all<K>(cluster: &Cluster, object: Value) -> Result<()>
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
{
    Api::<K>::all(cluster.client.clone())
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    Ok(())
}

/// A node of four CPUs with two devices, and a template for claims to one of them.
async fn cluster_of_one_node() -> Result<Cluster> {
    let options = PlaneOptions { controllers: true, ..PlaneOptions::default() };
    let cluster = Cluster::without_scheduler(options, fake::Nodes::new(1).cpu("4")).await?;
    create_all::<PriorityClass>(&cluster, json!({"metadata": {"name": "urgent"}, "value": 1000})).await?;
    let selector = json!({"cel": {"expression": "device.driver == 'gpu.example.com'"}});
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"selectors": [selector]}});
    create_all::<DeviceClass>(&cluster, class).await?;
    let pool = json!({"name": "node-0", "generation": 1, "resourceSliceCount": 1});
    let devices = json!([{"name": "gpu-0"}, {"name": "gpu-1"}]);
    let spec = json!({"driver": "gpu.example.com", "nodeName": "node-0", "pool": pool, "devices": devices});
    create_all::<ResourceSlice>(&cluster, json!({"metadata": {"name": "node-0"}, "spec": spec})).await?;
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let template =
        json!({"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}});
    cluster.create::<ResourceClaimTemplate>(template).await?;
    cluster.local_class().await?;
    Ok(cluster)
}

/// A gang of two that needs the room of two running pods, both devices, and a volume each.
async fn submit(cluster: &Cluster, name: &str) -> Result<()> {
    let low = format!("low-{name}");
    cluster.pod_group(&low, json!({"minMember": 1})).await?;
    cluster.members(&low, 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound(&low, 4).await?;
    cluster.pod_group(name, json!({"minMember": 2, "priorityClassName": "urgent"})).await?;
    for index in 0..2 {
        let volume = format!("{name}-{index}");
        cluster.local_volume(&volume, "node-0", "1Gi").await?;
        cluster.claim(&volume, "1Gi").await?;
        let spec = PodSpec { priority_class: Some("urgent"), ..PodSpec::cpu(1) };
        let mut pod = with_claim(spec.single(&volume), &volume);
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!(name);
        pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimTemplateName": "one"}]);
        pod["spec"]["containers"][0]["resources"]["claims"] = json!([{"name": "gpu"}]);
        cluster.create::<Pod>(pod).await?;
    }
    Ok(())
}

/// Both devices are given, to one pod each, and both claims of volumes are bound.
async fn check_given(cluster: &Cluster, name: &str) -> Result<()> {
    let pods = BTreeSet::from([format!("{name}-0"), format!("{name}-1")]);
    let claims: Api<ResourceClaim> = Api::default_namespaced(cluster.client.clone());
    let (mut devices, mut reserved) = (BTreeSet::new(), BTreeSet::new());
    for status in claims.list(&ListParams::default()).await?.items.into_iter().filter_map(|one| one.status) {
        let Some(allocation) = status.allocation else { continue };
        let results = allocation.devices.and_then(|devices| devices.results).unwrap_or_default();
        for result in results {
            ensure!(devices.insert(result.device.clone()), "{} is given twice", result.device);
        }
        reserved.extend(status.reserved_for.unwrap_or_default().into_iter().map(|pod| pod.name));
    }
    ensure!(devices.len() == 2 && reserved == pods, "{devices:?} for {reserved:?}");
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
    for pod in &pods {
        let volume = claims.get(pod).await?.spec.and_then(|spec| spec.volume_name);
        ensure!(volume.is_some(), "claim {pod} has no volume");
    }
    Ok(())
}

/// Waits until no device is given any more.
async fn until_freed(cluster: &Cluster) -> Result<()> {
    let claims: Api<ResourceClaim> = Api::default_namespaced(cluster.client.clone());
    wait::until(SOON, "no claim for devices", async || {
        let left = claims.list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_gang_that_evicts_gets_its_volumes_and_devices_wherever_the_scheduler_was_killed() -> Result<()> {
    let conf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/preempt-and-reclaim.yaml");
    let conf = format!("--scheduler-conf={}", conf.display());
    let mut cluster = cluster_of_one_node().await?;
    for step in STEPS {
        drop(cluster.scheduler.take());
        let gang = async || submit(&cluster, step.at).await;
        killed_at(&cluster, &step, &[&conf], gang).await.context(step.at)?;
        cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&conf]).await?);
        cluster.until_bound(&format!("{}-", step.at), 2).await?;
        check_given(&cluster, step.at).await.context(step.at)?;
        cluster.check_room(4).await?;
        assert_eq!(cluster.bound_of("low-").await?, 2, "{}: no pod is evicted in vain", step.at);
        cluster.delete_pods("").await?;
        until_freed(&cluster).await?;
    }
    Ok(())
}
