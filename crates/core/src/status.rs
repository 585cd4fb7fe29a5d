//! The end of a cycle: phases, counts, conditions and messages, each decided only when it differs from what stands
//! on the object. Rules of the phases: Volcano's job updater.
use std::sync::Arc;

use crate::decision::Decision;
use crate::diagnosis::Refusal;
use crate::event::{Condition, GroupStatus, Phase, Time};
use crate::id::{JobId, QueueId};
use crate::session::Session;
use crate::world::{Job, JobKind, Status};

/// The parts of a message a job's pods and conditions share.
struct Verdict {
    /// Enough members have their place.
    ready: bool,
    message: Option<Arc<str>>,
    reason: &'static str,
}

/// Decides what to write.
pub(crate) fn close(session: &mut Session<'_>, cycle: u64) {
    let transition: Arc<str> = format!("{cycle}").into();
    for job in session.world.jobs.ids().collect::<Vec<_>>() {
        let verdict = judge(session, job);
        close_group(session, job, &verdict, &transition);
        tell_pods(session, job, &verdict);
        end_nominations(session, job);
    }
    close_queues(session);
}

fn judge(session: &mut Session<'_>, id: JobId) -> Verdict {
    let ready = session.job_ready(id);
    let job = &session.world.jobs[id];
    if job.exists && job.waiting() == 0 && job.counts.valid() < job.min_member && job.phase != Phase::Pending
    {
        let refusal = Refusal::NotEnoughTasks { found: job.counts.valid(), wanted: job.min_member };
        session.refuse(id, refusal);
    }
    let (job, dims) = (&session.world.jobs[id], &session.world.dims);
    let reason = job.refusals.first().map_or("NotEnoughResources", Refusal::reason);
    let texts: Vec<String> = job.refusals.iter().map(|refusal| refusal.text(dims)).collect();
    let message = (!texts.is_empty()).then(|| match job.kind {
        JobKind::Solo => solo_text(&job.refusals, texts, dims).into(),
        JobKind::Group => {
            let missing = job.waiting();
            format!("{missing}/{} tasks in gang unschedulable: {}", job.counts.total(), texts.join("; "))
                .into()
        }
    });
    Verdict { ready, message, reason }
}

/// A pod without a gang reads as kube-scheduler's: no task name before the nodes.
fn solo_text(refusals: &[Refusal], texts: Vec<String>, dims: &phalanx_resource::Dims) -> String {
    let plain = |(refusal, text): (&Refusal, String)| match refusal {
        Refusal::Nodes { error, .. } => error.text(dims),
        _ => text,
    };
    refusals.iter().zip(texts).map(plain).collect::<Vec<_>>().join("; ")
}

// ---------------------------------------------------------------- PodGroups

fn close_group(session: &mut Session<'_>, id: JobId, verdict: &Verdict, transition: &Arc<str>) {
    let now = session.now;
    let job = &mut session.world.jobs[id];
    if !job.exists {
        return;
    }
    let unschedulable = !verdict.ready && verdict.message.is_some() && job.phase != Phase::Pending;
    job.phase = next_phase(job, unschedulable);
    if job.kind == JobKind::Solo {
        return;
    }
    let status = GroupStatus {
        phase: job.phase,
        running: job.counts.of(Status::Running),
        succeeded: job.counts.of(Status::Succeeded),
        failed: job.counts.of(Status::Failed),
        conditions: conditions(job, verdict, transition, now),
    };
    let news = verdict.message.as_ref().filter(|message| {
        let old = job.written.conditions.iter().find(|condition| &*condition.kind == "Unschedulable");
        old.is_none_or(|old| old.message != **message)
    });
    if !verdict.ready
        && let Some(message) = news
    {
        let (group, uid) = (job.key.clone(), job.uid.clone());
        session.decisions.push(Decision::PodGroupUnschedulable { group, uid, message: message.clone() });
    }
    if same(&status, &job.written) {
        return;
    }
    job.replaced = Some(std::mem::replace(&mut job.written, status.clone()));
    session.decisions.push(Decision::PodGroupStatus { group: job.key.clone(), uid: job.uid.clone(), status });
}

fn next_phase(job: &Job, unschedulable: bool) -> Phase {
    let counts = &job.counts;
    let (running, ended) =
        (counts.of(Status::Running), counts.of(Status::Succeeded) + counts.of(Status::Failed));
    if running > 0 && unschedulable {
        return Phase::Unknown;
    }
    // A task that is being bound counts as bound, and one that is leaving still has its node.
    let scheduled = running
        + ended
        + counts.of(Status::Bound)
        + counts.of(Status::Binding)
        + counts.of(Status::Releasing);
    if scheduled >= job.min_member && (job.phase != Phase::Pending || scheduled > 0) {
        return if scheduled == ended { Phase::Completed } else { Phase::Running };
    }
    if job.phase == Phase::Inqueue { Phase::Inqueue } else { Phase::Pending }
}

