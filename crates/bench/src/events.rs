//! `events`: what one event costs in a cluster full of running pods: folding it in, and the cycle after it.
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use phalanx_cluster::event::{
    ClaimAllocation, ClaimInfo, ClaimRequest, Constraints, DeviceClassInfo, DeviceInfo, DeviceName, Event,
    GivenDevice, Key, Operator, PodClaim, PodInfo, PodPhase, PodRules, PodSelector, PodTerm, Requirement,
    SliceInfo, SliceNodes, Time,
};
use phalanx_cluster::label::Selector;
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use serde_json::{Value, json};

use crate::chart::{Bar, Chart, Panel};
use crate::core::helm_conf;
use crate::{generate, machine};

/// Devices of a node.
const DEVICES: usize = 8;
/// Labels of a pod that selectors of others may read: of `app` alone pods have the same value.
const LABELS: [&str; 4] = ["app", "tier", "track", "unit"];

#[derive(Args)]
pub(crate) struct Options {
    /// Nodes, of 32 cores, 256 GiB and 8 devices each.
    #[arg(long, default_value_t = 5000, allow_negative_numbers = true, value_parser = crate::count)]
    nodes: usize,
    /// Running pods of 1 core each, every one a job of its own.
    #[arg(long, default_value_t = 150_000, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    running: usize,
    /// Running pods that have a device each.
    #[arg(long, default_value_t = 20_000, allow_negative_numbers = true, value_parser = crate::count_or_0)]
    claims: usize,
    /// How often each event comes; the median counts.
    #[arg(long, default_value_t = 5, allow_negative_numbers = true, value_parser = crate::count)]
    runs: usize,
}

pub(crate) fn run(options: &Options) -> Result<Value> {
    let mut cluster = Cluster::new(ClusterOptions::default());
    let device_class = DeviceClassInfo { name: "gpu".into(), selectors: vec!["true".into()] };
    let supply = [generate::default_queue(), device_class.into()].into_iter();
    let nodes = generate::nodes(options.nodes).chain((0..options.nodes).map(|at| slice(at, 1)));
    let pods = (0..options.running).flat_map(|at| running(at, options));
    supply.chain(nodes).chain(pods).for_each(|event| _ = cluster.apply(event));
    let mut scheduler = Scheduler::new(helm_conf()?, 0);
    scheduler.run(&mut cluster, Time(0));
    let mut now = 0;
    let mut figures = serde_json::Map::new();
    let mut panels = Vec::new();
    for (name, event) in EVENTS {
        let (mut folding, mut cycles) = (Vec::new(), Vec::new());
        for run in 0..options.runs.max(1) {
            let events = event(run, options);
            folding.push(machine::measured(|| events.into_iter().for_each(|it| _ = cluster.apply(it))).0);
            for at in 0..2 {
                now += 1000;
                let (seconds, _) = machine::measured(|| scheduler.run(&mut cluster, Time(now)));
                if at == 0 {
                    cycles.push(seconds);
                }
            }
        }
        let [fold, cycle] = [folding, cycles].map(median);
        say!("{name}: {:.3} ms to fold in, a cycle of {:.3} ms", fold * 1e3, cycle * 1e3);
        figures.insert(name.to_owned(), json!({ "foldSeconds": fold, "cycleSeconds": cycle }));
        panels.push(Bar::ours(name, (fold + cycle) * 1e3));
    }
    let panel = format!("{} running pods on {} nodes", options.running, options.nodes);
    let title = "An event and the cycle after it".to_owned();
    let chart = Chart { title, panels: vec![Panel::new(panel, "milliseconds", panels)] };
    Ok(json!({
        "name": "events", "nodes": options.nodes, "running": options.running, "claims": options.claims,
        "events": figures, "peakRssBytes": machine::peak_rss(None), "cores": machine::cores(), "chart": chart,
    }))
}

type Make = fn(usize, &Options) -> Vec<Event>;

