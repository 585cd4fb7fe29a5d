//! `phalanx explain`: why a Job, a PodGroup or a pod waits.
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use phalanx_sim::{Options, Simulation, Subject, counting_clock};

use crate::exit::{BadInput, print};
use crate::flag;
use crate::inputs::{self, ClusterArgs};

/// The first cycle places all that fits; the second gives the reasons of what still waits.
const CYCLES: u32 = 2;

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The kind of the object
    #[arg(value_enum)]
    kind: Kind,
    /// Its name
    #[arg(value_parser = flag::name())]
    name: String,
    /// Its namespace
    #[arg(short, long, default_value = "default", value_parser = flag::namespace())]
    namespace: String,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The configuration; without it, Volcano's built-in default
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A Job of Volcano: its PodGroup
    #[value(name = "job", alias = "vcjob")]
    Job,
    /// A PodGroup
    #[value(name = "podgroup", alias = "pg")]
    PodGroup,
    /// A pod
    Pod,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (conf, manifests) = args.cluster.source()?.read(args.scheduler_conf.as_deref())?;
    inputs::tell_unasked(&conf, &manifests);
    let default_queue = args.cluster.names.default_queue.as_str().into();
    let options = Options { default_queue, ..Options::default() };
    let mut simulation = Simulation::new(manifests, conf, &options);
    simulation.run_cycles(CYCLES, &mut counting_clock());
    let subject = match args.kind {
        Kind::Job => Subject::Job,
        Kind::PodGroup => Subject::PodGroup,
        Kind::Pod => Subject::Pod,
    };
    let text = simulation.explain(subject, &args.namespace, &args.name);
    print(&text.ok_or_else(|| missing(&simulation, subject, args))?)
}

fn missing(simulation: &Simulation, subject: Subject, args: &Args) -> BadInput {
    let elsewhere: Vec<String> = simulation.namespaces_of(subject, &args.name).into_iter().collect();
    let hint = match elsewhere.as_slice() {
        [] => String::new(),
        [only] => format!("; there is one in namespace {only} (-n {only})"),
        several => format!("; there are some in namespaces {}", several.join(", ")),
    };
    BadInput(format!("{subject} {}/{} is not in the input{hint}", args.namespace, args.name))
}
