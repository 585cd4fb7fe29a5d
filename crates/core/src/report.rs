//! The report on a Cluster: phases, reasons and shares.
mod domains;
mod excluded;
pub mod figures;
mod gate;
mod holders;
mod snapshot;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::backlog::Refusals;
use crate::cycle::Scheduler;
use phalanx_cluster::diagnosis::{Priority, Refusal, Shortage};
use phalanx_cluster::event::{Key, Phase, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, Job, JobKind, ROOT, Status, rendered};
use phalanx_framework::conf::Conf;
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;
use phalanx_resource::{DimId, Dims};

pub use crate::reservation::ReservationReport;
pub use domains::{Domain, PlacedSubGroup, RejectedDomain};
pub use excluded::{ExcludedNodes, Fragments};
pub use gate::Gate;
pub use holders::{Held, Holders};
pub use snapshot::{Inspection, NodeScores, Place, Snapshot};

/// Resource names and canonical quantities, sorted by name.
pub type Figures = Vec<(Arc<str>, String)>;

/// What a node lacks for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Lack {
    /// The node.
    pub node: Arc<str>,
    /// The missing amounts.
    pub missing: Figures,
    /// The pod fits on no node, even an empty one.
    pub too_large: bool,
    /// The text of conditions.
    pub text: String,
}

/// A PodGroup, or a pod without one.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupReport {
    /// Name of the PodGroup, or of the pod without one.
    pub key: Key,
    /// A pod without a PodGroup.
    pub solo: bool,
    /// Phase.
    pub phase: Phase,
    /// Queue.
    pub queue: Arc<str>,
    /// `minMember`.
    pub min_member: u32,
    /// Pods.
    pub pods: u32,
    /// Pods that are being bound, bound, running or succeeded.
    pub placed: u32,
    /// Pods that failed.
    pub failed: u32,
    /// Its priority.
    pub priority: Priority,
    /// Pods that wait, nominated ones included.
    pub waiting: u32,
    /// Of these, pods that are nominated.
    pub nominated: u32,
    /// Why pods wait; empty when none does.
    pub reasons: Vec<String>,
    /// What is odd about its annotations.
    pub problem: Option<Arc<str>>,
    /// Where nodes lack resources: what the nearest node lacks, for the pod that lacks the most.
    pub lack: Option<Lack>,
    /// Where a queue may not hold more: what the queue lacks.
    pub queue_lack: Option<QueueLack>,
}

/// What a queue lacks for a job.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueLack {
    /// The queue: that of the job, or one above it.
    pub queue: Arc<str>,
    /// The missing amounts.
    pub missing: Figures,
}

/// A queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueReport {
    /// Name.
    pub name: Arc<str>,
    /// Allocated resources of its jobs and those of queues below.
    pub allocated: Figures,
    /// What it deserves, where a plugin computes that.
    pub deserved: Figures,
    /// Requests of its jobs, allocated or not.
    pub request: Figures,
    /// Weight.
    pub weight: u32,
    /// Its parent, unless that is `root`.
    pub parent: Option<Arc<str>>,
    /// Why its jobs wait, or what is odd about its quotas.
    pub problem: Option<Arc<str>>,
}

/// The report on a Cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// PodGroups and pods without one, by name.
    pub groups: Vec<GroupReport>,
    /// Queues that exist, by name.
    pub queues: Vec<QueueReport>,
}

impl Scheduler {
    /// The report on a Cluster after the last cycle.
    pub fn report(&self, cluster: &Cluster) -> Report {
        Report { groups: groups(cluster, self.refusals()), queues: self.queue_reports(cluster) }
    }

    /// The part of it on queues.
    pub fn queue_reports(&self, cluster: &Cluster) -> Vec<QueueReport> {
        queues(cluster, self.conf(), self.now())
    }
}

