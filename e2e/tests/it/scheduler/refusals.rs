//! Binds that the API server refuses.

use anyhow::{Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::PostParams};
use phalanx_e2e::{Phalanx, PlaneOptions, fake, wait};
use serde_json::json;

use super::cluster::{Cluster, PodSpec, SOON};
use super::pools::until_pools;

/// The API server refuses to bind one pod, whoever asks. Returns when it does.
async fn refuse_to_bind(cluster: &Cluster, pod: &str) -> Result<()> {
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
        "metadata": {"name": "refuse"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/binding"],
            }]},
            "validations": [{"expression": format!("request.name != '{pod}'"), "message": "not this one"}],
        },
    }))?;
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
        "metadata": {"name": "refuse"}, "spec": {"policyName": "refuse", "validationActions": ["Deny"]},
    }))?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &policy).await?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &binding).await?;
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": "node-0"});
    let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target});
    wait::until(SOON, "the policy to be in force", async || {
        let url = format!("/api/v1/namespaces/default/pods/{pod}/binding?dryRun=All");
        let request = http::Request::post(url).header("content-type", "application/json");
        match cluster.client.request_text(request.body(serde_json::to_vec(&body)?)?).await {
            Err(kube::Error::Api(status)) if status.message.contains("not this one") => Ok(()),
            other => bail!("{other:?}"),
        }
    })
    .await
}

/// The rest of its gang runs, the pod is told why it does not, and when it goes its room is there for another one:
/// exactly its room.
#[tokio::test]
async fn a_gang_with_a_failed_bind_runs_in_the_end() -> Result<()> {
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(2).cpu("2")).await?;
    cluster.gang("train", 4, &PodSpec::cpu(1)).await?;
    refuse_to_bind(&cluster, "train-1").await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    cluster.until_bound("train-", 3).await?;
    let note = cluster.until_event_with("FailedScheduling", "train-1", "not this one").await?;
    ensure!(note.contains("refuse"), "it names the policy: {note}");
    until_pools(&cluster, [0, 1, 0]).await?;
    // It goes while its bind is still being tried, and is not bound under another name twice.
    cluster.delete_pods("train-1").await?;
    for index in [4, 5] {
        cluster.create::<Pod>(PodSpec::cpu(1).member("train", index)).await?;
    }
    cluster.until_bound("train-", 4).await?;
    cluster.until_allocated_is_bound().await?;
    cluster.another_cycle().await?;
    assert_eq!(cluster.bound_of("train-").await?, 4, "there is no room for a fifth");
    cluster.check_room(2).await?;
    let left = cluster
        .pods()
        .await?
        .into_iter()
        .filter(|pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_none()));
    assert_eq!(left.count(), 1);
    cluster.until_phase("train", "Running").await?;
    Ok(())
}
