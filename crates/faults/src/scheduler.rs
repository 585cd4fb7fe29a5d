//! The scheduler of a process: the engine and the outbox of the live scheduler, each stepped by hand.
use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use futures::future::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use phalanx_cluster::event::{BindFailure, BindFault, Event, Phase, PodRef};
use phalanx_cluster::{Cluster, ClusterOptions, Status, Task};
use phalanx_conf::{Known, parse};
use phalanx_core::Scheduler as Core;
use phalanx_core::decision::{Binding, Decision};
use phalanx_framework::trace::{Stage, Trace};
use phalanx_runtime::api::Notes;
use phalanx_runtime::clock::CycleClock;
use phalanx_runtime::engine::{Engine, Input, Pace, SnapshotRequests};
use phalanx_runtime::extender::Clients;
use phalanx_runtime::faults::Faults;
use phalanx_runtime::journal::Journal;
use phalanx_runtime::outbox::driver::{self, Driver, exchange};
use phalanx_runtime::outbox::reply::{Reply, Trouble};
use phalanx_runtime::outbox::request::Context;
use phalanx_runtime::outbox::{Job, Outbox, OutboxOptions, Work, Write};
use phalanx_runtime::server::Health;
use phalanx_runtime::telemetry::{SlowCycles, Telemetry};
use phalanx_runtime::watch::Sink;
use phalanx_runtime::wire::Wire;
use tokio::sync::mpsc as queue;

use crate::clocks::Clocks;
use crate::gangs::gang_of;
use crate::planted::Planted;
use crate::process::{Start, shared};
use crate::story::{Role, Watched};

type Running = Pin<Box<dyn Future<Output = (Job, Reply)> + Send>>;
type Report = Box<dyn FnMut(Vec<Event>) + Send>;

/// The two configurations between which reloads switch, and one that evicts nothing.
static CONFS: LazyLock<[Option<phalanx_framework::conf::Conf>; 3]> = LazyLock::new(|| {
    let conf = |actions: &str, last: &str| {
        let text = format!(
            "actions: \"{actions}\"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n  - name: \
             conformance\n- plugins:\n  - name: drf\n    enablePreemptable: false\n  - name: predicates\n  - name: \
             capacity\n  - name: {last}\n"
        );
        parse(&text, &Known::builtin()).conf
    };
    [
        conf("enqueue, allocate, backfill, reclaim, preempt", "nodeorder"),
        conf("enqueue, allocate, preempt, backfill", "binpack"),
        conf("enqueue, allocate, backfill", "nodeorder"),
    ]
});

/// The scheduler of a process.
pub struct Scheduler {
    /// Cycles.
    pub engine: Engine,
    driver: Driver<Report>,
    wire: Wire,
    inputs: mpsc::Sender<Input>,
    outputs: queue::UnboundedReceiver<driver::Input>,
    running: FuturesUnordered<Running>,
    /// What was decided since the world looked.
    pub decided: Vec<Decided>,
    bug: Option<Planted>,
    /// Names or UIDs for which a bug has shown.
    shown: BTreeSet<Arc<str>>,
    /// Answers have arrived since requests were handed out.
    answered: bool,
    nodes: usize,
}

/// A decision about pods, by their UIDs.
#[derive(Clone, Debug)]
pub enum Decided {
    /// Pods of a gang are to be bound.
    Binds {
        /// The gang.
        gang: usize,
        /// The pods.
        pods: Vec<Arc<str>>,
    },
    /// A pod is to be evicted.
    Evicts {
        /// The pod.
        pod: Arc<str>,
        /// The gang that gets its room.
        by: usize,
    },
}

impl Scheduler {
    /// One that has read nothing and does not lead, and where its watches deliver.
    pub fn start(start: &Start, wire: Wire) -> Result<(Self, Sink)> {
        let (inputs, received) = mpsc::channel();
        let (outbox, outputs) = queue::unbounded_channel();
        let engine = engine(start, received, outbox.clone())?;
        let sink = Sink {
            engine: inputs.clone(),
            outbox,
            owners: queue::unbounded_channel().0,
            metrics: shared(),
            names: Arc::default(),
            nodes: Arc::default(),
            faults: Arc::new(Faults::new("simulated")),
        };
        let Start { seed, life, nodes, bug, .. } = *start;
        let scheduler = Self {
            engine,
            driver: driver(seed ^ life as u64, &start.clocks, report(inputs.clone(), bug)),
            wire,
            inputs,
            outputs,
            running: FuturesUnordered::new(),
            decided: Vec::new(),
            bug,
            shown: BTreeSet::new(),
            answered: false,
            nodes,
        };
        Ok((scheduler, sink))
    }

