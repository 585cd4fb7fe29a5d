//! Events for people, on events.k8s.io/v1.
//!
//! kube's own recorder drops the note of a repeated event, so a changed "0/12 nodes are available: ..." would never
//! show. Here a changed note is a new event (not more often than every few seconds for the same object and reason), and
//! an unchanged one is counted in the series of the first.
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_api::names::KUBERNETES_POD_GROUP_PREFIX;
use phalanx_cluster::event::{Key, PodRef};
use rustc_hash::FxHashMap;
use serde::Serialize;

/// The least time between two notes on one object and reason.
const INTERVAL: Duration = Duration::from_secs(5);
/// A series is counted up at most this often.
const SERIES: Duration = Duration::from_mins(1);
/// API servers drop events after an hour; a series older than this is started anew.
const SERIES_LIFE: Duration = Duration::from_mins(30);
/// Objects and reasons remembered.
const REMEMBERED_MAX: usize = 16_384;
/// The API's limits, in bytes.
const NOTE_MAX: usize = 1024;
const NAME_MAX: usize = 253;

/// A pod or a gang waits; dropped once it has its nodes or is gone.
const FAILED_SCHEDULING: &str = "FailedScheduling";
const UNSCHEDULABLE: &str = "Unschedulable";

/// The object an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regarding {
    /// API version.
    pub api_version: Cow<'static, str>,
    /// Kind.
    pub kind: Cow<'static, str>,
    /// Name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
}

impl Regarding {
    /// A pod.
    pub fn pod(pod: &PodRef) -> Self {
        let key = Key { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name) };
        Self { api_version: "v1".into(), kind: "Pod".into(), key, uid: Arc::clone(&pod.uid) }
    }

    /// A PodGroup.
    pub fn pod_group(key: &Key, uid: &Arc<str>) -> Self {
        let (api_version, name) = match key.name.strip_prefix(KUBERNETES_POD_GROUP_PREFIX) {
            Some(name) => ("scheduling.k8s.io/v1alpha2", name.into()),
            None => ("scheduling.volcano.sh/v1beta1", Arc::clone(&key.name)),
        };
        let key = Key { namespace: Arc::clone(&key.namespace), name };
        Self { api_version: api_version.into(), kind: "PodGroup".into(), key, uid: Arc::clone(uid) }
    }

    /// A HyperNode, which belongs to no namespace.
    pub fn hyper_node(name: &Arc<str>, uid: &Arc<str>) -> Self {
        let key = Key { namespace: "".into(), name: Arc::clone(name) };
        let api_version = "topology.volcano.sh/v1alpha1".into();
        Self { api_version, kind: "HyperNode".into(), key, uid: Arc::clone(uid) }
    }

    /// A queue, which belongs to no namespace.
    pub fn queue(name: &Arc<str>, uid: &Arc<str>) -> Self {
        let api_version = "scheduling.volcano.sh/v1beta1".into();
        let key = Key { namespace: "".into(), name: Arc::clone(name) };
        Self { api_version, kind: "Queue".into(), key, uid: Arc::clone(uid) }
    }
}

/// An event to send about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The object.
    pub regarding: Regarding,
    /// Type Warning rather than Normal.
    pub warning: bool,
    /// CamelCase reason.
    pub reason: &'static str,
    /// What was tried.
    pub action: &'static str,
    /// The text.
    pub text: String,
    /// Sent once in the object's life: nothing is remembered about it.
    pub once: bool,
    /// When it happened, which may be long before it is sent.
    pub at: Instant,
}

impl Note {
    fn warning(
        regarding: Regarding,
        reason: &'static str,
        action: &'static str,
        text: &str,
        at: Instant,
    ) -> Self {
        Self { regarding, warning: true, reason, action, text: text.to_owned(), once: false, at }
    }

    /// A pod was bound; the wording is kube-scheduler's.
    pub fn scheduled(pod: &PodRef, node: &str, at: Instant) -> Self {
        let text = format!("Successfully assigned {pod} to {node}");
        let regarding = Regarding::pod(pod);
        Self { regarding, warning: false, reason: "Scheduled", action: "Binding", text, once: true, at }
    }

    /// A pod found no node.
    pub fn failed_scheduling(pod: &PodRef, text: &str, at: Instant) -> Self {
        Self::warning(Regarding::pod(pod), FAILED_SCHEDULING, "Scheduling", text, at)
    }

    /// A pod waited for a PodGroup that did not come.
    pub fn no_pod_group(pod: &PodRef, text: &str, at: Instant) -> Self {
        Self::warning(Regarding::pod(pod), "NoPodGroup", "Scheduling", text, at)
    }

