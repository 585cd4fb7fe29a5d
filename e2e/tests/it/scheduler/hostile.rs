//! Hostile objects on the real API server: the scheduler starts beside all that it takes, and goes on beside changes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    discovery::Scope,
};
use phalanx_e2e::{Phalanx, PlaneOptions, fake};
use phalanx_testkit::hostile::hostile;
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec};

/// How long a gang may take beside all of them, from its first create to its last bind, on a busy machine.
const SOON_ENOUGH: Duration = Duration::from_secs(30);

/// What the API server wants of a pod, and simulated pods need not have.
fn complete(mut object: Value) -> Value {
    if let Some(containers) = object["spec"]["containers"].as_array_mut() {
        for container in containers.iter_mut().filter(|container| container.is_object()) {
            container["image"] = json!("x");
        }
    }
    object
}

/// The API of an object, if the API server has its kind.
fn api_of(client: &Client, discovery: &Discovery, object: &DynamicObject) -> Option<Api<DynamicObject>> {
    let kind = GroupVersionKind::try_from(object.types.as_ref()?).ok()?;
    let (resource, abilities) = discovery.resolve_gvk(&kind)?;
    Some(match (abilities.scope, object.metadata.namespace.as_deref()) {
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, &resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), &resource),
        (Scope::Cluster, _) => Api::all_with(client.clone(), &resource),
    })
}

/// Creates objects, and changes those that the API server takes. Returns their number.
async fn create_all(cluster: &Cluster, objects: Vec<Value>) -> Result<usize> {
    let discovery = Discovery::new(cluster.client.clone()).run().await?;
    let (client, discovery) = (&cluster.client, &discovery);
    let create = |object: Value| async move {
        let object: DynamicObject = serde_json::from_value(complete(object)).ok()?;
        let api = api_of(client, discovery, &object)?;
        let name = object.metadata.name.clone()?;
        api.create(&PostParams::default(), &object).await.ok()?;
        let mark = json!({"metadata": {"annotations": {"changed": "yes"}}});
        let _ = api.patch(&name, &PatchParams::default(), &Patch::Merge(mark)).await;
        Some(())
    };
    let created = stream::iter(objects).map(create).buffer_unordered(32).collect::<Vec<_>>().await;
    Ok(created.into_iter().flatten().count())
}

async fn gang_in_time(cluster: &Cluster, name: &str) -> Result<()> {
    let begun = Instant::now();
    cluster.gang(name, 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound(&format!("{name}-"), 4).await?;
    ensure!(begun.elapsed() <= SOON_ENOUGH, "{name} took {:?}", begun.elapsed());
    Ok(())
}

#[tokio::test]
async fn gangs_are_bound_beside_all_hostile_objects_that_the_api_server_takes() -> Result<()> {
    let nodes = fake::Nodes::new(2).cpu("16");
    let mut cluster = Cluster::without_scheduler(PlaneOptions::default(), nodes).await?;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "bad"}}))?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &namespace).await?;
    let (before, beside): (Vec<_>, Vec<_>) = hostile()
        .into_iter()
        .flat_map(|(_, objects)| objects)
        .enumerate()
        .partition(|(at, _)| at.is_multiple_of(2));
    let [before, beside] = [before, beside].map(|part| part.into_iter().map(|(_, object)| object).collect());
    let taken = create_all(&cluster, before).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    gang_in_time(&cluster, "first").await?;
    let taken = taken + create_all(&cluster, beside).await?;
    gang_in_time(&cluster, "second").await?;
    ensure!(taken >= 200, "the API server took {taken} of the objects");
    let log = cluster.phalanx().log_text();
    let panic = log.lines().find(|line| line.contains("panicked"));
    ensure!(panic.is_none(), "{}", panic.context("a line")?);
    Ok(())
}
