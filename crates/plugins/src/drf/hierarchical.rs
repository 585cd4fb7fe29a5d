//! Hierarchical dominant resource fairness (hdrf), the part of plugin drf that `enableHierarchy: true` switches on.
//!
//! The annotations `volcano.sh/hierarchy` (`root/eng/prod`) and `volcano.sh/hierarchy-weights` (`1/2/8`; a weight below
//! 1 counts as 1) give each queue a node in a tree; queues without annotations are at the root. The children of a node
//! are its child nodes and the jobs of its queues. With *total* for the allocatable of all nodes of the cluster:
//! - a job is saturated when it holds all that it requests of a resource, or requests a resource that is fully held; a
//!   node is saturated when all its children are;
//! - a saturated child counts with what it holds; an unsaturated child that holds something is scaled down to the
//!   smallest dominant share among the unsaturated children: `allocated = Σ saturated + Σ unsaturated · smallest share
//!   / own share`;
//! - the share of a node is `max over resources of allocated / total`.
//!
//! Queue order: at the first level where the paths of two queues part, the unsaturated node goes first, then the node
//! with the smaller share by weight. A task is reclaimable when, with the reclaimer placed and the task and the victims
//! before it gone, the reclaimer's queue still goes before the task's queue, and the node of the task's queue at that
//! level holds more by weight, unscaled.
//!
//! Source: Volcano's drf plugin; Bhattacharya et al., "Hierarchical Scheduling for Diverse Datacenter Workloads", SoCC
//! 2013. Differences: victims add up, where Volcano judges each alone, and what nodes hold unscaled counts. A queue
//! whose node is an ancestor of another queue's, or that gives a node another weight than an older queue does, takes no
//! jobs; Volcano's admission webhook refuses the former, and of two weights Volcano takes either. Pending tasks of a
//! queue that takes no jobs are not part of what its jobs request.
use std::cmp::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};

use phalanx_resource::Amounts;

use super::hierarchy_path::{contradictions, path};
use super::hierarchy_tree::{HdrfJob, HdrfTree};
use phalanx_cluster::annotation::{HIERARCHY, HIERARCHY_WEIGHTS};
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Queue};
use phalanx_framework::plugin::ObjectField;

/// The annotations that hierarchical DRF reads, listed as those of plugin drf.
pub(super) const READS: &[ObjectField] = &[
    ObjectField::new(
        HIERARCHY,
        "annotation of a Queue",
        "at the root",
        "With `enableHierarchy: true` (hdrf): the path of the queue in the hierarchy, such as `root/eng/prod`.",
    ),
    ObjectField::new(
        HIERARCHY_WEIGHTS,
        "annotation of a Queue",
        "none, and then no place either",
        "Likewise: the weights of the parts of the path, such as `1/2/8`, above 0; a weight below 1 counts as 1. With another \
         number of parts, or a part that is no number, the queue's jobs wait and the queue says why.",
    ),
];

/// The hierarchy of queues in a session.
pub(super) struct HierarchicalDrf {
    /// The nodes on the path from the root to each queue, by queue id.
    paths: Vec<Vec<usize>>,
    /// Why a queue takes no jobs, by queue id.
    faults: Vec<Option<QueueFault>>,
    /// Whether a queue takes jobs, so that its pending tasks count, by queue id.
    takes_jobs: Vec<bool>,
    /// Behind a lock, since it is brought up to date when it is read.
    tree: Mutex<HdrfTree>,
}

