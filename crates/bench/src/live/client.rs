//! The client of a run: creates PodGroups and pods, binds pods, and sees them bound.
use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource};
use phalanx_cache::slim;
use serde_json::{Value, json};

use super::{Groups, Load};

/// Where all pods are.
pub(crate) const NAMESPACE: &str = "default";

/// Creates the PodGroups, unless there are to be none, and then all pods, group by group. Returns when each pod's
/// creation was answered.
pub(crate) async fn create(client: &Client, load: Load, scheduler: &str) -> Result<Vec<Instant>> {
    let size = load.size;
    let grouped = load.groups != Groups::None;
    if grouped {
        let min_member = if load.groups == Groups::Gangs { size.size } else { 1 };
        let groups = (0..size.gangs).map(|gang| group(gang, min_member));
        create_all(&Api::namespaced_with(client.clone(), NAMESPACE, &groups_resource()), groups, load)
            .await?;
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &pods_resource());
    let names = (0..size.gangs).flat_map(|gang| (0..size.size).map(move |index| (gang, index)));
    let member = |(gang, index)| pod(&pod_name(gang, index), scheduler, grouped.then_some(gang));
    create_all(&api, names.map(member), load).await
}

/// One pod of no gang.
pub(crate) async fn create_pod(client: &Client, name: &str, scheduler: &str) -> Result<()> {
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &pods_resource());
    let object = serde_json::from_value(pod(name, scheduler, None))?;
    api.create(&PostParams::default(), &object)
        .await
        .map(drop)
        .with_context(|| format!("creating pod {name}"))
}

/// A scheduler that has bound a pod is at work: its watches, its queues and its connections are there.
pub(crate) async fn warm_up(client: &Client, scheduler: &str) -> Result<()> {
    let name = "warm-up";
    let mut bound = Bound::watch_one(client.clone(), name).await?;
    create_pod(client, name, scheduler).await?;
    bound.wait_for(name).await?;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &pods_resource());
    api.delete(name, &DeleteParams::default().grace_period(0))
        .await
        .map(drop)
        .context("deleting the first pod")?;
    // Waits until the writes after a bind (statuses, the event) are over too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    Ok(())
}

/// Pods as they get their nodes.
pub(crate) struct Bound {
    events: BoxStream<'static, kube::Result<WatchEvent<slim::Pod>>>,
}

impl Bound {
    /// From now on.
    pub(crate) async fn watch(client: Client) -> Result<Self> {
        Self::of(client, "spec.nodeName!=").await
    }

    /// One pod only.
    pub(crate) async fn watch_one(client: Client, name: &str) -> Result<Self> {
        Self::of(client, &format!("spec.nodeName!=,metadata.name={name}")).await
    }

    /// From now on, with all pods that have a node first.
    pub(crate) fn watch_from_start(client: Client) -> Self {
        Self::since(client, "spec.nodeName!=", "0".to_owned())
    }

    async fn of(client: Client, fields: &str) -> Result<Self> {
        let api: Api<slim::Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let list = api.list(&ListParams::default().fields(fields).limit(1)).await?;
        Ok(Self::since(client, fields, list.metadata.resource_version.unwrap_or_default()))
    }

    fn since(client: Client, fields: &str, version: String) -> Self {
        // Longer than most benchmarks wait; without it the server ends the watch after some minutes.
        let params = WatchParams::default().fields(fields).timeout(290);
        let api: Api<slim::Pod> = Api::namespaced(client, NAMESPACE);
        let events =
            futures::stream::once(async move { api.watch(&params, &version).await.map(StreamExt::boxed) });
        Self { events: events.try_flatten().boxed() }
    }

    /// The next pod that is seen with a node, and when; `None` when the watch ends.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, Instant)>> {
        while let Some(event) = self.events.try_next().await? {
            if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event
                && let Some(name) = pod.meta().name.clone()
            {
                return Ok(Some((name, Instant::now())));
            }
        }
        Ok(None)
    }

    /// When the pod was seen with a node; others are passed over.
    pub(crate) async fn wait_for(&mut self, name: &str) -> Result<Instant> {
        while let Some((seen, at)) = self.next().await? {
            if seen == name {
                return Ok(at);
            }
        }
        bail!("the watch ended before pod {name} was bound")
    }
}

