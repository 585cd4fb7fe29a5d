//! Scheduling gates, node readiness and topology spread.

use std::collections::BTreeMap;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use phalanx_e2e::fake;
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec};

const ZONE: &str = "topology.kubernetes.io/zone";

async fn set_ready(cluster: &Cluster, node: &str, ready: bool) -> Result<()> {
    let status = if ready { "True" } else { "False" };
    let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    nodes.patch_status(node, &PatchParams::default(), &Patch::Strategic(conditions)).await?;
    Ok(())
}

/// A member of a gang, changed.
fn member(group: &str, index: usize, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = PodSpec::cpu(1).member(group, index);
    change(&mut pod);
    pod
}

#[tokio::test]
async fn gates_node_readiness_and_zones_restrict_gangs() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).prefix("a").cpu("4").label(ZONE, "a"), &[]).await?;
    for zone in ["b", "c"] {
        fake::Nodes::new(1).prefix(zone).cpu("4").label(ZONE, zone).create(&cluster.client).await?;
    }

    // A gang of which one pod is gated waits for it.
    cluster.pod_group("gated", json!({"minMember": 2})).await?;
    let gate = |pod: &mut Value| pod["spec"]["schedulingGates"] = json!([{"name": "example.com/quota"}]);
    cluster.create::<Pod>(member("gated", 0, |_| {})).await?;
    cluster.create::<Pod>(member("gated", 1, gate)).await?;
    cluster.until_waits("gated-0", "1 pod(s) wait for their scheduling gates").await?;
    cluster.another_cycle().await?;
    assert_eq!(cluster.bound_of("gated-").await?, 0);
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let lifted = json!({"spec": {"schedulingGates": null}});
    pods.patch("gated-1", &PatchParams::default(), &Patch::Merge(lifted)).await?;
    cluster.until_bound("gated-", 2).await?;
    cluster.delete_pods("gated-").await?;
    cluster.until_bound("gated-", 0).await?;

    // A node that is not ready has no room.
    set_ready(&cluster, "c-0", false).await?;
    let spread = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"app": "spread"});
        pod["spec"]["topologySpreadConstraints"] = json!([{
            "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "spread"}},
        }]);
    };
    cluster.pod_group("wide", json!({"minMember": 9})).await?;
    for index in 0..9 {
        cluster.create::<Pod>(member("wide", index, spread)).await?;
    }
    let why = cluster.until_waits("wide-0", "1 node(s) were not ready").await?;
    assert!(why.contains("0/3 nodes are available"), "{why}");
    cluster.another_cycle().await?;
    assert_eq!(cluster.bound_of("wide-").await?, 0);
    set_ready(&cluster, "c-0", true).await?;
    cluster.until_bound("wide-", 9).await?;
    // And it is spread: no zone has more than one pod more than another.
    let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
    for node in cluster.bound().await?.into_iter().filter(|(pod, _)| pod.starts_with("wide-")) {
        *by_node.entry(node.1).or_default() += 1;
    }
    assert_eq!(by_node, [("a-0".into(), 3), ("b-0".into(), 3), ("c-0".into(), 3)].into());
    Ok(())
}
