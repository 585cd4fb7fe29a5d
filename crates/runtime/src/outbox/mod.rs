//! Decisions on their way to the API server.
//!
//! [`Outbox`] orders requests without any IO: three lanes (binds and evictions; statuses; events), a window of requests
//! in flight that narrows when the server is in trouble, and retries. [`driver`] sends the requests that [`Outbox`]
//! gives it.
//!
//! - Binds go first and in the order of the decisions, so a gang's binds are contiguous.
//! - Statuses are coalesced by object, and only one write of an object is in flight at a time. A change of phase goes
//!   out at once, also between binds; Running a moment later, with the pods that run by then, and Completed too, since
//!   what has completed is often deleted at once. Messages wait until they have been still for a moment, and counts of
//!   what runs a little longer.
//! - A pod's bind and its status never cross: a bind waits for the answer to a status that is on its way, and what was
//!   computed before the bind is not written after it.
//! - Events are sent when no bind that may go and no due status waits. When there are too many, those that are told
//!   once are dropped, and the others told later. How many are in flight follows their own answers too, and never the
//!   binds'.

mod alike;
mod bound;
pub mod driver;
mod gone;
mod kubernetes_group;
mod lacking;
mod lane;
mod merge;
mod oldest;
mod prepare;
pub mod reply;
pub mod request;
mod retries;
mod status;
mod unstarted;
mod volumes;
mod waits;
mod window;
mod work;
mod writes;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::GroupRef;
use phalanx_cluster::event::{BindFailure, BindFault, Condition, Event, GroupStatus};
use phalanx_core::decision::{Binding, Decision};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::backoff;
use crate::recorder::{Note, Recorder, Regarding};
use alike::Alike;
use lacking::{Lacking, is_lack};
use lane::{Due, Lane};
use reply::Reply;
pub use request::SELECTED_NODE;
use retries::Retries;
pub use status::{GroupWrite, PodPatch, QueuePatch, QueueSeen, Target, Write};
use unstarted::Unstarted;
use volumes::Volumes;
pub use volumes::{PvcSeen, PvcWrite, VolumeSeen};
use window::Window;
pub use work::{Depth, Eviction, Job, OutboxOptions, Settle, Then, Work};
use writes::{Urgency, Writes};

/// The first wait after a passing error, and the longest.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));
/// A break between binds that is long enough for events.
const CALM: Duration = Duration::from_millis(250);
/// How long events wait for such a break; then they leave one at a time, beside binds.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a request is tried that the server refuses (forbidden, invalid): long enough for a webhook that hiccups.
const REFUSED_DEADLINE: Duration = Duration::from_secs(3);

/// Orders the requests. The caller passes the time.
#[derive(Debug)]
pub struct Outbox {
    options: OutboxOptions,
    window: Window,
    /// The window of events: answers to events do not slow binds and statuses.
    talk: Window,
    binds: VecDeque<Job>,
    /// Binds of pods whose status is on its way.
    held: FxHashMap<Arc<str>, Job>,
    retries: Retries,
    /// Pods whose bind was refused until its deadline: the next bind is tried once, since the core has a back-off.
    denied: FxHashSet<Arc<str>>,
    /// Pods whose bind is repeated after an outage; it is not repeated a second time.
    anew: FxHashSet<Arc<str>>,
    volumes: Volumes,
    unstarted: Unstarted,
    writes: Writes,
    events: VecDeque<Job>,
    lacking: Lacking,
    recorder: Recorder,
    chance: Pcg64,
    in_flight: [usize; 3],
    dropped: u64,
    sequence: u64,
    last_bind: Option<Instant>,
}

impl Outbox {
    /// An empty outbox.
    pub fn new(options: OutboxOptions) -> Self {
        let mut chance = Pcg64::seed_from_u64(options.seed);
        Self {
            window: Window::new(options.in_flight),
            talk: Window::new(options.in_flight / 4),
            writes: Writes::new(options.hold, Pcg64::from_rng(&mut chance)),
            recorder: Recorder::new(chance.next_u64()),
            chance,
            options,
            binds: VecDeque::new(),
            held: FxHashMap::default(),
            denied: FxHashSet::default(),
            anew: FxHashSet::default(),
            retries: Retries::default(),
            volumes: Volumes::default(),
            unstarted: Unstarted::default(),
            events: VecDeque::new(),
            lacking: Lacking::default(),
            in_flight: [0; 3],
            dropped: 0,
            sequence: 0,
            last_bind: None,
        }
    }

