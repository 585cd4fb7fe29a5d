//! The one binary: flags and wiring.
mod conf;
mod crds;
mod exit;
mod explain;
mod flag;
mod inputs;
mod sampling;
mod scheduler;
mod simulate;

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
    /// Schedule a cluster given as manifests, in virtual time
    Simulate(simulate::Args),
    /// Say why a PodGroup or a pod waits: of one cycle, as things are
    Explain(explain::Args),
    /// Check, compare or print a scheduler.conf
    #[command(subcommand)]
    Conf(conf::Command),
    /// Print or write the CustomResourceDefinitions
    Crds(crds::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => match flag::wrong_value(&error) {
            Some(line) => {
                exit::tell(line);
                return ExitCode::from(2);
            }
            None => error.exit(),
        },
    };
    let result = match cli.command {
        Command::Scheduler(args) => scheduler::run(*args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Conf(command) => conf::run(&command),
        Command::Crds(args) => crds::run(&args),
    };
    exit::code(result)
}
