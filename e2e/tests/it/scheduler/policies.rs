//! What the API server refuses by the policies of `deploy/`: queues of other tenants, and system priorities.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::scheduling::v1alpha2::PodGroup;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use phalanx_e2e::{
    PlaneOptions,
    deploy::{apply, manifests, manifests_in},
    fake, wait,
};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};

/// A cluster with these manifests' policies in force.
async fn with_policies(objects: Vec<Value>) -> Result<Cluster> {
    let options = PlaneOptions { native_gangs: true, ..PlaneOptions::default() };
    let cluster = Cluster::without_scheduler(options, fake::Nodes::new(1)).await?;
    cluster.define_jobs().await?;
    let is_policy =
        |object: &Value| object["kind"].as_str().is_some_and(|kind| kind.starts_with("ValidatingAdmission"));
    let policies: Vec<Value> = objects.into_iter().filter(is_policy).collect();
    apply(&cluster.client, &policies).await?;
    cluster.namespace("free", json!({})).await?;
    cluster.namespace("team", json!({"scheduling.volcano.sh/queues": "team-a, team-b"})).await?;
    Ok(cluster)
}

impl Cluster {
    pub(super) async fn namespace(&self, name: &str, annotations: Value) -> Result<()> {
        let namespace = json!({"metadata": {"name": name, "annotations": annotations}});
        let namespace: Namespace = serde_json::from_value(namespace)?;
        Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    /// Why the API server refuses a PodGroup; `None` if it takes it.
    async fn refuses(&self, namespace: &str, name: &str, spec: Value) -> Result<Option<String>> {
        let path = format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups");
        let group = json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name}, "spec": spec,
        });
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(&group)?)?;
        refusal(self.client.request::<Value>(request).await)
    }

    /// The same of a PodGroup of Kubernetes.
    async fn refuses_own(&self, name: &str, queue: &str) -> Result<Option<String>> {
        let group = json!({
            "metadata": {"name": name, "annotations": {"scheduling.volcano.sh/queue-name": queue}},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
        });
        let groups: Api<PodGroup> = Api::namespaced(self.client.clone(), "team");
        refusal(groups.create(&PostParams::default(), &serde_json::from_value(group)?).await)
    }

    /// Lets a user do this in all namespaces.
    async fn create_role(&self, user: &str, rules: Value) -> Result<()> {
        let metadata = json!({"name": user});
        let role: ClusterRole = serde_json::from_value(json!({"metadata": metadata, "rules": rules}))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &role).await?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        }))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &binding).await?;
        Ok(())
    }

    async fn refuses_pod(&self, namespace: &str, name: &str, annotations: Value) -> Result<Option<String>> {
        let mut pod = PodSpec::cpu(1).single(name);
        pod["metadata"]["annotations"] = annotations;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        refusal(pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await)
    }

    /// A policy is in force some time after it was made.
    async fn until_refused(&self, namespace: &str, spec: Value) -> Result<String> {
        let tried = std::cell::Cell::new(0);
        wait::until(SOON, "a policy to be in force", async || {
            tried.set(tried.get() + 1);
            let refused = self.refuses(namespace, &format!("try-{}", tried.get()), spec.clone()).await?;
            refused.context("it is not refused")
        })
        .await
    }
}

fn refusal<T>(answer: kube::Result<T>) -> Result<Option<String>> {
    match answer {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Some(status.message)),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test]
