//! The examples under `config/examples`, applied as a user would, without the nodes of their simulation.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, PostParams, TypeMeta},
};
use phalanx_e2e::{fake, wait};
use serde::Deserialize as _;
use serde_json::Value;

use super::{SOON, World};

/// An example, and what comes of it.
struct Example {
    folder: &'static str,
    /// How the names of its pods begin.
    prefix: &'static str,
    /// How many pods run, together or one after the other.
    pods: usize,
    /// Kind and name of the object that tells how far the example is.
    object: (&'static str, &'static str),
    /// The field of its status to wait for, and the value; any value where there is none.
    status: (&'static str, Option<&'static str>),
}

const EXAMPLES: [Example; 8] = [
    Example {
        folder: "pytorch-job",
        prefix: "pytorch-",
        pods: 4,
        object: ("Job", "pytorch"),
        status: ("/state/phase", Some("Completed")),
    },
    Example {
        folder: "mpi-job",
        prefix: "mpi-",
        pods: 4,
        object: ("Job", "mpi"),
        status: ("/state/phase", Some("Completed")),
    },
    Example {
        folder: "ray-job",
        prefix: "ray-",
        pods: 4,
        object: ("Job", "ray"),
        status: ("/state/phase", Some("Running")),
    },
    Example {
        folder: "job-flow",
        prefix: "nightly-",
        pods: 7,
        object: ("JobFlow", "nightly"),
        status: ("/state/phase", Some("Succeed")),
    },
    Example {
        folder: "cron-job",
        prefix: "report-",
        pods: 2,
        object: ("CronJob", "report"),
        status: ("/lastSuccessfulTime", None),
    },
    Example {
        folder: "kubeflow",
        prefix: "mnist-",
        pods: 3,
        object: ("PodGroup", "mnist"),
        status: ("/phase", Some("Completed")),
    },
    Example {
        folder: "kuberay",
        prefix: "demo-",
        pods: 3,
        object: ("PodGroup", "ray-demo-pg"),
        status: ("/phase", Some("Running")),
    },
    Example {
        folder: "spark",
        prefix: "pi-",
        pods: 3,
        object: ("PodGroup", "spark-pi-pg"),
        status: ("/phase", Some("Completed")),
    },
];

/// The objects of an example, but for its nodes.
fn manifests(folder: &str) -> Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/examples").join(folder);
    let mut objects = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            for document in serde_yaml::Deserializer::from_str(&fs::read_to_string(&path)?) {
                objects.push(Value::deserialize(document)?);
            }
        }
    }
    objects.retain(|object| object["kind"] != "Node");
    Ok(objects)
}

/// Shortens what a test need not wait for: run times to three seconds, and the time between Jobs to a minute.
fn hasten(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match key.as_str() {
                    fake::RUN_SECONDS => *value = "3".into(),
                    "schedule" => *value = "* * * * *".into(),
                    _ => hasten(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(hasten),
        _ => {}
    }
}

async fn apply(world: &World, mut object: Value) -> Result<()> {
    hasten(&mut object);
    let object: DynamicObject = serde_json::from_value(object)?;
    let TypeMeta { api_version, kind } = object.types.clone().context("apiVersion and kind")?;
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(group, version, &kind));
    let api = Api::<DynamicObject>::default_namespaced_with(world.cluster.client.clone(), &resource);
    let created = api.create(&PostParams::default(), &object).await;
    created.with_context(|| format!("{kind} {}", object.name_any()))?;
    Ok(())
}

/// Waits until so many different pods were seen that have been started.
async fn until_pods_ran(world: &World, example: &Example) -> Result<()> {
    let started = |pod: &Pod| {
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        pod.name_any().starts_with(example.prefix) && matches!(phase, Some("Running" | "Succeeded"))
    };
    let seen = std::sync::Mutex::new(BTreeSet::new());
    wait::until(SOON, &format!("{} pods {}* to run", example.pods, example.prefix), async || {
        let pods = world.cluster.pods().await?;
        let mut seen = seen.lock().map_err(|_| anyhow::anyhow!("a panic"))?;
        seen.extend(pods.iter().filter(|pod| started(pod)).map(kube::ResourceExt::name_any));
        ensure!(seen.len() >= example.pods, "these did: {seen:?}");
        Ok(())
    })
    .await
}

async fn until_status(world: &World, example: &Example) -> Result<()> {
    let ((kind, name), (field, wanted)) = (example.object, example.status);
    let is = |status: &Value| {
        let found = status.pointer(field).and_then(Value::as_str);
        found.is_some() && (wanted.is_none() || found == wanted)
    };
    let what = format!("{field} {}", wanted.unwrap_or("there"));
    world.cluster.until_status(kind, name, &what, is).await?;
    Ok(())
}

#[tokio::test]
async fn the_examples_run_on_a_cluster() -> Result<()> {
    let nodes = fake::Nodes::new(4).cpu("64").memory("512Gi").extended("nvidia.com/gpu", "8");
    let world = World::start(nodes).await?;
    for example in &EXAMPLES {
        for object in manifests(example.folder)? {
            apply(&world, object).await.with_context(|| example.folder)?;
        }
    }
    let watched = EXAMPLES.iter().map(async |example| {
        let ran = async { until_pods_ran(&world, example).await };
        let came = async { until_status(&world, example).await };
        futures::future::try_join(ran, came).await.with_context(|| example.folder)
    });
    try_join_all(watched).await.with_context(|| world.logs())?;
    Ok(())
}