    /// A gang found no place.
    pub fn unschedulable(group: &Key, uid: &Arc<str>, text: &str, at: Instant) -> Self {
        Self::warning(Regarding::pod_group(group, uid), UNSCHEDULABLE, "Scheduling", text, at)
    }

    /// Many gangs of a queue wait for the same.
    pub fn queue_waits(queue: &Arc<str>, uid: &Arc<str>, text: &str, at: Instant) -> Self {
        Self::warning(Regarding::queue(queue, uid), UNSCHEDULABLE, "Scheduling", text, at)
    }

    /// A queue's jobs wait for it, or its quotas do not add up.
    pub fn queue_invalid(queue: &Arc<str>, uid: &Arc<str>, text: &str, at: Instant) -> Self {
        Self::warning(Regarding::queue(queue, uid), "QueueInvalid", "Scheduling", text, at)
    }

    /// A pod was evicted.
    pub fn evicted(pod: &PodRef, text: &str, at: Instant) -> Self {
        Self { once: true, ..Self::warning(Regarding::pod(pod), "Evict", "Evicting", text, at) }
    }

    /// A pod of a gang was evicted. Type and reason are Volcano's; evictions for the same preemptor are counted.
    pub fn member_evicted(group: &Key, uid: &Arc<str>, text: &str, at: Instant) -> Self {
        let text = format!("pod of the group evicted: {text}");
        let regarding = Regarding::pod_group(group, uid);
        Self { regarding, warning: false, reason: "Evict", action: "Evicting", text, once: false, at }
    }

    /// A pod could not be evicted.
    pub fn eviction_failed(pod: &PodRef, text: &str, at: Instant) -> Self {
        Self::warning(Regarding::pod(pod), "EvictFailed", "Evicting", text, at)
    }

    /// A new scheduler.conf is in force.
    pub fn conf_reloaded(scheduler: &PodRef, text: String, at: Instant) -> Self {
        let (regarding, reason, action) = (Regarding::pod(scheduler), "ConfReloaded", "Reloading");
        Self { regarding, warning: false, reason, action, text, once: true, at }
    }

    /// A new scheduler.conf is not taken.
    pub fn conf_refused(scheduler: &PodRef, text: &str, at: Instant) -> Self {
        let regarding = Regarding::pod(scheduler);
        Self { once: true, ..Self::warning(regarding, "ConfRefused", "Reloading", text, at) }
    }

    /// An object cannot be read.
    pub fn invalid(regarding: Regarding, text: &str, at: Instant) -> Self {
        Self::warning(regarding, "Invalid", "Reading", text, at)
    }
}

/// A request about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posting {
    /// Create it under this name.
    Create(String, Box<Note>),
    /// Count it up.
    Series {
        /// Of the event.
        namespace: Arc<str>,
        /// Of the event.
        name: String,
        /// How often the note was repeated.
        count: u32,
        /// When it was said last.
        at: Instant,
    },
}

impl Posting {
    /// When it happened.
    pub fn at(&self) -> Instant {
        match self {
            Posting::Create(_, note) => note.at,
            Posting::Series { at, .. } => *at,
        }
    }
}

#[derive(Debug)]
struct Told {
    name: String,
    text: String,
    count: u32,
    created: Instant,
    posted: Instant,
}

