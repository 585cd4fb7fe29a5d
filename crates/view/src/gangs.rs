//! PodGroups, and pods without one, as the page shows them.
use std::collections::BTreeMap;

use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{Id as _, JobId, NodeId};
use phalanx_cluster::{Cluster, HyperNodeId, Job, JobKind, Status, SubGroup};
use phalanx_core::report::GroupReport;
use serde::Serialize;

use crate::nodes::Nodes;
use crate::reasons::Reasons;
use crate::view::{Seen, State};

/// The most gangs that are listed: those that wait first, each part by name.
pub const GANGS_MAX: usize = 10_000;
/// The most nodes that are named for a gang.
pub const NODES_OF_GANG_MAX: usize = 64;
/// The most sub-groups that are listed of a gang.
pub const SUB_GROUPS_OF_GANG_MAX: usize = 64;

/// The gangs of a cluster. Counts are of all, listed or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gangs {
    /// Those that wait for their start, or for admission.
    pub waiting: u32,
    /// Those that have started.
    pub running: u32,
    /// Of these, those with further pods that wait.
    pub growing: u32,
    /// Those that are completed.
    pub finished: u32,
    /// Pods that wait.
    pub pods_waiting: u32,
    /// Pods with a node, those that succeeded included.
    pub pods_placed: u32,
    /// How many are not listed.
    pub left_out: usize,
    /// Those that are listed.
    pub list: Vec<Gang>,
}

/// A gang.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gang {
    /// `namespace/name` of the PodGroup, or of the pod without one.
    pub name: String,
    /// A pod without a PodGroup.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub solo: bool,
    /// Whether it waits.
    pub state: GangState,
    /// The phase of its PodGroup.
    pub phase: &'static str,
    /// Its queue.
    pub queue: String,
    /// Its priority, the number that counts.
    pub priority: i32,
    /// `minMember`.
    pub min: u32,
    /// Pods by what became of them.
    #[serde(flatten)]
    pub pods: Pods,
    /// Why it waits: places in the list of texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<u32>,
    /// The kind of the first reason: a place in the list of kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<u32>,
    /// What the nearest node lacks: a place in the list of texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lack: Option<u32>,
    /// What is odd about its annotations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Since when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
    /// When what happened to it.
    pub times: Times,
    /// Some of its nodes, and how many pods it has there: places in the list of nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(u32, u32)>,
    /// How many more nodes it has.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_nodes: u32,
    /// The lowest HyperNode that holds all its nodes: a place in the list of HyperNodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// Some of its sub-groups whose pods with nodes are in one HyperNode.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<SubGroupRow>,
    /// How many more such sub-groups it has.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_sub_groups: u32,
}

/// A sub-group whose pods with nodes are in one HyperNode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SubGroupRow {
    /// Name of the entry of `subGroupPolicy`, `/`, and the values of its labels.
    pub name: String,
    /// Its pods with nodes.
    pub placed: u32,
    /// The lowest HyperNode that holds their nodes: a place in the list of HyperNodes.
    pub domain: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// Pods of a gang.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pods {
    /// Pods with a node, those that succeeded included.
    pub placed: u32,
    /// Pods that wait.
    pub waiting: u32,
    /// Of these, pods with a node that is being freed.
    #[serde(skip_serializing_if = "is_zero")]
    pub nominated: u32,
    /// Pods that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u32,
}

/// Whether a gang waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum GangState {
    /// It waits for admission, or has fewer pods with nodes than it needs.
    Waiting,
    /// It has started; further pods of it may wait.
    Running,
    /// It is completed.
    Finished,
}

/// When what happened to a gang, as far as it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Times {
    /// It was created.
    pub created: i64,
    /// It was let into its queue first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enqueued: Option<i64>,
    /// Its first pod was given a node that is being freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<i64>,
    /// Its first pods were bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<i64>,
    /// Its last pods were bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_bound: Option<i64>,
    /// A pod of it was evicted last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evicted: Option<i64>,
    /// It was completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<i64>,
}

impl GangState {
    fn of(job: &Job) -> Self {
        let ended = job.counts.of(Status::Succeeded) + job.counts.of(Status::Failed);
        let all_ended = ended > 0 && ended == job.counts.total();
        let started = job.phase == Phase::Running && job.counts.ready() >= job.min_member.max(1);
        match job.phase {
            Phase::Completed => Self::Finished,
            _ if job.is_pending() && !started => Self::Waiting,
            _ if all_ended => Self::Finished,
            _ => Self::Running,
        }
    }
}

/// The gangs and their reasons.
pub(crate) fn of(seen: Seen<'_>, state: &State) -> (Gangs, Reasons) {
    let (mut gangs, mut reasons) = (Gangs::default(), Reasons::default());
    let mut found: Vec<Found<'_>> = Vec::with_capacity(seen.groups.len());
    for report in seen.groups {
        let Some(job) = job(seen.cluster, report) else { continue };
        let of_job = GangState::of(&seen.cluster.jobs[job]);
        match of_job {
            GangState::Waiting => gangs.waiting += 1,
            GangState::Running => {
                gangs.running += 1;
                gangs.growing += u32::from(report.waiting > 0);
            }
            GangState::Finished => gangs.finished += 1,
        }
        gangs.pods_waiting += report.waiting;
        gangs.pods_placed += report.placed;
        let kind = reasons.count(&report.reasons, &report.queue, report.waiting);
        found.push(Found { state: of_job, report, job, kind });
    }
    // The sort is stable: within a state, PodGroups stand before pods without one, by name.
    found.sort_by_key(|found| (found.state, found.report.solo));
    gangs.left_out = found.len().saturating_sub(GANGS_MAX);
    let listed = found.iter().take(GANGS_MAX);
    gangs.list = listed.map(|found| gang(seen, state, &mut reasons, found)).collect();
    (gangs, reasons)
}