async fn a_namespace_that_names_its_queues_uses_no_other() -> Result<()> {
    let cluster = with_policies(manifests()?).await?;
    let why = cluster.until_refused("team", json!({"minMember": 1, "queue": "other"})).await?;
    let expected = "queue other is not one of the queues of namespace team: team-a, team-b \
                    (annotation scheduling.volcano.sh/queues of the namespace)";
    ensure!(why.contains(expected), "{why}");
    let why = cluster.refuses("team", "unnamed", json!({"minMember": 1})).await?;
    ensure!(why.as_ref().is_some_and(|why| why.contains("queue default is not one")), "{why:?}");
    for (namespace, queue) in [("team", "team-a"), ("team", "team-b"), ("free", "other"), ("default", "x")] {
        let refused = cluster.refuses(namespace, queue, json!({"minMember": 1, "queue": queue})).await?;
        ensure!(refused.is_none(), "{namespace} {queue}: {refused:?}");
    }
    let queue = |name: &str| json!({"scheduling.volcano.sh/queue-name": name});
    ensure!(cluster.refuses_pod("team", "mine", queue("team-a")).await?.is_none());
    ensure!(cluster.refuses_pod("team", "other", queue("other")).await?.is_some());
    ensure!(cluster.refuses_pod("team", "unnamed", json!({})).await?.is_some());
    let member = json!({"scheduling.k8s.io/group-name": "team-a"});
    ensure!(cluster.refuses_pod("team", "member", member).await?.is_none(), "the PodGroup has the queue");
    ensure!(cluster.refuses_pod("free", "any", queue("other")).await?.is_none());
    let own = cluster.refuses_own("other", "other").await?;
    ensure!(own.is_some_and(|why| why.contains("queue other is not one")), "a PodGroup of Kubernetes");
    ensure!(cluster.refuses_own("mine", "team-a").await?.is_none());
    // A member may carry any queue, for its PodGroup has the queue; it may not leave its PodGroup for that queue.
    let member =
        json!({"scheduling.k8s.io/group-name": "team-a", "scheduling.volcano.sh/queue-name": "other"});
    ensure!(cluster.refuses_pod("team", "leaves", member).await?.is_none());
    let alone = json!({"metadata": {"annotations": {"scheduling.k8s.io/group-name": null}}});
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "team");
    let left = pods.patch("leaves", &PatchParams::default(), &Patch::Merge(&alone)).await;
    ensure!(refusal(left)?.is_some_and(|why| why.contains("queue other is not one")));
    let left = pods.patch_status("leaves", &PatchParams::default(), &Patch::Merge(&alone)).await;
    ensure!(refusal(left)?.is_some_and(|why| why.contains("queue other is not one")), "by its status");

    // What was there before goes on: the scheduler writes statuses, and nobody may move it to a foreign queue.
    let annotation = json!({"metadata": {"annotations": {"scheduling.volcano.sh/queues": "team-b"}}});
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.patch("team", &PatchParams::default(), &Patch::Merge(annotation)).await?;
    cluster.until_refused("team", json!({"minMember": 1, "queue": "team-a"})).await?;
    let patch = async |spec: Value| {
        let path = "/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/team-a";
        let request = http::Request::patch(path)
            .header(http::header::CONTENT_TYPE, "application/merge-patch+json")
            .body(serde_json::to_vec(&spec)?)?;
        refusal(cluster.client.request::<Value>(request).await)
    };
    ensure!(patch(json!({"status": {"phase": "Inqueue"}})).await?.is_none());
    ensure!(patch(json!({"spec": {"queue": "other"}})).await?.is_some());
    ensure!(patch(json!({"spec": {"queue": "team-b"}})).await?.is_none());
    Ok(())
}

