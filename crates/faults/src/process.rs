//! A process of the simulation: a scheduler or the controllers, with watches, a lease and a connection of its own.
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use phalanx_core::RetryLimits;
use phalanx_runtime::fence::Gatekeeper;
use phalanx_runtime::lease::{Elector, LeaseOptions};
use phalanx_runtime::metrics::Metrics;
use phalanx_runtime::wire::Wire;
use tokio::sync::oneshot;
use tower::util::service_fn;

use crate::clocks::Clocks;
use crate::controllers::Controllers;
use crate::planted::Planted;
use crate::scheduler::{Decided, Scheduler};
use crate::story::{Micros, Role, SECOND};
use crate::watches::{Reader, Watches};

/// The error of a request without an answer.
type Lost = Box<dyn std::error::Error + Send + Sync>;
/// What comes back of a request.
pub type Returned = Result<Response<Full<Bytes>>, Lost>;

/// A request on its way.
#[derive(Debug)]
pub struct Outgoing {
    /// The request.
    pub request: Request<Bytes>,
    /// Who waits for the answer.
    pub reply: oneshot::Sender<Returned>,
}

/// What a process does its work with.
pub enum Part {
    /// A scheduler.
    Scheduler(Box<Scheduler>),
    /// The controllers.
    Controllers(Box<Controllers>),
}

/// A process that runs.
pub struct Process {
    /// Which process it is.
    pub index: usize,
    /// What it does.
    pub role: Role,
    /// How often it was started.
    pub life: usize,
    /// It is killed with this request that it sends, counted from 1.
    pub dies_with: Option<usize>,
    /// Until when it is stopped.
    pub paused_until: Micros,
    /// Its clocks.
    pub clocks: Clocks,
    /// Watches.
    pub watches: Watches,
    /// The lease.
    pub elector: Elector,
    /// How the lease is kept.
    pub lease: LeaseOptions,
    /// Opens the fence.
    pub keeper: Gatekeeper,
    /// What it does its work with.
    pub part: Part,
    sent: Arc<Mutex<Vec<Outgoing>>>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process")
            .field("index", &self.index)
            .field("life", &self.life)
            .finish_non_exhaustive()
    }
}

/// What a process begins with.
#[derive(Clone, Debug)]
pub struct Start {
    /// Which process it is.
    pub index: usize,
    /// What it does.
    pub role: Role,
    /// How often it was started.
    pub life: usize,
    /// Of the scheduler, the controllers and the outbox.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// Its clocks.
    pub clocks: Clocks,
    /// The configuration in force.
    pub conf: usize,
    /// How often a scheduler tries waiting gangs.
    pub limits: RetryLimits,
    /// What is wrong with it.
    pub bug: Option<Planted>,
}

impl Process {
    /// One that has read nothing and does not lead.
    pub fn start(start: &Start) -> Result<Self> {
        let Start { index, role, life, ref clocks, bug, .. } = *start;
        let sent = Arc::<Mutex<Vec<Outgoing>>>::default();
        let boot = clocks.clone();
        let (keeper, fence) = Gatekeeper::on(move || boot.boot());
        let wire = network(Arc::clone(&sent));
        let wire = if unfenced(bug) { wire } else { wire.behind(fence) };
        let (part, reader) = match role {
            Role::Scheduler => {
                let (scheduler, sink) = Scheduler::start(start, wire)?;
                (Part::Scheduler(Box::new(scheduler)), Reader::scheduler(&sink)?)
            }
            Role::Controllers => {
                let (controllers, inputs) = Controllers::start(start, wire);
                (Part::Controllers(Box::new(controllers)), Reader::Controllers(inputs))
            }
        };
        Ok(Self {
            index,
            role,
            life,
            dies_with: None,
            paused_until: 0,
            clocks: clocks.clone(),
            watches: Watches::new(reader, bug),
            elector: Elector::default(),
            lease: lease(role, index, life),
            keeper,
            part,
            sent,
        })
    }

    /// This process leads from now on.
    pub fn lead(&self) {
        if let Part::Scheduler(scheduler) = &self.part {
            scheduler.lead();
        }
    }

    /// Another configuration takes effect.
    pub fn reload(&self, conf: usize) -> Result<()> {
        match &self.part {
            Part::Scheduler(scheduler) => scheduler.reload(conf),
            Part::Controllers(_) => Ok(()),
        }
    }

    /// Does all that can be done now; gives the requests that leave.
    pub fn step(&mut self) -> Vec<Outgoing> {
        let more = |part: &mut Part| match part {
            Part::Scheduler(scheduler) => scheduler.step(),
            Part::Controllers(controllers) => controllers.step(),
        };
        while more(&mut self.part) {}
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut sent)
    }

    /// What was decided since the last call.
    pub fn take_decided(&mut self) -> Vec<Decided> {
        match &mut self.part {
            Part::Scheduler(scheduler) => std::mem::take(&mut scheduler.decided),
            Part::Controllers(_) => Vec::new(),
        }
    }

    /// When something is to be done without an input.
    pub fn wake(&self) -> Option<Micros> {
        let at = match &self.part {
            Part::Scheduler(scheduler) => scheduler.wake(self.clocks.instant()),
            Part::Controllers(controllers) => controllers.wake(),
        };
        at.map(|at| self.clocks.micros(at).max(self.clocks.now()))
    }
}

/// Bugs of the lease that only show where the fence does not stand before writes.
fn unfenced(bug: Option<Planted>) -> bool {
    matches!(bug, Some(Planted::NoFence | Planted::NoLease))
}

/// Counters show nothing in a run: all runs of a thread share them.
pub fn shared() -> Arc<Metrics> {
    thread_local! {
        static SHARED: Arc<Metrics> = Arc::default();
    }
    SHARED.with(Arc::clone)
}

fn lease(role: Role, index: usize, life: usize) -> LeaseOptions {
    LeaseOptions {
        namespace: "kube-system".to_owned(),
        name: match role {
            Role::Scheduler => "phalanx",
            Role::Controllers => "vc-controller-manager",
        }
        .to_owned(),
        identity: identity(index, life),
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry_period: Duration::from_secs(2),
    }
}

/// The holder of a lease: a process, and how often it was started.
pub fn identity(index: usize, life: usize) -> String {
    format!("process-{index}-{life}")
}

/// Requests are gathered here, and the simulation carries them.
fn network(sent: Arc<Mutex<Vec<Outgoing>>>) -> Wire {
    Wire::of(service_fn(move |request: Request<Bytes>| {
        let (reply, answer) = oneshot::channel();
        sent.lock().unwrap_or_else(PoisonError::into_inner).push(Outgoing { request, reply });
        async move { answer.await.unwrap_or_else(|_| Err("the connection broke".into())) }
    }))
}

/// An answer as it is on the wire.
pub fn response(status: StatusCode, body: Bytes) -> Returned {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    Ok(response)
}

/// How long a client waits for an answer.
pub const REQUEST_TIMEOUT: Micros = 15 * SECOND;
