//! Statuses that wait: the newest of each object, one in flight at a time.
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::{Key, Phase, PodRef};
use rand_pcg::Pcg64;
use rustc_hash::{FxHashMap, FxHashSet};
use tracing::warn;

use super::lane::Due;
use super::reply::Reply;
use super::status::{GroupWrite, PodPatch, QueueSeen, Target, Write};
use super::unschedulable;
use crate::backoff;

/// The most holds that a write waits while its content keeps changing.
const HOLDS_MAX: u32 = 10;
/// The holds that counts of a running PodGroup must be still: pods start and end one after the other, and nobody acts
/// on how many run.
const COUNT_HOLDS: u32 = 5;
/// The most holds for the status of a queue, which each bind changes.
const QUEUE_HOLDS_MAX: u32 = 30;
/// The most holds for the status of a pod while new pods keep coming.
const CALM_MAX: u32 = 20;
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// The back-off of an object whose status the API server refused, first and at most: a role or a webhook may be mended
/// later.
const REFUSED: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(5));
/// The time between two writes after a refusal: they may be of all pods of a cluster.
const REFUSED_APART: Duration = Duration::from_millis(50);
/// How long the refused writes of others may put one off.
const REFUSED_BEHIND_MAX: Duration = Duration::from_mins(5);

/// The number of versions that are kept: a conflict with an own write costs one more request, and nothing else.
const VERSIONS_MAX: usize = 4096;

/// When a write is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// Once its content is still, while no bind waits.
    Lazy,
    /// At once, or at a time that changes of its content do not put off; also between binds.
    Prompt,
}

/// Where a write stands in line, and how long its content must be still.
#[derive(Clone, Copy, Debug)]
struct Pace {
    urgency: Urgency,
    wait: Duration,
}

#[derive(Debug)]
struct Pending {
    write: Write,
    since: Instant,
    due: Instant,
    urgency: Urgency,
}

impl Pending {
    /// While new pods keep coming that have to wait, gangs are being created. Statuses of single pods wait until that
    /// is over, for most of these pods will be bound by then, but not for ever.
    fn due(&self, calm: Instant, hold: Duration) -> Instant {
        match self.write {
            Write::Pod(..) if self.urgency == Urgency::Lazy => {
                self.due.max(calm.min(self.since + hold * CALM_MAX))
            }
            _ => self.due,
        }
    }
}

#[derive(Debug, Default)]
struct Entry {
    pending: Option<Pending>,
    in_flight: bool,
    /// The write in flight is outdated, so it is not repeated.
    forgotten: bool,
    failures: u32,
    /// The end of the back-off after a refused write.
    rests_until: Option<Instant>,
}

impl Entry {
    /// Puts back a write that failed, merged with a newer one. Returns true when no newer one waited.
    fn put_back(&mut self, write: &Write, since: Instant, due: Instant, urgency: Urgency) -> bool {
        let newer = self.pending.take();
        let alone = newer.is_none();
        let write = newer.map_or_else(|| write.clone(), |newer| newer.write.over(write));
        self.pending = Some(Pending { write, since, due, urgency });
        alone
    }
}

#[derive(Debug)]
pub(super) struct Writes {
    hold: Duration,
    chance: Pcg64,
    entries: FxHashMap<Target, Entry>,
    prompt: BinaryHeap<Due<Target>>,
    lazy: BinaryHeap<Due<Target>>,
    phases: FxHashMap<Key, Phase>,
    /// By PodGroup, the version that an own write was made from, and those that it and the next ones made: a status
    /// that was decided before these versions are read would conflict with own writes.
    versions: FxHashMap<Key, Vec<Arc<str>>>,
    told: FxHashSet<Arc<str>>,
    /// Pods that are being bound: their statuses wait for the outcome.
    binding: FxHashSet<Arc<str>>,
    /// When a pod last began to wait.
    newcomer: Option<Instant>,
    queues: FxHashMap<Arc<str>, QueueSeen>,
    /// By queue, the names of all amounts that were to be written into `allocated`: a watch may bring them much later, of
    /// an earlier leader's write too.
    allocated_names: FxHashMap<Arc<str>, Vec<Arc<str>>>,
    sequence: u64,
    pending: usize,
    /// When the last refused write is repeated.
    last_turn: Option<Instant>,
    /// The process is shutting down.
    hurried: bool,
}

