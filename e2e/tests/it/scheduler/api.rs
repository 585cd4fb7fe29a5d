//! `phalanx explain` and `phalanx top` on a running scheduler, as somebody who may list PodGroups, or may not.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use phalanx_e2e::{PlaneOptions, fake, phalanx, wait};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};
use super::evictions::{full, urgent};

/// The token of a new service account of namespace `default`.
pub(super) async fn account(cluster: &Cluster, name: &str) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::default_namespaced(cluster.client.clone());
    let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    accounts.create(&PostParams::default(), &account).await?;
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let token = accounts.create_token_request(name, &PostParams::default(), &request).await?;
    token.status.and_then(|status| status.token).context("a token")
}

/// Lets an account list the PodGroups of namespace `default`.
pub(super) async fn allow(cluster: &Cluster, account: &str) -> Result<()> {
    let rule = json!({"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["list"]});
    cluster.create::<Role>(json!({"metadata": {"name": "lists"}, "rules": [rule]})).await?;
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": "default"});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "lists"});
    let binding = json!({"metadata": {"name": "lists"}, "roleRef": role, "subjects": [subject]});
    cluster.create::<RoleBinding>(binding).await?;
    Ok(())
}

/// Lets an account list the PodGroups of all namespaces, and get these paths.
pub(super) async fn allow_all(cluster: &Cluster, account: &str, paths: &[&str]) -> Result<()> {
    let list = json!({"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["list"]});
    let get = json!({"nonResourceURLs": paths, "verbs": ["get"]});
    let rules = if paths.is_empty() { vec![list] } else { vec![list, get] };
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": account}, "rules": rules}))?;
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": "default"});
    let named = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account});
    let binding = json!({"metadata": {"name": account}, "roleRef": named, "subjects": [subject]});
    let binding: ClusterRoleBinding = serde_json::from_value(binding)?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &role).await?;
    Api::all(cluster.client.clone()).create(&PostParams::default(), &binding).await?;
    Ok(())
}

/// What a command prints that asks the scheduler with a token, or its error.
pub(super) async fn ask(cluster: &Cluster, token: &str, args: &[&str]) -> Result<String> {
    let program = tokio::task::spawn_blocking(phalanx::binary).await??;
    let url = format!("http://{}", cluster.phalanx().api_address().context("an API")?);
    let mut command = tokio::process::Command::new(program);
    let output = command.args(args).args(["--scheduler", &url, "--token", token]).output().await?;
    let text = if output.status.success() { output.stdout } else { output.stderr };
    Ok(String::from_utf8(text)?)
}

#[tokio::test]
async fn waiting_podgroups_and_evicted_pods_are_explained_to_who_may_list_them() -> Result<()> {
    let cluster = full(PlaneOptions::default(), &["--api-address=127.0.0.1:0"]).await?;
    let (reader, stranger) = (account(&cluster, "reader").await?, account(&cluster, "stranger").await?);
    allow(&cluster, "reader").await?;
    urgent(&cluster, 2).await?;
    cluster.until_bound("urgent-", 2).await?;
    cluster.pod_group("late", json!({"minMember": 1})).await?;
    cluster.create::<Pod>(PodSpec::cpu(3).member("late", 0)).await?;
    cluster.until_waits("late-0", "Insufficient cpu").await?;
    let told = wait::until(SOON, "the scheduler to explain PodGroup late", async || {
        let told = ask(&cluster, &reader, &["explain", "podgroup", "late"]).await?;
        ensure!(told.contains("  stopped at: nodes\n"), "{told}");
        Ok(told)
    })
    .await?;
    ensure!(told.starts_with("PodGroup default/late: Inqueue\n"), "{told}");
    ensure!(told.contains("  number 1 of 1 waiting in queue default\n"), "{told}");
    ensure!(told.contains("  cpu: queue default 4\n    default/low 2, default/urgent 2\n"), "{told}");
    ensure!(told.contains("  with 1 more node like node-0\n"), "{told}");
    let evicted = ask(&cluster, &reader, &["explain", "pod", "low-3"]).await?;
    ensure!(evicted.starts_with("Pod default/low-3: does not exist any more\nEvicted\n"), "{evicted}");
    let by = " default/low-3: preempted by default/urgent (priority 1000) in queue default (preempt)\n";
    ensure!(evicted.ends_with(by), "{evicted}");
    let placed = ask(&cluster, &reader, &["explain", "pod", "urgent-0"]).await?;
    ensure!(placed.contains("1 feasible node, by score; its node is number 1\n    node-0 "), "{placed}");
    let top = ask(&cluster, &reader, &["top", "-n", "default", "-o", "json"]).await?;
    let top: Value = serde_json::from_str(&top).with_context(|| top.clone())?;
    assert_eq!(
        (&top["waiting"][0]["first"], &top["queues"][0]["waiting"]),
        (&json!("default/late"), &json!(1))
    );
    for (token, args) in [
        (&stranger, &["explain", "podgroup", "late"][..]),
        (&reader, &["explain", "podgroup", "late", "-n", "kube-system"]),
        (&reader, &["top"]),
    ] {
        let refused = ask(&cluster, token, args).await?;
        ensure!(refused.contains("may not list podgroups.scheduling.volcano.sh"), "{args:?}: {refused}");
    }
    Ok(())
}

#[tokio::test]
async fn a_profile_is_for_who_may_get_its_path() -> Result<()> {
    const PROFILE: &str = "/debug/pprof/profile";
    let flags = ["--api-address=127.0.0.1:0", "--profiling"];
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &flags).await?;
    let (reader, stranger) = (account(&cluster, "reader").await?, account(&cluster, "stranger").await?);
    allow_all(&cluster, "reader", &[PROFILE]).await?;
    cluster.gang("g", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("g-", 2).await?;
    let (status, _) = cluster.phalanx().ask(PROFILE, Some(&stranger)).await?;
    assert_eq!(status, "HTTP/1.1 403 Forbidden");
    let (status, profile) = cluster.phalanx().ask(&format!("{PROFILE}?seconds=1"), Some(&reader)).await?;
    assert_eq!(status, "HTTP/1.1 200 OK");
    let named = |text: &[u8]| profile.windows(text.len()).any(|part| part == text);
    ensure!(named(b"cpu") && named(b"nanoseconds"), "{} bytes", profile.len());
    cluster.gang("h", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("h-", 2).await
}
