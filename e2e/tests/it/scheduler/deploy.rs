//! The manifests of `deploy/`: what they grant is enough, and what they run works.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Api, Client, api::PostParams};
use phalanx_e2e::{
    Account, Phalanx, PlaneOptions,
    deploy::{self, apply, manifests},
    fake, wait,
};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};
use super::volumes::with_claim;
use super::{kubernetes_groups, podgroups};

/// What the scheduler asks for in situations that the test does not bring about.
const SOMETIMES: [(&str, &str); 12] = [
    ("watch coordination.k8s.io/leases", "where another replica leads"),
    ("get /pods", "after a conflict of a bind"),
    ("get scheduling.volcano.sh/podgroups", "after a conflict of a status"),
    ("get scheduling.k8s.io/podgroups", "after a conflict of a status"),
    ("patch scheduling.volcano.sh/podgroups/status", "where the definition has the subresource"),
    ("get apps/statefulsets", "as for ReplicaSets"),
    ("get apps/daemonsets", "as for ReplicaSets"),
    ("get batch/jobs", "as for ReplicaSets"),
    (
        "update resource.k8s.io/resourceclaims/binding",
        "checked with updates of the status, where that is a right",
    ),
    ("patch events.k8s.io/events", "when an event is repeated"),
    ("create authentication.k8s.io/tokenreviews", "when somebody asks its API"),
    ("create authorization.k8s.io/subjectaccessreviews", "when somebody asks its API"),
];
const ACCOUNT: &str = "system:serviceaccount:volcano-system:phalanx-scheduler";

/// The arguments of the Deployment, with the mounted file and the ports where a test can have them.
pub(crate) fn arguments(objects: &[Value], conf: &Path) -> Result<Vec<String>> {
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").context("a Deployment")?;
    let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let args: Vec<String> = serde_json::from_value(args.clone())?;
    ensure!(args.first().is_some_and(|first| first == "scheduler"), "{args:?}");
    let mounted = "/etc/phalanx/scheduler.conf";
    Ok(args[1..].iter().map(|arg| arg.replace(mounted, &conf.display().to_string())).collect())
}

/// Whether a log says so. A policy refuses with `forbidden` too, until it knows the kind of its parameters.
pub(crate) fn lacks_a_right(log: &str) -> bool {
    log.contains("forbidden: User")
}

/// The rights in roles, as [`phalanx_e2e::Plane::audited`] writes requests.
pub(crate) fn granted(objects: &[Value]) -> BTreeSet<String> {
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    let mut rights = BTreeSet::new();
    for rule in objects.iter().filter_map(|object| object["rules"].as_array()).flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                let verbs = texts(&rule["verbs"]).into_iter();
                rights.extend(verbs.map(|verb| format!("{verb} {group}/{resource}")));
            }
        }
    }
    rights
}

