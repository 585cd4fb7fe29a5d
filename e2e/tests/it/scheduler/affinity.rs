//! Pod affinity with a namespaceSelector.

use anyhow::Result;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use phalanx_e2e::{fake, wait};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};

impl Cluster {
    /// A namespace with one pod labelled `app: db` on each of these nodes, in the scheduler's place.
    async fn databases(&self, namespace: &str, nodes: &[&str]) -> Result<()> {
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}}))?;
        Api::<Namespace>::all(self.client.clone()).create(&PostParams::default(), &object).await?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        for node in nodes {
            let mut pod = PodSpec { scheduler: "nobody", ..PodSpec::cpu(1) }.single(&format!("db-on-{node}"));
            pod["metadata"]["labels"] = json!({"app": "db"});
            pod["spec"]["nodeName"] = json!(node);
            let pod = serde_json::from_value(pod)?;
            // No controller creates default service accounts here; the pods need none.
            wait::until(SOON, "a pod in a new namespace", async || {
                Ok(pods.create(&PostParams::default(), &pod).await?)
            })
            .await?;
        }
        Ok(())
    }

    async fn label(&self, namespace: &str, team: Option<&str>) -> Result<()> {
        let labels = json!({"metadata": {"labels": {"team": team}}});
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.patch(namespace, &PatchParams::default(), &Patch::Merge(labels)).await?;
        Ok(())
    }
}

/// A pod with affinity or anti-affinity to the databases in namespaces of this team.
fn looking(name: &str, affinity: &str, team: &str) -> Value {
    let mut pod = PodSpec::cpu(1).single(name);
    pod["spec"]["affinity"][affinity]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([{
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {"matchLabels": {"team": team}},
        "topologyKey": "kubernetes.io/hostname",
    }]);
    pod
}

#[tokio::test]
async fn new_labels_of_a_namespace_count_for_affinity() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("8"), &[]).await?;
    cluster.databases("data", &["node-1"]).await?;
    cluster.databases("noise", &["node-0", "node-1"]).await?;
    cluster.label("data", Some("green")).await?;
    cluster.label("noise", Some("red")).await?;
    cluster.create::<Pod>(looking("near", "podAffinity", "blue")).await?;
    cluster.create::<Pod>(looking("away", "podAntiAffinity", "red")).await?;
    cluster.until_waits("near", "didn't match pod affinity rules").await?;
    cluster.until_waits("away", "didn't match pod anti-affinity rules").await?;
    cluster.stays_bound("", 0).await?;

    cluster.label("data", Some("blue")).await?;
    cluster.until_bound("near", 1).await?;
    assert_eq!(cluster.bound().await?["near"], "node-1", "where the database is");
    assert_eq!(cluster.bound_of("away").await?, 0, "nothing has changed for it");
    cluster.label("noise", None).await?;
    cluster.until_bound("away", 1).await?;

    // A namespace that comes later counts as well: this pod may be on the node without a red database only.
    cluster.databases("late", &["node-0"]).await?;
    cluster.label("late", Some("red")).await?;
    wait_for_labels(&cluster).await?;
    cluster.create::<Pod>(looking("away-too", "podAntiAffinity", "red")).await?;
    cluster.until_bound("away-too", 1).await?;
    assert_eq!(cluster.bound().await?["away-too"], "node-1");
    Ok(())
}

/// The label was seen when a pod that needs it has a place.
async fn wait_for_labels(cluster: &Cluster) -> Result<()> {
    cluster.create::<Pod>(looking("scout", "podAffinity", "red")).await?;
    cluster.until_bound("scout", 1).await
}
