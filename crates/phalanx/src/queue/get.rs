//! `phalanx queue get`.
use anyhow::{Result, anyhow};
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_runtime::objects::Wanted;

use super::rows::{Row, shown};
use crate::exit::print;
use crate::remote::output::Format;
use crate::remote::{Connection, required};

/// Flags of `queue get`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The name of the Queue
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// More columns, or the object itself
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let name = required(args.name.as_deref(), "name is mandatory to get the particular queue details")?;
    let remote = args.connection.open().await?;
    let queue = remote.objects.get::<Queue>(None, name).await?;
    if let Some(data) = args.output.and_then(Format::data) {
        return print(&data.one(queue)?);
    }
    let groups = remote.objects.list::<PodGroup>(None, Wanted::All).await;
    let groups =
        groups.map_err(|error| anyhow!("failed to list podgroup for queue {name} with err: {error}"))?;
    print(&shown(&[Row::of(&queue, &groups)?], args.output == Some(Format::Wide)))
}
