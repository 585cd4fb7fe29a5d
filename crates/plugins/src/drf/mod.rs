//! drf: dominant resource fairness between jobs, and with `enableHierarchy: true` between queues.
//!
//! - The share of a job is `max over resources of held / total`, where *held* is what its pods are allocated or
//!   nominated for, and *total* the allocatable of all nodes.
//! - Job order: the smaller share goes first.
//! - A task is preemptable when the preemptor's job, with the preemptor, has a smaller share than the task's job keeps
//!   without the task and the victims before it; or an equal share, where that is less than the task's job had. The
//!   minimum of a gang is preemptable only for a job of higher priority: the job order puts broken gangs first, so the
//!   gang would take its nodes back.
//!
//! With `enableHierarchy: true` an order of queues and a rule of reclaim follow from annotations of queues: see
//! [`hierarchical`].
//!
//! Source: Volcano's drf plugin; Ghodsi et al., "Dominant Resource Fairness", NSDI 2011. Differences: shares are
//! compared exactly, where Volcano compares floats and takes differences below 10⁻⁶ for equal; and in Volcano jobs of
//! equal shares may preempt each other without end, by pods that do not count in the dominant share of either job.
mod hierarchical;
mod hierarchy_path;
mod hierarchy_tree;

use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use crate::gang::GangSurplus;
use crate::shared::share::Share;
use hierarchical::HierarchicalDrf;
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::id::{JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::conf::{ArgSpec, Flag};
use phalanx_framework::plugin::{
    Eviction, EvictionKind, Plugin, PluginContext, PluginDef, QueueGuard, QueueTree,
};

const ARGS: &[ArgSpec] = &[];

pub(super) const DEF: PluginDef = PluginDef {
    name: "drf",
    summary: "Jobs that hold the smaller dominant share of the cluster go first. With the flag `enableHierarchy: true` (hdrf) \
              queues are ordered too, and reclaim follows, by the hierarchy in the annotations of queues; there are no arguments.",
    args: ARGS,
    reads: hierarchical::READS,
    open: |opening| Box::new(Drf::open(opening)),
};

#[derive(Default)]
struct Drf {
    /// With `enableHierarchy`.
    hierarchy: Option<HierarchicalDrf>,
}

impl Drf {
    fn open(opening: PluginContext<'_>) -> Self {
        let PluginContext { cluster, flags, .. } = opening;
        Self { hierarchy: flags.on(Flag::Hierarchy).then(|| HierarchicalDrf::open(cluster)) }
    }
}

impl Plugin for Drf {
    fn job_order(&self, cluster: &Cluster, a: JobId, b: JobId) -> Ordering {
        // A shortcut, since long backlogs of jobs that hold nothing are sorted.
        let (one, other) = (&cluster.jobs[a], &cluster.jobs[b]);
        if one.sums.allocated == other.sums.allocated && one.sums.pipelined == other.sums.pipelined {
            return Ordering::Equal;
        }
        share(cluster, a).cmp(&share(cluster, b))
    }

    fn queue_valid(&self, _: &Cluster, queue: QueueId) -> Result<(), QueueFault> {
        self.hierarchy.as_ref().map_or(Ok(()), |hierarchy| hierarchy.queue_valid(queue))
    }

    fn queue_order(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        self.hierarchy.as_ref().map_or(Ordering::Equal, |hierarchy| hierarchy.queue_order(cluster, a, b))
    }

    fn listens(&self) -> bool {
        self.hierarchy.is_some()
    }

    fn on_change(&mut self, cluster: &Cluster, task: TaskId, _: Status) {
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.task_changed(cluster, task);
        }
    }

    /// Without a flag, for whole gangs, drf has no rule between jobs.
    fn ranks_equal_priority(&self, flag: Option<Flag>) -> bool {
        flag.is_some()
    }

    fn keep_reason(&self, cluster: &Cluster, preemptor: TaskId, task: TaskId) -> Arc<str> {
        let [to, from] = [preemptor, task].map(|task| cluster.queue_of(task));
        let text = if to == from {
            "of jobs with no larger share of the cluster"
        } else {
            "in queues with no larger share"
        };
        format!("{text} (plugin drf)").into()
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        match eviction.kind {
            EvictionKind::Reclaim => Some(self.hierarchy.as_ref()?.reclaimable(cluster, eviction.by, of)),
            EvictionKind::Preempt => (!eviction.whole_gangs).then(|| preemptable(cluster, eviction.by, of)),
        }
    }

    fn queue_tree(&self) -> Option<&dyn QueueTree> {
        (self.hierarchy.is_some()).then_some(self as &dyn QueueTree)
    }

    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        (self.hierarchy.is_some()).then_some(self as &dyn QueueGuard)
    }
}

