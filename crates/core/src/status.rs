//! The end of a cycle: phases, counts, conditions and messages, each decided only when it differs from the object.
//! Rules of the phases: Volcano's job updater.
use std::sync::Arc;

use crate::decision::Decision;
use crate::session::Session;
use phalanx_cluster::diagnosis::{MESSAGE_MAX, QueueFault, Refusal, Shortage, clipped, without_lack};
use phalanx_cluster::event::{Condition, GroupStatus, Phase, Time};
use phalanx_cluster::id::{JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Job, JobKind, Rendered, Status};
use phalanx_framework::plugin::{Plugin, QueueTree};

const UNSCHEDULABLE: &str = Condition::UNSCHEDULABLE;
const SCHEDULED: &str = Condition::SCHEDULED;

/// What a job's pods and conditions say.
struct Verdict {
    gang: GangState,
    message: Option<Arc<str>>,
    reason: &'static str,
    /// The texts of its refusals.
    texts: Vec<String>,
}

/// Whether a gang has its minimum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GangState {
    /// Enough members have a node.
    Ready,
    /// Enough members have a node if terminating ones count, and no other member waits for a node. Phase and conditions
    /// stay until the pods are gone: policies for JobUnknown would restart the job.
    ///
    /// Source: `shouldSkipUnschedulableForReleasing` of Volcano's gang plugin.
    Terminating,
    /// Members are missing.
    Short,
}

impl GangState {
    fn of(session: &Session<'_>, id: JobId) -> Self {
        let job = &session.cluster.jobs[id];
        // A PodGroup that cannot be read has no minimum.
        if job.object.invalid.is_none() && session.job_ready(id) {
            return GangState::Ready;
        }
        let terminating = terminating(session.cluster, job);
        let counts = terminating > 0 && job.waiting() == 0 && scheduled(job) + terminating >= job.min_member;
        if job.object.invalid.is_none() && counts { GangState::Terminating } else { GangState::Short }
    }
}

/// Time and cycle, which all new conditions of a cycle share.
struct ConditionClock {
    now: Time,
    transition: Arc<str>,
    /// Interned kinds and reasons, of which thousands of conditions share few.
    interned: Vec<Arc<str>>,
}

impl ConditionClock {
    fn new(now: Time, cycle: u64) -> Self {
        Self { now, transition: format!("{cycle}").into(), interned: Vec::new() }
    }

    fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.interned.iter().find(|known| ***known == *text) {
            return known.clone();
        }
        self.interned.push(text.into());
        self.interned[self.interned.len() - 1].clone()
    }
}

/// Decides the statuses of all objects (Volcano's `JobUpdater.UpdateAll`).
pub(crate) fn update_all(session: &mut Session<'_>, cycle: u64) {
    let mut clock = ConditionClock::new(session.now, cycle);
    for job in session.active_jobs() {
        let verdict = judge(session, job);
        update_group(session, job, &verdict, &mut clock);
        update_pods(session, job, &verdict);
        warn_of(session, job);
        end_nominations(session, job);
    }
    update_queues(session);
}

fn judge(session: &mut Session<'_>, id: JobId) -> Verdict {
    let gang = GangState::of(session, id);
    let job = &session.cluster.jobs[id];
    let short = job.waiting() == 0 && job.counts.valid() < job.min_member && !has_ended(job);
    if gang == GangState::Short && job.object.exists && short && job.phase != Phase::Pending {
        let refusal = Refusal::NotEnoughTasks { found: job.counts.valid(), wanted: job.min_member };
        session.refuse(id, refusal);
    }
    let (job, dims) = (&session.cluster.jobs[id], &session.cluster.dims_told(id));
    let refusals = session.state.backlog.refusals.of(id);
    let reason = refusals.first().map_or("NotEnoughResources", Refusal::reason);
    let text = |refusal: &Refusal| match (job.kind, refusal) {
        // A pod without a gang reads as kube-scheduler's: no task name before the nodes.
        (JobKind::Solo, Refusal::Nodes { error, .. }) => error.text(dims),
        _ => refusal.text(dims),
    };
    let lack = Shortage::farthest(refusals).map(|shortage| shortage.text(dims));
    let texts: Vec<String> = refusals.iter().map(text).collect();
    let head = match job.kind {
        JobKind::Solo => String::new(),
        JobKind::Group => {
            let [waiting, all] = [job.waiting(), job.counts.total()].map(|count| count.to_string());
            [&waiting, "/", &*all, " tasks in gang unschedulable: "].concat()
        }
    };
    let message = (!texts.is_empty()).then(|| message_of(&(head + &texts.join("; ")), lack.as_deref()));
    Verdict { gang, message, reason, texts }
}

