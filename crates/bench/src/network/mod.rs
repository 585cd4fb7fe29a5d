//! `network` and `network-load`: gangs with a network topology on a tree of HyperNodes in three tiers.
pub(crate) mod load;

use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::{Event, HyperNodeInfo, HyperNodeMember, NetworkTopology, TierLimit, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, parse};
use phalanx_core::Scheduler;
use phalanx_framework::conf::Conf;
use serde_json::{Value, json};

use crate::core::{HELM, bound};
use crate::{Size, generate, machine};

/// Nodes of a HyperNode of tier 1, and HyperNodes of tier 1 in one of tier 2.
const FANOUT: [usize; 2] = [16, 8];

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Runs; the fastest counts, since all else is the machine's noise.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

/// How near to each other the pods of a gang are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearness {
    None,
    Soft,
    Hard(u32),
}

impl Nearness {
    fn topology(self) -> Option<NetworkTopology> {
        match self {
            Nearness::None => None,
            Nearness::Soft => Some(NetworkTopology::Soft),
            Nearness::Hard(tier) => Some(NetworkTopology::Hard(TierLimit::Number(tier))),
        }
    }
}

/// The tiers of Volcano's Helm chart, and network-topology-aware.
fn conf() -> Conf {
    let text = format!("{HELM}- plugins:\n  - name: network-topology-aware\n");
    parse(&text, &Known::builtin()).conf.expect("Helm's configuration and a plugin")
}

/// HyperNodes of three tiers over nodes by number: 16 nodes, 8 times as many, all.
fn hyper_nodes(nodes: usize) -> Vec<Event> {
    let leaves = nodes.div_ceil(FANOUT[0]);
    let pods = leaves.div_ceil(FANOUT[1]);
    let node = |at: usize| HyperNodeMember::Node(format!("node-{at:06}").into());
    let below = |tier: u32, at: usize| HyperNodeMember::HyperNode(format!("tier{tier}-{at:05}").into());
    let made = |tier: u32, at: usize, members: Vec<HyperNodeMember>| {
        let name: Arc<str> = format!("tier{tier}-{at:05}").into();
        Event::from(HyperNodeInfo { name, tier, members, ..HyperNodeInfo::default() })
    };
    let part = |at: usize, of: usize, most: usize| at * of..((at + 1) * of).min(most);
    let first = (0..leaves).map(|at| made(1, at, part(at, FANOUT[0], nodes).map(node).collect()));
    let second = (0..pods).map(|at| {
        let members = part(at, FANOUT[1], leaves).map(|leaf| below(1, leaf));
        made(2, at, members.collect())
    });
    let top = made(3, 0, (0..pods).map(|at| below(2, at)).collect());
    first.chain(second).chain([top]).collect()
}

/// The seconds of one session.
fn session(size: Size, nearness: Nearness) -> Result<f64> {
    let mut cluster = Cluster::new(ClusterOptions::default());
    let mut scheduler = Scheduler::new(conf(), 0);
    cluster.apply(generate::default_queue());
    generate::nodes(size.nodes).for_each(|event| _ = cluster.apply(event));
    for event in hyper_nodes(size.nodes) {
        cluster.apply(event);
    }
    let kinds = generate::Kinds { count: 1, distinct_requests: false };
    for event in generate::gangs(size, kinds) {
        cluster.apply(match event {
            Event::PodGroup(mut group) => {
                group.topology = nearness.topology();
                Event::PodGroup(group)
            }
            event => event,
        });
    }
    let (seconds, outcome) = machine::measured(|| scheduler.run(&mut cluster, Time(0)));
    let placed: usize = outcome.decisions.iter().map(bound).sum();
    ensure!(placed == size.gangs * size.size, "{placed} pods were placed: the cluster is too small");
    Ok(seconds)
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    let kinds = [("none", Nearness::None), ("soft", Nearness::Soft), ("hardTier1", Nearness::Hard(1))];
    let mut fastest = [f64::INFINITY; 3];
    for _ in 0..options.runs.max(1) {
        for (seconds, (_, nearness)) in fastest.iter_mut().zip(kinds) {
            *seconds = seconds.min(session(options.size, nearness)?);
        }
    }
    let mut figures = json!({
        "name": "network", "nodes": nodes, "gangs": gangs, "size": size, "pods": gangs * size,
        "cores": machine::cores(),
    });
    for ((name, _), seconds) in kinds.iter().zip(fastest) {
        say!(
            "{} pods in gangs of {size} on {nodes} nodes, topology {name}: {:.1} ms",
            gangs * size,
            seconds * 1e3
        );
        figures[*name] = json!({ "seconds": seconds, "timesWithout": seconds / fastest[0] });
    }
    Ok(figures)
}
