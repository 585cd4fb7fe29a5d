//! Sends the requests of the machine, and tells it what watches and answers say.
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use http::Request;
use hyper::body::Bytes;
use phalanx_controllers::{Change, Kind};
use tokio::sync::mpsc;
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::{debug, info, warn};

use super::errand::Ask;
use super::machine::{Came, Machine, Ticket};
use super::store::{Fact, Watched};
use super::watch::Input;
use super::write::{self, Answer, Brought};
use super::{probe, ssh};
use crate::clock::Clock;
use crate::limiter::Limiter;
use crate::metrics::Metrics;
use crate::outbox::driver::{fetch, sleep_until};
use crate::outbox::reply::read;
use crate::outbox::request::{Moment, event};
use crate::recorder::Posting;
use crate::server::Health;
use crate::wire::Wire;

/// The parts of the driver.
#[derive(Debug)]
pub struct Driver {
    /// Which request is next.
    pub machine: Machine,
    /// A limit, if the operator wants one.
    pub limiter: Option<Limiter>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Told which lists are missing, where these are the controllers' own pages.
    pub health: Option<Arc<Health>>,
    /// Who reports events: controller and instance.
    pub reporter: (String, String),
    /// The time.
    pub clock: Clock,
}

impl Driver {
    /// Runs until the watches are gone.
    pub(super) async fn run(mut self, wire: Wire, mut inputs: UnboundedReceiver<Input>) {
        let mut running = FuturesUnordered::new();
        let mut fence = wire.fence().clone();
        let mut missing = None;
        loop {
            // What watches said goes before answers: an answer may be newer than a list that is under way.
            while let Ok(input) = inputs.try_recv() {
                self.take_in(input);
            }
            self.tell_missing(&mut missing);
            let open = fence.is_open();
            let limited = if open {
                self.hand_out(|ticket, request| {
                    running.push(carry_out(wire.clone(), ticket, request));
                })
            } else {
                None
            };
            // The lease and the watches share this thread.
            tokio::task::yield_now().await;
            let wake = [self.machine.wake().filter(|_| open && limited.is_none()), limited];
            tokio::select! {
                biased;
                input = inputs.recv() => match input {
                    Some(input) => self.take_in(input),
                    None => return,
                },
                Some(done) = running.next(), if !running.is_empty() => {
                    self.finished(done);
                    while let Some(Some(done)) = running.next().now_or_never() {
                        self.finished(done);
                    }
                }
                () = fence.changed() => {}
                () = sleep_until(wake.into_iter().flatten().min()) => {}
            }
        }
    }

    /// Starts all requests that may start now; says when the limiter lets the next one pass.
    pub fn hand_out(&mut self, mut start: impl FnMut(Ticket, Option<Request<Bytes>>)) -> Option<Instant> {
        let now = self.clock.now();
        loop {
            if let Some(at) = self.limiter.as_mut().and_then(|limiter| limiter.wait(now.instant)) {
                return Some(at);
            }
            let ticket = self.machine.next(now)?;
            self.limiter.iter_mut().for_each(Limiter::spend);
            let request = self.request(&ticket, now);
            start(ticket, request);
        }
    }

    /// Takes in what a watch says.
    pub fn take_in(&mut self, input: Input) {
        let now = self.clock.now().instant;
        match input {
            Input::Seen(seen) => {
                let kind = seen.fact.watched();
                if let Fact::Queue(queue) = &seen.fact {
                    self.metrics.controllers().queue(&seen.id.key, queue);
                }
                self.machine.seen(seen, now);
                self.count(kind);
            }
            Input::Deleted(kind, id) => {
                self.machine.deleted(kind, &id, now);
                self.metrics.controllers().forget(kind, &id.key);
                self.count(kind);
            }
            Input::Broken(kind, id, regarding, invalid) => {
                warn!(kind = kind.plural(), object = %id.key, "invalid: {invalid}");
                self.metrics.invalid_object(kind.plural());
                self.machine.broken(kind, &id, regarding, &invalid.to_string(), now);
            }
            Input::Listing(kind) => self.machine.listing(kind),
            Input::Absent(kind) => self.machine.absent(kind, now),
            Input::Listed(kind) => {
                self.machine.listed(kind, now);
                self.metrics.controllers().retain(kind, |key| self.machine.has(kind, key));
                self.count(kind);
            }
        }
    }

    /// Beside a scheduler, its numbers are told.
    fn count(&mut self, kind: Watched) {
        if self.health.is_some() {
            self.metrics.known(kind.plural(), self.machine.known(kind));
        }
    }

    fn tell_missing(&self, told: &mut Option<BTreeSet<&'static str>>) {
        if told.as_ref().is_some_and(BTreeSet::is_empty) {
            return;
        }
        let missing = self.machine.missing();
        if told.as_ref() != Some(&missing) {
            if missing.is_empty() {
                info!("controllers work");
            }
            if let Some(health) = &self.health {
                health.wait_for(&missing);
            }
            *told = Some(missing);
        }
    }

