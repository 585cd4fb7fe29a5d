//! `phalanx queue create`.
use anyhow::{Context as _, Result};
use phalanx_api::bus::Action;
use phalanx_api::v1beta1::{API_VERSION, Queue};
use serde_json::{Value, json};

use crate::exit::BadInput;
use crate::flag;
use crate::remote::{Connection, amounts, command};

/// The state of a Queue that takes no jobs.
const CLOSED: &str = "Closed";

/// Flags of `queue create`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The name of the Queue
    #[arg(short, long, value_name = "NAME", default_value = "test")]
    name: String,
    /// Its share relative to the weights of its siblings
    #[arg(short, long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = flag::whole::<i32>(i32::MIN..=i32::MAX))]
    weight: i32,
    /// Open, or Closed: a Command closes it once it is created
    #[arg(short = 'S', long, value_name = "STATE", default_value = "Open")]
    state: String,
    /// The most that it may use
    #[arg(long, value_name = "RESOURCE=AMOUNT,...", default_value = "", hide_default_value = true)]
    capability: String,
    /// The queue whose share it divides with its siblings
    #[arg(long, value_name = "QUEUE", default_value = "", hide_default_value = true)]
    parent: String,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let queue = args.queue()?;
    let remote = args.connection.open().await?;
    remote.objects.create::<Queue>(None, &queue).await?;
    if args.state == CLOSED {
        let closed = command::issue::<Queue>(&remote.objects, None, &args.name, Action::CloseQueue).await;
        closed.with_context(|| format!("queue {} is created and not closed", args.name))?;
    }
    Ok(())
}

impl Args {
    fn queue(&self) -> Result<Value, BadInput> {
        let mut spec = json!({"weight": self.weight});
        if let Some(capability) = amounts::parse("capability", &self.capability)? {
            spec["capability"] = json!(capability);
        }
        if !self.parent.is_empty() {
            spec["parent"] = json!(self.parent);
        }
        let metadata = json!({"name": self.name});
        Ok(json!({"apiVersion": API_VERSION, "kind": "Queue", "metadata": metadata, "spec": spec}))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn queue(flags: &[&str]) -> Value {
        let words = ["create"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).unwrap().args.queue().unwrap()
    }

    #[test]
    fn flags_make_a_queue() {
        let default = queue(&[]);
        assert_eq!((&default["metadata"]["name"], &default["spec"]), (&json!("test"), &json!({"weight": 1})));
        let queue = queue(&["-n", "q", "-w", "4", "--capability", "cpu=2000m", "--parent", "root"]);
        assert_eq!(queue["spec"], json!({"weight": 4, "capability": {"cpu": "2"}, "parent": "root"}));
    }
}
