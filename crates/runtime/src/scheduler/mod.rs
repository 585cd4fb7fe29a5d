//! `phalanx scheduler`: the parts put together.
mod conf;
mod reads;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::Client;
use phalanx_cache::Names;
use phalanx_cluster::event::Event;
use phalanx_cluster::{Cluster, ClusterOptions, GroupWait};
use phalanx_conf::Known;
pub use phalanx_core::BackoffTimes;
use phalanx_core::{RetryLimits, Scheduler};
use phalanx_framework::conf::Conf;
use phalanx_framework::placement::Sampling;
use rand::Rng;
use rand_pcg::Pcg64;
use tokio::runtime::Handle;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch as tokio_watch};
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use crate::api::{Api, Evictions, Notes};
use crate::clock::{Clock, CycleClock};
use crate::controllers::{self, ControllersOptions, Parts};
use crate::engine::{Engine, Input, Pace, SnapshotRequests};
use crate::extender::{Clients, HttpExtender};
use crate::faults::Faults;
use crate::fence::Gatekeeper;
use crate::journal::{Journal, JournalOptions, Start};
use crate::lease::{self, LeaseOptions};
use crate::limiter::Limiter;
use crate::metrics::Metrics;
use crate::outbox::driver::{self, Driver};
use crate::outbox::request::Context;
use crate::outbox::{Outbox, OutboxOptions};
use crate::reload::{ConfFile, Rules};
use crate::server::{Addresses, Health, serve_api, serve_pages};
use crate::spans::Spans;
use crate::telemetry::{SlowCycles, Telemetry};
use crate::watch::{NodeSelector, Sink};
use crate::wire::Wire;
use crate::{bootstrap, client};

/// How long the outbox may take at the end.
const FLUSH: Duration = Duration::from_secs(8);

/// How long it may take when the API server does not answer.
const FLUSH_IN_SILENCE: Duration = Duration::from_millis(500);

/// How often it is logged what the first cycle waits for.
const STILL_WAITS: Duration = Duration::from_secs(30);

/// How long the first cycle waits for the default queue to be there.
const QUEUES_FIRST: Duration = Duration::from_secs(3);

/// What the flags say.
#[derive(Clone, Debug)]
pub struct SchedulerOptions {
    /// `--scheduler-name`: pods with one of these are ours.
    pub scheduler_names: Vec<String>,
    /// `--scheduler-conf`; the built-in default without.
    pub conf: Option<PathBuf>,
    /// `--scheduler-conf-strict`.
    pub conf_strict: bool,
    /// `--schedule-period`.
    pub schedule_period: Duration,
    /// `--coalesce-window`.
    pub coalesce_window: Duration,
    /// `--default-queue`.
    pub default_queue: String,
    /// Whether pods without a PodGroup wait for a PodGroup controller.
    pub grouping: Grouped,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `--kube-api-qps` and `--kube-api-burst`, when they were given.
    pub rate: Option<(f64, u32)>,
    /// Where metrics and health are served.
    pub addresses: Addresses,
    /// `--profiling`.
    pub profiling: bool,
    /// `--priority-class`: watch PriorityClasses.
    pub priority_class: bool,
    /// `--node-selector`.
    pub node_selector: Vec<String>,
    /// `--http2`: one connection for all writes where the API server speaks HTTP/2.
    pub http2: bool,
    /// `--binds-in-flight`.
    pub in_flight: usize,
    /// `--scheduled-events`.
    pub scheduled_events: bool,
    /// `--leader-elect*`; `None` to lead without a lease.
    pub lease: Option<LeaseOptions>,
    /// `--controllers`: the controllers run in this process too, with a lease of their own.
    pub controllers: Option<ControllersOptions>,
    /// `--slow-cycle`.
    pub slow_cycle: Duration,
    /// `--otlp-endpoint`, an HTTP address.
    pub otlp_endpoint: Option<String>,
    /// `--seed`, or the seed that was drawn.
    pub seed: u64,
    /// `--pod-initial-backoff-seconds` and `--pod-max-backoff-seconds`.
    pub backoff: BackoffTimes,
    /// `--percentage-nodes-to-find` and its like.
    pub sampling: Option<Sampling>,
    /// `--journal-path` and its like.
    pub journal: Option<JournalOptions>,
}

