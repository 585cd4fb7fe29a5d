//! The state machine: what was seen and answered, in; requests, out. No clock, no client, no chance but a seed.
mod answers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use phalanx_cluster::event::Key;
use phalanx_controllers::flow::ProbeRequest;
use phalanx_controllers::job::{FAILURES_MAX, SshKey};
use phalanx_controllers::podgroup::OwnerTable;
use phalanx_controllers::{Change, Kind, Outcome, Target};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use super::errand::{Ask, Errand, Failure, Sort};
use super::queue::{Queue, Subject};
use super::reconcile::{Given, Need};
use super::store::{Seen, Store, Watched};
use super::table::Identity;
use super::turns::{Slots, Turn};
use super::write::{Answer, type_of};
use crate::outbox::request::Moment;
use crate::recorder::{Note, Posting, Recorder, Regarding};

/// After a reconciliation a subject rests this long for each pod, or PodGroup of a Queue, that it went through.
const REST_PER_OBJECT: Duration = Duration::from_micros(10);
/// How long after probes that failed the pods are asked again.
const PROBE_AGAIN: Duration = Duration::from_secs(2);
/// A time of the wall clock that is further away is looked at again by then: that clock may be set.
const FAR: Duration = Duration::from_mins(10);
/// Reconciliations without a request between them, before others get their turn on the thread.
const AT_ONCE: u32 = 100;
/// Key pairs that are generated together: each takes a core.
const KEYS_AT_ONCE: usize = 1;
/// Probes that are asked together: each may take seconds.
const PROBES_AT_ONCE: usize = 16;
/// Events that wait; more are dropped.
const POSTINGS_MAX: usize = 1024;

/// How the machine works.
#[derive(Clone, Debug)]
pub struct MachineOptions {
    /// The scheduler of pods that name none, and whose Job names none.
    pub scheduler_name: String,
    /// Kinds whose objects may be the owner of a gang.
    pub owners: OwnerTable,
    /// Requests to the API server in flight at most.
    pub in_flight: usize,
    /// How long statuses that only count wait for more.
    pub hold: Duration,
    /// Refused writes in a row after which a Job is terminated; `None` for never.
    pub failures_max: Option<u32>,
    /// For the jitter of waits, and names of events.
    pub seed: u64,
}

impl Default for MachineOptions {
    fn default() -> Self {
        Self {
            scheduler_name: "volcano".to_owned(),
            owners: OwnerTable::builtin(),
            in_flight: 64,
            hold: Duration::from_secs(2),
            failures_max: Some(FAILURES_MAX),
            seed: 0,
        }
    }
}

/// A request that was handed out.
#[derive(Clone, Debug, PartialEq)]
pub enum Ticket {
    /// For a subject.
    For(Subject, Ask),
    /// An event.
    Post(Posting),
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// The API server has answered, or has not.
    Answer(Answer),
    /// A key pair; nothing where none could be generated.
    SshKey(Option<SshKey>),
    /// Whether all pods answered as wanted.
    Probed(bool),
}

/// What is remembered of a subject between reconciliations.
#[derive(Debug, Default)]
struct Memory {
    /// Writes that were refused in a row.
    failures: u32,
    /// When a status that only counts is written.
    held_until: Option<Instant>,
    ssh_key: Option<SshKey>,
    passed: BTreeSet<ProbeRequest>,
}

/// Each sort of requests has slots of its own, so that slow ones hold up no other.
#[derive(Debug)]
struct AllSlots {
    api: Slots,
    keys: Slots,
    probes: Slots,
}

impl AllSlots {
    fn of(&mut self, sort: Sort) -> &mut Slots {
        match sort {
            Sort::Api => &mut self.api,
            Sort::Key => &mut self.keys,
            Sort::Probe => &mut self.probes,
        }
    }

    fn next(&mut self) -> Option<Turn> {
        self.keys.next().or_else(|| self.probes.next()).or_else(|| self.api.next())
    }
}

impl Ticket {
    fn sort(&self) -> Sort {
        match self {
            Self::For(_, ask) => ask.sort(),
            Self::Post(_) => Sort::Api,
        }
    }
}

