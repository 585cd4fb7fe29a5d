//! Queues as the page shows them.
use phalanx_cluster::{Cluster, ROOT};
use phalanx_core::report::figures::QueueFigures;
use phalanx_resource::{Amounts, Ceilings, DimId};
use serde::Serialize;

/// A queue. Amounts stand in the order of the resources of the state.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Queue {
    /// The name.
    pub name: String,
    /// The queue above, unless that is `root`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The weight.
    pub weight: u32,
    /// `Open`, `Closed`, `Closing` or `Unknown`.
    pub state: &'static str,
    /// The largest part of what it deserves that it has, over all resources; missing without deserved amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// A plugin calls it overused: it gets no more until others have had theirs.
    pub overused: bool,
    /// Whether others may reclaim its resources.
    pub reclaimable: bool,
    /// What its pods and those of queues below have.
    pub allocated: Vec<i64>,
    /// What these pods request, with a node or without.
    pub requested: Vec<i64>,
    /// Its limits.
    #[serde(flatten)]
    pub limits: QueueLimits,
    /// What waits in it.
    pub waiting: QueueWaiting,
    /// Why its jobs wait, or what is odd about its quotas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Limits of a queue; an amount is missing where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueLimits {
    /// What it deserves now.
    pub deserved: Vec<Option<i64>>,
    /// The most that it may have.
    pub capability: Vec<Option<i64>>,
    /// What no other queue may use.
    pub guarantee: Vec<Option<i64>>,
}

/// What waits in a queue, without the queues below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueWaiting {
    /// Jobs with fewer pods than they need to start.
    pub gangs: u32,
    /// Pods without a node.
    pub pods: u32,
    /// When the oldest of the jobs was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<i64>,
}

pub(crate) fn of(cluster: &Cluster, figures: &[QueueFigures], dims: &[DimId]) -> Vec<Queue> {
    let mut queues: Vec<Queue> = figures.iter().filter_map(|figures| queue(cluster, figures, dims)).collect();
    queues.sort_by(|a, b| a.name.cmp(&b.name));
    queues
}

fn queue(cluster: &Cluster, figures: &QueueFigures, dims: &[DimId]) -> Option<Queue> {
    let queue = &cluster.queues[cluster.queue_named(&figures.name)?];
    let amounts = |amounts: &Amounts| dims.iter().map(|dim| amounts.get(*dim)).collect();
    let deserved = figures.attributes.as_ref().map(|attributes| &attributes.deserved);
    Some(Queue {
        name: figures.name.to_string(),
        parent: Some(&queue.tree.parent).filter(|parent| ***parent != *ROOT).map(ToString::to_string),
        weight: figures.weight,
        state: queue.state.name(),
        share: deserved.and_then(|deserved| share(&figures.allocated, deserved)),
        overused: figures.overused,
        reclaimable: queue.reclaimable,
        allocated: amounts(&figures.allocated),
        requested: amounts(&figures.request),
        limits: QueueLimits {
            deserved: match deserved {
                Some(deserved) => positive(deserved, dims),
                None => ceilings(&queue.deserved, dims),
            },
            capability: ceilings(&figures.capability, dims),
            guarantee: positive(&queue.guarantee, dims),
        },
        waiting: QueueWaiting {
            gangs: figures.waiting.jobs,
            pods: figures.waiting.pods,
            since: figures.waiting.since.map(|since| since.0),
        },
        problem: queue.object.told.as_ref().map(ToString::to_string),
    })
}

fn ceilings(ceilings: &Ceilings, dims: &[DimId]) -> Vec<Option<i64>> {
    dims.iter().map(|dim| ceilings.get(*dim)).collect()
}

fn positive(amounts: &Amounts, dims: &[DimId]) -> Vec<Option<i64>> {
    dims.iter().map(|dim| Some(amounts.get(*dim)).filter(|amount| *amount > 0)).collect()
}

/// The largest ratio of allocated to deserved over the deserved resources.
fn share(allocated: &Amounts, deserved: &Amounts) -> Option<f64> {
    let ratio =
        |(dim, deserved): (DimId, i64)| (deserved > 0).then(|| allocated.get(dim) as f64 / deserved as f64);
    deserved.iter().filter_map(ratio).reduce(f64::max)
}
