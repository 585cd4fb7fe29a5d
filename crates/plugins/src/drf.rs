//! drf: jobs in the order of what they already have, by dominant resource fairness.
//!
//! - A job's share is `max over resources of held / total`: what its pods hold or are promised, of what all nodes can
//!   give. The smaller share goes first.
//! - A task may be evicted for another when the other's job, with that task, would have less than the share its own job
//!   keeps without it and without those picked before it, or as much when that is less than it had. A gang is broken only
//!   for a job of higher priority: broken ones go first, and would take it back.
//!
//! Source: Volcano's drf plugin; Ghodsi et al., "Dominant Resource Fairness", NSDI 2011. Shares are compared exactly,
//! where Volcano compares floats and takes a difference below 10⁻⁶ for equal; and equal shares may be turned round for ever
//! there, by pods of which neither job has its dominant share. `enableHierarchy: true` adds an order of
//! queues and what may be reclaimed, by the annotations of queues: see [`hdrf`](super::hdrf).
use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::Amounts;
use rustc_hash::FxHashMap;

use super::gang::Spare;
use super::hdrf::Hdrf;
use super::share::Share;
use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, QueueId, TaskId};
use phalanx_cluster::{Status, World};
use phalanx_framework::conf::{ArgSpec, Flag};
use phalanx_framework::plugin::{EvictionKind, Plugin, PluginContext, PluginDef, QueueGuard, QueueTree};

const ARGS: &[ArgSpec] = &[];

pub(super) const DEF: PluginDef = PluginDef {
    name: "drf",
    summary: "Jobs that hold the smaller dominant share of the cluster go first. With the flag `enableHierarchy: true` (hdrf) \
              queues too, and what may be reclaimed, by the tree that annotations of queues describe; it takes no arguments.",
    args: ARGS,
    reads: super::hdrf::READS,
    open: |opening| Box::new(Drf::open(opening)),
};

#[derive(Default)]
struct Drf {
    /// With `enableHierarchy`.
    tree: Option<Hdrf>,
}

impl Drf {
    fn open(opening: PluginContext<'_>) -> Self {
        let PluginContext { world, flags, .. } = opening;
        Self { tree: flags.on(Flag::Hierarchy).then(|| Hdrf::open(world)) }
    }
}

impl Plugin for Drf {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        // Long lines of jobs that hold the same are sorted.
        let (one, other) = (&world.jobs[a], &world.jobs[b]);
        if one.allocated == other.allocated && one.pipelined == other.pipelined {
            return Ordering::Equal;
        }
        share(world, a).cmp(&share(world, b))
    }

    fn queue_valid(&self, _: &World, queue: QueueId) -> Result<(), QueueFault> {
        self.tree.as_ref().map_or(Ok(()), |tree| tree.queue_valid(queue))
    }

    fn queue_order(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        self.tree.as_ref().map_or(Ordering::Equal, |tree| tree.queue_order(world, a, b))
    }

    fn reclaimable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(self.tree.as_ref()?.reclaimable(world, by, of))
    }

    fn unified_evictable(
        &self,
        world: &World,
        kind: EvictionKind,
        by: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        (kind == EvictionKind::Reclaim).then(|| self.reclaimable(world, by, of))?
    }

    fn listens(&self) -> bool {
        self.tree.is_some()
    }

    fn on_change(&mut self, world: &World, task: TaskId, _: Status) {
        if let Some(tree) = &mut self.tree {
            tree.changed(world, task);
        }
    }

    /// It says nothing of gangs as a whole.
    fn ranks_jobs(&self, flag: Option<Flag>) -> bool {
        flag.is_some()
    }

    fn keep_reason(&self, world: &World, by: TaskId, task: TaskId) -> Arc<str> {
        let [by, of] = [by, task].map(|task| world.queue_of(task));
        let text = if by == of {
            "of jobs with no larger share of the cluster"
        } else {
            "in queues with no larger share"
        };
        format!("{text} (plugin drf)").into()
    }

    fn preemptable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let Some(job) = world.tasks[by].job else { return Some(Vec::new()) };
        let mut wanted = held(world, job);
        wanted.add(world.request_of(by));
        let wanted = dominant(world, &wanted);
        let priority = world.jobs[job].priority;
        let mut left: FxHashMap<JobId, Amounts> = FxHashMap::default();
        let mut spare: FxHashMap<JobId, Spare> = FxHashMap::default();
        let mut take = |task: TaskId| {
            let Some(job) = world.tasks[task].job else { return false };
            // A gang that is broken goes first, and would take back what an equal one took.
            let mut is_spare = || {
                let spare = spare.entry(job).or_insert_with(|| Spare::of(&world.jobs[job]));
                world.jobs[job].priority < priority || spare.take(world.tasks[task].role)
            };
            let left = left.entry(job).or_insert_with(|| held(world, job));
            let mut without = left.clone();
            without.sub(world.request_of(task));
            let after = dominant(world, &without);
            // Equal will do where that lowers the other's share: what lowers nobody's could go on for ever.
            let taken = (wanted < after || (wanted == after && after < dominant(world, left))) && is_spare();
            if taken {
                *left = without;
            }
            taken
        };
        Some(of.iter().copied().filter(|task| take(*task)).collect())
    }

    fn queue_tree(&self) -> Option<&dyn QueueTree> {
        self.tree.is_some().then_some(self as &dyn QueueTree)
    }

    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        self.tree.is_some().then_some(self as &dyn QueueGuard)
    }
}

