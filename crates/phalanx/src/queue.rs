//! `phalanx queue`: Queues of a live cluster, with vcctl's flags, columns and messages.
mod create;
mod delete;
mod get;
mod list;
mod operate;
mod rows;

use anyhow::Result;

use crate::remote;

/// Commands of `queue`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Create a Queue
    Create(create::Args),
    /// Delete a Queue
    Delete(delete::Args),
    /// Open or close a Queue, or change its weight or its capability
    Operate(operate::Args),
    /// List Queues with their PodGroups by phase
    List(list::Args),
    /// Show a Queue with its PodGroups by phase
    Get(get::Args),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Create(args) => remote::run("queue create", create::run(args)),
        Command::Delete(args) => remote::run("queue delete", delete::run(args)),
        Command::Operate(args) => remote::run("queue operate", operate::run(args)),
        Command::List(args) => remote::run("queue list", list::run(args)),
        Command::Get(args) => remote::run("queue get", get::run(args)),
    }
}