/// Whether pods without a PodGroup wait for a PodGroup controller.
#[derive(Clone, Debug)]
pub struct Grouped {
    /// `--wait-for-podgroup` and `--wait-for-podgroup-timeout`.
    pub wait: GroupWait,
    /// `--leader-elect-resource-namespace`, where the lease of the controllers is.
    pub lease_namespace: String,
}

/// Runs the scheduler until a signal (Ok), or until it must not go on (Err). A scheduler.conf with errors is a
/// [`ConfError`](crate::reload::ConfError), before anything else happens.
pub fn run(options: SchedulerOptions) -> anyhow::Result<()> {
    let rules = Rules { known: Known::builtin().of(&options.scheduler_names), strict: options.conf_strict };
    let conf = ConfFile::open(options.conf.as_deref(), rules)?;
    let nodes = NodeSelector::parse(&options.node_selector)?;
    // One thread for all IO: with a second one, each of tens of thousands of small messages would wake the other.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("phalanx-io")
        .build()
        .context("cannot start the async runtime")?;
    let result = runtime.block_on(async {
        // Before anything starts: from here on a signal means a stop in order.
        let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let config = client::config(options.kubeconfig.as_deref(), options.master.as_deref()).await?;
        let faults = Arc::new(Faults::new(config.cluster_url.to_string()));
        let (wire, client) = (Wire::new(&config, options.http2)?, client::client(config)?);
        Process::start(options, conf, nodes, client, wire, faults).await?.live(signals).await
    });
    // A file read or a name lookup that hangs must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

/// The running parts.
struct Process {
    engine: std_mpsc::Sender<Input>,
    engine_ended: oneshot::Receiver<std::thread::Result<()>>,
    outbox: mpsc::UnboundedSender<driver::Input>,
    outbox_ended: tokio::task::JoinHandle<()>,
    tasks: JoinSet<anyhow::Result<()>>,
    /// No more cycles.
    close: tokio_watch::Sender<bool>,
    /// Give up the lease.
    stop: tokio_watch::Sender<bool>,
    /// How many tasks keep a lease.
    leases: usize,
    faults: Arc<Faults>,
}

impl SchedulerOptions {
    /// What objects are read with.
    fn names(&self) -> Names {
        Names { schedulers: self.scheduler_names.clone(), default_queue: self.default_queue.clone() }
    }
}

/// Serves the API, if it is on; what tells it of decisions.
async fn answer(
    options: &SchedulerOptions,
    client: &Client,
    engine: &std_mpsc::Sender<Input>,
) -> anyhow::Result<Notes> {
    let Some(address) = &options.addresses.api else { return Ok(Notes::default()) };
    let evictions = Arc::<Evictions>::default();
    let api = Api::new(client.clone(), engine.clone(), Arc::clone(&evictions));
    let api = api.with_names(options.names());
    let api = if options.profiling { api.with_profiles() } else { api };
    serve_api(address, Arc::new(api)).await?;
    evictions.follow().context("cannot start the thread of the API")
}

fn slow_cycles(options: &SchedulerOptions, clients: &Clients) -> SlowCycles {
    let spans = options.otlp_endpoint.as_deref().map(|endpoint| Spans::to(endpoint, clients.clone()));
    SlowCycles { threshold: options.slow_cycle, spans }
}

impl Process {
    async fn start(
        options: SchedulerOptions,
        conf: ConfFile,
        nodes: NodeSelector,
        client: Client,
        wire: Wire,
        faults: Arc<Faults>,
    ) -> anyhow::Result<Self> {
        let (metrics, health) = (Arc::<Metrics>::default(), Arc::<Health>::default());
        let (engine, inputs) = std_mpsc::channel();
        serve_pages(&options.addresses, &metrics, &health, Some(engine.clone())).await?;
        let notes = answer(&options, &client, &engine).await?;
        let (outbox, outputs) = mpsc::unbounded_channel();
        let (owners, seen) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let names = options.names();
        let sink = Sink {
            engine: engine.clone(),
            outbox: outbox.clone(),
            owners,
            metrics: Arc::clone(&metrics),
            names: Arc::new(names),
            nodes: Arc::new(nodes),
            faults: Arc::clone(&faults),
        };
        let waits_for = reads::watch_all(&mut tasks, &client, &sink, options.priority_class);
        if !matches!(options.grouping.wait, GroupWait::Always(_)) {
            reads::read_owners(&mut tasks, &client, seen, outbox.clone());
        }
        let waits_for = reads::look_for_controllers(&mut tasks, &client, &sink, &options.grouping, waits_for);
        health.wait_for(&waits_for);
        tasks.spawn(tell_waits(Arc::clone(&health)));
        let clients = Clients::default();
        let telemetry = Telemetry::new(Arc::clone(&metrics), slow_cycles(&options, &clients));
        let mut journal = journal(&options, &conf, &metrics)?;
        let scheduler = scheduler(&options, conf.conf(), &clients, &health, &mut journal);
        let scheduling = Engine {
            cluster: Cluster::new(ClusterOptions {
                default_queue: options.default_queue.as_str().into(),
                group_wait: options.grouping.wait,
            }),
            scheduler,
            pace: Pace::new(options.coalesce_window, options.schedule_period),
            waits_for,
            inputs,
            outbox: outbox.clone(),
            telemetry,
            health: Arc::clone(&health),
            leads: false,
            clock: CycleClock::default(),
            journal,
            notes,
            asked: SnapshotRequests::default(),
        };
        let engine_ended = spawn_engine(scheduling)?;
        let (close, closing) = tokio_watch::channel(false);
        let (stop, stopped) = tokio_watch::channel(false);
        let leases = 1 + usize::from(options.controllers.is_some());
        if let Some(options) = options.controllers.clone() {
            let (client, wire, faults) = (client.clone(), wire.clone(), Arc::clone(&faults));
            let parts = Parts { client, wire, faults, metrics: Arc::clone(&metrics), health: None };
            tasks.spawn(controllers::lead(options, parts, stopped.clone()));
        }
        let (gatekeeper, fence) = Gatekeeper::new();
        let wire = wire.behind(fence);
        let ready = ready(client.clone(), Arc::clone(&faults), closing);
        let outbox_ended =
            spawn_outbox(&options, wire, clients, ready, outputs, engine.clone(), Arc::clone(&metrics));
        conf::follow(&mut tasks, conf, &client, (engine.clone(), outbox.clone()), metrics);
        let cycles = (engine.clone(), Arc::clone(&health));
        lead(&mut tasks, options, client, Arc::clone(&faults), gatekeeper, cycles, stopped);
        Ok(Self { engine, engine_ended, outbox, outbox_ended, tasks, close, stop, leases, faults })
    }

    /// Until a signal, or until a part ends that must not.
    async fn live(mut self, (mut term, mut int): (Signal, Signal)) -> anyhow::Result<()> {
        let end = tokio::select! {
            _ = term.recv() => Ok("SIGTERM"),
            _ = int.recv() => Ok("SIGINT"),
            ended = &mut self.engine_ended => Err(engine_error(ended)),
            ended = &mut self.outbox_ended => Err(anyhow::anyhow!("the outbox ended: {ended:?}")),
            Some(ended) = self.tasks.join_next() => Err(task_error(ended)),
        };
        match end {
            Ok(signal) => {
                info!(signal, "stopping");
                tokio::select! {
                    () = self.stop() => {}
                    _ = term.recv() => warn!("stopped at once by a second signal"),
                    _ = int.recv() => warn!("stopped at once by a second signal"),
                }
                Ok(())
            }
            Err(error) => {
                error!("{error:#}");
                Err(error)
            }
        }
    }

    /// No more cycles; binds on their way are finished; the lease is released last.
    async fn stop(self) {
        // Each part may have ended on its own.
        let _ = self.engine.send(Input::Stop);
        let _ = tokio::time::timeout(FLUSH, self.engine_ended).await;
        let flush = if self.faults.is_silent() { FLUSH_IN_SILENCE } else { FLUSH };
        let _ = self.close.send(true);
        let _ = self.outbox.send(driver::Input::Finish(Instant::now() + flush));
        let _ = tokio::time::timeout(flush + Duration::from_secs(1), self.outbox_ended).await;
        let _ = self.stop.send(true);
        let mut tasks = self.tasks;
        // Watches never end by themselves; a lease does once it is released.
        let released = async {
            let mut held = self.leases;
            while held > 0
                && let Some(ended) = tasks.join_next().await
            {
                held -= usize::from(matches!(ended, Ok(Ok(()))));
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(3), released).await;
    }
}

/// A seed of the operating system.
pub fn drawn_seed() -> u64 {
    rand::make_rng::<Pcg64>().next_u64()
}

/// The scheduler of cycles.
fn scheduler(
    options: &SchedulerOptions,
    conf: &Conf,
    clients: &Clients,
    health: &Arc<Health>,
    journal: &mut Journal,
) -> Scheduler {
    info!(seed = options.seed, "nodes of equal score are chosen by this seed");
    let mut scheduler = Scheduler::new(conf.clone(), options.seed);
    scheduler.set_sampling(options.sampling);
    scheduler.set_retry_limits(RetryLimits { backoff: options.backoff, ..RetryLimits::default() });
    let extender = HttpExtender::new(Handle::current(), clients.clone(), Arc::clone(health));
    journal.equip(&mut scheduler, Arc::new(extender));
    scheduler
}

/// The journal, which begins with what the scheduler begins with.
fn journal(options: &SchedulerOptions, conf: &ConfFile, metrics: &Arc<Metrics>) -> anyhow::Result<Journal> {
    let Some(file) = &options.journal else { return Ok(Journal::default()) };
    let path = file.path.display().to_string();
    let open = Journal::open(file.clone(), Arc::clone(metrics));
    let mut journal =
        open.map_err(|error| client::BadFlag(format!("--journal-path {path}: {}", client::plain(&error))))?;
    journal.start(Start {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        inputs: file.inputs,
        seed: options.seed,
        default_queue: options.default_queue.as_str().into(),
        group_wait: options.grouping.wait,
        sampling: options.sampling,
        backoff: options.backoff,
        conf: Some(Arc::clone(conf.text())),
    });
    Ok(journal)
}

fn engine_error(ended: Result<std::thread::Result<()>, oneshot::error::RecvError>) -> anyhow::Error {
    match ended {
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            anyhow::anyhow!("the scheduling thread panicked: {text}")
        }
        Ok(Ok(())) | Err(_) => anyhow::anyhow!("the scheduling thread ended"),
    }
}

fn task_error(ended: Result<anyhow::Result<()>, tokio::task::JoinError>) -> anyhow::Error {
    match ended {
        Ok(Ok(())) => anyhow::anyhow!("a background task ended"),
        Ok(Err(error)) => error,
        Err(error) => anyhow::anyhow!("a background task panicked: {error}"),
    }
}

/// Says what the first cycle waits for, until it waits for nothing.
async fn tell_waits(health: Arc<Health>) -> anyhow::Result<()> {
    loop {
        tokio::time::sleep(STILL_WAITS).await;
        match health.missing() {
            Some(missing) => warn!("no cycle has run yet: {missing}"),
            // A task that ends would end the process.
            None => return std::future::pending().await,
        }
    }
}

/// Returns a panic of the thread as an error: the process must not go on as if cycles still ran.
fn spawn_engine(engine: Engine) -> anyhow::Result<oneshot::Receiver<std::thread::Result<()>>> {
    let (tell, ended) = oneshot::channel();
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(|| engine.run()));
        let _ = tell.send(result);
    };
    std::thread::Builder::new()
        .name("phalanx-cycle".to_owned())
        .spawn(body)
        .context("cannot start the scheduling thread")?;
    Ok(ended)
}

