//! A plane with our definitions, fake nodes, fake kubelets and the scheduler; and what tests ask of it.

use std::{collections::BTreeMap, fmt::Debug, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::{
    NamespaceResourceScope,
    api::{
        core::v1::{Node, Pod},
        events::v1::Event,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt as _,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams},
    core::GroupVersionKind,
};
use phalanx_e2e::{Phalanx, Plane, PlaneOptions, crds, fake, wait};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

/// Long enough for a busy machine; nothing waits this long when all is well.
pub(crate) const SOON: Duration = Duration::from_mins(3);
/// How long something that must not happen is watched for.
const QUIET: Duration = Duration::from_millis(1500);
/// The API groups of the objects that a scheduler reads.
const OF_SCHEDULER: [&str; 2] = ["scheduling.volcano.sh", "topology.volcano.sh"];
/// How the names of pods begin that only make the scheduler look.
pub(crate) const FOREIGN: &str = "foreign-";

/// All of it; everything ends when it is dropped.
pub(crate) struct Cluster {
    pub(crate) scheduler: Option<Phalanx>,
    pub(crate) plane: Plane,
    pub(crate) client: Client,
    pub(crate) kubelet: Option<fake::Kubelet>,
}

impl Cluster {
    /// A cluster with these nodes, and a scheduler with these flags.
    pub(crate) async fn start(nodes: fake::Nodes, flags: &[&str]) -> Result<Self> {
        Self::with(PlaneOptions::default(), nodes, flags).await
    }

    /// The same on a plane of one's own.
    pub(crate) async fn with(options: PlaneOptions, nodes: fake::Nodes, flags: &[&str]) -> Result<Self> {
        let mut cluster = Self::without_scheduler(options, nodes).await?;
        if flags.contains(&"--controllers") {
            cluster.define_jobs().await?;
        }
        cluster.scheduler = Some(Phalanx::start(&cluster.plane, flags).await?);
        Ok(cluster)
    }

    /// The same before the scheduler is there.
    pub(crate) async fn without_scheduler(options: PlaneOptions, nodes: fake::Nodes) -> Result<Self> {
        let cluster = Self::bare(options, nodes).await?;
        crds::apply_some(&cluster.client, &crds::dir(), |group| OF_SCHEDULER.contains(&group)).await?;
        Ok(cluster)
    }

    /// The same before our definitions are there.
    pub(crate) async fn bare(options: PlaneOptions, nodes: fake::Nodes) -> Result<Self> {
        let plane = Plane::start(options).await?;
        let client = plane.client();
        nodes.create(&client).await?;
        let kubelet = fake::Kubelet::start(client.clone());
        Ok(Self { scheduler: None, plane, client, kubelet: Some(kubelet) })
    }

    /// Adds the definitions that only controllers read. They take the API server seconds.
    pub(crate) async fn define_jobs(&self) -> Result<()> {
        crds::apply_some(&self.client, &crds::dir(), |group| !OF_SCHEDULER.contains(&group)).await?;
        Ok(())
    }

    /// Where a test may write.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.plane.dir().join(name)
    }

    pub(crate) async fn create<K>(&self, object: Value) -> Result<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        Ok(api.create(&PostParams::default(), &serde_json::from_value(object)?).await?)
    }

    /// PodGroups and Queues as plain JSON, as kubectl would send them.
    pub(crate) fn volcano(&self, kind: &str) -> Api<DynamicObject> {
        volcano(&self.client, kind)
    }

    pub(crate) async fn queue(&self, name: &str, spec: Value) -> Result<()> {
        self.create_volcano("Queue", name, spec).await
    }

    pub(crate) async fn pod_group(&self, name: &str, spec: Value) -> Result<()> {
        self.create_volcano("PodGroup", name, spec).await
    }

    async fn create_volcano(&self, kind: &str, name: &str, spec: Value) -> Result<()> {
        let object = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object)?;
        let (api, params) = (self.volcano(kind), PostParams::default());
        // A policy that was applied a moment ago refuses all until the API server has listed the queues that it reads.
        wait::until(SOON, &format!("policies that let {kind} {name} in"), async || {
            match api.create(&params, &object).await {
                Err(kube::Error::Api(status)) if status.message.contains("not yet synced") => {
                    bail!("{}", status.message)
                }
                answer => Ok(answer),
            }
        })
        .await??;
        Ok(())
    }

    /// `count` pods of a group: `group-0`, `group-1`, ...
    pub(crate) async fn members(&self, group: &str, count: usize, pod: &PodSpec) -> Result<()> {
        let pods = (0..count).map(|index| pod.member(group, index));
        stream::iter(pods)
            .map(|pod| self.create::<Pod>(pod))
            .buffer_unordered(16)
            .try_collect::<Vec<_>>()
            .await?;
        Ok(())
    }

    /// A whole gang: all members are needed.
    pub(crate) async fn gang(&self, name: &str, count: usize, pod: &PodSpec) -> Result<()> {
        self.pod_group(name, json!({"minMember": count})).await?;
        self.members(name, count, pod).await
    }

    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// Pods with a node, by name.
    pub(crate) async fn bound(&self) -> Result<BTreeMap<String, String>> {
        let node = |pod: Pod| Some((pod.name_any(), pod.spec?.node_name?));
        Ok(self.pods().await?.into_iter().filter_map(node).collect())
    }

    /// How many pods whose name begins like this have a node.
    pub(crate) async fn bound_of(&self, prefix: &str) -> Result<usize> {
        Ok(self.bound().await?.keys().filter(|name| name.starts_with(prefix)).count())
    }

    /// Waits until exactly so many pods of this beginning have a node.
    pub(crate) async fn until_bound(&self, prefix: &str, count: usize) -> Result<()> {
        wait::until(SOON, &format!("{count} pods {prefix}* bound"), async || {
            let bound = self.bound_of(prefix).await?;
            ensure!(bound == count, "{bound} are bound");
            Ok(())
        })
        .await
    }

    /// Makes sure that no other number of pods of this beginning gets a node for a while.
    pub(crate) async fn stays_bound(&self, prefix: &str, count: usize) -> Result<()> {
        let end = std::time::Instant::now() + QUIET;
        while std::time::Instant::now() < end {
            let bound = self.bound_of(prefix).await?;
            ensure!(bound == count, "{bound} pods {prefix}* are bound, expected {count}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    pub(crate) async fn until_phase(&self, group: &str, phase: &str) -> Result<Value> {
        self.until_status("PodGroup", group, &format!("phase {phase}"), |status| status["phase"] == phase)
            .await
    }

    /// Waits for a status of a PodGroup or Queue and returns it.
    pub(crate) async fn until_status(
        &self,
        kind: &str,
        name: &str,
        what: &str,
        good: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let api = self.volcano(kind);
        wait::until(SOON, &format!("{kind} {name}: {what}"), async || {
            let object = api.get(name).await?;
            let status = object.data.get("status").cloned().unwrap_or_default();
            ensure!(good(&status), "{status}");
            Ok(status)
        })
        .await
    }

    /// Waits for the PodScheduled condition that says why a pod waits, and returns its message.
    pub(crate) async fn until_waits(&self, pod: &str, because: &str) -> Result<String> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        wait::until(SOON, &format!("pod {pod} to wait because of {because:?}"), async || {
            let conditions = pods.get(pod).await?.status.and_then(|status| status.conditions);
            let condition =
                conditions.into_iter().flatten().find(|condition| condition.type_ == "PodScheduled");
            let condition = condition.context("no PodScheduled condition")?;
            let message = condition.message.unwrap_or_default();
            ensure!(condition.status == "False" && message.contains(because), "{message}");
            Ok(message)
        })
        .await
    }

    /// Waits for an event about an object and returns its note.
    pub(crate) async fn until_event(&self, reason: &str, object: &str) -> Result<String> {
        self.until_event_with(reason, object, "").await
    }

    /// The same for an event whose note has these words.
    pub(crate) async fn until_event_with(&self, reason: &str, object: &str, words: &str) -> Result<String> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        wait::until(SOON, &format!("an event {reason} about {object}"), async || {
            let all = events.list(&ListParams::default()).await?.items;
            let about = |event: &&Event| {
                let name = event.regarding.as_ref().and_then(|regarding| regarding.name.as_deref());
                event.reason.as_deref() == Some(reason) && name == Some(object)
            };
            let notes: Vec<String> =
                all.iter().filter(about).filter_map(|event| event.note.clone()).collect();
            notes.iter().find(|note| note.contains(words)).cloned().with_context(|| format!("{notes:?}"))
        })
        .await
    }

    pub(crate) async fn delete_pods(&self, prefix: &str) -> Result<()> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        for pod in self.pods().await?.iter().filter(|pod| pod.name_any().starts_with(prefix)) {
            pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
        }
        Ok(())
    }

    /// How many bind requests the API server has answered since it was started, by status.
    pub(crate) async fn bind_requests(&self) -> Result<BTreeMap<String, f64>> {
        let metrics = self.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let mut requests = BTreeMap::new();
        for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
            if !line.contains("resource=\"pods\"") || !line.contains("subresource=\"binding\"") {
                continue;
            }
            let code =
                line.split_once("code=\"").and_then(|(_, rest)| rest.split_once('"')).context("a code")?.0;
            let count: f64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
            *requests.entry(code.to_owned()).or_default() += count;
        }
        Ok(requests)
    }

    pub(crate) fn phalanx(&self) -> &Phalanx {
        self.scheduler.as_ref().expect("the test started a scheduler")
    }

    /// Has the scheduler run a cycle that changes nothing of its own: a pod of nobody's scheduler, which asks for
    /// nothing, comes to a node.
    pub(crate) async fn another_cycle(&self) -> Result<()> {
        const CYCLES: &str = "phalanx_cycles_total";
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = nodes.list(&ListParams::default().limit(1)).await?.items.pop().context("a node")?;
        let before = self.phalanx().metric(CYCLES).await?;
        let mut pod = PodSpec { scheduler: "nobody", ..PodSpec::cpu(0) }.single("");
        pod["metadata"] = json!({"generateName": FOREIGN});
        pod["spec"]["nodeName"] = json!(node.name_any());
        self.create::<Pod>(pod).await?;
        wait::until(SOON, "another cycle", async || {
            let cycles = self.phalanx().metric(CYCLES).await?;
            ensure!(cycles > before, "{cycles} cycles");
            Ok(())
        })
        .await
    }

    /// Waits until the default queue has allocated exactly what its bound pods ask for; all pods are in it.
    pub(crate) async fn until_allocated_is_bound(&self) -> Result<()> {
        let queue = self.volcano("Queue");
        wait::until(SOON, "the queue to count the bound pods", async || {
            let allocated = queue.get("default").await?.data["status"]["allocated"].clone();
            let cpus = self.cpus_by_node().await?.values().sum::<u64>().to_string();
            ensure!(allocated["cpu"] == *cpus, "{allocated} for {cpus} bound CPUs");
            Ok(())
        })
        .await
    }

    /// No node holds more CPU than it has. The fake nodes of these tests have whole CPUs and so do the pods.
    pub(crate) async fn check_room(&self, cpus: u64) -> Result<()> {
        let used = self.cpus_by_node().await?;
        ensure!(used.values().all(|used| *used <= cpus), "more than {cpus} CPUs on a node: {used:?}");
        Ok(())
    }

    async fn cpus_by_node(&self) -> Result<BTreeMap<String, u64>> {
        let mut used: BTreeMap<String, u64> = BTreeMap::new();
        for pod in self.pods().await? {
            let Some(spec) = pod.spec else { continue };
            let Some(node) = spec.node_name else { continue };
            let requests = spec.containers[0].resources.as_ref().and_then(|all| all.requests.clone());
            let cpu = requests.and_then(|all| all.get("cpu").cloned()).context("a request of CPU")?;
            let cpu: u64 = cpu.0.parse()?;
            *used.entry(node).or_default() += cpu;
        }
        Ok(used)
    }
}