/// The victims whose jobs have a larger share of the cluster than the preemptor's.
fn preemptable(cluster: &Cluster, preemptor: TaskId, preemptees: &[TaskId]) -> Vec<TaskId> {
    let Some(preemptor_job) = cluster.tasks[preemptor].job else { return Vec::new() };
    let mut with_preemptor = held(cluster, preemptor_job);
    with_preemptor.add(cluster.request_of(preemptor));
    let preemptor_share = dominant_share(cluster, &with_preemptor);
    let priority = cluster.jobs[preemptor_job].priority;
    let mut held_by: FxHashMap<JobId, Amounts> = FxHashMap::default();
    let mut surplus_of: FxHashMap<JobId, GangSurplus> = FxHashMap::default();
    let mut take = |task: TaskId| {
        let Some(job) = cluster.tasks[task].job else { return false };
        // A broken gang goes first in the job order, and would preempt a job of equal priority in turn.
        let mut may_lose = || {
            let surplus = surplus_of.entry(job).or_insert_with(|| GangSurplus::of(cluster, job));
            cluster.jobs[job].priority < priority || surplus.take(cluster, task)
        };
        let before = held_by.entry(job).or_insert_with(|| held(cluster, job));
        let mut after = before.clone();
        after.sub(cluster.request_of(task));
        let share = dominant_share(cluster, &after);
        // At equal shares a victim has to lower the share of its job, or preemption would go on without end.
        let is_victim = (preemptor_share < share
            || (preemptor_share == share && share < dominant_share(cluster, before)))
            && may_lose();
        if is_victim {
            *before = after;
        }
        is_victim
    };
    preemptees.iter().copied().filter(|task| take(*task)).collect()
}

impl QueueTree for Drf {
    fn queue_path(&self, _: &Cluster, queue: QueueId) -> Option<Vec<u32>> {
        Some(self.hierarchy.as_ref().map_or_else(Vec::new, |hierarchy| hierarchy.path_of(queue)))
    }

    fn order_stamp(&self, cluster: &Cluster) -> u64 {
        self.hierarchy.as_ref().map_or(0, |hierarchy| hierarchy.saturation_stamp(cluster))
    }
}

impl QueueGuard for Drf {}

fn share(cluster: &Cluster, job: JobId) -> Share {
    // Most jobs have no nominated tasks, so that no sum is needed.
    let job_state = &cluster.jobs[job];
    if job_state.sums.pipelined.is_zero() {
        dominant_share(cluster, &job_state.sums.allocated)
    } else {
        dominant_share(cluster, &held(cluster, job))
    }
}

fn held(cluster: &Cluster, job: JobId) -> Amounts {
    let job = &cluster.jobs[job];
    let mut held = job.sums.allocated.clone();
    held.add(&job.sums.pipelined);
    held
}

fn dominant_share(cluster: &Cluster, held: &Amounts) -> Share {
    Share::largest(held.iter().map(|(dim, amount)| Share::new(amount, cluster.sums.allocatable.get(dim))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_framework::testing::{cluster_of, eviction, group, job_of, member, node, running, task_of};

    /// A node of 10 cores and 100 Gi; each gang has `pods` running pods and a pending one.
    fn cluster(gangs: &[(&str, u32, &str)]) -> Cluster {
        let mut cluster = cluster_of([node("n", "cpu=10 memory=100Gi pods=1000")]);
        for (name, pods, request) in gangs {
            cluster.apply(group(name, 1).into());
            for index in 0..*pods {
                cluster.apply(running(member(name, index, request), "n").into());
            }
            cluster.apply(member(name, *pods, request).into());
        }
        cluster
    }

    #[test]
    fn jobs_are_ordered_by_dominant_share() {
        let cluster =
            cluster(&[("cpu", 2, "cpu=1 memory=1Gi"), ("mem", 1, "cpu=1 memory=30Gi"), ("same", 1, "cpu=2")]);
        for (a, b, expected) in [
            ("cpu", "mem", Ordering::Less),
            ("mem", "same", Ordering::Greater),
            ("cpu", "same", Ordering::Equal),
        ] {
            let order = Drf::default().job_order(&cluster, job_of(&cluster, a), job_of(&cluster, b));
            assert_eq!(order, expected, "{a} before {b}");
        }
    }

    #[test]
    fn victims_leave_their_job_no_smaller_share_than_the_preemptor_gets() {
        let cluster = cluster(&[("rich", 5, "cpu=1"), ("poor", 1, "cpu=1")]);
        let victims = |by: &str, of: &str, count: u32| {
            let of: Vec<TaskId> =
                (0..count).map(|index| task_of(&cluster, &format!("{of}-{index}"))).collect();
            Drf::default()
                .evictable(&cluster, eviction(EvictionKind::Preempt, task_of(&cluster, by)), &of)
                .unwrap()
                .len()
        };
        // Job poor would have 2 of 10 cores: job rich may be left with 2.
        assert_eq!(victims("poor-1", "rich", 5), 3);
        assert_eq!(victims("rich-5", "poor", 1), 0);
    }

    #[test]
    fn nominated_tasks_count_in_the_share() {
        let mut cluster = cluster(&[("a", 0, "cpu=1"), ("b", 0, "cpu=1")]);
        let node = cluster.node_named("n");
        let task = task_of(&cluster, "a-0");
        cluster.place(task, phalanx_cluster::Status::Pipelined, node);
        assert_eq!(
            Drf::default().job_order(&cluster, job_of(&cluster, "b"), job_of(&cluster, "a")),
            Ordering::Less
        );
    }
}
