//! `phalanx conf`: what a scheduler.conf says and whether it may.
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_conf::{Known, Parsed, Severity};
use phalanx_framework::conf::Conf;

use crate::exit::{BadInput, counted, print};
use crate::inputs;

/// Commands of `conf`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Print every problem of a file, one a line; exit with 2 when it would not take effect
    Check {
        /// The file, or - for standard input
        file: PathBuf,
        /// Warnings count as errors
        #[arg(long)]
        strict: bool,
    },
    /// Print what differs in meaning between two files, one difference a line
    Diff {
        /// The first file
        old: PathBuf,
        /// The second file
        new: PathBuf,
    },
    /// Print a file with every default filled in; without a file, the built-in default
    Show {
        /// The file, or - for standard input
        file: Option<PathBuf>,
    },
    /// Print the reference page of all actions, plugins, arguments and flags
    Reference,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Check { file, strict } => check(file, *strict),
        Command::Diff { old, new } => {
            let (old, new) = (inputs::conf(Some(old))?, inputs::conf(Some(new))?);
            print(&phalanx_conf::diff(&old, &new).into_iter().map(|line| line + "\n").collect::<String>())
        }
        Command::Show { file } => {
            let conf = inputs::conf(file.as_deref())?;
            print(&phalanx_conf::render(&conf, &Known::builtin()))
        }
        Command::Reference => print(&phalanx_conf::reference()),
    }
}

fn check(file: &Path, strict: bool) -> Result<()> {
    let name = inputs::shown(file);
    let Parsed { conf, problems } = phalanx_conf::parse(&inputs::text(file)?, &Known::builtin());
    let lines = problems.iter().map(|problem| format!("{}: {}\n", problem.severity, problem.in_file(&name)));
    print(&lines.collect::<String>())?;
    let of = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    match conf {
        Some(conf) if !strict || warnings == 0 => print(&format!("{name}: {}\n", summary(&conf, warnings))),
        _ => {
            let found = format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"));
            Err(BadInput(format!("{name}: {found}")).into())
        }
    }
}

fn summary(conf: &Conf, warnings: usize) -> String {
    let plugins = conf.tiers.iter().map(|tier| tier.plugins.len()).sum();
    let problems = if warnings == 0 { "no problems".to_owned() } else { counted(warnings, "warning") };
    let counts = [(conf.actions.len(), "action"), (conf.tiers.len(), "tier"), (plugins, "plugin")];
    let counts = counts.map(|(count, what)| counted(count, what)).join(", ");
    format!("{counts}, {problems}")
}
