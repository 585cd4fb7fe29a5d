//! HyperNodes that are made by hand, and from labels of nodes.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use phalanx_e2e::{deploy::apply, fake, wait};
use serde_json::{Value, json};

use super::{SOON, World};

const RACK: &str = "net.example.com/rack";

/// The ConfigMap of the controllers, as Volcano's chart makes it.
fn config_map() -> [Value; 2] {
    let conf = format!(
        "networkTopologyDiscovery:\n- source: ufm\n  enabled: true\n- source: label\n  enabled: true\n  config:\n    \
         networkTopologyTypes:\n      fabric:\n      - nodeLabel: net.example.com/spine\n      - nodeLabel: {RACK}\n      \
         - nodeLabel: kubernetes.io/hostname\n"
    );
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}});
    let config_map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"volcano-controller.conf": conf},
        "metadata": {"name": "volcano-controller-configmap", "namespace": "volcano-system"},
    });
    [namespace, config_map]
}

async fn label(world: &World, node: &str, rack: Option<&str>) -> Result<()> {
    let nodes: Api<Node> = Api::all(world.cluster.client.clone());
    let spine = rack.map(|_| "s1");
    let patch = json!({"metadata": {"labels": {RACK: rack, "net.example.com/spine": spine}}});
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Waits until discovery made these: label, members and count of nodes.
async fn until_discovered(world: &World, expected: &[&str]) -> Result<()> {
    let api = world.cluster.volcano("HyperNode");
    wait::until(SOON, &format!("the HyperNodes {expected:?}"), async || {
        let source = ListParams::default().labels("volcano.sh/network-topology-source=label");
        let found = api.list(&source).await?.items;
        let value = |name: &str| found.iter().find(|one| one.name_any() == name).map(label_of);
        let line = |one: &kube::api::DynamicObject| {
            let members = one.data["spec"]["members"].as_array().into_iter().flatten();
            let names =
                members.map(|member| member["selector"]["exactMatch"]["name"].as_str().unwrap_or("?"));
            let names: Vec<String> =
                names.map(|name| value(name).unwrap_or_else(|| name.to_owned())).collect();
            format!("{}: {} ({})", label_of(one), names.join(" "), one.data["status"]["nodeCount"])
        };
        let mut lines: Vec<String> = found.iter().map(line).collect();
        lines.sort();
        ensure!(lines == expected, "{lines:?}\n{}", world.logs());
        Ok(())
    })
    .await
}

/// The value of the label that a HyperNode was made of.
fn label_of(one: &kube::api::DynamicObject) -> String {
    let labels: &BTreeMap<String, String> = one.labels();
    labels.iter().find(|(key, _)| key.starts_with("net.")).map(|(_, value)| value.clone()).unwrap_or_default()
}

/// Makes, changes and deletes HyperNodes by labels of the only node.
pub(super) async fn discover_two_racks(world: &World) -> Result<()> {
    apply(&world.cluster.client, &config_map()).await?;
    for (rack, expected) in [
        (Some("r1"), &["r1: node-0 (1)", "s1: r1 (1)"][..]),
        (Some("r2"), &["r2: node-0 (1)", "s1: r2 (1)"]),
        (None, &[]),
    ] {
        label(world, "node-0", rack).await?;
        until_discovered(world, expected).await?;
    }
    Ok(())
}

#[tokio::test]
async fn hyper_nodes_are_counted_and_discovered_from_labels_of_nodes() -> Result<()> {
    let world = World::start(fake::Nodes::new(4)).await?;
    let member = |kind: &str, name: &str| json!({"type": kind, "selector": {"exactMatch": {"name": name}}});
    let pattern = json!({"type": "Node", "selector": {"regexMatch": {"pattern": "-[01]$"}}});
    let spec = json!({"tier": 1, "members": [pattern, member("Node", "no-such-node")]});
    world.create("HyperNode", "left", spec).await?;
    let members = json!([member("HyperNode", "left"), member("Node", "node-3")]);
    world.create("HyperNode", "all", json!({"tier": 2, "tierName": "cluster", "members": members})).await?;
    let count = async |name: &str, count: u32| {
        let is = |status: &Value| status["nodeCount"] == count;
        world.cluster.until_status("HyperNode", name, &format!("{count} nodes"), is).await
    };
    count("left", 3).await?;
    count("all", 2).await?;
    wait::until(SOON, "the scheduler to know the HyperNodes", async || {
        let text = world.cluster.phalanx().metrics().await?;
        ensure!(text.contains("phalanx_objects{kind=\"hypernodes\"} 2"), "{text}");
        Ok(())
    })
    .await?;

    apply(&world.cluster.client, &config_map()).await?;
    for (node, rack) in [("node-0", "r1"), ("node-1", "r1"), ("node-2", "r2")] {
        label(&world, node, Some(rack)).await?;
    }
    until_discovered(&world, &["r1: node-0 node-1 (2)", "r2: node-2 (1)", "s1: r1 r2 (2)"]).await?;
    let log = world.controllers().log_text();
    ensure!(log.contains("is not supported, expected label"), "{log}");

    label(&world, "node-1", Some("r2")).await?;
    label(&world, "node-0", None).await?;
    until_discovered(&world, &["r2: node-1 node-2 (2)", "s1: r2 (1)"]).await?;
    let nodes: Api<Node> = Api::all(world.cluster.client.clone());
    nodes.delete("node-1", &DeleteParams::default()).await?;
    until_discovered(&world, &["r2: node-2 (1)", "s1: r2 (1)"]).await?;
    count("left", 2).await?;
    count("all", 2).await?;
    Ok(())
}
