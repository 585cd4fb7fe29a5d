//! The equivalence class that a refused job joins, and its queueing hint.
use super::equivalence::{Awaits, Demand, JobClassKey, JobSignature, QueueingHint, ServedBy};
use crate::session::{EVICTING_ACTIONS, Session};
use phalanx_cluster::annotation::Annotations;
use phalanx_cluster::diagnosis::{NoEviction, Refusal, Unfit};
use phalanx_cluster::event::{Dequeue, Phase, QueueGate, Time};
use phalanx_cluster::id::{JobId, TaskId, TermId};
use phalanx_cluster::{Cluster, Fingerprint, Job, RequestKey, Role, Status};

/// How an unschedulable job waits.
pub(super) struct Requeue {
    pub(super) key: JobClassKey,
    pub(super) hint: QueueingHint,
    /// When the refusal may end by itself.
    pub(super) until: Time,
}

impl Requeue {
    fn simple(key: JobClassKey, awaits: Awaits, until: Time) -> Self {
        Self { key, hint: QueueingHint { awaits, ..QueueingHint::default() }, until }
    }
}

/// How a refused job waits; `None` when it stays active. A job that had no turn in this cycle stays active, unless
/// `too_many_deferred` says that there are too many of them.
pub(super) fn requeue(session: &Session<'_>, id: JobId, too_many_deferred: bool) -> Option<Requeue> {
    let (job, refusals) = (&session.cluster.jobs[id], session.state.backlog.refusals.of(id));
    if (session.state.backlog.is_deferred(id) && !too_many_deferred) || refusals.is_empty() {
        return None;
    }
    let held_until: Option<Vec<Time>> =
        session.tiers.every().map(|plugin| plugin.refusal_holds_until(session.cluster, id)).collect();
    let until = held_until?.into_iter().min().unwrap_or(Time::NEVER);
    if is_blocked(session, id) {
        return Some(Requeue::simple(JobClassKey::Blocked(job.queue), Awaits::Queue, until));
    }
    let may_grow = !job.has_places() || (job.grows() && session.job_ready(id));
    if !may_grow || waits_at_gate(session.cluster, job) {
        return None;
    }
    // A job that has started does not hold up the jobs behind it in a FIFO queue.
    if session.cluster.queues[job.queue].dequeue == Dequeue::Fifo && !job.has_places() {
        let step = served_by(session.cluster, job, refusals)?;
        return Some(Requeue::simple(JobClassKey::Behind(job.queue, step), Awaits::Any, until));
    }
    let pending = pending(session.cluster, job);
    if pending.is_empty() && job.has_places() {
        return None;
    }
    let evicts = may_evict(session, id, &pending);
    let awaits = if job.phase == Phase::Pending {
        admission(refusals)?
    } else {
        awaits(session, refusals, &pending, evicts)
    };
    let runs = runs(session, &pending);
    let alike = runs.len() == 1;
    let in_capacity_index = alike && needs_only_capacity(session, job, &pending);
    let demand =
        (alike && (in_capacity_index || awaits < Awaits::Any)).then(|| demand(session, id, pending[0]));
    let awaits = if demand.is_some() { awaits } else { Awaits::Any };
    let awaits_affinity = pending.iter().any(|task| session.cluster.class_of(*task).carried.seeks());
    let self_affinity = pending.first().and_then(|task| self_affinity(session.cluster, *task));
    let hint = QueueingHint { awaits, demand, awaits_affinity, in_capacity_index, evicts, self_affinity };
    let key = JobClassKey::Alike(signature(session.cluster, id, &runs, evicts));
    Some(Requeue { key, hint, until })
}

/// Pending tasks of a job.
fn pending(cluster: &Cluster, job: &Job) -> Vec<TaskId> {
    job.tasks.iter().copied().filter(|task| cluster.tasks[*task].status == Status::Pending).collect()
}

/// The required affinity term of a task that matches the task itself.
fn self_affinity(cluster: &Cluster, first: TaskId) -> Option<TermId> {
    let class = cluster.class_of(first);
    class.carried.affinity.iter().copied().find(|term| cluster.terms.matches(*term, class))
}