/// Whether PodGroups have a status subresource; `None` when the process ends before the API server says so. Nothing can
/// have been decided by then: no cycle runs before the PodGroups are listed.
async fn ready(
    client: Client,
    faults: Arc<Faults>,
    mut closing: tokio_watch::Receiver<bool>,
) -> Option<bool> {
    tokio::select! {
        has_status = bootstrap::pod_group_has_status(&client, &faults) => Some(has_status),
        _ = closing.wait_for(|closing| *closing) => None,
    }
}

fn spawn_outbox(
    options: &SchedulerOptions,
    wire: Wire,
    clients: Clients,
    ready: impl Future<Output = Option<bool>> + Send + 'static,
    outputs: mpsc::UnboundedReceiver<driver::Input>,
    engine: std_mpsc::Sender<Input>,
    metrics: Arc<Metrics>,
) -> tokio::task::JoinHandle<()> {
    let outbox = Outbox::new(OutboxOptions {
        in_flight: options.in_flight,
        hold: options.schedule_period,
        scheduled_events: options.scheduled_events,
        seed: drawn_seed(),
        ..OutboxOptions::default()
    });
    let limiter = options.rate.map(|(qps, burst)| Limiter::new(qps, burst, Instant::now()));
    let controller = options.scheduler_names.first().cloned().unwrap_or_default();
    tokio::spawn(async move {
        let Some(pod_group_status) = ready.await else { return };
        let context = Context { pod_group_status, controller, instance: hostname() };
        let report = move |events: Vec<Event>| {
            let _ = engine.send(Input::Events(events));
        };
        let clock = Clock::default();
        Driver { outbox, context, limiter, metrics, clients, clock, report }.run(wire, outputs).await;
    })
}

