//! The controllers beside the scheduler on a real API server: the programs as their users run them.

mod admission;
mod broken;
mod clocks;
mod commands;
mod costs;
mod crashes;
mod deploy;
mod examples;
mod hyper_nodes;
mod jobs;
mod kills;
mod moving;
mod owners;
mod plugins;
mod podgroups;
mod policies;
mod queues;
mod scaling;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, Patch, PatchParams, PostParams},
};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::{Value, json};

use crate::scheduler::cluster::{Cluster, SOON, api_version};

/// A cluster with a scheduler and controllers.
struct World {
    cluster: Cluster,
    controllers: Option<Phalanx>,
}

impl World {
    async fn start(nodes: fake::Nodes) -> Result<Self> {
        let cluster = Cluster::with(PlaneOptions::default(), nodes, &[]).await?;
        cluster.define_jobs().await?;
        let controllers = Some(Phalanx::start_controllers(&cluster.plane, &[]).await?);
        Ok(Self { cluster, controllers })
    }

    fn controllers(&self) -> &Phalanx {
        self.controllers.as_ref().expect("the test started controllers")
    }

    /// Requests of the controllers of a kind, with any result.
    async fn requests(&self, kind: &str) -> Result<f64> {
        let begin = format!("phalanx_controller_requests_total{{kind=\"{kind}\",");
        let text = self.controllers().metrics().await?;
        let counts = text.lines().filter(|line| line.starts_with(&begin));
        counts.map(|line| Ok(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?)).sum()
    }

    /// Creates an object of Volcano in namespace default.
    async fn create(&self, kind: &str, name: &str, spec: Value) -> Result<DynamicObject> {
        self.create_whole(kind, json!({"metadata": {"name": name}, "spec": spec})).await
    }

    async fn create_whole(&self, kind: &str, mut object: Value) -> Result<DynamicObject> {
        object["apiVersion"] = json!(api_version(kind));
        object["kind"] = json!(kind);
        let object: DynamicObject = serde_json::from_value(object)?;
        Ok(self.cluster.volcano(kind).create(&PostParams::default(), &object).await?)
    }

    /// Somebody's wish for a Job or a Queue.
    async fn command(&self, action: &str, kind: &str, name: &str) -> Result<()> {
        let target = self.cluster.volcano(kind).get(name).await?;
        let target = json!({
            "apiVersion": api_version(kind), "kind": kind, "name": name, "uid": target.uid(),
        });
        let command = json!({
            "metadata": {"name": format!("{}-{name}", action.to_lowercase())},
            "action": action, "target": target,
        });
        self.create_whole("Command", command).await?;
        Ok(())
    }

    /// Changes replicas and `minAvailable` of the first task of a Job, and `minAvailable` of the Job.
    async fn scale(&self, job: &str, replicas: u32, min_available: u32) -> Result<()> {
        let set = |path: &str, value: u32| json!({"op": "add", "path": path, "value": value});
        let patch = json!([
            set("/spec/tasks/0/replicas", replicas),
            set("/spec/tasks/0/minAvailable", min_available),
            set("/spec/minAvailable", min_available),
        ]);
        let patch = Patch::<Value>::Json(serde_json::from_value(patch)?);
        self.cluster.volcano("Job").patch(job, &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Takes no more pods on a node, or again.
    async fn cordon(&self, node: &str, unschedulable: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.cluster.client.clone());
        let patch = json!({"spec": {"unschedulable": unschedulable}});
        nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Waits until a Job is in a phase, and returns its status.
    async fn until_job(&self, name: &str, phase: &str) -> Result<Value> {
        let is = |status: &Value| status["state"]["phase"] == phase;
        self.cluster.until_status("Job", name, phase, is).await.with_context(|| self.logs())
    }

    fn logs(&self) -> String {
        let log = self.controllers.as_ref().map(Phalanx::log_text).unwrap_or_default();
        format!("the log of the controllers:\n{log}")
    }

    /// The pods of a Job, by name.
    async fn pods_of(&self, job: &str) -> Result<Vec<Pod>> {
        let of = |pod: &Pod| pod.labels().get("volcano.sh/job-name").is_some_and(|name| name == job);
        let mut pods: Vec<Pod> = self.cluster.pods().await?.into_iter().filter(of).collect();
        pods.sort_by_key(Pod::name_any);
        Ok(pods)
    }

    /// Waits until a Job has just these pods.
    async fn until_pods_are(&self, job: &str, pods: &[&str]) -> Result<()> {
        let expected: Vec<String> = pods.iter().map(|pod| format!("{job}-{pod}")).collect();
        wait::until(SOON, &format!("{job} to have the pods {pods:?}"), async || {
            let names: Vec<String> =
                self.pods_of(job).await?.iter().map(kube::ResourceExt::name_any).collect();
            ensure!(names == expected, "{names:?}");
            Ok(())
        })
        .await
        .with_context(|| self.logs())
    }

    /// Waits until a Job has exactly so many pods, all of them in a phase.
    async fn until_pods(&self, job: &str, count: usize, phase: &str) -> Result<Vec<Pod>> {
        wait::until(SOON, &format!("{count} pods of {job} {phase}"), async || {
            let pods = self.pods_of(job).await?;
            let phases: Vec<(String, Option<String>)> = pods
                .iter()
                .map(|pod| (pod.name_any(), pod.status.as_ref().and_then(|status| status.phase.clone())))
                .collect();
            let all = phases.iter().all(|(_, found)| found.as_deref() == Some(phase));
            ensure!(pods.len() == count && all, "{phases:?}");
            Ok(pods)
        })
        .await
        .with_context(|| self.logs())
    }
}

/// A task whose pods run for so long, or for ever, and end with these codes.
pub(crate) fn task(name: &str, replicas: u32, run_seconds: Option<&str>, exit_codes: &str) -> Value {
    let mut annotations = json!({});
    if let Some(seconds) = run_seconds {
        annotations[fake::RUN_SECONDS] = json!(seconds);
        annotations[fake::EXIT_CODES] = json!(exit_codes);
    }
    json!({
        "name": name, "replicas": replicas,
        "template": {
            "metadata": {"annotations": annotations},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "main", "image": "example.com/none",
                    "resources": {"requests": {"cpu": "1"}},
                }],
            },
        },
    })
}