/// Who may make Commands in a namespace closes no queue by one, unless the queue may be updated.
#[tokio::test]
async fn a_queue_is_closed_by_who_may_update_it() -> Result<()> {
    let cluster = with_policies(manifests()?).await?;
    cluster.queue("team-a", json!({})).await?;
    for (name, rules) in [
        (
            "tenant",
            json!([{"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]}]),
        ),
        (
            "operator",
            json!([
                {"apiGroups": ["bus.volcano.sh"], "resources": ["commands"], "verbs": ["create"]},
                {"apiGroups": ["scheduling.volcano.sh"], "resources": ["queues"], "verbs": ["update"]},
            ]),
        ),
    ] {
        cluster.create_role(name, rules).await?;
    }
    let command = |kind: &str| {
        json!({
            "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"generateName": "c-"},
            "action": "CloseQueue", "target": {"apiVersion": "v1", "kind": kind, "name": "team-a", "uid": ""},
        })
    };
    let asks = async |user: &str, kind: &str| {
        let request = http::Request::post("/apis/bus.volcano.sh/v1alpha1/namespaces/team/commands")
            .header(http::header::CONTENT_TYPE, "application/json")
            .header("Impersonate-User", user)
            .body(serde_json::to_vec(&command(kind))?)?;
        refusal(cluster.client.request::<Value>(request).await)
    };
    wait::until(SOON, "the policy to be in force", async || {
        let why = asks("tenant", "Queue").await?.context("it is not refused")?;
        ensure!(why.contains("tenant may not update queue team-a"), "{why}");
        Ok(())
    })
    .await?;
    ensure!(asks("operator", "Queue").await?.is_none());
    ensure!(asks("tenant", "Job").await?.is_none());
    Ok(())
}

#[tokio::test]
async fn system_priorities_are_for_kube_system_only() -> Result<()> {
    let cluster = with_policies(manifests()?).await?;
    for class in ["system-node-critical", "system-cluster-critical"] {
        let spec = json!({"minMember": 1, "priorityClassName": class});
        let why = cluster.until_refused("free", spec.clone()).await?;
        ensure!(
            why.contains(&format!("priorityClassName {class} is for namespace kube-system only")),
            "{why}"
        );
        let refused = cluster.refuses("kube-system", class, spec).await?;
        ensure!(refused.is_none(), "{refused:?}");
    }
    let other = json!({"minMember": 1, "priorityClassName": "urgent"});
    ensure!(cluster.refuses("free", "urgent", other).await?.is_none());
    // Pods that have no PodGroup, and those of a Job, have their own class.
    let mut pod = PodSpec::cpu(1).single("critical");
    pod["spec"]["priorityClassName"] = json!("system-node-critical");
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "free");
    let created = pods.create(&PostParams::default(), &serde_json::from_value(pod.clone())?).await;
    ensure!(refusal(created)?.is_some_and(|why| why.contains("is for namespace kube-system only")));
    let job = json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "critical"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": {"spec": pod["spec"]}}]},
    });
    let request = http::Request::post("/apis/batch.volcano.sh/v1alpha1/namespaces/free/jobs")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(serde_json::to_vec(&job)?)?;
    let created = refusal(cluster.client.request::<Value>(request).await)?;
    ensure!(created.is_some_and(|why| why.contains("is for namespace kube-system only")));
    Ok(())
}

#[tokio::test]
async fn where_queues_are_required_a_namespace_without_any_uses_none() -> Result<()> {
    let mut objects = manifests()?;
    objects.extend(manifests_in("optional")?);
    let cluster = with_policies(objects).await?;
    let why = cluster.until_refused("free", json!({"minMember": 1, "queue": "q"})).await?;
    let expected = "namespace free may use no queue: it has no annotation scheduling.volcano.sh/queues";
    ensure!(why.contains(expected), "{why}");
    ensure!(cluster.refuses("team", "mine", json!({"minMember": 1, "queue": "team-a"})).await?.is_none());
    // Pods of other schedulers, and pods that name their node, would have no queue.
    let mine = json!({"scheduling.volcano.sh/queue-name": "team-a"});
    ensure!(cluster.refuses_pod("team", "mine", mine).await?.is_none());
    for (field, value) in [("schedulerName", "default-scheduler"), ("nodeName", "node-0")] {
        let mut pod = PodSpec::cpu(1).single("elsewhere");
        pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "team-a"});
        pod["spec"][field] = json!(value);
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "team");
        let refused = refusal(pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await)?;
        ensure!(refused.as_ref().is_some_and(|why| why.contains(&format!("spec.{field}"))), "{refused:?}");
    }
    let label = json!({"metadata": {"labels": {"scheduling.volcano.sh/any-queue": "true"}}});
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    namespaces.patch("free", &PatchParams::default(), &Patch::Merge(label)).await?;
    wait::until(SOON, "the label to count", async || {
        let refused = cluster.refuses("free", "any", json!({"minMember": 1, "queue": "q"})).await?;
        ensure!(refused.is_none(), "{refused:?}");
        Ok(())
    })
    .await
}