impl HierarchicalDrf {
    pub(super) fn open(cluster: &Cluster) -> Self {
        let bound = cluster.queues.bound();
        let mut hdrf = Self {
            paths: vec![vec![0]; bound],
            faults: vec![None; bound],
            takes_jobs: vec![false; bound],
            tree: Mutex::new(HdrfTree::new(cluster)),
        };
        let mut queues: Vec<(QueueId, &Queue)> =
            cluster.queues.iter().filter(|(_, queue)| queue.object.exists).collect();
        queues.sort_by(|a, b| a.1.name.cmp(&b.1.name));
        let contradictions = contradictions(&queues);
        let tree = hdrf.tree.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (id, queue) in queues {
            let path = path(queue);
            match contradictions.get(&id).map_or(path, |why| Err(why.clone())) {
                Ok(path) => {
                    hdrf.paths[id.index()] = tree.insert_path(&path);
                    hdrf.takes_jobs[id.index()] =
                        cluster.queue_takes_jobs(id) && cluster.queue_fault(id).is_none();
                }
                Err(why) => hdrf.faults[id.index()] = Some(QueueFault::Field(why.into())),
            }
        }
        tree.changed_jobs = cluster.pending_jobs().map(|(id, _)| id).collect();
        tree.changed_queues = cluster.queues.ids().collect();
        tree.is_stale = true;
        hdrf
    }

    pub(super) fn queue_valid(&self, queue: QueueId) -> Result<(), QueueFault> {
        self.faults.get(queue.index()).cloned().flatten().map_or(Ok(()), Err)
    }

    pub(super) fn task_changed(&mut self, cluster: &Cluster, task: TaskId) {
        let tree = self.tree.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = cluster.queue_of(task) {
            tree.changed_queues.push(queue);
            tree.changed_jobs.extend(cluster.tasks[task].job);
            tree.is_stale = true;
        }
    }

    /// The nodes on the path from the root to a queue.
    pub(super) fn path_of(&self, queue: QueueId) -> Vec<u32> {
        self.paths[queue.index()].iter().map(|node| *node as u32).collect()
    }

    /// A number that changes when jobs of any queue may have become saturated or unsaturated.
    pub(super) fn saturation_stamp(&self, cluster: &Cluster) -> u64 {
        self.up_to_date(cluster).saturation_stamp
    }

    pub(super) fn queue_order(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        self.compare(&self.up_to_date(cluster), a, b)
    }

    pub(super) fn reclaimable(
        &self,
        cluster: &Cluster,
        reclaimer: TaskId,
        reclaimees: &[TaskId],
    ) -> Vec<TaskId> {
        let Some(job) = cluster.tasks[reclaimer].job else { return Vec::new() };
        let to = cluster.jobs[job].queue;
        let mut tree = self.up_to_date(cluster).clone();
        let change =
            |tree: &mut HdrfTree, id: JobId, task: TaskId, add_or_sub: fn(&mut Amounts, &Amounts)| {
                let mut job = tree.jobs.get(&id).cloned().unwrap_or_else(|| self.job(cluster, id));
                add_or_sub(&mut job.held, cluster.request_of(task));
                tree.set_job(id, job);
            };
        change(&mut tree, job, reclaimer, Amounts::add);
        let mut take = |task: TaskId| {
            let Some(job) = cluster.tasks[task].job else { return false };
            tree.track(job, || self.job(cluster, job));
            change(&mut tree, job, task, Amounts::sub);
            tree.compute();
            let from = cluster.jobs[job].queue;
            let is_victim = self.compare(&tree, to, from).is_lt() && self.holds_less(&tree, to, from);
            if !is_victim {
                change(&mut tree, job, task, Amounts::add);
            }
            is_victim
        };
        reclaimees.iter().copied().filter(|task| take(*task)).collect()
    }

