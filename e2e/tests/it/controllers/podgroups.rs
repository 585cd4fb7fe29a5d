//! PodGroups for pods without one.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use phalanx_e2e::{Account, Phalanx, PlaneOptions, deploy, fake, wait};
use serde_json::{Value, json};

use super::{Cluster, SOON, World};
use crate::scheduler::cluster::PodSpec;
use crate::scheduler::podgroups::{pods_of, replica_set};

const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
const AWAITS: &str = "waits for the PodGroup controller";

impl World {
    /// All PodGroups, by name.
    async fn groups(&self) -> Result<Vec<DynamicObject>> {
        Ok(self.cluster.volcano("PodGroup").list(&ListParams::default()).await?.items)
    }

    /// Waits until a pod is in a PodGroup, and returns that.
    pub(super) async fn until_in_group(&self, pod: &str) -> Result<DynamicObject> {
        let pods: Api<Pod> = Api::default_namespaced(self.cluster.client.clone());
        let name = wait::until(SOON, &format!("{pod} to be in a PodGroup"), async || {
            let pod = pods.get(pod).await?;
            pod.annotations().get(GROUP_NAME).cloned().context("no annotation")
        })
        .await
        .with_context(|| self.logs())?;
        Ok(self.cluster.volcano("PodGroup").get(&name).await?)
    }
}

/// A pod below a controller.
async fn pod_below(cluster: &Cluster, name: &str, kind: &str, owner: &impl kube::ResourceExt) -> Result<()> {
    let mut pod = PodSpec::cpu(1).single(name);
    pod["metadata"]["ownerReferences"] = below(kind, owner);
    cluster.create::<Pod>(pod).await?;
    Ok(())
}

fn below(kind: &str, owner: &impl kube::ResourceExt) -> Value {
    let api_version = if kind == "Job" { "batch/v1" } else { "example.com/v1" };
    let (name, uid) = (owner.name_any(), owner.uid());
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// A Job that nobody carries out.
fn job(name: &str) -> Value {
    let spec =
        json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/none"}]});
    json!({"metadata": {"name": name}, "spec": {"suspend": true, "template": {"spec": spec}}})
}

/// A kind of somebody else, whose objects may say anything.
pub(super) async fn stub(cluster: &Cluster, api_version: &str, kind: &str) -> Result<Api<DynamicObject>> {
    let (group, version) = api_version.split_once('/').context("a group")?;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{}.{group}", resource.plural),
            // Asked for of groups below k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": resource.plural},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}],
        },
    }))?;
    Api::<CustomResourceDefinition>::all(cluster.client.clone())
        .create(&PostParams::default(), &definition)
        .await?;
    let objects: Api<DynamicObject> = Api::default_namespaced_with(cluster.client.clone(), &resource);
    wait::until(SOON, "the kind to be served", async || Ok(objects.list(&ListParams::default()).await?))
        .await?;
    Ok(objects)
}

#[tokio::test]
async fn pods_of_a_replicaset_with_a_minimum_start_together_or_not_at_all() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("2"), &["--controllers"]).await?;
    let world = World { cluster, controllers: None };
    let cluster = &world.cluster;
    let owner = replica_set(cluster, "web", 4).await?;
    pods_of(cluster, &owner, 4, &PodSpec::cpu(1)).await?;
    for index in 0..4 {
        let group = world.until_in_group(&format!("web-{index}")).await?;
        assert_eq!(group.name_any(), format!("podgroup-{}", owner.uid().context("a UID")?));
        assert_eq!(group.data["spec"]["minMember"], 4);
        assert_eq!(group.data["spec"]["minResources"]["cpu"], "4");
    }
    cluster.stays_bound("web-", 0).await?;
    fake::Nodes::new(1).starting_at(1).cpu("2").create(&cluster.client).await?;
    cluster.until_bound("web-", 4).await?;
    assert_eq!(world.groups().await?.len(), 1);
    Ok(())
}

