//! Jobs that cannot work do not hold up others.

use anyhow::{Context as _, Result, ensure};
use phalanx_e2e::{Phalanx, PlaneOptions, crds, fake};
use serde_json::{Value, json};

use super::{Cluster, World, task};
use crate::scheduler::cluster::PodSpec;
use crate::scheduler::definitions::types_only;

/// The API server takes it: nothing checks what the template of a pod holds before a pod is made.
#[tokio::test]
async fn a_job_whose_pods_are_refused_does_not_hold_up_another() -> Result<()> {
    // Room for both: a job that was admitted keeps its share until it is terminated.
    let world = World::start(fake::Nodes::new(1).cpu("16")).await?;
    let mut bad = task("worker", 3, None, "");
    bad["template"]["spec"]["containers"][0]["name"] = json!("Not A Name");
    world.create("Job", "bad", json!({"tasks": [bad]})).await?;
    world.cluster.until_event("FailedCreate", "bad").await?;
    world.create("Job", "good", json!({"tasks": [task("worker", 2, Some("0.5"), "0")]})).await?;
    world.until_job("good", "Completed").await?;
    Ok(())
}

#[tokio::test]
async fn a_job_that_waits_for_a_claim_goes_on_once_it_is_there() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let volumes = json!([{"mountPath": "/data", "volumeClaimName": "data"}]);
    let job = json!({"volumes": volumes, "tasks": [task("worker", 1, None, "")]});
    world.create("Job", "stores", job).await?;
    world.cluster.until_event("PVCError", "stores").await?;
    world.cluster.claim("data", "1Gi").await?;
    // It stays without a node: nobody makes the volume.
    world.until_pods("stores", 1, "Pending").await?;
    Ok(())
}

/// Jobs that definitions with rules refuse, and what the status says of them.
fn invalid_jobs() -> Vec<(&'static str, Value, &'static str)> {
    let one = |name: &str| task(name, 1, None, "");
    let after = |name: &str, before: &str| {
        let mut task = one(name);
        task["dependsOn"] = json!({ "name": [before] });
        task
    };
    let tasks = |list: &[Value]| json!({ "tasks": list });
    let with = |field: &str, value: Value| json!({ "tasks": [one("a")], field: value });
    let mut few = one("a");
    few["minAvailable"] = json!(2);
    vec![
        ("none", json!({}), "spec.tasks: none given"),
        (
            "few",
            with("minAvailable", json!(2)),
            "spec.minAvailable: 2 is more than the 1 replicas of all tasks",
        ),
        (
            "few-of-task",
            json!({"minAvailable": 1, "tasks": [few]}),
            "spec.tasks[0].minAvailable: 2 is more than the 1",
        ),
        ("twins", tasks(&[one("a"), one("a")]), "spec.tasks[1].name: a is the name of another task too"),
        ("long", tasks(&[one(&"n".repeat(60))]), "of a pod is longer than 63 characters"),
        ("lost", tasks(&[after("a", "b")]), "spec.tasks[0].dependsOn.name: there is no task b"),
        (
            "ring",
            tasks(&[after("a", "b"), after("b", "a")]),
            "spec.tasks[0].dependsOn: tasks wait for each other: a, b",
        ),
        ("plugin", with("plugins", json!({"horovod": []})), "spec.plugins: horovod of job plugin is none of"),
        ("mpi", with("plugins", json!({"mpi": []})), "spec.plugins.mpi: there is no master task master"),
    ]
}

/// Definitions without rules, and no policies.
async fn without_checks() -> Result<World> {
    let mut cluster = Cluster::bare(PlaneOptions::default(), fake::Nodes::new(1).cpu("16")).await?;
    let folder = tempfile::tempdir()?;
    types_only(folder.path())?;
    crds::apply(&cluster.client, folder.path()).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    let controllers = Some(Phalanx::start_controllers(&cluster.plane, &[]).await?);
    Ok(World { cluster, controllers })
}

