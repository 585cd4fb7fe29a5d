//! The tree of hierarchical DRF: shares and saturation of its nodes, computed again for what changed.
use std::collections::BTreeSet;

use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use super::hierarchy_path::HierarchyPath;
use phalanx_cluster::id::{JobId, QueueId};
use phalanx_cluster::{Cluster, ROOT};

/// A node of the hierarchy. Its children are nodes and the jobs of queues at the node.
#[derive(Clone, Debug, Default)]
pub(super) struct HdrfNode {
    name: String,
    pub(super) weight: f64,
    children: Vec<usize>,
    /// What the saturated jobs hold.
    held_saturated: Amounts,
    /// The unsaturated jobs that hold something.
    unsaturated: BTreeSet<JobId>,
    /// How many jobs are unsaturated.
    unsaturated_count: usize,
    /// What counts as allocated: unsaturated children scaled to the smallest share among them.
    allocated: Vec<f64>,
    pub(super) share: f64,
    /// What the jobs of the node and of its descendants hold, not scaled.
    pub(super) held: Vec<f64>,
    pub(super) saturated: bool,
}

/// A job, as a child of its node.
#[derive(Clone, Debug, Default)]
pub(super) struct HdrfJob {
    pub(super) node: Option<usize>,
    /// The index of its queue.
    pub(super) queue: usize,
    pub(super) held: Amounts,
    pub(super) request: Amounts,
    pub(super) saturated: bool,
}

/// What the jobs of a queue hold.
#[derive(Clone, Debug, Default)]
struct QueueHoldings {
    /// The jobs in [`HdrfTree::jobs`].
    tracked: Amounts,
    /// All other jobs.
    untracked: Amounts,
}

#[derive(Clone, Debug)]
pub(super) struct HdrfTree {
    /// Parents come before their children; the first node is the root.
    pub(super) nodes: Vec<HdrfNode>,
    /// The tracked jobs: those that request more than they hold, and those that changed. All other jobs hold what they
    /// request, and are saturated.
    pub(super) jobs: FxHashMap<JobId, HdrfJob>,
    /// By queue.
    queues: Vec<QueueHoldings>,
    /// What all jobs hold.
    held: Amounts,
    total: Amounts,
    /// Whether part of a resource is not held, by resource.
    has_free: Vec<bool>,
    /// Jobs that changed since the last update.
    pub(super) changed_jobs: Vec<JobId>,
    /// Queues whose jobs hold other amounts since the last update.
    pub(super) changed_queues: Vec<QueueId>,
    pub(super) is_stale: bool,
    /// How often all jobs were checked for saturation, because a resource became fully held or free again.
    pub(super) saturation_stamp: u64,
}