    /// The tree with all changes of the session.
    fn up_to_date(&self, cluster: &Cluster) -> MutexGuard<'_, HdrfTree> {
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::take(&mut tree.is_stale) {
            return tree;
        }
        let mut jobs = std::mem::take(&mut tree.changed_jobs);
        jobs.dedup();
        for job in jobs {
            tree.set_job(job, self.job(cluster, job));
        }
        let mut queues = std::mem::take(&mut tree.changed_queues);
        queues.sort_unstable();
        queues.dedup();
        for id in &queues {
            tree.set_held(id.index(), self.node_of(cluster, *id), cluster.queues[*id].held());
        }
        tree.compute_nodes(queues.iter().flat_map(|id| self.paths[id.index()].iter().copied()));
        tree
    }

    fn node_of(&self, cluster: &Cluster, queue: QueueId) -> Option<usize> {
        self.paths[queue.index()].last().copied().filter(|_| cluster.queues[queue].object.exists)
    }

    /// A job with its present amounts.
    fn job(&self, cluster: &Cluster, id: JobId) -> HdrfJob {
        let job = &cluster.jobs[id];
        let mut held = job.sums.allocated.clone();
        held.add(&job.sums.pipelined);
        let mut request = held.clone();
        if self.takes_jobs[job.queue.index()] {
            request.add(&job.sums.pending);
        }
        let node = self.node_of(cluster, job.queue);
        HdrfJob { node, queue: job.queue.index(), held, request, saturated: false }
    }

    /// Whether, where the paths of two queues part, the node of the first holds less by weight, unscaled. Scaled shares
    /// may fall when a node holds more, so by these alone two queues could reclaim from each other without end.
    fn holds_less(&self, tree: &HdrfTree, a: QueueId, b: QueueId) -> bool {
        let (a, b) = (&self.paths[a.index()], &self.paths[b.index()]);
        let by_weight = |node: usize| tree.dominant_share(&tree.nodes[node].held) / tree.nodes[node].weight;
        let parted = a.iter().zip(b).find(|(a, b)| a != b);
        parted.is_none_or(|(a, b)| by_weight(*a) < by_weight(*b))
    }

    /// Level by level: saturated nodes last, then by share and weight; queues with equal nodes by the length of the
    /// path.
    fn compare(&self, tree: &HdrfTree, a: QueueId, b: QueueId) -> Ordering {
        let (a, b) = (&self.paths[a.index()], &self.paths[b.index()]);
        let weighted_share = |node: usize| tree.nodes[node].share / tree.nodes[node].weight;
        let compare_nodes = |(a, b): (&usize, &usize)| {
            let by_saturation = tree.nodes[*a].saturated.cmp(&tree.nodes[*b].saturated);
            by_saturation.then(weighted_share(*a).total_cmp(&weighted_share(*b)))
        };
        let order = a.iter().zip(b).map(compare_nodes).find(|order| order.is_ne());
        order.unwrap_or_else(|| a.len().cmp(&b.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drf::hierarchy_path::tests::queue_at;
    use phalanx_cluster::event::QueueInfo;
    use phalanx_framework::testing::{cluster_of, group, member, node, queue_of, running};

    /// A node of ten cores, and queues with this many running pods of one core, and a pending one.
    fn cluster(queues: &[(QueueInfo, u32)]) -> Cluster {
        let mut cluster = cluster_of([node("n", "cpu=10 memory=10Gi pods=100")]);
        for (info, pods) in queues {
            cluster.apply(info.clone().into());
            cluster.apply(
                phalanx_cluster::event::PodGroupInfo { queue: info.name.clone(), ..group(&info.name, 1) }
                    .into(),
            );
            for index in 0..=*pods {
                let pod = member(&info.name, index, "cpu=1");
                cluster.apply(if index < *pods { running(pod, "n") } else { pod }.into());
            }
        }
        cluster
    }

    #[test]
    fn queues_are_ordered_by_weighted_share_where_their_paths_part() {
        let of = |name: &str, way: &str, weights: &str, pods| (queue_at(name, way, weights), pods);
        for (what, a, b, expected) in [
            ("the smaller share", of("a", "root/a", "1/1", 1), of("b", "root/b", "1/1", 2), Ordering::Less),
            ("equal shares", of("a", "root/a", "1/1", 2), of("b", "root/b", "1/1", 2), Ordering::Equal),
            ("by weight", of("a", "root/a", "1/1", 2), of("b", "root/b", "1/4", 4), Ordering::Greater),
            (
                "within a department",
                of("a", "root/d/a", "1/1/1", 1),
                of("b", "root/d/b", "1/1/2", 3),
                Ordering::Less,
            ),
            (
                "without annotations, at the root",
                of("a", "", "", 0),
                of("b", "root/b", "1/1", 1),
                Ordering::Less,
            ),
        ] {
            let cluster = cluster(&[a, b]);
            let hdrf = HierarchicalDrf::open(&cluster);
            let order = hdrf.queue_order(&cluster, queue_of(&cluster, "a"), queue_of(&cluster, "b"));
            assert_eq!(order, expected, "{what}");
        }
    }
}
