//! `affinity`: pods with rules on other pods, one by one, in memory.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Result, ensure};
use clap::Args;
use phalanx_cluster::event::{
    Constraints, Event, NodeInfo, Operator, PodInfo, PodLife, PodPhase, PodRef, PodRules, PodSelector,
    PodTerm, Requirement, Spread, Time,
};
use phalanx_cluster::label::Selector;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::Decision;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Dxsm;
use serde_json::{Map, Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::core::helm_conf;
use crate::{generate, machine};

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores and 256 GiB each.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Pods, each of which asks for 1 core and 4 GiB.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    pods: usize,
    /// Zones over which the nodes are spread.
    #[arg(long, default_value_t = 10, allow_negative_numbers = true, value_parser = crate::count)]
    zones: usize,
    /// Apps: labels of pods, in turn. Rules are on pods of the pod's own app.
    #[arg(long, default_value_t = 10, allow_negative_numbers = true, value_parser = crate::count)]
    apps: usize,
    /// Runs; the fastest counts, since all else is the machine's noise.
    #[arg(long, default_value_t = 3, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
    /// One rule instead of all.
    #[arg(long, value_parser = Rule::ALL.map(|(name, _)| name))]
    rule: Option<String>,
    /// Tells the processor time of the scheduling thread instead of the time that passed, for a machine with other work.
    #[arg(long)]
    processor_time: bool,
}

const ZONE: &str = "topology.kubernetes.io/zone";
const RACK: &str = "example.com/rack";
const HOST: &str = "kubernetes.io/hostname";
/// Nodes of a rack: few, so that placement tells them apart by what is counted in the rack.
const RACK_NODES: usize = 8;
/// Nodes have fewer running pods than that under [`Rule::PreferredUneven`].
const UNEVEN: usize = 16;

/// The rule of each pod on the pods of its app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Required: the same zone.
    Together,
    /// Required: another host. All pods are of one app.
    Apart,
    /// Required: evenly over zones.
    Even,
    /// Preferred: the same zone, another host.
    Preferred,
    /// Preferred: the same rack, another host. All pods are of one app, of which nodes have 0 to 15 running pods, drawn at
    /// random, so that there are hundreds of domain groups.
    PreferredUneven,
}

impl Rule {
    const ALL: [(&str, Rule); 5] = [
        ("affinityByZone", Rule::Together),
        ("antiAffinityByHost", Rule::Apart),
        ("spreadByZone", Rule::Even),
        ("preferredByZoneAndHost", Rule::Preferred),
        ("preferredByRackAndHostUneven", Rule::PreferredUneven),
    ];

    fn rules(self, app: &str) -> PodRules {
        let by = |key| term(key, app);
        match self {
            Rule::Together => PodRules { affinity: vec![by(ZONE)], ..PodRules::default() },
            Rule::Apart => PodRules { anti_affinity: vec![by(HOST)], ..PodRules::default() },
            Rule::Even => PodRules { spread: vec![spread(by(ZONE))], ..PodRules::default() },
            Rule::Preferred => {
                PodRules { preferred: vec![(100, by(ZONE)), (-100, by(HOST))], ..PodRules::default() }
            }
            Rule::PreferredUneven => {
                PodRules { preferred: vec![(100, by(RACK)), (-100, by(HOST))], ..PodRules::default() }
            }
        }
    }

    fn apps(self, options: &Options) -> usize {
        if matches!(self, Rule::Apart | Rule::PreferredUneven) { 1 } else { options.apps.max(1) }
    }
}

fn term(key: &str, app: &str) -> PodTerm {
    let own = Requirement { key: "app".into(), operator: Operator::In, values: vec![app.into()] };
    let pods = PodSelector {
        namespaces: vec!["default".into()],
        labels: Some(Selector(vec![own])),
        ..PodSelector::default()
    };
    PodTerm { topology_key: key.into(), pods }
}

fn spread(term: PodTerm) -> Spread {
    Spread { term, max_skew: 1, required: true, min_domains: 1, honor_affinity: true, honor_taints: false }
}

fn app(at: usize) -> String {
    format!("app-{at:03}")
}

fn zone(options: &Options, node: usize) -> String {
    format!("zone-{:03}", node % options.zones.max(1))
}

fn nodes(options: &Options) -> impl Iterator<Item = Event> {
    generate::nodes(options.nodes).enumerate().map(|(at, event)| match event {
        Event::Node(mut info) => {
            info.labels.push((ZONE.into(), zone(options, at).into()));
            info.labels.push((RACK.into(), format!("rack-{:05}", at / RACK_NODES).into()));
            info.labels.sort();
            NodeInfo { ..info }.into()
        }
        other => other,
    })
}

fn pods(options: &Options, rule: Rule) -> impl Iterator<Item = Event> {
    let apps = rule.apps(options);
    let rules = (0..apps).map(|at| {
        let rules = Arc::new(rule.rules(&app(at)));
        Arc::new(Constraints { pod_rules: Some(rules), ..Constraints::default() })
    });
    let rules: Vec<Arc<Constraints>> = rules.collect();
    (0..options.pods).map(move |at| {
        let mut info: PodInfo = generate::solo(at);
        info.labels = std::iter::once(("app".into(), app(at % apps).into())).collect();
        info.constraints = rules[at % apps].clone();
        info.into()
    })
}

