//! Sends the requests of the outbox and passes outcomes to the scheduling thread.
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::future::FutureExt;
use futures::stream::FuturesUnordered;
use http::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy;
use phalanx_cluster::event::{Event, Key};
use phalanx_core::decision::{Binding, Decision};
use serde::Deserialize;
use tokio::sync::mpsc;
use tracing::{debug, info};

use super::merge::{merge, note_version};
use super::oldest::OldestBind;
use super::prepare::prepare;
use super::reply::{Problem, Reply, Trouble, read};
use super::request::{Context, build, get_pod};
use super::{Depth, Job, Outbox, PvcSeen, QueueSeen, VolumeSeen, Work, Write};
use crate::clock::Clock;
use crate::extender::Clients;
use crate::fence::Fenced;
use crate::limiter::Limiter;
use crate::metrics::Metrics;
use crate::recorder::Note;
use crate::wire::{Answer, Wire};

/// No answer by then counts as a passing error: the precondition makes it safe to ask again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// What the outbox is told.
#[derive(Debug)]
pub enum Input {
    /// Decisions of a cycle.
    Decisions(Vec<Decision>),
    /// Deletions that were seen.
    Gone(Vec<Event>),
    /// The status of a queue was seen.
    Queue(Arc<str>, QueueSeen),
    /// A claim was seen.
    Pvc(Key, PvcSeen),
    /// A volume was seen.
    Volume(Arc<str>, VolumeSeen),
    /// An event to send about an object.
    Note(Note),
    /// Send the remaining binds and statuses and return; the rest is dropped at the deadline.
    Finish(Instant),
}

/// The parts of the driver.
#[derive(Debug)]
pub struct Driver<F> {
    /// The order of things.
    pub outbox: Outbox,
    /// What requests need.
    pub context: Context,
    /// A limit, if the operator wants one.
    pub limiter: Option<Limiter>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Connections to extenders that bind.
    pub clients: Clients,
    /// The time.
    pub clock: Clock,
    /// Tells the scheduling thread.
    pub report: F,
}

impl<F: FnMut(Vec<Event>)> Driver<F> {
    /// Runs until [`Input::Finish`], or until all senders are gone.
    pub async fn run(mut self, wire: Wire, mut inputs: mpsc::UnboundedReceiver<Input>) {
        let mut running = FuturesUnordered::new();
        let (mut finish, mut oldest) = (None::<Instant>, OldestBind::default());
        let mut fence = wire.fence().clone();
        loop {
            let now = self.clock.now().instant;
            self.expire();
            let clients = self.clients.clone();
            let open = fence.is_open();
            let limited = if open {
                self.hand_out(now, |job, request| {
                    oldest.sent(&job);
                    running.push(exchange(wire.clone(), clients.clone(), job, request));
                })
            } else {
                None
            };
            self.metrics.outbox(&self.outbox.depth());
            if finish.is_some_and(|deadline| now >= deadline || !open || idle(&self.outbox.depth())) {
                break;
            }
            let told = oldest.tell(&self.outbox, &self.metrics, self.clock.now());
            let wake = [self.outbox.wake(now), limited, finish, told].into_iter().flatten().min();
            tokio::select! {
                Some(done) = running.next(), if !running.is_empty() => {
                    oldest.answered(&done.0);
                    let mut events = self.finished(done);
                    // Whatever else is ready goes into the same batch.
                    while let Some(Some(done)) = running.next().now_or_never() {
                        oldest.answered(&done.0);
                        events.extend(self.finished(done));
                    }
                    self.tell(events);
                }
                input = inputs.recv(), if finish.is_none() => match input {
                    Some(Input::Finish(deadline)) => finish = Some(self.finish(deadline)),
                    Some(input) => self.take_in(input),
                    None => break,
                },
                () = fence.changed() => {}
                () = sleep_until(wake) => {}
            }
        }
        let left = self.outbox.depth();
        info!(binds = left.binds, statuses = left.writes, "outbox closed");
    }

    /// Gives up what has waited too long.
    pub fn expire(&mut self) {
        let late = self.outbox.expire(self.clock.now().instant);
        self.tell(late);
    }

