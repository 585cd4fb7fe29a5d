//! Jobs that grow, shrink, and start in parts; and how they end.

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use kube::ResourceExt as _;
use phalanx_e2e::fake;
use serde_json::{Value, json};

use super::{World, task};

impl World {
    /// Waits until the PodGroup of a Job needs so many pods.
    async fn until_min_member(&self, job: &str, count: usize) -> Result<()> {
        let uid = self.cluster.volcano("Job").get(job).await?.uid().unwrap_or_default();
        let group = self.cluster.volcano("PodGroup");
        phalanx_e2e::wait::until(super::SOON, &format!("minMember {count} of {job}"), async || {
            let spec = group.get(&format!("{job}-{uid}")).await?.data["spec"].clone();
            ensure!(spec["minMember"] == count && spec["minTaskMember"]["worker"] == count, "{spec}");
            ensure!(spec["minResources"]["cpu"] == *count.to_string(), "{spec}");
            Ok(())
        })
        .await
    }
}

async fn is_scaled(world: &World) -> Result<()> {
    world.create("Job", "scaled", json!({"tasks": [task("worker", 2, None, "")]})).await?;
    let mut before = world.until_pods("scaled", 2, "Running").await?;
    for (replicas, min) in [(5, 4), (1, 1), (3, 2)] {
        world.scale("scaled", replicas, min).await?;
        let count = replicas as usize;
        let after = world.until_pods("scaled", count, "Running").await?;
        // Pods are made and deleted behind those that are there.
        for (pod, same) in before.iter().zip(&after) {
            assert_eq!((pod.name_any(), pod.uid()), (same.name_any(), same.uid()), "{replicas} replicas");
        }
        world.until_min_member("scaled", min as usize).await?;
        let counts = |status: &Value| status["running"] == replicas && status["minAvailable"] == min;
        let status = world.cluster.until_status("Job", "scaled", "its counts", counts).await?;
        assert_eq!((&status["state"]["phase"], &status["retryCount"]), (&json!("Running"), &json!(0)));
        before = after;
    }
    Ok(())
}

/// The pod of the first task has no place before the test makes one.
async fn starts_in_the_order_of_dependencies(world: &World) -> Result<()> {
    let mut master = task("master", 1, None, "");
    master["template"]["spec"]["nodeSelector"] = json!({"pool": "late"});
    let mut worker = task("worker", 2, None, "");
    worker["minAvailable"] = json!(0);
    worker["dependsOn"] = json!({"name": ["master"]});
    world.create("Job", "ordered", json!({"minAvailable": 1, "tasks": [master, worker]})).await?;
    world.until_pods("ordered", 1, "Pending").await?;
    world.cluster.until_waits("ordered-master-0", "").await?;
    world.until_pods_are("ordered", &["master-0"]).await?;
    fake::Nodes::new(1).prefix("late").label("pool", "late").create(&world.cluster.client).await?;
    world.until_pods("ordered", 3, "Running").await?;
    world.until_pods_are("ordered", &["master-0", "worker-0", "worker-1"]).await
}

async fn is_pending_while_a_pod_it_needs_waits(world: &World) -> Result<()> {
    fake::Nodes::new(1).prefix("own").label("pool", "own").create(&world.cluster.client).await?;
    let mut worker = task("worker", 2, None, "");
    worker["template"]["spec"]["nodeSelector"] = json!({"pool": "own"});
    world.create("Job", "waiting", json!({"tasks": [worker]})).await?;
    world.until_job("waiting", "Running").await?;
    world.cordon("own-0", true).await?;
    world.cluster.delete_pods("waiting-worker-1").await?;
    world.until_job("waiting", "Pending").await?;
    world.cordon("own-0", false).await?;
    world.until_job("waiting", "Running").await?;
    Ok(())
}

#[tokio::test]
async fn a_job_grows_shrinks_and_waits_for_its_pods() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("16")).await?;
    tokio::try_join!(
        is_scaled(&world),
        starts_in_the_order_of_dependencies(&world),
        is_pending_while_a_pod_it_needs_waits(&world),
    )?;
    Ok(())
}