/// The rights on leases hold in one namespace and, but for creation, for one name; that of the controllers is looked
/// at.
fn ensure_rights_on_leases_are_narrow(objects: &[Value]) -> Result<()> {
    for object in objects {
        for rule in object["rules"].as_array().into_iter().flatten() {
            if !rule["resources"].as_array().is_some_and(|all| all.contains(&json!("leases"))) {
                continue;
            }
            ensure!(object["kind"] == "Role", "{object}");
            let own = rule["resourceNames"] == json!(["volcano"]);
            let looks =
                rule["resourceNames"] == json!(["vc-controller-manager"]) && rule["verbs"] == json!(["get"]);
            ensure!(rule["verbs"] == json!(["create"]) || own || looks, "{rule}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_manifests_grant_exactly_the_rights_that_the_scheduler_needs() -> Result<()> {
    let nodes = fake::Nodes::new(1).cpu("4");
    let options =
        PlaneOptions { controllers: true, audit: true, native_gangs: true, ..PlaneOptions::default() };
    let mut cluster = Cluster::without_scheduler(options, nodes).await?;
    let objects = manifests()?;
    apply(&cluster.client, &objects).await?;
    let conf = objects.iter().find(|object| object["kind"] == "ConfigMap").context("a ConfigMap")?;
    let path = cluster.file("scheduler.conf");
    fs::write(&path, conf["data"]["scheduler.conf"].as_str().context("the conf")?)?;

    may_ask_for_figures(&cluster.plane.client_of(Account::Scheduler).await?).await?;
    let mut args = arguments(&objects, &path)?;
    args.push("--leader-elect=true".to_owned());
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &args).await?);

    // A policy refuses everything until it knows the queues.
    wait::until(SOON, "the policies to be in force", async || {
        cluster.pod_group("g", json!({"minMember": 1})).await
    })
    .await?;
    cluster.members("g", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("g-", 2).await?;
    cluster.until_status("PodGroup", "g", "2 running", |status| status["running"] == 2).await?;
    cluster.until_event("Scheduled", "g-0").await?;
    cluster.until_status("Queue", "default", "allocated", |status| status["allocated"]["cpu"] == "2").await?;
    cluster.create::<Pod>(PodSpec::cpu(3).single("big")).await?;
    cluster.until_waits("big", "").await?;
    cluster.until_event("FailedScheduling", "big").await?;
    wait::until(SOON, "the lease to be held", async || {
        let leads = cluster.phalanx().metric("phalanx_leader").await?;
        ensure!(leads > 0.5, "{leads}");
        Ok(())
    })
    .await?;
    kubernetes_groups::gang(&cluster, "own", "default", 1, &PodSpec::cpu(1)).await?;
    cluster.until_bound("own-", 1).await?;
    kubernetes_groups::until_told(&cluster, "own", "Running", "True", "1 running").await?;
    let owner = podgroups::replica_set(&cluster, "web", 2).await?;
    podgroups::pods_of(&cluster, &owner, 1, &PodSpec::cpu(9)).await?;
    cluster.until_event("Invalid", "web").await?;
    evict_one(&cluster, &path).await?;
    bind_volume_and_device(&cluster).await?;
    let log = cluster.phalanx().log_text();
    ensure!(!lacks_a_right(&log), "{log}");

    let (granted, used) = (granted(&objects), cluster.plane.audited(ACCOUNT)?);
    let sometimes = SOMETIMES.map(|(right, _)| right.to_owned()).into();
    let beyond = |one: &BTreeSet<String>, other| one.difference(other).cloned().collect::<BTreeSet<_>>();
    let (denied, idle) = (beyond(&used, &granted), beyond(&granted, &used));
    ensure!(denied.is_empty(), "asked for without a right: {denied:?}");
    ensure!(
        beyond(&idle, &sometimes).is_empty(),
        "rights that nothing uses: {:?}",
        beyond(&idle, &sometimes)
    );
    ensure_rights_on_leases_are_narrow(&objects)?;
    ensure!(sometimes.is_subset(&granted), "no longer granted: {:?}", beyond(&sometimes, &granted));
    open_a_gate(&cluster).await
}

/// A pod with a claim to a volume, one with a claim to a device, and one whose volume nobody makes.
async fn bind_volume_and_device(cluster: &Cluster) -> Result<()> {
    want_a_volume_made(cluster).await?;
    cluster.local_class().await?;
    cluster.local_volume("volume", "node-0", "1Gi").await?;
    cluster.claim("data", "1Gi").await?;
    cluster.create::<Pod>(with_claim(PodSpec::cpu(0).single("stores"), "data")).await?;
    cluster.until_bound("stores", 1).await?;
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    let class: DeviceClass = serde_json::from_value(class)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    let slice = json!({
        "metadata": {"name": "node-0"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-0",
            "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    });
    let slice: ResourceSlice = serde_json::from_value(slice)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &slice).await?;
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": "gpu"}});
    let claim = json!({"metadata": {"name": "gpu"}, "spec": {"devices": {"requests": [request]}}});
    cluster.create::<ResourceClaim>(claim).await?;
    let mut pod = PodSpec::cpu(0).single("computes");
    pod["spec"]["resourceClaims"] = json!([{"name": "gpu", "resourceClaimName": "gpu"}]);
    cluster.create::<Pod>(pod).await?;
    cluster.until_bound("computes", 1).await
}

async fn want_a_volume_made(cluster: &Cluster) -> Result<()> {
    let class = json!({
        "metadata": {"name": "made"},
        "provisioner": "example.com/none",
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    let class: StorageClass = serde_json::from_value(class)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    let spec = json!({
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "made",
        "resources": {"requests": {"storage": "1Gi"}},
    });
    let claim = json!({"metadata": {"name": "made"}, "spec": spec});
    cluster.create::<PersistentVolumeClaim>(claim).await?;
    cluster.create::<Pod>(with_claim(PodSpec::cpu(0).single("asks"), "made")).await?;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
    wait::until(SOON, "a node to be selected for the claim", async || {
        let annotations = claims.get("made").await?.metadata.annotations.unwrap_or_default();
        ensure!(annotations.contains_key("volume.kubernetes.io/selected-node"), "{annotations:?}");
        Ok(())
    })
    .await
}

/// That needs the optional role.
async fn open_a_gate(cluster: &Cluster) -> Result<()> {
    const GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";
    let mut pod = PodSpec::cpu(0).single("gated");
    pod["metadata"]["annotations"] = json!({GATE: "true"});
    pod["spec"]["schedulingGates"] = json!([{"name": GATE}]);
    cluster.create::<Pod>(pod).await?;
    cluster.until_event_with("FailedScheduling", "gated", "its scheduling gate cannot be taken off").await?;
    let role = deploy::dir().join("optional/scheduling-gates.yaml");
    apply(&cluster.client, &deploy::manifests_of(&role)?).await?;
    cluster.until_bound("gated", 1).await
}

/// The metrics API for the plugins `usage` and `rescheduling`: it is not served here, but requests are not forbidden.
async fn may_ask_for_figures(client: &Client) -> Result<()> {
    let custom = "/apis/custom.metrics.k8s.io/v1beta2/nodes/*/node";
    let paths = [
        "/apis/metrics.k8s.io/v1beta1/nodes".to_owned(),
        format!("{custom}_cpu_usage_avg"),
        format!("{custom}_memory_usage_avg"),
    ];
    for path in paths {
        let answer = client.request_text(http::Request::get(&path).body(Vec::new())?).await;
        let missing = matches!(&answer, Err(kube::Error::Api(status)) if status.code == 404);
        ensure!(missing, "{path}: {answer:?}");
    }
    Ok(())
}

/// A gang that takes three of four CPUs, of which two are in use, from others.
async fn evict_one(cluster: &Cluster, conf: &Path) -> Result<()> {
    let preempting = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config/preempt-and-reclaim.yaml");
    fs::copy(preempting, conf)?;
    let class: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "urgent"}, "value": 1000}))?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &class).await?;
    cluster.pod_group("urgent", json!({"minMember": 3, "priorityClassName": "urgent"})).await?;
    let pod = PodSpec { priority_class: Some("urgent"), ..PodSpec::cpu(1) };
    cluster.members("urgent", 3, &pod).await?;
    cluster.until_event("Evict", "g-1").await?;
    cluster.until_bound("urgent-", 3).await
}
