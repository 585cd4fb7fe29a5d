//! The one binary: flags and wiring.
mod bar;
mod capture;
mod completion;
mod conf;
mod controllers;
mod crds;
mod deployed;
mod examples;
mod exit;
mod explain;
mod flag;
mod flow;
mod inputs;
mod job;
mod paint;
mod pod;
mod podgroups;
mod program;
mod queue;
mod remote;
mod replay;
mod runs;
mod sampling;
mod scheduler;
mod scheduler_api;
mod simulate;
mod top;
mod trace;
mod usage;
mod vcctl;
mod whatif;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use program::Program;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
    /// Run the controllers of Jobs, PodGroups, Queues, CronJobs and JobFlows; takes vc-controller-manager's flags
    Controllers(Box<controllers::Args>),
    /// Schedule a cluster given as manifests, in virtual time
    Simulate(simulate::Args),
    /// Make traces of jobs that arrive over time, which simulate --trace plays
    #[command(subcommand)]
    Trace(trace::Command),
    /// Say why a Job, a PodGroup, a pod or another owner of pods waits: once all that has room is placed, or as the
    /// live scheduler sees it. With --journal, what was decided about it
    Explain(explain::Args),
    /// Show queues and what waits in them, as the live scheduler sees it
    Top(top::Args),
    /// Say what a change would do: other objects, nodes drained or added, another scheduler.conf
    Whatif(whatif::Args),
    /// Print a copy of a live cluster, which simulate, explain and whatif read
    Capture(capture::Args),
    /// Run the recorded cycles of a scheduler again, and say where they decide differently
    Replay(replay::Args),
    /// Check, compare or print a scheduler.conf
    #[command(subcommand)]
    Conf(conf::Command),
    /// Print or write the CustomResourceDefinitions
    Crds(crds::Args),
    /// Create, list, show, suspend, resume and delete Jobs
    #[command(subcommand)]
    Job(job::Command),
    /// Create, list, show, open, close and delete Queues
    #[command(subcommand)]
    Queue(queue::Command),
    /// List pods of Jobs and of queues
    #[command(subcommand)]
    Pod(pod::Command),
    /// Create, list, show and delete JobFlows
    #[command(subcommand)]
    Jobflow(flow::Command),
    /// Create, list, show and delete JobTemplates
    #[command(subcommand)]
    Jobtemplate(flow::Command),
    /// Print the version
    Version,
    /// Print a script with which a shell completes commands and flags
    Completion(completion::Args),
}

fn main() -> ExitCode {
    let program = Program::current();
    let args = program.arguments(std::env::args_os().collect());
    let help = |error: &_, command: &_, args: &_| {
        (program == Program::Vcctl).then(|| vcctl::help(error, command, args)).flatten()
    };
    let cli: Cli = match usage::parse(&args, program.name(), examples::added, help, exit::tell) {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let result = match cli.command {
        Command::Scheduler(args) => scheduler::run(*args),
        Command::Controllers(args) => controllers::run(*args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Trace(command) => trace::run(&command),
        Command::Explain(args) => explain::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Whatif(args) => whatif::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Conf(command) => conf::run(&command),
        Command::Crds(args) => crds::run(&args),
        Command::Job(command) => job::run(&command),
        Command::Queue(command) => queue::run(&command),
        Command::Pod(command) => pod::run(&command),
        Command::Jobflow(command) => flow::flows(&command),
        Command::Jobtemplate(command) => flow::templates(&command),
        Command::Version => exit::print(concat!("Version: ", env!("CARGO_PKG_VERSION"), "\n")),
        Command::Completion(args) => completion::run(&args, <Cli as clap::CommandFactory>::command()),
    };
    exit::code(result)
}
