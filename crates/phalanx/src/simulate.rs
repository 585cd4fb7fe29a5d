//! `phalanx simulate`: manifests in, what the scheduler makes of them out.
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::ValueEnum;
use phalanx_framework::conf::Conf;
use phalanx_sim::{Comparison, Manifests, Options, Report};

use crate::exit::{BadInput, print, tell};
use crate::inputs::{self, ManifestArgs};
use crate::runs::{self, RunArgs};
use crate::sampling::Sampled;

/// Flags of `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    manifests: ManifestArgs,
    /// The configuration; without it, Volcano's built-in default. With two of them, what differs between both runs
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Vec<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    sampling: Sampled,
    /// How to show the result
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal
    Table,
    /// One object for programs
    Json,
    /// One page for a browser
    Html,
}

pub(crate) fn run(args: &Args) -> Result<()> {
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
    inputs::tell_unasked(&conf, &manifests);
    if let (Some(first), Some(second)) = (first, second) {
        compare(args, [first, second], conf, manifests)?;
    } else {
        let simulation = runs::run(conf, manifests, &options(args), args.run.cycles)?;
        print(&match args.output {
            Format::Table => simulation.report().to_table(),
            Format::Json => simulation.report().to_json(),
            Format::Html => simulation.to_html(),
        })?;
    }
    for note in left {
        tell(format_args!("note: {note}"));
    }
    Ok(())
}

fn report(args: &Args, conf: Conf, manifests: Manifests) -> Result<Report> {
    runs::report(conf, manifests, &options(args), args.run.cycles)
}

fn options(args: &Args) -> Options {
    Options {
        seed: args.run.seed,
        default_queue: args.manifests.names.default_queue.as_str().into(),
        sampling: args.sampling.sampling(),
        ..Options::default()
    }
}

fn compare(args: &Args, files: [&Path; 2], conf: Conf, manifests: Manifests) -> Result<()> {
    let other = inputs::conf(Some(files[1]))?;
    inputs::tell_unasked(&other, &manifests);
    let before = report(args, conf, manifests.clone())?;
    let after = report(args, other, manifests)?;
    let [first, second] = files.map(inputs::shown);
    let comparison = Comparison::of(&before, &after);
    print(&match args.output {
        Format::Table => comparison.to_table([&first, &second]),
        Format::Json => comparison.to_json(),
        Format::Html => {
            return Err(BadInput(
                "-o: found html, expected table or json with two configurations".to_owned(),
            )
            .into());
        }
    })
}
