//! A copy of what reports are made of, which another thread reads while cycles go on.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Job, Status};
use phalanx_framework::conf::Conf;
use phalanx_framework::placement::{Fit, NodeRanking};
use phalanx_framework::tiers::Tiers;
use phalanx_plugins::PLUGINS;

use super::{GroupReport, QueueReport, groups, job_report, queue_report};
use crate::backlog::Refusals;
use crate::cycle::Scheduler;
use crate::network;
use crate::reservation::{ReservationReport, Reservations};
use crate::session::{job_order, queue_order};
use phalanx_cluster::diagnosis::Refusal;

/// What reports are made of, after a cycle.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The Cluster.
    pub cluster: Cluster,
    /// The configuration in force.
    pub conf: Conf,
    /// When it was taken, or else when the last cycle began.
    pub now: Time,
    refusals: Refusals,
    reservations: Reservations,
    /// The ends of back-offs.
    backoffs: BTreeMap<JobId, Time>,
}

impl Scheduler {
    /// A copy of the Cluster and of what the last cycle left, for reports.
    pub fn snapshot(&self, cluster: &Cluster) -> Snapshot {
        let state = self.state();
        let mut refusals = state.backlog.refusals.clone();
        // Ids in the refusals of removed jobs may be in use again.
        cluster.gone_jobs().for_each(|id| refusals.clear(id));
        Snapshot {
            cluster: cluster.clone(),
            conf: self.conf().clone(),
            now: self.now(),
            refusals,
            reservations: state.reservations.clone(),
            backoffs: state.backlog.backoffs(cluster, self.now()),
        }
    }
}

impl Snapshot {
    /// Opens the plugins.
    pub fn open(&self) -> Inspection<'_> {
        Inspection { snapshot: self, tiers: Tiers::open(PLUGINS, &self.conf, &self.cluster, self.now) }
    }
}

/// A place in an order, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The place.
    pub at: usize,
    /// How many there are.
    pub of: usize,
}

/// The scores of a node for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeScores {
    /// The node.
    pub node: Arc<str>,
    /// Whether it has room only once terminating pods are gone.
    pub later: bool,
    /// The sum.
    pub total: f64,
    /// The weighted score of each plugin that scores nodes.
    pub by_plugin: Vec<(&'static str, f64)>,
}

/// Answers on a snapshot, with its plugins opened.
pub struct Inspection<'s> {
    pub(super) snapshot: &'s Snapshot,
    pub(super) tiers: Tiers,
}

impl Inspection<'_> {
    pub(super) fn cluster(&self) -> &Cluster {
        &self.snapshot.cluster
    }

    /// Why a job waits, as data.
    pub fn refusals(&self, job: JobId) -> &[Refusal] {
        self.snapshot.refusals.of(job)
    }

    /// PodGroups and pods without one, by name.
    pub fn jobs(&self) -> Vec<GroupReport> {
        groups(self.cluster(), &self.snapshot.refusals)
    }

    /// A job.
    pub fn job(&self, job: JobId) -> GroupReport {
        job_report(self.cluster(), job, self.refusals(job))
    }

    /// A queue.
    pub fn queue(&self, queue: QueueId) -> QueueReport {
        queue_report(self.cluster(), &self.tiers, queue)
    }

    /// The place of a waiting job among the waiting jobs of its queue.
    pub fn place_in_queue(&self, job: JobId) -> Option<Place> {
        let it = self.cluster().jobs.get(job).filter(|it| it.is_pending())?;
        let others = || self.waiting().filter(|(_, other)| other.queue == it.queue);
        let before = |(id, _): &(JobId, &Job)| job_order(self.cluster(), &self.tiers, *id, job).is_lt();
        Some(Place { at: 1 + others().filter(before).count(), of: others().count() })
    }

    /// The place of a queue among the queues with waiting jobs, as the next cycle begins. It changes with every pod
    /// that is placed.
    pub fn place_of_queue(&self, queue: QueueId) -> Option<Place> {
        let mut queues: Vec<QueueId> = self.waiting().map(|(_, job)| job.queue).collect();
        queues.sort_unstable();
        queues.dedup();
        queues.contains(&queue).then(|| {
            let before = |other: &&QueueId| queue_order(self.cluster(), &self.tiers, **other, queue).is_lt();
            Place { at: 1 + queues.iter().filter(before).count(), of: queues.len() }
        })
    }

    /// Jobs that wait for admission, or with pods that wait.
    pub fn waiting(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.cluster().jobs.iter().filter(|(_, job)| job.is_pending())
    }

    /// The end of the back-off of a job.
    pub fn back_off(&self, job: JobId) -> Option<Time> {
        self.snapshot.backoffs.get(&job).copied()
    }

    /// The reservation of a job.
    pub fn reservation(&self, job: JobId) -> Option<ReservationReport> {
        self.snapshot.reservations.of(self.cluster(), job)
    }

    /// The scores by plugin of the nodes that a pod could have if it were not where it is, the best first.
    pub fn scores(&self, task: TaskId) -> Vec<NodeScores> {
        let mut cluster = self.cluster().clone();
        let Some(node) = cluster.tasks[task].node else { return Vec::new() };
        if cluster.nodes[node].exists && cluster.tasks[task].status != Status::Pending {
            cluster.place(task, Status::Pending, None);
        }
        let tiers = Tiers::open(PLUGINS, &self.snapshot.conf, &cluster, self.snapshot.now);
        let honoured = tiers.every().any(|plugin| plugin.network_order().is_some());
        let job = cluster.tasks[task].job.filter(|_| honoured);
        let near = job.and_then(|job| network::near_peers(&cluster, job, task));
        let mut rows = NodeRanking::new(0).scores(&cluster, &tiers, task);
        rows.retain(|row| near.as_ref().is_none_or(|near| near.binary_search(&row.node).is_ok()));
        let row = |row: phalanx_framework::placement::NodeScore| NodeScores {
            node: cluster.nodes[row.node].name.clone(),
            later: row.fit == Fit::FutureIdle,
            total: row.total(),
            by_plugin: row.by_plugin,
        };
        rows.into_iter().map(row).collect()
    }
}
