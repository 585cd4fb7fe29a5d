//! Queues: shares and limits.

use std::fs;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use phalanx_e2e::{Phalanx, PlaneOptions, deploy, fake};
use serde_json::json;

use super::cluster::{Cluster, PodSpec};

#[tokio::test]
async fn two_queues_share_one_to_three_under_contention() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(4).cpu("1").prefix("early"), &[]).await?;
    cluster.queue("one", json!({"weight": 1})).await?;
    cluster.queue("three", json!({"weight": 3})).await?;
    for queue in ["one", "three"] {
        for gang in 0..16 {
            let name = format!("{queue}-{gang}");
            cluster.pod_group(&name, json!({"minMember": 1, "queue": queue})).await?;
        }
    }
    // Both queues want all of it before there is anything to give beyond four CPUs.
    for queue in ["one", "three"] {
        for gang in 0..16 {
            cluster.members(&format!("{queue}-{gang}"), 1, &PodSpec::cpu(1)).await?;
        }
    }
    cluster.until_bound("", 4).await?;
    fake::Nodes::new(12).cpu("1").create(&cluster.client).await?;
    cluster.until_bound("", 16).await?;
    // Both go on asking: what is shared stays shared.
    for queue in ["one", "three"] {
        let name = format!("{queue}-more");
        cluster.pod_group(&name, json!({"minMember": 1, "queue": queue})).await?;
        cluster.members(&name, 8, &PodSpec::cpu(1)).await?;
    }
    cluster.until_waits("one-more-7", "").await?;
    cluster.until_waits("three-more-7", "").await?;
    stay_shared(&cluster, 4, 12).await?;
    // A fifth one is bound only when there are twenty.
    fake::Nodes::new(4).cpu("1").prefix("late").create(&cluster.client).await?;
    cluster.until_bound("three-", 15).await?;
    cluster.until_bound("one-", 5).await?;
    stay_shared(&cluster, 5, 15).await
}

async fn stay_shared(cluster: &Cluster, one: usize, three: usize) -> Result<()> {
    for _ in 0..5 {
        cluster.another_cycle().await?;
        assert_eq!((cluster.bound_of("one-").await?, cluster.bound_of("three-").await?), (one, three));
    }
    cluster.stays_bound("one-", one).await?;
    cluster.stays_bound("three-", three).await
}

#[tokio::test]
async fn a_queue_never_uses_more_than_its_capability() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(2).cpu("8"), &[]).await?;
    cluster.queue("small", json!({"weight": 1, "capability": {"cpu": "4"}})).await?;
    cluster.pod_group("fits", json!({"minMember": 3, "queue": "small"})).await?;
    cluster.members("fits", 3, &PodSpec::cpu(1)).await?;
    cluster.until_bound("fits-", 3).await?;
    cluster.pod_group("waits", json!({"minMember": 2, "queue": "small"})).await?;
    cluster.members("waits", 2, &PodSpec::cpu(1)).await?;
    cluster.until_waits("waits-0", "small").await?;
    cluster.stays_bound("waits-", 0).await?;
    cluster.delete_pods("fits-0").await?;
    cluster.until_bound("waits-", 2).await
}

/// Whoever adds nodes sees the pods that the queue may have, and not those that wait behind its gate.
#[tokio::test]
async fn the_gate_of_a_queue_opens_when_the_queue_has_room() -> Result<()> {
    const GATE: &str = "scheduling.volcano.sh/queue-allocation-gate";
    let mut cluster =
        Cluster::without_scheduler(PlaneOptions::default(), fake::Nodes::new(1).cpu("8")).await?;
    let conf = cluster.file("scheduler.conf");
    fs::write(&conf, include_str!("../../../../config/helm-default.yaml").replace("proportion", "capacity"))?;
    cluster.queue("small", json!({"capability": {"cpu": "2"}})).await?;
    for index in 0..3 {
        let mut pod = PodSpec::cpu(1).single(&format!("asks-{index}"));
        pod["metadata"]["annotations"] = json!({"scheduling.volcano.sh/queue-name": "small", GATE: "true"});
        pod["spec"]["schedulingGates"] = json!([{"name": GATE}]);
        cluster.create::<Pod>(pod).await?;
    }
    let flag = format!("--scheduler-conf={}", conf.display());
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    let role = deploy::dir().join("optional/scheduling-gates.yaml");
    deploy::apply(&cluster.client, &deploy::manifests_of(&role)?).await?;
    cluster.until_bound("asks-", 2).await?;
    cluster.stays_bound("asks-", 2).await?;
    let gated = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.scheduling_gates.is_some());
    assert_eq!(cluster.pods().await?.iter().filter(|pod| gated(pod)).count(), 1);
    let done = cluster.bound().await?.into_keys().next().context("a bound pod")?;
    cluster.delete_pods(&done).await?;
    cluster.until_bound("asks-", 2).await
}

