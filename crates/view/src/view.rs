//! All that the page shows, and how it is made.
use phalanx_cluster::Cluster;
use phalanx_cluster::event::Time;
use phalanx_core::report::GroupReport;
use phalanx_core::report::figures::figures;
use phalanx_framework::conf::Conf;
use phalanx_resource::{DimId, Dims, Quantity};
use serde::Serialize;

use crate::gangs::{self, Gangs};
use crate::history::{Event, Evicted, History};
use crate::hyper_nodes::HyperNodes;
use crate::nodes::{self, Holes, Nodes};
use crate::queues::{self, Queue};
use crate::reasons::Reasons;

/// The most queues that are shown.
const QUEUES_MAX: usize = 2_000;

/// What a view is made from.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The Cluster after a cycle.
    pub cluster: &'a Cluster,
    /// The configuration in force.
    pub conf: &'a Conf,
    /// Its jobs.
    pub groups: &'a [GroupReport],
    /// What happened.
    pub history: &'a History,
    /// The time.
    pub now: Time,
}

/// All that the page shows. Times are milliseconds since 1970; amounts count in the unit of their [`Resource`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    /// What the page is about.
    pub title: String,
    /// A line on the run; empty for a live scheduler.
    pub summary: String,
    /// The time of the view.
    pub now: i64,
    /// The begin of a run in virtual time, from which times are told; missing for a live scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub begin: Option<i64>,
    /// Resources, queues and nodes.
    pub state: State,
    /// Why jobs wait.
    pub reasons: Reasons,
    /// PodGroups, and pods without one.
    pub gangs: Gangs,
    /// The latest evictions.
    pub evicted: Evicted,
    /// The latest events, the last first.
    pub events: Vec<Event>,
    /// What the controllers made of Jobs and their like; empty where they are not known.
    pub finished: Finished,
}

/// What the cluster has at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// The time.
    pub at: i64,
    /// Resources that nodes have or queues name, those of Kubernetes last.
    pub resources: Vec<Resource>,
    /// Queues by name. Amounts of queues and nodes stand in the order of `resources`.
    pub queues: Vec<Queue>,
    /// How many queues are not listed.
    pub queues_left_out: usize,
    /// Nodes.
    pub nodes: Nodes,
    /// HyperNodes.
    pub hyper_nodes: HyperNodes,
    /// Free amounts by the size of what a single node has free.
    pub holes: Vec<Holes>,
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Resource {
    /// The name.
    pub name: String,
    /// What amounts count.
    pub unit: Unit,
    /// The sum over all nodes.
    pub allocatable: i64,
    /// What pods use of it.
    pub used: i64,
}

/// What amounts of a resource count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Unit {
    /// Thousandths of cores.
    Core,
    /// Thousandths of other things.
    Milli,
    /// Bytes.
    Byte,
    /// Whole things.
    Count,
}

/// Jobs, CronJobs and JobFlows of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finished {
    /// Jobs.
    pub jobs: Vec<JobRow>,
    /// CronJobs: started, active, last.
    pub cron_jobs: Vec<OtherRow>,
    /// JobFlows: phase, completed, message.
    pub job_flows: Vec<OtherRow>,
}

/// A Job of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobRow {
    /// `namespace/name`.
    pub name: String,
    /// The phase.
    pub phase: String,
    /// How often it or a part of it was restarted.
    pub retries: i32,
    /// Its pods: pending, running, succeeded, failed.
    pub pods: [i32; 4],
    /// The phases it went through and the last warning, a line each.
    pub history: Vec<String>,
}

/// A CronJob or JobFlow of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OtherRow {
    /// `namespace/name`.
    pub name: String,
    /// The other columns.
    pub cells: Vec<String>,
}

impl View {
    /// The view of a cluster, without title and summary.
    pub fn of(seen: Seen<'_>) -> Self {
        let state = State::of(seen.cluster, seen.conf, seen.now);
        let (gangs, reasons) = gangs::of(seen, &state);
        Self {
            now: seen.now.0,
            state,
            reasons,
            gangs,
            evicted: seen.history.evicted(),
            events: seen.history.events(),
            ..Self::default()
        }
    }

    /// The view as JSON in one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a struct with text as keys is JSON")
    }
}

impl State {
    /// The state of a cluster.
    pub fn of(cluster: &Cluster, conf: &Conf, now: Time) -> Self {
        let figures = figures(cluster, conf, now, QUEUES_MAX);
        let dims = shown(cluster);
        let hyper_nodes = HyperNodes::of(cluster, &dims);
        Self {
            at: now.0,
            resources: dims.iter().map(|dim| resource(cluster, *dim)).collect(),
            queues: queues::of(cluster, &figures.queues, &dims),
            queues_left_out: figures.left_out,
            nodes: nodes::of(cluster, &dims, &hyper_nodes),
            hyper_nodes,
            holes: nodes::holes(cluster, &dims),
        }
    }

    /// Whether no pod in a queue has resources.
    pub fn is_idle(&self) -> bool {
        self.queues.iter().all(|queue| queue.allocated.iter().all(|amount| *amount == 0))
    }
}

/// Resources that nodes have or queues name: extended ones first, then those that every cluster has.
fn shown(cluster: &Cluster) -> Vec<DimId> {
    let named = |dim: DimId| {
        let mut queues = cluster.queues.iter().map(|(_, queue)| queue);
        cluster.sums.allocatable.get(dim) > 0
            || queues.any(|queue| {
                queue.capability.get(dim).is_some()
                    || queue.deserved.get(dim).is_some()
                    || queue.guarantee.get(dim) > 0
            })
    };
    let dims = cluster.dims.iter().map(|(dim, _)| dim).filter(|dim| !cluster.dims.is_unknown(*dim));
    let mut dims: Vec<DimId> = dims.filter(|dim| named(*dim)).collect();
    dims.sort_by_key(|dim| dim.0 <= DimId::EPHEMERAL.0);
    dims
}

fn resource(cluster: &Cluster, dim: DimId) -> Resource {
    Resource {
        name: cluster.dims.name(dim).to_owned(),
        unit: unit(&cluster.dims, dim),
        allocatable: cluster.sums.allocatable.get(dim),
        used: cluster.sums.used.get(dim),
    }
}

fn unit(dims: &Dims, dim: DimId) -> Unit {
    let name = dims.name(dim);
    let one = "1".parse::<Quantity>().map_or(1, |one| dims.amount(dim, one));
    match one {
        1000 if dim == DimId::CPU => Unit::Core,
        1000 => Unit::Milli,
        _ if name == "pods" || name.starts_with("attachable-volumes-") => Unit::Count,
        _ => Unit::Byte,
    }
}
