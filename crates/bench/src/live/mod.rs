//! Benchmarks on a real control plane, and what they have in common: contestants, the client, what a run used.
mod churn;
mod client;
mod contestant;
mod floor;
mod jobs;
mod latency;
mod preemption;
mod preload;
mod restart;
mod shapes;
mod soak;
mod usage;

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Subcommand;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use contestant::{Contestant, Groups, Load, Measured, Setup, scheduler_args};

/// Benchmarks on a real control plane.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// End to end on a real API server, beside the bare client loop and kube-scheduler.
    Floor(floor::Options),
    /// The same number of pods as gangs of different sizes, end to end.
    Shapes(shapes::Options),
    /// One pod at a time on an idle cluster, end to end.
    Latency(latency::Options),
    /// Gangs come and end at a steady rate, end to end, beside kube-scheduler.
    Churn(churn::Options),
    /// Gangs and Jobs come and end at a steady rate while processes are killed and connections are cut.
    Soak(soak::Options),
    /// Jobs of Volcano from submit to Completed, and until their pods are created beside a bare client loop.
    Jobs(jobs::Options),
    /// From a start beside running pods to the first bind.
    Restart(restart::Options),
    /// Resident memory beside running pods.
    Memory(restart::MemoryOptions),
}

impl Bench {
    pub(crate) fn run(&self) -> Result<Value> {
        match self {
            Bench::Floor(options) => block_on(floor::run(options)),
            Bench::Shapes(options) => block_on(shapes::run(options)),
            Bench::Latency(options) => block_on(latency::run(options)),
            Bench::Churn(options) => block_on(churn::run(options)),
            Bench::Soak(options) => block_on(soak::run(options)),
            Bench::Jobs(options) => block_on(jobs::run(options)),
            Bench::Restart(options) => block_on(restart::run(options)),
            Bench::Memory(options) => block_on(restart::memory(options)),
        }
    }

    /// Whether the measurement is within the limits of the command line.
    pub(crate) fn check(&self, figures: &Value) -> Result<()> {
        match self {
            Bench::Floor(options) => floor::check(options, figures),
            Bench::Jobs(options) => jobs::check(options, figures),
            Bench::Soak(_) => soak::check(figures),
            Bench::Shapes(_) | Bench::Latency(_) | Bench::Churn(_) | Bench::Restart(_) | Bench::Memory(_) => {
                Ok(())
            }
        }
    }
}

/// Ends at SIGINT and SIGTERM too, and then the processes that the benchmark has started are ended.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let (mut stop, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::select! {
            done = work => done,
            _ = stop.recv() => bail!("ended by SIGTERM"),
            _ = interrupt.recv() => bail!("ended by SIGINT"),
        }
    });
    // A build of the control plane is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(5));
    done
}
