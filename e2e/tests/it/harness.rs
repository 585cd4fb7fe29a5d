//! The plane itself: starts, runs workloads, survives a restart of the API server, leaves nothing.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader},
    path::Path,
    pin::pin,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use phalanx_e2e::{Plane, PlaneOptions, crds, fake, wait};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_mins(3);

fn parse<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("a valid object")
}

async fn create<K>(client: &Client, value: Value) -> Result<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    Ok(api.create(&PostParams::default(), &parse(value)).await?)
}

fn pod(name: &str, annotations: &Value, gpus: u32) -> Value {
    json!({
        "metadata": { "name": name, "annotations": annotations },
        "spec": { "containers": [{
            "name": "main",
            "image": "example.com/none",
            "resources": { "limits": { "nvidia.com/gpu": gpus.to_string() } },
        }] },
    })
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

async fn phases(client: &Client) -> Result<BTreeMap<String, String>> {
    let pods = Api::<Pod>::default_namespaced(client.clone()).list(&ListParams::default()).await?;
    Ok(pods.iter().map(|pod| (pod.name_any(), phase(pod).to_owned())).collect())
}

async fn all_pods(client: &Client, count: usize, wanted: &str) -> Result<()> {
    wait::until(SOON, &format!("{count} pods {wanted}"), async || {
        let phases = phases(client).await?;
        ensure!(phases.len() == count && phases.values().all(|phase| phase == wanted), "{phases:?}");
        Ok(())
    })
    .await
}

/// Whether the process still runs; a zombie process does not.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn pods_run_finish_and_are_deleted() -> Result<()> {
    let plane = Plane::start(PlaneOptions::default()).await?;
    let client = plane.client();
    let nodes =
        fake::Nodes::new(2).extended("nvidia.com/gpu", "4").label("pool", "gpu").create(&client).await?;
    assert_eq!(nodes, ["node-0", "node-1"]);
    let found = Api::<Node>::all(client.clone()).get("node-1").await?;
    assert_eq!(found.labels()["pool"], "gpu");
    assert!(found.spec.is_none_or(|spec| spec.taints.is_none()), "ready nodes have no taint");

    let kubelet = fake::Kubelet::start(client.clone());
    let scheduler = plane.kube_scheduler().await?;
    create::<Pod>(&client, pod("server", &json!({}), 4)).await?;
    create::<Pod>(&client, pod("batch", &json!({ fake::RUN_SECONDS: "0.2" }), 4)).await?;
    let wanted = BTreeMap::from([("batch".into(), "Succeeded".into()), ("server".into(), "Running".into())]);
    wait::until(SOON, "one pod to finish, the other to run on", async || {
        let seen = phases(&client).await?;
        ensure!(seen == wanted, "{seen:?}");
        Ok(())
    })
    .await?;

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    pods.delete("server", &DeleteParams::default()).await?;
    wait::until(SOON, "the pod to be removed", async || {
        ensure!(pods.get_opt("server").await?.is_none(), "it is there");
        Ok(())
    })
    .await?;

    let pids: Vec<_> = plane.pids().into_iter().chain([scheduler.pid()]).collect();
    let dir = plane.dir().to_owned();
    assert!(pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    drop((kubelet, scheduler, plane));
    assert!(!pids.iter().any(|pid| runs(*pid)), "{pids:?} are still there");
    assert!(!dir.exists(), "{} is still there", dir.display());
    Ok(())
}

#[tokio::test]
async fn deployments_survive_a_restart_of_the_api_server() -> Result<()> {
    let mut plane = Plane::start(PlaneOptions { controllers: true, ..PlaneOptions::default() }).await?;
    let client = plane.client();
    fake::Nodes::new(3).create(&client).await?;
    let _kubelet = fake::Kubelet::start(client.clone());
    let _scheduler = plane.kube_scheduler().await?;
    let labels = json!({ "app": "web" });
    create::<Deployment>(
        &client,
        json!({
            "metadata": { "name": "web" },
            "spec": {
                "replicas": 5,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "main", "image": "example.com/none" }] },
                },
            },
        }),
    )
    .await?;
    all_pods(&client, 5, "Running").await?;

    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let mut seen = pin!(watcher(maps, watcher::Config::default()).default_backoff().applied_objects());
    create::<ConfigMap>(&client, json!({ "metadata": { "name": "before" } })).await?;
    let mut wait_for = async |name: &str| {
        let found = async {
            while seen.next().await.is_none_or(|map| map.map_or(true, |map| map.name_any() != name)) {}
        };
        tokio::time::timeout(SOON, found).await.with_context(|| format!("{name} was not seen"))
    };
    wait_for("before").await?;

    let url = plane.url();
    plane.stop_apiserver().await?;
    assert!(client.apiserver_version().await.is_err(), "the API server still answers");
    plane.start_apiserver().await?;
    assert_eq!(plane.url(), url);
    create::<ConfigMap>(&client, json!({ "metadata": { "name": "after" } })).await?;
    wait_for("after").await?;

    // Controllers, kube-scheduler and the kubelet have found the new server as well.
    let scale = json!({ "spec": { "replicas": 8 } });
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(scale)).await?;
    all_pods(&client, 8, "Running").await
}

