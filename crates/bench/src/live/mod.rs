//! What benchmarks on a real control plane have in common: contestants, the client, and what a run used.
pub(crate) mod client;
mod contestant;
pub(crate) mod preload;
mod usage;

pub(crate) use contestant::{Contestant, Load, Measured, Setup, scheduler_args};
pub(crate) use usage::cpu_seconds;

use anyhow::Result;

/// Runs a benchmark that talks to servers.
pub(crate) fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(work)
}
