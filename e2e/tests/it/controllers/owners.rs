//! Owners that people use, and the gangs of their pods.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::{Value, json};

use super::podgroups::stub;
use super::{Cluster, SOON, World};
use crate::scheduler::cluster::PodSpec;

const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// Longer than the test takes on a busy machine.
const LONG: [&str; 2] = ["--wait-for-podgroup", "--wait-for-podgroup-timeout=10m"];

const JOB: (&str, &str) = ("batch/v1", "Job");
const STATEFUL_SET: (&str, &str) = ("apps/v1", "StatefulSet");
const JOB_SET: (&str, &str) = ("jobset.x-k8s.io/v1alpha2", "JobSet");

/// Where a minimum stands.
enum States {
    Annotation,
    /// `spec.runPolicy.schedulingPolicy.minAvailable`.
    RunPolicy,
}

struct Owner {
    kind: (&'static str, &'static str),
    /// The kinds between it and the pods: the first one below it, and so on.
    between: &'static [(&'static str, &'static str)],
    states: States,
    min_member: usize,
    /// A label of the pods; those with different values are different gangs.
    per: Option<&'static str>,
}

impl Owner {
    const fn annotated(
        kind: (&'static str, &'static str),
        between: &'static [(&'static str, &'static str)],
        min_member: usize,
    ) -> Self {
        Self { kind, between, states: States::Annotation, min_member, per: None }
    }
}

const OWNERS: [Owner; 7] = [
    Owner::annotated(STATEFUL_SET, &[], 2),
    Owner::annotated(JOB_SET, &[JOB], 3),
    Owner {
        per: Some("leaderworkerset.sigs.k8s.io/group-index"),
        ..Owner::annotated(("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), &[STATEFUL_SET], 2)
    },
    Owner {
        kind: ("kubeflow.org/v1", "PyTorchJob"),
        between: &[],
        states: States::RunPolicy,
        min_member: 3,
        per: None,
    },
    Owner::annotated(("trainer.kubeflow.org/v1alpha1", "TrainJob"), &[JOB_SET, JOB], 2),
    Owner::annotated(("ray.io/v1", "RayCluster"), &[], 3),
    // The driver makes the executors, and does not wait for them.
    Owner::annotated(("sparkoperator.k8s.io/v1beta2", "SparkApplication"), &[("v1", "Pod")], 1),
];

fn api(cluster: &Cluster, (api_version, kind): (&str, &str)) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::default_namespaced_with(cluster.client.clone(), &resource)
}

/// The spec of an object that nobody carries out.
fn spec(kind: &str) -> Value {
    let mut pod = PodSpec::cpu(1).single("")["spec"].clone();
    match kind {
        "Pod" => pod,
        "Job" => {
            pod["restartPolicy"] = json!("Never");
            json!({"suspend": true, "template": {"spec": pod}})
        }
        "StatefulSet" => {
            let labels = json!({"app": "none"});
            let template = json!({"metadata": {"labels": labels}, "spec": pod});
            json!({"selector": {"matchLabels": labels}, "serviceName": "none", "template": template})
        }
        _ => json!({}),
    }
}

fn reference((api_version, kind): (&str, &str), owner: &DynamicObject) -> Value {
    let (name, uid) = (owner.name_any(), owner.uid());
    json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true}])
}

/// An owner, and what stands directly above its pods.
struct Made<'a> {
    owner: &'a Owner,
    name: String,
    uid: String,
    above_pods: Value,
    /// The values of the label; none where there is no label.
    parts: &'static [&'static str],
}

impl<'a> Made<'a> {
    async fn create(cluster: &Cluster, owner: &'a Owner) -> Result<Self> {
        // Of a gang of one, a pod starts before others are there.
        let begin = if owner.min_member > 1 { "gang" } else { "single" };
        let name = format!("{begin}-{}", owner.kind.1.to_lowercase());
        let mut object = json!({"metadata": {"name": name}, "spec": spec(owner.kind.1)});
        match owner.states {
            States::Annotation => {
                object["metadata"]["annotations"] = json!({MIN_MEMBER: owner.min_member.to_string()});
            }
            States::RunPolicy => {
                let policy = json!({"minAvailable": owner.min_member});
                object["spec"]["runPolicy"] = json!({"schedulingPolicy": policy});
            }
        }
        let mut kind = owner.kind;
        let top = Self::post(cluster, kind, object).await?;
        let mut above_pods = reference(kind, &top);
        for between in owner.between {
            kind = *between;
            let name = format!("{name}-{}", kind.1.to_lowercase());
            let metadata = json!({"name": name, "ownerReferences": above_pods});
            let object = json!({"metadata": metadata, "spec": spec(kind.1)});
            above_pods = reference(kind, &Self::post(cluster, kind, object).await?);
        }
        let parts: &[&str] = if owner.per.is_some() { &["0", "1"] } else { &[""] };
        Ok(Self { owner, name, uid: top.uid().unwrap_or_default(), above_pods, parts })
    }

