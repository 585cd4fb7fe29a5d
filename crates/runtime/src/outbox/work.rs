//! The kinds of requests, and the settings of the outbox.
use std::sync::Arc;
use std::time::{Duration, Instant};

use phalanx_cluster::event::GroupRef;
use phalanx_cluster::event::PodRef;
use phalanx_core::decision::Binding;

use super::lane::Lane;
use super::{PvcWrite, Write};
use crate::recorder::Posting;

/// How the outbox behaves.
#[derive(Clone, Debug)]
pub struct OutboxOptions {
    /// Requests in flight at most.
    pub in_flight: usize,
    /// How long counts and messages must be still before they are written.
    pub hold: Duration,
    /// How long a bind is tried again after a passing error.
    pub deadline: Duration,
    /// How long a pod waits for its claims to be bound.
    pub volumes_timeout: Duration,
    /// Send `Scheduled` events.
    pub scheduled_events: bool,
    /// Events that may wait; more are dropped.
    pub events_max: usize,
    /// The seed of jitter and of the events' names: another one for each process.
    pub seed: u64,
}

impl Default for OutboxOptions {
    fn default() -> Self {
        Self {
            in_flight: 128,
            hold: Duration::from_secs(1),
            deadline: Duration::from_secs(30),
            volumes_timeout: Duration::from_mins(10),
            scheduled_events: true,
            events_max: 20_000,
            seed: 0,
        }
    }
}

/// A pod that has to go.
#[derive(Clone, Debug, PartialEq)]
pub struct Eviction {
    /// The pod.
    pub pod: Arc<PodRef>,
    /// The pod's PodGroup, if it has one.
    pub group: Option<GroupRef>,
    /// The preemptor and the reason, as text.
    pub reason: Arc<str>,
}

/// A bind without a final answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Settle {
    /// The pod and its node.
    pub binding: Binding,
    /// The last answer.
    pub why: Arc<str>,
    /// What to do if the pod has no node.
    pub then: Then,
}

/// What to do with a pod that turns out to have no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// The server was in trouble, which is no reason to give the room away: bind it.
    Bind,
    /// Report why it has none.
    Report,
}

/// One thing to send.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Bind a pod.
    Bind(Binding),
    /// Read the pod of a bind.
    Settle(Settle),
    /// Evict a pod.
    Evict(Eviction),
    /// Take the gate of its queue off a pod.
    OpenGate(Arc<PodRef>),
    /// Write a claim, before its pod is bound.
    Pvc(PvcWrite),
    /// Write a status.
    Write(Write),
    /// Post an event.
    Post(Posting),
}

impl Work {
    /// The pod and its node, if it is on its way to one.
    pub(super) fn binding(&self) -> Option<&Binding> {
        match self {
            Work::Bind(binding)
            | Work::Settle(Settle { binding, .. })
            | Work::Pvc(PvcWrite { binding, .. }) => Some(binding),
            Work::Evict(..) | Work::OpenGate(_) | Work::Write(_) | Work::Post(_) => None,
        }
    }

    pub(super) fn lane(&self) -> Lane {
        match self {
            Work::Bind(_) | Work::Settle(_) | Work::Evict(..) | Work::OpenGate(_) | Work::Pvc(_) => {
                Lane::Binds
            }
            Work::Write(_) => Lane::Writes,
            Work::Post(_) => Lane::Events,
        }
    }
}

/// A request handed out by [`Outbox::next`](super::Outbox::next); give it back to
/// [`Outbox::done`](super::Outbox::done).
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What to send.
    pub work: Work,
    /// Failed attempts so far.
    pub attempt: u32,
    /// When it was first sent.
    pub first: Instant,
    /// An attempt may have been carried out without an answer.
    pub in_doubt: bool,
    /// The order of the decisions.
    pub number: u64,
}

/// How much waits or is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Binds and evictions.
    pub binds: usize,
    /// Statuses.
    pub writes: usize,
    /// Events.
    pub events: usize,
    /// Requests in flight.
    pub in_flight: usize,
    /// Events dropped since the start.
    pub events_dropped: u64,
}
