//! The benchmarks: `cargo run --release -p phalanx-bench -- NAME [--nodes N --gangs G --size K]`.
//!
//! Each benchmark prints its figures, and as its last line one JSON object.

/// Prints a line; a closed pipe ends the benchmark.
macro_rules! say {
    ($($line:tt)*) => { $crate::print(format_args!($($line)*))? };
}

mod affinity;
mod backlog;
mod chart;
mod core;
mod events;
#[cfg(feature = "explain")]
mod explain;
#[cfg(feature = "faults")]
mod faults;
mod furnished;
mod generate;
mod idle;
#[cfg(feature = "journal")]
mod journal;
#[cfg(feature = "live")]
mod live;
mod machine;
mod network;
mod preempt;
mod refusal;
#[cfg(feature = "simulate")]
mod simulate;
mod supply;
#[path = "../../phalanx/src/usage.rs"]
mod usage;
mod view;

use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// As in the program, so that benchmarks in memory measure what it does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Benchmarks of Phalanx; each prints one JSON object as its last line")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Pods that ask something of other pods: in one zone, on hosts of their own, evenly over zones.
    Affinity(affinity::Options),
    /// Schedulers in a simulated world that fails: what was promised and not kept.
    #[cfg(feature = "faults")]
    Faults(faults::Options),
    /// A cycle for one gang that fits, without and with a backlog of gangs that never will.
    Backlog(backlog::Options),
    /// One session in memory: pending gangs on empty nodes.
    Core(core::Options),
    /// One session with HyperNodes in three tiers: gangs without a network topology, with a soft and a hard one.
    Network(network::Options),
    /// Gangs that arrive and finish: how near to each other their pods are, and how long they wait.
    NetworkLoad(network::load::Options),
    /// Batches of gangs on small clusters: how near their pods are, beside the best assignment that there is.
    NetworkBest(network::best::Options),
    /// One gang that evicts its way into a full cluster, and gangs that never fit.
    Preempt(preempt::Options),
    /// The refusal of a gang that cannot fit, in a cluster full of pods that could be evicted.
    Refusal(refusal::Options),
    /// What answers of the scheduler's API cost, and cycles while they are made.
    #[cfg(feature = "explain")]
    Explain(explain::Options),
    /// What one event costs in a cluster full of running pods.
    Events(events::Options),
    /// A cycle for one new pod in a cluster full of running ones.
    Idle(idle::Options),
    /// A simulation of many pods, from manifests to the report.
    #[cfg(feature = "simulate")]
    Simulate(simulate::Options),
    /// What the page shows of a full cluster with gangs that wait.
    View(view::Options),
    /// What a journal adds to the thread of the cycle.
    #[cfg(feature = "journal")]
    Journal(journal::Options),
    /// Draws what a benchmark printed.
    Chart(chart::Options),
    #[cfg(feature = "live")]
    #[command(flatten)]
    Live(live::Bench),
}

/// The size of a run.
#[derive(Args, Clone, Copy, Debug)]
struct Size {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 1000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Gangs.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true, value_parser = crate::count)]
    gangs: usize,
    /// Pods of a gang; each asks for 1 core and 4 GiB.
    #[arg(long, default_value_t = 100, allow_negative_numbers = true, value_parser = crate::count)]
    size: usize,
}

fn main() -> ExitCode {
    let cli: Cli = match usage::parse(
        &std::env::args_os().collect::<Vec<_>>(),
        "phalanx-bench",
        |command| command,
        |_, _, _| None,
        |line| eprintln!("{line}"),
    ) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    match run(cli.bench) {
        Ok(()) => ExitCode::SUCCESS,
        // A reader that has seen enough (`| head`) is no error.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(is_closed) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A flag's value that counts something.
fn count(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|count| *count > 0).ok_or("expected a whole number from 1 on")
}

/// The same of what need not be there.
fn count_or_0(text: &str) -> Result<usize, &'static str> {
    text.parse().map_err(|_| "expected a whole number from 0 on")
}

fn above_0(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|number: &f64| number.is_finite() && *number > 0.0)
        .ok_or("expected a number above 0")
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

fn print(line: fmt::Arguments<'_>) -> Result<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

fn run(bench: Bench) -> Result<()> {
    let result = match bench {
        Bench::Affinity(options) => affinity::run(&options)?,
        Bench::Backlog(options) => backlog::run(&options)?,
        Bench::Core(options) => core::run(&options)?,
        Bench::Preempt(options) => preempt::run(&options)?,
        Bench::Refusal(options) => refusal::run(&options)?,
        #[cfg(feature = "explain")]
        Bench::Explain(options) => explain::run(&options)?,
        #[cfg(feature = "faults")]
        Bench::Faults(options) => {
            let figures = faults::run(&options)?;
            say!("{figures}");
            return faults::check(&options, &figures);
        }
        Bench::Events(options) => events::run(&options)?,
        Bench::Idle(options) => idle::run(&options)?,
        Bench::Network(options) => network::run(&options)?,
        Bench::NetworkLoad(options) => network::load::run(&options)?,
        Bench::NetworkBest(options) => network::best::run(&options)?,
        #[cfg(feature = "simulate")]
        Bench::Simulate(options) => simulate::run(&options)?,
        Bench::View(options) => view::run(&options)?,
        #[cfg(feature = "journal")]
        Bench::Journal(options) => journal::run(&options)?,
        Bench::Chart(options) => return chart::run(&options),
        #[cfg(feature = "live")]
        Bench::Live(bench) => {
            let figures = bench.run()?;
            say!("{figures}");
            return bench.check(&figures);
        }
    };
    say!("{result}");
    Ok(())
}