impl HdrfTree {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let root = HdrfNode { name: ROOT.to_owned(), weight: 1.0, ..HdrfNode::default() };
        Self {
            nodes: vec![root],
            jobs: FxHashMap::default(),
            queues: vec![QueueHoldings::default(); cluster.queues.bound()],
            held: Amounts::new(),
            total: cluster.sums.allocatable.clone(),
            has_free: vec![true; cluster.dims.len()],
            changed_jobs: Vec::new(),
            changed_queues: Vec::new(),
            is_stale: false,
            saturation_stamp: 0,
        }
    }

    /// The nodes on a path from the root; adds those that are missing.
    pub(super) fn insert_path(&mut self, path: &HierarchyPath<'_>) -> Vec<usize> {
        let mut nodes = vec![0];
        let mut parent = 0;
        for (name, weight) in path {
            let known =
                self.nodes[parent].children.iter().copied().find(|child| self.nodes[*child].name == *name);
            let node = known.unwrap_or_else(|| {
                self.nodes.push(HdrfNode {
                    name: (*name).to_owned(),
                    weight: *weight,
                    ..HdrfNode::default()
                });
                let child = self.nodes.len() - 1;
                self.nodes[parent].children.push(child);
                child
            });
            nodes.push(node);
            parent = node;
        }
        nodes
    }

    /// Starts to track a job, which counted among the untracked jobs of its queue so far.
    pub(super) fn track(&mut self, id: JobId, job: impl FnOnce() -> HdrfJob) {
        if !self.jobs.contains_key(&id) {
            let job = job();
            let mut untracked = self.queues[job.queue].untracked.clone();
            untracked.sub(&job.held);
            self.set_untracked(job.queue, job.node, &untracked);
            self.set_job(id, job);
        }
    }

    /// Replaces a tracked job, or adds it.
    pub(super) fn set_job(&mut self, id: JobId, mut job: HdrfJob) {
        self.remove_job(id);
        job.saturated = self.is_saturated(&job);
        self.add_job(id, job);
    }

    /// Updates what the untracked jobs of a queue hold, from what all its jobs hold.
    pub(super) fn set_held(&mut self, queue: usize, node: Option<usize>, mut held: Amounts) {
        held.sub(&self.queues[queue].tracked);
        self.set_untracked(queue, node, &held);
    }

    fn set_untracked(&mut self, queue: usize, node: Option<usize>, untracked: &Amounts) {
        let before = std::mem::replace(&mut self.queues[queue].untracked, untracked.clone());
        self.held.sub(&before);
        self.held.add(untracked);
        if let Some(node) = node.map(|node| &mut self.nodes[node]) {
            node.held_saturated.sub(&before);
            node.held_saturated.add(untracked);
        }
    }

    fn add_job(&mut self, id: JobId, job: HdrfJob) {
        self.held.add(&job.held);
        self.queues[job.queue].tracked.add(&job.held);
        if let Some(node) = job.node.map(|node| &mut self.nodes[node]) {
            if job.saturated {
                node.held_saturated.add(&job.held);
            } else if !job.request.is_zero() {
                node.unsaturated_count += 1;
                if !job.held.is_zero() {
                    node.unsaturated.insert(id);
                }
            }
        }
        self.jobs.insert(id, job);
    }

    fn remove_job(&mut self, id: JobId) {
        let Some(job) = self.jobs.remove(&id) else { return };
        self.held.sub(&job.held);
        self.queues[job.queue].tracked.sub(&job.held);
        let Some(node) = job.node.map(|node| &mut self.nodes[node]) else { return };
        if job.saturated {
            node.held_saturated.sub(&job.held);
        } else if !job.request.is_zero() {
            node.unsaturated_count -= 1;
            node.unsaturated.remove(&id);
        }
    }

    fn is_saturated(&self, job: &HdrfJob) -> bool {
        let is_full = |(dim, request): (DimId, i64)| {
            let held = job.held.get(dim);
            request > 0 && ((held > 0 && held >= request) || !self.has_free[dim.index()])
        };
        job.request.iter().any(is_full)
    }

    /// Computes all nodes again, from the leaves up.
    pub(super) fn compute(&mut self) {
        self.compute_nodes(0..self.nodes.len());
    }

    /// Computes these nodes again, from the leaves up; their ancestors have to be among them. Computes all nodes where
    /// the saturation of any job may have changed.
    pub(super) fn compute_nodes(&mut self, nodes: impl Iterator<Item = usize>) {
        let mut nodes: Vec<usize> =
            if self.update_has_free() { (0..self.nodes.len()).collect() } else { nodes.collect() };
        nodes.sort_unstable();
        nodes.dedup();
        for node in nodes.into_iter().rev() {
            self.compute_node(node);
        }
    }

    /// Updates which resources have a part that is not held; where that changed, updates the saturation of all jobs and
    /// returns true.
    fn update_has_free(&mut self) -> bool {
        let dims = (0..self.has_free.len()).map(|dim| DimId(dim as u16));
        let has_free: Vec<bool> = dims.map(|dim| self.held.get(dim) < self.total.get(dim)).collect();
        let changed = has_free != self.has_free;
        if changed {
            self.has_free = has_free;
            self.saturation_stamp += 1;
            for (id, job) in self.jobs.clone() {
                self.set_job(id, job);
            }
        }
        changed
    }

    fn compute_node(&mut self, index: usize) {
        let node = &self.nodes[index];
        let children = || node.children.iter().map(|child| &self.nodes[*child]);
        let jobs: Vec<JobShare> = node.unsaturated.iter().map(|job| self.job_share(*job)).collect();
        let node_shares =
            children().filter(|child| !child.saturated && child.share > 0.0).map(|child| child.share);
        let least = jobs.iter().map(|job| job.share).chain(node_shares).fold(1.0, f64::min);
        let mut allocated = self.in_floats(&node.held_saturated);
        let mut add = |amounts: &[f64], factor: f64| {
            allocated.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount * factor);
        };
        for job in jobs.iter().filter(|job| job.share > 0.0) {
            add(&job.held, least / job.share);
        }
        for child in children().filter(|child| child.share > 0.0) {
            add(&child.allocated, if child.saturated { 1.0 } else { least / child.share });
        }
        let saturated = node.unsaturated_count == 0 && children().all(|child| child.saturated);
        let share = self.dominant_share(&allocated);
        let held = self.held_with_descendants(index, jobs.iter().map(|job| &job.held));
        let node = &mut self.nodes[index];
        (node.allocated, node.share, node.held, node.saturated) = (allocated, share, held, saturated);
    }

    /// What the jobs of a node and of its descendants hold; `unsaturated` is what its unsaturated jobs hold.
    fn held_with_descendants<'a>(
        &'a self,
        index: usize,
        unsaturated: impl Iterator<Item = &'a Vec<f64>>,
    ) -> Vec<f64> {
        let node = &self.nodes[index];
        let mut held = self.in_floats(&node.held_saturated);
        let children = node.children.iter().map(|child| &self.nodes[*child].held);
        for amounts in unsaturated.chain(children) {
            held.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        held
    }

    fn job_share(&self, job: JobId) -> JobShare {
        let held = self.in_floats(&self.jobs[&job].held);
        JobShare { share: self.dominant_share(&held), held }
    }

    fn in_floats(&self, amounts: &Amounts) -> Vec<f64> {
        (0..self.has_free.len()).map(|dim| amounts.get(DimId(dim as u16)) as f64).collect()
    }

    /// The dominant share of amounts; of a resource that the cluster has none of, any amount is a share of 1.
    pub(super) fn dominant_share(&self, amounts: &[f64]) -> f64 {
        let of_dim = |(dim, amount): (usize, &f64)| match self.total.get(DimId(dim as u16)) {
            total if total > 0 => amount / total as f64,
            _ if *amount > 0.0 => 1.0,
            _ => 0.0,
        };
        amounts.iter().enumerate().map(of_dim).fold(0.0, f64::max)
    }
}

/// What a job holds, and its dominant share.
struct JobShare {
    held: Vec<f64>,
    share: f64,
}