    /// This process leads from now on.
    pub fn lead(&self) {
        self.tell(Input::Lead);
    }

    /// Another configuration takes effect.
    pub fn reload(&self, conf: usize) -> Result<()> {
        self.tell(Input::Conf(Box::new(configuration(conf, self.bug)?), Arc::from("")));
        Ok(())
    }

    fn tell(&self, input: Input) {
        // The engine lives as long as the process.
        let _ = self.inputs.send(input);
    }

    /// Does what can be done now; returns whether there may be more.
    pub fn step(&mut self) -> bool {
        self.engine.step();
        if self.bug == Some(Planted::JobChangeLost) {
            self.lose_changes();
        }
        if self.bug == Some(Planted::WakeUpLost) {
            self.engine.pace.wake_at(None);
        }
        let told = self.take_in_decisions();
        self.driver.expire();
        let happened = std::mem::take(&mut self.answered) || told;
        if happened || self.bug != Some(Planted::RetryLost) {
            self.hand_out();
        }
        self.answered = self.take_in_answers();
        self.answered || told
    }

    /// When something is to be done without an input.
    pub fn wake(&self, now: Instant) -> Option<Instant> {
        let cycle = self.engine.due();
        let send = self.driver.outbox.wake(now).filter(|_| self.bug != Some(Planted::RetryLost));
        cycle.into_iter().chain(send).min()
    }

    fn take_in_decisions(&mut self) -> bool {
        let mut any = false;
        while let Ok(input) = self.outputs.try_recv() {
            any = true;
            let input = match input {
                driver::Input::Decisions(decisions) => {
                    self.decided.extend(decisions.iter().filter_map(decided));
                    driver::Input::Decisions(self.altered(decisions))
                }
                input => input,
            };
            self.driver.take_in(input);
        }
        any
    }

    fn hand_out(&mut self) {
        if !self.wire.fence().is_open() {
            return;
        }
        let Self { driver, running, wire, .. } = self;
        let clients = driver.clients.clone();
        driver.hand_out(driver.clock.now().instant, |job, request| {
            running.push(exchange(wire.clone(), clients.clone(), job, request).boxed());
        });
    }

    fn take_in_answers(&mut self) -> bool {
        let mut events = Vec::new();
        let mut any = false;
        while let Some(Some((job, reply))) = self.running.next().now_or_never() {
            any = true;
            let reply = misread(&job, reply, self.bug);
            events.extend(self.driver.finished((job, reply)));
        }
        if !events.is_empty() {
            (self.driver.report)(events);
        }
        any
    }

    /// The decisions as a process with this bug sends them.
    fn altered(&mut self, decisions: Vec<Decision>) -> Vec<Decision> {
        if self.bug.is_none() {
            return decisions;
        }
        decisions.into_iter().flat_map(|decision| self.one_altered(decision)).collect()
    }

    fn one_altered(&mut self, decision: Decision) -> Vec<Decision> {
        match (decision, self.bug) {
            (Decision::Bind { job, mut pods }, Some(Planted::BindLost)) => {
                if pods.len() > 1 {
                    pods.pop();
                }
                vec![Decision::Bind { job, pods }]
            }
            (Decision::Bind { job, mut pods }, Some(Planted::BindElsewhere)) => {
                if let [first, .., last] = pods.as_mut_slice() {
                    first.node = Arc::clone(&last.node);
                }
                vec![Decision::Bind { job, pods }]
            }
            (Decision::Bind { job, pods }, Some(Planted::BindDoubled)) => {
                let again = pods.iter().map(|binding| self.elsewhere(binding)).collect();
                vec![Decision::Bind { job: job.clone(), pods }, Decision::Bind { job, pods: again }]
            }
            (Decision::Evict { .. }, Some(Planted::EvictionLost))
            | (Decision::PodGroupStatus { .. }, Some(Planted::StatusLost)) => Vec::new(),
            (Decision::Evict { group, cause, .. }, Some(Planted::EvictionOfAnother)) => {
                let another = self.engine.cluster.tasks.iter().map(|(_, task)| Arc::clone(&task.pod)).next();
                another
                    .into_iter()
                    .map(|pod| Decision::Evict { pod, group: group.clone(), cause: Arc::clone(&cause) })
                    .collect()
            }
            (victim @ Decision::Evict { .. }, Some(Planted::EvictionTooMany)) => {
                let another = self.another_victim(&victim);
                self.decided.extend(another.as_ref().and_then(decided));
                std::iter::once(victim).chain(another).collect()
            }
            (status @ Decision::PodGroupStatus { .. }, Some(Planted::UndoIncomplete)) => {
                self.keep_a_place(&status);
                vec![status]
            }
            (Decision::PodGroupStatus { uid, .. }, Some(Planted::StatusFrozen))
                if !self.shown.insert(Arc::clone(&uid)) =>
            {
                Vec::new()
            }
            (status @ Decision::PodGroupStatus { .. }, Some(Planted::EvictionInVain)) => {
                self.victim(&status).map(|pod| evict(&pod)).into_iter().chain([status]).collect()
            }
            (decision, _) => vec![decision],
        }
    }