#[tokio::test]
async fn gangs_of_kube_scheduler_wait_for_their_last_member() -> Result<()> {
    let plane = Plane::start(PlaneOptions { native_gangs: true, ..PlaneOptions::default() }).await?;
    let client = plane.client();
    fake::Nodes::new(2).extended("nvidia.com/gpu", "4").create(&client).await?;
    let _kubelet = fake::Kubelet::start(client.clone());
    let _scheduler = plane.kube_scheduler().await?;
    let group = json!({
        "metadata": { "name": "train" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 3 } } },
    });
    create::<k8s_openapi::api::scheduling::v1alpha2::PodGroup>(&client, group).await?;
    let member = |name: &str| {
        let mut member = pod(name, &json!({}), 2);
        member["spec"]["schedulingGroup"] = json!({ "podGroupName": "train" });
        member
    };
    for name in ["a", "b"] {
        create::<Pod>(&client, member(name)).await?;
    }
    // A pod of no gang that comes later is bound: the scheduler has passed over the two.
    create::<Pod>(&client, pod("alone", &json!({}), 1)).await?;
    wait::until(SOON, "only the lone pod to run", async || {
        let seen = phases(&client).await?;
        ensure!(seen["alone"] == "Running" && seen["a"] == "Pending" && seen["b"] == "Pending", "{seen:?}");
        Ok(())
    })
    .await?;
    create::<Pod>(&client, member("c")).await?;
    all_pods(&client, 4, "Running").await
}

#[tokio::test]
async fn a_crd_is_served_once_applied() -> Result<()> {
    let plane = Plane::start(PlaneOptions::default()).await?;
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("widgets.yaml"), WIDGETS)?;
    let client = plane.client();
    for _ in 0..2 {
        assert_eq!(crds::apply(&client, dir.path()).await?, ["widgets.example.com"]);
    }
    let list = http::Request::get("/apis/example.com/v1/widgets").body(Vec::new())?;
    assert!(client.request_text(list).await?.contains("WidgetList"));
    Ok(())
}

const WIDGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
";

#[tokio::test]
async fn a_killed_test_leaves_no_process() -> Result<()> {
    let mut up = Command::new(env!("CARGO_BIN_EXE_phalanx-e2e"))
        .args(["up", "--nodes", "1"])
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(up.stdout.take().context("no output")?).lines();
    let mut after = |label: &str| -> Result<String> {
        let line = lines.by_ref().find_map(|line| line.ok()?.strip_prefix(label).map(str::to_owned));
        line.with_context(|| format!("`up` did not print {label:?}"))
    };
    let kubeconfig = after("kubeconfig: ")?;
    let pids: Vec<u32> = after("processes: ")?.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    assert!(Path::new(&kubeconfig).is_file());
    assert!(pids.len() == 3 && pids.iter().all(|pid| runs(*pid)), "{pids:?}");
    up.kill()?;
    up.wait()?;
    wait::until(SOON, "the processes to leave", async || {
        let left: Vec<_> = pids.iter().filter(|pid| runs(**pid)).collect();
        ensure!(left.is_empty(), "{left:?} run");
        Ok(())
    })
    .await?;
    // The killed process could not remove it.
    if let Some(dir) = Path::new(&kubeconfig).parent() {
        std::fs::remove_dir_all(dir)?;
    }
    Ok(())
}