    /// Takes in what a cycle decided.
    pub fn decide(&mut self, decisions: Vec<Decision>, now: Instant) {
        let Alike { notes, untold } = Alike::of(&decisions, now);
        for note in notes {
            self.note(note, now);
        }
        for decision in decisions {
            self.take_in(decision, &untold, now);
        }
    }

    fn take_in(&mut self, decision: Decision, untold: &FxHashSet<Arc<str>>, now: Instant) {
        match decision {
            Decision::Bind { job, pods } => {
                self.unstarted.decided(job, &pods);
                for binding in pods {
                    self.bind(binding, now);
                }
            }
            Decision::Evict { pod, group, cause } => {
                self.queue(Work::Evict(Eviction { pod, group, reason: Arc::clone(&cause.reason) }), now);
            }
            Decision::OpenGate { pod } => self.queue(Work::OpenGate(pod), now),
            Decision::Nominate { pod, node } => self.writes.nominate(pod, node, now),
            Decision::PodGroupStatus { group, uid, version, status } => {
                match unschedulable(&status) {
                    Some(condition) if is_lack(&condition.reason) => self.lacking.changed(&group, now),
                    Some(_) => self.lacking.forget(&group),
                    None => {
                        self.lacking.forget(&group);
                        self.recorder.settled(&uid);
                    }
                }
                let stands = Arc::clone(&version);
                let told = !untold.contains(&uid);
                self.writes
                    .group(GroupWrite { group, uid, version, stands, status, told, decided: now }, now);
            }
            Decision::QueueStatus { queue, allocated } => self.writes.queue(queue, allocated, now),
            Decision::PodUnscheduled { pod, reason, message } => {
                self.writes.unscheduled(pod, reason, message, now);
            }
            Decision::PodUngrouped { pod, message } => {
                self.note(Note::no_pod_group(&pod, &message, now), now);
            }
            // Sent when the status with the same message is written, see `tell`; or once for many, see `Alike`.
            Decision::PodGroupUnschedulable { .. } => {}
            Decision::PodGroupInvalid { group, uid, message } => {
                self.note(Note::invalid(Regarding::pod_group(&group, &uid), &message, now), now);
            }
            Decision::HyperNodeInvalid { hyper_node, uid, message } => {
                self.note(Note::invalid(Regarding::hyper_node(&hyper_node, &uid), &message, now), now);
            }
            Decision::QueueInvalid { queue, uid, message } => {
                self.note(Note::queue_invalid(&queue, &uid, &message, now), now);
            }
        }
    }

    /// A pod that is bound needs no event on why it waited.
    fn bind(&mut self, binding: Binding, now: Instant) {
        self.writes.bind_begins(&binding.pod.uid);
        self.anew.remove(&binding.pod.uid);
        if binding.volumes().next().is_none() {
            return self.queue(Work::Bind(binding), now);
        }
        self.bind_volumes(binding, 0, now);
    }

    fn fail(&mut self, bindings: Vec<Binding>, why: &str, fault: BindFault, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        for binding in bindings {
            self.note(Note::failed_scheduling(&binding.pod, why, now), now);
            self.writes.bind_ended(&binding.pod.uid, false);
            let failure = BindFailure { message: why.into(), fault };
            events.push(Event::BindFailed(Arc::clone(&binding.pod.uid), failure));
        }
        let others = self.give_up_others(failed_pods(&events));
        events.extend(others);
        events
    }

    fn queue(&mut self, work: Work, now: Instant) {
        let job = self.job(work, now);
        self.binds.push_back(job);
    }

