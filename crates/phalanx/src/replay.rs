//! `phalanx replay`: the cycles of a journal with inputs, run again.
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::ValueEnum;
use phalanx_runtime::journal::{
    Cycle, Difference, Line, Reader, Replay, ReplayError, Replayed, Start, words,
};
use serde_json::Value;

use crate::bar::Bar;
use crate::exit::{BadInput, counted, print, tell};

/// Flags of `replay`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A journal that a scheduler wrote with --journal-inputs; the full files before it, FILE.1 and so on, are read
    /// too
    #[arg(value_name = "FILE")]
    journal: PathBuf,
    /// How to show the decisions
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A line for each decision
    #[value(alias = "table")]
    Text,
    /// A line for each cycle, as in the journal
    Json,
    /// A document for each cycle
    Yaml,
}

/// What was replayed so far.
#[derive(Debug, Default)]
struct Count {
    cycles: usize,
    decisions: usize,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (mut replay, mut count) = (Replay::default(), Count::default());
    // Decisions that are printed on the same terminal show how far it is.
    let mut bar = (!io::stdout().is_terminal()).then(Bar::new);
    for line in Reader::new(&args.journal) {
        let line = line.map_err(|error| BadInput(error.to_string()))?;
        if let Line::Start(start) = &line {
            tell_version(start);
        }
        let replayed = match replay.take_in(line) {
            // As after a kill, or a full disk.
            Err(error @ ReplayError::Dropped { .. }) => {
                tell(format_args!("note: {}", in_file(args, &error.to_string())));
                continue;
            }
            other => other.map_err(|error| BadInput(in_file(args, &error.to_string())))?,
        };
        let Some(Replayed { cycle, difference }) = replayed else { continue };
        print(&shown(args.output, &cycle)?)?;
        if let Some(difference) = difference {
            bail!("{}", differs(&cycle, &difference));
        }
        count.cycles += 1;
        count.decisions += cycle.decisions.len();
        if let Some(bar) = &mut bar {
            bar.show(|| format!("{} replayed, until {}", counted(count.cycles, "cycle"), cycle.time));
        }
    }
    drop(bar);
    if !replay.began() {
        return Err(BadInput(in_file(args, "found no start of a scheduler, which replay begins with")).into());
    }
    let Count { cycles, decisions } = count;
    if cycles == 0 {
        tell(format_args!("note: {}", in_file(args, "it has no cycle, so nothing was replayed")));
        return Ok(());
    }
    tell(format_args!(
        "{} and {} replayed, all as recorded",
        counted(cycles, "cycle"),
        counted(decisions, "decision")
    ));
    Ok(())
}

fn in_file(args: &Args, fault: &str) -> String {
    format!("{}: {fault}", args.journal.display())
}

/// Another version may decide differently, which is no fault of it.
fn tell_version(start: &Start) {
    let this = env!("CARGO_PKG_VERSION");
    if start.version != this {
        let recorded = &start.version;
        tell(format_args!("note: recorded by version {recorded}, replayed by {this}: decisions may differ"));
    }
}

fn shown(output: Format, cycle: &Cycle<Value>) -> Result<String> {
    let line = |decision| format!("{}  cycle {}  {}\n", cycle.time, cycle.number, words(decision));
    match output {
        Format::Text => Ok(cycle.decisions.iter().map(line).collect()),
        Format::Json => Ok(serde_json::to_string(&Line::Cycle(cycle.clone()))? + "\n"),
        Format::Yaml => {
            // By way of JSON, so that both have the same fields.
            let value = serde_json::to_value(Line::Cycle(cycle.clone()))?;
            Ok("---\n".to_owned() + &serde_yaml::to_string(&value)?)
        }
    }
}

fn differs(cycle: &Cycle<Value>, difference: &Difference) -> String {
    let side = |decision: &Option<Value>| match decision {
        Some(decision) => decision.to_string(),
        None => "no such decision".to_owned(),
    };
    let Difference { position, recorded, replayed } = difference;
    let (number, time) = (cycle.number, &cycle.time);
    format!(
        "cycle {number} ({time}): decision {position} differs: recorded {}, replayed {}",
        side(recorded),
        side(replayed)
    )
}