/// What a job with tasks of one class needs: a gang that has not started `minMember` tasks, another job one.
fn demand(session: &Session<'_>, id: JobId, first: TaskId) -> Demand {
    let job = &session.cluster.jobs[id];
    let whole = !session.job_ready(id) && !session.job_pipelined(id);
    let class = session.cluster.tasks[first].class;
    Demand::of(session.cluster, class, if whole { job.min_member.max(1) } else { 1 })
}

/// Whether no capacity would help, since no action gets as far as to look for any.
fn is_blocked(session: &Session<'_>, id: JobId) -> bool {
    let cluster = &*session.cluster;
    let job = &cluster.jobs[id];
    if job.phase == Phase::Pending && job.object.exists {
        return session.conf.has_action("enqueue") && session.queue_refuses(job.queue).is_err();
    }
    // The phase becomes Unknown only a cycle after the refusal.
    let still_running = job.counts.of(Status::Running) > 0 && job.phase != Phase::Unknown;
    if still_running && !session.job_ready(id) {
        return false;
    }
    let schedulable = |task: &TaskId| cluster.tasks[*task].is_schedulable();
    session.conf.has_action("allocate")
        && (!job.tasks.iter().any(schedulable) || session.job_blocked(id).is_err())
}

/// Whether a job has pods that wait for admission by the queue-admission gate, which each cycle decides for all pods.
fn waits_at_gate(cluster: &Cluster, job: &Job) -> bool {
    job.phase != Phase::Pending
        && job.tasks.iter().any(|task| cluster.tasks[*task].written.queue_gate == QueueGate::Shut)
}

/// The step that a job waits for which waits only behind another job; `None` if it waits for anything else, or for two
/// steps.
fn served_by(cluster: &Cluster, job: &Job, refusals: &[Refusal]) -> Option<ServedBy> {
    let behind = |refusal: &Refusal| matches!(refusal, Refusal::Behind { .. });
    if !refusals.iter().all(behind) {
        return None;
    }
    if job.phase == Phase::Pending {
        return Some(ServedBy::Admission);
    }
    let all = |best_effort: bool| {
        let same =
            |task: &TaskId| !cluster.tasks[*task].gated && cluster.class_of(*task).best_effort == best_effort;
        job.tasks.iter().all(same)
    };
    if all(false) { Some(ServedBy::Requests) } else { all(true).then_some(ServedBy::BestEffort) }
}

/// What may have a job admitted; `None` when that is not known.
fn admission(refusals: &[Refusal]) -> Option<Awaits> {
    let known = |refusal: &Refusal| {
        use Refusal::{Enqueue, Gated, InqueueLimit, ResourceQuota};
        matches!(refusal, Enqueue { .. } | InqueueLimit { .. } | ResourceQuota { .. } | Gated(_))
    };
    let asked = |refusal: &Refusal| !matches!(refusal, Refusal::Gated(_));
    (refusals.iter().all(known) && refusals.iter().any(asked)).then_some(Awaits::Any)
}

/// What may have a refused job placed.
fn awaits(session: &Session<'_>, refusals: &[Refusal], pending: &[TaskId], evicts: bool) -> Awaits {
    let cluster = &*session.cluster;
    let asks_only_capacity = |task: &TaskId| {
        let (task, class) = (&cluster.tasks[*task], cluster.class_of(*task));
        class.pvcs.is_empty() && !task.gated && task.claims.is_none() && !class.carried.restricts()
    };
    if !pending.iter().all(asks_only_capacity) || !refusals.iter().all(is_of_capacity) {
        return Awaits::Any;
    }
    let too_large =
        |refusal: &Refusal| matches!(refusal, Refusal::Eviction { why: NoEviction::TooLarge, .. });
    if refusals.iter().any(too_large) {
        return Awaits::Nodes;
    }
    if evicts { Awaits::Any } else { Awaits::Capacity }
}

/// Whether tasks may be evicted for a job.
fn may_evict(session: &Session<'_>, id: JobId, pending: &[TaskId]) -> bool {
    let never_preempts = pending.iter().all(|task| session.cluster.tasks[*task].details.never_preempts);
    let has_enough = || session.cluster.jobs[id].has_places() && !session.job_starving(id);
    !never_preempts && EVICTING_ACTIONS.iter().any(|action| session.conf.has_action(action)) && !has_enough()
}

