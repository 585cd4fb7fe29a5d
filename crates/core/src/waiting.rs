//! Which of the jobs that wait a cycle looks at.
//!
//! A job that was refused for a reason that stands is parked in a herd of those that wait for the same (`world::herds`).
//! When something happens that may lift the reason, the first of the herd is called, in the order of jobs; the next one
//! when that has got what it asked for, in the same cycle. So what a backlog costs does not depend on its length, and who is
//! placed where is what it would be if all were looked at.
use std::sync::Arc;

use crate::actions::Heap;
use crate::diagnosis::{NoEviction, Refusal, Unfit};
use crate::event::{Dequeue, Phase, Time};
use crate::id::{ClassId, HerdId, JobId, QueueId, TaskId};
use crate::session::Session;
use crate::world::{Cure, HerdKey, Job, Member, Members, Run, Shape, Status, World, backoff};

/// Actions that evict for a job that waits.
const EVICTING: [&str; 4] = ["preempt", "reclaim", "gangpreempt", "gangreclaim"];

/// How patient jobs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Up to so many jobs that wait are all looked at in each cycle.
    pub few: usize,
    /// Of those that may be helped by anything, so many are looked at in each cycle. The others are left alone for a second
    /// when they were looked at in vain, then for two, up to ten.
    pub in_vain: usize,
    /// After so many milliseconds a parked job is looked at whatever happened.
    pub flush: i64,
    /// But no more of them in one cycle than this.
    pub flushed: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self { few: 100, in_vain: 500, flush: 300_000, flushed: 1000 }
    }
}

impl Patience {
    /// Nobody is ever parked.
    pub fn none() -> Self {
        Self { few: usize::MAX, ..Self::default() }
    }
}

/// Calls those that a cycle has to look at.
pub(crate) fn begin(session: &mut Session<'_>, patience: Patience) {
    session.world.note_denied(session.now);
    let rested = session.world.call_due(session.now, patience.flushed);
    let changed = session.world.take_changed_queues();
    if session.world.parked() > 0 {
        call_of_queues(session, changed);
        let mut herds = session.world.standing_herds();
        herds.extend(rested.into_iter().filter(|herd| !session.world.stands(*herd)));
        call_herds(session, &herds, patience);
        let herds = session.world.herds_with_room();
        call_herds(session, &herds, patience);
    }
    session.world.forget_freed();
    for job in session.world.awake_jobs() {
        session.world.jobs[job].refusals.clear();
    }
}

/// Calls all parked jobs of queues that changed, or that jobs may be placed in now and might not before, or the other way
/// round.
fn call_of_queues(session: &mut Session<'_>, mut changed: Vec<QueueId>) {
    let differs = |queue: QueueId, before: &Result<(), Refusal>| session.queue_refuses(queue) != *before;
    changed.extend(
        session
            .world
            .queues_with_parked()
            .filter(|(queue, before)| differs(*queue, before))
            .map(|(queue, _)| queue),
    );
    if !changed.is_empty() {
        session.world.call_parked(|queue| changed.contains(&queue));
    }
}

/// Calls the first of each. Of very many only those that go first in the order of jobs, and as many of the others as were
/// not called in vain just now.
fn call_herds(session: &mut Session<'_>, herds: &[HerdId], patience: Patience) {
    let mut first = herds.to_vec();
    if herds.len() > patience.in_vain {
        first = leading(session, herds, patience.in_vain);
        let mut turns = patience.in_vain;
        for id in herds {
            let Some(until) = session.world.herd(*id).map(|herd| herd.rests_until) else { continue };
            if first.binary_search(id).is_ok() {
                continue;
            }
            let has_turn = until <= session.now && turns > 0;
            turns -= usize::from(has_turn);
            if has_turn || !session.world.may_rest(*id) {
                call_first(session, *id);
            } else {
                session.world.rest_herd(*id, until.max(session.now));
            }
        }
    }
    for id in first {
        call_first(session, id);
    }
}

/// So many of them whose first goes before those of the others, by id.
fn leading(session: &mut Session<'_>, herds: &[HerdId], count: usize) -> Vec<HerdId> {
    let firsts: Vec<_> = herds.iter().filter_map(|id| Some((first(session, *id)?, *id))).collect();
    let mut leading: Vec<HerdId> =
        ahead(session, firsts.into_iter(), count).into_iter().map(|(_, herd)| herd).collect();
    leading.sort_unstable();
    leading
}

