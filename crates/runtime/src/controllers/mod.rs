//! The controllers on the API server: `phalanx controllers`, and `phalanx scheduler --controllers`.
//!
//! ```text
//! API server --> watch --> machine (store, queue, reconcile, errands) --> driver --> API server
//!                            ^                                               |
//!                            +---------------- answers ----------------------+
//! ```
//! Watches begin when this process leads: what was observed before may be older than what the last leader wrote, and an
//! absent pod would then count as evicted.
mod concern;
mod driver;
mod errand;
mod gangs;
mod hyper_nodes;
mod machine;
mod probe;
mod queue;
mod reconcile;
mod ssh;
mod store;
mod table;
mod turns;
mod watch;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kube::Client;
use rand::Rng;
use rand_pcg::Pcg64;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{oneshot, watch as tokio_watch};
use tokio::task::JoinSet;
use tracing::{error, info};

use crate::client;
use crate::clock::Clock;
use crate::faults::Faults;
use crate::fence::Gatekeeper;
use crate::lease::{self, LeaseOptions};
use crate::limiter::Limiter;
use crate::metrics::Metrics;
use crate::pulse::Pulse;
use crate::scheduler::hostname;
use crate::server::{Addresses, Health, serve_pages};
use crate::wire::Wire;
pub use driver::{Driver, carry_out};
pub use errand::Ask;
pub use machine::{Came, Machine, MachineOptions, Ticket};
pub use phalanx_controllers::podgroup::OwnerTable;
pub use queue::Subject;
pub use store::{Claim, ClassValue, Fact, NamespaceQueue, Seen, SeenOwner, SeenPod, Watched};
pub use table::Identity;
pub use watch::Input;
pub use write::{Answer, Brought};

/// Volcano's name of the controllers: in events, and of their lease.
pub const NAME: &str = "vc-controller-manager";

/// How the controllers work.
#[derive(Clone, Debug)]
pub struct ControllersOptions {
    /// `--scheduler-name`: PodGroups are made for pods of these; the first one is the scheduler of Jobs that name none.
    pub scheduler_names: Vec<String>,
    /// `--podgroup-owners` and `--inherit-owner-annotations`: kinds whose objects may be the owner of a gang.
    pub owners: OwnerTable,
    /// `--kube-api-qps` and `--kube-api-burst`, when they were given.
    pub rate: Option<(f64, u32)>,
    /// Requests to the API server in flight at most.
    pub in_flight: usize,
    /// `--max-requeue-num`; `None` for never giving up.
    pub failures_max: Option<u32>,
    /// `--leader-elect*`; `None` to lead without a lease.
    pub lease: Option<LeaseOptions>,
    /// `--leader-elect-resource-namespace`: the namespace of the controllers' ConfigMap.
    pub namespace: String,
}

impl ControllersOptions {
    /// The defaults, without a lease, for Jobs and pods of these schedulers.
    pub fn new(scheduler_names: &[String]) -> Self {
        let MachineOptions { in_flight, failures_max, owners, .. } = MachineOptions::default();
        let scheduler_names = scheduler_names.to_vec();
        let namespace = "volcano-system".to_owned();
        Self { scheduler_names, owners, rate: None, in_flight, failures_max, lease: None, namespace }
    }
}

