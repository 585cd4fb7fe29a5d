//! Figures of queues, for metrics.
use std::sync::Arc;

use phalanx_cluster::event::{Phase, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, Job, JobKind};
use phalanx_framework::conf::{Conf, Flag};
use phalanx_framework::plugin::{Plugin, QueueAttributes};
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;
use phalanx_resource::{Amounts, Ceilings};
use rustc_hash::FxHashMap;

use crate::cycle::Scheduler;

/// The figures of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueFigures {
    /// Name.
    pub name: Arc<str>,
    /// Weight.
    pub weight: u32,
    /// A plugin calls the queue overused.
    pub overused: bool,
    /// What its jobs and those of queues below have.
    pub allocated: Amounts,
    /// What these jobs request, allocated or not.
    pub request: Amounts,
    /// `spec.capability`.
    pub capability: Ceilings,
    /// What a plugin computed of the queue, if any does.
    pub attributes: Option<QueueAttributes>,
    /// The jobs of the queue that wait.
    pub waiting: WaitingFigures,
}

/// The figures of the jobs of a queue that wait.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingFigures {
    /// Jobs with fewer pods than they need to start.
    pub jobs: u32,
    /// Pods without a node, of all jobs.
    pub pods: u32,
    /// Since when the first of the jobs waits.
    pub since: Option<Time>,
    /// What admitted jobs, here and in queues below, do not have yet of their minResources.
    pub inqueue: Amounts,
}

/// The figures of all queues, up to a number of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Queues that exist, those with jobs first.
    pub queues: Vec<QueueFigures>,
    /// How many more exist.
    pub left_out: usize,
    /// How many jobs wait with fewer pods than they need to start, in any queue.
    pub unready_jobs: usize,
    /// How many PodGroups have pods with a node.
    pub started_groups: usize,
}

impl Scheduler {
    /// The figures of up to so many queues after the last cycle. Costs a pass over all jobs and queues.
    pub fn figures(&self, cluster: &Cluster, queues_max: usize) -> Figures {
        figures(cluster, self.conf(), self.now(), queues_max)
    }
}

/// The figures of up to so many queues.
pub fn figures(cluster: &Cluster, conf: &Conf, now: Time, queues_max: usize) -> Figures {
    let tiers = Tiers::open(PLUGINS, conf, cluster, now);
    let waiting = waiting(cluster);
    let unready_jobs = waiting.values().map(|figures| figures.jobs as usize).sum();
    let mut ids: Vec<QueueId> = cluster.queues.ids().filter(|id| cluster.queues[*id].object.exists).collect();
    ids.sort_by_key(|id| (cluster.queues[*id].jobs == 0, &cluster.queues[*id].name));
    let left_out = ids.len().saturating_sub(queues_max);
    ids.truncate(queues_max);
    let figures = |id: &QueueId| figures_of(cluster, &tiers, *id, waiting.get(id));
    let started = |job: &&Job| job.kind == JobKind::Group && job.counts.ready() > 0;
    let started_groups = cluster.jobs.iter().map(|(_, job)| job).filter(started).count();
    Figures { queues: ids.iter().map(figures).collect(), left_out, unready_jobs, started_groups }
}

fn figures_of(
    cluster: &Cluster,
    tiers: &Tiers,
    id: QueueId,
    waiting: Option<&WaitingFigures>,
) -> QueueFigures {
    let queue = &cluster.queues[id];
    let mut request = queue.subtree.allocated.clone();
    request.add(&queue.subtree.pipelined);
    request.add(&queue.subtree.pending);
    QueueFigures {
        name: queue.name.clone(),
        weight: queue.weight,
        overused: tiers.with(Flag::Overused).any(|plugin| plugin.overused(cluster, id).is_some()),
        allocated: queue.subtree.allocated.clone(),
        request,
        capability: queue.capability.clone(),
        attributes: tiers.every().filter_map(Plugin::queue_guard).find_map(|it| it.attributes(cluster, id)),
        waiting: waiting.cloned().unwrap_or_default(),
    }
}

/// Of queues with jobs that wait, or that were admitted and do not have their minResources.
fn waiting(cluster: &Cluster) -> FxHashMap<QueueId, WaitingFigures> {
    let mut by_queue: FxHashMap<QueueId, WaitingFigures> = FxHashMap::default();
    for (id, job) in cluster.jobs.iter() {
        if job.waiting() > 0 {
            note_waiting(cluster, by_queue.entry(job.queue).or_default(), id);
        }
        note_inqueue(cluster, id, job, &mut by_queue);
    }
    by_queue
}

fn note_waiting(cluster: &Cluster, figures: &mut WaitingFigures, id: JobId) {
    let job = &cluster.jobs[id];
    figures.pods += job.waiting();
    if job.counts.ready() < job.min_member {
        figures.jobs += 1;
        let waits = cluster.waits_since(id);
        figures.since = Some(figures.since.map_or(waits, |since| since.min(waits)));
    }
}

fn note_inqueue(cluster: &Cluster, id: JobId, job: &Job, by_queue: &mut FxHashMap<QueueId, WaitingFigures>) {
    if job.phase == Phase::Inqueue && job.minimum.resources.is_some() {
        let missing = cluster.inqueue_request(id);
        for queue in cluster.queue_path(job.queue) {
            by_queue.entry(queue).or_default().inqueue.add(&missing);
        }
    }
}
