//! `phalanx simulate`: manifests in, what the scheduler makes of them out.
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::ValueEnum;
use phalanx_sim::{Options, Simulation};

use crate::exit::{print, tell};
use crate::flag;
use crate::inputs::{self, ManifestArgs};
use crate::sampling::Sampled;

/// Flags of `simulate`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    manifests: ManifestArgs,
    /// The configuration; without it, Volcano's built-in default
    #[arg(long, value_name = "FILE")]
    scheduler_conf: Option<PathBuf>,
    /// Run this many cycles with no kubelet acting, instead of running until nothing changes
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = flag::whole::<u32>(1..=100_000))]
    cycles: Option<u32>,
    /// Decides among nodes of equal score; the same seed gives the same result
    #[arg(long, value_name = "S", default_value_t = 0, allow_negative_numbers = true, value_parser = flag::whole::<u64>(0..=u64::MAX))]
    seed: u64,
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
    let (conf, manifests) = args.manifests.read(args.scheduler_conf.as_deref())?;
    if let Some(warning) = args.sampling.warning() {
        tell(format_args!("note: {warning}"));
    }
    let left = phalanx_sim::left_to_others(&manifests.left, args.manifests.first_name());
    inputs::tell_unasked(&conf, &manifests);
    let options = Options {
        seed: args.seed,
        default_queue: args.manifests.default_queue.as_str().into(),
        sampling: args.sampling.sampling(),
    };
    let mut simulation = Simulation::new(manifests, conf, &options);
    let start = Instant::now();
    let mut clock = || start.elapsed().as_secs_f64();
    match args.cycles {
        Some(cycles) => simulation.run_cycles(cycles, &mut clock),
        None => simulation.run_to_rest(&mut clock)?,
    }
    let report = simulation.report();
    print(&match args.output {
        Format::Table => report.to_table(),
        Format::Json => report.to_json(),
        Format::Html => report.to_html(),
    })?;
    for note in left {
        tell(format_args!("note: {note}"));
    }
    Ok(())
}
