//! Claims: bound before their pods, by the cluster's own volume controller.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, ResourceExt, api::ListParams, api::PostParams};
use phalanx_e2e::{PlaneOptions, fake};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec};

impl Cluster {
    pub(crate) async fn local_volume(&self, name: &str, node: &str, size: &str) -> Result<()> {
        let hosts = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let volume = json!({
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "persistentVolumeReclaimPolicy": "Retain",
                "local": {"path": format!("/mnt/{name}")},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [hosts]}]}},
            },
        });
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        volumes.create(&PostParams::default(), &serde_json::from_value(volume)?).await?;
        Ok(())
    }

    pub(crate) async fn local_class(&self) -> Result<()> {
        let class = json!({
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
        Ok(())
    }

    pub(crate) async fn claim(&self, name: &str, size: &str) -> Result<()> {
        let spec = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": size}},
        });
        let claim = json!({"metadata": {"name": name}, "spec": spec});
        self.create::<PersistentVolumeClaim>(claim).await?;
        Ok(())
    }
}

/// A member of a gang with a claim.
pub(super) fn with_claim(mut pod: Value, claim: &str) -> Value {
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
    pod
}

#[tokio::test]
async fn claims_are_bound_before_their_pod_and_a_missing_claim_delays_its_own_pod_only() -> Result<()> {
    let options = PlaneOptions { controllers: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(3).cpu("4"), &[]).await?;
    cluster.local_class().await?;
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(cluster.client.clone());
    let nodes: Vec<String> =
        nodes.list(&ListParams::default()).await?.iter().map(ResourceExt::name_any).collect();
    cluster.local_volume("large", &nodes[0], "10Gi").await?;
    cluster.local_volume("small", &nodes[1], "1Gi").await?;
    cluster.claim("data-0", "5Gi").await?;
    cluster.claim("data-1", "1Gi").await?;
    cluster.pod_group("gang", json!({"minMember": 2})).await?;
    for (index, claim) in ["data-0", "data-1"].into_iter().enumerate() {
        let mut pod = with_claim(PodSpec::cpu(1).single(&format!("gang-{index}")), claim);
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!("gang");
        cluster.create::<Pod>(pod).await?;
    }
    cluster.create::<Pod>(with_claim(PodSpec::cpu(1).single("lost"), "nowhere")).await?;
    cluster.create::<Pod>(PodSpec::cpu(1).single("plain")).await?;

    cluster.until_bound("gang-", 2).await?;
    cluster.until_bound("plain", 1).await?;
    cluster.until_waits("lost", "persistentvolumeclaim \"nowhere\" not found").await?;
    let bound = cluster.bound().await?;
    ensure!(bound["gang-0"] == nodes[0], "the only volume of that size is on {}: {bound:?}", nodes[0]);
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
    for (claim, pod) in [("data-0", "gang-0"), ("data-1", "gang-1")] {
        let spec = claims.get(claim).await?.spec.context("a spec")?;
        let on = if spec.volume_name.as_deref() == Some("large") { &nodes[0] } else { &nodes[1] };
        ensure!(spec.volume_name.is_some() && bound[pod] == *on, "{claim}: {spec:?}, {bound:?}");
    }

    cluster.local_volume("late", &nodes[2], "1Gi").await?;
    cluster.claim("nowhere", "1Gi").await?;
    cluster.until_bound("lost", 1).await?;
    ensure!(cluster.bound().await?["lost"] == nodes[2], "where the last volume is");
    Ok(())
}
