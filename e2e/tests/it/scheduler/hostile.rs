//! Hostile objects of all sorts at once, some of each, on a real API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use phalanx_e2e::{Phalanx, PlaneOptions, deploy::NAMESPACE, fake, wait};
use phalanx_testkit::hostile::{hostile, hostile_jobs};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;
use serde_json::{Value, json};

use super::bad_objects::deep;
use super::cluster::{Cluster, PodSpec, SOON, api_version};

const FLAGS: [&str; 2] = ["--controllers", "--leader-elect=true"];
/// How long others may wait beside hostile objects. What takes time is the API server, which these tests share with
/// others on two cores: each write of a pod of ten thousand resources, tolerations or containers, be it but a condition,
/// costs it a second or two. A cycle of the scheduler takes some 10 ms all the while.
const OTHERS_WAIT: Duration = Duration::from_mins(2);
/// Of each kind of oddity, the first ones are sent and as many of the others: a plain object takes some 10 ms.
const OF_EACH: usize = 5;
/// An object that is longer does not fit into etcd, which the API server finds out after it has checked all the rest.
const BYTES_MAX: usize = 1 << 20;
/// Requests that are sent together.
const AT_ONCE: usize = 8;
/// The API server takes minutes for a number with this exponent, and answers nothing else meanwhile: its own fault.
const STOPS_THE_API_SERVER: &str = "1e2147483648";
/// Pods of this job would take the API server half a minute.
const TOO_MANY_PODS: &str = "many-pods";

/// Objects as a user would send them: so that little beside what is odd about them is refused.
fn sent(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("uid");
    }
    if object["kind"] == "Pod" {
        for containers in ["/spec/containers", "/spec/initContainers"] {
            for container in
                object.pointer_mut(containers).and_then(Value::as_array_mut).into_iter().flatten()
            {
                if container["resources"]["requests"].is_object() {
                    container["image"] = json!("example.com/none");
                    container["resources"]["limits"] = container["resources"]["requests"].clone();
                }
            }
        }
    }
    object
}

/// Some of all that is hostile, the same each time.
fn some_of_all() -> Vec<Value> {
    let mut random = Pcg64::seed_from_u64(3);
    let mut all = Vec::new();
    for (_, part) in hostile().into_iter().chain(hostile_jobs()) {
        let share = OF_EACH as f64 / part.len() as f64;
        for (at, object) in part.into_iter().enumerate() {
            let text = object.to_string();
            let is_for_us = object["metadata"]["name"] != TOO_MANY_PODS
                && text.len() <= BYTES_MAX
                && !text.contains(STOPS_THE_API_SERVER);
            if is_for_us && (at < OF_EACH || random.random_bool(share.min(1.0))) {
                all.push(sent(object));
            }
        }
    }
    all
}

fn path(object: &Value) -> Result<String> {
    let kind = object["kind"].as_str().context("a kind")?.to_lowercase();
    let plural = if kind.ends_with('s') { format!("{kind}es") } else { format!("{kind}s") };
    let version = object["apiVersion"].as_str().context("a version")?;
    let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let namespace = object["metadata"]["namespace"].as_str();
    Ok(namespace.map_or(format!("{root}/{plural}"), |name| format!("{root}/namespaces/{name}/{plural}")))
}

