//! Events on their way to the watches of the scheduler.
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use phalanx_cluster::event::Event;
use rustc_hash::FxHashMap;

use crate::api_server::SimulatedPod;

/// An event; the state of a pod is copied when it is delivered, or before the pod changes again.
#[derive(Debug)]
enum WatchEvent {
    Event(Box<Event>),
    Bound(Arc<str>),
    Pod(Arc<str>),
}

impl From<Event> for WatchEvent {
    fn from(event: Event) -> Self {
        match event {
            Event::Bound(uid) => Self::Bound(uid),
            other => Self::Event(Box::new(other)),
        }
    }
}

/// Events in order. A million pods that are created or bound at once wait here without a copy of each.
#[derive(Debug, Default)]
pub(crate) struct WatchEvents {
    queue: VecDeque<WatchEvent>,
    /// The number of events that were delivered.
    delivered: u64,
}

/// A pod, and the number of its event that waits, if one does.
#[derive(Debug)]
pub(crate) struct Held {
    pod: Box<SimulatedPod>,
    echo: u64,
}

/// Pods by UID.
pub(crate) type Pods = FxHashMap<Arc<str>, Held>;

impl Deref for Held {
    type Target = SimulatedPod;

    fn deref(&self) -> &SimulatedPod {
        &self.pod
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut SimulatedPod {
        &mut self.pod
    }
}

impl Held {
    /// A pod that is sent.
    pub(crate) fn sent(pod: Box<SimulatedPod>, watch_events: &mut WatchEvents) -> Self {
        let mut held = Self { pod, echo: 0 };
        watch_events.push_pod(&mut held);
        held
    }
}

fn event_of(pod: &SimulatedPod) -> Event {
    Event::Pod(Box::new(pod.info.clone()))
}

impl WatchEvents {
    pub(crate) fn push(&mut self, event: Event) {
        self.queue.push_back(event.into());
    }

    pub(crate) fn extend(&mut self, events: impl IntoIterator<Item = Event>) {
        self.queue.extend(events.into_iter().map(WatchEvent::from));
    }

    /// Sends the state of a pod, after `settle` before it changed.
    pub(crate) fn push_pod(&mut self, held: &mut Held) {
        self.queue.push_back(WatchEvent::Pod(held.pod.info.pod.uid.clone()));
        held.echo = self.delivered + self.queue.len() as u64;
    }

    /// Copies the state of a pod into its event that waits: the pod is about to change or to go.
    pub(crate) fn settle(&mut self, held: &Held) {
        if held.echo > self.delivered
            && let Some(echo) = self.queue.get_mut((held.echo - self.delivered - 1) as usize)
        {
            *echo = event_of(&held.pod).into();
        }
    }

    /// The next event.
    pub(crate) fn deliver(&mut self, pods: &Pods) -> Option<Event> {
        loop {
            let echo = self.queue.pop_front()?;
            self.delivered += 1;
            match echo {
                WatchEvent::Event(event) => return Some(*event),
                WatchEvent::Bound(uid) => return Some(Event::Bound(uid)),
                WatchEvent::Pod(uid) => {
                    if let Some(held) = pods.get(&uid) {
                        return Some(event_of(&held.pod));
                    }
                }
            }
        }
    }
}
