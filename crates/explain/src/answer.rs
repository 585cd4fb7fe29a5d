//! Answers made of a snapshot.
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use phalanx_cluster::event::{Key, Phase, PodInfo, Time};
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, JobKind, Status};
use phalanx_core::report::{self, Figures, GroupReport, Inspection, Snapshot};

use crate::change::{self, Patience, Remedies};
use crate::facts::{
    Amounts, Chosen, Constraint, Domain, Evicted, Explanation, Fragments, Gate, HeldBy, Holders, JobFacts,
    Lack, Members, NodeScores, OwnerFacts, Place, PlacedSubGroup, PodFacts, PodState, QueueFacts,
    RejectedDomain, Reservation, Why,
};
use crate::question::{Question, Subject};
use crate::topology_faults;

/// The best nodes that are shown of those that a pod could have.
const NODES_SHOWN: usize = 5;

/// The jobs of one owner that are told of: of those that wait, where any do.
const JOBS_SHOWN: usize = 3;

impl Question {
    /// The answer; `None` where nothing is known of the object. `evictions` are the last ones, the newest last.
    pub fn answer(
        &self,
        snapshot: &Snapshot,
        evictions: &[Evicted],
        patience: &Patience<'_>,
    ) -> Option<Explanation> {
        let inspection = snapshot.open();
        let cluster = &snapshot.cluster;
        let pods = self.own_pods(cluster);
        let mut jobs = self.own_jobs(cluster, &pods);
        let evictions = self.evictions(cluster, &pods, &jobs, evictions);
        if pods.is_empty() && jobs.is_empty() && evictions.is_empty() {
            return None;
        }
        let owner = match &self.subject {
            Subject::Owner(kind) => {
                let mut owner = self.owner(kind, cluster, &pods, &jobs);
                if owner.waiting > 0 {
                    jobs.retain(|id| cluster.jobs[*id].waiting() > 0);
                }
                owner.left_out = jobs.len().saturating_sub(JOBS_SHOWN);
                Some(owner)
            }
            Subject::PodGroup | Subject::Pod => None,
        };
        let pod = match (&self.subject, pods.first()) {
            (Subject::Pod, Some(task)) => Some(pod_facts(cluster, &inspection, *task)),
            (Subject::Pod, None) => Some(self.gone()),
            _ => None,
        };
        let shown = if owner.is_some() { JOBS_SHOWN } else { jobs.len() };
        let facts = |job: &JobId| job_facts(snapshot, &inspection, *job, patience);
        Some(Explanation { owner, pod, jobs: jobs.iter().take(shown).map(facts).collect(), evictions })
    }

    fn owner(&self, kind: &str, cluster: &Cluster, pods: &[TaskId], jobs: &[JobId]) -> OwnerFacts {
        let mut members: BTreeSet<TaskId> = pods.iter().copied().collect();
        members.extend(jobs.iter().flat_map(|job| &cluster.jobs[*job].tasks));
        let status =
            |is: fn(Status) -> bool| members.iter().filter(|task| is(cluster.tasks[**task].status)).count();
        OwnerFacts {
            kind: kind.to_owned(),
            name: format!("{}/{}", self.namespace, self.name),
            pods: members.len(),
            placed: status(Status::is_ready),
            waiting: status(|status| matches!(status, Status::Pending | Status::Pipelined)),
            left_out: 0,
            to_make: 0,
            foreign: pods.iter().filter(|task| cluster.tasks[**task].job.is_none()).count(),
        }
    }

    fn gone(&self) -> PodFacts {
        let name = format!("{}/{}", self.namespace, self.name);
        PodFacts { name, state: PodState::Gone, pod_group: None, chosen: None, remedies: Remedies::default() }
    }
}

/// What is told of a pod that has another scheduler's name and no node: the scheduler does not know it.
pub fn of_other_scheduler(snapshot: &Snapshot, pod: PodInfo, own_name: &str) -> Explanation {
    let name = pod.pod.to_string();
    let pod_group = pod.group.as_ref().map(|group| Key::new(&pod.pod.namespace, group).to_string());
    let found = change::as_ours(snapshot, pod, own_name).into_iter().collect();
    let remedies = Remedies { found, tried: true, ..Remedies::default() };
    let pod = PodFacts { name, state: PodState::Foreign, pod_group, chosen: None, remedies };
    Explanation { pod: Some(pod), ..Explanation::default() }
}