    /// Another pod of the same gang that runs.
    fn another_victim(&self, first: &Decision) -> Option<Decision> {
        let Decision::Evict { pod: victim, group, cause } = first else { return None };
        let runs =
            |task: &&Task| task.status == Status::Running && gang_of(&task.pod.name) == gang_of(&victim.name);
        let mut tasks = self.engine.cluster.tasks.iter().map(|(_, task)| task);
        let pod = Arc::clone(&tasks.find(|task| runs(task) && task.pod.uid != victim.uid)?.pod);
        Some(Decision::Evict { pod, group: group.clone(), cause: Arc::clone(cause) })
    }

    /// A pod of a gang that runs, once for each gang.
    fn victim(&mut self, status: &Decision) -> Option<Arc<PodRef>> {
        let Decision::PodGroupStatus { group, uid, status, .. } = status else { return None };
        if status.phase != Phase::Running || !self.shown.insert(Arc::clone(uid)) {
            return None;
        }
        let gang = gang_of(&group.name);
        let mut running = self.engine.cluster.tasks.iter().filter(|(_, task)| task.node.is_some());
        running.find(|(_, task)| gang_of(&task.pod.name) == gang).map(|(_, task)| Arc::clone(&task.pod))
    }

    /// The backlog is not told what changed of jobs that it knows.
    fn lose_changes(&mut self) {
        let cluster = &mut self.engine.cluster;
        if !cluster.has_changes() {
            self.shown.extend(cluster.jobs.iter().map(|(_, job)| Arc::clone(&job.key.name)));
        } else if cluster.gone_jobs().next().is_none() {
            for (id, _) in cluster.take_changes().jobs {
                if !self.shown.contains(&cluster.jobs[id].key.name) {
                    cluster.job_changed(id);
                }
            }
        }
    }

    /// Once for each gang that is refused, its first pod stays where the Statement had placed it that was discarded.
    fn keep_a_place(&mut self, refused: &Decision) {
        let Decision::PodGroupStatus { uid, status, .. } = refused else { return };
        let cluster = &mut self.engine.cluster;
        let job = cluster.jobs.iter().find(|(_, job)| job.object.uid == *uid).map(|(_, job)| job);
        let Some(job) = job.filter(|job| job.min_member > 1 && job.waiting() == job.min_member) else {
            return;
        };
        let task = job.tasks[0];
        let request = &cluster.class_of(task).request;
        let node = cluster.nodes.iter().find(|(_, node)| node.ready && request.fits(&node.idle));
        if let Some((node, _)) = node.filter(|_| status.phase == Phase::Inqueue)
            && self.shown.insert(Arc::clone(uid))
        {
            cluster.place(task, Status::Allocated, Some(node));
        }
    }

    fn elsewhere(&self, binding: &Binding) -> Binding {
        let number: usize = binding.node.trim_start_matches("node-").parse().unwrap_or(0);
        Binding { node: crate::gangs::node_name((number + 1) % self.nodes).into(), ..binding.clone() }
    }
}

