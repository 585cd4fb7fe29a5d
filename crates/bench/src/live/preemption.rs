//! A preemption that is hard to decide: a gang of unlike pods, one a node, that is larger by one than the cluster.
use anyhow::Result;
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use super::{Groups, Load, client};
use crate::Size;

/// The PriorityClass of the gang.
const CLASS: &str = "bench-high";
/// Pods of lower priority on each node of 32 cores, of 14 cores each.
const PER_NODE: usize = 2;
/// Members differ in what they request.
const KINDS: usize = 7;
/// The number of the gang's PodGroup; the PodGroups of the other pods come before.
const GANG: usize = 1_000_000;

/// Fills the nodes with pods of lower priority and creates the gang.
pub(super) async fn begin(admin: &Client, nodes: usize) -> Result<()> {
    let load = Load {
        size: Size { nodes, gangs: nodes, size: PER_NODE },
        groups: Groups::Loose,
        in_flight: 32,
        rate: None,
    };
    let namespaced = |resource: &ApiResource| -> Api<DynamicObject> {
        Api::namespaced_with(admin.clone(), client::NAMESPACE, resource)
    };
    let (groups, pods) = (namespaced(&client::groups_resource()), namespaced(&client::pods_resource()));
    let classes = ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.k8s.io", "v1", "PriorityClass"));
    let class = json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": CLASS}, "value": 1000,
    });
    client::create_all(&Api::all_with(admin.clone(), &classes), std::iter::once(class), load).await?;
    client::create_all(&groups, (0..nodes).map(|gang| client::group(gang, 1)), load).await?;
    let low = (0..nodes).flat_map(|node| (0..PER_NODE).map(move |index| running(node, index)));
    client::create_all(&pods, low, load).await?;
    let mut group = client::group(GANG, nodes + 1);
    group["spec"]["priorityClassName"] = json!(CLASS);
    client::create_all(&groups, std::iter::once(group), load).await?;
    client::create_all(&pods, (0..=nodes).map(member), load).await.map(drop)
}

fn running(node: usize, index: usize) -> Value {
    let mut pod = client::pod(&format!("low-{node}-{index}"), "volcano", Some(node));
    pod["spec"]["nodeName"] = json!(format!("node-{node}"));
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("14");
    pod
}

fn member(index: usize) -> Value {
    let mut pod = client::pod(&format!("hard-{index}"), "volcano", Some(GANG));
    pod["metadata"]["labels"] = json!({"app": "hard"});
    pod["spec"]["priorityClassName"] = json!(CLASS);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!((16 + index % KINDS).to_string());
    pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "hard"}}},
    ]}});
    pod
}