/// So many of them whose jobs go before those of the others.
fn ahead<T: Copy>(
    session: &Session<'_>,
    all: impl Iterator<Item = (JobId, T)>,
    count: usize,
) -> Vec<(JobId, T)> {
    let mut heap: Heap<(JobId, T)> = Heap::default();
    for it in all {
        heap.push(it, |a, b| session.job_order(a.0, b.0));
    }
    std::iter::from_fn(|| heap.pop(|a, b| session.job_order(a.0, b.0))).take(count).collect()
}

/// The first of a herd.
fn first(session: &mut Session<'_>, id: HerdId) -> Option<JobId> {
    let mut members = std::mem::take(&mut session.world.herd_mut(id)?.members);
    let lives = |member| is_entry(session.world, id, member);
    let first = members.first(lives, |a, b| session.job_order(a.0, b.0));
    session.world.herd_mut(id)?.members = members;
    first.map(|(job, _)| job)
}

/// Calls the first of a herd.
fn call_first(session: &mut Session<'_>, id: HerdId) -> Option<JobId> {
    let job = first(session, id)?;
    session.world.end_rest(id);
    session.world.call(job);
    let it = &mut session.world.jobs[job];
    it.place.first_of = Some(id);
    it.refusals.clear();
    Some(job)
}

/// The job that is to be asked next, when one has got what it asked for.
pub(crate) fn call_next(session: &mut Session<'_>, job: JobId) -> Option<JobId> {
    let herd = session.world.jobs[job].place.first_of.take()?;
    session.world.herd_mut(herd)?.tries = 0;
    call_first(session, herd)
}

fn is_entry(world: &World, herd: HerdId, (job, serial): Member) -> bool {
    world.jobs.get(job).is_some_and(|job| job.is_entry(herd, serial))
}

/// The cycle ends: says of all jobs that were looked at where they are until the next one.
pub(crate) fn settle(session: &mut Session<'_>, patience: Patience) {
    let awake = session.world.awake_jobs();
    let (settled, waiting): (Vec<JobId>, Vec<JobId>) =
        awake.into_iter().partition(|job| session.world.jobs[*job].is_settled());
    for job in settled {
        session.world.settle_job(job);
    }
    if waiting.len().saturating_add(session.world.parked()) <= patience.few {
        session.world.call_parked(|_| true);
    } else {
        park_all(session, waiting, patience);
    }
    session.world.note_rooms();
    session.world.tidy_awake();
}

fn park_all(session: &mut Session<'_>, waiting: Vec<JobId>, patience: Patience) {
    let mut in_vain = Vec::new();
    for job in waiting {
        if let Some(parking) = parking(session, job) {
            park(session, job, parking, patience);
        } else if may_be_off(session.world, &session.world.jobs[job]) {
            in_vain.push(job);
        }
    }
    if in_vain.len() > patience.in_vain {
        let first = ahead(session, in_vain.iter().map(|job| (*job, ())), patience.in_vain);
        let first: rustc_hash::FxHashSet<JobId> = first.into_iter().map(|(job, ())| job).collect();
        in_vain.retain(|job| !first.contains(job));
        for job in in_vain {
            session.world.put_off(job, session.now);
        }
    }
}

/// Whether nothing and nobody depends on a job's being looked at in each cycle.
fn may_be_off(world: &World, job: &Job) -> bool {
    !job.has_places() && !job.had_no_turn() && world.queues[job.queue].dequeue != Dequeue::Fifo
}