fn pod_facts(cluster: &Cluster, inspection: &Inspection<'_>, id: TaskId) -> PodFacts {
    let task = &cluster.tasks[id];
    let job = task.job.map(|job| &cluster.jobs[job]);
    let node = task.node.map(|node| cluster.nodes[node].name.to_string());
    let nominated = || task.written.nominated.as_ref().map(ToString::to_string);
    let state = match (node, task.status) {
        (Some(node), Status::Pipelined) => PodState::Nominated(node),
        (Some(node), _) => PodState::OnNode(node),
        (None, _) if task.job.is_none() => PodState::Foreign,
        (None, _) => nominated().map_or(PodState::Waits, PodState::Nominated),
    };
    let placed = matches!(state, PodState::OnNode(_)) && job.is_some();
    PodFacts {
        name: task.pod.to_string(),
        pod_group: job.filter(|job| job.kind == JobKind::Group).map(|job| job.key.to_string()),
        chosen: placed.then(|| chosen(inspection, id, &state)).flatten(),
        remedies: Remedies::default(),
        state,
    }
}

fn chosen(inspection: &Inspection<'_>, task: TaskId, state: &PodState) -> Option<Chosen> {
    let PodState::OnNode(node) = state else { return None };
    let rows = inspection.scores(task);
    let at = rows.iter().position(|row| *row.node == **node);
    let shown = rows.iter().enumerate().filter(|(index, _)| *index < NODES_SHOWN || Some(*index) == at);
    let scores = |row: &report::NodeScores| NodeScores {
        node: row.node.to_string(),
        later: row.later,
        total: row.total,
        by_plugin: row.by_plugin.iter().map(|(name, score)| ((*name).to_owned(), *score)).collect(),
    };
    let nodes = shown.map(|(_, row)| scores(row)).collect();
    Some(Chosen { compared: rows.len(), place: at.map(|at| at + 1), nodes })
}

fn job_facts(
    snapshot: &Snapshot,
    inspection: &Inspection<'_>,
    id: JobId,
    patience: &Patience<'_>,
) -> JobFacts {
    let (job, told) = (&snapshot.cluster.jobs[id], inspection.job(id));
    let lack = told.lack.clone().or_else(|| inspection.lack_beyond_all(id));
    let members = members(&told);
    let kept = inspection.reservation(id);
    // Whether the nodes that are kept for a repair come free is not known.
    let is_repair = kept.as_ref().is_some_and(|kept| kept.repair);
    let will_run = members.missing > 0 && members.nominated >= members.missing && !is_repair;
    let found = if will_run {
        Remedies::default()
    } else {
        change::remedies(snapshot, id, &GroupReport { lack, ..told.clone() }, patience)
    };
    let (remedies, admission) =
        if told.waiting == 0 && found.tried { (Remedies::default(), Some(found)) } else { (found, None) };
    let reservation = kept.map(|kept| Reservation {
        repair: kept.repair,
        since: timestamp(kept.since),
        ends: timestamp(kept.ends),
        nodes: texts(&kept.nodes),
    });
    JobFacts {
        name: told.key.to_string(),
        solo: told.solo,
        phase: told.phase.as_str().to_owned(),
        created: timestamp(job.created),
        members,
        priority: told.priority.to_string(),
        queue: queue_facts(&snapshot.cluster, inspection, id),
        place: inspection.place_in_queue(id).map(place),
        domain: inspection.domain(id).map(Domain::from),
        lower_tier: inspection.lower_tier(id).map(rejected),
        sub_groups: inspection.placed_sub_groups(id).into_iter().map(placed).collect(),
        why: why(inspection, snapshot, id, told),
        reservation,
        expected_start: None,
        will_run,
        remedies,
        admission,
    }
}

fn placed(of: report::PlacedSubGroup) -> PlacedSubGroup {
    let report::PlacedSubGroup { policy, name, domain } = of;
    PlacedSubGroup { policy: policy.to_string(), name: name.to_string(), domain: domain.into() }
}

