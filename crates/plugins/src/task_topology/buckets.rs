//! Buckets: the pods of a gang that should run on one node.
use std::cmp::Reverse;
use std::collections::BTreeMap;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use super::annotations::{RoleId, TopologyRules};
use phalanx_cluster::id::{JobId, NodeId, TaskId};
use phalanx_cluster::{Cluster, Status};

/// Pods that should run on one node: Volcano's `Bucket`.
#[derive(Debug, Default)]
pub(super) struct TaskBucket {
    pub(super) tasks: Vec<TaskId>,
    roles: BTreeMap<RoleId, i64>,
    /// How many tasks had no node when the session opened.
    pub(super) waiting: usize,
    /// The sum of their requests, in millicores, MiB and thousandths of other resources.
    load: i64,
}

/// The buckets of a job.
#[derive(Debug)]
pub(super) struct JobBuckets {
    pub(super) rules: TopologyRules,
    pub(super) buckets: Vec<TaskBucket>,
    pub(super) of_task: FxHashMap<TaskId, usize>,
    /// The number of tasks in the largest bucket.
    pub(super) largest: usize,
}

/// Whether a task has a node, other than by nomination.
fn has_node(cluster: &Cluster, task: TaskId) -> bool {
    let task = &cluster.tasks[task];
    task.node.is_some() && task.status != Status::Pipelined
}

impl JobBuckets {
    pub(super) fn of(cluster: &Cluster, id: JobId) -> Option<Self> {
        let job = &cluster.jobs[id];
        let rules = TopologyRules::of(job).ok().flatten().filter(|_| job.waiting() > 0)?;
        let is_alive = |task: &TaskId| {
            let status = cluster.tasks[*task].status;
            status != Status::Releasing && !matches!(status, Status::Succeeded | Status::Failed)
        };
        let has_rule = |task: &TaskId| rules.weight.contains_key(&cluster.tasks[*task].role);
        let mut tasks: Vec<TaskId> =
            job.tasks.iter().copied().filter(|task| is_alive(task) && has_rule(task)).collect();
        tasks.sort_by_cached_key(|task| {
            let it = &cluster.tasks[*task];
            let node =
                it.node.filter(|_| has_node(cluster, *task)).map(|node| cluster.nodes[node].name.clone());
            (node.is_none(), node, Reverse(rules.rank(it.role)), it.details.index, it.pod.clone())
        });
        let mut buckets = Self { rules, buckets: Vec::new(), of_task: FxHashMap::default(), largest: 0 };
        let mut of_node = FxHashMap::default();
        for task in tasks {
            buckets.assign(cluster, task, &mut of_node);
        }
        Some(buckets)
    }

    /// Puts a task into a bucket: that of its node, else the best one, else a new one.
    fn assign(&mut self, cluster: &Cluster, task: TaskId, of_node: &mut FxHashMap<NodeId, usize>) {
        let it = &cluster.tasks[task];
        let node = it.node.filter(|_| has_node(cluster, task));
        let known = match node {
            Some(node) => of_node.get(&node).copied(),
            None => self.best_bucket(it.role),
        };
        let at = known.unwrap_or_else(|| {
            self.buckets.push(TaskBucket::default());
            self.buckets.len() - 1
        });
        let bucket = &mut self.buckets[at];
        bucket.tasks.push(task);
        *bucket.roles.entry(it.role).or_default() += 1;
        if let Some(node) = node {
            of_node.insert(node, at);
        } else {
            bucket.waiting += 1;
            bucket.load += load(cluster, cluster.request_of(task));
        }
        self.largest = self.largest.max(bucket.tasks.len());
        self.of_task.insert(task, at);
    }

    /// The bucket with the highest affinity to a role, of several the one with the smallest load; `None` when the
    /// affinity to all buckets is below 0.
    fn best_bucket(&self, role: RoleId) -> Option<usize> {
        let rated = self.buckets.iter().enumerate().map(|(at, bucket)| {
            let affinity = self.rules.affinity_to(role, &bucket.roles);
            (Reverse(affinity), bucket.load, at)
        });
        rated.min().filter(|(affinity, ..)| affinity.0 >= 0).map(|(.., at)| at)
    }

    /// The other waiting tasks in the bucket of a task.
    pub(super) fn others(&self, cluster: &Cluster, task: TaskId) -> Vec<TaskId> {
        let bucket = self.of_task.get(&task).map(|at| &self.buckets[*at]);
        let waits = |other: &TaskId| *other != task && cluster.tasks[*other].node.is_none();
        bucket.into_iter().flat_map(|bucket| bucket.tasks.iter().copied()).filter(waits).collect()
    }

    /// For each node, how many tasks of the bucket it has, less those in an anti-affinity list with the task.
    pub(super) fn on_nodes(&self, cluster: &Cluster, task: TaskId) -> BTreeMap<NodeId, i64> {
        let Some(at) = self.of_task.get(&task) else { return BTreeMap::new() };
        let mut on: BTreeMap<NodeId, (i64, BTreeMap<RoleId, i64>)> = BTreeMap::new();
        for other in self.of_task.keys().filter(|other| **other != task) {
            let it = &cluster.tasks[*other];
            let Some(node) = it.node else { continue };
            let (own, roles) = on.entry(node).or_default();
            *own += i64::from(self.of_task[other] == *at);
            *roles.entry(it.role).or_default() += 1;
        }
        let role = cluster.tasks[task].role;
        let points = |(own, roles): (i64, BTreeMap<_, _>)| own - self.rules.anti_affinity_to(role, &roles);
        on.into_iter().map(|(node, found)| (node, points(found))).filter(|(_, points)| *points != 0).collect()
    }
}

fn load(cluster: &Cluster, request: &Amounts) -> i64 {
    let one = |(dim, amount): (DimId, i64)| match dim {
        DimId::PODS => 0,
        DimId::MEMORY => amount >> 20,
        dim if cluster.dims.name(dim) == "ephemeral-storage" => amount >> 20,
        _ => amount,
    };
    request.iter().map(one).sum()
}