/// Running pods of the first app, a random number on each node; none but for [`Rule::PreferredUneven`].
fn running(options: &Options, rule: Rule) -> impl Iterator<Item = Event> {
    let nodes = if rule == Rule::PreferredUneven { options.nodes } else { 0 };
    let mut random = Pcg64Dxsm::seed_from_u64(0);
    let pods = move |node: usize| std::iter::repeat_n(node, random.random_range(0..UNEVEN));
    (0..nodes).flat_map(pods).enumerate().map(|(at, node)| {
        let mut info: PodInfo = generate::solo(at);
        let name: Arc<str> = format!("running-{at}").into();
        info.pod = Arc::new(PodRef { uid: Arc::clone(&name), name, ..PodRef::clone(&info.pod) });
        info.labels = std::iter::once(("app".into(), app(0).into())).collect();
        let node = Some(format!("node-{node:06}").into());
        info.life = PodLife { phase: PodPhase::Running, node, ..info.life };
        info.into()
    })
}

/// Nodes of the pods of each app, by number.
fn places(options: &Options, rule: Rule, decisions: &[Decision]) -> BTreeMap<usize, Vec<usize>> {
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let bound = decisions.iter().filter_map(|decision| match decision {
        Decision::Bind { pods, .. } => Some(pods),
        _ => None,
    });
    let number = |name: &str| name.rsplit('-').next().and_then(|digits| digits.parse::<usize>().ok());
    for binding in bound.flatten() {
        if let (Some(pod), Some(node)) = (number(&binding.pod.name), number(&binding.node)) {
            places.entry(pod % rule.apps(options)).or_default().push(node);
        }
    }
    places
}

/// Whether the pods of an app keep its rule; a preference always counts as kept.
fn holds(options: &Options, rule: Rule, nodes: &[usize]) -> bool {
    let mut by_zone: BTreeMap<usize, usize> =
        (0..options.zones.min(options.nodes)).map(|zone| (zone, 0)).collect();
    for node in nodes {
        *by_zone.entry(node % options.zones.max(1)).or_default() += 1;
    }
    match rule {
        Rule::Together => by_zone.values().filter(|pods| **pods > 0).count() <= 1,
        Rule::Apart => nodes.iter().collect::<BTreeSet<_>>().len() == nodes.len(),
        Rule::Even => {
            by_zone.values().max().copied().unwrap_or(0) <= by_zone.values().min().copied().unwrap_or(0) + 1
        }
        Rule::Preferred | Rule::PreferredUneven => true,
    }
}

/// The seconds of a cycle that placed all pods.
fn cycle(options: &Options, name: &str, rule: Rule) -> Result<f64> {
    let mut cluster = Cluster::new(ClusterOptions::default());
    cluster.apply(generate::default_queue());
    for event in nodes(options).chain(running(options, rule)).chain(pods(options, rule)) {
        cluster.apply(event);
    }
    let mut scheduler = Scheduler::new(helm_conf()?, 0);
    let (seconds, outcome) = machine::timed(options.processor_time, || scheduler.run(&mut cluster, Time(0)));
    let places = places(options, rule, &outcome.decisions);
    let placed: usize = places.values().map(Vec::len).sum();
    ensure!(placed == options.pods, "{name}: {placed} of {} pods were placed", options.pods);
    let broken = places.values().filter(|nodes| !holds(options, rule, nodes)).count();
    ensure!(broken == 0, "{name}: {broken} apps are not where their rule wants them");
    Ok(seconds)
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let (mut figures, mut bars) = (Map::new(), Vec::new());
    let asked = |(name, _): &(&str, Rule)| options.rule.as_deref().is_none_or(|rule| rule == *name);
    for (name, rule) in Rule::ALL.into_iter().filter(asked) {
        let mut fastest = f64::INFINITY;
        for _ in 0..options.runs.max(1) {
            fastest = fastest.min(cycle(options, name, rule)?);
        }
        let rate = options.pods as f64 / fastest;
        say!("{name}: {} pods in {:.1} ms, {rate:.0} pods/s", options.pods, fastest * 1e3);
        figures.insert(name.into(), json!({"seconds": fastest, "podsPerSecond": rate}));
        bars.push(Bar::ours(name, fastest * 1e3));
    }
    let panel = format!(
        "{} pods of {} apps on {} nodes in {} zones",
        options.pods, options.apps, options.nodes, options.zones
    );
    let panels = vec![Panel::new(panel, "milliseconds", bars)];
    let chart = Chart { title: "Pods that ask something of other pods: one session".to_owned(), panels };
    Ok(json!({
        "name": "affinity", "nodes": options.nodes, "pods": options.pods, "zones": options.zones, "apps": options.apps,
        "rules": figures, "chart": chart, "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(),
    }))
}