/// The API server knows nothing of these resources, so its checks let such queues pass.
#[tokio::test]
async fn a_queue_with_contradictory_amounts_gets_an_event_and_others_go_on() -> Result<()> {
    let nodes = fake::Nodes::new(1).cpu("8");
    let mut cluster = Cluster::without_scheduler(PlaneOptions::default(), nodes).await?;
    let conf = cluster.file("scheduler.conf");
    fs::write(&conf, include_str!("../../../../config/helm-default.yaml").replace("proportion", "capacity"))?;
    let flag = format!("--scheduler-conf={}", conf.display());
    let fpgas = |count: u32| json!({"example.com/fpga": count});
    for (queue, spec) in [
        ("crossed", json!({"guarantee": {"resource": fpgas(2)}, "capability": fpgas(1)})),
        ("greedy", json!({"deserved": fpgas(3), "capability": fpgas(2)})),
        ("nowhere", json!({"guarantee": {"resource": fpgas(9)}, "deserved": fpgas(9)})),
        ("classes", json!({"capability": {"cores.deviceclass/gpu.example.com": 2}})),
    ] {
        cluster.queue(queue, spec).await?;
        cluster.pod_group(queue, json!({"minMember": 1, "queue": queue})).await?;
        cluster.members(queue, 1, &PodSpec::cpu(1)).await?;
    }
    cluster.scheduler = Some(Phalanx::start(&cluster.plane, &[&flag]).await?);
    cluster.gang("other", 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("other-", 2).await?;
    let crossed = "guarantee of example.com/fpga is 2, more than capability 1";
    let greedy = "deserved of example.com/fpga is 3, more than capability 2";
    for (queue, words) in [("crossed", crossed), ("greedy", greedy)] {
        cluster.until_event_with("QueueInvalid", queue, words).await?;
        cluster.until_waits(&format!("{queue}-0"), words).await?;
        assert_eq!(cluster.bound_of(queue).await?, 0);
    }
    // A guarantee of resources that do not exist and an amount that is not counted are reported, and the queue's jobs
    // start.
    let words = "its capability of cores.deviceclass/gpu.example.com has no effect";
    cluster.until_event_with("QueueInvalid", "classes", words).await?;
    for queue in ["nowhere", "classes"] {
        cluster.until_bound(queue, 1).await?;
    }
    let fixed = Patch::Merge(json!({"spec": {"capability": fpgas(2)}}));
    cluster.volcano("Queue").patch("crossed", &PatchParams::default(), &fixed).await?;
    cluster.until_bound("crossed-", 1).await?;
    assert_eq!(cluster.bound_of("greedy-").await?, 0);
    Ok(())
}

#[tokio::test]
async fn a_group_in_a_queue_that_does_not_exist_waits_for_it() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("4"), &[]).await?;
    cluster.pod_group("g", json!({"minMember": 1, "queue": "later"})).await?;
    cluster.members("g", 1, &PodSpec::cpu(1)).await?;
    cluster.until_waits("g-0", "later").await?;
    cluster.queue("later", json!({"weight": 1})).await?;
    cluster.until_bound("g-", 1).await
}

#[tokio::test]
async fn a_pod_without_a_group_is_a_gang_of_one_in_its_queue() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("8"), &[]).await?;
    cluster.queue("team", json!({"weight": 1, "capability": {"cpu": "2"}})).await?;
    let pod = PodSpec { queue: Some("team"), ..PodSpec::cpu(1) };
    for index in 0..3 {
        cluster.create::<Pod>(pod.single(&format!("plain-{index}"))).await?;
    }
    cluster.until_bound("plain-", 2).await?;
    cluster.stays_bound("plain-", 2).await?;
    let allocated = |status: &serde_json::Value| status["allocated"]["cpu"] == "2";
    cluster.until_status("Queue", "team", "2 CPUs allocated", allocated).await?;
    let groups = cluster.volcano("PodGroup").list(&kube::api::ListParams::default()).await?;
    assert!(groups.items.is_empty(), "no extra object is made");
    Ok(())
}
