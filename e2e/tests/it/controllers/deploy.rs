//! The manifests of the controllers: what they grant is enough, and no more than that.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use phalanx_e2e::{
    Account, Phalanx, PlaneOptions,
    deploy::{apply, manifests_in},
    fake, wait,
};
use serde_json::{Value, json};

use super::{Cluster, SOON, World, hyper_nodes, task};
use crate::scheduler::cluster::PodSpec;
use crate::scheduler::deploy::{granted, lacks_a_right};

const ACCOUNT: &str = "system:serviceaccount:volcano-system:phalanx-controllers";

/// What the controllers ask for in situations that the test does not bring about.
const SOMETIMES: [(&str, &str); 34] = [
    ("get batch.volcano.sh/jobs", "after a conflict"),
    ("get batch.volcano.sh/cronjobs", "after a conflict"),
    ("get flow.volcano.sh/jobflows", "after a conflict"),
    ("get flow.volcano.sh/jobtemplates", "after a conflict"),
    ("get scheduling.volcano.sh/podgroups", "after a conflict"),
    ("get scheduling.volcano.sh/queues", "after a conflict"),
    ("get topology.volcano.sh/hypernodes", "after a conflict"),
    ("get /pods", "where one of this name is there already"),
    ("get /persistentvolumeclaims", "where one of this name is there already"),
    ("get /services", "of jobs that an earlier process began"),
    ("get /secrets", "of jobs that an earlier process began"),
    ("get /configmaps", "of jobs that an earlier process began"),
    ("get networking.k8s.io/networkpolicies", "of jobs that an earlier process began"),
    ("update batch.volcano.sh/jobs/finalizers", "asked by an admission plugin"),
    ("update batch.volcano.sh/cronjobs/finalizers", "asked by an admission plugin"),
    ("update flow.volcano.sh/jobflows/finalizers", "asked by an admission plugin"),
    ("update batch.volcano.sh/cronjobs/status", "when the time of a CronJob has come"),
    ("update /configmaps", "when a job with hosts is scaled"),
    ("update scheduling.volcano.sh/podgroups", "when a job is scaled"),
    (
        "update scheduling.volcano.sh/queues",
        "for queues without a parent, which were there before or are made here",
    ),
    ("patch events.k8s.io/events", "when an event is repeated"),
    ("watch jobset.x-k8s.io/jobsets", "where the definition is installed"),
    ("watch leaderworkerset.x-k8s.io/leaderworkersets", "where the definition is installed"),
    ("watch kubeflow.org/pytorchjobs", "where the definition is installed"),
    ("watch kubeflow.org/tfjobs", "where the definition is installed"),
    ("watch kubeflow.org/xgboostjobs", "where the definition is installed"),
    ("watch kubeflow.org/paddlejobs", "where the definition is installed"),
    ("watch kubeflow.org/jaxjobs", "where the definition is installed"),
    ("watch kubeflow.org/mpijobs", "where the definition is installed"),
    ("watch trainer.kubeflow.org/trainjobs", "where the definition is installed"),
    ("watch ray.io/rayclusters", "where the definition is installed"),
    ("watch ray.io/rayjobs", "where the definition is installed"),
    ("watch sparkoperator.k8s.io/sparkapplications", "where the definition is installed"),
    ("watch coordination.k8s.io/leases", "where another replica leads"),
];

