//! What job plugins add to pods, and the objects that they make.

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, ResourceExt as _};
use phalanx_e2e::fake;
use serde_json::{Value, json};

use super::{World, task};

/// A Job with a master and two workers, and what its plugin does.
struct Case {
    job: &'static str,
    arguments: &'static [&'static str],
    /// Of the second worker: variables, or the command, or an annotation, as `name=value`.
    worker: &'static [&'static str],
    master: &'static [&'static str],
    services: &'static [&'static str],
}

const CASES: [Case; 5] = [
    Case {
        job: "pytorch",
        arguments: &[],
        worker: &["MASTER_ADDR=pytorch-master-0.pytorch", "MASTER_PORT=23456", "WORLD_SIZE=3", "RANK=2"],
        master: &["RANK=0"],
        services: &["pytorch"],
    },
    Case {
        job: "tensorflow",
        arguments: &["--chief=master"],
        worker: &[
            r#"TF_CONFIG={"cluster":{"worker":["tensorflow-worker-0.tensorflow:2222","tensorflow-worker-1.tensorflow:2222"],"chief":["tensorflow-master-0.tensorflow:2222"]},"task":{"type":"worker","index":1}}"#,
        ],
        master: &[],
        services: &["tensorflow"],
    },
    Case {
        job: "mpi",
        arguments: &[],
        worker: &[],
        master: &["MPI_HOST=mpi-worker-0.mpi,mpi-worker-1.mpi"],
        services: &["mpi"],
    },
    Case {
        job: "ray",
        arguments: &["--head=master", "--headContainer=main", "--workerContainer=main"],
        worker: &["command=ray start --block --address=ray-master-0.ray:6379"],
        master: &[
            "command=ray start --head --block --dashboard-host=0.0.0.0 --port=6379 --dashboard-port=8265 --ray-client-server-port=10001",
        ],
        services: &["ray", "ray-head-svc"],
    },
    Case {
        job: "hcclrank",
        arguments: &[],
        worker: &["hccl/rankIndex=2"],
        master: &["hccl/rankIndex=0"],
        services: &[],
    },
];

/// Variables and command of the container, and annotations, as `name=value`.
fn additions(pod: &Pod) -> Result<Vec<String>> {
    let container = &pod.spec.as_ref().context("a spec")?.containers[0];
    let text = |name: &str, value: &str| format!("{name}={value}");
    let env = container.env.iter().flatten();
    let env = env.map(|one| text(&one.name, one.value.as_deref().unwrap_or_default()));
    let command = container.command.iter().flatten().map(|word| text("command", word));
    let annotations = pod.annotations().iter().map(|(name, value)| text(name, value));
    Ok(env.chain(command).chain(annotations).collect())
}

async fn runs(world: &World, case: &Case) -> Result<()> {
    let mut plugins = json!({});
    plugins[case.job] = json!(case.arguments);
    let tasks: Vec<Value> = vec![task("master", 1, Some("3"), "0"), task("worker", 2, Some("3"), "0")];
    world.create("Job", case.job, json!({"plugins": plugins, "tasks": tasks})).await?;
    let pods = world.until_pods(case.job, 3, "Running").await?;
    for (pod, expected) in [(&pods[0], case.master), (&pods[2], case.worker)] {
        let found = additions(pod)?;
        let lacks = expected.iter().find(|one| !found.contains(&(**one).to_owned()));
        ensure!(lacks.is_none(), "{} has no {lacks:?}: {found:?}", pod.name_any());
    }
    let services = Api::<Service>::default_namespaced(world.cluster.client.clone());
    for service in case.services {
        services.get(service).await?;
    }
    world.until_job(case.job, "Completed").await?;
    Ok(())
}

#[tokio::test]
async fn each_plugin_adds_to_pods_what_its_framework_reads() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("32")).await?;
    let runs = CASES.iter().map(async |case| runs(&world, case).await.context(case.job));
    try_join_all(runs).await?;
    Ok(())
}
