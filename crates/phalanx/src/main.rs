//! The one binary: flags and wiring.
mod conf;
mod controllers;
mod crds;
mod exit;
mod explain;
mod flag;
mod inputs;
mod sampling;
mod scheduler;
mod simulate;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Phalanx: a batch and gang scheduler for Kubernetes that reads Volcano's objects and configuration.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Schedule a live cluster; takes vc-scheduler's flags
    Scheduler(Box<scheduler::Args>),
    /// Run the controllers of Jobs, Queues, CronJobs and JobFlows; takes vc-controller-manager's flags
    Controllers(Box<controllers::Args>),
    /// Schedule a cluster given as manifests, in virtual time
    Simulate(simulate::Args),
    /// Say why a PodGroup or a pod waits once all that has room is placed; no pod starts or ends
    Explain(explain::Args),
    /// Check, compare or print a scheduler.conf
    #[command(subcommand)]
    Conf(conf::Command),
    /// Print or write the CustomResourceDefinitions
    Crds(crds::Args),
}

fn main() -> ExitCode {
    let cli: Cli = match usage::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        Command::Scheduler(args) => scheduler::run(*args),
        Command::Controllers(args) => controllers::run(*args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Conf(command) => conf::run(&command),
        Command::Crds(args) => crds::run(&args),
    };
    exit::code(result)
}