/// Sends an object; `false` when the API server refuses it.
async fn post(cluster: &Cluster, object: &Value) -> Result<bool> {
    let request = http::Request::post(path(object)?)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(object.to_string().into_bytes())?;
    match cluster.client.request_text(request).await {
        Ok(_) => Ok(true),
        // 500 is the answer to a panic of its checks and to what is too large for etcd.
        Err(kube::Error::Api(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Accepted and refused objects, by kind.
type Counts = BTreeMap<String, [usize; 2]>;

async fn send_all(cluster: &Cluster, objects: &[Value]) -> Result<Counts> {
    let mut counts = Counts::new();
    let answers = stream::iter(objects).map(async |object| (object, post(cluster, object).await));
    let mut answers = std::pin::pin!(answers.buffer_unordered(AT_ONCE));
    while let Some((object, accepted)) = answers.next().await {
        let count = counts.entry(object["kind"].as_str().unwrap_or_default().to_owned()).or_default();
        count[usize::from(!accepted?)] += 1;
    }
    Ok(counts)
}

/// Devices for claims, and claims that nest deeper than is read.
async fn prepare(cluster: &Cluster) -> Result<()> {
    cluster.namespace("bad", json!({})).await?;
    let class = json!({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.x'"}}]}});
    let devices: Vec<Value> = (0..8).map(|at| json!({"name": format!("d{at}")})).collect();
    let slice = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"},
        "spec": {"driver": "gpu.x", "nodeName": "bad-0", "pool": {"name": "bad-0", "generation": 1, "resourceSliceCount": 1}, "devices": devices}});
    for object in [class, slice] {
        ensure!(post(cluster, &object).await?, "{object}");
    }
    for at in 0..4 {
        let config = json!([{"opaque": {"driver": "gpu.x", "parameters": "PARAMETERS"}}]);
        let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
        let claim = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": format!("deep-{at}")},
            "spec": {"devices": {"requests": [request], "config": config}}});
        deep(cluster, "namespaces/bad/resourceclaims", claim).await?;
    }
    Ok(())
}

/// A gang is bound, and a job runs to its end.
async fn others_get_theirs(cluster: &Cluster, name: &str) -> Result<()> {
    let begun = Instant::now();
    let job = format!("job-{name}");
    let task = json!({"name": "t", "replicas": 2, "template": {
        "metadata": {"annotations": {fake::RUN_SECONDS: "0.2"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none",
            "resources": {"requests": {"cpu": "1"}}}]}}});
    let object: DynamicObject =
        serde_json::from_value(json!({"apiVersion": api_version("Job"), "kind": "Job",
        "metadata": {"name": job}, "spec": {"tasks": [task]}}))?;
    cluster.volcano("Job").create(&PostParams::default(), &object).await?;
    cluster.gang(name, 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound(&format!("{name}-"), 4).await?;
    let ended = |status: &Value| status["state"]["phase"] == "Completed";
    cluster.until_status("Job", &job, "completed", ended).await?;
    let took = begun.elapsed();
    eprintln!("{name}: a gang is bound and a job has run after {took:?}");
    ensure!(took < OTHERS_WAIT, "{name} took {took:?}");
    Ok(())
}

/// Who holds which lease since when.
async fn leases(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let held = |lease: Lease| {
        let (name, spec) = (lease.name_any(), lease.spec.unwrap_or_default());
        format!("{name}: {:?} since {:?}", spec.holder_identity, spec.acquire_time)
    };
    Ok(leases.list(&ListParams::default()).await?.into_iter().map(held).collect())
}

/// Waits until each gang of any namespace has all of its pods on nodes or none.
async fn until_gangs_are_whole(cluster: &Cluster) -> Result<()> {
    let (group, version) = api_version("PodGroup").split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, "PodGroup"));
    let groups: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
    let pods: Api<Pod> = Api::all(cluster.client.clone());
    wait::until(SOON, "whole gangs", async || {
        let mut bound: BTreeMap<(Option<String>, String), u64> = BTreeMap::new();
        for pod in pods.list(&ListParams::default()).await? {
            let group = pod.annotations().get("scheduling.k8s.io/group-name").cloned();
            if let Some(group) =
                group.filter(|_| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()))
            {
                *bound.entry((pod.namespace(), group)).or_default() += 1;
            }
        }
        for group in groups.list(&ListParams::default()).await? {
            let min = group.data["spec"]["minMember"].as_u64().unwrap_or(0);
            let bound = bound.get(&(group.namespace(), group.name_any())).copied().unwrap_or(0);
            ensure!(bound == 0 || bound >= min, "{}: {bound} of {min} are bound", group.name_any());
        }
        Ok(())
    })
    .await
}

#[tokio::test]
async fn hostile_objects_of_all_sorts_at_once_stop_neither_scheduler_nor_controllers() -> Result<()> {
    // Room for all that hostile jobs ask for: that they get no more than their share is for capabilities of queues.
    let nodes = fake::Nodes::new(2).cpu("512").label("pool", "good");
    let mut cluster = Cluster::without_scheduler(PlaneOptions::default(), nodes).await?;
    cluster.define_jobs().await?;
    fake::Nodes::new(2).prefix("bad").cpu("512").label("pool", "bad").create(&cluster.client).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &FLAGS).await?);
    others_get_theirs(&cluster, "before").await?;
    let held = leases(&cluster).await?;
    prepare(&cluster).await?;
    let begun = Instant::now();
    let counts = send_all(&cluster, &some_of_all()).await?;
    eprintln!("accepted and refused in {:?}: {counts:?}", begun.elapsed());
    let sum = |at: usize| counts.values().map(|count| count[at]).sum::<usize>();
    ensure!(sum(0) >= 100 && sum(1) >= 50 && counts.len() >= 12, "accepted and refused: {counts:?}");
    others_get_theirs(&cluster, "during").await?;
    until_gangs_are_whole(&cluster).await?;
    assert_eq!(leases(&cluster).await?, held, "the leases were kept");

    cluster.scheduler.take().context("a scheduler")?.stop().await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &FLAGS).await?);
    others_get_theirs(&cluster, "after").await?;
    until_gangs_are_whole(&cluster).await
}
