//! Jobs from their creation to their end.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Api, ResourceExt as _, api::PostParams};
use phalanx_e2e::{Phalanx, PlaneOptions, deploy::NAMESPACE, fake, wait};
use serde_json::{Value, json};

use super::{Cluster, SOON, World, task};

#[tokio::test]
async fn a_job_with_plugins_runs_to_its_end() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("4")).await?;
    let client = world.cluster.client.clone();
    let spec = json!({
        "minAvailable": 3, "plugins": {"ssh": [], "svc": [], "env": []},
        "tasks": [task("master", 1, Some("1"), "0"), task("worker", 2, Some("1"), "0")],
    });
    world.create("Job", "train", spec).await?;
    let pods = world.until_pods("train", 3, "Running").await?;
    let names: Vec<String> = pods.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["train-master-0", "train-worker-0", "train-worker-1"]);
    let container = &pods[2].spec.as_ref().context("a spec")?.containers[0];
    let env = |name: &str| container.env.iter().flatten().find(|one| one.name == name);
    assert_eq!(env("VC_TASK_INDEX").and_then(|one| one.value.as_deref()), Some("1"));
    ensure!(env("VC_WORKER_HOSTS").is_some(), "{:?}", container.env);

    let secret = Api::<Secret>::default_namespaced(client.clone()).get("train-ssh").await?;
    let file = |name: &str| -> Result<String> {
        let data = secret.data.as_ref().and_then(|data| data.get(name)).context("a file")?;
        Ok(String::from_utf8(data.0.clone())?)
    };
    ensure!(file("id_rsa")?.starts_with("-----BEGIN RSA PRIVATE KEY-----"), "{}", file("id_rsa")?);
    ensure!(file("authorized_keys")?.starts_with("ssh-rsa "), "{}", file("authorized_keys")?);
    let maps = Api::<ConfigMap>::default_namespaced(client.clone());
    let hosts = maps.get("train-svc").await?.data.context("hosts")?;
    assert_eq!(hosts["worker.host"], "train-worker-0.train\ntrain-worker-1.train");
    Api::<Service>::default_namespaced(client.clone()).get("train").await?;
    Api::<NetworkPolicy>::default_namespaced(client.clone()).get("train").await?;

    let status = world.until_job("train", "Completed").await?;
    assert_eq!((&status["succeeded"], &status["retryCount"]), (&json!(3), &json!(0)), "{status}");
    wait::until(SOON, "what plugins made to be deleted", async || {
        ensure!(maps.get_opt("train-svc").await?.is_none(), "the hosts are there");
        let groups = world.cluster.volcano("PodGroup").list(&kube::api::ListParams::default()).await?;
        ensure!(groups.items.is_empty(), "PodGroups are there");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn a_failed_pod_restarts_its_job_as_the_policy_says() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("4")).await?;
    let spec = json!({
        "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "tasks": [task("worker", 2, Some("1"), "3,0")],
    });
    world.create("Job", "flaky", spec).await?;
    let status = world.until_job("flaky", "Completed").await?;
    assert_eq!((&status["retryCount"], &status["succeeded"]), (&json!(1), &json!(2)), "{status}");
    for pod in world.pods_of("flaky").await? {
        assert_eq!(pod.annotations()["volcano.sh/job-retry-count"], "1", "{}", pod.name_any());
    }
    world.cluster.until_event("ExecuteAction", "flaky").await?;
    Ok(())
}

#[tokio::test]
async fn a_policy_on_an_exit_code_answers_that_code_only() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("4")).await?;
    let policies = json!([{"exitCode": 3, "action": "CompleteJob"}, {"exitCode": 4, "action": "AbortJob"}]);
    for (name, code) in [("three", "3"), ("four", "4")] {
        let tasks = json!([task("worker", 1, Some("0.5"), code), task("other", 1, None, "")]);
        world.create("Job", name, json!({"policies": policies, "tasks": tasks})).await?;
    }
    world.until_job("three", "Completed").await?;
    world.until_job("four", "Aborted").await?;
    Ok(())
}