impl QueueTree for Drf {
    fn queue_path(&self, _: &World, queue: QueueId) -> Option<Vec<u32>> {
        Some(self.tree.as_ref().map_or_else(Vec::new, |tree| tree.way(queue)))
    }

    fn order_stamp(&self, world: &World) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.stamp(world))
    }
}

impl QueueGuard for Drf {}

fn share(world: &World, job: JobId) -> Share {
    // Most jobs have no promises, so nothing has to be added up.
    let job_has = &world.jobs[job];
    if job_has.pipelined.is_zero() {
        dominant(world, &job_has.allocated)
    } else {
        dominant(world, &held(world, job))
    }
}

fn held(world: &World, job: JobId) -> Amounts {
    let job = &world.jobs[job];
    let mut held = job.allocated.clone();
    held.add(&job.pipelined);
    held
}

fn dominant(world: &World, held: &Amounts) -> Share {
    Share::largest(held.iter().map(|(dim, amount)| Share::new(amount, world.total.get(dim))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_framework::testing::{group, job_of, member, node, running, task_of, world_of};

    /// 10 cpus and 100 Gi; each gang's pods run, but for the last.
    fn world(gangs: &[(&str, u32, &str)]) -> World {
        let mut world = world_of([node("n", "cpu=10 memory=100Gi pods=1000")]);
        for (name, pods, request) in gangs {
            world.apply(group(name, 1).into());
            for index in 0..*pods {
                world.apply(running(member(name, index, request), "n").into());
            }
            world.apply(member(name, *pods, request).into());
        }
        world
    }

    #[test]
    fn the_dominant_share_decides() {
        let world =
            world(&[("cpu", 2, "cpu=1 memory=1Gi"), ("mem", 1, "cpu=1 memory=30Gi"), ("same", 1, "cpu=2")]);
        for (a, b, expected) in [
            ("cpu", "mem", Ordering::Less),
            ("mem", "same", Ordering::Greater),
            ("cpu", "same", Ordering::Equal),
        ] {
            let order = Drf::default().job_order(&world, job_of(&world, a), job_of(&world, b));
            assert_eq!(order, expected, "{a} before {b}");
        }
    }

    #[test]
    fn victims_are_those_whose_job_keeps_at_least_what_the_other_gets() {
        let world = world(&[("rich", 5, "cpu=1"), ("poor", 1, "cpu=1")]);
        let victims = |by: &str, of: &str, count: u32| {
            let of: Vec<TaskId> = (0..count).map(|index| task_of(&world, &format!("{of}-{index}"))).collect();
            Drf::default().preemptable(&world, task_of(&world, by), &of).unwrap().len()
        };
        // Poor would have 2 of 10: rich may go down to 2.
        assert_eq!(victims("poor-1", "rich", 5), 3);
        assert_eq!(victims("rich-5", "poor", 1), 0);
    }

    #[test]
    fn nominated_tasks_count_as_held() {
        let mut world = world(&[("a", 0, "cpu=1"), ("b", 0, "cpu=1")]);
        let node = world.node_named("n");
        let task = task_of(&world, "a-0");
        world.place(task, phalanx_cluster::Status::Pipelined, node);
        assert_eq!(
            Drf::default().job_order(&world, job_of(&world, "b"), job_of(&world, "a")),
            Ordering::Less
        );
    }
}
