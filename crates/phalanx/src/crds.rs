//! `phalanx crds`: the CustomResourceDefinitions.
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::exit::print;

/// Flags of `crds`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one file each into this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let crds = phalanx_api::crds();
    let Some(dir) = &args.dir else {
        let texts: Vec<String> = crds.into_iter().map(|(_, text)| text).collect();
        return print(&texts.join("---\n"));
    };
    fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
    for (name, text) in crds {
        let file = dir.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
