//! `phalanx capture`: a copy of a cluster, as manifests that `simulate` and `explain` read; or of a running scheduler,
//! as a journal that `replay` reads.
use std::io;

use anyhow::Result;
use phalanx_runtime::objects::Listed;
use serde_json::Value;

use crate::exit::{print, tell};
use crate::remote::{self, Connection, Remote};
use crate::scheduler_api::TokenArgs;

/// Flags of `capture`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Copy the scheduler here instead, for `phalanx replay`: all that its cycles have read and decided since it began,
    /// with scheduler.conf, in which a password may stand. It has to run with --journal-inputs. Names are not replaced:
    /// they decide among equal nodes
    #[arg(long, value_name = "URL")]
    scheduler: Option<String>,
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(url) = &args.scheduler {
        return remote::run("capture the scheduler", async {
            let client = args.token.open(url, args.connection.kubeconfig().as_deref()).await?;
            match client.capture(&mut io::stdout().lock()).await {
                // As for all that is printed: `| head` is no error.
                Err(error) if error.downcast_ref().is_some_and(is_closed_pipe) => Ok(()),
                other => other,
            }
        });
    }
    remote::run("capture the cluster", async {
        let objects = objects(&args.connection.open().await?).await?;
        print(&text(&objects))
    })
}

fn is_closed_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// The objects of a live cluster that scheduling reads. Kinds that are absent are left out; those that the user may not
/// list are told on stderr.
pub(crate) async fn objects(remote: &Remote) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for (version, kind) in phalanx_sim::kinds_of_a_copy() {
        match remote.objects.list_any(version, kind).await? {
            Listed::Items(items) => all.extend(items),
            Listed::Absent => {}
            Listed::Forbidden(message) => {
                tell(format_args!("note: left out objects of kind {kind}: {message}"));
            }
        }
    }
    all.iter_mut().for_each(strip);
    Ok(all)
}

/// One object a line.
pub(crate) fn text(objects: &[Value]) -> String {
    let lines: Vec<String> = objects.iter().map(Value::to_string).collect();
    lines.join("\n") + "\n"
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