#[tokio::test]
async fn a_pod_and_a_job_run_in_the_queue_of_their_namespace() -> Result<()> {
    let world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let client = world.cluster.client.clone();
    world.cluster.queue("home", json!({"weight": 1})).await?;
    let annotation = json!({"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "home"}}});
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.patch("default", &PatchParams::default(), &Patch::Merge(annotation)).await?;
    world.cluster.create::<Pod>(PodSpec::cpu(1).single("alone")).await?;
    let group = world.until_in_group("alone").await?;
    assert_eq!((&group.data["spec"]["queue"], &group.data["spec"]["minMember"]), (&json!("home"), &json!(1)));
    let job = world.cluster.create::<Job>(job("train")).await?;
    pod_below(&world.cluster, "train-0", "Job", &job).await?;
    pod_below(&world.cluster, "train-1", "Job", &job).await?;
    let groups = [world.until_in_group("train-0").await?, world.until_in_group("train-1").await?];
    assert_eq!(
        groups.map(|group| group.name_any()),
        [(); 2].map(|()| format!("podgroup-{}", job.uid().unwrap_or_default()))
    );
    world.cluster.until_bound("", 3).await?;
    world.cluster.delete_pods("train-").await?;
    wait::until(SOON, "one PodGroup to be left", async || {
        let left = world.groups().await?.len();
        ensure!(left == 1, "{left} are left");
        Ok(())
    })
    .await
}

/// The role that an operator adds to `deploy/optional/controllers.yaml` for a kind of theirs.
async fn let_controllers_read(cluster: &Cluster, group: &str, kinds: &str) -> Result<()> {
    const RBAC: &str = "rbac.authorization.k8s.io/v1";
    let rule = json!({"apiGroups": [group], "resources": [kinds], "verbs": ["list", "watch"]});
    let role =
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": kinds}, "rules": [rule]});
    let account = Account::Controllers.name();
    let binding = json!({
        "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": kinds},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": kinds},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": deploy::NAMESPACE}],
    });
    deploy::apply(&cluster.client, &[role, binding]).await
}

#[tokio::test]
async fn an_operators_kind_makes_a_gang_of_all_pods_below_it() -> Result<()> {
    let cluster = Cluster::with(
        PlaneOptions::default(),
        fake::Nodes::new(1).cpu("8"),
        &["--wait-for-podgroup", "--wait-for-podgroup-timeout=10m"],
    )
    .await?;
    cluster.define_jobs().await?;
    let gangs = stub(&cluster, "example.com/v1", "Gang").await?;
    let rows = cluster.file("owners.yaml");
    std::fs::write(&rows, "- {apiVersion: example.com/v1, kind: Gang, minMember: spec.size}\n")?;
    let flag = format!("--podgroup-owners={}", rows.display());
    let_controllers_read(&cluster, "example.com", "gangs").await?;
    let controllers = Some(Phalanx::start_controllers(&cluster.plane, &[&flag]).await?);
    let world = World { cluster, controllers };

    let gang: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": "whole"}, "spec": {"size": 3},
    }))?;
    let gang = gangs.create(&PostParams::default(), &gang).await?;
    for (name, pods) in [("a", 1), ("b", 2)] {
        let mut job = job(name);
        job["metadata"]["ownerReferences"] = below("Gang", &gang);
        let job = world.cluster.create::<Job>(job).await?;
        for index in 0..pods {
            world.cluster.stays_bound("", 0).await?;
            pod_below(&world.cluster, &format!("{name}-{index}"), "Job", &job).await?;
        }
    }
    let group = world.until_in_group("b-1").await?;
    assert_eq!(group.name_any(), format!("podgroup-{}", gang.uid().context("a UID")?));
    world.cluster.until_bound("", 3).await
}

#[tokio::test]
async fn controllers_that_are_started_again_make_no_second_podgroup() -> Result<()> {
    let mut world = World::start(fake::Nodes::new(1).cpu("4")).await?;
    let owner = replica_set(&world.cluster, "web", 1).await?;
    pods_of(&world.cluster, &owner, 1, &PodSpec::cpu(1)).await?;
    let before = world.until_in_group("web-0").await?;
    // The process is killed.
    drop(world.controllers.take());
    let owner = replica_set(&world.cluster, "other", 1).await?;
    pods_of(&world.cluster, &owner, 1, &PodSpec::cpu(1)).await?;
    world.controllers = Some(Phalanx::start_controllers(&world.cluster.plane, &[]).await?);
    world.until_in_group("other-0").await?;
    let groups = world.groups().await?;
    assert_eq!(groups.len(), 2);
    ensure!(groups.iter().any(|group| group.uid() == before.uid()), "it was made again");
    assert_eq!((world.requests("create").await? as usize, world.requests("join").await? as usize), (1, 1));
    Ok(())
}

/// Controllers that were killed leave their lease: the scheduler has seen no PodGroup, and waits all the same.
#[tokio::test]
async fn pods_wait_for_controllers_that_hold_their_lease() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("4")).await?;
    cluster.define_jobs().await?;
    let controllers = Phalanx::start_controllers(&cluster.plane, &["--leader-elect=true"]).await?;
    wait::until(SOON, "a leader", async || {
        ensure!(controllers.metric("phalanx_leader").await? > 0.5, "it waits");
        Ok(())
    })
    .await?;
    drop(controllers);
    let patient = ["--leader-elect=false", "--wait-for-podgroup-timeout=10m"];
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &patient).await?);
    cluster.create::<Pod>(PodSpec::cpu(1).single("alone")).await?;
    cluster.until_waits("alone", AWAITS).await?;
    let world = World { controllers: Some(Phalanx::start_controllers(&cluster.plane, &[]).await?), cluster };
    world.until_in_group("alone").await?;
    world.cluster.until_bound("alone", 1).await
}