/// Reasons, and at the end what the nearest node lacks. Of long reasons the end is left out.
fn message_of(reasons: &str, lack: Option<&str>) -> Arc<str> {
    let lack = lack.map(|lack| ["; ", lack].concat()).unwrap_or_default();
    let reasons = clipped(reasons, MESSAGE_MAX.saturating_sub(lack.len()));
    clipped(&[&*reasons, &lack].concat(), MESSAGE_MAX).into()
}

// ---------------------------------------------------------------- PodGroups

fn update_group(session: &mut Session<'_>, id: JobId, verdict: &Verdict, clock: &mut ConditionClock) {
    let Session { cluster, decisions, state, changed_late, .. } = session;
    let job = &cluster.jobs[id];
    if !job.object.exists {
        return;
    }
    let unschedulable =
        verdict.gang == GangState::Short && verdict.message.is_some() && job.phase != Phase::Pending;
    let phase = next_phase(job, terminating(cluster, job), unschedulable);
    // To be admitted again.
    let fell_back = phase == Phase::Pending && job.phase != Phase::Pending;
    *changed_late |= fell_back && job.kind == JobKind::Group;
    cluster.set_phase(id, phase);
    let job = &cluster.jobs[id];
    let change = StatusWrite::of(job, verdict);
    if job.kind == JobKind::Solo
        || (same_counts(&counts(job), &job.object.written)
            && change.is_current(&job.object.written.conditions))
    {
        return;
    }
    let told = job.object.written.conditions.iter().find(|condition| &*condition.kind == UNSCHEDULABLE);
    let (group, uid) = (job.key.clone(), job.object.uid.clone());
    if let Some(message) = verdict.message.as_ref().filter(|_| verdict.gang == GangState::Short)
        && told.is_none_or(|told| !says_the_same(&told.message, message))
    {
        let queue = &cluster.queues[job.queue];
        decisions.push(Decision::PodGroupUnschedulable {
            group: group.clone(),
            uid: uid.clone(),
            reason: verdict.reason,
            message: message.clone(),
            queue: queue.name.clone(),
            queue_uid: queue.object.uid.clone(),
            cause: cause(state.backlog.refusals.of(id), &verdict.texts),
        });
    }
    let job = &mut cluster.jobs[id];
    let conditions = change.make(&job.object.written.conditions, clock);
    let status = GroupStatus { conditions, ..counts(job) };
    job.object.written.decide(status.clone());
    let version = job.object.version.clone();
    decisions.push(Decision::PodGroupStatus { group, uid, version, status });
}

/// Why a gang waits, without names of pods: `texts` are those of the refusals.
fn cause(refusals: &[Refusal], texts: &[String]) -> Arc<str> {
    let mut cause = String::with_capacity(texts.iter().map(|text| text.len() + "; ".len()).sum());
    for (refusal, text) in refusals.iter().zip(texts) {
        let start = match refusal {
            Refusal::Nodes { task, .. } => text.len().min(task.len() + ": ".len()),
            _ => 0,
        };
        if !cause.is_empty() {
            cause.push_str("; ");
        }
        cause.push_str(without_lack(&text[start..]));
    }
    cause.into()
}

