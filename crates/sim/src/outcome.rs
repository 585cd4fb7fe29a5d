//! Makes the report from the scheduler's reasons, the Cluster and the API server.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::event::{PodInfo, PodPhase};
use phalanx_cluster::id::NodeId;
use phalanx_cluster::{Cluster, Node};
use phalanx_core::decision::Cause;
use phalanx_core::report::{GroupReport, QueueReport, Report as CoreReport};
use phalanx_resource::Quantity;

use crate::api_server::ApiServer;
use crate::report::{
    Eviction, GroupOutcome, HyperNodeOutcome, Lack, NodeOutcome, PodOutcome, QueueOutcome, Report, Stats,
    Usage,
};

pub(crate) fn report(core: &CoreReport, cluster: &Cluster, api_server: &ApiServer) -> Report {
    let mut pod_groups = groups(core, api_server);
    let hyper_nodes = hyper_nodes(cluster, &mut pod_groups);
    let bindings = api_server.bindings();
    Report {
        evictions: api_server.evictions.iter().map(|(pod, _)| pod.clone()).collect(),
        eviction_causes: api_server.evictions.iter().map(eviction).collect(),
        nominations: api_server.nominations(),
        pod_groups,
        hyper_nodes,
        jobs: BTreeMap::new(),
        cron_jobs: BTreeMap::new(),
        job_flows: BTreeMap::new(),
        pods: single_pods(core, api_server),
        singles: singles(api_server),
        queues: queues(&core.queues),
        busiest: None,
        stats: Stats {
            bound: bindings.len(),
            nodes: cluster.nodes.iter().filter(|(_, node)| node.exists).count(),
            pending: api_server.pods().filter(|pod| waits(pod)).count(),
            ..Stats::default()
        },
        nodes: nodes(cluster, api_server),
        bindings,
    }
}

fn eviction((pod, cause): &(String, Arc<Cause>)) -> Eviction {
    let by = cause.by.as_ref().map(ToString::to_string);
    Eviction { pod: pod.clone(), action: cause.action, by, reason: cause.reason.to_string() }
}

fn waits(pod: &PodInfo) -> bool {
    pod.ours && pod.life.node.is_none() && pod.life.phase == PodPhase::Pending && !pod.life.deleting
}

/// `namespace/name` of the PodGroup that a pod names.
fn group_of(pod: &PodInfo) -> Option<String> {
    Some(format!("{}/{}", pod.pod.namespace, pod.group.as_ref()?))
}

fn groups(core: &CoreReport, api_server: &ApiServer) -> BTreeMap<String, GroupOutcome> {
    let told: BTreeMap<String, &GroupReport> =
        core.groups.iter().filter(|group| !group.solo).map(|group| (group.key.to_string(), group)).collect();
    let mut groups: BTreeMap<String, GroupOutcome> = api_server
        .groups()
        .map(|group| {
            let name = group.key.to_string();
            let told = told.get(&name);
            let outcome = GroupOutcome {
                phase: told.map_or(group.status.phase, |told| told.phase).as_str().to_owned(),
                reasons: told.map(|told| told.reasons.clone()).unwrap_or_default(),
                problem: told.and_then(|told| Some(told.problem.as_deref()?.to_owned())),
                lack: told.and_then(|told| lack(told)),
                queue: group.queue.to_string(),
                min_member: group.min_member,
                ..GroupOutcome::default()
            };
            (name, outcome)
        })
        .collect();
    for pod in api_server.pods() {
        if let Some(group) = group_of(pod).and_then(|name| groups.get_mut(&name)) {
            match &pod.life.node {
                Some(_) if pod.life.phase == PodPhase::Failed => {}
                Some(node) => *group.nodes.entry(node.to_string()).or_default() += 1,
                None => group.waiting += u32::from(waits(pod)),
            }
        }
    }
    groups
}

/// HyperNodes, and the one of each group.
fn hyper_nodes(
    cluster: &Cluster,
    groups: &mut BTreeMap<String, GroupOutcome>,
) -> BTreeMap<String, HyperNodeOutcome> {
    let known = &cluster.hyper_nodes;
    let outcome = |(id, it)| {
        let it: &phalanx_cluster::HyperNode = it;
        let (parent, sums) = (it.parent.map(|parent| known.get(parent).name.to_string()), known.sums(id));
        let amounts = |amounts| texts(&cluster.render(amounts));
        let outcome = HyperNodeOutcome {
            tier: it.tier,
            parent,
            nodes: it.nodes.len(),
            allocatable: amounts(&sums.allocatable),
            used: amounts(&sums.used),
            pod_groups: Vec::new(),
        };
        (it.name.to_string(), outcome)
    };
    let mut hyper_nodes: BTreeMap<String, HyperNodeOutcome> = known.iter().map(outcome).collect();
    for (name, group) in groups {
        let nodes: Option<Vec<NodeId>> = group.nodes.keys().map(|node| cluster.node_named(node)).collect();
        let domain = nodes.and_then(|nodes| cluster.domain_of_nodes(&nodes));
        group.hyper_node = domain.map(|id| known.get(id).name.to_string());
        if let Some(of) = group.hyper_node.as_ref().and_then(|of| hyper_nodes.get_mut(of)) {
            of.pod_groups.push(name.clone());
        }
    }
    hyper_nodes
}

