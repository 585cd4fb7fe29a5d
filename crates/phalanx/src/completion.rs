//! `phalanx completion`: scripts for shells.
use anyhow::Result;
use clap::{Command, ValueEnum};
use clap_complete::Shell;

use crate::exit::print;
use crate::program::Program;

/// Flags of `completion`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Supported,
}

/// Shells for which there is a script.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Supported {
    /// source <(phalanx completion bash)
    Bash,
    /// source <(phalanx completion zsh), after compinit
    Zsh,
    /// phalanx completion fish | source
    Fish,
}

/// The script completes the name under which the program was called.
pub(crate) fn run(args: &Args, mut command: Command) -> Result<()> {
    let shell = match args.shell {
        Supported::Bash => Shell::Bash,
        Supported::Zsh => Shell::Zsh,
        Supported::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, Program::current().file(), &mut script);
    print(&String::from_utf8_lossy(&script))
}
