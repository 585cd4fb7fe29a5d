//! Restarts of scheduler and API server.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use phalanx_e2e::{Phalanx, PlaneOptions, crds, fake, wait};
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec, SOON};

/// A limit makes binding take long enough to be in the middle of it.
const SLOW: [&str; 2] = ["--kube-api-qps=20", "--kube-api-burst=1"];

#[tokio::test]
async fn the_next_scheduler_finishes_a_gang_of_a_killed_one() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(10).cpu("10"), &SLOW).await?;
    cluster.gang("big", 100, &PodSpec::cpu(1)).await?;
    wait::until(SOON, "some pods bound", async || {
        let bound = cluster.bound_of("big-").await?;
        ensure!(bound >= 3, "{bound} are bound");
        Ok(())
    })
    .await?;
    drop(cluster.scheduler.take());
    let bound = cluster.bound_of("big-").await?;
    ensure!(bound < 100, "all are bound already");
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    cluster.until_bound("big-", 100).await?;
    cluster.until_phase("big", "Running").await?;
    until_bind_requests(&cluster, 100).await?;
    cluster.check_room(10).await
}

/// Bind requests that reached the API server since it was started: that many, and all of them were for pods without a
/// node. One whose client is killed meanwhile counts as 504, and may be carried out or not.
async fn until_bind_requests(cluster: &Cluster, count: u32) -> Result<()> {
    wait::until(SOON, &format!("{count} binds, each of a pod without a node"), async || {
        let binds = cluster.bind_requests().await?;
        let answered = binds.keys().all(|code| ["201", "504"].contains(&code.as_str()));
        let done = binds.get("201").copied().unwrap_or_default();
        let enough = done <= f64::from(count) && binds.values().sum::<f64>() >= f64::from(count);
        ensure!(answered && enough, "{binds:?}");
        Ok(())
    })
    .await
}

/// Binds that the scheduler knows to be done; and that no pod was gone. An API server that has just started refuses
/// requests until it has read the roles: what was refused is decided again.
async fn binds_done(cluster: &Cluster) -> Result<f64> {
    let of = async |result: &str| {
        let name = format!("phalanx_requests_total{{kind=\"bind\",result=\"{result}\"}}");
        cluster.phalanx().metric(&name).await.unwrap_or_default()
    };
    let gone = of("gone").await;
    ensure!(gone < 0.5, "{gone} binds are gone");
    Ok(of("done").await)
}

