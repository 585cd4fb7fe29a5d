//! Clusters and gangs, as events for a Cluster.
use std::sync::Arc;

use phalanx_cluster::event::{
    Constraints, Event, Key, NodeInfo, PodGroupInfo, PodInfo, PodLife, PodPhase, PodRef, PodRequests,
    QueueInfo, Resources, Time,
};
use phalanx_resource::Quantity;

use crate::Size;

/// The queue that always exists.
pub(crate) fn default_queue() -> Event {
    queue("default")
}

/// A queue without limits.
pub(crate) fn queue(name: &str) -> Event {
    Event::Queue(Box::new(QueueInfo {
        name: name.into(),
        weight: 1,
        reclaimable: true,
        ..QueueInfo::default()
    }))
}

/// Equal nodes.
pub(crate) fn nodes(count: usize) -> impl Iterator<Item = Event> {
    gpu_nodes(count, 0)
}

/// Equal nodes with so many GPUs each.
pub(crate) fn gpu_nodes(count: usize, gpus: usize) -> impl Iterator<Item = Event> {
    let mut allocatable = resources(&[("cpu", "32"), ("memory", "256Gi"), ("pods", "110")]);
    allocatable.extend(gpu_resource(gpus));
    (0..count).map(move |at| {
        let name: Arc<str> = format!("node-{at:06}").into();
        let labels = vec![("kubernetes.io/hostname".into(), name.clone())];
        Event::Node(NodeInfo {
            name,
            labels,
            ready: true,
            allocatable: allocatable.clone(),
            ..NodeInfo::default()
        })
    })
}

/// What gangs differ in.
#[derive(Clone, Copy)]
pub(crate) struct Kinds {
    /// The number of classes of gangs. They differ in a toleration that no node needs.
    pub(crate) count: usize,
    /// Pods differ in the cpu that they request too, one core on the average.
    pub(crate) distinct_requests: bool,
}

/// Gangs with all of their pods pending.
pub(crate) fn gangs(size: Size, kinds: Kinds) -> impl Iterator<Item = Event> {
    let namespace: Arc<str> = "default".into();
    (0..size.gangs).flat_map(move |at| {
        let name: Arc<str> = format!("gang-{at:06}").into();
        let key = Key { namespace: namespace.clone(), name: name.clone() };
        let group = Event::PodGroup(Box::new(PodGroupInfo {
            key,
            uid: name.clone(),
            created: Time(at as i64),
            min_member: size.size as u32,
            ..PodGroupInfo::default()
        }));
        let kind = at % kinds.count.max(1);
        let (namespace, requests, constraints) =
            (namespace.clone(), requests(kinds, kind), constraints(kind));
        let pods = (0..size.size).map(move |index| {
            pod(&namespace, &name, index, Time(at as i64), requests.clone(), constraints.clone())
        });
        std::iter::once(group).chain(pods)
    })
}

/// A pod of its own.
pub(crate) fn solo(at: usize) -> PodInfo {
    let requests = requests(Kinds { count: 1, distinct_requests: false }, 0);
    let pod = pod_info(&"default".into(), &"pod".into(), at, Time(at as i64), requests, constraints(0));
    PodInfo { group: None, ..pod }
}

/// A gang of a priority class.
pub(crate) struct Gang<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a str,
    /// Cores of each pod; its memory is as many times 8 GiB.
    pub(crate) cores: usize,
    /// GPUs of each pod.
    pub(crate) gpus: usize,
    pub(crate) size: usize,
    /// The nodes on which its pods run, by number; none when they are pending.
    pub(crate) on: Vec<usize>,
}

impl Gang<'_> {
    /// The PodGroup and its pods.
    pub(crate) fn events(&self) -> impl Iterator<Item = Event> {
        let (namespace, name): (Arc<str>, Arc<str>) = ("default".into(), self.name.into());
        let group = PodGroupInfo {
            key: Key { namespace: namespace.clone(), name: name.clone() },
            uid: name.clone(),
            min_member: self.size as u32,
            priority_class: Some(self.class.into()),
            ..PodGroupInfo::default()
        };
        let mut requests =
            resources(&[("cpu", &self.cores.to_string()), ("memory", &format!("{}Gi", 8 * self.cores))]);
        requests.extend(gpu_resource(self.gpus));
        let pods = (0..self.size).map(move |index| {
            let event = pod(&namespace, &name, index, Time(0), requests.clone(), constraints(0));
            match (event, self.on.get(index)) {
                (Event::Pod(info), Some(node)) => {
                    let node = Some(format!("node-{node:06}").into());
                    let life = PodLife { phase: PodPhase::Running, node, ..info.life };
                    PodInfo { life, ..*info }.into()
                }
                (event, _) => event,
            }
        });
        std::iter::once(group.into()).chain(pods)
    }
}

fn requests(kinds: Kinds, kind: usize) -> Resources {
    let milli = if kinds.distinct_requests { 500 + (2 * kind + 1) * 500 / kinds.count.max(1) } else { 1000 };
    resources(&[("cpu", &format!("{milli}m")), ("memory", "4Gi")])
}

/// The constraints of a class: classes differ in a toleration that no node needs.
pub(crate) fn constraints(class: usize) -> Arc<Constraints> {
    let toleration = |key: String| phalanx_cluster::event::Toleration {
        key: key.into(),
        operator: phalanx_cluster::event::TolerationOperator::Exists,
        value: "".into(),
        effect: None,
    };
    let tolerations = if class == 0 { Vec::new() } else { vec![toleration(format!("class-{class}"))] };
    Arc::new(Constraints { tolerations, ..Constraints::default() })
}

fn pod(
    namespace: &Arc<str>,
    group: &Arc<str>,
    index: usize,
    created: Time,
    requests: Resources,
    constraints: Arc<Constraints>,
) -> Event {
    pod_info(namespace, group, index, created, requests, constraints).into()
}

fn pod_info(
    namespace: &Arc<str>,
    group: &Arc<str>,
    index: usize,
    created: Time,
    requests: Resources,
    constraints: Arc<Constraints>,
) -> PodInfo {
    let name: Arc<str> = format!("{group}-{index}").into();
    PodInfo {
        pod: PodRef { namespace: namespace.clone(), name: name.clone(), uid: name }.into(),
        controller: None,
        run_time: None,
        created,
        life: PodLife::default(),
        ours: true,
        group: Some(group.clone()),
        queue: None,
        role: "".into(),
        index: Some(index as u32),
        priority: None,
        priority_class: None,
        never_preempts: false,
        preemptable: None,
        gated: false,
        queue_gate: phalanx_cluster::event::QueueGate::None,
        requests: PodRequests { containers: vec![requests], ..PodRequests::default() }.into(),
        constraints,
        labels: phalanx_cluster::label::Labels::default(),
        claims: None,
        annotations: phalanx_cluster::annotation::Annotations::default(),
    }
}

fn gpu_resource(gpus: usize) -> Resources {
    if gpus == 0 { resources(&[]) } else { resources(&[("nvidia.com/gpu", &gpus.to_string())]) }
}

pub(crate) fn resources(list: &[(&str, &str)]) -> Resources {
    let one = |(name, text): &(&str, &str)| {
        let quantity: Quantity = text.parse().expect("a constant quantity");
        (Arc::from(*name), quantity)
    };
    list.iter().map(one).collect()
}
