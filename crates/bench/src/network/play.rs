//! A cluster in virtual time: gangs arrive, are placed and end.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::event::{Event, Key, PodGroupInfo, PodInfo, PodLife, PodPhase, Time};
use phalanx_cluster::{Cluster, ClusterOptions};
use phalanx_core::Scheduler;
use phalanx_core::decision::{Binding, Decision};

use super::shape::{Free, Shape};
use super::{Nearness, conf};
use crate::generate;

/// A gang that was placed.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// The gang, by number.
    pub(super) gang: usize,
    /// The nodes of its pods, by the index of the pod.
    pub(super) nodes: Vec<usize>,
    /// The lowest tier of which a HyperNode had room for it then.
    pub(super) lowest: usize,
}

/// A cluster and its scheduler.
pub(super) struct Play {
    pub(super) shape: Shape,
    pub(super) free: Free,
    cluster: Cluster,
    scheduler: Scheduler,
    pods: BTreeMap<Arc<str>, PodInfo>,
}

impl Play {
    pub(super) fn new(shape: Shape) -> Self {
        let mut cluster = Cluster::new(ClusterOptions::default());
        cluster.apply(generate::default_queue());
        generate::gpu_nodes(shape.nodes, shape.gpus).for_each(|event| _ = cluster.apply(event));
        shape.hyper_nodes().into_iter().for_each(|event| _ = cluster.apply(event));
        let scheduler = Scheduler::new(conf(false), 0);
        Self { shape, free: Free::new(shape), cluster, scheduler, pods: BTreeMap::new() }
    }

    /// A gang arrives, of pods that are pending.
    pub(super) fn arrive(&mut self, gang: usize, size: usize, now: i64, nearness: Nearness) {
        let topology = nearness.topology(self.shape.lowest_tier(size));
        for event in pods(&name(gang), size, Vec::new()) {
            self.cluster.apply(match event {
                Event::PodGroup(group) => {
                    PodGroupInfo { topology: topology.clone(), created: Time(now), ..*group }.into()
                }
                Event::Pod(pod) => {
                    self.pods.insert(pod.pod.uid.clone(), (*pod).clone());
                    Event::Pod(pod)
                }
                event => event,
            });
        }
    }

    /// Pods that run already.
    pub(super) fn fill(&mut self, nodes: &[usize]) {
        self.free.take(nodes);
        pods("filler", nodes.len(), nodes.to_vec()).for_each(|event| _ = self.cluster.apply(event));
    }

    /// Runs cycles until one binds nothing. Returns the gangs that were placed.
    pub(super) fn cycles(&mut self, now: i64) -> Vec<Start> {
        let mut starts = Vec::new();
        loop {
            let outcome = self.scheduler.run(&mut self.cluster, Time(now));
            let before = starts.len();
            for decision in outcome.decisions {
                if let Decision::Bind { job, pods, .. } = decision {
                    starts.push(self.start(number(&job.name, "gang-"), &pods));
                }
            }
            if starts.len() == before {
                return starts;
            }
        }
    }

    fn start(&mut self, gang: usize, pods: &[Binding]) -> Start {
        for binding in pods {
            let mut pod = self.pods[&binding.pod.uid].clone();
            pod.life = PodLife { phase: PodPhase::Running, node: Some(binding.node.clone()), ..pod.life };
            self.cluster.apply(Event::Bound(pod.pod.uid.clone()));
            self.cluster.apply(pod.into());
        }
        let index = |binding: &&Binding| self.pods[&binding.pod.uid].index;
        let mut ranked: Vec<&Binding> = pods.iter().collect();
        ranked.sort_by_key(index);
        let nodes: Vec<usize> = ranked.iter().map(|binding| number(&binding.node, "node-")).collect();
        let lowest = self.free.lowest_with_room(nodes.len()).expect("room for a gang that was placed");
        self.free.take(&nodes);
        Start { gang, nodes, lowest }
    }

    /// The pods of a gang end.
    pub(super) fn end(&mut self, start: &Start) {
        let name = name(start.gang);
        self.free.give(&start.nodes);
        for index in 0..start.nodes.len() {
            let uid: Arc<str> = format!("{name}-{index}").into();
            self.pods.remove(&uid);
            self.cluster.apply(Event::PodGone(uid));
        }
        self.cluster.apply(Event::PodGroupGone(Key::new("default", &name)));
    }
}

fn pods(name: &str, size: usize, on: Vec<usize>) -> impl Iterator<Item = Event> {
    let gang = generate::Gang { name, class: "", cores: 1, gpus: 1, size, on };
    gang.events().collect::<Vec<_>>().into_iter()
}

fn name(gang: usize) -> String {
    format!("gang-{gang:06}")
}

fn number(name: &str, before: &str) -> usize {
    name.strip_prefix(before).and_then(|number| number.parse().ok()).expect("a name that ends in a number")
}
