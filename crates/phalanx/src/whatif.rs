//! `phalanx whatif`: what a change would do to a cluster.
use std::path::PathBuf;

use anyhow::Result;
use phalanx_framework::conf::Conf;
use phalanx_runtime::api::client::Place;
use phalanx_sim::{AddedNodes, Changes, Comparison, Manifests, Options, WhatIf};

use crate::exit::BadInput;
use crate::flag;
use crate::inputs::{self, ClusterArgs, ConfArgs};
use crate::remote::{self, output::Form};
use crate::runs::{self, RunArgs};
use crate::scheduler_api::{SchedulerArgs, VIEWER, not_live};

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

pub(crate) fn run(args: &Args) -> Result<()> {
    let changes = Changes { drained: args.drain.clone(), added: args.add_nodes.clone() };
    if args.with.is_empty() && changes == Changes::default() && args.new_conf.is_none() {
        let expected = "expected --with, --drain, --add-nodes or --new-conf";
        return Err(BadInput(format!("found no change, {expected}")).into());
    }
    let comparison = match args.scheduler.place() {
        Some(place) => live(args, changes, &place)?,
        None => simulated(args, &changes)?,
    };
    args.output.print(&comparison, |detail| comparison.to_table(["NOW", "AFTER"], detail))
}

/// What the live scheduler tells.
fn live(args: &Args, nodes: Changes, place: &Place) -> Result<Comparison> {
    let with = inputs::named_texts(&args.with)?;
    let new_conf = args.new_conf.as_deref().map(inputs::text).transpose()?;
    let question = WhatIf { with, nodes, new_conf, cycles: args.run.cycles, seed: args.run.seed };
    remote::run("ask what would change", async {
        let client = args.scheduler.open(place, &args.cluster.connection, VIEWER).await?;
        client.what_if(&question).await
    })
}

fn simulated(args: &Args, changes: &Changes) -> Result<Comparison> {
    let options = Options {
        seed: args.run.seed,
        default_queue: args.cluster.names.default_queue.as_str().into(),
        ..Options::default()
    };
    let [(conf, manifests), (new_conf, mut changed)] = read(args)?;
    let drain = changed.change(changes, (&conf, &manifests), &options);
    let drain = drain.map_err(|missing| BadInput(missing.to_string()))?;
    inputs::tell_unasked(&new_conf, &changed);
    let sides = [(conf, manifests), (new_conf.clone(), changed.clone())];
    let comparison = Comparison { drain, ..runs::compare(sides, &options, args.run.cycles)? };
    if !changed.has_run_times() {
        return Ok(comparison);
    }
    Ok(comparison.with_starts(phalanx_sim::expected_starts(new_conf, changed, &options)))
}

/// The configuration and the manifests before and after the change.
fn read(args: &Args) -> Result<[(Conf, Manifests); 2]> {
    let source = args.cluster.source(&args.conf)?;
    let old_conf = source.conf(args.conf.file())?;
    let new_conf = args.new_conf.as_deref().or(args.conf.file());
    let (new, manifests) = if args.with.is_empty() {
        let new = source.read(new_conf)?;
        let manifests = new.1.clone();
        (new, manifests)
    } else {
        let (old, new) = (source.clone().silent(), source.with(&args.with));
        let (old, new) = runs::at_once(|| old.manifests(), || new.read(new_conf));
        (new?, old?)
    };
    Ok([(old_conf, manifests), new])
}