/// Creates objects in order, so many in flight and at that rate. Returns when each was answered.
pub(crate) async fn create_all(
    api: &Api<DynamicObject>,
    objects: impl Iterator<Item = Value>,
    load: Load,
) -> Result<Vec<Instant>> {
    let started = Instant::now();
    let due = |at: usize| load.rate.map(|rate| started + Duration::from_secs_f64(at as f64 / rate));
    let mut answered: Vec<(usize, Instant)> = stream::iter(objects.enumerate())
        .map(|(at, object)| async move {
            if let Some(due) = due(at) {
                tokio::time::sleep_until(due.into()).await;
            }
            let object: DynamicObject = serde_json::from_value(object)?;
            api.create(&PostParams::default(), &object).await.context("creating an object")?;
            Ok::<_, anyhow::Error>((at, Instant::now()))
        })
        .buffer_unordered(load.in_flight)
        .try_collect()
        .await?;
    answered.sort_unstable_by_key(|&(at, _)| at);
    Ok(answered.into_iter().map(|(_, answered)| answered).collect())
}

/// Binds all pods, filling node after node, with no scheduler.
pub(crate) async fn bind(client: &Client, load: Load, per_node: usize) -> Result<()> {
    let started = Instant::now();
    let size = load.size;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), NAMESPACE, &pods_resource());
    let names = (0..size.gangs).flat_map(|gang| (0..size.size).map(move |index| pod_name(gang, index)));
    stream::iter(names.enumerate())
        .map(|(at, name)| {
            let api = &api;
            async move {
                if let Some(rate) = load.rate {
                    let due = started + Duration::from_secs_f64(at as f64 / rate);
                    tokio::time::sleep_until(due.into()).await;
                }
                let target = json!({"apiVersion": "v1", "kind": "Node", "name": format!("node-{}", at / per_node)});
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
                let answer: Value = api.create_subresource("binding", &name, &PostParams::default(), &binding).await?;
                if answer["status"] != "Success" {
                    bail!("binding {name}: {answer}");
                }
                Ok(())
            }
        })
        .buffer_unordered(load.in_flight)
        .try_collect()
        .await
}

/// When each pod was seen bound, by its name.
#[derive(Default)]
pub(crate) struct Seen(HashMap<String, Instant>);

impl Seen {
    fn add(&mut self, pod: &slim::Pod) {
        if let Some(name) = &pod.meta().name {
            self.0.entry(name.clone()).or_insert_with(Instant::now);
        }
    }

    pub(crate) fn first(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    pub(crate) fn last(&self) -> Option<Instant> {
        self.0.values().max().copied()
    }

    /// Milliseconds from the answer to a gang's last creation until its last bind was seen, for each gang.
    pub(crate) fn gang_waits(&self, created: &[Instant], size: usize) -> Vec<f64> {
        let wait = |(gang, created): (usize, &[Instant])| {
            let seen = (0..created.len()).filter_map(|index| self.0.get(&pod_name(gang, index))).max()?;
            let wait = seen.saturating_duration_since(*created.iter().max()?);
            Some(wait.as_secs_f64() * 1e3)
        };
        created.chunks(size.max(1)).enumerate().filter_map(wait).collect()
    }
}

/// Waits until so many pods are bound.
pub(crate) async fn seen_bound(client: Client, count: usize) -> Result<Seen> {
    let api: Api<slim::Pod> = Api::namespaced(client, NAMESPACE);
    let mut seen = Seen::default();
    loop {
        // The server closes slow watches under load: list, then watch again from there.
        let fields = "spec.nodeName!=";
        let list = api.list(&ListParams::default().fields(fields)).await?;
        list.items.iter().for_each(|pod| seen.add(pod));
        let version = list.metadata.resource_version.unwrap_or_default();
        let params = WatchParams::default().fields(fields);
        let mut events = api.watch(&params, &version).await?.boxed();
        loop {
            if seen.0.len() >= count {
                return Ok(seen);
            }
            match events.try_next().await {
                Ok(Some(WatchEvent::Added(pod) | WatchEvent::Modified(pod))) => seen.add(&pod),
                Ok(Some(WatchEvent::Deleted(_) | WatchEvent::Bookmark(_))) => {}
                Ok(Some(WatchEvent::Error(_)) | None) | Err(_) => break,
            }
        }
    }
}

pub(crate) fn groups_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("scheduling.volcano.sh", "v1beta1", "PodGroup"))
}

pub(crate) fn pods_resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"))
}

pub(crate) fn gang_name(gang: usize) -> String {
    format!("gang-{gang}")
}

pub(crate) fn pod_name(gang: usize, index: usize) -> String {
    format!("gang-{gang}-{index}")
}

/// A PodGroup.
pub(crate) fn group(gang: usize, min_member: usize) -> Value {
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": gang_name(gang), "namespace": NAMESPACE},
        "spec": {"minMember": min_member, "queue": "default"},
    })
}

/// A pod, of a gang if there is one.
pub(crate) fn pod(name: &str, scheduler: &str, gang: Option<usize>) -> Value {
    let annotations = gang.map_or(json!({}), |gang| json!({"scheduling.k8s.io/group-name": gang_name(gang)}));
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "none",
                            "resources": {"requests": {"cpu": "1", "memory": "4Gi"}}}],
        },
    })
}