    async fn post(cluster: &Cluster, kind: (&str, &str), mut object: Value) -> Result<DynamicObject> {
        (object["apiVersion"], object["kind"]) = (json!(kind.0), json!(kind.1));
        let object: DynamicObject = serde_json::from_value(object)?;
        let created = api(cluster, kind).create(&PostParams::default(), &object).await;
        created.with_context(|| format!("{} {}", kind.1, object.name_any()))
    }

    /// Creates the next pod of each gang, and waits until it is in its PodGroup.
    async fn pod(&self, world: &World, index: usize) -> Result<()> {
        for part in self.parts {
            let name = format!("{}{part}-{index}", self.name);
            let mut pod = PodSpec::cpu(1).single(&name);
            pod["metadata"]["ownerReferences"] = self.above_pods.clone();
            let mut expected = format!("podgroup-{}", self.uid);
            if let Some(label) = self.owner.per {
                pod["metadata"]["labels"] = json!({label: part});
                expected = format!("{expected}-{part}");
            }
            world.cluster.create::<Pod>(pod).await?;
            let group = world.until_in_group(&name).await.with_context(|| name.clone())?;
            let found = (group.name_any(), &group.data["spec"]["minMember"]);
            assert_eq!(found, (expected, &json!(self.owner.min_member)), "{name}");
        }
        Ok(())
    }
}

#[tokio::test]
async fn pods_of_owners_that_people_use_are_gangs_of_their_owners() -> Result<()> {
    let cluster = Cluster::with(PlaneOptions::default(), fake::Nodes::new(1).cpu("64"), &LONG).await?;
    cluster.define_jobs().await?;
    for Owner { kind: (api_version, kind), .. } in &OWNERS {
        if *kind != STATEFUL_SET.1 {
            stub(&cluster, api_version, kind).await?;
        }
    }
    let controllers = Some(Phalanx::start_controllers(&cluster.plane, &[]).await?);
    let world = World { cluster, controllers };
    let mut all = Vec::new();
    for owner in &OWNERS {
        let made = Made::create(&world.cluster, owner).await?;
        for index in 1..owner.min_member {
            made.pod(&world, index).await?;
        }
        all.push(made);
    }
    // One is missing of each gang.
    world.cluster.stays_bound("gang-", 0).await?;
    for made in &all {
        made.pod(&world, 0).await?;
    }
    let gangs = all.iter().filter(|made| made.owner.min_member > 1);
    let pods = gangs.map(|made| made.owner.min_member * made.parts.len()).sum();
    world.cluster.until_bound("gang-", pods).await?;
    // The driver of Spark and an executor.
    world.cluster.until_bound("single-", 2).await
}

#[tokio::test]
async fn a_deployment_with_a_minimum_starts_no_pod_before_there_is_room_for_all() -> Result<()> {
    let options = PlaneOptions { controllers: true, ..PlaneOptions::default() };
    let cluster = Cluster::with(options, fake::Nodes::new(1).cpu("2"), &["--controllers"]).await?;
    let world = World { cluster, controllers: None };
    let labels = json!({"app": "web"});
    let spec = PodSpec::cpu(1).single("")["spec"].clone();
    let deployment = json!({
        "metadata": {"name": "web", "annotations": {MIN_MEMBER: "4"}},
        "spec": {
            "replicas": 4, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    });
    world.cluster.create::<Deployment>(deployment).await?;
    let pods = wait::until(SOON, "four pods", async || {
        let pods = world.cluster.pods().await?;
        ensure!(pods.len() == 4, "{} pods", pods.len());
        Ok(pods)
    })
    .await?;
    for pod in &pods {
        assert_eq!(world.until_in_group(&pod.name_any()).await?.data["spec"]["minMember"], 4);
    }
    world.cluster.stays_bound("web-", 0).await?;
    fake::Nodes::new(1).starting_at(1).cpu("2").create(&world.cluster.client).await?;
    world.cluster.until_bound("web-", 4).await
}
