//! `phalanx explain`: why a Job, a PodGroup or a pod waits.
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{ArgGroup, ValueEnum};
use phalanx_cluster::event::Key;
use phalanx_explain::{Explanation, Question, Subject};
use phalanx_runtime::api::client::Place;
use phalanx_runtime::journal::{self, Happened, Line, Reader, history};
use phalanx_sim::{Options, Simulation, counting_clock};

use crate::exit::{BadInput, counted, print};
use crate::flag;
use crate::inputs::{self, ClusterArgs};
use crate::remote;
use crate::scheduler_api::{SchedulerArgs, VIEWER};

/// The first cycle places all that fits; the second gives the reasons of what still waits.
const CYCLES: u32 = 2;

/// Flags of `explain`.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("simulated").args(["files", "scheduler_conf"]).multiple(true).conflicts_with_all(["scheduler", "live"]))]
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
    /// Say instead what was decided about a pod or a PodGroup, when and why, by the journal of a scheduler
    /// (--journal-path); the full files before it are read too
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "scheduler_conf", "scheduler", "live"])]
    journal: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The configuration; without it, Volcano's built-in default
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Option<PathBuf>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// How to show the answer
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One object for programs
    Json,
    /// The same object as YAML
    Yaml,
}

impl Args {
    fn question(&self) -> Question {
        let subject = match self.kind {
            Kind::Job => Subject::Job,
            Kind::PodGroup => Subject::PodGroup,
            Kind::Pod => Subject::Pod,
        };
        Question { subject, namespace: self.namespace.clone(), name: self.name.clone() }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(journal) = &args.journal {
        return past(args, journal);
    }
    let answer = match args.scheduler.place() {
        Some(place) => live(args, &place)?,
        None => simulated(args)?,
    };
    print(&match args.output {
        Format::Text => answer.to_string(),
        Format::Json => serde_json::to_string_pretty(&answer)? + "\n",
        Format::Yaml => serde_yaml::to_string(&answer)?,
    })
}

/// What the live scheduler tells.
fn live(args: &Args, place: &Place) -> Result<Explanation> {
    remote::run("explain", async {
        let client = args.scheduler.open(place, &args.cluster.connection, VIEWER).await?;
        client.explain(&args.question()).await
    })
}

fn simulated(args: &Args) -> Result<Explanation> {
    let (conf, manifests) = args.cluster.source()?.read(args.scheduler_conf.as_deref())?;
    inputs::tell_unasked(&conf, &manifests);
    let default_queue = args.cluster.names.default_queue.as_str().into();
    let options = Options { default_queue, ..Options::default() };
    let mut simulation = Simulation::new(manifests, conf, &options);
    simulation.run_cycles(CYCLES, &mut counting_clock());
    let question = args.question();
    Ok(simulation.explain(&question).ok_or_else(|| missing(&simulation, &question))?)
}

/// What a journal tells, a line for each decision.
fn past(args: &Args, journal: &Path) -> Result<()> {
    let key = Key::new(&args.namespace, &args.name);
    let (kind, subject) = match args.kind {
        Kind::Pod => ("pod", journal::Subject::Pod(key.clone())),
        Kind::PodGroup => ("PodGroup", journal::Subject::PodGroup(key.clone())),
        Kind::Job => {
            let fault = "--journal tells of pods and PodGroups, expected pod or podgroup in place of job";
            return Err(BadInput(fault.to_owned()).into());
        }
    };
    let (mut told, mut times, mut found) = (Vec::new(), Vec::new(), false);
    for line in Reader::new(journal) {
        let line = line.map_err(|error| BadInput(error.to_string()))?;
        if let Line::Cycle(cycle) = &line {
            times.truncate(1);
            times.push(cycle.time.clone());
        }
        if let Line::Dropped(lines) = &line {
            told.push(format!("{} missing here\n", counted(*lines as usize, "journal line")));
        }
        for Happened { time, cycle, what } in history(&line, &subject) {
            told.push(format!("{time}  {what} (cycle {cycle})\n"));
            found = true;
        }
    }
    if !found {
        let when = match times.as_slice() {
            [] => "it has no cycle".to_owned(),
            [only] => format!("it has one cycle, of {only}"),
            [first, last, ..] => format!("it reaches from {first} to {last}"),
        };
        let path = journal.display();
        return Err(BadInput(format!("{path}: nothing was decided about {kind} {key}; {when}")).into());
    }
    print(&told.concat())
}

fn missing(simulation: &Simulation, question: &Question) -> BadInput {
    let Question { subject, namespace, name } = question;
    let elsewhere: Vec<String> = simulation.namespaces_of(question).into_iter().collect();
    let hint = match elsewhere.as_slice() {
        [] => String::new(),
        [only] => format!("; there is one in namespace {only} (-n {only})"),
        several => format!("; there are some in namespaces {}", several.join(", ")),
    };
    BadInput(format!("{subject} {namespace}/{name} is not in the input{hint}"))
}