/// What the API server would refuse otherwise.
async fn create_invalid(world: &World) -> Result<()> {
    for (name, spec, _) in invalid_jobs() {
        world.create("Job", name, spec).await?;
    }
    let twice = json!({"mountPath": "/data", "volumeClaimName": "data"});
    world.cluster.claim("data", "1Gi").await?;
    world
        .create("Job", "mounts", json!({"volumes": [twice, twice], "tasks": [task("a", 1, None, "")]}))
        .await?;
    world
        .create("Job", "negative", json!({"tasks": [task("a", 1, None, ""), {"name": "b", "replicas": -3}]}))
        .await?;
    // Of policies that repeat an event the first acts, and * acts beside others.
    let policy = |event: &str, action: &str| json!({"event": event, "action": action});
    let repeated =
        [policy("PodFailed", "CompleteJob"), policy("PodFailed", "AbortJob"), policy("*", "TerminateJob")];
    world
        .create("Job", "repeats", json!({"policies": repeated, "tasks": [task("a", 1, Some("0.2"), "3")]}))
        .await?;
    let step = |name: &str, before: &str| json!({"name": name, "dependsOn": {"targets": [before]}});
    world.create("JobFlow", "flow-ring", json!({"flows": [step("a", "b"), step("b", "a")]})).await?;
    world.create("JobFlow", "flow-lost", json!({"flows": [step("a", "x")]})).await?;
    world.create("CronJob", "often", json!({"schedule": "often", "jobTemplate": {"spec": {}}})).await?;
    world
        .create(
            "CronJob",
            "nowhere",
            json!({"schedule": "@daily", "timeZone": "Nowhere/Town", "jobTemplate": {"spec": {}}}),
        )
        .await?;
    for (queue, parent) in [("one", "two"), ("two", "one")] {
        world.cluster.queue(queue, json!({ "parent": parent })).await?;
    }
    for queue in ["missing", "one"] {
        world.cluster.pod_group(queue, json!({"minMember": 1, "queue": queue})).await?;
        world.cluster.members(queue, 1, &PodSpec::cpu(1)).await?;
    }
    Ok(())
}

/// Each is said in a status or an event.
async fn until_said(world: &World) -> Result<()> {
    for (name, _, message) in invalid_jobs() {
        let said = |status: &Value| {
            let text = status["state"]["message"].as_str().unwrap_or_default();
            status["state"]["reason"] == "InvalidJob" && text.contains(message)
        };
        world.cluster.until_status("Job", name, message, said).await.with_context(|| world.logs())?;
        world.cluster.until_event_with("InvalidJob", name, message).await?;
    }
    world.cluster.until_event_with("FailedCreate", "mounts", "must be unique").await?;
    world.until_job("repeats", "Completed").await?;
    for flow in ["flow-ring", "flow-lost"] {
        world
            .cluster
            .until_event_with("InvalidJobFlow", flow, "wait for each other or for what is not there")
            .await?;
    }
    world.cluster.until_event_with("UnparseableCronJobSchedule", "often", "spec.schedule: \"often\"").await?;
    world.cluster.until_event_with("UnparseableCronJobSchedule", "nowhere", "spec.timeZone").await?;
    world.cluster.until_event_with("QueueInvalid", "one", "its parents lead back to it").await?;
    world.cluster.until_waits("missing-0", "queue missing does not exist").await?;
    world.cluster.until_waits("one-0", "queue one is invalid").await?;
    Ok(())
}

#[tokio::test]
async fn what_slips_past_the_api_server_is_said_and_holds_up_no_other() -> Result<()> {
    let mut world = without_checks().await?;
    create_invalid(&world).await?;
    until_said(&world).await?;
    world.create("Job", "good", json!({"tasks": [task("worker", 2, Some("0.5"), "0")]})).await?;
    world.until_job("good", "Completed").await?;
    let running = world.controllers.as_mut().is_some_and(Phalanx::runs);
    ensure!(running && world.cluster.scheduler.as_mut().is_some_and(Phalanx::runs), "a process has ended");
    Ok(())
}