/// The controllers.
#[derive(Debug)]
pub struct Machine {
    options: MachineOptions,
    store: Store,
    queue: Queue,
    memory: BTreeMap<Subject, Memory>,
    errands: BTreeMap<Subject, Errand>,
    slots: AllSlots,
    /// When it left subjects that are due to a later call.
    paused_at: Option<Instant>,
    recorder: Recorder,
    postings: VecDeque<Posting>,
    /// Kinds whose first list is not in: nothing is reconciled before.
    missing: BTreeSet<Watched>,
    chance: Pcg64,
}

impl Machine {
    /// A machine that knows nothing yet.
    pub fn new(options: MachineOptions) -> Self {
        let mut chance = Pcg64::seed_from_u64(options.seed);
        Self {
            store: Store::new(options.owners.clone()),
            queue: Queue::default(),
            memory: BTreeMap::new(),
            errands: BTreeMap::new(),
            slots: AllSlots {
                api: Slots::new(options.in_flight),
                keys: Slots::new(KEYS_AT_ONCE),
                probes: Slots::new(PROBES_AT_ONCE),
            },
            paused_at: None,
            recorder: Recorder::new(chance.next_u64()),
            postings: VecDeque::new(),
            missing: Watched::ALL.into(),
            chance,
            options,
        }
    }

