//! Files and folders to texts.
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Result;
use phalanx_conf::{Known, Parsed, Severity};
use phalanx_core::conf::Conf;
use phalanx_sim::Manifests;

use crate::exit::{BadInput, all_of, plain, tell};

/// Endings of the files that are read from a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Names that stand for standard input.
const STDIN: &str = "-";

/// Where manifests come from.
#[derive(Debug, clap::Args)]
pub(crate) struct ManifestArgs {
    /// Manifests: a file, a folder (its *.yaml, *.yml and *.json, folders in it too), or - for standard input.
    /// Objects without a creation time are created in the order of their documents; one bad object ends the run (exit
    /// code 2)
    #[arg(short = 'f', long = "filename", value_name = "FILE|DIR", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// Pods with this spec.schedulerName are scheduled; others only use what they have
    #[arg(long = "scheduler-name", value_name = "NAME", default_value = "volcano", value_delimiter = ',')]
    scheduler_names: Vec<String>,
    /// The queue of pods and PodGroups that name none
    #[arg(long, value_name = "QUEUE", default_value = "default")]
    pub(crate) default_queue: String,
}

impl ManifestArgs {
    /// The name of ours to put into a pod.
    pub(crate) fn first_name(&self) -> &str {
        self.scheduler_names.first().map_or("volcano", String::as_str)
    }

    /// Reads the manifests; notes on what was left out go to stderr.
    pub(crate) fn read(&self) -> Result<Manifests> {
        let sources = texts(&self.files)?;
        let options = phalanx_sim::ReadOptions {
            schedulers: self.scheduler_names.clone(),
            default_queue: self.default_queue.clone(),
        };
        let manifests = phalanx_sim::read(&sources, &options).map_err(|faults| all_of(&faults))?;
        for note in &manifests.notes {
            tell(format_args!("note: {note}"));
        }
        Ok(manifests)
    }
}

/// Notes on stderr: whom a scheduler with this configuration would ask, and a simulation does not.
pub(crate) fn tell_unasked(conf: &Conf, manifests: &Manifests) {
    for note in phalanx_sim::unasked(conf, manifests) {
        tell(format_args!("note: {note}"));
    }
}

/// The configuration in a file, or the built-in one. Warnings go to stderr.
pub(crate) fn conf(file: Option<&Path>) -> Result<Conf> {
    let name = file.map_or_else(|| "the built-in scheduler.conf".into(), shown);
    let text = match file {
        Some(file) => text(file)?,
        None => phalanx_conf::builtin_default().to_owned(),
    };
    let Parsed { conf, problems } = phalanx_conf::parse(&text, &Known::builtin());
    let (errors, warnings): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| problem.severity == Severity::Error);
    if let Some(conf) = conf {
        for warning in warnings {
            tell(format_args!("warning: {}", warning.in_file(&name)));
        }
        return Ok(conf);
    }
    let errors: Vec<String> = errors.into_iter().map(|error| error.in_file(&name)).collect();
    Err(all_of(&errors).into())
}

/// The text of a file.
pub(crate) fn text(file: &Path) -> Result<String, BadInput> {
    let bytes = if file.as_os_str() == STDIN { read_stdin() } else { fs::read(file) };
    let bytes = bytes.map_err(|error| unreadable(file, &error))?;
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = good.split(|byte| *byte == b'\n').count();
        BadInput(format!("{}:{line}: found bytes that are not UTF-8, expected text", shown(file)))
    })
}

fn texts(paths: &[PathBuf]) -> Result<Vec<(String, String)>, BadInput> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let found = files.len();
            collect(path, &mut files)?;
            if files.len() == found {
                let expected = "expected *.yaml, *.yml or *.json in it";
                return Err(BadInput(format!("{}: found no manifests, {expected}", path.display())));
            }
        } else {
            files.push(path.clone());
        }
    }
    files.iter().map(|file| Ok((shown(file), text(file)?))).collect()
}

/// The manifests of a folder and the folders in it, by name. Hidden ones are editors' and the kubelet's.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), BadInput> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries: Vec<PathBuf> =
        entries.map_err(|error| unreadable(folder, &error))?.iter().map(fs::DirEntry::path).collect();
    entries.sort();
    for entry in entries {
        let hidden = entry.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        let manifest = entry.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
        if hidden {
        } else if entry.is_dir() {
            collect(&entry, files)?;
        } else if manifest {
            files.push(entry);
        }
    }
    Ok(())
}

fn read_stdin() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The file as messages name it.
pub(crate) fn shown(file: &Path) -> String {
    if file.as_os_str() == STDIN { "<stdin>".into() } else { file.display().to_string() }
}

fn unreadable(file: &Path, error: &io::Error) -> BadInput {
    BadInput(format!("{}: cannot be read: {}", shown(file), plain(error)))
}