/// Creates the queues first, so that no group gets the reason that its queue is missing; cycles run even if that fails.
async fn begin(client: Client, default_queue: String, faults: Arc<Faults>, engine: std_mpsc::Sender<Input>) {
    let mut queues =
        tokio::spawn(async move { bootstrap::create_queues(&client, &default_queue, &faults).await });
    let _ = tokio::time::timeout(QUEUES_FIRST, &mut queues).await;
    let _ = engine.send(Input::Lead);
}

/// Campaigns, and lets cycles run once this process leads.
fn lead(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    options: SchedulerOptions,
    client: Client,
    faults: Arc<Faults>,
    fence: Gatekeeper,
    (engine, health): (std_mpsc::Sender<Input>, Arc<Health>),
    mut stop: tokio_watch::Receiver<bool>,
) {
    tasks.spawn(async move {
        let (queues, of_queues) = (client.clone(), Arc::clone(&faults));
        let begin = move || {
            tokio::spawn(begin(queues, options.default_queue, of_queues, engine));
        };
        if let Some(lease) = options.lease {
            return Ok(lease::hold(client, lease, &faults, fence, &health.pulse, begin, stop).await?);
        }
        fence.open();
        begin();
        // The sender lives until the process ends.
        let _ = stop.wait_for(|stop| *stop).await;
        Ok(())
    });
}

/// The name of this machine or pod.
pub fn hostname() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    std::env::var("HOSTNAME")
        .ok()
        .or_else(|| read("/proc/sys/kernel/hostname"))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "phalanx".to_owned())
}
