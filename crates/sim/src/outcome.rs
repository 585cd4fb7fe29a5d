//! Makes the report from the scheduler's reasons, the Cluster and the API server.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Key, PodInfo, PodPhase};
use phalanx_cluster::id::NodeId;
use phalanx_cluster::{Cluster, JobKind, Node, SubGroup};
use phalanx_core::decision::Cause;
use phalanx_core::report::{GroupReport, QueueReport, Report as CoreReport};
use phalanx_resource::Quantity;
use rustc_hash::FxHashMap;

use crate::api_server::ApiServer;
use crate::report::{
    Eviction, GroupOutcome, HyperNodeOutcome, Lack, NodeOutcome, PodOutcome, QueueOutcome, Report, Stats,
    Usage,
};

pub(crate) fn report(core: &CoreReport, cluster: &Cluster, api_server: &ApiServer) -> Report {
    let pods = Pods::of(api_server);
    let mut pod_groups = groups(core, cluster, api_server, &pods);
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
        pods: single_pods(core, &pods),
        singles: singles(&pods),
        queues: queues(&core.queues),
        busiest: None,
        stats: Stats {
            bound: bindings.len(),
            nodes: cluster.nodes.iter().filter(|(_, node)| node.exists).count(),
            pending: pods.pending,
            ..Stats::default()
        },
        nodes: nodes(cluster, &pods),
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

/// The PodGroup that a pod names.
fn group_of(pod: &PodInfo) -> Option<Key> {
    Some(Key { namespace: pod.pod.namespace.clone(), name: pod.group.clone()? })
}

/// What is told of pods, found in one pass over all of them.
#[derive(Default)]
struct Pods<'a> {
    /// By PodGroup that exists.
    members: FxHashMap<&'a Key, Members<'a>>,
    /// Those that name no PodGroup, or one that does not exist.
    singles: Vec<&'a PodInfo>,
    /// Their number by node, without those that failed.
    by_node: FxHashMap<&'a str, u32>,
    /// The number of those that wait.
    pending: usize,
}

/// The pods of a PodGroup.
#[derive(Default)]
struct Members<'a> {
    /// Those with a node, by node.
    nodes: BTreeMap<&'a str, u32>,
    /// Those that wait.
    waiting: u32,
}

impl<'a> Pods<'a> {
    fn of(api_server: &'a ApiServer) -> Self {
        let members = api_server.groups().map(|group| (&group.key, Members::default()));
        let mut pods = Self { members: members.collect(), ..Self::default() };
        api_server.pods().for_each(|pod| pods.add(pod));
        pods
    }

    fn add(&mut self, pod: &'a PodInfo) {
        let node = pod.life.node.as_deref().filter(|_| pod.life.phase != PodPhase::Failed);
        if let Some(node) = node {
            *self.by_node.entry(node).or_default() += 1;
        }
        self.pending += usize::from(waits(pod));
        match group_of(pod).and_then(|group| self.members.get_mut(&group)) {
            Some(group) => {
                if let Some(node) = node {
                    *group.nodes.entry(node).or_default() += 1;
                }
                group.waiting += u32::from(waits(pod));
            }
            None => self.singles.push(pod),
        }
    }
}

fn groups(
    core: &CoreReport,
    cluster: &Cluster,
    api_server: &ApiServer,
    pods: &Pods<'_>,
) -> BTreeMap<String, GroupOutcome> {
    let told: FxHashMap<&Key, &GroupReport> =
        core.groups.iter().filter(|group| !group.solo).map(|group| (&group.key, group)).collect();
    api_server
        .groups()
        .map(|group| {
            let told = told.get(&group.key);
            let members = &pods.members[&group.key];
            let outcome = GroupOutcome {
                phase: told.map_or(group.status.phase, |told| told.phase).as_str().to_owned(),
                reasons: told.map(|told| told.reasons.clone()).unwrap_or_default(),
                problem: told.and_then(|told| Some(told.problem.as_deref()?.to_owned())),
                lack: told.and_then(|told| lack(told)),
                queue: group.queue.to_string(),
                min_member: group.min_member,
                nodes: members.nodes.iter().map(|(node, count)| ((*node).to_owned(), *count)).collect(),
                waiting: members.waiting,
                sub_groups: sub_groups(cluster, &group.key),
                ..GroupOutcome::default()
            };
            (group.key.to_string(), outcome)
        })
        .collect()
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
            tier_name: it.tier_name.as_ref().map(ToString::to_string),
            parent,
            nodes: it.nodes.len(),
            allocatable: amounts(&sums.allocatable),
            used: amounts(&sums.used),
            pod_groups: Vec::new(),
            sub_groups: Vec::new(),
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
        for (sub_group, of) in &group.sub_groups {
            if let Some(of) = hyper_nodes.get_mut(of) {
                of.sub_groups.push(format!("{name} {sub_group}"));
            }
        }
    }
    hyper_nodes
}

/// The lowest HyperNode of each sub-group of a PodGroup.
fn sub_groups(cluster: &Cluster, group: &Key) -> BTreeMap<String, String> {
    let Some(job) = cluster.job_named(JobKind::Group, group) else { return BTreeMap::new() };
    let of = |(group, id): (SubGroup, _)| {
        (group.full_name(&cluster.jobs[job]), cluster.hyper_nodes.get(id).name.to_string())
    };
    cluster.domains_of_sub_groups(job).into_iter().map(of).collect()
}

/// Waiting pods without a PodGroup object: they name none, or it is missing.
fn single_pods(core: &CoreReport, pods: &Pods<'_>) -> BTreeMap<String, PodOutcome> {
    let told = core.groups.iter().filter(|group| !group.reasons.is_empty() || group.lack.is_some());
    let reasons: FxHashMap<(bool, &Key), &GroupReport> =
        told.map(|group| ((group.solo, &group.key), group)).collect();
    let waiting = pods.singles.iter().filter(|pod| waits(pod));
    waiting
        .map(|pod| {
            let own = || Key { namespace: pod.pod.namespace.clone(), name: pod.pod.name.clone() };
            let (solo, job) = group_of(pod).map_or_else(|| (true, own()), |group| (false, group));
            let told = reasons
                .get(&(solo, &job))
                .map(|told| PodOutcome { reasons: told.reasons.clone(), lack: lack(told) });
            (pod.pod.to_string(), told.unwrap_or_default())
        })
        .collect()
}

/// The nodes of pods of ours without a PodGroup object, those that ended too.
fn singles(pods: &Pods<'_>) -> BTreeMap<String, String> {
    let node = |pod: &&PodInfo| Some((pod.pod.to_string(), pod.life.node.as_ref()?.to_string()));
    pods.singles.iter().filter(|pod| pod.ours).filter_map(node).collect()
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

fn nodes(cluster: &Cluster, pods: &Pods<'_>) -> BTreeMap<String, NodeOutcome> {
    let outcome = |node: &Node| NodeOutcome {
        pods: pods.by_node.get(&*node.name).copied().unwrap_or_default(),
        resources: usage(cluster, node),
    };
    let nodes = cluster.nodes.iter().filter(|(_, node)| node.exists);
    nodes.map(|(_, node)| (node.name.to_string(), outcome(node))).collect()
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
