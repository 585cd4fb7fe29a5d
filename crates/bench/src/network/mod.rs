//! `network`, `network-load` and `network-best`: gangs with a network topology on HyperNodes in three tiers.
pub(crate) mod best;
pub(crate) mod load;
mod play;
mod shape;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::{
    Event, NetworkTopology, PodGroupInfo, PodInfo, SubGroupPolicy, TierLimit, Time,
};
use phalanx_cluster::label::Labels;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_conf::{Known, parse};
use phalanx_core::Scheduler;
use phalanx_framework::conf::Conf;
use serde_json::{Value, json};

use self::shape::Shape;
use crate::chart::{Bar, Chart, Panel};
use crate::core::{HELM, bound};
use crate::{Size, generate, machine};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    size: Size,
    /// Pods of a sub-group; it has to divide the pods of a gang.
    #[arg(long, default_value_t = 10, value_parser = crate::count)]
    sub_group_size: usize,
    /// Runs; the fastest counts, since all else is the machine's noise.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
    /// Fails when a session with a network topology takes more than this many times the time of one without.
    #[arg(long, value_parser = crate::above_0)]
    max_ratio: Option<f64>,
    /// Tells the processor time of the scheduling thread instead of the time that passed, for a machine with other
    /// work.
    #[arg(long)]
    processor_time: bool,
}

/// How near to each other the pods of a gang are to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nearness {
    None,
    Soft,
    /// Of the lowest tier in which the gang fits the empty cluster.
    Hard,
}

impl Nearness {
    const ALL: [(&str, Nearness); 3] =
        [("none", Nearness::None), ("soft", Nearness::Soft), ("hard", Nearness::Hard)];

    /// The network topology of a gang whose lowest tier in the empty cluster this is.
    fn topology(self, lowest: usize) -> Option<NetworkTopology> {
        match self {
            Nearness::None => None,
            Nearness::Soft => Some(NetworkTopology::Soft),
            Nearness::Hard => Some(NetworkTopology::Hard(TierLimit::Number(lowest as u32))),
        }
    }
}

/// The label by whose values pods are divided into sub-groups.
const SUB_GROUP: &str = "sub-group";

/// What the gangs of a session ask for.
#[derive(Clone, Copy)]
struct Asked {
    nearness: Nearness,
    /// `hypernode.binpack.normal-pod.enable`
    packed: bool,
    /// Each is made of sub-groups, which ask for a HyperNode of tier 1 each.
    sub_groups: bool,
}

impl Asked {
    const ALL: [(&str, Asked); 6] = [
        ("none", Asked { packed: false, ..Asked::gangs(Nearness::None) }),
        ("none, packed", Asked::gangs(Nearness::None)),
        ("soft", Asked::gangs(Nearness::Soft)),
        ("hard", Asked::gangs(Nearness::Hard)),
        ("sub-groups", Asked { sub_groups: true, ..Asked::gangs(Nearness::None) }),
        ("hard with sub-groups", Asked { sub_groups: true, ..Asked::gangs(Nearness::Hard) }),
    ];

    /// Gangs without sub-groups.
    const fn gangs(nearness: Nearness) -> Self {
        Self { nearness, packed: true, sub_groups: false }
    }

    fn of_gang(self, options: &Options, mut group: PodGroupInfo) -> PodGroupInfo {
        let Size { nodes, size, .. } = options.size;
        group.topology = self.nearness.topology(Shape::large(nodes, PODS_OF_NODE).lowest_tier(size));
        if self.sub_groups {
            group.sub_groups.push(SubGroupPolicy {
                name: "replica".into(),
                keys: vec![SUB_GROUP.into()],
                size: options.sub_group_size as u32,
                min: (size / options.sub_group_size) as u32,
                topology: Nearness::Hard.topology(1),
                ..SubGroupPolicy::default()
            });
        }
        group
    }
}

/// How many pods of `generate::gangs` fit a node of `generate::nodes`.
const PODS_OF_NODE: usize = 32;

/// A pod with the label of its sub-group.
fn labelled(options: &Options, mut pod: PodInfo) -> PodInfo {
    let sub_group = pod.index.map_or(0, |index| index as usize / options.sub_group_size);
    pod.labels = Labels::from_iter([(SUB_GROUP.into(), sub_group.to_string().into())]);
    pod
}

/// The tiers of Volcano's Helm chart, and network-topology-aware.
fn conf(packed: bool) -> Conf {
    let plugin = "- plugins:\n  - name: network-topology-aware\n";
    let text = format!("{HELM}{plugin}    arguments: {{hypernode.binpack.normal-pod.enable: {packed}}}\n");
    parse(&text, &Known::builtin()).conf.expect("Helm's configuration and a plugin")
}

/// The seconds of one session.
fn session(options: &Options, asked: Asked) -> Result<f64> {
    let size = options.size;
    let mut cluster = Cluster::new(ClusterOptions::default());
    let mut scheduler = Scheduler::new(conf(asked.packed), 0);
    cluster.apply(generate::default_queue());
    generate::nodes(size.nodes).for_each(|event| _ = cluster.apply(event));
    for event in Shape::large(size.nodes, PODS_OF_NODE).hyper_nodes() {
        cluster.apply(event);
    }
    let kinds = generate::Kinds { count: 1, distinct_requests: false };
    for event in generate::gangs(size, kinds) {
        cluster.apply(match event {
            Event::PodGroup(group) => asked.of_gang(options, *group).into(),
            Event::Pod(pod) => labelled(options, *pod).into(),
            event => event,
        });
    }
    let (seconds, outcome) = machine::timed(options.processor_time, || scheduler.run(&mut cluster, Time(0)));
    let placed: usize = outcome.decisions.iter().map(bound).sum();
    ensure!(placed == size.gangs * size.size, "{placed} pods were placed: the cluster is too small");
    Ok(seconds)
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let Size { nodes, gangs, size } = options.size;
    ensure!(
        size.is_multiple_of(options.sub_group_size),
        "--size {size} is no multiple of --sub-group-size {}",
        options.sub_group_size
    );
    let mut fastest = [f64::INFINITY; Asked::ALL.len()];
    for _ in 0..options.runs.max(1) {
        for (seconds, (_, asked)) in fastest.iter_mut().zip(Asked::ALL) {
            *seconds = seconds.min(session(options, asked)?);
        }
    }
    let mut figures = json!({
        "name": "network", "nodes": nodes, "gangs": gangs, "size": size, "pods": gangs * size,
        "cores": machine::cores(),
    });
    let mut bars = Vec::new();
    for ((name, _), seconds) in Asked::ALL.iter().zip(fastest) {
        let times = seconds / fastest[0];
        say!("{} pods on {nodes} nodes, {name}: {:.1} ms, {times:.2} times", gangs * size, seconds * 1e3);
        figures[*name] = json!({ "seconds": seconds, "timesWithout": times });
        bars.push(Bar::ours(*name, seconds * 1e3));
        let max = options.max_ratio.unwrap_or(f64::INFINITY);
        ensure!(times <= max, "{name} takes {times:.2} times the time without, more than {max}");
    }
    let title = format!("one session: {} pods in gangs of {size} on {nodes} nodes", gangs * size);
    figures["chart"] = json!(chart(vec![Panel::new(title, "milliseconds", bars)]));
    Ok(figures)
}

fn chart(panels: Vec<Panel>) -> Chart {
    Chart { title: "Gangs with a network topology: HyperNodes in three tiers".to_owned(), panels }
}
