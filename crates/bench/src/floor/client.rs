//! The client of a run: creates PodGroups and pods, binds pods, and sees them bound.
use std::time::Instant;

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource};
use phalanx_cache::slim;
use serde_json::{Value, json};

use crate::Size;

/// Where all pods are.
const NAMESPACE: &str = "default";

/// Creates the gangs, unless the scheduler knows none, and then all pods, gang by gang.
pub(crate) async fn create(
    client: &Client,
    size: Size,
    scheduler: &str,
    gangs: bool,
    in_flight: usize,
) -> Result<()> {
    if gangs {
        let resource =
            ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let groups = (0..size.gangs).map(|gang| group(gang, size.size));
        create_all(&api, groups, in_flight).await?;
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &pods_resource());
    let names = (0..size.gangs).flat_map(|gang| (0..size.size).map(move |index| (gang, index)));
    create_all(&api, names.map(|(gang, index)| pod(gang, index, scheduler, gangs)), in_flight).await
}

async fn create_all(
    api: &Api<DynamicObject>,
    objects: impl Iterator<Item = Value>,
    in_flight: usize,
) -> Result<()> {
    stream::iter(objects)
        .map(|object| async move {
            let object: DynamicObject = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &object).await.map(drop).context("creating an object")
        })
        .buffer_unordered(in_flight)
        .try_collect()
        .await
}

/// Binds all pods, filling node after node, with no scheduler.
pub(crate) async fn bind(client: &Client, size: Size, per_node: usize, in_flight: usize) -> Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &pods_resource());
    let names = (0..size.gangs).flat_map(|gang| (0..size.size).map(move |index| pod_name(gang, index)));
    stream::iter(names.enumerate())
        .map(|(at, name)| {
            let api = &api;
            async move {
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": format!("node-{}", at / per_node)});
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
                let answer: Value = api.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
                if answer["status"] != "Success" {
                    bail!("binding {name}: {answer}");
                }
                Ok(())
            }
        })
        .buffer_unordered(in_flight)
        .try_collect()
        .await
}

/// When the first and the last of so many pods were seen bound.
pub(crate) async fn seen_bound(client: Client, count: usize) -> Result<(Instant, Instant)> {
    let api: Api<slim::Pod> = Api::namespaced(client, NAMESPACE);
    let mut bound = std::collections::HashSet::new();
    let mut first = None;
    loop {
        // The server closes slow watches under load: list, then watch again from there.
        let fields = "spec.nodeName!=";
        let list = api.list(&ListParams::default().fields(fields)).await?;
        bound.extend(list.items.into_iter().filter_map(|pod| pod.meta().uid.clone()));
        let version = list.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().fields(fields);
        let mut events = api.watch(&params, &version).await?.boxed();
        loop {
            if !bound.is_empty() {
                first.get_or_insert_with(Instant::now);
            }
            if bound.len() >= count {
                let last = Instant::now();
                return Ok((first.unwrap_or(last), last));
            }
            match events.try_next().await {
                Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => {
                    bound.extend(pod.meta().uid.clone());
                }
                Ok(Some(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_))) => {}
                Ok(Some(WatchEvent::Error(_)) | None) | Err(_) => break,
            }
        }
    }
}

fn pods_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"))
}

fn gang_name(gang: usize) -> String {
    format!("gang-{gang}")
}

fn pod_name(gang: usize, index: usize) -> String {
    format!("gang-{gang}-{index}")
}

fn group(gang: usize, size: usize) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": gang_name(gang), "namespace": NAMESPACE},
        "spec": {"minMember": size, "queue": "default"},
    })
}

fn pod(gang: usize, index: usize, scheduler: &str, in_gang: bool) -> Value {
    let annotations =
        if in_gang { json!({"scheduling.k8s.io/group-name": gang_name(gang)}) } else { json!({}) };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": pod_name(gang, index), "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none",
                            "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}],
        },
    })
}
