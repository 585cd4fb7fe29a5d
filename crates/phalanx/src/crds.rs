//! `phalanx crds`: the CustomResourceDefinitions.
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::exit::{BadInput, plain, print};

/// Flags of `crds`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one file each into this folder, which is made if it is not there, instead of printing them
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let crds = phalanx_api::crds();
    let Some(dir) = &args.dir else {
        let texts: Vec<String> = crds.into_iter().map(|(_, text)| text).collect();
        return print(&texts.join("---\n"));
    };
    fs::create_dir_all(dir).map_err(|error| unwritable(dir, "created", &error))?;
    for (name, text) in crds {
        let file = dir.join(name);
        fs::write(&file, text).map_err(|error| unwritable(&file, "written", &error))?;
    }
    Ok(())
}

fn unwritable(path: &Path, what: &str, error: &io::Error) -> BadInput {
    BadInput(format!("--dir {}: cannot be {what}: {}", path.display(), plain(error)))
}
