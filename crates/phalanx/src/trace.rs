//! `phalanx trace`: jobs that arrive over time, as `simulate --trace` plays them.
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Subcommand;
use phalanx_runtime::journal::{Line, Reader};
use phalanx_sim::ReadOptions;
use phalanx_sim::trace::{Arrival, Generator, OpenbOptions, Recorded, RecordedJobs, Spread, Weighted, openb};

use crate::exit::{BadInput, counted, plain, print, tell};
use crate::flag;
use crate::inputs;

/// Where traces come from.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// From the trace openb of Alibaba (cluster-trace-gpu-v2023): its tasks, and its nodes as manifests
    Openb(OpenbArgs),
    /// Draw jobs from distributions
    Generate(GenerateArgs),
    /// From the journal that a live scheduler wrote with --journal-inputs: its jobs, with the times they came and ran
    Journal(JournalArgs),
    /// Print the typical pods of a trace, as arguments of plugin fragmentation
    Pods(PodsArgs),
}

/// Flags of `trace journal`.
#[derive(Debug, clap::Args)]
pub(crate) struct JournalArgs {
    /// The journal; the full files before it, FILE.1 and so on, are read too
    #[arg(value_name = "FILE")]
    journal: PathBuf,
}

/// Flags of `trace pods`.
#[derive(Debug, clap::Args)]
pub(crate) struct PodsArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Pods that request this resource
    #[arg(long, value_name = "NAME", default_value = "nvidia.com/gpu")]
    resource: String,
    /// At most so many kinds of pods, the most frequent
    #[arg(long, value_name = "N", default_value_t = 30, allow_negative_numbers = true, value_parser = flag::whole::<usize>(1..=1_000))]
    most: usize,
}

/// Flags of `trace openb`.
#[derive(Debug, clap::Args)]
pub(crate) struct OpenbArgs {
    /// The list of nodes (openb_node_list_all_node.csv)
    #[arg(long, value_name = "FILE")]
    nodes: PathBuf,
    /// A list of tasks (openb_pod_list_*.csv)
    #[arg(long, value_name = "FILE")]
    pods: PathBuf,
    /// Where to write the nodes and queues, as manifests for simulate -f
    #[arg(long, value_name = "FILE")]
    cluster: Option<PathBuf>,
    /// The resource of GPUs
    #[arg(long, value_name = "NAME", default_value = "nvidia.com/gpu")]
    gpu_resource: String,
    /// One task a second in an order drawn from this seed, and none ends: how full gets the cluster?
    #[arg(long, value_name = "SEED", allow_negative_numbers = true, value_parser = flag::whole::<u64>(0..=u64::MAX))]
    fill: Option<u64>,
}

/// Flags of `trace generate`.
#[derive(Debug, clap::Args)]
pub(crate) struct GenerateArgs {
    /// The same seed gives the same jobs
    #[arg(long, value_name = "S", default_value_t = 0, allow_negative_numbers = true, value_parser = flag::whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// How many jobs
    #[arg(long, value_name = "N", default_value_t = 1_000, allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=10_000_000))]
    jobs: u32,
    /// The time from one arrival to the next: fixed:SECONDS, uniform:FROM,TO, exp:MEAN or lognormal:MEDIAN,SIGMA
    #[arg(long, value_name = "SPREAD", default_value = "exp:60")]
    interarrival: Spread,
    /// How long the pods of a job run, in the same form
    #[arg(long, value_name = "SPREAD", default_value = "lognormal:600,1.5")]
    duration: Spread,
    /// Pods of a job, which run together or not at all: SIZE=WEIGHT,SIZE=WEIGHT,...
    #[arg(long, value_name = "WEIGHTS", default_value = "1=6,2=1,4=1,8=1,16=1")]
    size: Weighted<u32>,
    /// Queues: NAME=WEIGHT,...
    #[arg(long, value_name = "WEIGHTS", default_value = "default")]
    queue: Weighted<String>,
    /// Priorities: VALUE=WEIGHT,...; without it jobs have none
    #[arg(long, value_name = "WEIGHTS", allow_hyphen_values = true)]
    priority: Option<Weighted<i32>>,
    /// What each pod requests: NAME=QUANTITY,...
    #[arg(long, value_name = "REQUESTS", default_value = "cpu=4,memory=16Gi,nvidia.com/gpu=1", value_delimiter = ',', value_parser = request)]
    requests: Vec<(String, String)>,
}