    /// Starts all requests that may start now; says when the limiter lets the next one pass.
    pub fn hand_out(&mut self, now: Instant, mut start: impl FnMut(Job, Request<Bytes>)) -> Option<Instant> {
        loop {
            if let Some(at) = self.limiter.as_mut().and_then(|limiter| limiter.wait(now)) {
                return Some(at);
            }
            let job = self.outbox.next(now)?;
            self.limiter.iter_mut().for_each(Limiter::spend);
            match build(&job, &self.context, self.clock.now()) {
                Ok(request) => start(job, request),
                // A name that makes no path cannot have come from an API server.
                Err(error) => {
                    let events = self.outbox.done(job, Reply::Gone(error.to_string()), now);
                    self.tell(events);
                }
            }
        }
    }

    /// Takes the outcome of a request; gives the events for the Cluster.
    pub fn finished(&mut self, (job, reply): (Job, Reply)) -> Vec<Event> {
        let now = self.clock.now();
        self.metrics.request(&job, &reply, now);
        self.outbox.done(job, reply, now.instant)
    }

    fn tell(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            (self.report)(events);
        }
    }

    /// Takes in what the outbox is told.
    pub fn take_in(&mut self, input: Input) {
        let now = self.clock.now().instant;
        match input {
            Input::Decisions(decisions) => {
                self.count_assumed(&decisions);
                self.outbox.decide(decisions, now);
            }
            Input::Gone(events) => {
                let failed = self.outbox.gone(&events, now);
                self.tell(failed);
            }
            Input::Queue(queue, seen) => self.outbox.queue_seen(queue, seen),
            Input::Pvc(key, seen) => {
                let failed = self.outbox.pvc_seen(&key, seen, now);
                self.tell(failed);
            }
            Input::Volume(volume, seen) => self.outbox.volume_seen(volume, seen),
            Input::Note(note) => self.outbox.note(note, now),
            Input::Finish(_) => {}
        }
    }

    fn count_assumed(&self, decisions: &[Decision]) {
        let now = self.clock.now().wall;
        for decision in decisions {
            if let Decision::Bind { pods, .. } = decision {
                self.metrics.assumed(pods, now);
            }
        }
    }

    fn finish(&mut self, deadline: Instant) -> Instant {
        self.outbox.hurry(self.clock.now().instant);
        deadline
    }
}

fn idle(depth: &Depth) -> bool {
    depth.binds == 0 && depth.writes == 0 && depth.in_flight == 0
}

pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// Sends a request with what has to be written before it, and says what came of it.
pub async fn exchange(wire: Wire, clients: Clients, mut job: Job, request: Request<Bytes>) -> (Job, Reply) {
    if let Work::Settle(it) = &job.work {
        let reply = settle(&wire, &it.binding, it.why.to_string()).await;
        return (job, reply);
    }
    if let Work::Bind(binding) = &job.work
        && let Err(reply) = prepare(&wire, binding).await
    {
        debug!(work = ?job.work, attempt = job.attempt, ?reply, "what comes before a bind failed");
        return (job, reply.before_another());
    }
    if let Work::Bind(binding) = &job.work
        && let Some(endpoint) = &binding.by
    {
        if !wire.fence().is_open() {
            return (job, not_taken(Fenced.to_string()));
        }
        let reply = match clients.bind(endpoint, binding).await {
            Ok(()) => Reply::Done,
            // The server may have carried out the request nevertheless.
            Err(message) => settle(&wire, binding, message).await,
        };
        return (job, reply);
    }
    let path = match &job.work {
        Work::Write(Write::PodGroup(_)) => request.uri().path().to_owned(),
        _ => String::new(),
    };
    let reply = match (ask(&wire, request).await, &mut job.work) {
        (Ok(Ok(answer)), Work::Write(Write::PodGroup(write))) => {
            note_version(write, &answer);
            Reply::Done
        }
        (Ok(Ok(_)), _) => Reply::Done,
        (Ok(Err(Problem::NotFound(message))), _) => Reply::Gone(message),
        (Ok(Err(Problem::Conflict(message))), Work::Write(Write::PodGroup(write))) => {
            merge(&wire, write, &path, message).await
        }
        (Ok(Err(Problem::Conflict(message))), work) => conflict(&wire, work, message).await,
        (Ok(Err(Problem::Other(reply))) | Err(reply), _) => reply,
    };
    if reply != Reply::Done {
        debug!(work = ?job.work, attempt = job.attempt, ?reply, "request failed");
    }
    (job, reply)
}

