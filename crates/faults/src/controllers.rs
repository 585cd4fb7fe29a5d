//! The controllers of a process: the machine and the driver of the live controllers, stepped by hand.
use std::pin::Pin;
use std::time::Instant;

use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use http::Request;
use hyper::body::Bytes;
use phalanx_api::batch::JobPhase;
use phalanx_controllers::{Change, Kind, Object};
use phalanx_runtime::controllers::{
    Answer, Ask, Brought, Came, Driver, Input, Machine, MachineOptions, Ticket, Watched as Kept, carry_out,
};
use phalanx_runtime::wire::Wire;
use tokio::sync::mpsc as queue;

use crate::planted::Planted;
use crate::process::{Start, shared};
use crate::story::{Role, Watched};

type Running = Pin<Box<dyn Future<Output = (Ticket, Came)> + Send>>;

/// The controllers of a process.
pub struct Controllers {
    driver: Driver,
    wire: Wire,
    inputs: queue::UnboundedReceiver<Input>,
    running: FuturesUnordered<Running>,
    bug: Option<Planted>,
}

impl Controllers {
    /// Those that have read nothing, and where their watches deliver. There are no objects of kinds that the simulation
    /// does not have.
    pub fn start(start: &Start, wire: Wire) -> (Self, queue::UnboundedSender<Input>) {
        let (sender, inputs) = queue::unbounded_channel();
        let Start { seed, life, bug, .. } = *start;
        let options = MachineOptions { seed: seed ^ life as u64, ..MachineOptions::default() };
        let mut driver = Driver {
            machine: Machine::new(options),
            limiter: None,
            metrics: shared(),
            health: None,
            reporter: ("vc-controller-manager".to_owned(), "host".to_owned()),
            clock: start.clocks.clock(),
        };
        let read: Vec<Kept> =
            Watched::of(Role::Controllers).iter().copied().flat_map(kept).copied().collect();
        let others = Kept::ALL.into_iter().filter(|kind| !read.contains(kind));
        others.for_each(|kind| driver.take_in(Input::Listed(kind)));
        (Self { driver, wire, inputs, running: FuturesUnordered::new(), bug }, sender)
    }

    /// Does what can be done now; returns whether there may be more.
    pub fn step(&mut self) -> bool {
        while let Ok(input) = self.inputs.try_recv() {
            self.driver.take_in(input);
        }
        if self.wire.fence().is_open() {
            let Self { driver, running, wire, bug, .. } = self;
            driver.hand_out(|ticket, request| running.push(begin(wire.clone(), ticket, request, *bug)));
        }
        let mut any = false;
        while let Some(Some(done)) = self.running.next().now_or_never() {
            any = true;
            self.driver.finished(done);
        }
        any
    }

    /// When something is to be done without an input.
    pub fn wake(&self) -> Option<Instant> {
        self.driver.machine.wake().filter(|_| self.wire.fence().is_open())
    }
}

/// The kind as the controllers name it: two for pods, which have a watch for those of Jobs and one for the others.
pub fn kept(kind: Watched) -> &'static [Kept] {
    match kind {
        Watched::Pods => &[Kept::Pod, Kept::PlainPod],
        Watched::Nodes => &[Kept::Node],
        Watched::PodGroups => &[Kept::PodGroup],
        Watched::Queues => &[Kept::Queue],
        Watched::Jobs => &[Kept::Job],
        Watched::Commands => &[Kept::Command],
    }
}

/// Sends a request, as controllers with this bug do.
fn begin(wire: Wire, ticket: Ticket, request: Option<Request<Bytes>>, bug: Option<Planted>) -> Running {
    if is_dropped(&ticket, bug) {
        return std::future::ready((ticket, Came::Answer(Answer::Done(Brought::Nothing)))).boxed();
    }
    let request = request.map(|request| altered(&ticket, request, bug));
    carry_out(wire, ticket, request).boxed()
}

fn is_dropped(ticket: &Ticket, bug: Option<Planted>) -> bool {
    let Ticket::For(_, Ask::Write(change)) = ticket else { return false };
    match (bug, change) {
        (Some(Planted::PodCreationLost), Change::Create(object)) => {
            object.kind() == Kind::Pod && object.metadata().name.as_ref().is_some_and(|it| it.ends_with('1'))
        }
        (Some(Planted::JobPodDeletionLost), Change::Delete(target)) => target.kind == Kind::Pod,
        (Some(Planted::JoinLost), Change::Join(..)) => true,
        (Some(Planted::PodGroupKept), Change::Delete(target)) => target.kind == Kind::PodGroup,
        (Some(Planted::JobEndLost), Change::Status { object: Object::Job(job), .. }) => {
            let phase = job.status.as_ref().and_then(|status| status.state.phase.clone());
            phase == Some(JobPhase::Completed)
        }
        _ => false,
    }
}

/// A status in which each write counts as a retry, or none.
fn altered(ticket: &Ticket, request: Request<Bytes>, bug: Option<Planted>) -> Request<Bytes> {
    let of_job = matches!(ticket, Ticket::For(_, Ask::Write(Change::Status { object: Object::Job(_), .. })));
    let counted = |count: i64| match bug {
        Some(Planted::RetryCountedTwice) => Some(count + 1),
        Some(Planted::RetryNotCounted) => Some(count - 1),
        _ => None,
    };
    if !of_job || counted(0).is_none() {
        return request;
    }
    let (parts, body) = request.into_parts();
    let mut value: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let count = value["status"]["retryCount"].as_i64().filter(|count| *count > 0);
    if let Some(count) = count.and_then(counted) {
        value["status"]["retryCount"] = count.into();
    }
    Request::from_parts(parts, value.to_string().into())
}