fn request(text: &str) -> Result<(String, String), &'static str> {
    let (name, amount) = text.split_once('=').ok_or("expected NAME=QUANTITY,NAME=QUANTITY,...")?;
    Ok((name.to_owned(), amount.to_owned()))
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Openb(args) => from_openb(args),
        Command::Generate(args) => generate(args),
        Command::Journal(args) => journal(args),
        Command::Pods(args) => pods(args),
    }
}

fn from_openb(args: &OpenbArgs) -> Result<()> {
    let texts =
        [&args.nodes, &args.pods].map(|file| inputs::text(file).map(|text| (inputs::shown(file), text)));
    let [nodes, pods] = texts;
    let (nodes, pods) = (nodes?, pods?);
    let options = OpenbOptions { gpu: args.gpu_resource.clone(), fill: args.fill };
    let read = openb((&nodes.0, &nodes.1), (&pods.0, &pods.1), &options);
    let read = read.map_err(|fault| BadInput(fault.to_string()))?;
    if let Some(file) = &args.cluster {
        let text = read.cluster.iter().map(|object| format!("{object}\n")).collect::<Vec<_>>().concat();
        write(file, &text)?;
    }
    print_all(read.arrivals.into_iter())
}

fn generate(args: &GenerateArgs) -> Result<()> {
    let generator = Generator {
        seed: args.seed,
        jobs: args.jobs,
        interarrival: args.interarrival,
        duration: args.duration,
        size: args.size.clone(),
        queue: args.queue.clone(),
        priority: args.priority.clone(),
        requests: args.requests.iter().cloned().collect::<BTreeMap<_, _>>(),
    };
    generator.check().map_err(|wrong| BadInput(format!("--{wrong}")))?;
    print_all(generator.arrivals())
}

fn journal(args: &JournalArgs) -> Result<()> {
    let (mut jobs, mut began) = (RecordedJobs::default(), false);
    let in_file = |fault: &str| BadInput(format!("{}: {fault}", args.journal.display()));
    for line in Reader::new(&args.journal) {
        match line.map_err(|error| BadInput(error.to_string()))? {
            Line::Start(start) if !start.inputs => {
                let fault = "found decisions only, expected the journal of a scheduler with --journal-inputs";
                return Err(in_file(fault).into());
            }
            Line::Start(_) => {
                began = true;
                jobs.begin();
            }
            Line::Events(events) => events.iter().for_each(|event| jobs.event(event)),
            Line::Cycle(cycle) => jobs.cycle(cycle.now),
            Line::Dropped(_) => {
                tell("note: lines are missing in the journal: jobs may be missing, or end late");
            }
            Line::Standby(_) | Line::Conf(_) => {}
        }
    }
    let Recorded { arrivals, never_ran, still_there } = jobs.arrivals();
    if arrivals.is_empty() {
        let fault = if began { "found no job that ran or waits" } else { "found no start of a scheduler" };
        return Err(in_file(&format!("{fault}, expected a journal with jobs")).into());
    }
    if never_ran > 0 {
        tell(format_args!("note: {} deleted before a pod ran, left out", counted(never_ran, "job")));
    }
    if still_there > 0 {
        tell(format_args!("note: {} not ended, without a duration", counted(still_there, "job")));
    }
    print_all(arrivals.into_iter())
}

fn pods(args: &PodsArgs) -> Result<()> {
    let trace = inputs::trace(&args.file, &ReadOptions::default())?;
    print(&trace.typical_pods(&args.resource, args.most))
}

fn write(file: &Path, text: &str) -> Result<(), BadInput> {
    fs::write(file, text)
        .map_err(|error| BadInput(format!("{}: cannot be written: {}", file.display(), plain(&error))))
}

/// Prints lines. A closed pipe (`| head`) is no error.
fn print_all(arrivals: impl Iterator<Item = Arrival>) -> Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut lines = arrivals.map(|arrival| arrival.line());
    let written = lines.try_for_each(|line| out.write_all(line.as_bytes())).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("writing to standard output"),
    }
}
