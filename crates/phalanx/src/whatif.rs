//! `phalanx whatif`: what a change would do to a cluster.
use std::path::PathBuf;

use anyhow::Result;
use phalanx_framework::conf::Conf;
use phalanx_runtime::api::client::SchedulerClient;
use phalanx_sim::{AddedNodes, Changes, Comparison, Manifests, Options, WhatIf};

use crate::exit::BadInput;
use crate::flag;
use crate::inputs::{self, ClusterArgs, ConfArgs, Files};
use crate::remote::{self, output::Form};
use crate::runs::{self, RunArgs};
use crate::scheduler_api::{SchedulerArgs, not_live};

/// Flags of `whatif`.
#[derive(Debug, clap::Args)]
#[command(mut_args(not_live))]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Objects that are added, or take the place of those of the same kind and name: a file, a folder, or -
    #[arg(long, value_name = "FILE|DIR", num_args = 1..)]
    with: Vec<PathBuf>,
    /// A node that is cordoned; its pods wait for another one
    #[arg(long, value_name = "NODE", num_args = 1.., value_parser = flag::name())]
    drain: Vec<String>,
    /// Nodes that are added, as many as said, like the node that is named
    #[arg(long, value_name = "NODE=COUNT", num_args = 1.., value_parser = added)]
    add_nodes: Vec<AddedNodes>,
    #[command(flatten)]
    conf: ConfArgs,
    /// The configuration after the change; without it, the same one
    #[arg(long, value_name = "FILE")]
    new_conf: Option<PathBuf>,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// How to show the result
    #[arg(short, long, value_enum, default_value_t = Form::Text)]
    output: Form,
}

fn added(text: &str) -> Result<AddedNodes, String> {
    let added = text.rsplit_once('=').and_then(|(like, count)| {
        let count = count.parse().ok().filter(|count| (1..=100_000).contains(count))?;
        Some(AddedNodes { like: like.to_owned(), count })
    });
    added.ok_or_else(|| "expected the name of a node, =, and a number from 1 to 100000".to_owned())
}

/// What is changed, with files read: standard input has no second time.
struct Change {
    nodes: Changes,
    with: Option<Files>,
    /// The name and the text of the configuration.
    conf: Option<(String, String)>,
}

impl Change {
    fn of(args: &Args) -> Result<Self, BadInput> {
        let nodes = Changes { drained: args.drain.clone(), added: args.add_nodes.clone() };
        let with = (!args.with.is_empty()).then(|| inputs::files(&args.with));
        let conf = args.new_conf.as_deref().map(|file| Ok((inputs::shown(file), inputs::text(file)?)));
        let change = Self { nodes, with, conf: conf.transpose()? };
        if change.with.is_none() && change.conf.is_none() && change.nodes == Changes::default() {
            let expected = "expected --with, --drain, --add-nodes or --new-conf";
            return Err(BadInput(format!("found no change, {expected}")));
        }
        Ok(change)
    }

    fn question(&self, run: &RunArgs) -> Result<WhatIf, BadInput> {
        Ok(WhatIf {
            with: self.with.as_ref().map(Files::texts).transpose()?.unwrap_or_default(),
            nodes: self.nodes.clone(),
            new_conf: self.conf.as_ref().map(|(_, text)| text.clone()),
            cycles: run.cycles,
            seed: run.seed,
        })
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let change = Change::of(args)?;
    let comparison = match live(args, &change)? {
        Some(comparison) => comparison,
        None => simulated(args, change)?,
    };
    args.output.print(&comparison, |detail| comparison.to_table(["NOW", "AFTER"], detail))
}

/// What the live scheduler tells, where it answers.
fn live(args: &Args, change: &Change) -> Result<Option<Comparison>> {
    remote::run("ask what would change", async {
        let what_if = async |client: SchedulerClient| client.what_if(&change.question(&args.run)?).await;
        args.scheduler.ask((&args.cluster, &args.conf), what_if).await
    })
}

fn simulated(args: &Args, change: Change) -> Result<Comparison> {
    let options = Options {
        seed: args.run.seed,
        default_queue: args.cluster.names.default_queue.as_str().into(),
        ..Options::default()
    };
    let Change { nodes, with, conf: new_conf } = change;
    let [(conf, manifests), (new_conf, mut changed)] = read(args, with, new_conf)?;
    let added = changed.added_to(&manifests);
    let drain = changed.change(&nodes, (&conf, &manifests), &options);
    let drain = drain.map_err(|missing| BadInput(missing.to_string()))?;
    inputs::tell_not_simulated(&new_conf, &changed);
    let sides = [(conf, manifests), (new_conf.clone(), changed.clone())];
    let comparison = Comparison { added, drain, ..runs::compare(sides, &options, args.run.cycles)? };
    if !changed.has_run_times() {
        return Ok(comparison);
    }
    Ok(comparison.with_starts(phalanx_sim::expected_starts(new_conf, changed, &options)))
}

/// The configuration and the manifests before and after the change.
fn read(
    args: &Args,
    with: Option<Files>,
    new_conf: Option<(String, String)>,
) -> Result<[(Conf, Manifests); 2]> {
    let source = args.cluster.source(&args.conf)?;
    let old_conf = source.conf(args.conf.file())?;
    let (changed, file) = match new_conf {
        Some(conf) => (source.clone().configured(conf), None),
        None => (source.clone(), args.conf.file()),
    };
    let (new, manifests) = match with {
        None => {
            let new = changed.read(file)?;
            let manifests = new.1.clone();
            (new, manifests)
        }
        Some(with) => {
            let (old, new) = (source.silent(), changed.with(with));
            let (old, new) = phalanx_sim::at_once(|| old.manifests(), || new.read(file));
            (new?, old?)
        }
    };
    Ok([(old_conf, manifests), new])
}