/// Waiting pods without a PodGroup object: they name none, or it is missing.
fn single_pods(core: &CoreReport, api_server: &ApiServer) -> BTreeMap<String, PodOutcome> {
    let groups: BTreeSet<String> = api_server.groups().map(|group| group.key.to_string()).collect();
    let told = core.groups.iter().filter(|group| !group.reasons.is_empty() || group.lack.is_some());
    let reasons: BTreeMap<(bool, String), &GroupReport> =
        told.map(|group| ((group.solo, group.key.to_string()), group)).collect();
    api_server
        .pods()
        .filter(|pod| waits(pod) && group_of(pod).is_none_or(|group| !groups.contains(&group)))
        .map(|pod| {
            let job = group_of(pod).map_or_else(|| (true, pod.pod.to_string()), |group| (false, group));
            let told =
                reasons.get(&job).map(|told| PodOutcome { reasons: told.reasons.clone(), lack: lack(told) });
            (pod.pod.to_string(), told.unwrap_or_default())
        })
        .collect()
}

/// The nodes of pods of ours without a PodGroup object, those that ended too.
fn singles(api_server: &ApiServer) -> BTreeMap<String, String> {
    let groups: BTreeSet<String> = api_server.groups().map(|group| group.key.to_string()).collect();
    let single = |pod: &&PodInfo| pod.ours && group_of(pod).is_none_or(|group| !groups.contains(&group));
    let node = |pod: &PodInfo| Some((pod.pod.to_string(), pod.life.node.as_ref()?.to_string()));
    api_server.pods().filter(single).filter_map(node).collect()
}

pub(crate) fn lack(told: &GroupReport) -> Option<Lack> {
    let lack = told.lack.as_ref()?;
    Some(Lack {
        missing: texts(&lack.missing),
        missing_on: lack.node.to_string(),
        too_large: lack.too_large,
        text: lack.text.clone(),
    })
}

pub(crate) fn queues(queues: &[QueueReport]) -> BTreeMap<String, QueueOutcome> {
    queues.iter().map(|queue| (queue.name.to_string(), queue_outcome(queue))).collect()
}

fn queue_outcome(queue: &QueueReport) -> QueueOutcome {
    let allocated = texts(&queue.allocated);
    let deserved = texts(&queue.deserved);
    let share = share(&allocated, &deserved);
    let problem = queue.problem.as_deref().map(str::to_owned);
    QueueOutcome { allocated, deserved, weight: queue.weight, share, problem }
}

fn texts(figures: &phalanx_core::report::Figures) -> BTreeMap<String, String> {
    figures.iter().map(|(name, amount)| (name.to_string(), amount.clone())).collect()
}

/// The largest ratio of allocated to deserved over the deserved resources.
fn share(allocated: &BTreeMap<String, String>, deserved: &BTreeMap<String, String>) -> Option<f64> {
    let milli = |text: Option<&String>| {
        text.and_then(|text| text.parse::<Quantity>().ok()).map_or(0, Quantity::milli)
    };
    let ratios = deserved.iter().filter_map(|(name, amount)| {
        let deserved = milli(Some(amount));
        (deserved > 0).then(|| milli(allocated.get(name)) as f64 / deserved as f64)
    });
    ratios.reduce(f64::max)
}

fn nodes(cluster: &Cluster, api_server: &ApiServer) -> BTreeMap<String, NodeOutcome> {
    let mut nodes: BTreeMap<String, NodeOutcome> = cluster
        .nodes
        .iter()
        .filter(|(_, node)| node.exists)
        .map(|(_, node)| (node.name.to_string(), NodeOutcome { pods: 0, resources: usage(cluster, node) }))
        .collect();
    let placed = api_server.pods().filter(|pod| pod.life.phase != PodPhase::Failed);
    for node in placed.filter_map(|pod| pod.life.node.as_deref()) {
        if let Some(node) = nodes.get_mut(node) {
            node.pods += 1;
        }
    }
    nodes
}

fn usage(cluster: &Cluster, node: &Node) -> Vec<Usage> {
    node.allocatable
        .iter()
        .filter(|(_, allocatable)| *allocatable > 0)
        .map(|(dim, allocatable)| {
            let used = allocatable - node.idle.get(dim);
            Usage {
                name: cluster.dims.name(dim).to_owned(),
                used: cluster.dims.format(dim, used),
                allocatable: cluster.dims.format(dim, allocatable),
                ratio: used as f64 / allocatable as f64,
            }
        })
        .collect()
}
