//! `phalanx conf`: what a scheduler.conf says and whether it may.
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_conf::{Known, Severity};

use crate::exit::{BadInput, print};
use crate::inputs::{self, problem_line};

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
    let name = file.display().to_string();
    let problems = phalanx_conf::parse(&inputs::text(file)?, &Known::builtin()).problems;
    print(&problems.iter().map(|problem| problem_line(&name, problem) + "\n").collect::<String>())?;
    let of = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    if errors > 0 || (strict && warnings > 0) {
        return Err(BadInput(format!("{name}: errors: {errors}, warnings: {warnings}")).into());
    }
    Ok(())
}