#[tokio::test]
async fn the_manifests_grant_exactly_the_rights_that_the_controllers_need() -> Result<()> {
    let options = PlaneOptions { audit: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(1).cpu("8"), &[]).await?;
    cluster.define_jobs().await?;
    let objects = manifests_of_controllers()?;
    let world = start_by_manifests(cluster).await?;

    do_everything(&world).await?;
    let log = world.controllers().log_text();
    ensure!(!lacks_a_right(&log), "{log}");
    let (granted, used) = (granted(&objects), world.cluster.plane.audited(ACCOUNT)?);
    let sometimes: BTreeSet<String> = SOMETIMES.map(|(right, _)| right.to_owned()).into();
    let beyond = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect::<BTreeSet<_>>();
    let (denied, idle) = (beyond(&used, &granted), beyond(&granted, &used));
    ensure!(denied.is_empty(), "asked for without a right: {denied:?}");
    let unused = beyond(&idle, &sometimes);
    ensure!(unused.is_empty(), "rights that nothing uses: {unused:?}");
    ensure!(sometimes.is_subset(&granted), "no longer granted: {:?}", beyond(&sometimes, &granted));
    Ok(())
}

fn manifests_of_controllers() -> Result<Vec<Value>> {
    let is_ours = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        name.starts_with("phalanx-controllers")
    };
    Ok(manifests_in("optional")?.into_iter().filter(is_ours).collect())
}

/// Controllers with the account and the arguments of the manifests.
pub(super) async fn start_by_manifests(cluster: Cluster) -> Result<World> {
    let objects = manifests_of_controllers()?;
    // The namespace and the account are there before the rest of the manifests.
    cluster.plane.kubeconfig_of(Account::Controllers).await?;
    apply(&cluster.client, &objects).await?;
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").context("a Deployment")?;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args: Vec<String> = serde_json::from_value(args.clone())?;
    ensure!(args.first().is_some_and(|first| first == "controllers"), "{args:?}");
    let all: Vec<&str> = args[1..].iter().map(String::as_str).chain(["--leader-elect=true"]).collect();
    let controllers = Some(Phalanx::start_controllers(&cluster.plane, &all).await?);
    Ok(World { cluster, controllers })
}

/// A plain pod; a job with all kinds of objects that is restarted, completed by a command and deleted; a flow; a queue.
async fn do_everything(world: &World) -> Result<()> {
    world.cluster.create::<Pod>(PodSpec::cpu(1).single("alone")).await?;
    world.cluster.until_bound("alone", 1).await?;
    world.until_in_group("alone").await?;
    world.cluster.delete_pods("alone").await?;
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volumes = json!([{"mountPath": "/data", "volumeClaim": claim}]);
    let spec = json!({
        "plugins": {"ssh": [], "svc": []}, "volumes": volumes, "ttlSecondsAfterFinished": 1,
        "tasks": [task("worker", 1, None, "")],
    });
    world.create("Job", "whole", spec).await?;
    world.until_pods("whole", 1, "Pending").await?;
    world.command("CompleteJob", "Job", "whole").await?;
    wait::until(SOON, "the job to be deleted", async || {
        let job = world.cluster.volcano("Job").get_opt("whole").await?;
        let asked = job.as_ref().is_none_or(|job| job.metadata.deletion_timestamp.is_some());
        ensure!(asked, "{:?}", job.map(|job| job.data["status"].clone()));
        Ok(())
    })
    .await?;
    world.create("JobTemplate", "step", json!({"tasks": [task("worker", 1, None, "")]})).await?;
    world.create("JobFlow", "flow", json!({"flows": [{"name": "step"}]})).await?;
    world.until_job("flow-step", "Running").await?;
    let running = |status: &Value| status["state"]["phase"] == "Running";
    world.cluster.until_status("JobFlow", "flow", "running", running).await?;
    let names = |status: &Value| status["jobDependsOnList"] == json!(["flow-step"]);
    world.cluster.until_status("JobTemplate", "step", "its job", names).await?;
    world.cluster.queue("batch", json!({"weight": 1})).await?;
    world.command("CloseQueue", "Queue", "batch").await?;
    hyper_nodes::discover_two_racks(world).await?;
    wait::until(SOON, "no commands", async || {
        let left = world.cluster.volcano("Command").list(&ListParams::default()).await?.items.len();
        ensure!(left == 0, "{left} are left");
        Ok(())
    })
    .await
}