fn conditions(job: &Job, verdict: &Verdict, transition: &Arc<str>, now: Time) -> Vec<Condition> {
    let mut conditions = job.written.conditions.clone();
    let mut put = |kind: &str, reason: &str, message: &str| {
        let new = Condition {
            kind: kind.into(),
            status: true,
            reason: reason.into(),
            message: message.into(),
            transition: transition.clone(),
            since: now,
        };
        match conditions.iter_mut().find(|old| &*old.kind == kind) {
            Some(old) if alike(old, &new) => {}
            Some(old) => *old = new,
            None => conditions.push(new),
        }
    };
    match &verdict.message {
        Some(message) if !verdict.ready => put("Unschedulable", verdict.reason, message),
        _ if verdict.ready && job.counts.total() > 0 => {
            put("Scheduled", "tasks in gang are ready to be scheduled", "");
            conditions.retain(|condition| &*condition.kind != "Unschedulable");
        }
        _ => {}
    }
    if !verdict.ready {
        conditions.retain(|condition| &*condition.kind != "Scheduled");
    }
    conditions
}

/// Equal but for when, and by which cycle, it was set.
fn alike(a: &Condition, b: &Condition) -> bool {
    (&a.kind, a.status, &a.reason, &a.message) == (&b.kind, b.status, &b.reason, &b.message)
}

fn same(a: &GroupStatus, b: &GroupStatus) -> bool {
    (a.phase, a.running, a.succeeded, a.failed) == (b.phase, b.running, b.succeeded, b.failed)
        && a.conditions.len() == b.conditions.len()
        && a.conditions.iter().zip(&b.conditions).all(|(a, b)| alike(a, b))
}

// ---------------------------------------------------------------- pods

fn tell_pods(session: &mut Session<'_>, id: JobId, verdict: &Verdict) {
    let job = &session.world.jobs[id];
    let (Some(message), false) = (&verdict.message, job.waiting() == 0) else { return };
    let gang = job.tasks.len() > 1;
    for task in job.tasks.clone() {
        let it = &mut session.world.tasks[task];
        let reason = match it.status {
            Status::Pending if !it.gated => "Unschedulable",
            Status::Pipelined => "Schedulable",
            _ => continue,
        };
        let known = it
            .message
            .as_deref()
            .is_some_and(|old| if gang { same_shape(old, message) } else { old == &**message });
        if !known {
            it.message = Some(message.clone());
            let pod = it.pod.clone();
            session.decisions.push(Decision::PodUnscheduled { pod, reason, message: message.clone() });
        }
    }
}

/// Pods that wait and have no place any more, whatever took it, lose their nomination outside too.
fn end_nominations(session: &mut Session<'_>, id: JobId) {
    let Session { world, decisions, .. } = session;
    let (jobs, tasks) = (&world.jobs, &mut world.tasks);
    if jobs[id].counts.of(Status::Pending) == 0 {
        return;
    }
    for task in &jobs[id].tasks {
        let it = &mut tasks[*task];
        if it.status == Status::Pending && it.nominated.take().is_some() {
            decisions.push(Decision::Nominate { pod: it.pod.clone(), node: None });
        }
    }
}

/// Equal but for numbers. The counts in a gang's message move with every other gang; its PodGroup shows them, and
/// its pods are written only when the reasons themselves change.
fn same_shape(a: &str, b: &str) -> bool {
    let letters = |text: &'_ str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    letters(a) == letters(b)
}

// ---------------------------------------------------------------- queues

fn close_queues(session: &mut Session<'_>) {
    for id in session.world.queues.ids().collect::<Vec<_>>() {
        if session.world.queues[id].exists {
            write_allocated(session, id);
            tell_queue(session, id);
        }
    }
}

fn write_allocated(session: &mut Session<'_>, id: QueueId) {
    let allocated = session.world.render(&session.world.queues[id].subtree.allocated);
    let queue = &mut session.world.queues[id];
    if queue.written != allocated {
        queue.written.clone_from(&allocated);
        session.decisions.push(Decision::QueueStatus { queue: queue.name.clone(), allocated });
    }
}

fn tell_queue(session: &mut Session<'_>, id: QueueId) {
    let odd =
        |session: &Session<'_>| session.tiers.every().find_map(|it| it.queue_warning(session.world, id));
    let fault = session.queue_fault(id).or_else(|| odd(session));
    let message: Option<Arc<str>> = fault.map(|fault| fault.text(&session.world.dims).into());
    let queue = &mut session.world.queues[id];
    if queue.told == message {
        return;
    }
    queue.told.clone_from(&message);
    if let Some(message) = message {
        let (queue, uid) = (queue.name.clone(), queue.uid.clone());
        session.decisions.push(Decision::QueueInvalid { queue, uid, message });
    }
}
