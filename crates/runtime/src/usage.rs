//! Measured use of nodes: asked for at intervals, told to the Cluster.
//!
//! Only while a plugin reads it. Source: `metrics` of scheduler.conf, with Volcano's keys, types and queries; without
//! it the metrics API. What cannot be had is said once and asked for again; figures grow old by themselves.
mod source;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use phalanx_cluster::event::{Event, NodeUsage};
use tokio::sync::watch;
use tracing::{debug, info, warn};

pub use source::{Place, Source};

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(10);

/// Asks for figures until the process ends; `wanted` changes with the configuration.
pub async fn follow(api: Client, mut wanted: watch::Receiver<Option<Source>>, tell: impl Fn(Vec<Event>)) {
    loop {
        let source = wanted.borrow_and_update().clone();
        let ended = match &source {
            Some(source) => poll(&api, source, &mut wanted, &tell).await,
            None => wanted.changed().await.is_err(),
        };
        if ended {
            return std::future::pending().await;
        }
    }
}

/// Asks one source until another source is configured. Returns true when no source will be asked any more.
async fn poll(
    api: &Client,
    source: &Source,
    wanted: &mut watch::Receiver<Option<Source>>,
    tell: &impl Fn(Vec<Event>),
) -> bool {
    let mut failing = false;
    let mut client = None;
    loop {
        let asked = match client.take() {
            Some(client) => Ok(client),
            None => source.client(api).await,
        };
        let answer = match &asked {
            Ok(client) => ask(client, source).await,
            Err(error) => Err(anyhow::anyhow!("{error:#}")),
        };
        // After a failure another client is made: it reads the password anew.
        client = asked.ok().filter(|_| answer.is_ok());
        match answer {
            Ok(usages) => {
                if std::mem::take(&mut failing) {
                    info!("figures of nodes are back");
                }
                debug!(nodes = usages.len(), "figures of nodes");
                tell(usages.into_iter().map(Event::from).collect());
            }
            Err(error) if failing => debug!("no figures of nodes yet: {error:#}"),
            Err(error) => {
                failing = true;
                warn!("no figures of nodes, trying again every {:?}: {error:#}", source.interval);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(source.interval) => {}
            changed = wanted.changed() => return changed.is_err(),
        }
    }
}

/// The figures of all nodes, as they are now.
pub async fn ask(client: &Client, source: &Source) -> anyhow::Result<Vec<NodeUsage>> {
    let answer = source.ask(client, Timestamp::now());
    let late = |_| anyhow::anyhow!("no answer within {PATIENCE:?}");
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}
