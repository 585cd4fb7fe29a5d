//! Events for people, on events.k8s.io/v1.
//!
//! kube's own recorder drops the note of a repeated event, so a changed "0/12 nodes are available: ..." would never show.
//! Here a changed note is a new event (not more often than every few seconds for the same object and reason), and an
//! unchanged one is counted in the series of the first.
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_core::event::{Key, PodRef};
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

/// The same object and reason is not posted again with another note before this.
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
        let api_version = "scheduling.volcano.sh/v1beta1".into();
        Self { api_version, kind: "PodGroup".into(), key: key.clone(), uid: Arc::clone(uid) }
    }

    /// A queue, which belongs to no namespace.
    pub fn queue(name: &Arc<str>, uid: &Arc<str>) -> Self {
        let api_version = "scheduling.volcano.sh/v1beta1".into();
        let key = Key { namespace: "".into(), name: Arc::clone(name) };
        Self { api_version, kind: "Queue".into(), key, uid: Arc::clone(uid) }
    }
}

/// Something to tell about an object.
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
    /// Told once in the object's life: nothing is remembered about it.
    pub once: bool,
}

impl Note {
    fn warning(regarding: Regarding, reason: &'static str, action: &'static str, text: &str) -> Self {
        Self { regarding, warning: true, reason, action, text: text.to_owned(), once: false }
    }

    /// A pod was bound; the wording is kube-scheduler's.
    pub fn scheduled(pod: &PodRef, node: &str) -> Self {
        let text = format!("Successfully assigned {pod} to {node}");
        let regarding = Regarding::pod(pod);
        Self { regarding, warning: false, reason: "Scheduled", action: "Binding", text, once: true }
    }

    /// A pod found no node.
    pub fn failed_scheduling(pod: &PodRef, text: &str) -> Self {
        Self::warning(Regarding::pod(pod), "FailedScheduling", "Scheduling", text)
    }

    /// A gang found no place.
    pub fn unschedulable(group: &Key, uid: &Arc<str>, text: &str) -> Self {
        Self::warning(Regarding::pod_group(group, uid), "Unschedulable", "Scheduling", text)
    }

    /// A queue's jobs wait for it, or its quotas do not add up.
    pub fn queue_invalid(queue: &Arc<str>, uid: &Arc<str>, text: &str) -> Self {
        Self::warning(Regarding::queue(queue, uid), "QueueInvalid", "Scheduling", text)
    }

    /// A pod was evicted.
    pub fn evicted(pod: &PodRef, text: &str) -> Self {
        Self { once: true, ..Self::warning(Regarding::pod(pod), "Evict", "Evicting", text) }
    }

    /// A pod could not be evicted.
    pub fn eviction_failed(pod: &PodRef, text: &str) -> Self {
        Self::warning(Regarding::pod(pod), "EvictFailed", "Evicting", text)
    }

    /// An object cannot be read.
    pub fn invalid(regarding: Regarding, text: &str) -> Self {
        Self::warning(regarding, "Invalid", "Reading", text)
    }
}

/// A request about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Posting {
    /// Create it under this name.
    Create(String, Box<Note>),
    /// Count it up: namespace, name, count.
    Series(Arc<str>, String, u32),
}

#[derive(Debug)]
struct Told {
    name: String,
    text: String,
    count: u32,
    created: Instant,
    posted: Instant,
    waiting: Option<Note>,
}

