//! What happened lately, gathered from decisions: events, evictions, and when what happened to a gang.
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use phalanx_cluster::event::{Key, Phase, Time};
use phalanx_core::decision::{Binding, Cause, Decision};
use serde::Serialize;

use crate::gangs::Times;

/// The most events that are kept.
const EVENTS_MAX: usize = 500;
/// The most evictions that are kept.
const EVICTIONS_MAX: usize = 2_000;
/// The most gangs and pods whose times are kept; twice as many until the oldest are dropped.
const TIMES_MAX: usize = 20_000;
/// The most letters of the text of an event.
const TEXT_MAX: usize = 400;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// When.
    pub at: i64,
    /// What, in a word.
    pub what: &'static str,
    /// The kind and name of the object, as in anchors of the page.
    pub object: String,
    /// The details.
    pub text: String,
}

/// The latest evictions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    /// How many pods were evicted since the begin.
    pub total: u64,
    /// The latest, the last first.
    pub list: Vec<EvictedPod>,
}

/// An eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EvictedPod {
    /// When.
    pub at: i64,
    /// `namespace/name` of the pod.
    pub pod: String,
    /// `namespace/name` of its PodGroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The action that evicted it.
    pub action: &'static str,
    /// The preemptor: a PodGroup, or a pod without one; missing for a moved pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The reason, as in the event on the pod.
    pub reason: String,
}

/// The times of a gang, and what its phase was last.
#[derive(Clone, Debug, Default, PartialEq)]
struct Noted {
    times: Times,
    phase: Option<Phase>,
    /// When something was noted last.
    last: i64,
}

/// A pod without a PodGroup, or a PodGroup.
type JobName = (bool, Key);

/// What happened lately. Bounded: it holds the latest of what it was told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    events: VecDeque<Event>,
    evictions: VecDeque<EvictedPod>,
    evicted: u64,
    noted: BTreeMap<JobName, Noted>,
    /// Since when pods have nominations, by `namespace/name`; those of [`noted`](Self::noted) once they are bound.
    nominated: BTreeMap<Key, i64>,
}

impl History {
    /// Takes in what was decided at a time.
    pub fn note(&mut self, decisions: &[Decision], now: Time) {
        for decision in decisions {
            self.note_one(decision, now.0);
        }
        self.forget();
    }

    fn note_one(&mut self, decision: &Decision, at: i64) {
        match decision {
            Decision::Bind { job, pods } => self.bound(job, pods, at),
            Decision::Evict { pod, group, cause } => {
                let group = group.as_ref().map(|group| &group.key);
                self.evict(
                    &Key { namespace: pod.namespace.clone(), name: pod.name.clone() },
                    group,
                    cause,
                    at,
                );
            }
            Decision::Nominate { pod, node } => {
                let key = Key { namespace: pod.namespace.clone(), name: pod.name.clone() };
                match node {
                    Some(_) => {
                        self.nominated.entry(key).or_insert(at);
                    }
                    None => {
                        self.nominated.remove(&key);
                    }
                }
            }
            Decision::PodGroupStatus { group, status, .. } => self.phase(group, status.phase, at),
            Decision::PodGroupUnschedulable { group, message, .. } => {
                self.event(at, "Waits", format!("podgroup={group}"), message);
            }
            Decision::PodGroupInvalid { group, message, .. } => {
                self.event(at, "Invalid", format!("podgroup={group}"), message);
            }
            Decision::QueueInvalid { queue, message, .. } => {
                self.event(at, "Invalid", format!("queue={queue}"), message);
            }
            Decision::HyperNodeInvalid { hyper_node, message, .. } => {
                self.event(at, "Invalid", format!("hypernode={hyper_node}"), message);
            }
            Decision::PodUngrouped { pod, message } => {
                self.event(at, "NoPodGroup", format!("pod={pod}"), message);
            }
            Decision::OpenGate { .. } | Decision::QueueStatus { .. } | Decision::PodUnscheduled { .. } => {}
        }
    }