/// Adds names that are not there yet, of which there are few.
fn add_new<'a>(names: &mut Vec<Arc<str>>, more: impl Iterator<Item = &'a Arc<str>>) {
    for name in more {
        if !names.contains(name) {
            names.push(Arc::clone(name));
        }
    }
}

impl Writes {
    pub(super) fn new(hold: Duration, chance: Pcg64) -> Self {
        Self {
            hold,
            chance,
            entries: FxHashMap::default(),
            prompt: BinaryHeap::new(),
            lazy: BinaryHeap::new(),
            phases: FxHashMap::default(),
            versions: FxHashMap::default(),
            told: FxHashSet::default(),
            binding: FxHashSet::default(),
            newcomer: None,
            queues: FxHashMap::default(),
            allocated_names: FxHashMap::default(),
            sequence: 0,
            pending: 0,
            last_turn: None,
            hurried: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.pending
    }

    pub(super) fn nominate(&mut self, pod: Arc<PodRef>, node: Option<Arc<str>>, now: Instant) {
        self.pod(pod, PodPatch { nominated: Some(node), ..PodPatch::default() }, Urgency::Prompt, now);
    }

    pub(super) fn unscheduled(
        &mut self,
        pod: Arc<PodRef>,
        reason: &'static str,
        message: Arc<str>,
        now: Instant,
    ) {
        let condition = Some((reason, message));
        let patch = PodPatch { condition, decided: Some(now), ..PodPatch::default() };
        self.pod(pod, patch, Urgency::Lazy, now);
    }

    /// The eviction API has set the condition with a reason of its own; this message names the preemptor.
    pub(super) fn disrupted(&mut self, pod: Arc<PodRef>, reason: Arc<str>, now: Instant) {
        self.pod(pod, PodPatch { disrupted: Some(reason), ..PodPatch::default() }, Urgency::Prompt, now);
    }

    /// Merges the patch with one that waits for the same pod.
    fn pod(&mut self, pod: Arc<PodRef>, mut patch: PodPatch, urgency: Urgency, now: Instant) {
        let target = Target::Pod(Arc::clone(&pod.uid));
        if let Some(Write::Pod(_, waiting)) = self.waiting(&target) {
            patch = patch.over(waiting);
        }
        patch.transition |= patch.condition.is_some() && !self.told.contains(&pod.uid);
        let pace = self.pace(urgency);
        self.put(target, Write::Pod(pod, patch), pace, now);
    }

    fn pace(&self, urgency: Urgency) -> Pace {
        let wait = match urgency {
            Urgency::Prompt => Duration::ZERO,
            Urgency::Lazy => self.hold,
        };
        Pace { urgency, wait }
    }

    pub(super) fn group(&mut self, write: GroupWrite, now: Instant) {
        let known = self.phases.get(&write.group).copied().unwrap_or_default();
        let (urgency, holds) = match (write.status.phase, write.status.phase == known) {
            // Pods that are bound start to run soon: the same write tells how many. What has completed is often deleted
            // at once by its owner, as a vcjob does: then nothing is written.
            (Phase::Running | Phase::Completed, false) => (Urgency::Prompt, 1),
            (_, false) => (Urgency::Prompt, 0),
            (Phase::Running, true) if unschedulable(&write.status).is_none() => (Urgency::Lazy, COUNT_HOLDS),
            (_, true) => (Urgency::Lazy, 1),
        };
        let pace = Pace { urgency, wait: self.hold * holds };
        self.put(Target::PodGroup(write.group.clone()), Write::PodGroup(write), pace, now);
    }

    pub(super) fn queue(&mut self, queue: Arc<str>, allocated: Vec<(Arc<str>, String)>, now: Instant) {
        let names = self.allocated_names.entry(Arc::clone(&queue)).or_default();
        add_new(names, allocated.iter().map(|(name, _)| name));
        let patch = match self.queues.get(&queue) {
            Some(seen) => seen.patch(allocated),
            None => QueueSeen::default().patch(allocated),
        };
        let pace = self.pace(Urgency::Lazy);
        self.put(Target::Queue(Arc::clone(&queue)), Write::Queue(queue, patch), pace, now);
    }

    pub(super) fn queue_seen(&mut self, queue: Arc<str>, seen: QueueSeen) {
        self.queues.insert(queue, seen);
    }

    /// A new object of this name may have been read before the deletion of the old one is reported.
    pub(super) fn queue_gone(&mut self, queue: &Arc<str>, uid: &str) {
        if self.queues.get(queue).is_some_and(|seen| *seen.uid == *uid) {
            self.queues.remove(queue);
            self.allocated_names.remove(queue);
        }
        self.forget(&Target::Queue(Arc::clone(queue)));
    }

    fn waiting(&self, target: &Target) -> Option<&Write> {
        Some(&self.entries.get(target)?.pending.as_ref()?.write)
    }

    /// A lazy write whose content changes waits anew, but not for ever.
    fn put(&mut self, target: Target, write: Write, pace: Pace, now: Instant) {
        let entry = self.entries.entry(target.clone()).or_default();
        let before = entry.pending.take();
        if let (Write::Pod(pod, _), Urgency::Lazy, None) = (&write, pace.urgency, &before)
            && !self.told.contains(&pod.uid)
        {
            self.newcomer = Some(now);
        }
        self.pending += usize::from(before.is_none());
        let since = before.as_ref().map_or(now, |pending| pending.since);
        let most = if matches!(write, Write::Queue(..)) { QUEUE_HOLDS_MAX } else { HOLDS_MAX };
        let latest = match &before {
            Some(pending) if pending.urgency == Urgency::Prompt => pending.due,
            _ => since + self.hold * most,
        };
        let due = (now + pace.wait).min(latest).max(now);
        let urgency = before.map_or(pace.urgency, |pending| pending.urgency.max(pace.urgency));
        let due = entry.rests_until.map_or(due, |rested| due.max(rested));
        entry.pending = Some(Pending { write, since, due, urgency });
        self.line_up(target, due, urgency);
    }

    fn line_up(&mut self, target: Target, at: Instant, urgency: Urgency) {
        self.sequence += 1;
        let due = Due { at, sequence: self.sequence, job: target };
        self.line(urgency).push(due);
    }

    fn line(&mut self, urgency: Urgency) -> &mut BinaryHeap<Due<Target>> {
        match urgency {
            Urgency::Prompt => &mut self.prompt,
            Urgency::Lazy => &mut self.lazy,
        }
    }

    /// The next write of this urgency or a higher one that is due.
    pub(super) fn next(&mut self, now: Instant, least: Urgency) -> Option<Write> {
        let prompt = self.take(now, Urgency::Prompt);
        if prompt.is_some() || least == Urgency::Prompt { prompt } else { self.take(now, Urgency::Lazy) }
    }

    /// An entry of the heap is not moved when the due time of its write changes; an outdated entry is corrected when it
    /// is popped.
    fn take(&mut self, now: Instant, urgency: Urgency) -> Option<Write> {
        loop {
            let line = self.line(urgency);
            if line.peek().is_none_or(|due| due.at > now) {
                return None;
            }
            let target = line.pop().expect("a due place was just seen").job;
            let Some(entry) = self.entries.get_mut(&target) else { continue };
            let calm = self.newcomer.map_or(now, |last| last + self.hold);
            match &entry.pending {
                Some(pending) if entry.in_flight || pending.urgency != urgency => {}
                Some(_) if matches!(&target, Target::Pod(uid) if self.binding.contains(uid)) => {}
                Some(pending) if pending.due(calm, self.hold) > now => {
                    let due = pending.due(calm, self.hold);
                    self.line_up(target, due, urgency);
                }
                Some(_) => return self.send(&target),
                None => {}
            }
        }
    }

    fn send(&mut self, target: &Target) -> Option<Write> {
        let entry = self.entries.get_mut(target)?;
        let write = entry.pending.take()?.write;
        (entry.in_flight, entry.forgotten) = (true, false);
        self.pending -= 1;
        let write = self.renewed(write);
        match &write {
            Write::PodGroup(write) => {
                self.phases.insert(write.group.clone(), write.status.phase);
            }
            Write::Pod(pod, patch) if patch.condition.is_some() => {
                self.told.insert(Arc::clone(&pod.uid));
            }
            Write::Pod(..) | Write::Queue(..) => {}
        }
        Some(write)
    }

    /// The names in a queue's status may have changed since the decision, or since an attempt that failed, and the
    /// version of a PodGroup by our own writing.
    fn renewed(&self, write: Write) -> Write {
        match write {
            Write::Queue(queue, patch) => {
                let mut seen = self.queues.get(&queue).cloned().unwrap_or_default();
                add_new(&mut seen.names, self.allocated_names.get(&queue).into_iter().flatten());
                Write::Queue(queue, patch.renewed(&seen))
            }
            Write::PodGroup(mut write) => {
                let own = self.versions.get(&write.group).filter(|made| made.contains(&write.version));
                write.stands = Arc::clone(own.and_then(|made| made.last()).unwrap_or(&write.version));
                Write::PodGroup(write)
            }
            pod @ Write::Pod(..) => pod,
        }
    }

    /// Takes the outcome of a write. After a passing error or a conflict the newest content is sent again; after a
    /// refusal too, with a growing back-off; the write of a deleted object is dropped.
    pub(super) fn done(&mut self, write: &Write, reply: &Reply, now: Instant) {
        let target = write.target();
        if let (Write::PodGroup(write), Reply::Done) = (write, reply) {
            self.note_version(write);
        }
        let Some(entry) = self.entries.get_mut(&target) else { return };
        entry.in_flight = false;
        match reply {
            Reply::Done | Reply::Gone(_) => (entry.failures, entry.rests_until) = (0, None),
            _ if entry.forgotten => {}
            Reply::Passing { after, .. } => self.again(&target, write, *after, now),
            Reply::Conflict(_) => self.again(&target, write, None, now),
            Reply::Refused(message) => self.refused(&target, write, message, now),
        }
        self.settle(target);
    }

    /// Until the new version is read, decisions are made from the version before.
    fn note_version(&mut self, write: &GroupWrite) {
        if self.versions.len() >= VERSIONS_MAX {
            self.versions.clear();
        }
        let made = self.versions.entry(write.group.clone()).or_default();
        match made.iter().position(|version| *version == write.version) {
            Some(read) => drop(made.drain(..read)),
            None => *made = vec![Arc::clone(&write.version)],
        }
        made.push(Arc::clone(&write.stands));
    }

    fn again(&mut self, target: &Target, write: &Write, after: Option<Duration>, now: Instant) {
        let Some(entry) = self.entries.get_mut(target) else { return };
        let wait = backoff::wait_for(RETRY.0, RETRY.1, entry.failures, &mut self.chance)
            .max(after.unwrap_or_default());
        entry.failures += 1;
        // It is not refused any more: what is tried again for other reasons does not lengthen the wait after a refusal.
        entry.rests_until = None;
        let urgency = if matches!(write, Write::Queue(..)) { Urgency::Lazy } else { Urgency::Prompt };
        self.pending += usize::from(entry.put_back(write, now, now + wait, urgency));
    }

    /// The core takes the status for written, so the write is repeated until it succeeds or the object is gone: logged
    /// once, and at growing intervals.
    fn refused(&mut self, target: &Target, write: &Write, message: &str, now: Instant) {
        let Some(entry) = self.entries.get_mut(target) else { return };
        if entry.rests_until.is_none() {
            entry.failures = 0;
            warn!(object = %write, %message, "the API server refused a status; it is tried again from time to time");
        }
        if self.hurried {
            self.pending -= usize::from(entry.pending.take().is_some());
            return;
        }
        let wait = backoff::wait_for(REFUSED.0, REFUSED.1, entry.failures, &mut self.chance);
        entry.failures += 1;
        let due = now + wait;
        let turn =
            self.last_turn.map_or(due, |last| last + REFUSED_APART).clamp(due, due + REFUSED_BEHIND_MAX);
        self.last_turn = Some(turn);
        entry.rests_until = Some(turn);
        self.pending += usize::from(entry.put_back(write, now, turn, Urgency::Lazy));
    }

    /// Queues a waiting write; drops the entry of an object without one.
    fn settle(&mut self, target: Target) {
        let Some(entry) = self.entries.get(&target) else { return };
        match &entry.pending {
            Some(pending) => {
                let (due, urgency) = (pending.due, pending.urgency);
                self.line_up(target, due, urgency);
            }
            None if entry.in_flight => {}
            None => {
                self.entries.remove(&target);
            }
        }
    }

    /// Whether the last write of the object failed.
    pub(super) fn has_failed(&self, write: &Write) -> bool {
        self.entries.get(&write.target()).is_some_and(|entry| entry.failures > 0)
    }

    /// A status of the pod is on its way.
    pub(super) fn pod_in_flight(&self, uid: &Arc<str>) -> bool {
        self.entries.get(&Target::Pod(Arc::clone(uid))).is_some_and(|entry| entry.in_flight)
    }

    /// The pod is being bound. Its status waits: the API server sets PodScheduled and clears the nomination itself, and
    /// the status is written only if the bind fails.
    pub(super) fn bind_begins(&mut self, uid: &Arc<str>) {
        self.binding.insert(Arc::clone(uid));
    }

    /// The pod is being bound, unless it is gone.
    pub(super) fn is_binding(&self, uid: &str) -> bool {
        self.binding.contains(uid)
    }

    /// The bind of the pod succeeded or failed.
    pub(super) fn bind_ended(&mut self, uid: &Arc<str>, bound: bool) {
        self.binding.remove(uid);
        let target = Target::Pod(Arc::clone(uid));
        if bound { self.forget(&target) } else { self.settle(target) }
    }

    /// Drops the waiting writes of an object, and all that is kept about it.
    pub(super) fn forget(&mut self, target: &Target) {
        match target {
            Target::Pod(uid) => {
                self.told.remove(uid);
                self.binding.remove(uid);
            }
            Target::PodGroup(group) => {
                self.phases.remove(group);
                self.versions.remove(group);
            }
            // The status as read may be that of a new queue of this name: see `queue_gone`.
            Target::Queue(_) => {}
        }
        let Some(entry) = self.entries.get_mut(target) else { return };
        self.pending -= usize::from(entry.pending.take().is_some());
        entry.forgotten = entry.in_flight;
        if !entry.in_flight {
            self.entries.remove(target);
        }
    }

    /// When the next write becomes due that is not due now.
    pub(super) fn wake(&self, now: Instant) -> Option<Instant> {
        let first = |line: &BinaryHeap<Due<Target>>| line.peek().map(|due| due.at).filter(|at| *at > now);
        first(&self.prompt).into_iter().chain(first(&self.lazy)).min()
    }

    /// The process is shutting down.
    pub(super) fn is_hurried(&self) -> bool {
        self.hurried
    }

    /// Makes statuses of PodGroups and queues due now; statuses of single pods, and refused ones, are left to the next
    /// leader.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.hurried = true;
        let targets: Vec<Target> = self.entries.keys().cloned().collect();
        for target in targets {
            let refused = self.entries.get(&target).is_some_and(|entry| entry.rests_until.is_some());
            if refused || matches!(target, Target::Pod(_)) {
                self.forget(&target);
                continue;
            }
            if let Some(pending) = self.entries.get_mut(&target).and_then(|entry| entry.pending.as_mut()) {
                (pending.due, pending.urgency) = (now, Urgency::Prompt);
                self.line_up(target, now, Urgency::Prompt);
            }
        }
    }
}
