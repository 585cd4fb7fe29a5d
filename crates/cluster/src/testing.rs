//! Objects for tests, in a few words each. Everything is in namespace `ns`, with its name for UID.
use std::sync::Arc;

use crate::annotation::Annotations;
use crate::event::{
    Constraints, Event, Key, NodeInfo, PodGroupInfo, PodInfo, PodLife, PodPhase, PodRef, PodRequests,
    QueueInfo, Resources, Time,
};
use crate::id::{JobId, QueueId, TaskId};
use crate::{Cluster, ClusterOptions, JobKind};

/// `cpu=2 memory=4Gi`.
pub fn resources(text: &str) -> Resources {
    let one = |item: &str| {
        let (name, quantity) = item.split_once('=').expect("name=quantity");
        (Arc::from(name), quantity.parse().expect("a quantity"))
    };
    text.split_whitespace().map(one).collect()
}

/// A node that is ready, with room for 110 pods unless the text says otherwise.
pub fn node(name: &str, allocatable: &str) -> NodeInfo {
    let mut allocatable = resources(allocatable);
    if !allocatable.iter().any(|(name, _)| &**name == "pods") {
        allocatable.extend(resources("pods=110"));
    }
    let labels = vec![("kubernetes.io/hostname".into(), name.into())];
    NodeInfo { name: name.into(), labels, ready: true, allocatable, ..NodeInfo::default() }
}

/// A queue of a weight.
pub fn queue(name: &str, weight: u32) -> QueueInfo {
    QueueInfo { name: name.into(), weight, reclaimable: true, ..QueueInfo::default() }
}

/// A PodGroup.
pub fn group(name: &str, min_member: u32) -> PodGroupInfo {
    PodGroupInfo { key: Key::new("ns", name), uid: name.into(), min_member, ..PodGroupInfo::default() }
}

/// A pending pod of ours without a group.
pub fn pod(name: &str, requests: &str) -> PodInfo {
    PodInfo {
        pod: PodRef { namespace: "ns".into(), name: name.into(), uid: name.into() }.into(),
        created: Time(0),
        life: PodLife::default(),
        ours: true,
        group: None,
        queue: None,
        role: "".into(),
        index: None,
        priority: None,
        priority_class: None,
        never_preempts: false,
        preemptable: None,
        gated: false,
        queue_gate: crate::event::QueueGate::None,
        requests: PodRequests { containers: vec![resources(requests)], ..PodRequests::default() }.into(),
        constraints: Arc::new(Constraints::default()),
        labels: std::iter::empty().collect(),
        annotations: Annotations::default(),
        claims: None,
        run_time: None,
        controller: None,
    }
}

/// Pod `group-index` of a group.
pub fn member(group: &str, index: u32, requests: &str) -> PodInfo {
    PodInfo { group: Some(group.into()), index: Some(index), ..pod(&format!("{group}-{index}"), requests) }
}

/// This pod, running on a node.
pub fn running(pod: PodInfo, node: &str) -> PodInfo {
    let life = PodLife { phase: PodPhase::Running, node: Some(node.into()), ..pod.life };
    PodInfo { life, ..pod }
}

/// This pod, being deleted.
pub fn leaving(pod: PodInfo) -> PodInfo {
    PodInfo { life: PodLife { deleting: true, ..pod.life }, ..pod }
}

/// A cluster with the queue `default` and what the events say.
pub fn cluster_of<E: Into<Event>>(events: impl IntoIterator<Item = E>) -> Cluster {
    let mut cluster = Cluster::new(ClusterOptions::default());
    cluster.apply(queue("default", 1).into());
    for event in events {
        cluster.apply(event.into());
    }
    cluster
}

/// The job of a PodGroup.
pub fn job_of(cluster: &Cluster, group: &str) -> JobId {
    cluster.job_named(JobKind::Group, &Key::new("ns", group)).expect("a PodGroup of this name")
}

/// The task of a pod.
pub fn task_of(cluster: &Cluster, pod: &str) -> TaskId {
    cluster.task_of(pod).expect("a pod of this name")
}

/// The queue of a name.
pub fn queue_of(cluster: &Cluster, name: &str) -> QueueId {
    cluster.queue_named(name).expect("a queue of this name")
}