fn park(session: &mut Session<'_>, job: JobId, parking: Parking, patience: Patience) {
    let queue = parking.key.queue();
    if !session.world.knows_blocked(queue) {
        let blocked = session.queue_refuses(queue);
        session.world.set_blocked(queue, blocked);
    }
    let herd = session.world.ensure_herd(parking.key, parking.demand);
    let in_vain = session.world.jobs[job].place.first_of == Some(herd);
    let flush = Time(session.now.0.saturating_add(patience.flush));
    let serial = session.world.park(job, herd, parking.until, flush);
    let now = session.now;
    let Some(it) = session.world.herd_mut(herd) else { return };
    if in_vain {
        it.tries = it.tries.saturating_add(1);
        it.rests_until = backoff(now, it.tries);
    }
    let (mut members, live) = (std::mem::take(&mut it.members), it.live());
    if members.len() > 2 * live + 16 {
        members = without_strays(session, herd, &members);
    }
    add(session, herd, &mut members, (job, serial));
    if let Some(it) = session.world.herd_mut(herd) {
        it.members = members;
    }
}

fn without_strays(session: &Session<'_>, herd: HerdId, members: &Members) -> Members {
    let mut kept = Members::default();
    for member in members.all().into_iter().filter(|member| is_entry(session.world, herd, *member)) {
        add(session, herd, &mut kept, member);
    }
    kept
}

fn add(session: &Session<'_>, herd: HerdId, members: &mut Members, member: Member) {
    let lives = |member| is_entry(session.world, herd, member);
    members.push(member, lives, |a, b| session.job_order(a.0, b.0));
}

/// Where a job goes that was refused for a reason that stands.
struct Parking {
    key: HerdKey,
    /// A class, and how many of its pods it needs at the least.
    demand: Option<(ClassId, u32)>,
    /// When the refusal may end by itself.
    until: Time,
}

/// Where a job is to be parked; `None` when it has to be looked at in the next cycle.
fn parking(session: &Session<'_>, id: JobId) -> Option<Parking> {
    let job = &session.world.jobs[id];
    if job.had_no_turn() || job.refusals.is_empty() {
        return None;
    }
    let claims = |task: &TaskId| session.world.tasks[*task].claims.is_some();
    if job.phase == Phase::Pending && (!job.min_devices.is_zero() || job.tasks.iter().any(claims)) {
        // What it claims is no part of its shape.
        return None;
    }
    let stands: Option<Vec<Time>> =
        session.tiers.every().map(|plugin| plugin.stands_until(session.world, id)).collect();
    let denied = session.world.denied_until(id, session.now);
    let until = stands?.into_iter().chain(denied).min().unwrap_or(Time::NEVER);
    if is_blocked(session, id) {
        return Some(Parking { key: HerdKey::Blocked(job.queue), demand: None, until });
    }
    if job.has_places() {
        return None;
    }
    if session.world.queues[job.queue].dequeue == Dequeue::Fifo {
        let key = HerdKey::Behind(job.queue, job.phase == Phase::Pending);
        return is_only_behind(session.world, job).then_some(Parking { key, demand: None, until });
    }
    let cure = if job.phase == Phase::Pending { admission(job)? } else { cure(session, job)? };
    let shape = shape(session, id);
    let demand = match (cure, &shape.tasks[..]) {
        (Cure::Room | Cure::Nodes, [run]) => {
            let whole = !session.job_ready(id) && !session.job_pipelined(id);
            Some((run.class.0, if whole { job.min_member.max(1) } else { 1 }))
        }
        _ => None,
    };
    let cure = if demand.is_some() { cure } else { Cure::Any };
    Some(Parking { key: HerdKey::Alike(Arc::new(shape), cure), demand, until })
}

/// Whether no room would help: no action gets as far as to ask for any.
fn is_blocked(session: &Session<'_>, id: JobId) -> bool {
    let world = &*session.world;
    let job = &world.jobs[id];
    if job.phase == Phase::Pending && job.exists {
        return session.conf.has_action("enqueue") && session.queue_refuses(job.queue).is_err();
    }
    // The phase becomes Unknown a cycle after the refusal.
    let still_running = job.counts.of(Status::Running) > 0 && job.phase != Phase::Unknown;
    if still_running && !session.job_ready(id) {
        return false;
    }
    let schedulable = |task: &TaskId| world.tasks[*task].is_schedulable();
    session.conf.has_action("allocate")
        && (!job.tasks.iter().any(schedulable) || session.job_blocked(id).is_err())
}