/// After a conflict the object is read. A conflict on a bind may be the answer to an own request whose reply was lost;
/// a conflict on a status is with another writer, or the object is another one of this name.
async fn conflict(wire: &Wire, work: &Work, message: String) -> Reply {
    match work {
        Work::Bind(binding) => settle(wire, binding, message).await,
        Work::Write(Write::Pod(pod, _)) => match get_pod(pod) {
            Ok(request) => same_object(wire, &pod.uid, request, message).await,
            Err(_) => Reply::Gone(message),
        },
        Work::Write(Write::PodGroup(_) | Write::Queue(..)) => Reply::Conflict(message),
        Work::Settle(_) | Work::Pvc(_) | Work::Evict(..) | Work::OpenGate(_) | Work::Post(_) => {
            Reply::Gone(message)
        }
    }
}

async fn same_object(wire: &Wire, uid: &str, request: Request<Bytes>, message: String) -> Reply {
    match look(wire, request).await {
        Ok(seen) if seen.metadata.uid == uid => Reply::Conflict(message),
        Ok(_) => Reply::Gone(message),
        // A scheduler that may write but not read learns of a failure by the next attempt, or when the object is gone.
        Err(Reply::Refused(_)) => Reply::Conflict(message),
        Err(reply) => reply,
    }
}

#[derive(Deserialize)]
struct Seen {
    metadata: SeenMeta,
    #[serde(default)]
    spec: SeenSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenMeta {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenSpec {
    #[serde(default)]
    node_name: String,
}

/// Reads the pod of a bind: while that fails, the bind may have been carried out.
async fn settle(wire: &Wire, binding: &Binding, message: String) -> Reply {
    let Ok(request) = get_pod(&binding.pod) else { return Reply::Gone(message) };
    match look(wire, request).await {
        Ok(pod) => judge(&pod, binding, message),
        Err(gone @ Reply::Gone(_)) => gone,
        Err(_) => Reply::Passing { message, trouble: Trouble::Unknown, after: None },
    }
}

/// The object as it is now.
async fn look(wire: &Wire, request: Request<Bytes>) -> Result<Seen, Reply> {
    let (status, headers, body) = fetch(wire, request).await?;
    match read(status, &headers, &body) {
        Ok(()) => serde_json::from_slice(&body).map_err(|error| Reply::Passing {
            message: format!("cannot read the object: {error}"),
            trouble: Trouble::Unknown,
            after: None,
        }),
        Err(Problem::Other(reply)) => Err(reply),
        Err(Problem::NotFound(message) | Problem::Conflict(message)) => Err(Reply::Gone(message)),
    }
}

fn judge(pod: &Seen, binding: &Binding, message: String) -> Reply {
    if pod.metadata.uid != *binding.pod.uid {
        return Reply::Gone(message);
    }
    if pod.spec.node_name == *binding.node {
        return Reply::Done;
    }
    let lost = !pod.spec.node_name.is_empty() || pod.metadata.deletion_timestamp.is_some();
    if lost {
        Reply::Gone(message)
    } else {
        Reply::Passing { message, trouble: Trouble::Object, after: None }
    }
}

pub(super) async fn ask(wire: &Wire, request: Request<Bytes>) -> Result<Result<Bytes, Problem>, Reply> {
    let (status, headers, body) = fetch(wire, request).await?;
    Ok(read(status, &headers, &body).map(|()| body))
}

pub(crate) async fn fetch(wire: &Wire, request: Request<Bytes>) -> Result<Answer, Reply> {
    let unknown = |message: String| Reply::Passing { message, trouble: Trouble::Unknown, after: None };
    match tokio::time::timeout(REQUEST_TIMEOUT, wire.send(request)).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) if was_not_sent(&*error) => Err(not_taken(chain(&*error))),
        Ok(Err(error)) => Err(unknown(chain(&*error))),
        Err(_) => Err(unknown(format!("no answer within {REQUEST_TIMEOUT:?}"))),
    }
}

fn not_taken(message: String) -> Reply {
    Reply::Passing { message, trouble: Trouble::NotTaken, after: None }
}

/// There was no connection, or the fence was closed.
fn was_not_sent(error: &(dyn Error + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| (*error).source());
    causes.any(|cause| {
        let refused = |error: &std::io::Error| error.kind() == std::io::ErrorKind::ConnectionRefused;
        cause.is::<Fenced>()
            || cause.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect)
            || cause.downcast_ref().is_some_and(refused)
    })
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