fn groups(cluster: &Cluster, refusals: &Refusals) -> Vec<GroupReport> {
    // Ids in the refusals of removed jobs may be in use again.
    let gone: BTreeSet<JobId> = cluster.gone_jobs().collect();
    let refusals = |id: JobId| if gone.contains(&id) { &[] } else { refusals.of(id) };
    let ids: Vec<JobId> = cluster.jobs.ids().collect();
    let mut groups: Vec<GroupReport> =
        ids.into_iter().map(|id| job_report(cluster, id, refusals(id))).collect();
    groups.sort_by(|a, b| a.key.cmp(&b.key).then(a.solo.cmp(&b.solo)));
    groups
}

/// A job, with why it waits.
fn job_report(cluster: &Cluster, id: JobId, refusals: &[Refusal]) -> GroupReport {
    let dims = cluster.dims_told(id);
    let reasons = refusals.iter().map(|refusal| refusal.text(&dims)).collect();
    let (lack, queue_lack) = (lack(&dims, refusals), queue_lack(&dims, refusals));
    GroupReport { reasons, lack, queue_lack, ..group(cluster, id, &cluster.jobs[id]) }
}

/// A job, without why it waits.
fn group(cluster: &Cluster, id: JobId, job: &Job) -> GroupReport {
    GroupReport {
        key: job.key.clone(),
        solo: job.kind == JobKind::Solo,
        phase: job.phase,
        queue: cluster.queues[job.queue].name.clone(),
        min_member: job.min_member,
        pods: job.counts.total(),
        placed: job.counts.ready(),
        failed: job.counts.of(Status::Failed),
        priority: cluster.priority_of(id),
        waiting: job.waiting(),
        nominated: job.counts.of(Status::Pipelined),
        reasons: Vec::new(),
        problem: job.object.told.clone(),
        lack: None,
        queue_lack: None,
    }
}

/// What the queue lacks that refused the job, the first of several.
fn queue_lack(dims: &Dims, refusals: &[Refusal]) -> Option<QueueLack> {
    refusals.iter().find_map(|refusal| {
        let (queue, missing) = match refusal {
            Refusal::InqueueLimit { queue, missing, .. } => (queue, missing),
            Refusal::Quota { queue, over, gang, .. } => (queue, if gang.is_empty() { over } else { gang }),
            _ => return None,
        };
        let figure = |(dim, amount): &(DimId, i64)| (dims.name(*dim).into(), dims.format(*dim, *amount));
        Some(QueueLack { queue: queue.clone(), missing: missing.iter().map(figure).collect() })
    })
}

/// The lack of the refused pod whose nearest node lacks the most.
fn lack(dims: &Dims, refusals: &[Refusal]) -> Option<Lack> {
    Shortage::farthest(refusals).map(|shortage| lack_of(dims, shortage))
}

fn lack_of(dims: &Dims, shortage: &Shortage) -> Lack {
    Lack {
        node: shortage.node.clone(),
        missing: rendered(dims, &shortage.missing),
        too_large: shortage.is_beyond_all(),
        text: shortage.text(dims),
    }
}

fn queues(cluster: &Cluster, conf: &Conf, now: Time) -> Vec<QueueReport> {
    let tiers = Tiers::open(PLUGINS, conf, cluster, now);
    let exist = cluster.queues.iter().filter(|(_, queue)| queue.object.exists);
    let mut queues: Vec<QueueReport> = exist.map(|(id, _)| queue_report(cluster, &tiers, id)).collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    queues
}

fn queue_report(cluster: &Cluster, tiers: &Tiers, id: QueueId) -> QueueReport {
    let queue = &cluster.queues[id];
    QueueReport {
        name: queue.name.clone(),
        allocated: cluster.render_allocated(id, &cluster.devices_given(id)),
        deserved: tiers
            .every()
            .find_map(|plugin| plugin.queue_guard()?.attributes(cluster, id))
            .map(|attributes| cluster.render(&attributes.deserved))
            .unwrap_or_default(),
        request: cluster.render(&queue.request()),
        weight: queue.weight,
        parent: Some(queue.tree.parent.clone()).filter(|parent| **parent != *ROOT),
        problem: queue.object.told.clone(),
    }
}