/// Volcano's objects (of namespace default, where they have one) as plain JSON.
pub(crate) fn volcano(client: &Client, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version(kind).split_once('/').unwrap_or_default();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if matches!(kind, "Queue" | "HyperNode") {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::default_namespaced_with(client.clone(), &resource)
    }
}

/// Group and version of one of Volcano's kinds.
pub(crate) fn api_version(kind: &str) -> &'static str {
    match kind {
        "Job" | "CronJob" => "batch.volcano.sh/v1alpha1",
        "Command" => "bus.volcano.sh/v1alpha1",
        "JobFlow" | "JobTemplate" => "flow.volcano.sh/v1alpha1",
        "HyperNode" => "topology.volcano.sh/v1alpha1",
        _ => "scheduling.volcano.sh/v1beta1",
    }
}

/// What the pods of a test look like.
#[derive(Clone, Debug)]
pub(crate) struct PodSpec {
    pub(crate) cpu: u32,
    pub(crate) run_seconds: Option<&'static str>,
    pub(crate) priority_class: Option<&'static str>,
    pub(crate) scheduler: &'static str,
    pub(crate) queue: Option<&'static str>,
}

impl PodSpec {
    pub(crate) fn cpu(cpu: u32) -> Self {
        Self { cpu, run_seconds: None, priority_class: None, scheduler: "volcano", queue: None }
    }

    pub(crate) fn member(&self, group: &str, index: usize) -> Value {
        let mut pod = self.single(&format!("{group}-{index}"));
        pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = json!(group);
        pod
    }

    /// A pod without a group.
    pub(crate) fn single(&self, name: &str) -> Value {
        let mut pod = json!({
            "metadata": {"name": name, "annotations": {}},
            "spec": {
                "schedulerName": self.scheduler,
                "containers": [{
                    "name": "main",
                    "image": "example.com/none",
                    "resources": {"requests": {"cpu": self.cpu.to_string()}},
                }],
            },
        });
        if let Some(seconds) = self.run_seconds {
            pod["metadata"]["annotations"][fake::RUN_SECONDS] = json!(seconds);
        }
        if let Some(class) = self.priority_class {
            pod["spec"]["priorityClassName"] = json!(class);
        }
        if let Some(queue) = self.queue {
            pod["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = json!(queue);
        }
        pod
    }
}
