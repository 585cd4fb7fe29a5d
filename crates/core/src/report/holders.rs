//! Who holds what a waiting job lacks.
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_cluster::diagnosis::{Limit, Overuse, Refusal, TopologyFault, Unfit};
use phalanx_cluster::event::Key;
use phalanx_cluster::id::{JobId, NodeId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Hold};
use phalanx_framework::placement::NodeRanking;
use phalanx_framework::plugin::Plugin;
use phalanx_resource::DimId;

use super::Inspection;
use crate::network::near_peers;

/// How many resources, queues and jobs are named.
const NAMED_MAX: usize = 5;

/// An amount that a queue or a job holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held<T> {
    /// Who.
    pub by: T,
    /// How much.
    pub amount: String,
}

/// Who holds a resource that a job lacks: those that hold the most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders {
    /// The resource.
    pub resource: Arc<str>,
    /// The queue whose limit is reached; `None` where nodes lack the resource: then the nodes count that the job may
    /// use.
    pub within: Option<Arc<str>>,
    /// Nodes have enough of it, and nominated pods are about to use that.
    pub reserved: bool,
    /// Queues of these jobs, the one that holds the most first.
    pub queues: Vec<Held<Arc<str>>>,
    /// Jobs: PodGroups, or pods without one.
    pub jobs: Vec<Held<Key>>,
    /// How many other jobs hold some.
    pub others: usize,
    /// What pods of other schedulers hold.
    pub foreign: Option<String>,
}

/// Where a resource lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Within {
    Queue(QueueId),
    Nodes,
    /// Nodes have it, for nominated pods.
    Nominated,
}

/// Amounts of one resource by who holds them.
#[derive(Default)]
struct Tally {
    jobs: BTreeMap<JobId, i64>,
    foreign: i64,
}

