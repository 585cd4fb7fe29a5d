//! `phalanx capture`: a copy of a cluster, as manifests that `simulate` and `explain` read; or of a running scheduler,
//! as a journal that `replay` reads.
mod names;

use std::io::{self, Write as _};

use anyhow::{Context as _, Result};
use phalanx_runtime::objects::Listed;
use serde_json::Value;

use crate::bar::Bar;
use crate::exit::{counted, tell};
use crate::remote::{self, Connection, Remote};
use crate::scheduler_api::SchedulerArgs;
use names::Names;

/// The service account that lends its token for what a scheduler has recorded.
const ACCOUNT: &str = "phalanx-capture";

/// Flags of `capture`. With --live or --scheduler, the scheduler is copied for `phalanx replay`: all that its cycles
/// have read and decided since it began, with scheduler.conf, in which a password may stand. It has to run with
/// --journal-inputs. Names are not replaced there: they decide among equal nodes
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Replace the words of which names and values of labels consist, each by the same one everywhere, and leave out
    /// texts, addresses and other annotations than those of scheduling. Names of labels and annotations stay
    #[arg(long, conflicts_with_all = ["scheduler", "live"])]
    replace_names: bool,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let captured = if let Some(place) = args.scheduler.place() {
        remote::run("capture the scheduler", async {
            let client = args.scheduler.open(&place, &args.connection, ACCOUNT).await?;
            client.capture(&mut io::stdout().lock()).await
        })
    } else {
        remote::run("capture the cluster", async {
            let remote = args.connection.open().await?;
            if args.replace_names {
                // A name may stand in an object before the one that has it.
                let mut all = Vec::new();
                let take = |objects| {
                    all.extend(objects);
                    Ok(())
                };
                copy(&remote, take).await?;
                Names::of(&all).replace(&mut all);
                return write(&all);
            }
            copy(&remote, |objects| write(&objects)).await
        })
    };
    match captured {
        // As for all that is printed: `| head` is no error.
        Err(error) if error.downcast_ref().is_some_and(is_closed_pipe) => Ok(()),
        other => other,
    }
}

fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

fn write(objects: &[Value]) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(lines(objects).as_bytes()).and_then(|()| out.flush());
    written.context("writing to standard output")
}

/// Hands out the objects of a live cluster that scheduling reads, kind by kind. Kinds that are absent are left out;
/// those that the user may not list are told on stderr.
pub(crate) async fn copy(remote: &Remote, mut take: impl FnMut(Vec<Value>) -> Result<()>) -> Result<()> {
    for (version, kind) in phalanx_sim::kinds_of_a_copy() {
        let mut bar = Bar::new();
        let mut read = |count| bar.show(|| format!("{} of kind {kind} read", counted(count, "object")));
        let listed = remote.objects.list_any(version, kind, &mut read).await?;
        drop(bar);
        match listed {
            Listed::Items(mut items) => {
                items.iter_mut().for_each(strip);
                take(items)?;
            }
            Listed::Absent => {}
            Listed::Forbidden(message) => {
                tell(format_args!("note: left out objects of kind {kind}: {message}"));
            }
        }
    }
    Ok(())
}

/// One object a line.
pub(crate) fn lines(objects: &[Value]) -> String {
    let lines: Vec<String> = objects.iter().map(|object| format!("{object}\n")).collect();
    lines.concat()
}

/// Lists of containers, in pods and in templates of pods.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Fields of containers that scheduling does not read and that may be secret.
const OF_CONTAINERS: [&str; 4] = ["env", "envFrom", "command", "args"];

/// The annotation with a former version of the whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Leaves out environments, commands and arguments of containers, and former versions of the object.
fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| key != "managedFields" && key != LAST_APPLIED);
            for (key, value) in fields {
                if CONTAINERS.contains(&key.as_str()) {
                    value.as_array_mut().into_iter().flatten().for_each(strip_container);
                }
                strip(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

fn strip_container(container: &mut Value) {
    if let Some(fields) = container.as_object_mut() {
        fields.retain(|key, _| !OF_CONTAINERS.contains(&key.as_str()));
    }
}