type Topic = (Arc<str>, &'static str);

/// Decides which notes become requests. The caller passes the time.
#[derive(Debug)]
pub struct Recorder {
    names: u64,
    told: FxHashMap<Topic, Told>,
    /// The newest notes that have to wait: at most one for each object and reason.
    waiting: FxHashMap<Topic, Note>,
    due: BTreeMap<(Instant, u64), Topic>,
}

impl Recorder {
    /// A recorder that numbers the names of its events from here on. The first number is random, so that the next
    /// process does not use the same names.
    pub fn new(names: u64) -> Self {
        Self { names, told: FxHashMap::default(), waiting: FxHashMap::default(), due: BTreeMap::new() }
    }

    /// The request for a note, if there is one now.
    pub fn record(&mut self, note: Note, now: Instant) -> Option<Posting> {
        if note.once {
            return Some(self.create(note));
        }
        let topic = topic(&note);
        match self.told.get_mut(&topic) {
            None if self.waiting.contains_key(&topic) => {}
            None => return Some(self.start(topic, note, now)),
            Some(told) if told.text == note.text => {
                told.count += 1;
                self.waiting.remove(&topic);
                return self.repeat(&topic, note, now);
            }
            Some(told) if now.saturating_duration_since(told.posted) >= INTERVAL => {
                return Some(self.start(topic, note, now));
            }
            Some(_) => {}
        }
        let posted = self.told.get(&topic).map_or(now, |told| told.posted);
        self.wait(topic, note, posted + INTERVAL);
        None
    }

    /// Puts off a note when too many requests wait; returns false for a note that is sent once only, which is dropped.
    pub fn postpone(&mut self, note: Note, now: Instant) -> bool {
        if note.once {
            return false;
        }
        let topic = topic(&note);
        match self.told.get_mut(&topic) {
            Some(told) if told.text == note.text => {
                told.count += 1;
                self.waiting.remove(&topic);
            }
            _ => self.wait(topic, note, now + INTERVAL),
        }
        true
    }

    /// Puts back a note whose request failed; returns false when the note is dropped.
    pub fn lost(&mut self, posting: Posting, now: Instant) -> bool {
        let Posting::Create(name, note) = posting else { return false };
        if note.once {
            return false;
        }
        let topic = topic(&note);
        // Unless a newer note was sent or waits.
        if self.told.get(&topic).is_none_or(|told| told.name == name) {
            self.told.remove(&topic);
            if !self.waiting.contains_key(&topic) {
                self.wait(topic, *note, now + INTERVAL);
            }
        }
        true
    }

    /// A pod or a gang, by UID, waits no more: notes on why it waited are dropped.
    pub fn settled(&mut self, uid: &Arc<str>) {
        if self.waiting.is_empty() {
            return;
        }
        for reason in [FAILED_SCHEDULING, UNSCHEDULABLE] {
            self.waiting.remove(&(Arc::clone(uid), reason));
        }
    }

    fn wait(&mut self, topic: Topic, note: Note, until: Instant) {
        if self.waiting.insert(topic.clone(), note).is_none() {
            self.names = self.names.wrapping_add(1);
            self.due.insert((until, self.names), topic);
        }
    }

    fn start(&mut self, topic: Topic, note: Note, now: Instant) -> Posting {
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        self.waiting.remove(&topic);
        let text = note.text.clone();
        let posting = self.create(note);
        if let Posting::Create(name, _) = &posting {
            let told = Told { name: name.clone(), text, count: 1, created: now, posted: now };
            self.told.insert(topic, told);
        }
        posting
    }

    fn repeat(&mut self, topic: &Topic, note: Note, now: Instant) -> Option<Posting> {
        let told = self.told.get_mut(topic)?;
        if now.saturating_duration_since(told.created) >= SERIES_LIFE {
            return Some(self.start(topic.clone(), note, now));
        }
        if now.saturating_duration_since(told.posted) < SERIES {
            return None;
        }
        told.posted = now;
        let namespace = namespace_of(&note.regarding).into();
        Some(Posting::Series { namespace, name: told.name.clone(), count: told.count, at: note.at })
    }

    fn create(&mut self, note: Note) -> Posting {
        self.names = self.names.wrapping_add(1);
        let suffix = format!(".{:016x}", self.names);
        let name = clip(&note.regarding.key.name, NAME_MAX - suffix.len());
        Posting::Create(format!("{name}{suffix}"), Box::new(note))
    }

    /// A note that had to wait and may go now.
    pub fn due(&mut self, now: Instant) -> Option<Posting> {
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let topic = entry.remove();
            if let Some(note) = self.waiting.remove(&topic) {
                return Some(self.start(topic, note, now));
            }
        }
        None
    }

    /// When a waiting note is due.
    pub fn wake(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }
}

fn topic(note: &Note) -> Topic {
    (Arc::clone(&note.regarding.uid), note.reason)
}

/// Events about cluster-wide objects live in `default`.
fn namespace_of(regarding: &Regarding) -> &str {
    if regarding.key.namespace.is_empty() { "default" } else { &regarding.key.namespace }
}

/// The body of a request. Written without a tree of values: there are as many events as pods.
#[derive(Serialize)]
#[serde(untagged)]
#[expect(clippy::large_enum_variant, reason = "it is written at once and kept nowhere")]
pub(crate) enum Body<'a> {
    /// Of a new event.
    Event(EventBody<'a>),
    /// Of one that is counted up.
    Series { series: SeriesBody<'a> },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventBody<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EventMeta<'a>,
    event_time: &'a str,
    reporting_controller: &'a str,
    reporting_instance: &'a str,
    action: &'a str,
    reason: &'a str,
    #[serde(rename = "type")]
    kind_of_event: &'static str,
    note: &'a str,
    regarding: RegardingBody<'a>,
}

#[derive(Serialize)]
struct EventMeta<'a> {
    name: &'a str,
    namespace: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RegardingBody<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
    uid: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SeriesBody<'a> {
    count: u32,
    last_observed_time: &'a str,
}

