//! `cargo run -p phalanx-supply-chain -- check` and `-- sbom`.
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use phalanx_supply_chain::{Checksums, Policy, packages, sbom};

#[derive(Parser)]
#[command(about = "The packages that Phalanx is built from, without a network")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Holds licences, sources and versions of all packages to deny.toml: a line for each problem, exit code 1
    Check,
    /// Prints the packages that the program phalanx is built from as CycloneDX 1.5 (JSON)
    Sbom,
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let policy = fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let policy = Policy::parse(&policy).context("deny.toml")?;
    let metadata = packages(&root, &policy.graph.targets)?;
    match cli.command {
        Command::Check => {
            let problems = policy.problems(&metadata);
            for problem in &problems {
                eprintln!("{problem}");
            }
            eprintln!("{} packages, {} problems", metadata.packages.len(), problems.len());
            Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Sbom => {
            let bom = sbom(&metadata, &Checksums::read(&root)?, "phalanx")?;
            println!("{}", serde_json::to_string_pretty(&bom)?);
            Ok(ExitCode::SUCCESS)
        }
    }
}
