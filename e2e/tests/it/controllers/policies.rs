//! Lifecycle policies: each event with each action, and the phases through which the Job goes.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use phalanx_e2e::{fake, wait};
use serde_json::{Value, json};

use super::{SOON, World, task};

/// What happens to pods of a task `a`, and the policy for it without its action.
fn events() -> [(&'static str, Value); 8] {
    [
        ("PodFailed", json!({"event": "PodFailed"})),
        ("ExitCode", json!({"exitCode": 3})),
        ("Any", json!({"event": "*"})),
        ("OneOfTwo", json!({"events": ["TaskFailed", "PodFailed"]})),
        ("PodEvicted", json!({"event": "PodEvicted"})),
        ("TaskCompleted", json!({"event": "TaskCompleted"})),
        ("TaskFailed", json!({"event": "TaskFailed"})),
        ("PodPending", json!({"event": "PodPending", "timeout": "1s"})),
    ]
}

/// What an action does.
struct Done {
    action: &'static str,
    /// The phases of the Job from Running on.
    phases: &'static [&'static str],
    /// The pods that are made anew, without the name of the Job.
    renewed: &'static [&'static str],
}

const RESTARTED: &[&str] = &["Restarting", "Pending", "Running"];
const ACTIONS: [Done; 7] = [
    Done { action: "AbortJob", phases: &["Aborting", "Aborted"], renewed: &[] },
    Done { action: "TerminateJob", phases: &["Terminating", "Terminated"], renewed: &[] },
    Done { action: "CompleteJob", phases: &["Completing", "Completed"], renewed: &[] },
    Done { action: "RestartJob", phases: RESTARTED, renewed: &["a-0", "a-1", "b-0"] },
    Done { action: "RestartTask", phases: RESTARTED, renewed: &["a-0", "a-1"] },
    Done { action: "RestartPod", phases: RESTARTED, renewed: &["a-0"] },
    Done { action: "RestartPartition", phases: RESTARTED, renewed: &["a-0"] },
];

/// A Job with a task `a` of two partitions, to which things happen, and a task `b`, whose pod runs for ever.
fn spec(event: &str, policy: &Value, action: &str) -> Value {
    let mut policy = policy.clone();
    policy["action"] = json!(action);
    let mut to_which = task("a", 2, None, "");
    to_which["minAvailable"] = json!(0);
    to_which["partitionPolicy"] = json!({"totalPartitions": 2, "partitionSize": 1, "minPartitions": 0});
    if event == "TaskFailed" {
        to_which["maxRetry"] = json!(2);
    }
    if event == "PodPending" {
        to_which["template"]["spec"]["nodeSelector"] = json!({"none": "such"});
    }
    // Pods that find no place are made anew again and again.
    json!({
        "minAvailable": 1, "maxRetry": 1000, "policies": [policy],
        "tasks": [to_which, task("b", 1, None, "")],
    })
}