/// The namespace and body of a request. `at`, when it happened, is RFC 3339 with microseconds.
pub(crate) fn body<'a>(
    posting: &'a Posting,
    reporter: (&'a str, &'a str),
    at: &'a str,
) -> (&'a str, Body<'a>) {
    match posting {
        Posting::Create(name, note) => {
            let namespace = namespace_of(&note.regarding);
            (namespace, Body::Event(EventBody::of(note, EventMeta { name, namespace }, reporter, at)))
        }
        Posting::Series { namespace, count, .. } => {
            (namespace, Body::Series { series: SeriesBody { count: *count, last_observed_time: at } })
        }
    }
}

impl<'a> EventBody<'a> {
    fn of(note: &'a Note, metadata: EventMeta<'a>, reporter: (&'a str, &'a str), at: &'a str) -> Self {
        let Regarding { api_version, kind, key, uid } = &note.regarding;
        Self {
            api_version: "events.k8s.io/v1",
            kind: "Event",
            metadata,
            event_time: at,
            reporting_controller: reporter.0,
            reporting_instance: reporter.1,
            action: note.action,
            reason: note.reason,
            kind_of_event: if note.warning { "Warning" } else { "Normal" },
            note: clip(&note.text, NOTE_MAX),
            regarding: RegardingBody { api_version, kind, namespace: &key.namespace, name: &key.name, uid },
        }
    }
}

/// The longest beginning of at most `max` bytes.
fn clip(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> PodRef {
        PodRef { namespace: "ns".into(), name: "pod".into(), uid: "u1".into() }
    }

    fn created(posting: Option<Posting>) -> String {
        match posting {
            Some(Posting::Create(_, note)) => note.text,
            other => panic!("expected a new event, got {other:?}"),
        }
    }

    #[test]
    fn a_changed_message_is_a_new_event_and_an_equal_one_raises_the_count() {
        let start = Instant::now();
        let mut recorder = Recorder::new(0);
        let note = |text: &str| Note::failed_scheduling(&pod(), text, start);
        assert_eq!(created(recorder.record(note("a"), start)), "a");
        assert_eq!(recorder.record(note("a"), start), None);
        assert_eq!(recorder.record(note("b"), start), None, "too soon");
        assert_eq!(recorder.record(note("c"), start), None, "too soon");
        assert_eq!(recorder.due(start), None);
        let later = recorder.wake().expect("the newest note waits");
        assert_eq!(created(recorder.due(later)), "c");
        let minute = later + SERIES;
        let Some(Posting::Series { namespace, count, .. }) = recorder.record(note("c"), minute) else {
            panic!("expected a count");
        };
        assert_eq!((&*namespace, count), ("ns", 2));
        assert_eq!(created(recorder.record(note("c"), later + SERIES_LIFE)), "c");
    }

    #[test]
    fn long_texts_and_names_keep_to_the_limits_of_the_api() {
        let mut recorder = Recorder::new(0);
        let name: Arc<str> = "n".repeat(253).into();
        let note = Note::failed_scheduling(&PodRef { name, ..pod() }, &"é".repeat(2000), Instant::now());
        let posting = recorder.record(note, Instant::now()).unwrap();
        let (_, body) = body(&posting, ("volcano", "host"), "2026-01-01T00:00:00.000000Z");
        let body = serde_json::to_value(body).unwrap();
        assert!(body["metadata"]["name"].as_str().unwrap().len() <= 253);
        assert_eq!(body["note"].as_str().unwrap().len(), 1024);
    }

    #[test]
    fn the_recorder_forgets_the_oldest_events() {
        let start = Instant::now();
        let mut recorder = Recorder::new(0);
        for index in 0..3 * REMEMBERED_MAX {
            let pod = PodRef { uid: index.to_string().into(), ..pod() };
            assert!(recorder.record(Note::failed_scheduling(&pod, "no", start), start).is_some());
        }
        assert!(recorder.told.len() <= REMEMBERED_MAX);
    }

    #[test]
    fn an_event_that_could_not_be_sent_is_sent_later_with_its_newest_message() {
        let start = Instant::now();
        let note = |text: &str| Note::failed_scheduling(&pod(), text, start);
        let mut recorder = Recorder::new(0);
        assert!(recorder.postpone(note("a"), start));
        assert_eq!(recorder.record(note("b"), start), None, "it has its time");
        let later = recorder.wake().expect("it waits");
        let posting = recorder.due(later).expect("it is due");
        assert!(recorder.lost(posting.clone(), later));
        assert_eq!(recorder.due(later), None, "not at once");
        let again = recorder.wake().expect("it waits again");
        assert_eq!(created(recorder.due(again)), "b");
        assert!(recorder.lost(posting, again), "that one was told under another name since");
        assert_eq!(recorder.wake(), None);
        assert!(recorder.postpone(note("b"), again), "known already");
        assert_eq!(recorder.wake(), None);
        assert!(!recorder.postpone(Note::scheduled(&pod(), "n1", start), start), "told once, or not at all");
    }
}