/// What the flags of `phalanx controllers` say.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// How the controllers work.
    pub controllers: ControllersOptions,
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--master`.
    pub master: Option<String>,
    /// `--http2`.
    pub http2: bool,
    /// Where metrics and health are served.
    pub addresses: Addresses,
}

/// Runs the controllers until a signal (Ok), or until they must not go on (Err).
pub fn run(options: ProcessOptions) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_name("phalanx-io")
        .build()
        .context("cannot start the async runtime")?;
    let result = runtime.block_on(async {
        let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let config = client::config(options.kubeconfig.as_deref(), options.master.as_deref()).await?;
        let faults = Arc::new(Faults::new(config.cluster_url.to_string()));
        let (wire, client) = (Wire::new(&config, options.http2)?, client::client(config)?);
        let (metrics, health) = (Arc::<Metrics>::default(), Arc::<Health>::default());
        serve_pages(&options.addresses, &metrics, &health, None).await?;
        let parts = Parts { client, wire, faults, metrics, health: Some(health) };
        live(options.controllers, parts, signals).await
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn live(
    options: ControllersOptions,
    parts: Parts,
    (mut term, mut int): (Signal, Signal),
) -> anyhow::Result<()> {
    let (stop, stopped) = tokio_watch::channel(false);
    let mut controllers = std::pin::pin!(lead(options, parts, stopped));
    let signal = tokio::select! {
        ended = &mut controllers => {
            let error = ended.err().unwrap_or_else(|| anyhow::anyhow!("the controllers ended"));
            error!("{error:#}");
            return Err(error);
        }
        _ = term.recv() => "SIGTERM",
        _ = int.recv() => "SIGINT",
    };
    info!(signal, "stopping");
    let _ = stop.send(true);
    let _ = tokio::time::timeout(Duration::from_secs(3), controllers).await;
    Ok(())
}

/// What the controllers share with the rest of the process.
#[derive(Clone)]
pub struct Parts {
    /// For watches and the lease.
    pub client: Client,
    /// For writes.
    pub wire: Wire,
    /// Tells what is wrong, once.
    pub faults: Arc<Faults>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Told which lists are missing; absent where the pages are the scheduler's.
    pub health: Option<Arc<Health>>,
}

/// Campaigns, and runs the controllers while this process leads. Returns when the lease was lost (`Err`) or, after
/// `stop`, released (`Ok`).
pub async fn lead(
    options: ControllersOptions,
    parts: Parts,
    mut stop: tokio_watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let (gatekeeper, fence) = Gatekeeper::new();
    let Parts { client, wire, faults, metrics, health } = parts;
    // Who waits for the lease is ready: there is nothing else that it could do.
    if let Some(health) = &health {
        health.wait_for(&[].into());
    }
    let (tell, begun) = oneshot::channel();
    let lease = options.lease.clone();
    let own_metrics = health.is_some().then(|| Arc::clone(&metrics));
    let begin = move || {
        if let Some(metrics) = own_metrics {
            metrics.leads(true);
        }
        // The receiver ends with the process.
        let _ = tell.send(());
    };
    let parts = Parts {
        client: client.clone(),
        wire: wire.behind(fence),
        faults: Arc::clone(&faults),
        metrics,
        health,
    };
    let work = async {
        if begun.await.is_ok() {
            work(options, parts).await;
        }
        std::future::pending::<()>().await;
    };
    let hold = async {
        if let Some(lease) = lease {
            let pulse = Pulse::default();
            return Ok(lease::hold(client, lease, &faults, gatekeeper, &pulse, begin, stop).await?);
        }
        gatekeeper.open();
        begin();
        let _ = stop.wait_for(|stop| *stop).await;
        Ok(())
    };
    tokio::select! {
        held = hold => held,
        () = work => Ok(()),
    }
}

/// Watches, reconciles and writes, for as long as it is polled.
async fn work(options: ControllersOptions, parts: Parts) {
    let Parts { client, wire, faults, metrics, health } = parts;
    let (inputs, receiver) = driver::channel();
    let mut watches = JoinSet::new();
    let sink = watch::Sink { inputs, metrics: Arc::clone(&metrics), faults };
    watch::all(&mut watches, &client, &sink, &options.scheduler_names);
    watch::hyper_nodes(&mut watches, &client, &sink, &options.namespace);
    watch::owners(&mut watches, &client, &sink, &options.owners);
    let scheduler_name = options.scheduler_names.first().cloned();
    let machine = Machine::new(MachineOptions {
        scheduler_name: scheduler_name.unwrap_or_else(|| "volcano".to_owned()),
        owners: options.owners,
        in_flight: options.in_flight,
        failures_max: options.failures_max,
        seed: rand::make_rng::<Pcg64>().next_u64(),
        ..MachineOptions::default()
    });
    let limiter = options.rate.map(|(qps, burst)| Limiter::new(qps, burst, Instant::now()));
    let reporter = (NAME.to_owned(), hostname());
    Driver { machine, limiter, metrics, health, reporter, clock: Clock::default() }.run(wire, receiver).await;
}