async fn until_binds_done(cluster: &Cluster, count: u32) -> Result<()> {
    wait::until(SOON, &format!("{count} binds done"), async || {
        let done = binds_done(cluster).await?;
        ensure!((done - f64::from(count)).abs() < 0.5, "{done} are");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn gangs_run_after_a_restart_of_the_api_server_during_binds() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(10).cpu("10"), &SLOW).await?;
    for gang in ["a", "b"] {
        cluster.gang(gang, 50, &PodSpec::cpu(1)).await?;
    }
    wait::until(SOON, "some pods bound", async || {
        let bound = cluster.bound_of("").await?;
        ensure!(bound >= 5, "{bound} are bound");
        Ok(())
    })
    .await?;
    cluster.plane.stop_apiserver().await?;
    cluster.plane.start_apiserver().await?;
    let bound = cluster.bound_of("").await?;
    ensure!(bound < 100, "all were bound before the restart");
    cluster.until_bound("", 100).await?;
    until_binds_done(&cluster, 100).await?;
    cluster.check_room(10).await?;
    // The watches are back: what comes now is scheduled as well.
    cluster.delete_pods("a-1").await?;
    cluster.gang("after", 5, &PodSpec::cpu(1)).await?;
    cluster.until_bound("after-", 5).await?;
    cluster.check_room(10).await
}

#[tokio::test]
async fn sigterm_finishes_binds_and_releases_the_lease() -> Result<()> {
    // A lease that is not released runs out long after the test has failed.
    let lease =
        ["--leader-elect=true", "--leader-elect-lease-duration=1h", "--leader-elect-renew-deadline=30m"];
    let slow: Vec<&str> = lease.into_iter().chain(["--kube-api-qps=20", "--kube-api-burst=1"]).collect();
    let mut cluster = Cluster::start(fake::Nodes::new(4).cpu("10"), &slow).await?;
    let mut follower = Phalanx::start(&cluster.plane, &lease).await?;
    cluster.gang("g", 20, &PodSpec::cpu(1)).await?;
    wait::until(SOON, "the first pod bound", async || {
        let bound = cluster.bound_of("g-").await?;
        ensure!(bound >= 1, "{bound} are bound");
        Ok(())
    })
    .await?;
    ensure!(follower.metric("phalanx_cycles_total").await? < 1.0, "only the leader schedules");
    let leader = cluster.scheduler.take().expect("it was started");
    let status = leader.stop().await?;
    ensure!(status.success(), "{status}");
    assert_eq!(cluster.bound_of("g-").await?, 20, "what was decided was sent");
    until_bind_requests(&cluster, 20).await?;
    cluster.gang("next", 3, &PodSpec::cpu(1)).await?;
    cluster.until_bound("next-", 3).await?;
    until_bind_requests(&cluster, 23).await?;
    ensure!(follower.runs(), "the follower leads now");
    Ok(())
}

#[tokio::test]
async fn a_scheduler_started_before_the_crds_waits_for_them() -> Result<()> {
    let plane = phalanx_e2e::Plane::start(PlaneOptions::default()).await?;
    let scheduler = Phalanx::launch(&plane, &[]).await?;
    let said = "podgroups.scheduling.volcano.sh is not installed";
    wait::until(SOON, "a word about what is missing", async || {
        ensure!(scheduler.log_text().contains(said), "{}", scheduler.log_text());
        Ok(())
    })
    .await?;
    let impatient = Phalanx::launch(&plane, &[]).await?;
    ensure!(impatient.stop().await?.success(), "it can be ended meanwhile");
    crds::apply(&plane.client(), &crds::dir()).await?;
    scheduler.ready().await?;
    assert_eq!(scheduler.log_text().matches(said).count(), 1, "said once");
    Ok(())
}

/// Nodes and pods that go while binds are under way.
#[tokio::test]
async fn nodes_and_pods_deleted_in_the_middle_of_binding_are_not_counted_twice() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(6).cpu("5"), &SLOW).await?;
    cluster.pod_group("elastic", json!({"minMember": 5})).await?;
    cluster.members("elastic", 30, &PodSpec::cpu(1)).await?;
    wait::until(SOON, "some pods bound", async || {
        let bound = cluster.bound_of("elastic-").await?;
        ensure!(bound >= 3, "{bound} are bound");
        Ok(())
    })
    .await?;
    // Names of one digit, so none is the beginning of another one's here.
    for name in ["elastic-7", "elastic-8", "elastic-9"] {
        cluster.delete_pods(name).await?;
    }
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(cluster.client.clone());
    nodes.delete("node-5", &DeleteParams::default()).await?;
    // What went to the deleted node is deleted too, as the pod garbage collector would.
    wait::until(SOON, "all pods that fit to be bound, none to the deleted node", async || {
        for (pod, node) in cluster.bound().await? {
            if node == "node-5" {
                cluster.delete_pods(&pod).await?;
            }
        }
        let left = cluster.pods().await?.len();
        let bound = cluster.bound().await?;
        ensure!(bound.values().all(|node| node != "node-5"), "{bound:?}");
        ensure!(bound.len() == left.min(25), "{} of {left} are bound", bound.len());
        Ok(())
    })
    .await?;
    cluster.check_room(5).await?;
    cluster.until_allocated_is_bound().await?;
    // Exactly the room that is left can be filled, no more and no less.
    let bound = cluster.bound().await?.len();
    cluster.pod_group("rest", json!({"minMember": 1})).await?;
    cluster.members("rest", 30, &PodSpec::cpu(1)).await?;
    cluster.until_bound("rest-", 25 - bound).await?;
    cluster.stays_bound("", 25).await?;
    cluster.until_allocated_is_bound().await?;
    cluster.check_room(5).await
}