impl Inspection<'_> {
    /// Who holds what a waiting job lacks, by resource.
    pub fn holders(&self, job: JobId) -> Vec<Holders> {
        let lacks: BTreeSet<(Within, DimId)> =
            self.refusals(job).iter().flat_map(|refusal| self.lacks(job, refusal)).collect();
        let named = lacks.into_iter().take(NAMED_MAX);
        named.filter_map(|(within, dim)| self.told(job, within, dim)).collect()
    }

    /// The resources that a refusal says are missing.
    fn lacks(&self, job: JobId, refusal: &Refusal) -> Vec<(Within, DimId)> {
        let dims = |missing: &[(DimId, i64)]| missing.iter().map(|(dim, _)| *dim).collect::<Vec<_>>();
        let (within, dims) = match refusal {
            Refusal::Nodes { error, .. } => {
                return error.reasons.keys().flat_map(|unfit| self.lacks_on_nodes(job, unfit)).collect();
            }
            Refusal::Enqueue { missing, .. } => (None, dims(missing)),
            Refusal::InqueueLimit { queue, limit, missing, .. } => (of_limit(queue, limit), dims(missing)),
            Refusal::Quota { queue, limit, over, gang, .. } => {
                (of_limit(queue, limit), dims(if gang.is_empty() { over } else { gang }))
            }
            Refusal::Overused { queue, why, .. } => (Some(queue), self.overused(job, queue, why)),
            Refusal::Topology(TopologyFault::NoRoom { missing, .. }) => {
                (None, missing.iter().map(|(dim, _)| dim).collect())
            }
            Refusal::NotEntitled { why, .. } => return self.lacks(job, why),
            _ => return Vec::new(),
        };
        let within = match within {
            Some(queue) => self.cluster().queue_named(queue).map(Within::Queue),
            None => Some(Within::Nodes),
        };
        within.map(|within| dims.into_iter().map(|dim| (within, dim)).collect()).unwrap_or_default()
    }

    fn lacks_on_nodes(&self, job: JobId, unfit: &Unfit) -> Vec<(Within, DimId)> {
        match unfit {
            Unfit::Insufficient(dim) => vec![(Within::Nodes, *dim)],
            Unfit::TooManyPods => vec![(Within::Nodes, DimId::PODS)],
            Unfit::Reserved => self.requested(job).into_iter().map(|dim| (Within::Nominated, dim)).collect(),
            _ => Vec::new(),
        }
    }

    /// The resources that a job requests of which a queue may not hold more.
    fn overused(&self, job: JobId, queue: &str, why: &Overuse) -> Vec<DimId> {
        if let Overuse::Barred(of) | Overuse::Guarantees(of, _) = why {
            return of.clone();
        }
        let (cluster, requested) = (self.cluster(), self.requested(job));
        let Some(queue) = cluster.queue_named(queue) else { return requested };
        let mut guards = self.tiers.every().filter_map(Plugin::queue_guard);
        let Some(of) = guards.find_map(|it| it.attributes(cluster, queue)) else { return requested };
        let held = &cluster.queues[queue].subtree.allocated;
        requested.into_iter().filter(|dim| held.get(*dim) >= of.deserved.get(*dim)).collect()
    }

    /// The resources that the waiting pods of a job request.
    fn requested(&self, job: JobId) -> Vec<DimId> {
        let pending = &self.cluster().jobs[job].sums.pending;
        pending.iter().filter(|(_, amount)| *amount > 0).map(|(dim, _)| dim).collect()
    }

    fn told(&self, job: JobId, within: Within, dim: DimId) -> Option<Holders> {
        let cluster = self.cluster();
        let mut tally = match within {
            Within::Queue(queue) => in_queue(cluster, queue, dim),
            Within::Nodes => self.on_nodes(job, dim, |hold| hold != Hold::Nothing),
            Within::Nominated => self.on_nodes(job, dim, |hold| hold == Hold::Pipelined),
        };
        tally.jobs.retain(|id, amount| *id != job && *amount > 0);
        if tally.jobs.is_empty() && tally.foreign == 0 {
            return None;
        }
        let format = |amount: i64| cluster.dims.format(dim, amount);
        let mut queues: BTreeMap<QueueId, i64> = BTreeMap::new();
        for (id, amount) in &tally.jobs {
            *queues.entry(cluster.jobs[*id].queue).or_default() += amount;
        }
        let others = tally.jobs.len().saturating_sub(NAMED_MAX);
        let name = |id: &QueueId| cluster.queues[*id].name.clone();
        let key = |id: &JobId| cluster.jobs[*id].key.clone();
        Some(Holders {
            resource: cluster.dims_told(job).name(dim).into(),
            within: match within {
                Within::Queue(queue) => Some(name(&queue)),
                Within::Nodes | Within::Nominated => None,
            },
            reserved: within == Within::Nominated,
            queues: most(&queues, name, format),
            jobs: most(&tally.jobs, key, format),
            others,
            foreign: (tally.foreign > 0).then(|| format(tally.foreign)),
        })
    }

    /// What pods hold in one of these ways of the nodes that the waiting pods of a job may use.
    fn on_nodes(&self, job: JobId, dim: DimId, holds: impl Fn(Hold) -> bool) -> Tally {
        let cluster = self.cluster();
        let mut tally = Tally::default();
        for node in self.nodes_for(job) {
            for id in &cluster.nodes[node].tasks {
                let task = &cluster.tasks[*id];
                if !holds(task.status.hold()) {
                    continue;
                }
                let amount = cluster.request_of(*id).get(dim);
                match task.job {
                    Some(job) => *tally.jobs.entry(job).or_default() += amount,
                    None => tally.foreign += amount,
                }
            }
        }
        tally
    }

    /// The nodes whose attributes let a waiting pod of the job on them, and its network topology beside its other pods.
    fn nodes_for(&self, job: JobId) -> Vec<NodeId> {
        let cluster = self.cluster();
        let waits = |id: &&TaskId| cluster.tasks[**id].status.hold() == Hold::Nothing;
        let Some(task) = cluster.jobs[job].tasks.iter().find(waits) else { return Vec::new() };
        let mut ranking = NodeRanking::new(0);
        let admits = ranking.admits(cluster, &self.tiers, self.tiers.scoped_class(cluster, *task));
        let near = near_peers(cluster, job, *task);
        let is_near = |node: &NodeId| near.as_ref().is_none_or(|near| near.binary_search(node).is_ok());
        cluster.nodes.ids().filter(is_near).filter(|node| admits(*node)).collect()
    }
}

/// The queue of a limit that its own jobs have reached; `None` for one that all pods on nodes have reached.
fn of_limit<'r>(queue: &'r Arc<str>, limit: &Limit) -> Option<&'r Arc<str>> {
    (!matches!(limit, Limit::Nodes | Limit::Left)).then_some(queue)
}

/// What the jobs of a queue and of the queues below it hold, nominated pods included.
fn in_queue(cluster: &Cluster, queue: QueueId, dim: DimId) -> Tally {
    let below = |id: QueueId| cluster.queue_path(id).any(|above| above == queue);
    let jobs = cluster.jobs.iter().filter(|(_, job)| below(job.queue));
    let held = jobs.map(|(id, job)| (id, job.sums.allocated.get(dim) + job.sums.pipelined.get(dim)));
    Tally { jobs: held.collect(), foreign: 0 }
}

/// Those with the largest amounts; of equals the first by name.
fn most<I: Copy, T: Ord>(
    of: &BTreeMap<I, i64>,
    name: impl Fn(&I) -> T,
    format: impl Fn(i64) -> String,
) -> Vec<Held<T>> {
    let mut list: Vec<(Reverse<i64>, T)> =
        of.iter().map(|(id, amount)| (Reverse(*amount), name(id))).collect();
    list.sort();
    list.truncate(NAMED_MAX);
    list.into_iter().map(|(Reverse(amount), by)| Held { by, amount: format(amount) }).collect()
}
