//! `phalanx queue list`.
use anyhow::{Result, anyhow};
use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_runtime::objects::Wanted;

use super::rows::{Row, shown};
use crate::exit::print;
use crate::remote::Connection;
use crate::remote::output::Format;

/// Flags of `queue list`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// More columns, or the objects themselves
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let remote = args.connection.open().await?;
    let queues = remote.objects.list::<Queue>(None, Wanted::All).await?;
    if let Some(data) = args.output.and_then(Format::data) {
        return print(&data.list(queues)?);
    }
    if queues.is_empty() {
        return print("No resources found\n");
    }
    let groups = remote.objects.list::<PodGroup>(None, Wanted::All).await;
    let groups = groups.map_err(|error| anyhow!("failed to list podgroups with err: {error}"))?;
    let rows = queues.iter().map(|queue| Row::of(queue, &groups)).collect::<Result<Vec<_>>>()?;
    print(&shown(&rows, args.output == Some(Format::Wide)))
}