/// Its connections break while it cannot run, and both servers that it could resume from are gone when it wakes: the
/// third one knows only versions that are newer than those seen.
#[tokio::test]
async fn changes_missed_by_watches_are_found_by_new_lists() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(2).cpu("4"), &["--v=4"]).await?;
    for gang in ["stays", "goes"] {
        cluster.gang(gang, 4, &PodSpec::cpu(1)).await?;
        cluster.until_bound(&format!("{gang}-"), 4).await?;
    }
    cluster.gang("waits", 3, &PodSpec::cpu(1)).await?;
    cluster.until_waits("waits-0", "").await?;
    cluster.until_allocated_is_bound().await?;

    cluster.phalanx().pause()?;
    restart_apiserver(&mut cluster).await?;
    cluster.delete_pods("goes-").await?;
    cluster.volcano("PodGroup").delete("goes", &DeleteParams::default()).await?;
    cluster.until_bound("goes-", 0).await?;
    cluster.gang("new", 1, &PodSpec::cpu(1)).await?;
    restart_apiserver(&mut cluster).await?;
    cluster.phalanx().resume()?;

    cluster.until_bound("waits-", 3).await?;
    cluster.until_bound("new-", 1).await?;
    cluster.check_room(4).await?;
    cluster.until_allocated_is_bound().await?;
    let log = cluster.phalanx().log_text();
    ensure!(log.contains("resource version expired"), "its versions were still known: {log}");
    // The new watches bring what comes now.
    cluster.delete_pods("stays-").await?;
    cluster.gang("after", 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound("after-", 4).await?;
    until_binds_done(&cluster, 16).await
}

/// Finalizers keep the terminating pods of the node. A gang that is first in job order comes while no scheduler runs.
#[tokio::test]
async fn a_nominated_gang_keeps_its_room_after_a_restart() -> Result<()> {
    let mut cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[]).await?;
    cluster.gang("old", 4, &PodSpec::cpu(1)).await?;
    cluster.until_bound("old-", 4).await?;
    hold(&cluster, "old-", true).await?;
    cluster.delete_pods("old-").await?;
    // The gang is first in job order, though its pods are created last.
    cluster.pod_group("early", json!({"minMember": 3})).await?;
    cluster.gang("promised", 3, &PodSpec::cpu(1)).await?;
    until_nominated(&cluster, "promised-", 3).await?;

    drop(cluster.scheduler.take());
    cluster.members("early", 3, &PodSpec::cpu(1)).await?;
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[]).await?);
    cluster.until_waits("early-0", "").await?;
    until_nominated(&cluster, "promised-", 3).await?;
    until_nominated(&cluster, "early-", 0).await?;

    for pod in ["old-0", "old-1"] {
        hold(&cluster, pod, false).await?;
    }
    cluster.stays_bound("early-", 0).await?;
    hold(&cluster, "old-", false).await?;
    cluster.until_bound("promised-", 3).await?;
    cluster.stays_bound("early-", 0).await?;
    until_bind_requests(&cluster, 7).await?;
    cluster.check_room(4).await
}

/// Whether pods of this beginning stay when they are deleted.
pub(super) async fn hold(cluster: &Cluster, prefix: &str, held: bool) -> Result<()> {
    let finalizers = if held { json!(["example.com/hold"]) } else { Value::Null };
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    for pod in cluster.pods().await?.iter().filter(|pod| pod.name_any().starts_with(prefix)) {
        pods.patch(&pod.name_any(), &PatchParams::default(), &patch).await?;
    }
    Ok(())
}

pub(super) async fn until_nominated(cluster: &Cluster, prefix: &str, count: usize) -> Result<()> {
    wait::until(SOON, &format!("{count} pods {prefix}* nominated"), async || {
        let pods = cluster.pods().await?;
        let of_prefix = pods.iter().filter(|pod| pod.name_any().starts_with(prefix));
        let nodes = of_prefix.filter_map(|pod| pod.status.as_ref()?.nominated_node_name.clone());
        let nodes: Vec<String> = nodes.collect();
        ensure!(nodes == vec!["node-0"; count], "{nodes:?}");
        Ok(())
    })
    .await
}

async fn restart_apiserver(cluster: &mut Cluster) -> Result<()> {
    cluster.plane.stop_apiserver().await?;
    cluster.plane.start_apiserver().await
}
