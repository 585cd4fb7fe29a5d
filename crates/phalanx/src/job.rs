//! `phalanx job`: Jobs of a live cluster, with vcctl's flags, columns and messages.
mod delete;
mod events;
mod list;
mod run;
mod view;

use anyhow::Result;
use phalanx_api::batch::Job;
use phalanx_api::bus::Action;
use serde_json::Value;

use crate::exit::BadInput;
use crate::remote::{self, Connection, command, required};

/// Commands of `job`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a Job from flags, or from a file
    Run(run::Args),
    /// List Jobs
    List(list::Args),
    /// Show a Job and its events
    View(view::Args),
    /// Abort a Job: its pods are deleted until it is resumed
    Suspend(Named),
    /// Let an aborted Job go on
    Resume(Named),
    /// Delete a Job
    Delete(Named),
}

/// A Job.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Named {
    /// The namespace of the Job; that of the context unless it is given
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The name of the Job
    #[arg(short = 'N', long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl Named {
    /// The name, which a command of these words needs.
    fn required(&self, what: &str) -> Result<&str, BadInput> {
        required(self.name.as_deref(), &format!("job name is mandatory to {what} a particular job"))
    }
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => remote::run("job run", run::run(args)),
        Command::List(args) => remote::run("job list", list::run(args)),
        Command::View(args) => remote::run("job view", view::run(args)),
        Command::Suspend(job) => remote::run("job suspend", issue(job, "suspend", Action::AbortJob)),
        Command::Resume(job) => remote::run("job resume", issue(job, "resume", Action::ResumeJob)),
        Command::Delete(job) => remote::run("job delete", delete::run(job)),
    }
}

async fn issue(job: &Named, what: &str, action: Action) -> Result<()> {
    let name = job.required(what)?;
    let remote = job.connection.open().await?;
    let namespace = remote.namespace(job.namespace.as_deref());
    command::issue::<Job>(&remote.objects, Some(namespace), name, action).await
}

/// A Job as its fields, or which one cannot be read.
fn read(object: &Value) -> Result<Job> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    serde_json::from_value(object.clone())
        .map_err(|error| anyhow::anyhow!("Job {name:?} cannot be read: {error}"))
}
