//! What the commands on objects of a live cluster share.
pub(crate) mod amounts;
pub(crate) mod command;
pub(crate) mod manifest;
pub(crate) mod output;
pub(crate) mod table;
pub(crate) mod times;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use phalanx_runtime::client::BadFlag;
use phalanx_runtime::objects::Objects;

use crate::exit::BadInput;
use crate::flag;
use crate::program::Program;

/// How the API server is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct Connection {
    /// The address of the API server, in place of the kubeconfig's
    #[arg(short = 's', long, value_name = "URL", default_value = "", hide_default_value = true)]
    master: String,
    /// A kubeconfig; without it KUBECONFIG, the home directory, or the pod's service account
    #[arg(short = 'k', long, value_name = "FILE", default_value = "", hide_default_value = true)]
    kubeconfig: String,
    #[command(flatten)]
    klog: Klog,
}

/// Flags of logs that vcctl has. Nothing is logged here.
#[derive(Debug, clap::Args)]
struct Klog {
    /// No effect: nothing is logged
    #[arg(short = 'v', long = "v", value_name = "LEVEL", hide = true)]
    _verbosity: Option<String>,
    /// No effect: nothing is logged
    #[arg(long = "vmodule", value_name = "SPEC", hide = true)]
    _vmodule: Option<String>,
    /// No effect: nothing is logged
    #[arg(long = "log-flush-frequency", value_name = "DURATION", hide = true)]
    _log_flush_frequency: Option<String>,
}

/// The namespaces of a list.
#[derive(Debug, clap::Args)]
pub(crate) struct Namespaces {
    /// The namespace; that of the context unless it is given
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, default_value = "false", hide_default_value = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = flag::boolean(), value_name = "BOOL")]
    pub(crate) all_namespaces: bool,
}

impl Namespaces {
    /// The one that is meant, or `None` for all. As with client-go, an empty name means all.
    pub(crate) fn of<'a>(&'a self, remote: &'a Remote) -> Option<&'a str> {
        let one = remote.namespace(self.namespace.as_deref());
        Some(one).filter(|one| !self.all_namespaces && !one.is_empty())
    }
}

/// A cluster, and the namespace that counts where none is given.
pub(crate) struct Remote {
    pub(crate) objects: Objects,
    namespace: String,
}

impl Connection {
    /// `--kubeconfig`, if it is given.
    pub(crate) fn kubeconfig(&self) -> Option<PathBuf> {
        Some(&self.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    /// `--master`, if it is given.
    pub(crate) fn master(&self) -> Option<&str> {
        Some(&*self.master).filter(|url| !url.is_empty())
    }

    /// Finds the API server; the first request connects. As vcctl, the namespace of the context is not read.
    pub(crate) async fn open(&self) -> Result<Remote> {
        let objects = Objects::of(self.kubeconfig().as_deref(), self.master()).await;
        let objects = objects.map_err(bad_flag)?;
        let namespace = match Program::current() {
            Program::Vcctl => "default".to_owned(),
            _ => objects.namespace().to_owned(),
        };
        Ok(Remote { objects, namespace })
    }
}

impl Remote {
    /// The namespace that is given, or else that of the context.
    pub(crate) fn namespace<'a>(&'a self, given: Option<&'a str>) -> &'a str {
        given.unwrap_or(&self.namespace)
    }
}

/// A value of a flag that cannot be used is bad input.
pub(crate) fn bad_flag(error: anyhow::Error) -> anyhow::Error {
    match error.downcast::<BadFlag>() {
        Ok(bad) => BadInput(bad.0).into(),
        Err(error) => error,
    }
}

/// Runs a command to its end. Its errors have vcctl's form where the program is named so.
pub(crate) fn run<T>(command: &str, task: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime.context("starting the client").and_then(|runtime| runtime.block_on(task));
    match Program::current() {
        Program::Vcctl => result.map_err(|error| crate::exit::of_vcctl(command, &error)),
        _ => result,
    }
}

/// The text of a flag that must not be empty, or this error.
pub(crate) fn required<'a>(text: Option<&'a str>, missing: &str) -> Result<&'a str, BadInput> {
    text.filter(|text| !text.is_empty()).ok_or_else(|| BadInput(missing.to_owned()))
}