fn job(cluster: &Cluster, report: &GroupReport) -> Option<JobId> {
    let kind = if report.solo { JobKind::Solo } else { JobKind::Group };
    cluster.job_named(kind, &report.key)
}

/// A job, and what is told of it.
struct Found<'a> {
    state: GangState,
    report: &'a GroupReport,
    job: JobId,
    /// The kind of its first reason.
    kind: Option<u32>,
}

fn gang(seen: Seen<'_>, of: &State, reasons: &mut Reasons, found: &Found<'_>) -> Gang {
    let Found { state, report, job: id, kind } = *found;
    let job = &seen.cluster.jobs[id];
    let pods = pods_by_node(seen.cluster, job);
    let nodes: Vec<NodeId> = pods.keys().copied().collect();
    let domain = seen.cluster.domain_of_nodes(&nodes).and_then(|id| of.hyper_nodes.place(id));
    let (places, more_nodes) = places(&pods, &of.nodes);
    let (sub_groups, more_sub_groups) = sub_groups(seen.cluster, id, of);
    Gang {
        name: report.key.to_string(),
        solo: report.solo,
        state,
        phase: report.phase.as_str(),
        queue: report.queue.to_string(),
        priority: report.priority.value,
        min: report.min_member,
        pods: Pods {
            placed: report.placed,
            waiting: report.waiting,
            nominated: report.nominated,
            failed: report.failed,
        },
        reasons: report.reasons.iter().map(|reason| reasons.text(reason)).collect(),
        kind,
        lack: report.lack.as_ref().map(|lack| reasons.text(&lack.text)),
        problem: report.problem.as_ref().map(ToString::to_string),
        since: (state == GangState::Waiting).then(|| seen.cluster.waits_since(id).0),
        times: times(seen, report, job),
        nodes: places,
        more_nodes,
        domain,
        sub_groups,
        more_sub_groups,
    }
}

/// The sub-groups of a gang that are listed, and how many more there are.
fn sub_groups(cluster: &Cluster, job: JobId, of: &State) -> (Vec<SubGroupRow>, u32) {
    let placed = |(group, id): (SubGroup, HyperNodeId)| {
        let with_node = group.tasks.iter().filter(|task| cluster.tasks[**task].node.is_some());
        Some(SubGroupRow {
            name: group.full_name(&cluster.jobs[job]),
            placed: with_node.count() as u32,
            domain: of.hyper_nodes.place(id)?,
        })
    };
    let mut listed: Vec<SubGroupRow> =
        cluster.domains_of_sub_groups(job).into_iter().filter_map(placed).collect();
    let more = listed.len().saturating_sub(SUB_GROUPS_OF_GANG_MAX);
    listed.truncate(SUB_GROUPS_OF_GANG_MAX);
    (listed, more as u32)
}

fn pods_by_node(cluster: &Cluster, job: &Job) -> BTreeMap<NodeId, u32> {
    let mut pods = BTreeMap::new();
    for task in job.tasks.iter().map(|task| &cluster.tasks[*task]) {
        let there = task.status.is_allocated() || task.status == Status::Succeeded;
        if let Some(node) = task.node.filter(|_| there) {
            *pods.entry(node).or_default() += 1;
        }
    }
    pods
}

/// The nodes of a gang that are listed, and how many more there are.
fn places(pods: &BTreeMap<NodeId, u32>, nodes: &Nodes) -> (Vec<(u32, u32)>, u32) {
    let listed = pods.iter().filter_map(|(node, pods)| Some((*nodes.places.get(&node.index())?, *pods)));
    let mut listed: Vec<(u32, u32)> = listed.collect();
    listed.sort_unstable();
    listed.truncate(NODES_OF_GANG_MAX);
    let more = pods.len() - listed.len();
    (listed, more as u32)
}

/// What the history has of a gang; what it has not is told by the pods.
fn times(seen: Seen<'_>, report: &GroupReport, job: &Job) -> Times {
    let mut times = seen.history.times(report.solo, &report.key, job.created);
    let scheduled = job.tasks.iter().filter_map(|task| seen.cluster.tasks[*task].details.scheduled);
    if let Some((first, last)) = scheduled.fold(None, |range: Option<(i64, i64)>, time| {
        let (first, last) = range.unwrap_or((time.0, time.0));
        Some((first.min(time.0), last.max(time.0)))
    }) {
        times.bound = Some(times.bound.map_or(first, |bound| bound.min(first)));
        times.last_bound = Some(times.last_bound.map_or(last, |bound| bound.max(last)));
    }
    times
}
