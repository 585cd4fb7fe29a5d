//! Measured usage of nodes, and pods that came since it was measured.
use std::sync::Arc;

use phalanx_resource::DimId;

use super::count::Count;
use super::task::Hold;
use super::{Class, Cluster, Node, Status, Task};
use crate::event::{Measure, NodeUsage, Time};
use crate::id::NodeId;

/// Older figures are dropped. Source: Volcano's usage plugin.
const LIFE_MS: i64 = 5 * 60 * 1_000;
/// A whole in the unit of [`Usage::parts`].
const WHOLE: i64 = 1_000_000;

/// The measured resources, in the order of figures.
pub(super) const MEASURED: [DimId; 2] = [DimId::CPU, DimId::MEMORY];

/// Measured usage of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Usage of cpu and memory, in millionths of the allocatable amount.
    parts: [u32; 2],
    /// Pods that did not run the whole time of the measurement.
    pub newcomers: Newcomers,
    at: Option<Time>,
}

impl Usage {
    /// Usage of cpu and memory as a part of the allocatable amount: from 0, seldom above 1.
    pub fn parts(&self) -> [f64; 2] {
        self.parts.map(|part| f64::from(part) / WHOLE as f64)
    }

    /// The usage of the node of this name, as it was measured.
    pub(super) fn measured(&self, node: &Arc<str>) -> NodeUsage {
        let [cpu, memory] = self.parts.map(Measure::Part);
        NodeUsage { node: node.clone(), cpu, memory, since: self.at.unwrap_or_default(), at: self.at }
    }

    /// When it was measured.
    pub(super) fn time(&self) -> Option<Time> {
        self.at
    }

    /// All that rules read.
    pub(super) fn state(&self) -> ([u32; 2], Newcomers) {
        (self.parts, self.newcomers)
    }
}

/// Sums over pods that the figures do not include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Newcomers {
    /// Requested cpu (milli) and memory (bytes).
    pub request: [i64; 2],
    /// By how much limits exceed requests.
    pub burst: [i64; 2],
    /// Number of pods without requests.
    pub best_effort: i64,
}

impl Newcomers {
    fn shift(&mut self, class: &Class, burst: [i64; 2], sign: i64) {
        for (at, dim) in MEASURED.into_iter().enumerate() {
            self.request[at] += sign * class.request.get(dim);
            self.burst[at] += sign * burst[at];
        }
        self.best_effort += sign * i64::from(class.best_effort);
    }
}

/// Counts a task among the newcomers of its node.
pub(super) fn shift(node: &mut Node, task: &Task, class: &Class, count: Count) {
    if let Some(usage) = &mut node.usage
        && is_new(task)
    {
        usage.newcomers.shift(class, task.burst, i64::from(count.sign()));
    }
}

fn is_new(task: &Task) -> bool {
    task.status.hold() == Hold::Used && !task.measured
}

impl Cluster {
    /// Takes in figures. They include pods that ran the whole time of the measurement.
    pub(super) fn apply_usage(&mut self, info: &NodeUsage) -> bool {
        let Some(id) = self.node_named(&info.node).filter(|id| self.nodes[*id].exists) else { return false };
        for at in 0..self.nodes[id].tasks.len() {
            let task = &mut self.tasks[self.nodes[id].tasks[at]];
            let ran = task.details.scheduled.is_none_or(|scheduled| scheduled <= info.since);
            task.measured |= task.status == Status::Running && ran;
        }
        let parts = [self.millionths(id, 0, info.cpu), self.millionths(id, 1, info.memory)];
        let newcomers = self.rebuilt_newcomers(id);
        self.set_usage(id, Some(Usage { parts, newcomers, at: info.at }));
        true
    }

    fn millionths(&self, id: NodeId, at: usize, measure: Measure) -> u32 {
        let dim = MEASURED[at];
        let quantity = match measure {
            Measure::Part(part) => return part,
            Measure::Amount(quantity) => self.dims.amount(dim, quantity).max(0),
        };
        let whole = self.nodes[id].allocatable.get(dim).max(1);
        u32::try_from(i128::from(quantity) * i128::from(WHOLE) / i128::from(whole)).unwrap_or(u32::MAX)
    }

    pub(super) fn rebuilt_newcomers(&self, id: NodeId) -> Newcomers {
        let mut newcomers = Newcomers::default();
        for task in self.nodes[id].tasks.iter().map(|task| &self.tasks[*task]).filter(|task| is_new(task)) {
            newcomers.shift(&self.classes[task.class], task.burst, 1);
        }
        newcomers
    }

    /// Drops old figures.
    pub fn expire_usage(&mut self, now: Time) {
        let old = |at: Time| at.0 < now.0 - LIFE_MS;
        while let Some((_, id)) = self.indexes.measured.first().copied().filter(|(at, _)| old(*at)) {
            self.set_usage(id, None);
        }
    }

    /// When the next figures get too old.
    pub fn usage_ends(&self) -> Option<Time> {
        self.indexes.measured.first().map(|(at, _)| Time(at.0 + LIFE_MS + 1))
    }

    pub(super) fn set_usage(&mut self, id: NodeId, usage: Option<Usage>) {
        let time = |usage: &Option<Usage>| usage.as_ref()?.time();
        let (before, at) = (time(&self.nodes[id].usage), time(&usage));
        if before != at {
            before.map(|at| self.indexes.measured.remove(&(at, id)));
            at.map(|at| self.indexes.measured.insert((at, id)));
        }
        if self.nodes[id].usage != usage {
            self.nodes[id].usage = usage;
            self.touch_node(id);
        }
    }
}
