//! A cluster full of pods that have their node, and the time it takes anybody to list it.
use std::time::Instant;

use anyhow::Result;
use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};

use super::{Groups, Load, client};
use crate::Size;

/// Objects of a page of a list.
const PAGE: usize = 5000;

/// PodGroups that run, and their pods, spread evenly over the nodes.
pub(crate) async fn fill(
    admin: &Client,
    nodes: usize,
    pods: usize,
    gangs: usize,
    in_flight: usize,
) -> Result<()> {
    let gangs = gangs.clamp(1, pods.max(1));
    let load = Load { size: Size { nodes, gangs, size: 1 }, groups: Groups::Gangs, in_flight, rate: None };
    let groups: Api<DynamicObject> =
        Api::namespaced_with(admin.clone(), client::NAMESPACE, &client::groups_resource());
    client::create_all(&groups, (0..gangs).map(|gang| running_group(gang, pods, gangs)), load).await?;
    let api: Api<DynamicObject> =
        Api::namespaced_with(admin.clone(), client::NAMESPACE, &client::pods_resource());
    let placed = (0..pods).map(|pod| placed_pod(pod % gangs, pod, pod % nodes.max(1)));
    client::create_all(&api, placed, load).await.map(drop)
}

fn running_group(gang: usize, pods: usize, gangs: usize) -> Value {
    let size = pods / gangs + usize::from(gang < pods % gangs);
    let mut group = client::group(gang, size);
    group["status"] = json!({"phase": "Running"});
    group
}

fn placed_pod(gang: usize, pod: usize, node: usize) -> Value {
    let mut object = client::pod(&format!("gang-{gang}-{pod}"), "volcano", Some(gang));
    object["spec"]["nodeName"] = json!(format!("node-{node}"));
    object["spec"]["containers"][0]["resources"]["requests"] = json!({"cpu": "100m", "memory": "1Gi"});
    object
}

/// Seconds and bytes to read all nodes, pods and PodGroups, with nothing made of them.
pub(crate) async fn bare_list(client: &Client) -> Result<(f64, usize)> {
    let started = Instant::now();
    let kinds = ["/api/v1/nodes", "/api/v1/pods", "/apis/scheduling.volcano.sh/v1beta1/podgroups"];
    let sizes = futures::future::try_join_all(kinds.map(|path| read_all(client, path))).await?;
    Ok((started.elapsed().as_secs_f64(), sizes.iter().sum()))
}

async fn read_all(client: &Client, path: &str) -> Result<usize> {
    let (mut bytes, mut more) = (0, String::new());
    loop {
        let uri = format!("{path}?limit={PAGE}&continue={more}");
        let page = client.request_text(http::Request::get(uri).body(Vec::new())?).await?;
        bytes += page.len();
        // The list's own metadata comes before its items.
        let head = &page[..page.find("\"items\"").unwrap_or(page.len())];
        let token = head.split("\"continue\":\"").nth(1).and_then(|rest| rest.split('"').next());
        match token.filter(|token| !token.is_empty()) {
            Some(token) => token.clone_into(&mut more),
            None => return Ok(bytes),
        }
    }
}