    fn job(&mut self, work: Work, now: Instant) -> Job {
        self.sequence += 1;
        Job { work, attempt: 0, first: now, in_doubt: false, number: self.sequence }
    }

    /// Sends an event about an object: later if too many wait; an event that would be sent only once is then dropped.
    pub fn note(&mut self, note: Note, now: Instant) {
        if self.events.len() >= self.options.events_max {
            self.dropped += u64::from(!self.recorder.postpone(note, now));
            return;
        }
        let Some(posting) = self.recorder.record(note, now) else { return };
        let job = self.job(Work::Post(posting), now);
        self.events.push_back(job);
    }

    /// The status of a queue as read: names that are no longer used have to be removed by name.
    pub fn queue_seen(&mut self, queue: Arc<str>, seen: QueueSeen) {
        self.writes.queue_seen(queue, seen);
    }

    /// The next request to send, if one may be sent now.
    pub fn next(&mut self, now: Instant) -> Option<Job> {
        self.wake_retries(now);
        while let Some(note) = self.lacking.due(now) {
            self.note(note, now);
        }
        let job = self.next_bind(now).or_else(|| self.next_write(now)).or_else(|| self.next_event(now))?;
        self.in_flight[job.work.lane() as usize] += 1;
        Some(job)
    }

    /// Retries go to the head of the line, in the order of their decisions: their gang has waited longest.
    fn wake_retries(&mut self, now: Instant) {
        let mut woken = self.retries.due(now);
        woken.sort_unstable_by_key(|job| std::cmp::Reverse(job.number));
        for job in woken {
            match job.work.lane() {
                Lane::Binds => self.binds.push_front(job),
                Lane::Writes | Lane::Events => self.events.push_front(job),
            }
        }
    }

    /// The deadline counts from the first attempt, not from the decision.
    fn next_bind(&mut self, now: Instant) -> Option<Job> {
        if self.in_flight(Lane::Binds) >= self.window.limit() {
            return None;
        }
        let job = self.unheld()?;
        self.last_bind = Some(now);
        if let Work::Bind(binding) | Work::Settle(Settle { binding, .. }) = &job.work {
            self.unstarted.sent(&binding.pod.uid);
        }
        Some(if job.attempt == 0 { Job { first: now, ..job } } else { job })
    }

    /// The first bind whose pod has no status on its way.
    fn unheld(&mut self) -> Option<Job> {
        loop {
            let job = self.binds.pop_front()?;
            match &job.work {
                Work::Bind(binding) if self.writes.pod_in_flight(&binding.pod.uid) => {
                    self.held.insert(Arc::clone(&binding.pod.uid), job);
                }
                _ => return Some(job),
            }
        }
    }

    /// While binds wait, a few places are kept for changes of phase: controllers create pods on them.
    fn next_write(&mut self, now: Instant) -> Option<Job> {
        let binds_wait = !self.binds.is_empty();
        let places = if binds_wait { self.window.limit() / 16 } else { self.window.limit() / 2 };
        if self.in_flight(Lane::Writes) >= places.max(1) {
            return None;
        }
        let least = if binds_wait { Urgency::Prompt } else { Urgency::Lazy };
        let write = self.writes.next(now, least)?;
        Some(self.job(Work::Write(write), now))
    }

    fn next_event(&mut self, now: Instant) -> Option<Job> {
        if self.in_flight(Lane::Events) >= self.places_to_talk(now) {
            return None;
        }
        let first = self.events.front().map(|job| job.first);
        let waited = self.recorder.wake().is_some_and(|at| first.is_none_or(|first| at < first));
        let job = match waited.then(|| self.recorder.due(now)).flatten() {
            Some(posting) => self.job(Work::Post(posting), now),
            None => self.events.pop_front()?,
        };
        Some(if job.attempt == 0 { Job { first: now, ..job } } else { job })
    }

    /// A bind that waits for its next attempt does not hold up events: a single pod may fail for long.
    fn binds_wait(&self) -> bool {
        self.binds.len() + self.held.len() + self.in_flight(Lane::Binds) > 0
    }