#[tokio::test]
async fn an_evicted_pod_is_made_again_and_the_job_goes_on() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("4")).await?;
    let spec = json!({
        "policies": [{"event": "PodEvicted", "action": "RestartTask"}],
        "tasks": [task("worker", 2, None, "")],
    });
    world.create("Job", "served", spec).await?;
    let before = world.until_pods("served", 2, "Running").await?;
    world.until_job("served", "Running").await?;
    world.cluster.delete_pods("served-worker-0").await?;
    wait::until(SOON, "both pods to be other ones", async || {
        let now = world.pods_of("served").await?;
        let old = now.iter().filter(|pod| before.iter().any(|other| other.uid() == pod.uid())).count();
        ensure!(now.len() == 2 && old == 0, "{} pods, {old} of them old", now.len());
        Ok(())
    })
    .await?;
    let status = world.until_job("served", "Running").await?;
    assert_eq!(status["retryCount"], 1, "{status}");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_the_scheduler_evicts_restarts_its_job_as_the_policy_says() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("4")).await?;
    cluster.define_jobs().await?;
    // Without the action enqueue: it keeps a job waiting for which there is no room.
    let preempting = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/preempt-and-reclaim.yaml");
    let text = std::fs::read_to_string(preempting)?;
    ensure!(text.contains("enqueue, "), "{text}");
    std::fs::write(cluster.file("scheduler.conf"), text.replace("enqueue, ", ""))?;
    let conf = format!("--scheduler-conf={}", cluster.file("scheduler.conf").display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&conf]).await?);
    let controllers = Some(Phalanx::start_controllers(&cluster.plane, &[]).await?);
    let world = World { cluster, controllers };
    let class: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "urgent"}, "value": 1000}))?;
    Api::all(world.cluster.client.clone()).create(&PostParams::default(), &class).await?;
    let mut workers = task("worker", 4, None, "");
    workers["minAvailable"] = json!(1);
    let spec = json!({
        "minAvailable": 1, "policies": [{"event": "PodEvicted", "action": "RestartJob"}], "tasks": [workers],
    });
    world.create("Job", "modest", spec).await?;
    world.until_pods("modest", 4, "Running").await?;
    world.until_job("modest", "Running").await?;
    let urgent = json!({"priorityClassName": "urgent", "tasks": [task("worker", 2, None, "")]});
    world.create("Job", "urgent", urgent).await?;
    world.until_pods("urgent", 2, "Running").await?;
    let again = |status: &Value| status["retryCount"] == 1 && status["running"] == 2;
    world.cluster.until_status("Job", "modest", "2 pods that run after a restart", again).await?;
    world.cluster.until_event_with("ExecuteAction", "modest", "PodEvicted").await?;
    Ok(())
}

#[tokio::test]
async fn a_job_is_deleted_when_its_time_to_live_is_over() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let spec = json!({"ttlSecondsAfterFinished": 1, "tasks": [task("worker", 1, Some("0.2"), "0")]});
    world.create("Job", "brief", spec).await?;
    let jobs = world.cluster.volcano("Job");
    wait::until(SOON, "the job to be deleted", async || {
        let job = jobs.get_opt("brief").await?;
        // Without kube-controller-manager, nobody ends a deletion in the foreground.
        let asked = job.as_ref().is_none_or(|job| job.metadata.deletion_timestamp.is_some());
        ensure!(asked, "{:?}", job.map(|job| job.data["status"].clone()));
        Ok(())
    })
    .await
}

#[tokio::test]
async fn the_controllers_run_in_the_process_of_the_scheduler_too() -> Result<()> {
    let lease = ["--controllers", "--leader-elect=true"];
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("4"), &lease).await?;
    let world = World { cluster, controllers: None };
    world.create("Job", "one", json!({"tasks": [task("worker", 2, Some("0.5"), "0")]})).await?;
    world.until_job("one", "Completed").await?;
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
        Api::namespaced(world.cluster.client, NAMESPACE);
    for name in ["volcano", "vc-controller-manager"] {
        let holder = leases.get(name).await?.spec.and_then(|spec| spec.holder_identity);
        ensure!(holder.is_some_and(|holder| !holder.is_empty()), "nobody holds {name}");
    }
    Ok(())
}
