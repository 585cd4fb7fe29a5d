//! `phalanx queue operate`: opens and closes a Queue by a Command, and changes it.
use anyhow::Result;
use phalanx_api::bus::Action;
use phalanx_api::v1beta1::Queue;
use serde_json::{Value, json};

use crate::exit::BadInput;
use crate::flag;
use crate::remote::{Connection, amounts, command, required};

/// Flags of `queue operate`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// The name of the Queue
    #[arg(short, long, value_name = "NAME")]
    name: Option<String>,
    /// With update: its share relative to the weights of its siblings
    #[arg(short, long, value_name = "N", default_value_t = 0, hide_default_value = true, allow_negative_numbers = true, value_parser = flag::whole::<i32>(i32::MIN..=i32::MAX))]
    weight: i32,
    /// With update: the most that it may use; resources that are not named keep their amount
    #[arg(long, value_name = "RESOURCE=AMOUNT,...", default_value = "", hide_default_value = true)]
    capability: String,
    /// open, close or update
    #[arg(short, long, value_name = "ACTION", default_value = "", hide_default_value = true)]
    action: String,
    #[command(flatten)]
    connection: Connection,
}

/// What is asked for.
#[derive(Debug, PartialEq)]
enum Operation {
    Issue(Action),
    Patch(Value),
}

pub(super) async fn run(args: &Args) -> Result<()> {
    let name = required(args.name.as_deref(), "queue name must be specified")?;
    let operation = args.operation(name)?;
    let remote = args.connection.open().await?;
    match operation {
        Operation::Issue(action) => command::issue::<Queue>(&remote.objects, None, name, action).await,
        Operation::Patch(patch) => remote.objects.merge::<Queue>(None, name, &patch).await,
    }
}

impl Args {
    fn operation(&self, name: &str) -> Result<Operation, BadInput> {
        match self.action.as_str() {
            "open" => Ok(Operation::Issue(Action::OpenQueue)),
            "close" => Ok(Operation::Issue(Action::CloseQueue)),
            "update" => self.update(name).map(Operation::Patch),
            "" => Err(BadInput("action can not be null".to_owned())),
            other => {
                let valid = "valid actions are open, close and update";
                Err(BadInput(format!("action {other} invalid, {valid}")))
            }
        }
    }

    fn update(&self, name: &str) -> Result<Value, BadInput> {
        let mut spec = json!({});
        if self.weight != 0 {
            spec["weight"] = json!(self.weight);
        }
        if let Some(capability) = amounts::parse("capability", &self.capability)? {
            spec["capability"] = json!(capability);
        }
        if spec == json!({}) {
            let must = "weight must be specified, the value must be greater than 0";
            return Err(BadInput(format!("when update queue {name}, {must}")));
        }
        Ok(json!({ "spec": spec }))
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

    fn operation(flags: &[&str]) -> Result<Operation, String> {
        let words = ["operate"].into_iter().chain(flags.iter().copied());
        Cli::try_parse_from(words).unwrap().args.operation("q").map_err(|error| error.0)
    }

    /// The table of vcctl's own test.
    #[test]
    fn actions_are_commands_or_patches_or_refused_in_vcctls_words() {
        for (flags, expected) in [
            (&["-a", "close"][..], Ok(Operation::Issue(Action::CloseQueue))),
            (&["-a", "open"], Ok(Operation::Issue(Action::OpenQueue))),
            (&["-a", "update", "-w", "3"], Ok(Operation::Patch(json!({"spec": {"weight": 3}})))),
            (
                &["-a", "update", "--capability", "cpu=4"],
                Ok(Operation::Patch(json!({"spec": {"capability": {"cpu": "4"}}}))),
            ),
            (
                &["-a", "update"],
                Err("when update queue q, weight must be specified, the value must be greater than 0"),
            ),
            (&[], Err("action can not be null")),
            (&["-a", "invalid"], Err("action invalid invalid, valid actions are open, close and update")),
        ] {
            assert_eq!(operation(flags), expected.map_err(ToOwned::to_owned), "{flags:?}");
        }
    }
}