type Topic = (Arc<str>, &'static str);

/// Decides which notes become requests. Time is handed in.
#[derive(Debug)]
pub struct Recorder {
    names: u64,
    told: FxHashMap<Topic, Told>,
    due: BTreeMap<(Instant, u64), Topic>,
}

impl Recorder {
    /// A recorder whose events have names that end in numbers, beginning behind this one: drawn by chance, so that the
    /// next process does not use the same.
    pub fn new(names: u64) -> Self {
        Self { names, told: FxHashMap::default(), due: BTreeMap::new() }
    }

    /// The request for a note, if there is one now.
    pub fn record(&mut self, note: Note, now: Instant) -> Option<Posting> {
        if note.once {
            return Some(self.create(note));
        }
        let topic = (Arc::clone(&note.regarding.uid), note.reason);
        let Some(told) = self.told.get_mut(&topic) else {
            return Some(self.start(topic, note, now));
        };
        if told.text == note.text {
            told.waiting = None;
            told.count += 1;
            return self.repeat(&topic, note, now);
        }
        if now.saturating_duration_since(told.posted) >= INTERVAL {
            return Some(self.start(topic, note, now));
        }
        if told.waiting.replace(note).is_none() {
            let at = told.posted + INTERVAL;
            self.names = self.names.wrapping_add(1);
            self.due.insert((at, self.names), topic);
        }
        None
    }

    fn start(&mut self, topic: Topic, note: Note, now: Instant) -> Posting {
        if self.told.len() >= REMEMBERED_MAX {
            self.told.retain(|_, told| told.waiting.is_some());
        }
        let text = note.text.clone();
        let posting = self.create(note);
        if let Posting::Create(name, _) = &posting {
            let name = name.clone();
            let told = Told { name, text, count: 1, created: now, posted: now, waiting: None };
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
        Some(Posting::Series(namespace_of(&note.regarding), told.name.clone(), told.count))
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
            let note = self.told.get_mut(&topic).and_then(|told| told.waiting.take());
            if let Some(note) = note {
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

/// Events about cluster-wide objects live in `default`.
fn namespace_of(regarding: &Regarding) -> Arc<str> {
    if regarding.key.namespace.is_empty() { "default".into() } else { Arc::clone(&regarding.key.namespace) }
}

/// The namespace and body of a request. `now` is RFC 3339 with microseconds.
pub fn body(posting: &Posting, reporter: (&str, &str), now: &str) -> (Arc<str>, Value) {
    match posting {
        Posting::Create(name, note) => {
            let namespace = namespace_of(&note.regarding);
            let regarding = &note.regarding;
            let body = json!({
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "eventTime": now,
                "reportingController": reporter.0,
                "reportingInstance": reporter.1,
                "action": note.action,
                "reason": note.reason,
                "type": if note.warning { "Warning" } else { "Normal" },
                "note": clip(&note.text, NOTE_MAX),
                "regarding": {
                    "apiVersion": regarding.api_version,
                    "kind": regarding.kind,
                    "namespace": regarding.key.namespace,
                    "name": regarding.key.name,
                    "uid": regarding.uid,
                },
            });
            (namespace, body)
        }
        Posting::Series(namespace, _, count) => {
            (Arc::clone(namespace), json!({"series": {"count": count, "lastObservedTime": now}}))
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
    fn a_changed_note_is_a_new_event_and_an_unchanged_one_is_counted() {
        let start = Instant::now();
        let mut recorder = Recorder::new(0);
        let note = |text: &str| Note::failed_scheduling(&pod(), text);
        assert_eq!(created(recorder.record(note("a"), start)), "a");
        assert_eq!(recorder.record(note("a"), start), None);
        assert_eq!(recorder.record(note("b"), start), None, "too soon");
        assert_eq!(recorder.record(note("c"), start), None, "too soon");
        assert_eq!(recorder.due(start), None);
        let later = recorder.wake().expect("the newest note waits");
        assert_eq!(created(recorder.due(later)), "c");
        let minute = later + SERIES;
        let Some(Posting::Series(namespace, _, count)) = recorder.record(note("c"), minute) else {
            panic!("expected a count");
        };
        assert_eq!((&*namespace, count), ("ns", 2));
        assert_eq!(created(recorder.record(note("c"), later + SERIES_LIFE)), "c");
    }

    #[test]
    fn long_texts_and_names_keep_to_the_limits_of_the_api() {
        let mut recorder = Recorder::new(0);
        let name: Arc<str> = "n".repeat(253).into();
        let note = Note::failed_scheduling(&PodRef { name, ..pod() }, &"é".repeat(2000));
        let posting = recorder.record(note, Instant::now()).unwrap();
        let (_, body) = body(&posting, ("volcano", "host"), "2026-01-01T00:00:00.000000Z");
        assert!(body["metadata"]["name"].as_str().unwrap().len() <= 253);
        assert_eq!(body["note"].as_str().unwrap().len(), 1024);
    }

    #[test]
    fn memory_is_bounded() {
        let start = Instant::now();
        let mut recorder = Recorder::new(0);
        for index in 0..3 * REMEMBERED_MAX {
            let pod = PodRef { uid: index.to_string().into(), ..pod() };
            assert!(recorder.record(Note::failed_scheduling(&pod, "no"), start).is_some());
        }
        assert!(recorder.told.len() <= REMEMBERED_MAX);
    }
}