/// Whether only allocate or evictions can place the tasks of a job: then it needs free capacity, or victims, whatever
/// else it waits for.
fn needs_only_capacity(session: &Session<'_>, job: &Job, pending: &[TaskId]) -> bool {
    let cluster = &*session.cluster;
    let served = |task: &TaskId| !cluster.tasks[*task].gated && !cluster.class_of(*task).best_effort;
    job.phase != Phase::Pending && pending.iter().all(served)
}

/// Whether only capacity or nodes would lift a refusal.
fn is_of_capacity(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::Nodes { error, .. } => error.reasons.keys().all(is_of_node),
        Refusal::Partial { .. } | Refusal::Eviction { .. } => true,
        Refusal::Topology(fault) => fault.is_of_room(),
        _ => false,
    }
}

/// Whether a reason is about a node's capacity or attributes. Others may end without either: a host port is freed by a
/// pod that requests nothing, say.
fn is_of_node(reason: &Unfit) -> bool {
    use Unfit::{Insufficient, NodeAffinity, NotReady, Other, Reserved, Taint, TooManyPods, Unschedulable};
    matches!(
        reason,
        Insufficient(_)
            | TooManyPods
            | Reserved
            | NodeAffinity
            | Taint(_)
            | Unschedulable
            | NotReady
            | Other(_)
    )
}

/// A run of tasks in the order of tasks of a job that no rule can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TaskRun<'a> {
    asks: RequestKey,
    devices: Option<Fingerprint>,
    /// The pods wait behind a scheduling gate.
    gated: bool,
    /// Index of the role in the job.
    role: u16,
    priority: i32,
    preemptable: Option<bool>,
    never_preempts: bool,
    annotations: &'a Annotations,
    count: u32,
}

fn signature(cluster: &Cluster, id: JobId, runs: &[TaskRun<'_>], evicts: bool) -> JobSignature {
    let job = &cluster.jobs[id];
    let of_roles = |role: &Role| (role.min, job.has_places().then_some(role.counts));
    // Tasks that are evicted for a job may be its own, so it shares the class with no other job.
    let placed = || (&job.sums.allocated, job.counts, evicts.then_some(id));
    let has_placed = job.has_places();
    let has_topology = job.topology.is_some() || !job.sub_groups.is_empty();
    let fingerprint = Fingerprint::of((
        (&job.key.namespace, job.kind, job.phase, job.priority, job.preemptable, &job.annotations),
        (job.min_member, &job.minimum.resources, &job.minimum.devices, &job.minimum.quota_request),
        job.roles.iter().map(of_roles).collect::<Vec<_>>(),
        has_placed.then(placed),
        has_topology.then_some((&job.topology, &job.sub_groups, has_placed.then_some(id))),
        runs,
    ));
    JobSignature { queue: job.queue, has_placed, fingerprint }
}

fn runs<'a>(session: &'a Session<'_>, pending: &[TaskId]) -> Vec<TaskRun<'a>> {
    let run = |id: &TaskId| {
        let task = &session.cluster.tasks[*id];
        TaskRun {
            asks: session.cluster.request_key(*id),
            devices: session.cluster.device_claims_key(*id),
            gated: task.gated,
            role: task.role,
            priority: task.priority,
            preemptable: task.details.preemptable,
            never_preempts: task.details.never_preempts,
            annotations: &task.details.annotations,
            count: 1,
        }
    };
    let runs = joined(pending.iter().map(run));
    if runs.len() < 2 {
        return runs;
    }
    let mut tasks = pending.to_vec();
    tasks.sort_by(|a, b| session.task_order(*a, *b));
    joined(tasks.iter().map(run))
}

/// Joins neighbours that are equal.
fn joined<'a>(runs: impl Iterator<Item = TaskRun<'a>>) -> Vec<TaskRun<'a>> {
    let mut list: Vec<TaskRun<'a>> = Vec::new();
    for run in runs {
        match list.last_mut().filter(|last| TaskRun { count: 1, ..**last } == run) {
            Some(last) => last.count += 1,
            None => list.push(run),
        }
    }
    list
}