    fn request(&self, ticket: &Ticket, now: Moment) -> Option<Request<Bytes>> {
        let request = match ticket {
            Ticket::For(_, Ask::Write(change)) => write::request(change).transpose()?,
            Ticket::For(_, Ask::Renew(kind, key) | Ask::Read(_, kind, key)) => write::get(*kind, key),
            Ticket::For(_, Ask::Compare(object)) => {
                write::get(object.kind(), &super::table::Identity::of(object.metadata()).key)
            }
            Ticket::For(_, Ask::SshKey | Ask::Probe(..)) => return None,
            Ticket::Post(posting) => event(posting, (&self.reporter.0, &self.reporter.1), now),
        };
        // A name that makes no path cannot have come from an API server: the machine is told that it was refused.
        request.ok()
    }

    /// Takes in what became of a request.
    pub fn finished(&mut self, (ticket, came): (Ticket, Came)) {
        let metrics = self.metrics.controllers();
        metrics.request(verb(&ticket), result(&came));
        if let (Ticket::For(subject, Ask::Write(change)), Came::Answer(Answer::Done(_))) = (&ticket, &came) {
            metrics.written(&subject.key, change);
            if let Some(after) = self.machine.since_creation_of_job(subject, change, self.clock.now().wall) {
                metrics.pod_made(after);
            }
        }
        // Never the request itself, which may hold a private key.
        if let (Ticket::For(subject, _), Came::Answer(answer)) = (&ticket, &came)
            && !matches!(answer, Answer::Done(_))
        {
            debug!(?subject, request = verb(&ticket), ?answer, "request failed");
        }
        self.machine.done(ticket, came, self.clock.now());
    }
}

/// How metrics name a request.
fn verb(ticket: &Ticket) -> &'static str {
    match ticket {
        Ticket::Post(_) => "event",
        Ticket::For(_, Ask::SshKey) => "key",
        Ticket::For(_, Ask::Probe(..)) => "probe",
        Ticket::For(_, Ask::Renew(..) | Ask::Read(..) | Ask::Compare(_)) => "read",
        Ticket::For(_, Ask::Write(change)) => match change {
            Change::Create(object) if object.kind() == Kind::Pod => "create-pod",
            Change::Create(_) => "create",
            Change::Delete(target) if target.kind == Kind::Pod => "delete-pod",
            Change::Delete(_) => "delete",
            Change::Replace(_) => "replace",
            Change::Status { .. } => "status",
            Change::Join(..) => "join",
            Change::Note(_) => "event",
        },
    }
}

fn result(came: &Came) -> &'static str {
    match came {
        Came::Answer(Answer::Done(_)) | Came::SshKey(Some(_)) | Came::Probed(true) => "done",
        Came::Answer(Answer::NotFound(_)) => "gone",
        Came::Answer(Answer::Conflict(_) | Answer::Passing(..)) | Came::Probed(false) => "retry",
        Came::Answer(Answer::Refused(_)) | Came::SshKey(None) => "refused",
    }
}

/// Sends a request, and says what became of it.
pub async fn carry_out(wire: Wire, ticket: Ticket, request: Option<Request<Bytes>>) -> (Ticket, Came) {
    let came = match &ticket {
        Ticket::For(_, Ask::SshKey) => Came::SshKey(key_pair().await),
        Ticket::For(_, Ask::Probe(probe, pods)) => Came::Probed(probe::ask(probe, pods).await),
        Ticket::For(_, ask) => match request {
            Some(request) => Came::Answer(exchange(&wire, kind_of(ask), request).await),
            None => Came::Answer(Answer::Refused("no request can be made of its name".to_owned())),
        },
        Ticket::Post(posting) => Came::Answer(send_event(&wire, posting, request).await),
    };
    (ticket, came)
}

/// On a thread of its own: it takes a core for a while.
async fn key_pair() -> Option<phalanx_controllers::job::SshKey> {
    match tokio::task::spawn_blocking(ssh::generate).await {
        Ok(Ok(key)) => Some(key),
        Ok(Err(error)) => {
            warn!("{error}");
            None
        }
        Err(error) => {
            warn!("cannot generate a key pair: {error}");
            None
        }
    }
}

fn kind_of(ask: &Ask) -> Kind {
    match ask {
        Ask::Write(Change::Create(object) | Change::Replace(object) | Change::Status { object, .. })
        | Ask::Compare(object) => object.kind(),
        Ask::Write(Change::Delete(target) | Change::Join(target, _)) => target.kind,
        Ask::Write(Change::Note(note)) => note.on.kind,
        Ask::Renew(kind, _) | Ask::Read(_, kind, _) => *kind,
        Ask::SshKey | Ask::Probe(..) => Kind::Pod,
    }
}

async fn exchange(wire: &Wire, kind: Kind, request: Request<Bytes>) -> Answer {
    match fetch(wire, request).await {
        Ok((status, headers, body)) => write::answer(kind, status, &headers, &body),
        Err(reply) => write::failed(reply),
    }
}

async fn send_event(wire: &Wire, posting: &Posting, request: Option<Request<Bytes>>) -> Answer {
    let Some(request) = request else { return Answer::Refused(format!("{posting:?}")) };
    match fetch(wire, request).await {
        Ok((status, headers, body)) => match read(status, &headers, &body) {
            Ok(()) => Answer::Done(Brought::Nothing),
            Err(problem) => Answer::Refused(format!("{problem:?}")),
        },
        Err(reply) => write::failed(reply),
    }
}

/// The channel of the watches.
pub(super) fn channel() -> (mpsc::UnboundedSender<Input>, UnboundedReceiver<Input>) {
    mpsc::unbounded_channel()
}
