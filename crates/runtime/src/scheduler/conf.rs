//! The scheduler.conf of a scheduler that runs, and what it asks of other parts.
use std::sync::Arc;
use std::sync::mpsc as std_mpsc;
use std::time::Instant;

use anyhow::bail;
use kube::Client;
use phalanx_cluster::event::PodRef;
use phalanx_framework::conf::Conf;
use tokio::sync::{mpsc, watch as tokio_watch};
use tokio::task::JoinSet;
use tracing::warn;

use crate::engine::Input;
use crate::metrics::Metrics;
use crate::outbox::driver;
use crate::recorder::Note;
use crate::reload::{ConfFile, Reload};
use crate::usage::{self, Source};

/// Follows the configuration, tells what came of it, and asks for the figures of nodes that it wants.
pub(super) fn follow(
    tasks: &mut JoinSet<anyhow::Result<()>>,
    conf: ConfFile,
    client: &Client,
    (engine, outbox): (std_mpsc::Sender<Input>, mpsc::UnboundedSender<driver::Input>),
    metrics: Arc<Metrics>,
) {
    let (wants, wanted) = tokio_watch::channel(figures(conf.conf()));
    let (api, cycles, pod) = (client.clone(), engine.clone(), own_pod());
    tasks.spawn(async move {
        let tell = |events| {
            let _ = cycles.send(Input::Events(events));
        };
        usage::follow(api, wanted, tell).await;
        Ok(())
    });
    tasks.spawn(async move {
        let tell = |reload: Reload| {
            if let Some(pod) = &pod {
                let _ = outbox.send(driver::Input::Note(note(pod, &reload)));
            }
            let Reload::Taken { conf, text, .. } = reload else { return };
            let source = figures(&conf);
            wants.send_if_modified(|wanted| {
                let changed = *wanted != source;
                *wanted = source;
                changed
            });
            let _ = engine.send(Input::Conf(conf, text));
        };
        conf.follow(&metrics, tell).await;
        bail!("scheduler.conf is no longer followed")
    });
}

/// The event that tells what came of a new scheduler.conf.
fn note(pod: &PodRef, reload: &Reload) -> Note {
    match reload {
        Reload::Taken { changes, .. } if changes.is_empty() => {
            Note::conf_reloaded(pod, "scheduler.conf reloaded: it means the same".to_owned(), Instant::now())
        }
        Reload::Taken { changes, .. } => {
            Note::conf_reloaded(pod, format!("scheduler.conf reloaded: {changes}"), Instant::now())
        }
        Reload::Refused(problem) => {
            let stays = "the last good scheduler.conf stays in effect";
            Note::conf_refused(
                pod,
                &format!("{stays}: {}", problem.to_string().replace('\n', "; ")),
                Instant::now(),
            )
        }
    }
}

/// The pod of this process, where its manifest names it in the environment.
fn own_pod() -> Option<PodRef> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty()).map(Arc::from);
    let (namespace, name, uid) = (named("POD_NAMESPACE")?, named("POD_NAME")?, named("POD_UID")?);
    Some(PodRef { namespace, name, uid })
}

/// Where a configuration wants figures of nodes from.
fn figures(conf: &Conf) -> Option<Source> {
    Source::of(conf).unwrap_or_else(|error| {
        warn!("no figures of nodes: {error:#}");
        None
    })
}