/// Records an event, once, about annotations that plugins reject.
fn warn_of(session: &mut Session<'_>, id: JobId) {
    let Session { cluster, tiers, decisions, .. } = session;
    let job = &cluster.jobs[id];
    if job.kind == JobKind::Solo
        || !job.object.exists
        || (job.annotations.is_empty() && job.object.told.is_none())
    {
        return;
    }
    let message = tiers.every().find_map(|plugin| plugin.warnings()?.job_warning(cluster, id));
    let message = message.map(|message| Arc::from(clipped(&message, MESSAGE_MAX)));
    let job = &mut cluster.jobs[id];
    if job.object.told == message {
        return;
    }
    job.object.told.clone_from(&message);
    if let Some(message) = message {
        let (group, uid) = (job.key.clone(), job.object.uid.clone());
        decisions.push(Decision::PodGroupInvalid { group, uid, message });
    }
}

/// Number of tasks that have a node and do not terminate, or have ended. A task that is being bound counts as bound.
fn scheduled(job: &Job) -> u32 {
    use Status::{Binding, Bound, Running};
    ended(job) + [Binding, Bound, Running].iter().map(|status| job.counts.of(*status)).sum::<u32>()
}

/// Number of tasks that terminate on a node. A pod that is deleted before its bind has no node.
fn terminating(cluster: &Cluster, job: &Job) -> u32 {
    if job.counts.of(Status::Releasing) == 0 {
        return 0;
    }
    let terminates = |task: &&TaskId| {
        let task = &cluster.tasks[**task];
        task.status == Status::Releasing && task.node.is_some()
    };
    job.tasks.iter().filter(terminates).count() as u32
}

/// Whether all pods have ended, and at least the minimum, so that the job is Completed, though some may have failed.
fn has_ended(job: &Job) -> bool {
    let ended = ended(job);
    ended == job.counts.total() && ended >= job.min_member && ended > 0
}

fn ended(job: &Job) -> u32 {
    job.counts.of(Status::Succeeded) + job.counts.of(Status::Failed)
}

fn next_phase(job: &Job, terminating: u32, unschedulable: bool) -> Phase {
    let counts = &job.counts;
    let (ended, scheduled) = (ended(job), scheduled(job) + terminating);
    if counts.of(Status::Running) > 0 && unschedulable {
        return Phase::Unknown;
    }
    // A job without pods has not ended, even with a minMember of 0.
    if scheduled >= job.min_member && (scheduled > 0 || job.phase == Phase::Completed) {
        return if scheduled == ended { Phase::Completed } else { Phase::Running };
    }
    if job.phase == Phase::Inqueue { Phase::Inqueue } else { Phase::Pending }
}

/// The status without conditions.
fn counts(job: &Job) -> GroupStatus {
    GroupStatus {
        phase: job.phase,
        running: job.counts.of(Status::Running),
        succeeded: job.counts.of(Status::Succeeded),
        failed: job.counts.of(Status::Failed),
        conditions: Vec::new(),
    }
}

fn same_counts(a: &GroupStatus, b: &GroupStatus) -> bool {
    (a.phase, a.running, a.succeeded, a.failed) == (b.phase, b.running, b.succeeded, b.failed)
}

/// A condition without its time and transition id.
struct ConditionSpec<'a> {
    kind: &'static str,
    reason: &'static str,
    message: Option<&'a Arc<str>>,
}

impl ConditionSpec<'_> {
    fn is(&self, condition: &Condition) -> bool {
        let message: &str = self.message.map_or("", |message| message);
        condition.status
            && (&*condition.kind, &*condition.reason) == (self.kind, self.reason)
            && says_the_same(&condition.message, message)
    }

    fn condition(&self, clock: &mut ConditionClock) -> Condition {
        Condition {
            kind: clock.intern(self.kind),
            status: true,
            reason: clock.intern(self.reason),
            message: self.message.cloned().unwrap_or_else(|| clock.intern("")),
            transition: clock.transition.clone(),
            since: clock.now,
        }
    }
}

/// The conditions of a PodGroup by a verdict.
struct StatusWrite<'a> {
    put: Option<ConditionSpec<'a>>,
    drop: Option<&'static str>,
}

