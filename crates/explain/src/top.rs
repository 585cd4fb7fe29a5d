//! Queues, and what waits in them: jobs of a queue that wait for the same reason are one row.
use std::collections::BTreeMap;

use jiff::Timestamp;
use phalanx_cluster::diagnosis::{Refusal, without_lack};
use phalanx_cluster::event::{Key, Time};
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, Job};
use phalanx_core::report::{Gate as CoreGate, Inspection, Snapshot};
use phalanx_resource::Quantity;
use serde::{Deserialize, Serialize};

use crate::answer::{amounts, timestamp};
use crate::facts::{Amounts, Gate};

/// Rows of waiting jobs; the rest is counted.
const ROWS_MAX: usize = 200;

/// Queues and waiting jobs at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Top {
    /// When this was told.
    pub at: Timestamp,
    /// Queues, by name. For one namespace, those in which its jobs wait.
    pub queues: Vec<QueueRow>,
    /// Waiting jobs, those that wait the longest first.
    pub waiting: Vec<Alike>,
    /// How many waiting jobs are in no row.
    pub left_out: usize,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRow {
    /// Name.
    pub name: String,
    /// Its parent, unless that is `root`.
    pub parent: Option<String>,
    /// Weight.
    pub weight: u32,
    /// What its jobs and those of queues below have.
    pub allocated: Amounts,
    /// What it deserves, where a plugin computes that.
    pub deserved: Amounts,
    /// What its jobs request, allocated or not.
    pub requested: Amounts,
    /// The largest part of a deserved resource that is allocated.
    pub share: Option<f64>,
    /// Its waiting jobs.
    pub waiting: usize,
}

/// Jobs of a queue that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Alike {
    /// The queue.
    pub queue: String,
    /// How many jobs.
    pub jobs: usize,
    /// Their waiting pods.
    pub pods: u64,
    /// Namespace and name of the one that waits the longest.
    pub first: String,
    /// Since when that one waits.
    pub since: Timestamp,
    /// The gate that stopped them.
    pub gate: Option<Gate>,
    /// The reason, without what differs from pod to pod.
    pub reason: String,
}

/// Jobs of a row, and the first of them.
struct Row<'s> {
    jobs: usize,
    pods: u64,
    /// Since when the first waits, and its name.
    first: (Time, &'s Key),
}

impl Top {
    /// Of all namespaces, or of one.
    pub fn of(snapshot: &Snapshot, namespace: Option<&str>) -> Self {
        let (inspection, cluster) = (snapshot.open(), &snapshot.cluster);
        let mut counts: BTreeMap<QueueId, usize> = BTreeMap::new();
        let mut rows: BTreeMap<(QueueId, Option<CoreGate>, String), Row<'_>> = BTreeMap::new();
        let here = |job: &Job| namespace.is_none_or(|only| *job.key.namespace == *only);
        for (id, job) in inspection.waiting().filter(|(_, job)| here(job)) {
            *counts.entry(job.queue).or_default() += 1;
            let gate = inspection.gate(id);
            let key = (job.queue, gate, reason(cluster, &inspection, id, gate));
            let waits = (cluster.waits_since(id), &job.key);
            let row = rows.entry(key).or_insert(Row { jobs: 0, pods: 0, first: waits });
            row.jobs += 1;
            row.pods += u64::from(job.waiting());
            row.first = row.first.min(waits);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(_, row)| row.first);
        let left_out = rows.iter().skip(ROWS_MAX).map(|(_, row)| row.jobs).sum();
        rows.truncate(ROWS_MAX);
        let queue = |id: QueueId| queue_row(&inspection, id, counts.get(&id).copied().unwrap_or_default());
        let shown = |id: &QueueId| {
            cluster.queues[*id].object.exists && (namespace.is_none() || counts.contains_key(id))
        };
        let mut queues: Vec<QueueRow> = cluster.queues.ids().filter(shown).map(queue).collect();
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        let alike = |((queue, gate, reason), row): ((QueueId, Option<CoreGate>, String), Row<'_>)| Alike {
            queue: cluster.queues[queue].name.to_string(),
            jobs: row.jobs,
            pods: row.pods,
            first: row.first.1.to_string(),
            since: timestamp(row.first.0),
            gate: gate.map(Gate::from),
            reason,
        };
        let waiting = rows.into_iter().map(alike).collect();
        Self { at: timestamp(snapshot.now), queues, waiting, left_out }
    }
}

/// The reason of the gate that stopped a job, without the pod and the nearest node.
fn reason(cluster: &Cluster, inspection: &Inspection<'_>, id: JobId, gate: Option<CoreGate>) -> String {
    let refusals = inspection.refusals(id);
    let of_gate = |refusal: &&Refusal| CoreGate::of(refusal) == gate;
    let refusal = refusals.iter().find(of_gate).or(refusals.first());
    let dims = cluster.dims_told(id);
    match refusal {
        None if inspection.back_off(id).is_some_and(|until| until < Time::NEVER) => "in back-off".to_owned(),
        None => "not looked at yet".to_owned(),
        Some(Refusal::Nodes { error, .. }) => error.text(&dims),
        Some(refusal) => without_lack(&refusal.text(&dims)).to_owned(),
    }
}

fn queue_row(inspection: &Inspection<'_>, id: QueueId, waiting: usize) -> QueueRow {
    let told = inspection.queue(id);
    let (allocated, deserved) = (amounts(&told.allocated), amounts(&told.deserved));
    QueueRow {
        name: told.name.to_string(),
        parent: told.parent.map(|parent| parent.to_string()),
        weight: told.weight,
        share: share(&allocated, &deserved),
        requested: amounts(&told.request),
        allocated,
        deserved,
        waiting,
    }
}

/// The largest ratio of allocated to deserved over the deserved resources.
fn share(allocated: &Amounts, deserved: &Amounts) -> Option<f64> {
    let milli = |text: Option<&String>| {
        text.and_then(|text| text.parse::<Quantity>().ok()).map_or(0, Quantity::milli)
    };
    let ratios = deserved.iter().filter_map(|(name, amount)| {
        let deserved = milli(Some(amount));
        (deserved > 0).then(|| milli(allocated.get(name)) as f64 / deserved as f64)
    });
    ratios.reduce(f64::max)
}