    /// Kinds whose first list is missing.
    pub fn missing(&self) -> BTreeSet<&'static str> {
        self.missing.iter().map(|kind| kind.plural()).collect()
    }

    /// How many objects of a kind are known.
    pub fn known(&mut self, kind: Watched) -> usize {
        self.store.count(kind)
    }

    /// Whether an object is known.
    pub fn has(&mut self, kind: Watched, key: &Key) -> bool {
        self.store.has(kind, key)
    }

    /// For the creation of a pod of a Job: how long ago the Job was created.
    pub fn since_creation_of_job(
        &self,
        subject: &Subject,
        change: &Change,
        now: Timestamp,
    ) -> Option<Duration> {
        let Change::Create(object) = change else { return None };
        let job = self.store.jobs.get(&subject.key).filter(|_| subject.kind == Kind::Job)?;
        let created = job.metadata.creation_timestamp.as_ref().filter(|_| object.kind() == Kind::Pod)?.0;
        now.duration_since(created).try_into().ok()
    }

    /// An object was added or changed.
    pub fn seen(&mut self, seen: Seen, now: Instant) {
        let concerned = self.store.take(seen);
        self.mark(&concerned, now);
    }

    /// An object was deleted.
    pub fn deleted(&mut self, kind: Watched, id: &Identity, now: Instant) {
        let concerned = self.store.remove(kind, &id.key, &id.uid);
        self.mark(&concerned, now);
    }

    /// An object cannot be decoded; this is why.
    pub fn broken(&mut self, kind: Watched, id: &Identity, regarding: Regarding, why: &str, now: Instant) {
        self.store.cannot_read(kind, &id.key);
        self.post(Note::invalid(regarding, why, now), now);
    }

    /// A list of a kind is asked for.
    pub fn listing(&mut self, kind: Watched) {
        self.store.begin_list(kind);
    }

    /// The list of a kind is complete, or there will be none.
    pub fn listed(&mut self, kind: Watched, now: Instant) {
        let concerned = self.store.end_list(kind);
        self.mark(&concerned, now);
        self.missing.remove(&kind);
    }

    /// The API server has no such kind, or this process may not read it.
    pub fn absent(&mut self, kind: Watched, now: Instant) {
        let concerned = self.store.serves(kind, false);
        self.mark(&concerned, now);
        self.missing.remove(&kind);
    }

    fn mark(&mut self, concerned: &[Subject], now: Instant) {
        for subject in concerned {
            self.queue.mark(subject, now);
        }
    }

    /// The next request that may be sent.
    pub fn next(&mut self, now: Moment) -> Option<Ticket> {
        self.paused_at = None;
        if !self.missing.is_empty() {
            return None;
        }
        while let Some(subject) = self.queue.take(now.instant) {
            self.slots.api.add(Turn::Reconciliation(subject));
        }
        for _ in 0..AT_ONCE {
            let ticket = match self.slots.next() {
                Some(Turn::Request(subject)) => self.send(subject),
                Some(Turn::Reconciliation(subject)) => {
                    self.begin(&subject, now);
                    None
                }
                None => return self.next_event(now.instant),
            };
            if ticket.is_some() {
                return ticket;
            }
        }
        self.paused_at = Some(now.instant);
        None
    }

    /// Events go after all else.
    fn next_event(&mut self, now: Instant) -> Option<Ticket> {
        if !self.slots.api.are_free() {
            return None;
        }
        let posting = self.postings.pop_front().or_else(|| self.recorder.due(now))?;
        self.slots.api.take();
        Some(Ticket::Post(posting))
    }

    /// When there is something to do without an event.
    pub fn wake(&self) -> Option<Instant> {
        if !self.missing.is_empty() {
            return None;
        }
        let event = self.recorder.wake().filter(|_| self.slots.api.are_free());
        [self.paused_at, self.queue.wake(), event].into_iter().flatten().min()
    }

    fn send(&mut self, subject: Subject) -> Option<Ticket> {
        let errand = self.errands.get_mut(&subject)?;
        errand.queued = false;
        let ask = errand.send()?;
        self.slots.of(ask.sort()).take();
        self.queue_turn(&subject);
        Some(Ticket::For(subject, ask))
    }

    fn queue_turn(&mut self, subject: &Subject) {
        if let Some(errand) = self.errands.get_mut(subject)
            && let Some(sort) = errand.ready()
            && !std::mem::replace(&mut errand.queued, true)
        {
            self.slots.of(sort).add(Turn::Request(subject.clone()));
        }
    }

    /// Reconciles a subject.
    fn begin(&mut self, subject: &Subject, now: Moment) {
        self.queue.begin(subject);
        let memory = self.memory.entry(subject.clone()).or_default();
        let given = Given {
            scheduler_name: &self.options.scheduler_name,
            ssh_key: memory.ssh_key.take(),
            failures: counted(memory.failures, self.options.failures_max),
            passed: &memory.passed,
        };
        let mut errand = match self.store.reconcile(subject, &given, now.wall) {
            Need::Nothing => {
                self.queue.forget(subject);
                self.memory.remove(subject);
                return;
            }
            Need::Read(uid, named) => {
                let asks = named.into_iter().map(|(kind, key)| Ask::Read(uid.clone(), kind, key));
                let mut errand = Errand::new(asks);
                errand.reads = Some(uid.clone());
                errand
            }
            Need::Changes(outcome) => self.errand(subject, outcome, BTreeSet::new(), now),
            Need::Probes(outcome, probes) => self.errand(subject, outcome, probes, now),
        };
        let size = u32::try_from(self.store.size(subject)).unwrap_or(u32::MAX);
        errand.rest_for = REST_PER_OBJECT.saturating_mul(size);
        self.errands.insert(subject.clone(), errand);
        self.go_on(subject, now);
    }

    fn errand(
        &mut self,
        subject: &Subject,
        outcome: Outcome,
        probes: BTreeSet<ProbeRequest>,
        now: Moment,
    ) -> Errand {
        let mut asks = Vec::with_capacity(outcome.changes.len());
        for change in self.hold_back(subject, outcome.changes, now) {
            match change {
                Change::Note(note) => {
                    self.tell(&note.on, note.warning, note.reason, note.message, now.instant);
                }
                change => asks.push(Ask::Write(change)),
            }
        }
        if outcome.wants_ssh_key {
            asks.push(Ask::SshKey);
        }
        if !probes.is_empty() {
            self.queue.mark(subject, now.instant + PROBE_AGAIN);
        }
        for probe in probes {
            let targets = self.targets(&subject.key.namespace, &probe);
            if !targets.is_empty() {
                asks.push(Ask::Probe(probe, targets));
            }
        }
        let mut errand = Errand::new(asks);
        errand.next = outcome.next;
        errand
    }

    /// Without the statuses that only count: these are written a while later, with what is counted then.
    fn hold_back(&mut self, subject: &Subject, changes: Vec<Change>, now: Moment) -> Vec<Change> {
        let memory = self.memory.entry(subject.clone()).or_default();
        let counts = |change: &Change| matches!(change, Change::Status { urgent: false, .. });
        if !changes.iter().any(counts) {
            memory.held_until = None;
            return changes;
        }
        let until = *memory.held_until.get_or_insert(now.instant + self.options.hold);
        if until <= now.instant {
            memory.held_until = None;
            return changes;
        }
        self.queue.mark(subject, until);
        changes.into_iter().filter(|change| !counts(change)).collect()
    }

    /// The addresses of the pods of a task: all of them, or none while one has no address.
    fn targets(&self, namespace: &str, probe: &ProbeRequest) -> Vec<IpAddr> {
        let uid = self.store.jobs.uid(&Key::new(namespace, &probe.job)).unwrap_or_default();
        let pods = self.store.pods.controlled_by(namespace, uid).filter(|seen| seen.pod.task == probe.task);
        pods.map(|seen| seen.ip).collect::<Option<Vec<IpAddr>>>().unwrap_or_default()
    }

    /// A request was answered.
    pub fn done(&mut self, ticket: Ticket, came: Came, now: Moment) {
        self.slots.of(ticket.sort()).free();
        match (ticket, came) {
            (Ticket::For(subject, ask), came) => {
                if let Some(errand) = self.errands.get_mut(&subject) {
                    errand.answered();
                }
                self.judge(&subject, ask, came, now);
                self.go_on(&subject, now);
            }
            (Ticket::Post(posting), Came::Answer(Answer::Passing(..))) => {
                self.recorder.lost(posting, now.instant);
            }
            (Ticket::Post(_), _) => {}
        }
    }

    /// Sends what can be sent now; where all is answered, says when the subject is reconciled again.
    fn go_on(&mut self, subject: &Subject, now: Moment) {
        if !self.errands.get(subject).is_some_and(Errand::is_over) {
            return self.queue_turn(subject);
        }
        let Some(errand) = self.errands.remove(subject) else { return };
        let memory = self.memory.entry(subject.clone()).or_default();
        match errand.failure {
            None => {
                memory.failures = 0;
                self.queue.rest(subject, now.instant + errand.rest_for);
            }
            Some(failure) => {
                // What was read is not all there is.
                if let Some(uid) = &errand.reads {
                    self.store.made.remove(uid);
                }
                memory.failures += u32::from(failure == Failure::Refused);
                self.queue.retry(subject, now.instant, errand.after, &mut self.chance);
            }
        }
        if let Some(next) = errand.next {
            self.queue.mark(subject, at(next, now));
        }
    }

    /// An event on the subject; where that is a PodGroup that does not exist, on a pod that waits for it.
    fn warn(&mut self, subject: &Subject, reason: &'static str, message: String, now: Instant) {
        self.tell_subject(subject, true, reason, message, now);
    }

    fn tell_subject(
        &mut self,
        subject: &Subject,
        warning: bool,
        reason: &'static str,
        message: String,
        now: Instant,
    ) {
        let uid = self.store.uid(subject);
        let pod = self.store.waits_for(subject).filter(|_| uid.is_none());
        let (kind, key, uid) = pod
            .map_or((subject.kind, &subject.key, uid.unwrap_or_default()), |(key, uid)| {
                (Kind::Pod, key, uid)
            });
        let target = Target {
            kind,
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            uid: uid.to_owned(),
            foreground: false,
        };
        self.tell(&target, warning, reason, message, now);
    }

    fn tell(&mut self, on: &Target, warning: bool, reason: &'static str, text: String, now: Instant) {
        let (api_version, kind) = type_of(on.kind);
        let key = Key::new(&on.namespace, &on.name);
        let regarding = Regarding {
            api_version: api_version.into(),
            kind: kind.into(),
            key,
            uid: on.uid.as_str().into(),
        };
        let note = Note { regarding, warning, reason, action: "Reconciling", text, once: false, at: now };
        self.post(note, now);
    }

    fn post(&mut self, note: Note, now: Instant) {
        if self.postings.len() < POSTINGS_MAX {
            self.postings.extend(self.recorder.record(note, now));
        } else {
            self.recorder.postpone(note, now);
        }
    }
}

/// Refused writes as the Job controller counts them, which terminates a Job after [`FAILURES_MAX`].
fn counted(failures: u32, max: Option<u32>) -> u32 {
    if max.is_some_and(|max| failures >= max) { FAILURES_MAX } else { 0 }
}

/// A time of the wall clock.
fn at(time: Timestamp, now: Moment) -> Instant {
    let wait = Duration::try_from(time.duration_since(now.wall)).unwrap_or_default();
    now.instant + wait.min(FAR)
}