    fn bound(&mut self, job: &Key, pods: &[Binding], at: i64) {
        let solo = pods.len() == 1 && pods[0].pod.name == job.name && !self.is_group(job);
        let key = |binding: &Binding| Key {
            namespace: binding.pod.namespace.clone(),
            name: binding.pod.name.clone(),
        };
        let nominated = pods.iter().filter_map(|binding| self.nominated.remove(&key(binding))).min();
        let noted = self.noted(solo, job, at);
        noted.times.bound.get_or_insert(at);
        noted.times.last_bound = Some(at);
        noted.times.nominated = noted.times.nominated.or(nominated);
        let mut nodes: Vec<&Arc<str>> = pods.iter().map(|binding| &binding.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let text = match (pods.len(), nodes.as_slice()) {
            (1, [node]) => format!("1 pod to {node}"),
            (count, [node]) => format!("{count} pods to {node}"),
            (count, nodes) => format!("{count} pods to {} nodes", nodes.len()),
        };
        let kind = if solo { "pod" } else { "podgroup" };
        self.event(at, "Bound", format!("{kind}={job}"), &text);
    }

    fn evict(&mut self, pod: &Key, group: Option<&Key>, cause: &Cause, at: i64) {
        self.nominated.remove(pod);
        let noted = self.noted(group.is_none(), group.unwrap_or(pod), at);
        noted.times.evicted = Some(at);
        self.evicted += 1;
        if self.evictions.len() == EVICTIONS_MAX {
            self.evictions.pop_front();
        }
        self.evictions.push_back(EvictedPod {
            at,
            pod: pod.to_string(),
            group: group.map(ToString::to_string),
            action: cause.action,
            by: cause.by.as_ref().map(ToString::to_string),
            reason: cause.reason.to_string(),
        });
        let object = group.map_or_else(|| format!("pod={pod}"), |group| format!("podgroup={group}"));
        self.event(at, "Evicted", object, &format!("{pod}: {}", cause.reason));
    }

    fn phase(&mut self, group: &Key, phase: Phase, at: i64) {
        let noted = self.noted(false, group, at);
        if noted.phase.replace(phase) == Some(phase) {
            return;
        }
        match phase {
            Phase::Inqueue => {
                noted.times.enqueued.get_or_insert(at);
            }
            Phase::Completed => noted.times.finished = Some(at),
            Phase::Running => {}
            Phase::Pending | Phase::Unknown => return,
        }
        self.event(at, phase.as_str(), format!("podgroup={group}"), "");
    }

    fn is_group(&self, key: &Key) -> bool {
        self.noted.contains_key(&(false, key.clone()))
    }

    fn noted(&mut self, solo: bool, key: &Key, at: i64) -> &mut Noted {
        let noted = self.noted.entry((solo, key.clone())).or_default();
        noted.last = at;
        noted
    }

    fn event(&mut self, at: i64, what: &'static str, object: String, text: &str) {
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        let text = phalanx_cluster::diagnosis::clipped(text, TEXT_MAX).into_owned();
        self.events.push_back(Event { at, what, object, text });
    }

    /// Drops what was noted longest ago.
    fn forget(&mut self) {
        if self.noted.len() > 2 * TIMES_MAX {
            let mut times: Vec<i64> = self.noted.values().map(|noted| noted.last).collect();
            let (_, oldest, _) = times.select_nth_unstable(TIMES_MAX);
            let oldest = *oldest;
            self.noted.retain(|_, noted| noted.last > oldest);
        }
        if self.nominated.len() > 2 * TIMES_MAX {
            self.nominated.clear();
        }
    }

    /// The times of a gang that was created then. What was noted of an earlier one of its name is left out.
    pub(crate) fn times(&self, solo: bool, key: &Key, created: Time) -> Times {
        let noted = self.noted.get(&(solo, key.clone())).map(|noted| noted.times).unwrap_or_default();
        let since = |time: Option<i64>| time.filter(|time| *time >= created.0);
        let Times { created: _, enqueued, nominated, bound, last_bound, evicted, finished } = noted;
        Times {
            created: created.0,
            enqueued: since(enqueued),
            nominated: since(nominated),
            bound: since(bound),
            last_bound: since(last_bound),
            evicted: since(evicted),
            finished: since(finished),
        }
    }

    /// The latest evictions.
    pub(crate) fn evicted(&self) -> Evicted {
        Evicted { total: self.evicted, list: self.evictions.iter().rev().cloned().collect() }
    }

    /// The latest events, the last first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.events.iter().rev().cloned().collect()
    }
}