impl<'a> StatusWrite<'a> {
    fn of(job: &Job, verdict: &'a Verdict) -> Self {
        if verdict.gang == GangState::Short {
            let spec = |message| ConditionSpec {
                kind: UNSCHEDULABLE,
                reason: verdict.reason,
                message: Some(message),
            };
            return Self { put: verdict.message.as_ref().map(spec), drop: Some(SCHEDULED) };
        }
        if verdict.gang == GangState::Terminating || job.counts.total() == 0 {
            return Self { put: None, drop: None };
        }
        let reason = Condition::SCHEDULED_REASON;
        Self {
            put: Some(ConditionSpec { kind: SCHEDULED, reason, message: None }),
            drop: Some(UNSCHEDULABLE),
        }
    }

    /// Whether the PodGroup has these conditions already.
    fn is_current(&self, conditions: &[Condition]) -> bool {
        let of = |kind: &str| conditions.iter().find(|condition| *condition.kind == *kind);
        self.put.as_ref().is_none_or(|spec| of(spec.kind).is_some_and(|old| spec.is(old)))
            && self.drop.is_none_or(|kind| of(kind).is_none())
    }

    fn make(&self, conditions: &[Condition], clock: &mut ConditionClock) -> Vec<Condition> {
        let known = conditions;
        // One may be added below.
        let mut conditions = Vec::with_capacity(known.len() + 1);
        conditions.extend_from_slice(known);
        if let Some(spec) = &self.put {
            match conditions.iter_mut().find(|old| *old.kind == *spec.kind) {
                Some(old) if spec.is(old) => {}
                Some(old) => *old = spec.condition(clock),
                None => conditions.push(spec.condition(clock)),
            }
        }
        conditions.retain(|condition| self.drop.is_none_or(|kind| *condition.kind != *kind));
        conditions
    }
}

// ---------------------------------------------------------------- pods

fn update_pods(session: &mut Session<'_>, id: JobId, verdict: &Verdict) {
    let Session { cluster, decisions, .. } = session;
    let (job, tasks) = (&cluster.jobs[id], &mut cluster.tasks);
    let (Some(message), false) = (&verdict.message, job.waiting() == 0) else { return };
    let gang = job.tasks.len() > 1;
    let says = |old: &str| if gang { same_shape(old, message) } else { says_the_same(old, message) };
    // Pods of a gang share one text, which is compared once.
    let mut last: Option<(Arc<str>, bool)> = None;
    for task in &job.tasks {
        let it = &mut tasks[*task];
        let reason = match it.status {
            Status::Pending if !it.gated => "Unschedulable",
            Status::Pipelined => "Schedulable",
            _ => continue,
        };
        let known = it.written.message.as_ref().is_some_and(|old| match &last {
            Some((text, known)) if Arc::ptr_eq(text, old) => *known,
            _ => last.insert((old.clone(), says(old))).1,
        });
        if !known {
            it.written.message = Some(message.clone());
            let pod = it.pod.clone();
            decisions.push(Decision::PodUnscheduled { pod, reason, message: message.clone() });
        }
    }
}

/// Clears the nominations of pending pods that have none any more.
fn end_nominations(session: &mut Session<'_>, id: JobId) {
    let Session { cluster, decisions, .. } = session;
    let (jobs, tasks) = (&cluster.jobs, &mut cluster.tasks);
    if jobs[id].counts.of(Status::Pending) == 0 {
        return;
    }
    for task in &jobs[id].tasks {
        let it = &mut tasks[*task];
        if it.status == Status::Pending && it.written.nominated.take().is_some() {
            decisions.push(Decision::Nominate { pod: it.pod.clone(), node: None });
        }
    }
}

/// Whether messages are equal but for what the nearest node lacks, which alone is no reason for a write.
fn says_the_same(a: &str, b: &str) -> bool {
    a == b || without_lack(a) == without_lack(b)
}