impl World {
    /// Reports the status of a pod in place of its kubelet.
    async fn report(&self, pod: &str, phase: &str, container: Value) -> Result<()> {
        let mut container = container;
        container["name"] = json!("main");
        for (field, value) in [("image", json!("none")), ("imageID", json!("none")), ("ready", json!(false))]
        {
            container[field] = value;
        }
        let status = json!({"status": {"phase": phase, "containerStatuses": [container]}});
        let pods: Api<Pod> = Api::default_namespaced(self.cluster.client.clone());
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    /// Makes an event happen to a Job.
    async fn happen(&self, job: &str, event: &str) -> Result<()> {
        let ended = |code: i32| json!({"restartCount": 0, "state": {"terminated": {"exitCode": code}}});
        let first = format!("{job}-a-0");
        match event {
            "PodEvicted" => {
                let pods: Api<Pod> = Api::default_namespaced(self.cluster.client.clone());
                pods.delete(&first, &DeleteParams::default()).await?;
            }
            "TaskCompleted" => {
                self.report(&format!("{job}-a-1"), "Succeeded", ended(0)).await?;
                self.report(&first, "Succeeded", ended(0)).await?;
            }
            "TaskFailed" => {
                let restarted = json!({"restartCount": 2, "state": {"running": {}}});
                self.report(&first, "Running", restarted).await?;
            }
            "PodPending" => {}
            _ => self.report(&first, "Failed", ended(3)).await?,
        }
        Ok(())
    }

    /// The UIDs of the pods of a Job, by their names without that of the Job.
    async fn uids(&self, job: &str) -> Result<BTreeMap<String, Option<String>>> {
        let short = |pod: &Pod| pod.name_any()[job.len() + 1..].to_owned();
        Ok(self.pods_of(job).await?.iter().map(|pod| (short(pod), pod.uid())).collect())
    }

    /// Runs a Job until an event was answered by an action, and checks what became of its pods and phases.
    async fn answers(&self, event: &str, policy: &Value, done: &Done) -> Result<()> {
        let job = format!("{event}-{}", done.action).to_lowercase();
        self.create("Job", &job, spec(event, policy, done.action)).await?;
        let mut before = BTreeMap::new();
        if event != "PodPending" {
            let all_run = |status: &Value| status["running"] == 3 && status["state"]["phase"] == "Running";
            let run = self.cluster.until_status("Job", &job, "pods to run", all_run).await;
            run.with_context(|| self.logs())?;
            before = self.uids(&job).await?;
        }
        self.happen(&job, event).await?;
        let last = *done.phases.last().context("a phase")?;
        let restarts = done.phases == RESTARTED;
        let came = |status: &Value| {
            let retried = status["retryCount"].as_i64().unwrap_or(0) > 0;
            let phases = phases(status);
            retried == restarts && phases.windows(done.phases.len()).any(|some| some == done.phases)
        };
        self.cluster.until_status("Job", &job, last, came).await.with_context(|| self.logs())?;
        if restarts {
            self.until_renewed(&job, event, &before, done).await
        } else {
            self.until_pods_are_gone(&job).await
        }
    }

    async fn until_renewed(
        &self,
        job: &str,
        event: &str,
        before: &BTreeMap<String, Option<String>>,
        done: &Done,
    ) -> Result<()> {
        // Where both pods of the task wait, from the beginning, or complete in the same second, each may be the one.
        let both = matches!(event, "PodPending" | "TaskCompleted");
        wait::until(SOON, &format!("pods of {job} to be made anew"), async || {
            let now = self.uids(job).await?;
            let renewed: Vec<&str> = now
                .iter()
                .filter(|(name, uid)| before.get(*name) != Some(*uid))
                .map(|(name, _)| name.as_str())
                .collect();
            let expected =
                renewed == done.renewed || (both && renewed.first().is_some_and(|name| *name != "b-0"));
            ensure!(now.len() == 3 && expected, "{renewed:?}, expected {:?}", done.renewed);
            Ok(())
        })
        .await
        .with_context(|| self.logs())
    }

    /// Pods that ended stay, for their logs.
    async fn until_pods_are_gone(&self, job: &str) -> Result<()> {
        wait::until(SOON, &format!("pods of {job} to be deleted"), async || {
            let pods = self.pods_of(job).await?;
            let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
            let left: Vec<_> = pods
                .iter()
                .map(|pod| (pod.name_any(), phase(pod)))
                .filter(|(_, phase)| !matches!(phase.as_deref(), Some("Succeeded" | "Failed")))
                .collect();
            ensure!(left.is_empty(), "{left:?}");
            Ok(())
        })
        .await
    }
}

/// The phases through which a Job went.
fn phases(status: &Value) -> Vec<&str> {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().filter_map(|condition| condition["status"].as_str()).collect()
}

#[tokio::test]
async fn each_event_is_answered_by_each_action() -> Result<()> {
    let world = World::start(fake::Nodes::new(4).cpu("64")).await?;
    let events = events();
    let pairs = events.iter().flat_map(|event| ACTIONS.iter().map(move |done| (event, done)));
    let world = &world;
    let answers = pairs.map(|((event, policy), done)| async move {
        let answered = world.answers(event, policy, done).await;
        answered.with_context(|| format!("{event}: {}", done.action))
    });
    stream::iter(answers.collect::<Vec<_>>()).buffer_unordered(16).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// A pod that has no node while others of its Job run.
#[tokio::test]
async fn a_job_of_which_a_pod_lost_its_place_is_unknown() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("8")).await?;
    for done in &ACTIONS[..4] {
        let job = format!("lost-{}", done.action).to_lowercase();
        let policy = json!({"event": "Unknown", "action": done.action});
        world.create("Job", &job, json!({"policies": [policy], "tasks": [task("a", 2, None, "")]})).await?;
        world.until_pods(&job, 2, "Running").await?;
        world.until_job(&job, "Running").await?;
    }
    world.cordon("node-0", true).await?;
    for done in &ACTIONS[..4] {
        world.cluster.delete_pods(&format!("lost-{}-a-0", done.action.to_lowercase())).await?;
    }
    for done in &ACTIONS[..4] {
        let job = format!("lost-{}", done.action).to_lowercase();
        let entered = |status: &Value| phases(status).contains(&done.phases[0]);
        world
            .cluster
            .until_status("Job", &job, done.phases[0], entered)
            .await
            .with_context(|| world.logs())?;
    }
    world.cordon("node-0", false).await?;
    let again = |status: &Value| status["retryCount"] == 1 && status["running"] == 2;
    world.cluster.until_status("Job", "lost-restartjob", "two pods that run after a restart", again).await?;
    Ok(())
}

#[tokio::test]
async fn a_job_that_was_restarted_as_often_as_it_may_has_failed() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let spec = json!({
        "maxRetry": 2, "policies": [{"event": "PodFailed", "action": "RestartJob"}],
        "tasks": [task("worker", 1, Some("0.2"), "1")],
    });
    world.create("Job", "hopeless", spec).await?;
    let status = world.until_job("hopeless", "Failed").await?;
    assert_eq!(status["retryCount"], 2, "{status}");
    Ok(())
}