    /// The number of events that may be in flight. Binds come in bursts with short breaks between, and events would
    /// slow the next burst; after `PATIENCE` a single event may go, so that steady binds do not keep all events back.
    fn places_to_talk(&self, now: Instant) -> usize {
        let calm = !self.binds_wait() && self.last_bind.is_none_or(|last| last + CALM <= now);
        let late = self.untold_since().is_some_and(|since| since + PATIENCE <= now);
        if calm { self.talk.limit() } else { usize::from(late) }
    }

    /// Since when the event waits that has waited longest, or when it is due.
    fn untold_since(&self) -> Option<Instant> {
        self.events.front().map(|job| job.first).into_iter().chain(self.recorder.wake()).min()
    }

    /// When events may be sent, if only time keeps them waiting.
    fn talk_at(&self, now: Instant) -> Option<Instant> {
        let since = self.untold_since()?;
        let quiet = self.last_bind.map_or(since, |last| since.max(last + CALM));
        let quiet = (!self.binds_wait()).then_some(quiet);
        quiet.into_iter().chain([since + PATIENCE]).filter(|at| *at > now).min()
    }

    fn in_flight(&self, lane: Lane) -> usize {
        self.in_flight[lane as usize]
    }

    /// When [`Outbox::next`], which has nothing now, will have something because time has passed. A request that also
    /// waits for an answer or a retry does not count: if it is due already, it would hide the times of all others.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        let later = |at: &Instant| *at > now;
        [
            self.retries.wake().filter(later),
            self.volumes.wake().filter(later),
            self.writes.wake(now),
            self.lacking.wake().filter(later),
            self.talk_at(now),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Takes the outcome of a request; returns the events for the Cluster.
    pub fn done(&mut self, job: Job, reply: Reply, now: Instant) -> Vec<Event> {
        self.in_flight[job.work.lane() as usize] -= 1;
        let failed_before = match &job.work {
            Work::Write(write) => self.writes.has_failed(write),
            _ => job.attempt > 0,
        };
        let window = if job.work.lane() == Lane::Events { &mut self.talk } else { &mut self.window };
        window.observe(&reply, failed_before);
        match &job.work {
            Work::Bind(binding) | Work::Settle(Settle { binding, .. }) => {
                let binding = binding.clone();
                self.unstarted.answered(&binding.pod.uid, &reply);
                self.bound(job, &binding, reply, now)
            }
            Work::Pvc(write) => {
                let write = write.clone();
                self.claimed(job, &write, reply, now)
            }
            Work::Evict(eviction) => {
                let eviction = eviction.clone();
                self.evicted(job, eviction, reply, now).into_iter().collect()
            }
            Work::OpenGate(pod) => {
                let pod = Arc::clone(pod);
                let Some(message) = self.again(job, reply, now) else { return Vec::new() };
                let why = format!("its scheduling gate cannot be taken off: {message}");
                self.note(Note::failed_scheduling(&pod, &why, now), now);
                vec![Event::GateFailed(Arc::clone(&pod.uid))]
            }
            Work::Write(write) => {
                self.writes.done(write, &reply, now);
                if let Write::Pod(pod, _) = write
                    && let Some(bind) = self.held.remove(&pod.uid)
                {
                    self.binds.push_front(bind);
                }
                if reply == Reply::Done {
                    self.tell(write, now);
                }
                Vec::new()
            }
            Work::Post(posting) => {
                let posting = posting.clone();
                if let Reply::Passing { .. } = reply
                    && self.again(job, reply, now).is_some()
                {
                    self.dropped += u64::from(!self.recorder.lost(posting, now));
                }
                Vec::new()
            }
        }
    }

    /// Events about waiting pods follow the conditions, with the same text: a status that is not written has no event,
    /// and most pods of a gang that is being created are bound before either.
    fn tell(&mut self, write: &Write, now: Instant) {
        match write {
            Write::Pod(pod, PodPatch { condition: Some((_, message)), decided, .. }) => {
                self.note(Note::failed_scheduling(pod, message, decided.unwrap_or(now)), now);
            }
            Write::PodGroup(GroupWrite { group, uid, status, told: true, decided, .. }) => {
                let Some(condition) = unschedulable(status) else { return };
                let note = Note::unschedulable(group, uid, &condition.message, *decided);
                if is_lack(&condition.reason) {
                    self.lacking.tell(group, note, now);
                } else {
                    self.note(note, now);
                }
            }
            Write::Pod(..) | Write::PodGroup(..) | Write::Queue(..) => {}
        }
    }

    fn evicted(&mut self, job: Job, eviction: Eviction, reply: Reply, now: Instant) -> Option<Event> {
        let Eviction { pod, group, reason } = eviction;
        match reply {
            Reply::Done => {
                self.note(Note::evicted(&pod, &reason, now), now);
                if let Some(GroupRef { key, uid }) = &group {
                    self.note(Note::member_evicted(key, uid, &reason, now), now);
                }
                self.writes.disrupted(pod, reason, now);
                None
            }
            // Its own event follows.
            Reply::Gone(_) => None,
            other => {
                let message = self.again(job, other, now)?;
                self.note(Note::eviction_failed(&pod, &message, now), now);
                Some(Event::EvictFailed(Arc::clone(&pod.uid), message.into()))
            }
        }
    }

    /// Plans another attempt, or says why there is none.
    fn again(&mut self, job: Job, reply: Reply, now: Instant) -> Option<String> {
        let refused = matches!(reply, Reply::Refused(_));
        let (message, after, deadline) = match reply {
            Reply::Passing { message, after, .. } => (message, after, self.options.deadline),
            Reply::Conflict(message) => (message, None, self.options.deadline),
            Reply::Refused(message) => (message, None, REFUSED_DEADLINE.min(self.options.deadline)),
            Reply::Done | Reply::Gone(_) => return None,
        };
        if refused && matches!(&job.work, Work::Bind(binding) if self.denied.contains(&binding.pod.uid)) {
            return Some(message);
        }
        let wait = self.wait(&job, after);
        if now + wait >= job.first + deadline {
            return Some(message);
        }
        self.retry(job, now + wait);
        None
    }

    fn wait(&mut self, job: &Job, after: Option<Duration>) -> Duration {
        backoff::wait_for(RETRY.0, RETRY.1, job.attempt, &mut self.chance).max(after.unwrap_or_default())
    }

    fn retry(&mut self, job: Job, at: Instant) {
        self.sequence += 1;
        let job = Job { attempt: job.attempt + 1, ..job };
        self.retries.push(Due { at, sequence: self.sequence, job });
    }

    /// Since when the oldest bind waits that is not in flight.
    pub fn oldest_bind(&self) -> Option<Instant> {
        let waiting = self.binds.iter().chain(self.held.values()).chain(self.retries.of_binds());
        waiting.map(|job| job.first).min()
    }

    /// How much waits.
    pub fn depth(&self) -> Depth {
        Depth {
            binds: self.binds.len() + self.held.len() + self.retries.binds() + self.in_flight(Lane::Binds),
            writes: self.writes.len() + self.in_flight(Lane::Writes),
            events: self.events.len() + self.retries.events() + self.in_flight(Lane::Events),
            in_flight: self.in_flight.iter().sum(),
            events_dropped: self.dropped,
        }
    }

    /// The process is about to end: statuses no longer wait to be still, and events are dropped. What became of binds
    /// is for the next process, which reads all pods.
    pub fn hurry(&mut self, now: Instant) {
        self.retain(|job| !matches!(job.work, Work::Settle(_)));
        self.writes.hurry(now);
        self.events.clear();
        self.lacking = Lacking::default();
        self.retries.drop_events();
    }
}

/// The pods of these events that have no node.
fn failed_pods(events: &[Event]) -> impl Iterator<Item = &str> {
    events.iter().filter_map(|event| match event {
        Event::BindFailed(uid, _) => Some(&**uid),
        _ => None,
    })
}

/// The condition of a PodGroup that says why it waits.
fn unschedulable(status: &GroupStatus) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| &*condition.kind == Condition::UNSCHEDULABLE && condition.status)
}