/// Whether messages are equal but for numbers. Counts in a gang's message change with every other gang; the PodGroup
/// shows them, and pods are written only when reasons change.
fn same_shape(a: &str, b: &str) -> bool {
    let letters = |text| str::bytes(without_lack(text)).filter(|byte| !byte.is_ascii_digit());
    a == b || letters(a).eq(letters(b))
}

// ---------------------------------------------------------------- queues

fn update_queues(session: &mut Session<'_>) {
    let recheck = session.cluster.take_queue_recheck();
    for id in session.cluster.queues.ids().collect::<Vec<_>>() {
        if !session.cluster.queues[id].object.exists {
            continue;
        }
        write_allocated(session, id);
        if recheck {
            report_fault(session, id);
        }
        debug_assert!(
            fault_of(session, id) == session.cluster.queues[id].object.told,
            "another fault of a queue"
        );
    }
}

fn write_allocated(session: &mut Session<'_>, id: QueueId) {
    let given = session.cluster.devices_given(id);
    let queue = &session.cluster.queues[id];
    if queue.object.rendered.is_of(&queue.subtree.allocated, &given) {
        return;
    }
    let allocated = session.cluster.render_allocated(id, &given);
    let queue = &mut session.cluster.queues[id];
    queue.object.rendered = Rendered::new(&queue.subtree.allocated, given);
    if *queue.object.written != allocated {
        queue.object.written.decide(allocated.clone());
        session.decisions.push(Decision::QueueStatus { queue: queue.name.clone(), allocated });
    }
}

/// The fault of a queue below a parent whose limits no plugin enforces.
fn unlimited_parent(session: &Session<'_>, id: QueueId) -> Option<QueueFault> {
    let parent = session.cluster.queue_parent(id).filter(|parent| !parent.is_root())?;
    let limited = session.tiers.every().filter_map(Plugin::queue_tree).any(QueueTree::limits_subtrees);
    (!limited).then(|| QueueFault::Unheld(parent.name.clone()))
}

/// The fault of `root` when its object names a parent.
fn root_with_parent(session: &Session<'_>, id: QueueId) -> Option<QueueFault> {
    let queue = &session.cluster.queues[id];
    (queue.is_root() && queue.tree.parent != queue.name).then(|| QueueFault::Top(queue.tree.parent.clone()))
}

/// What is wrong with a queue, or odd about it. Depends on Queue objects, the tree, and which queues have jobs.
fn fault_of(session: &Session<'_>, id: QueueId) -> Option<Arc<str>> {
    let warning =
        || session.tiers.every().find_map(|plugin| plugin.warnings()?.queue_warning(session.cluster, id));
    let fault = session.queue_fault(id).or_else(warning).or_else(|| unlimited_parent(session, id));
    let fault = fault.or_else(|| root_with_parent(session, id));
    fault.map(|fault| fault.text(&session.cluster.dims).into())
}

fn report_fault(session: &mut Session<'_>, id: QueueId) {
    let message = fault_of(session, id);
    let queue = &mut session.cluster.queues[id];
    if queue.object.told == message {
        return;
    }
    queue.object.told.clone_from(&message);
    if let Some(message) = message {
        let (queue, uid) = (queue.name.clone(), queue.object.uid.clone());
        session.decisions.push(Decision::QueueInvalid { queue, uid, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_message_the_reasons_are_shortened_and_the_nearest_node_is_named() {
        let lack = "least missing, on node n1: cpu 2";
        assert_eq!(&*message_of("too few", None), "too few");
        assert_eq!(&*message_of("too few", Some(lack)), "too few; least missing, on node n1: cpu 2");
        let reasons = "é".repeat(100_000);
        let message = message_of(&reasons, Some(lack));
        assert!((MESSAGE_MAX - 1..=MESSAGE_MAX).contains(&message.len()), "{} bytes", message.len());
        assert!(message.ends_with("é...; least missing, on node n1: cpu 2"), "{message}");
        assert!(says_the_same(&message, &message_of(&reasons, Some("least missing, on node n2: cpu 1"))));
        assert!(message_of("too few", Some(&reasons)).len() <= MESSAGE_MAX);
    }
}