fn members(told: &GroupReport) -> Members {
    let missing =
        if told.phase == Phase::Completed { 0 } else { told.min_member.saturating_sub(told.placed) };
    Members {
        pods: told.pods,
        placed: told.placed,
        failed: told.failed,
        missing,
        waiting: told.waiting,
        nominated: told.nominated,
        min_member: told.min_member,
        to_make: 0,
    }
}

fn queue_facts(cluster: &Cluster, inspection: &Inspection<'_>, job: JobId) -> QueueFacts {
    let id = cluster.jobs[job].queue;
    let told = inspection.queue(id);
    QueueFacts {
        name: told.name.to_string(),
        exists: cluster.queues[id].object.exists,
        weight: told.weight,
        parent: told.parent.map(|parent| parent.to_string()),
        allocated: amounts(&told.allocated),
        deserved: amounts(&told.deserved),
        requested: amounts(&told.request),
        place: inspection.place_of_queue(id).map(place),
    }
}

fn why(inspection: &Inspection<'_>, snapshot: &Snapshot, id: JobId, told: GroupReport) -> Why {
    let Snapshot { cluster, conf, .. } = snapshot;
    let excluded = inspection.excluded_nodes(id);
    let gate = inspection.gate(id).map(Gate::from);
    let domains = if gate == Some(Gate::Nodes) { inspection.rejected_domains(id) } else { Vec::new() };
    let exist = cluster.nodes.iter().filter(|(_, node)| node.exists);
    Why {
        gate,
        reasons: told.reasons,
        nodes: if excluded.is_empty() { 0 } else { exist.count() },
        constraints: excluded.into_iter().map(constraint).collect(),
        topology_faults: topology_faults::of(cluster, conf, id),
        domains: domains.into_iter().map(rejected).collect(),
        lack: told.lack.map(|lack| Lack {
            node: lack.node.to_string(),
            missing: amounts(&lack.missing),
            too_large: lack.too_large,
            text: lack.text,
        }),
        back_off_until: inspection.back_off(id).map(timestamp),
        holders: inspection.holders(id).into_iter().map(holders).collect(),
    }
}

fn constraint(of: report::ExcludedNodes) -> Constraint {
    let nodes = of.nodes.len();
    let fragments = of.fragments.map(Fragments::from);
    Constraint { text: of.text, nodes, names: texts(&of.nodes), fragments }
}

fn rejected(of: report::RejectedDomain) -> RejectedDomain {
    let report::RejectedDomain { domain, fits, wanted, missing } = of;
    RejectedDomain { domain: domain.into(), fits, wanted, missing: amounts(&missing) }
}

fn holders(of: report::Holders) -> Holders {
    let queues = of.queues.into_iter().map(|held| HeldBy { name: held.by.to_string(), amount: held.amount });
    let jobs = of.jobs.into_iter().map(|held| HeldBy { name: held.by.to_string(), amount: held.amount });
    Holders {
        resource: of.resource.to_string(),
        within_queue: of.within.map(|queue| queue.to_string()),
        reserved: of.reserved,
        queues: queues.collect(),
        jobs: jobs.collect(),
        others: of.others,
        foreign: of.foreign,
    }
}

impl From<report::Gate> for Gate {
    fn from(gate: report::Gate) -> Self {
        match gate {
            report::Gate::Object => Self::Object,
            report::Gate::Queue => Self::Queue,
            report::Gate::Gang => Self::Gang,
            report::Gate::Enqueue => Self::Enqueue,
            report::Gate::Quota => Self::Quota,
            report::Gate::Nodes => Self::Nodes,
            report::Gate::Release => Self::Release,
            report::Gate::BackOff => Self::BackOff,
            report::Gate::Configuration => Self::Configuration,
        }
    }
}

pub(crate) fn place(place: report::Place) -> Place {
    Place { at: place.at, of: place.of }
}

pub(crate) fn amounts(figures: &Figures) -> Amounts {
    figures.iter().map(|(name, amount)| (name.to_string(), amount.clone())).collect()
}

pub(crate) fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_millisecond(time.0).unwrap_or(Timestamp::MAX)
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}