/// Whether a job waits for others in its queue and for nothing else, and nobody but allocate, or enqueue, would serve it.
fn is_only_behind(world: &World, job: &Job) -> bool {
    let behind = |refusal: &Refusal| matches!(refusal, Refusal::Behind { .. });
    let of_allocate = |task: &TaskId| !world.tasks[*task].gated && !world.class_of(*task).best_effort;
    job.refusals.iter().all(behind) && (job.phase == Phase::Pending || job.tasks.iter().all(of_allocate))
}

/// What may have a job admitted that was not.
fn admission(job: &Job) -> Option<Cure> {
    let known = |refusal: &Refusal| {
        use Refusal::{Enqueue, Gated, Promised, ResourceQuota};
        matches!(refusal, Enqueue { .. } | Promised { .. } | ResourceQuota { .. } | Gated(_))
    };
    let asked = |refusal: &Refusal| !matches!(refusal, Refusal::Gated(_));
    (job.refusals.iter().all(known) && job.refusals.iter().any(asked)).then_some(Cure::Any)
}

/// What may have a job placed that found no room.
fn cure(session: &Session<'_>, job: &Job) -> Option<Cure> {
    let world = &*session.world;
    let plain = |task: &TaskId| {
        let (task, class) = (&world.tasks[*task], world.class_of(*task));
        class.pvcs.is_empty()
            && !task.gated
            && !class.best_effort
            && task.claims.is_none()
            && !class.carried.restricts()
    };
    if !job.tasks.iter().all(plain) {
        return None;
    }
    let too_large =
        |refusal: &Refusal| matches!(refusal, Refusal::Eviction { why: NoEviction::TooLarge, .. });
    let too_large = job.refusals.iter().any(too_large);
    let meek = job.tasks.iter().all(|task| world.tasks[*task].never_preempts);
    let evicts = EVICTING.iter().any(|action| session.conf.has_action(action));
    if evicts && !too_large && !meek {
        return None;
    }
    let mut cure = if too_large { Cure::Nodes } else { Cure::Room };
    for refusal in &job.refusals {
        match refusal {
            Refusal::Nodes { error, .. } if error.reasons.keys().all(is_of_node) => {}
            Refusal::Partial { .. } | Refusal::Eviction { .. } => {}
            Refusal::Quota { .. } | Refusal::Overused { .. } => cure = Cure::Any,
            _ => return None,
        }
    }
    Some(cure)
}

/// Whether a reason is about a node's room or attributes, not about what is elsewhere.
fn is_of_node(reason: &Unfit) -> bool {
    use Unfit::{Insufficient, NodeAffinity, NotReady, Other, Ports, Taint, TooManyPods, Unschedulable};
    matches!(
        reason,
        Insufficient(_) | TooManyPods | NodeAffinity | Taint | Unschedulable | NotReady | Ports | Other(_)
    )
}

fn shape(session: &Session<'_>, id: JobId) -> Shape {
    let world = &*session.world;
    let job = &world.jobs[id];
    Shape {
        queue: job.queue,
        namespace: job.key.namespace.clone(),
        kind: job.kind,
        phase: job.phase,
        min_member: job.min_member,
        role_minimums: job.roles.iter().map(|role| role.min).collect(),
        min_resources: job.min_resources.clone(),
        quota_request: job.quota_request.clone(),
        priority: job.priority,
        preemptable: job.preemptable,
        annotations: job.annotations.clone(),
        tasks: runs(session, job),
    }
}

fn runs(session: &Session<'_>, job: &Job) -> Vec<Run> {
    let run = |task: &TaskId| {
        let task = &session.world.tasks[*task];
        Run {
            class: (task.class, session.world.classes[task.class].serial.0),
            role: task.role,
            priority: task.priority,
            preemptable: task.preemptable,
            never_preempts: task.never_preempts,
            annotations: task.annotations.clone(),
            count: 1,
        }
    };
    let runs = joined(job.tasks.iter().map(run));
    if runs.len() < 2 {
        return runs;
    }
    let mut tasks = job.tasks.clone();
    tasks.sort_by(|a, b| session.task_order(*a, *b));
    joined(tasks.iter().map(run))
}

fn joined(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut list: Vec<Run> = Vec::new();
    for run in runs {
        match list.last_mut().filter(|last| Run { count: 1, ..(**last).clone() } == run) {
            Some(last) => last.count += 1,
            None => list.push(run),
        }
    }
    list
}
