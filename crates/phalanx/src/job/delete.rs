//! `phalanx job delete`.
use anyhow::Result;
use phalanx_api::batch::Job;

use super::Named;
use crate::exit::print;

pub(super) async fn run(job: &Named) -> Result<()> {
    let name = job.required("delete")?;
    let remote = job.connection.open().await?;
    let namespace = remote.namespace(job.namespace.as_deref());
    remote.objects.delete::<Job>(Some(namespace), name).await?;
    print(&format!("delete job {name} successfully\n"))
}