/// What a decision says of pods of gangs.
fn decided(decision: &Decision) -> Option<Decided> {
    match decision {
        Decision::Bind { pods, .. } => {
            let gang = gang_of(&pods.first()?.pod.name)?;
            Some(Decided::Binds { gang, pods: pods.iter().map(|bind| Arc::clone(&bind.pod.uid)).collect() })
        }
        Decision::Evict { pod, cause, .. } => {
            Some(Decided::Evicts { pod: Arc::clone(&pod.uid), by: gang_of(&cause.by.as_ref()?.name)? })
        }
        _ => None,
    }
}

fn evict(pod: &Arc<PodRef>) -> Decision {
    let cause = Arc::new(phalanx_core::decision::Cause::default());
    Decision::Evict { pod: Arc::clone(pod), group: None, cause }
}

fn configuration(conf: usize, bug: Option<Planted>) -> Result<phalanx_framework::conf::Conf> {
    let conf = if bug == Some(Planted::NoEvictingActions) { CONFS.len() - 1 } else { conf };
    CONFS[conf].clone().ok_or_else(|| anyhow!("the scheduler.conf of the simulation is wrong"))
}

fn engine(
    start: &Start,
    inputs: mpsc::Receiver<Input>,
    outbox: queue::UnboundedSender<driver::Input>,
) -> Result<Engine> {
    let slow = SlowCycles { threshold: Duration::MAX, spans: None };
    let mut core = Core::new(configuration(start.conf, start.bug)?, start.seed);
    core.set_retry_limits(start.limits);
    let engine = Engine {
        cluster: Cluster::new(ClusterOptions::default()),
        scheduler: core,
        pace: Pace::new(Duration::from_millis(20), Duration::from_secs(1)),
        waits_for: Watched::of(Role::Scheduler)
            .iter()
            .map(|kind| kind.plural())
            .chain(["priorityclasses"])
            .collect(),
        inputs,
        outbox,
        telemetry: Telemetry::new(shared(), slow),
        health: Arc::<Health>::default(),
        leads: false,
        clock: CycleClock::new(start.clocks.clock()),
        journal: Journal::default(),
        notes: Notes::default(),
        asked: SnapshotRequests::default(),
    };
    let mut engine = engine.begun();
    engine.scheduler.set_trace(Arc::new(Untimed));
    Ok(engine)
}

/// How long the stages of cycles take means nothing in virtual time.
#[derive(Debug)]
struct Untimed;

impl Trace for Untimed {
    fn ended(&self, _stage: Stage) {}
}

fn driver(seed: u64, clocks: &Clocks, report: Report) -> Driver<Report> {
    Driver {
        outbox: Outbox::new(OutboxOptions { seed, ..OutboxOptions::default() }),
        context: Context { pod_group_status: true, controller: "volcano".into(), instance: "host".into() },
        limiter: None,
        metrics: shared(),
        clients: Clients::default(),
        clock: clocks.clock(),
        report,
    }
}

/// Tells the engine what became of binds.
fn report(engine: mpsc::Sender<Input>, bug: Option<Planted>) -> Report {
    Box::new(move |events: Vec<Event>| {
        let events = events.into_iter().map(|event| misreported(event, bug)).collect();
        // The engine lives as long as the process.
        let _ = engine.send(Input::Events(events));
    })
}

fn misreported(event: Event, bug: Option<Planted>) -> Event {
    match (event, bug) {
        (Event::Bound(uid), Some(Planted::BoundIsFailure)) => {
            let failure = BindFailure { message: "planted".into(), fault: BindFault::Denied };
            Event::BindFailed(uid, failure)
        }
        (event, _) => event,
    }
}

/// The reply as a process with this bug reads it.
fn misread(job: &Job, reply: Reply, bug: Option<Planted>) -> Reply {
    let bind = matches!(job.work, Work::Bind(_));
    let status = matches!(job.work, Work::Write(Write::PodGroup(_)));
    match (reply, bug) {
        (Reply::Passing { message, trouble: Trouble::Unknown, .. }, Some(Planted::SilenceIsRefusal))
            if bind =>
        {
            Reply::Gone(message)
        }
        (Reply::Refused(_), Some(Planted::RefusalIsDone)) if bind => Reply::Done,
        (Reply::Conflict(_) | Reply::Passing { .. }, Some(Planted::ConflictIsDone)) if status => Reply::Done,
        (Reply::Done, Some(Planted::StatusWrittenForEver)) if status => Reply::Conflict(String::new()),
        (reply, _) => reply,
    }
}