/// What happens, one after the other.
const EVENTS: [(&str, Make); 8] = [
    ("a PriorityClass that nobody names", |run, _| vec![class(format!("unheard-{run}"), run)]),
    ("a PriorityClass that ten pods name", |run, _| vec![class("rare".into(), run)]),
    ("a pod", |run, options| vec![pod(options.running + run).into()]),
    ("the first pod that asks something of others", |run, options| vec![seeker(run, options, "app")]),
    ("a pod that selects by a label unheard of", |run, options| {
        vec![seeker(100 + run, options, &format!("unheard-{run}"))]
    }),
    ("a pod that selects by a label of others", |run, options| {
        vec![seeker(200 + run, options, LABELS[1 + run % (LABELS.len() - 1)])]
    }),
    ("a node with devices", |run, options| {
        let at = options.nodes + run;
        generate::nodes(at + 1).skip(at).chain([slice(at, 1)]).collect()
    }),
    ("devices of a node change", |run, _| vec![slice(run, 2 + run as i64)]),
];

fn class(name: String, value: usize) -> Event {
    Event::PriorityClass { name: name.into(), value: 1 + value as i32, global_default: false }
}

fn pod(at: usize) -> PodInfo {
    let labels = LABELS.iter().map(|key| ((*key).into(), value(key, at).into()));
    PodInfo { labels: labels.collect(), ..generate::solo(at) }
}

fn value(key: &str, at: usize) -> String {
    if key == LABELS[0] { "web".into() } else { format!("{key}-{}", at % 100) }
}

fn running(at: usize, options: &Options) -> Vec<Event> {
    let (mut events, index) = (Vec::new(), at % options.nodes);
    let mut pod = pod(at);
    (pod.life.phase, pod.life.node) = (PodPhase::Running, Some(node(index)));
    if at < 10 {
        pod.priority_class = Some("rare".into());
    }
    if at < options.claims.min(options.nodes * DEVICES) {
        let device = Arc::from(format!("gpu-{}", at / options.nodes));
        let claim = claim(&pod, DeviceName { driver: "gpu.example.com".into(), pool: node(index), device });
        pod.claims = Some([PodClaim { name: "gpu".into(), claim: Some(claim.key.name.clone()) }].into());
        events.push(claim.into());
    }
    events.push(pod.into());
    events
}

fn node(at: usize) -> Arc<str> {
    format!("node-{at:06}").into()
}

fn claim(pod: &PodInfo, device: DeviceName) -> ClaimInfo {
    let name = &pod.pod.name;
    let request = ClaimRequest { name: "gpu".into(), class: "gpu".into(), selectors: Vec::new(), count: 1 };
    let given = GivenDevice { request: "gpu".into(), device };
    ClaimInfo {
        key: Key { namespace: pod.pod.namespace.clone(), name: name.clone() },
        uid: name.clone(),
        requests: vec![request],
        allocation: Some(ClaimAllocation { devices: vec![given], nodes: None }),
        reserved: vec![pod.pod.uid.clone()],
        ..ClaimInfo::default()
    }
}

fn slice(at: usize, generation: i64) -> Event {
    let device = |at: usize| DeviceInfo { name: format!("gpu-{at}").into(), ..DeviceInfo::default() };
    SliceInfo {
        name: format!("slice-{at:06}").into(),
        driver: "gpu.example.com".into(),
        pool: node(at),
        generation,
        nodes: SliceNodes::Node(node(at)),
        devices: (0..DEVICES).map(device).collect(),
    }
    .into()
}

/// A pod that wants to be where others with its value of a label are.
fn seeker(run: usize, options: &Options, key: &str) -> Event {
    let pod = pod(options.running + 1000 + run);
    let values = vec![value(key, run).into()];
    let same = Requirement { key: key.into(), operator: Operator::In, values };
    let pods = PodSelector {
        namespaces: vec![pod.pod.namespace.clone()],
        labels: Some(Selector(vec![same])),
        ..PodSelector::default()
    };
    let rules = PodRules {
        affinity: vec![PodTerm { topology_key: "kubernetes.io/hostname".into(), pods }],
        ..PodRules::default()
    };
    let constraints = Constraints { pod_rules: Some(Arc::new(rules)), ..Constraints::default() };
    PodInfo { constraints: Arc::new(constraints), ..pod }.into()
}

fn median(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
