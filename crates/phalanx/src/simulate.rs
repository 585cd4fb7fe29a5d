//! `phalanx simulate`: manifests in, what the scheduler makes of them out.
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use phalanx_framework::conf::Conf;
use phalanx_sim::trace::{self, Run, Trace, TraceReport};
use phalanx_sim::{Manifests, Options};

use crate::bar::Bar;
use crate::exit::{BadInput, print, tell};
use crate::flag;
use crate::inputs::{self, ManifestArgs};
use crate::remote::output::Form;
use crate::runs::{self, RunArgs};
use crate::sampling::Sampled;

/// Flags of `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    manifests: ManifestArgs,
    /// The configuration; without it, Volcano's built-in default. With two of them, what differs between both runs;
    /// with --trace, as many as you like side by side
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Vec<PathBuf>,
    /// Pods, PodGroups, Queues and Volcano's objects appear at their metadata.creationTimestamp, in virtual time that
    /// begins with the first that waits
    #[arg(long, conflicts_with = "cycles")]
    arrivals: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    sampling: Sampled,
    /// How to show the result
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

/// How a trace is played.
#[derive(Debug, clap::Args)]
struct TraceArgs {
    /// Jobs that arrive over time on the cluster of the manifests: a file that phalanx trace makes, or - for standard
    /// input. The result is use, waiting, fairness, fragments and lost work over time. With several of them, the details
    /// are of the first, and each figure has its least, median and most over all
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cycles", "arrivals"])]
    trace: Vec<PathBuf>,
    /// With --trace: play under so many seeds, from --seed on; each figure has its least, median and most over all
    #[arg(long, value_name = "N", requires = "trace", allow_negative_numbers = true, value_parser = flag::whole::<u64>(1..=1_000))]
    seeds: Option<u64>,
    /// With --trace: the resource of queues and fragments; without it, the device that most pods request, or else cpu
    #[arg(long, value_name = "NAME", requires = "trace")]
    resource: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    #[value(alias = "table")]
    Text,
    /// The same with exact amounts and the names of all nodes
    Wide,
    /// One object for programs
    Json,
    /// The same object as YAML
    Yaml,
    /// One page for a browser
    Html,
}

impl Format {
    /// The form of the result itself; `None` for a page.
    fn form(self) -> Option<Form> {
        match self {
            Self::Text => Some(Form::Text),
            Self::Wide => Some(Form::Wide),
            Self::Json => Some(Form::Json),
            Self::Yaml => Some(Form::Yaml),
            Self::Html => None,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if !args.trace.trace.is_empty() {
        return play(args);
    }
    let (first, second) = match args.scheduler_conf.as_slice() {
        [] => (None, None),
        [one] => (Some(one.as_path()), None),
        [one, other] => (Some(one.as_path()), Some(other.as_path())),
        _ => {
            return Err(
                BadInput("--scheduler-conf: found more than two, expected one or two".to_owned()).into()
            );
        }
    };
    let (conf, manifests) = args.manifests.source().read(first)?;
    if let Some(warning) = args.sampling.warning() {
        tell(format_args!("note: {warning}"));
    }
    let left = phalanx_sim::left_to_others(&manifests.left, args.manifests.names.first());
    inputs::tell_not_simulated(&conf, &manifests);
    if let (Some(first), Some(second)) = (first, second) {
        compare(args, [first, second], conf, manifests)?;
    } else {
        let simulation = runs::run(conf, manifests, &args.options(), args.run.cycles)?;
        match args.output.form() {
            Some(form) => {
                let report = simulation.report();
                form.print(&report, |detail| report.tables(detail))
            }
            None => print(&simulation.to_html()),
        }?;
    }
    for note in left {
        tell(format_args!("note: {note}"));
    }
    Ok(())
}

impl Args {
    fn options(&self) -> Options {
        Options {
            seed: self.run.seed,
            default_queue: self.manifests.names.default_queue.as_str().into(),
            sampling: self.sampling.sampling(),
            arrivals: self.arrivals,
            ..Options::default()
        }
    }
}

/// Plays traces under each configuration.
fn play(args: &Args) -> Result<()> {
    let names = args.manifests.names.read_options();
    let files = &args.trace.trace;
    let traces = files.iter().map(|file| inputs::trace(file, &names)).collect::<Result<Vec<Trace>, _>>()?;
    let confs = confs(&args.scheduler_conf)?;
    let manifests = args.manifests.source().manifests()?;
    if let Some(warning) = args.sampling.warning() {
        tell(format_args!("note: {warning}"));
    }
    let beyond: BTreeSet<String> = traces.iter().flat_map(|trace| trace.queues_beyond(&manifests)).collect();
    for queue in beyond {
        tell(format_args!(
            "note: queue {queue} of the trace is not in the manifests; it is made, with weight 1"
        ));
    }
    let mut plays = Vec::new();
    for (name, conf) in &confs {
        inputs::tell_not_simulated(conf, &manifests);
        plays.push(runs_of(args, &traces, (name, conf), &manifests)?);
    }
    let report = TraceReport::of(plays);
    match args.output.form() {
        Some(form) => form.print(&report, |_| report.to_table()),
        None => print(&report.to_html()),
    }
}

/// The runs of a configuration: each trace under each seed.
fn runs_of(
    args: &Args,
    traces: &[Trace],
    (name, conf): (&str, &Conf),
    manifests: &Manifests,
) -> Result<Vec<Run>> {
    let resource = args.trace.resource.as_deref();
    let seeds = args.trace.seeds.unwrap_or(1);
    let all = traces.len() as u64 * seeds;
    let mut runs = Vec::new();
    for trace in traces {
        for number in 0..seeds {
            let options = Options { seed: args.run.seed.wrapping_add(number), ..args.options() };
            let shown = if all == 1 { name.to_owned() } else { format!("{name} {}/{all}", runs.len() + 1) };
            let mut bar = Bar::new();
            let conf = (name, conf.clone());
            let run = trace::play(trace, manifests.clone(), conf, &options, resource, &mut |progress| {
                bar.show_trace(&shown, progress);
            });
            drop(bar);
            runs.push(run?);
        }
    }
    Ok(runs)
}

/// Configurations by the names of their files.
fn confs(files: &[PathBuf]) -> Result<Vec<(String, Conf)>, BadInput> {
    if files.is_empty() {
        return Ok(vec![("built-in".to_owned(), inputs::conf(None)?)]);
    }
    files.iter().map(|file| Ok((inputs::shown(file), inputs::conf(Some(file))?))).collect()
}

fn compare(args: &Args, files: [&Path; 2], conf: Conf, manifests: Manifests) -> Result<()> {
    let other = inputs::conf(Some(files[1]))?;
    inputs::tell_not_simulated(&other, &manifests);
    let sides = [(conf, manifests.clone()), (other, manifests)];
    let comparison = runs::compare(sides, &args.options(), args.run.cycles)?;
    let [first, second] = files.map(inputs::shown);
    match args.output.form() {
        Some(form) => form.print(&comparison, |detail| comparison.to_table([&first, &second], detail)),
        None => print(&comparison.to_html([&first, &second])),
    }
}
