//! priority: jobs and pods of higher priority go first, and preempt those of lower priority.
//!
//! - Job order: by the value of the PodGroup's PriorityClass; task order: by the priority of the pod; larger first.
//! - A task is preemptable for a task of another job whose job has a higher priority, and for a task of its own job
//!   that has a higher priority itself.
//! - A reservation of a job gives way to a job of higher priority in the same queue.
//! - A job is starving while `ready + pipelined < tasks`, so that it may preempt for all its tasks.
//!
//! There are no arguments. Source: Volcano's priority plugin. Reclaim between queues does not depend on priority.
use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Status, World};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{EvictionKind, JobRank, ObjectField, Plugin, PluginDef};

const ARGS: &[ArgSpec] = &[];

const READS: &[ObjectField] = &[
    ObjectField::new(
        "spec.priorityClassName",
        "field of a PodGroup, or of a pod without one",
        "the global default, else 0",
        "The priority of the job: the value of that PriorityClass.",
    ),
    ObjectField::new(
        "spec.priority",
        "field of a pod",
        "that of its PriorityClass",
        "The priority of the pod in its job.",
    ),
    ObjectField::new(
        "volcano.sh/task-priority",
        "annotation of a pod",
        "`spec.priority`",
        "An integer that replaces `spec.priority`.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "priority",
    summary: "Jobs and pods of higher priority go first and may preempt those of lower priority.",
    args: ARGS,
    reads: READS,
    open: |_| Box::new(PriorityPlugin),
};

struct PriorityPlugin;

impl Plugin for PriorityPlugin {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        world.jobs[b].priority.cmp(&world.jobs[a].priority)
    }

    fn task_order(&self, world: &World, a: TaskId, b: TaskId) -> Ordering {
        world.tasks[b].priority.cmp(&world.tasks[a].priority)
    }

    fn job_starving(&self, world: &World, job: JobId) -> Option<bool> {
        let counts = &world.jobs[job].counts;
        Some(counts.ready() + counts.of(Status::Pipelined) < counts.total())
    }

    fn depends_on_request(&self) -> bool {
        false
    }

    fn keep_reason(&self, _: &World, _: TaskId, _: TaskId) -> Arc<str> {
        "of equal or higher priority (plugin priority)".into()
    }

    fn preemptable(&self, world: &World, preemptor: TaskId, preemptees: &[TaskId]) -> Option<Vec<TaskId>> {
        let is_victim = |preemptee: &TaskId| has_lower_priority(world, *preemptee, preemptor);
        Some(preemptees.iter().copied().filter(is_victim).collect())
    }

    fn unified_evictable(
        &self,
        world: &World,
        kind: EvictionKind,
        evictor: TaskId,
        evictees: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let priority = |task: TaskId| world.tasks[task].job.map(|job| world.jobs[job].priority);
        let is_lower = |task: &&TaskId| priority(**task).is_some_and(|its| Some(its) < priority(evictor));
        Some(match kind {
            EvictionKind::Preempt => evictees.iter().filter(is_lower).copied().collect(),
            EvictionKind::Reclaim => evictees.to_vec(),
        })
    }

    fn job_rank(&self) -> Option<&dyn JobRank> {
        Some(self)
    }
}

impl JobRank for PriorityPlugin {
    fn outranks(&self, world: &World, by: JobId, of: JobId) -> bool {
        world.jobs[by].priority > world.jobs[of].priority
    }
}

fn has_lower_priority(world: &World, preemptee: TaskId, preemptor: TaskId) -> bool {
    let (preemptee, preemptor) = (&world.tasks[preemptee], &world.tasks[preemptor]);
    match (preemptee.job, preemptor.job) {
        (Some(from), Some(to)) if from == to => preemptee.priority < preemptor.priority,
        (Some(from), Some(to)) => world.jobs[from].priority < world.jobs[to].priority,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Event, PodGroupInfo};
    use phalanx_framework::testing::{group, job_of, member, task_of, world_of};

    fn world() -> World {
        let class =
            |name: &str, value| Event::PriorityClass { name: name.into(), value, global_default: false };
        let mut world = world_of([class("low", 1), class("high", 9)]);
        for name in ["low", "high", "none"] {
            let priority_class = Some(name.into());
            world.apply(PodGroupInfo { priority_class, ..group(name, 1) }.into());
            for (index, priority) in [(0, Some(0)), (1, Some(5))] {
                let mut pod = member(name, index, "cpu=1");
                pod.priority = priority;
                world.apply(pod.into());
            }
        }
        world
    }

    #[test]
    fn jobs_and_tasks_are_ordered_by_priority() {
        let world = world();
        let job = |name| job_of(&world, name);
        assert_eq!(PriorityPlugin.job_order(&world, job("high"), job("low")), Ordering::Less);
        assert_eq!(PriorityPlugin.job_order(&world, job("none"), job("low")), Ordering::Greater);
        assert_eq!(PriorityPlugin.job_order(&world, job("low"), job("low")), Ordering::Equal);
        let task = |name| task_of(&world, name);
        assert_eq!(PriorityPlugin.task_order(&world, task("low-1"), task("low-0")), Ordering::Less);
        assert_eq!(PriorityPlugin.task_order(&world, task("low-1"), task("high-1")), Ordering::Equal);
    }

    #[test]
    fn victims_have_a_lower_job_priority_or_in_one_job_a_lower_task_priority() {
        let world = world();
        let all: Vec<TaskId> = world.tasks.ids().collect();
        for (by, expected) in [
            ("high-0", vec!["low-0", "low-1", "none-0", "none-1"]),
            ("high-1", vec!["high-0", "low-0", "low-1", "none-0", "none-1"]),
            ("low-0", vec!["none-0", "none-1"]),
            ("none-0", vec![]),
        ] {
            let victims = PriorityPlugin.preemptable(&world, task_of(&world, by), &all).unwrap();
            let mut names: Vec<&str> = victims.iter().map(|task| &*world.tasks[*task].pod.name).collect();
            names.sort_unstable();
            assert_eq!(names, expected, "for {by}");
        }
    }

    #[test]
    fn a_job_is_starving_while_a_task_has_no_node() {
        let mut world = world_of([group("g", 1)]);
        world.apply(phalanx_framework::testing::running(member("g", 0, "cpu=1"), "n").into());
        assert_eq!(PriorityPlugin.job_starving(&world, job_of(&world, "g")), Some(false));
        world.apply(member("g", 1, "cpu=1").into());
        assert_eq!(PriorityPlugin.job_starving(&world, job_of(&world, "g")), Some(true));
    }
}
