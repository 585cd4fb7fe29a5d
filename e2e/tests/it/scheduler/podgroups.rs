//! Pods without a PodGroup, beside a controller that puts them into one and without such a controller.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod, events::v1::Event};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use phalanx_e2e::fake;
use serde_json::{Value, json};

use super::cluster::{Cluster, PodSpec};

const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
/// Longer than the test takes on a busy machine.
const LONG: [&str; 2] = ["--wait-for-podgroup", "--wait-for-podgroup-timeout=10m"];
const AWAITS: &str = "waits for the PodGroup controller";

/// A ReplicaSet that needs so many pods at once. Nobody makes them here.
pub(crate) async fn replica_set(cluster: &Cluster, name: &str, min_member: usize) -> Result<ReplicaSet> {
    let object = json!({
        "metadata": {"name": name, "annotations": {MIN_MEMBER: min_member.to_string()}},
        "spec": {
            "replicas": min_member,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": PodSpec::cpu(1).single(name)["spec"]},
        },
    });
    cluster.create(object).await
}

fn owners(owner: &ReplicaSet) -> Value {
    json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner.name_any(), "uid": owner.uid(),
        "controller": true, "blockOwnerDeletion": true,
    }])
}

/// Pods of a ReplicaSet, as its controller makes them.
pub(crate) async fn pods_of(
    cluster: &Cluster,
    owner: &ReplicaSet,
    count: usize,
    pod: &PodSpec,
) -> Result<()> {
    for index in 0..count {
        let mut pod = pod.single(&format!("{}-{index}", owner.name_any()));
        pod["metadata"]["ownerReferences"] = owners(owner);
        cluster.create::<Pod>(pod).await?;
    }
    Ok(())
}

/// Stands in for Volcano's PodGroup controller: makes the PodGroup of an owner and returns its name. It names no
/// minResources, so that the gang is admitted whatever room there is, and `allocate` has to hold it back.
async fn make_group(cluster: &Cluster, owner: &ReplicaSet) -> Result<String> {
    let name = format!("podgroup-{}", owner.uid().context("a UID")?);
    let min_member: u32 = owner.annotations()[MIN_MEMBER].parse()?;
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "ownerReferences": owners(owner)},
        "spec": {"minMember": min_member},
    }))?;
    cluster.volcano("PodGroup").create(&PostParams::default(), &object).await?;
    Ok(name)
}

/// Stands in for Volcano's PodGroup controller: puts a pod into a PodGroup.
async fn put_into(cluster: &Cluster, pod: &str, group: &str) -> Result<()> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let patch = json!({"metadata": {"annotations": {GROUP_NAME: group}}});
    pods.patch(pod, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

#[tokio::test]
async fn pods_of_an_owner_start_as_the_gang_of_the_podgroup_controller() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("6"), &LONG).await?;
    let owner = replica_set(&cluster, "web", 8).await?;
    pods_of(&cluster, &owner, 8, &PodSpec::cpu(1)).await?;
    // The controller comes late: by now a scheduler that does not wait has bound six.
    cluster.until_waits("web-7", AWAITS).await?;
    cluster.stays_bound("web-", 0).await?;
    let group = make_group(&cluster, &owner).await?;
    cluster.stays_bound("web-", 0).await?;
    for index in 0..8 {
        put_into(&cluster, &format!("web-{index}"), &group).await?;
    }
    cluster.until_waits("web-0", "Insufficient cpu").await?;
    cluster.stays_bound("web-", 0).await?;
    fake::Nodes::new(1).starting_at(1).cpu("2").create(&cluster.client).await?;
    cluster.until_bound("web-", 8).await
}

#[tokio::test]
async fn pods_wait_for_the_podgroup_controller_as_long_as_the_flag_says() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("6"), &["--wait-for-podgroup-timeout=10s"]).await?;
    cluster.create::<Pod>(PodSpec::cpu(1).single("before")).await?;
    cluster.until_bound("before", 1).await?;
    let owner = replica_set(&cluster, "web", 1).await?;
    make_group(&cluster, &owner).await?;
    cluster.until_phase(&format!("podgroup-{}", owner.uid().context("a UID")?), "Inqueue").await?;
    cluster.create::<Pod>(PodSpec::cpu(1).single("left-out")).await?;
    cluster.until_event_with("FailedScheduling", "left-out", AWAITS).await?;
    cluster.until_bound("left-out", 1).await?;
    let why = cluster.until_event("NoPodGroup", "left-out").await?;
    ensure!(why.ends_with("within 10s from its creation, so it is a gang of one"), "{why}");
    Ok(())
}

#[tokio::test]
async fn an_owner_with_annotations_without_effect_gets_one_event() -> Result<()> {
    let cluster = Cluster::start(fake::Nodes::new(1).cpu("6"), &[]).await?;
    let owner = replica_set(&cluster, "web", 2).await?;
    pods_of(&cluster, &owner, 2, &PodSpec::cpu(1)).await?;
    cluster.until_bound("web-", 2).await?;
    let why = cluster.until_event_with("Invalid", "web", MIN_MEMBER).await?;
    ensure!(why.contains("each pod is a gang of one, expected a PodGroup"), "{why}");
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    let told = |event: &Event| event.note.as_deref().is_some_and(|note| note.contains(MIN_MEMBER));
    let all = events.list(&ListParams::default()).await?.items;
    assert_eq!(all.iter().filter(|event| told(event)).count(), 1, "of one owner with two pods");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_requests_a_part_of_a_card_gets_an_event() -> Result<()> {
    let nodes = fake::Nodes::new(1).cpu("6").extended("volcano.sh/vgpu-number", "2");
    let cluster = Cluster::start(nodes, &[]).await?;
    let mut pod = PodSpec::cpu(1).single("shared");
    pod["spec"]["containers"][0]["resources"]["limits"] = json!({"volcano.sh/vgpu-number": "1"});
    cluster.create::<Pod>(pod).await?;
    cluster.until_event_with("Invalid", "shared", "the cards are not looked at").await?;
    cluster.until_bound("shared", 1).await
}