/// How a job comes to its end, if it does.
struct End {
    name: &'static str,
    spec: fn() -> Value,
    /// The Command that it gets once its pods run.
    command: Option<&'static str>,
    phase: &'static str,
    retries: u32,
    /// The pods that are left.
    left: &'static [&'static str],
}

/// One pod that ends, and one that runs for ever.
fn unlike(code: &str) -> Value {
    json!({"tasks": [task("brief", 1, Some("0.5"), code), task("long", 1, None, "")]})
}

fn with(mut spec: Value, field: &str, value: Value) -> Value {
    spec[field] = value;
    spec
}

fn forever() -> Value {
    json!({"tasks": [task("worker", 2, None, "")]})
}

fn on_failure(action: &str) -> Value {
    json!([{"event": "PodFailed", "action": action}])
}

const ENDS: [End; 9] = [
    End {
        name: "enough-succeed",
        spec: || with(unlike("0"), "minSuccess", json!(1)),
        command: None,
        phase: "Completed",
        retries: 0,
        left: &["brief-0"],
    },
    End {
        name: "too-few-succeed",
        spec: || {
            let tasks = json!([task("good", 1, Some("0.5"), "0"), task("bad", 1, Some("0.5"), "1")]);
            json!({"minSuccess": 2, "tasks": tasks})
        },
        command: None,
        phase: "Failed",
        retries: 0,
        left: &["bad-0", "good-0"],
    },
    End {
        name: "too-few-of-a-task-succeed",
        spec: || json!({"tasks": [task("good", 2, Some("0.5"), "0"), task("bad", 1, Some("0.5"), "1")]}),
        command: None,
        phase: "Failed",
        retries: 0,
        left: &["bad-0", "good-0", "good-1"],
    },
    End {
        name: "as-the-job-says",
        spec: || with(unlike("1"), "policies", on_failure("AbortJob")),
        command: None,
        phase: "Aborted",
        retries: 0,
        left: &["brief-0"],
    },
    End {
        name: "as-the-task-says",
        spec: || {
            let mut spec = with(unlike("1"), "policies", on_failure("AbortJob"));
            spec["tasks"][0]["policies"] = on_failure("CompleteJob");
            spec
        },
        command: None,
        phase: "Completed",
        retries: 0,
        left: &["brief-0"],
    },
    End {
        name: "restarted",
        spec: forever,
        command: Some("RestartJob"),
        phase: "Running",
        retries: 1,
        left: &["worker-0", "worker-1"],
    },
    End {
        name: "restarted-too-often",
        spec: || with(forever(), "maxRetry", json!(1)),
        command: Some("RestartJob"),
        phase: "Failed",
        retries: 1,
        left: &[],
    },
    End {
        name: "terminated",
        spec: forever,
        command: Some("TerminateJob"),
        phase: "Terminated",
        retries: 0,
        left: &[],
    },
    End {
        name: "completed",
        spec: forever,
        command: Some("CompleteJob"),
        phase: "Completed",
        retries: 0,
        left: &[],
    },
];

impl End {
    async fn check(&self, world: &World) -> Result<()> {
        world.create("Job", self.name, (self.spec)()).await?;
        if let Some(command) = self.command {
            world.until_job(self.name, "Running").await?;
            world.command(command, "Job", self.name).await?;
        }
        let ended =
            |status: &Value| status["state"]["phase"] == self.phase && status["retryCount"] == self.retries;
        world.cluster.until_status("Job", self.name, self.phase, ended).await?;
        world.until_pods_are(self.name, self.left).await
    }
}

#[tokio::test]
async fn jobs_end_as_their_counts_policies_and_commands_say() -> Result<()> {
    let world = World::start(fake::Nodes::new(2).cpu("16")).await?;
    try_join_all(ENDS.iter().map(|end| end.check(&world))).await?;
    Ok(())
}
