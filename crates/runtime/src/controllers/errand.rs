//! What is on its way for one subject: an outcome, change by change.
use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use phalanx_cluster::event::Key;
use phalanx_controllers::flow::ProbeRequest;
use phalanx_controllers::{Change, Kind, Object};

/// One request for a subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Write a change.
    Write(Change),
    /// Read an object after a write of it failed, since what is known of it is old.
    Renew(Kind, Key),
    /// Read the object that stands where this one was to be made.
    Compare(Object),
    /// Read what a plugin made for the Job with this UID.
    Read(String, Kind, Key),
    /// Generate a key pair.
    SshKey,
    /// Ask pods.
    Probe(ProbeRequest, Vec<IpAddr>),
}

/// Requests that may be in flight together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Creations,
    Deletions,
    Joins,
    Reads,
    Probes,
}

/// What a request keeps busy: the API server, a core, or pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Api,
    Key,
    Probe,
}

impl Ask {
    pub(super) fn sort(&self) -> Sort {
        match self {
            Self::Write(_) | Self::Renew(..) | Self::Compare(_) | Self::Read(..) => Sort::Api,
            Self::SshKey => Sort::Key,
            Self::Probe(..) => Sort::Probe,
        }
    }

    fn run(&self) -> Option<Run> {
        match self {
            Self::Write(Change::Create(Object::Pod(_))) | Self::Compare(Object::Pod(_)) => {
                Some(Run::Creations)
            }
            Self::Write(Change::Delete(target)) if target.kind == Kind::Pod => Some(Run::Deletions),
            Self::Write(Change::Join(..)) => Some(Run::Joins),
            Self::Read(..) => Some(Run::Reads),
            Self::Probe(..) => Some(Run::Probes),
            Self::Write(_) | Self::Renew(..) | Self::Compare(_) | Self::SshKey => None,
        }
    }
}

/// Why an outcome was not carried out as a whole, the worst reason last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    /// What was known was old, or the API server is busy: it is tried again.
    Passing,
    /// The API server refuses it.
    Refused,
}

/// The requests for one subject.
#[derive(Debug, Default)]
pub(super) struct Errand {
    rest: VecDeque<Ask>,
    /// The run of the requests in flight; absent where there is one that goes alone.
    run: Option<Run>,
    in_flight: usize,
    pub(super) failure: Option<Failure>,
    /// The wait that the API server asks for.
    pub(super) after: Option<Duration>,
    /// When to reconcile again without a change of the objects.
    pub(super) next: Option<Timestamp>,
    /// How long the subject is left alone after it.
    pub(super) rest_for: Duration,
    /// The UID of the Job whose plugins' objects are read.
    pub(super) reads: Option<String>,
    /// It waits for its turn.
    pub(super) queued: bool,
}

impl Errand {
    pub(super) fn new(asks: impl IntoIterator<Item = Ask>) -> Self {
        Self { rest: asks.into_iter().collect(), ..Self::default() }
    }

    /// The sort of the next request, if it may be sent now: all before it are answered, or are of the same run.
    pub(super) fn ready(&self) -> Option<Sort> {
        let next = self.rest.front()?;
        let may = self.in_flight == 0 || (next.run().is_some() && next.run() == self.run);
        may.then(|| next.sort())
    }

    /// The next request.
    pub(super) fn send(&mut self) -> Option<Ask> {
        self.ready()?;
        let ask = self.rest.pop_front()?;
        self.run = ask.run();
        self.in_flight += 1;
        Some(ask)
    }

    pub(super) fn answered(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Goes before the rest.
    pub(super) fn first(&mut self, ask: Ask) {
        self.rest.push_front(ask);
    }

    /// Drops the rest.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.rest.clear();
        self.failure = self.failure.max(Some(failure));
    }

    pub(super) fn is_over(&self) -> bool {
        self.rest.is_empty() && self.in_flight == 0
    }
}
