//! From Volcano to Phalanx and back, by the steps of `docs/how-to/replace-volcano.md`.
//!
//! Volcano itself does not run here: its objects are written as its controllers write them, under definitions that stand
//! in for its own, which check types only.

use std::{collections::BTreeMap, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use phalanx_e2e::{
    Phalanx, PlaneOptions, crds,
    deploy::{apply, delete, manifests, manifests_of},
    fake, wait,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::deploy::start_by_manifests;
use super::{SOON, World, task};
use crate::scheduler::cluster::{Cluster, PodSpec, api_version};
use crate::scheduler::definitions::types_only;
use crate::scheduler::deploy::arguments;

const STEPS: &str = include_str!("../../../../docs/how-to/replace-volcano.md");

/// The manifests that the steps delete on the way back.
fn deleted() -> Result<Vec<Value>> {
    let lines = STEPS.lines().filter_map(|line| line.strip_prefix("kubectl delete --ignore-not-found "));
    let files = lines.flat_map(str::split_whitespace).filter(|word| word.starts_with("deploy/"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let objects = files.map(|file| manifests_of(&root.join(file))).collect::<Result<Vec<_>>>()?;
    Ok(objects.concat())
}

/// A Job of two pods that runs, as Volcano's controllers leave it, and a gang that waits.
async fn volcanos_objects(world: &World) -> Result<()> {
    world.create("Queue", "research", json!({"weight": 2, "parent": "root", "reclaimable": true})).await?;
    let spec = json!({
        "minAvailable": 2, "maxRetry": 3, "queue": "research", "schedulerName": "volcano",
        "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "tasks": [task("worker", 2, None, "")],
    });
    let job = world.create("Job", "train", spec).await?;
    let uid = job.uid().context("a UID")?;
    let status = json!({"status": {
        "state": {"phase": "Running", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        "minAvailable": 2, "running": 2, "retryCount": 1, "version": 4,
        "taskStatusCount": {"worker": {"phase": {"Running": 2}}},
    }});
    world
        .cluster
        .volcano("Job")
        .patch_status("train", &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    let owner = json!([{
        "apiVersion": api_version("Job"), "kind": "Job", "name": "train", "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    let group = format!("train-{uid}");
    let min_resources = json!({"count/pods": "2", "cpu": "2", "pods": "2", "requests.cpu": "2"});
    world
        .create_whole(
            "PodGroup",
            json!({
                "metadata": {"name": group, "ownerReferences": owner},
                "spec": {"minMember": 2, "minTaskMember": {"worker": 2}, "queue": "research", "minResources": min_resources},
                "status": {"phase": "Running", "running": 2},
            }),
        )
        .await?;
    for index in 0..2 {
        let mut pod = PodSpec::cpu(1).single(&format!("train-worker-{index}"));
        pod["metadata"] = json!({
            "name": format!("train-worker-{index}"), "ownerReferences": owner,
            "labels": {
                "volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default",
                "volcano.sh/queue-name": "research", "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": index.to_string(),
            },
            "annotations": {
                "scheduling.k8s.io/group-name": group, "volcano.sh/job-name": "train",
                "volcano.sh/job-version": "4", "volcano.sh/job-retry-count": "1",
                "volcano.sh/queue-name": "research", "volcano.sh/task-spec": "worker",
                "volcano.sh/task-index": index.to_string(), "volcano.sh/template-uid": format!("{uid}-worker"),
            },
        });
        pod["spec"]["nodeName"] = json!("node-0");
        world.cluster.create::<Pod>(pod).await?;
    }
    world.until_pods("train", 2, "Running").await?;
    world.cluster.gang("late", 2, &PodSpec::cpu(2)).await
}

/// What must not change of an object: all but its status, and of a Job what says whether it was disturbed.
fn identity(object: &impl Serialize) -> Result<Value> {
    let mut object = serde_json::to_value(object)?;
    let metadata = object["metadata"].as_object_mut().context("metadata")?;
    for written_by_the_server in ["resourceVersion", "managedFields", "generation"] {
        metadata.remove(written_by_the_server);
    }
    // The controllers mark the PodGroup of a Job with the version of the Job; pods that are made anew have another UID.
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove("volcano.sh/job-version");
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let status = object["status"].take();
    object["status"] = json!([status["retryCount"], status["version"], status["state"]["phase"]]);
    Ok(object)
}

/// What Volcano left, by kind and name.
async fn left_by_volcano(world: &World) -> Result<BTreeMap<String, Value>> {
    let mut all = BTreeMap::new();
    for kind in ["Job", "PodGroup", "Queue"] {
        for object in world.cluster.volcano(kind).list(&ListParams::default()).await? {
            all.insert(format!("{kind} {}", object.name_any()), identity(&object)?);
        }
    }
    for pod in world.pods_of("train").await? {
        all.insert(format!("Pod {}", pod.name_any()), identity(&pod)?);
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(world.cluster.client.clone());
    for definition in definitions.list(&ListParams::default()).await? {
        all.insert(definition.name_any(), serde_json::to_value(&definition.spec)?);
    }
    Ok(all)
}

fn ensure_kept(
    before: &BTreeMap<String, Value>,
    after: &BTreeMap<String, Value>,
    kinds: &[&str],
) -> Result<()> {
    for (name, object) in before {
        let now = after.get(name).with_context(|| format!("{name} is gone"))?;
        let counts = kinds.iter().any(|kind| name.starts_with(kind));
        ensure!(!counts || now == object, "{name} was\n{object}\nand is\n{now}");
    }
    Ok(())
}

async fn named_ours<K>(world: &World) -> Result<Vec<String>>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let all = Api::<K>::all(world.cluster.client.clone()).list(&ListParams::default()).await?;
    Ok(all.iter().map(ResourceExt::name_any).filter(|name| name.starts_with("phalanx")).collect())
}

async fn new_job_runs(world: &World, name: &str) -> Result<()> {
    let job = json!({"minAvailable": 1, "queue": "research", "tasks": [task("worker", 1, None, "")]});
    // A policy refuses everything until it knows the queues.
    wait::until(SOON, "the job to be taken", async || {
        world.create("Job", name, job.clone()).await.context("creating the job")
    })
    .await?;
    world.until_job(name, "Running").await.map(drop)
}

#[tokio::test]
async fn a_cluster_moves_from_volcano_and_back_and_no_object_is_disturbed() -> Result<()> {
    let cluster = Cluster::bare(PlaneOptions::default(), fake::Nodes::new(2).cpu("8")).await?;
    let definitions = tempfile::tempdir()?;
    types_only(definitions.path())?;
    crds::apply(&cluster.client, definitions.path()).await?;
    let mut world = World { cluster, controllers: None };
    volcanos_objects(&world).await?;
    let before = left_by_volcano(&world).await?;

    let objects = manifests()?;
    apply(&world.cluster.client, &objects).await?;
    let conf = objects.iter().find(|object| object["kind"] == "ConfigMap").context("a ConfigMap")?;
    let path = world.cluster.file("scheduler.conf");
    fs::write(&path, conf["data"]["scheduler.conf"].as_str().context("the conf")?)?;
    let mut flags = arguments(&objects, &path)?;
    flags.push("--wait-for-podgroup".to_owned());
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    world.cluster.scheduler = Some(Phalanx::start(&world.cluster.plane, &flags).await?);
    world.cluster.until_bound("late-", 2).await?;
    let mut world = start_by_manifests(world.cluster).await?;
    new_job_runs(&world, "first").await?;
    crds::apply(&world.cluster.client, &crds::dir()).await?;
    new_job_runs(&world, "second").await?;
    let now = left_by_volcano(&world).await?;
    ensure_kept(&before, &now, &["Job ", "PodGroup ", "Queue ", "Pod "])?;

    crds::apply(&world.cluster.client, definitions.path()).await?;
    let controllers = world.controllers.take().context("controllers")?;
    ensure!(controllers.stop().await?.success(), "the controllers end well");
    let scheduler = world.cluster.scheduler.take().context("a scheduler")?;
    ensure!(scheduler.stop().await?.success(), "the scheduler ends well");
    delete(&world.cluster.client, &deleted()?).await?;
    ensure_kept(&before, &left_by_volcano(&world).await?, &[""])?;
    let left = [
        named_ours::<ValidatingAdmissionPolicy>(&world).await?,
        named_ours::<ValidatingAdmissionPolicyBinding>(&world).await?,
        named_ours::<NetworkPolicy>(&world).await?,
    ];
    ensure!(left.iter().all(Vec::is_empty), "what would still hold Volcano up: {left:?}");
    Ok(())
}
