//! The nodes that are infeasible for a job, by name, and what is free of a resource that they lack.
use std::cmp::Reverse;
use std::sync::Arc;

use phalanx_cluster::diagnosis::{Refusal, Unfit};
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Node, Status};
use phalanx_framework::placement::NodeRanking;
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;
use phalanx_resource::DimId;

use super::{Gate, Inspection, Lack};
use crate::cycle::Scheduler;

/// Nodes that one reason excludes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExcludedNodes {
    /// The reason, in kube-scheduler's words.
    pub text: String,
    /// The nodes, sorted by name.
    pub nodes: Vec<Arc<str>>,
    /// What is free on them, where they lack a resource.
    pub fragments: Option<Fragments>,
}

/// What is free of a resource on nodes each of which has too little.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragments {
    /// The resource.
    pub resource: String,
    /// The sum of what is free.
    pub free: String,
    /// The number of nodes that have some.
    pub nodes: u32,
    /// The most that one node has.
    pub largest: String,
    /// That node.
    pub on: Arc<str>,
    /// What the pod requests.
    pub requested: String,
}

impl Inspection<'_> {
    /// The nodes that are infeasible for the first pod of a job that found none, those of the most frequent reason
    /// first; a node counts once for each of its reasons. Where the job was stopped before nodes were looked at, because
    /// it was not admitted or its queue may not hold more, its first waiting pod counts.
    pub fn excluded_nodes(&self, job: JobId) -> Vec<ExcludedNodes> {
        let early = matches!(self.gate(job), Some(Gate::Enqueue | Gate::Quota));
        let cluster = self.cluster();
        let task = first_without_node(cluster, job, self.refusals(job))
            .or_else(|| early.then(|| first_waiting(cluster, job)).flatten());
        task.map(|task| excluded_nodes(cluster, &self.tiers, task)).unwrap_or_default()
    }

    /// What the nearest node lacks for the first waiting pod of a job that was stopped before nodes were looked at,
    /// where no node could hold the pod even if it were empty.
    pub fn lack_beyond_all(&self, job: JobId) -> Option<Lack> {
        let cluster = self.cluster();
        let early = matches!(self.gate(job), Some(Gate::Enqueue | Gate::Quota));
        let task = early.then(|| first_waiting(cluster, job)).flatten()?;
        let holds = |node: &Node| node.exists && cluster.request_of(task).fits(&node.allocatable);
        if cluster.nodes.iter().any(|(_, node)| holds(node)) {
            return None;
        }
        let scoped = self.tiers.scoped_class(cluster, task);
        let nearest = NodeRanking::new(0).explain(cluster, &self.tiers, scoped, None).nearest?;
        Some(super::lack_of(&cluster.dims_told(job), &nearest))
    }
}

impl Scheduler {
    /// The same without a snapshot, after a cycle.
    pub fn excluded_nodes(&self, cluster: &Cluster, job: JobId) -> Vec<ExcludedNodes> {
        let tiers = Tiers::open(PLUGINS, self.conf(), cluster, self.now());
        let task = first_without_node(cluster, job, self.refusals().of(job));
        task.map(|task| excluded_nodes(cluster, &tiers, task)).unwrap_or_default()
    }
}

fn excluded_nodes(cluster: &Cluster, tiers: &Tiers, task: TaskId) -> Vec<ExcludedNodes> {
    let excluded = NodeRanking::new(0).excluded(cluster, tiers, tiers.scoped_class(cluster, task));
    let told = |(unfit, ids): (Unfit, Vec<NodeId>)| of_reason(cluster, task, &unfit, &ids);
    let mut told: Vec<ExcludedNodes> = excluded.into_iter().map(told).collect();
    told.sort_by(|a, b| b.nodes.len().cmp(&a.nodes.len()).then_with(|| a.text.cmp(&b.text)));
    told
}

fn first_without_node(cluster: &Cluster, job: JobId, why: &[Refusal]) -> Option<TaskId> {
    let name = why.iter().find_map(|refusal| match refusal {
        Refusal::Nodes { task, .. } => Some(task),
        _ => None,
    })?;
    cluster.jobs[job].tasks.iter().copied().find(|task| cluster.tasks[*task].pod.name == *name)
}

fn first_waiting(cluster: &Cluster, job: JobId) -> Option<TaskId> {
    let waits = |task: &TaskId| cluster.tasks[*task].status == Status::Pending;
    let waiting = cluster.jobs[job].tasks.iter().copied().filter(waits);
    waiting.min_by_key(|task| &cluster.tasks[*task].pod.name)
}

fn of_reason(cluster: &Cluster, task: TaskId, unfit: &Unfit, ids: &[NodeId]) -> ExcludedNodes {
    let dims = cluster.tasks[task].job.map(|job| cluster.dims_told(job));
    let mut nodes: Vec<Arc<str>> = ids.iter().map(|id| cluster.nodes[*id].name.clone()).collect();
    nodes.sort_unstable();
    let dim = match unfit {
        Unfit::Insufficient(dim) => Some(*dim),
        Unfit::TooManyPods => Some(DimId::PODS),
        _ => None,
    };
    ExcludedNodes {
        text: unfit.text(dims.as_deref().unwrap_or(&cluster.dims)),
        nodes,
        fragments: dim.and_then(|dim| fragments(cluster, task, dim, ids)),
    }
}

/// What is free of a resource on these nodes; `None` where nothing is.
fn fragments(cluster: &Cluster, task: TaskId, dim: DimId, ids: &[NodeId]) -> Option<Fragments> {
    let free = |id: &NodeId| (cluster.nodes[*id].idle.get(dim), &cluster.nodes[*id].name);
    let holes: Vec<(i64, &Arc<str>)> = ids.iter().map(free).filter(|(free, _)| *free > 0).collect();
    let (largest, on) = holes.iter().max_by_key(|(free, name)| (*free, Reverse(*name)))?;
    let describe = |amount: i64| cluster.dims.describe(dim, amount);
    Some(Fragments {
        resource: cluster.dims.name(dim).to_owned(),
        free: describe(holes.iter().fold(0, |sum, (free, _)| sum.saturating_add(*free))),
        nodes: holes.len() as u32,
        largest: describe(*largest),
        on: (*on).clone(),
        requested: describe(cluster.classes[cluster.tasks[task].class].request.get(dim)),
    })
}
