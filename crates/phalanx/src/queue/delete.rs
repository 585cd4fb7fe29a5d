//! `phalanx queue delete`.
use anyhow::Result;
use phalanx_api::v1beta1::Queue;

use crate::remote::{Connection, required};

/// Flags of `queue delete`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The name of the Queue
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let name = required(args.name.as_deref(), "queue name must be specified")?;
    let remote = args.connection.open().await?;
    remote.objects.delete::<Queue>(None, name).await
}
