//! The state of a cluster at equal intervals of virtual time.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_cluster::Cluster;
use phalanx_cluster::event::Time;
use phalanx_resource::{DimId, Quantity};
use serde::Serialize;

use super::fragments::Typical;
use crate::simulation::Simulation;

/// The most samples of a run: at more, every other one is dropped and the interval doubled.
const SAMPLES_MAX: usize = 1_000;

/// The first interval is this part of the time in which jobs arrive.
const PARTS: i64 = 500;

/// The state at one time. Amounts are in the unit of the resource: cores, bytes, devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Sample {
    /// Seconds since the begin.
    pub at: f64,
    /// Used resources.
    pub allocated: BTreeMap<Arc<str>, f64>,
    /// The measured resource: what is free in fragments.
    pub fragments: f64,
    /// Jobs that have arrived and not started.
    pub waiting: usize,
    /// Pods evicted so far.
    pub evicted: usize,
    /// The measured resource, by queue.
    pub queues: BTreeMap<Arc<str>, QueueSample>,
}

/// What a queue has of the measured resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueSample {
    /// It has.
    pub allocated: f64,
    /// It deserves, where a plugin computes that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<f64>,
    /// Its jobs request, allocated or not.
    pub requested: f64,
}

/// What a run has counted so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) waiting: usize,
    pub(super) evicted: usize,
}

/// The samples of a run.
pub(super) struct Samples {
    resource: Arc<str>,
    typical: Typical,
    begin: Time,
    interval: i64,
    next: Time,
    pub(super) taken: Vec<Sample>,
}

impl Samples {
    /// Samples from `begin` on; jobs arrive for so long.
    pub(super) fn new(resource: Arc<str>, typical: Typical, begin: Time, lasts: i64) -> Self {
        let interval = (lasts / PARTS / 1_000 * 1_000).max(1_000);
        Self { resource, typical, begin, interval, next: begin, taken: Vec::new() }
    }

    /// Nothing happens until `then`.
    pub(super) fn pass(&mut self, simulation: &Simulation, counts: Counts, then: Time) {
        if self.next >= then {
            return;
        }
        let sample = self.sample(simulation, counts);
        while self.next < then {
            let at = (self.next.0 - self.begin.0) as f64 / 1_000.0;
            self.taken.push(Sample { at, ..sample.clone() });
            if self.taken.len() >= SAMPLES_MAX {
                let mut keep = false;
                self.taken.retain(|_| {
                    keep = !keep;
                    keep
                });
                self.interval *= 2;
                self.next = Time(self.begin.0 + self.taken.len() as i64 * self.interval);
            } else {
                self.next = Time(self.next.0 + self.interval);
            }
        }
    }

    fn sample(&self, simulation: &Simulation, counts: Counts) -> Sample {
        let cluster = simulation.cluster();
        let unit = cluster.dims.get(&self.resource).map_or(1.0, |dim| unit(cluster, dim));
        let figure = |figures: &[(Arc<str>, String)]| {
            let of = figures.iter().find(|(name, _)| *name == self.resource)?;
            Some(of.1.parse::<Quantity>().ok()?.milli() as f64 / 1_000.0)
        };
        let queues = simulation.scheduler().queue_reports(cluster).into_iter().map(|queue| {
            let sample = QueueSample {
                allocated: figure(&queue.allocated).unwrap_or_default(),
                deserved: figure(&queue.deserved),
                requested: figure(&queue.request).unwrap_or_default(),
            };
            (queue.name, sample)
        });
        Sample {
            at: 0.0,
            allocated: used(cluster),
            fragments: self.typical.fragments(cluster) / unit,
            waiting: counts.waiting,
            evicted: counts.evicted,
            queues: queues.filter(|(name, _)| **name != *phalanx_cluster::ROOT).collect(),
        }
    }
}

/// How much of a dimension is one core, byte or device.
fn unit(cluster: &Cluster, dim: DimId) -> f64 {
    let one: Quantity = "1".parse().unwrap_or_default();
    cluster.dims.amount(dim, one).max(1) as f64
}

/// What nodes have, by resource.
pub(super) fn capacity(cluster: &Cluster) -> BTreeMap<Arc<str>, f64> {
    sums(cluster, |node, dim| node.allocatable.get(dim))
}

/// What is used of it.
pub(super) fn used(cluster: &Cluster) -> BTreeMap<Arc<str>, f64> {
    sums(cluster, |node, dim| node.allocatable.get(dim) - node.idle.get(dim))
}

fn sums(cluster: &Cluster, of: impl Fn(&phalanx_cluster::Node, DimId) -> i64) -> BTreeMap<Arc<str>, f64> {
    let dims = cluster.dims.iter().filter_map(|(dim, name)| {
        let nodes = || cluster.nodes.iter().map(|(_, node)| node).filter(|node| node.exists);
        let capacity: i64 = nodes().map(|node| node.allocatable.get(dim)).sum();
        let sum: i64 = nodes().map(|node| of(node, dim)).sum();
        (capacity > 0 && name != "pods").then(|| (name.into(), sum as f64 / unit(cluster, dim)))
    });
    dims.collect()
}
