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

use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Status};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{Eviction, EvictionKind, JobRank, ObjectField, Plugin, PluginDef};

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
        "annotation of a pod of a PodGroup",
        "`spec.priority`",
        "An integer that replaces `spec.priority` among the pods of the PodGroup.",
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
    fn job_order(&self, cluster: &Cluster, a: JobId, b: JobId) -> Ordering {
        cluster.jobs[b].priority.cmp(&cluster.jobs[a].priority)
    }

    fn task_order(&self, cluster: &Cluster, a: TaskId, b: TaskId) -> Ordering {
        cluster.tasks[b].priority.cmp(&cluster.tasks[a].priority)
    }

    fn job_starving(&self, cluster: &Cluster, job: JobId) -> Option<bool> {
        let counts = &cluster.jobs[job].counts;
        Some(counts.ready() + counts.of(Status::Pipelined) < counts.total())
    }

    fn depends_on_request(&self) -> bool {
        false
    }

    fn keep_reason(&self, _: &Cluster, _: TaskId, _: TaskId) -> Arc<str> {
        "of equal or higher priority (plugin priority)".into()
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let Eviction { kind, by, whole_gangs } = eviction;
        if kind == EvictionKind::Reclaim {
            return whole_gangs.then(|| of.to_vec());
        }
        // Tasks of one job preempt each other, but not where gangs go as a whole.
        let same_job = |task: TaskId| cluster.tasks[task].job == cluster.tasks[by].job;
        let is_victim =
            |task: &TaskId| has_lower_priority(cluster, *task, by) && !(whole_gangs && same_job(*task));
        Some(of.iter().copied().filter(is_victim).collect())
    }

    fn job_rank(&self) -> Option<&dyn JobRank> {
        Some(self)
    }
}

impl JobRank for PriorityPlugin {
    fn outranks(&self, cluster: &Cluster, by: JobId, of: JobId) -> bool {
        cluster.jobs[by].priority > cluster.jobs[of].priority
    }
}

fn has_lower_priority(cluster: &Cluster, preemptee: TaskId, preemptor: TaskId) -> bool {
    let (preemptee, preemptor) = (&cluster.tasks[preemptee], &cluster.tasks[preemptor]);
    match (preemptee.job, preemptor.job) {
        (Some(from), Some(to)) if from == to => preemptee.priority < preemptor.priority,
        (Some(from), Some(to)) => cluster.jobs[from].priority < cluster.jobs[to].priority,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{Event, PodGroupInfo};
    use phalanx_framework::testing::{cluster_of, eviction, group, job_of, member, task_of};

    fn cluster() -> Cluster {
        let class =
            |name: &str, value| Event::PriorityClass { name: name.into(), value, global_default: false };
        let mut cluster = cluster_of([class("low", 1), class("high", 9)]);
        for name in ["low", "high", "none"] {
            let priority_class = Some(name.into());
            cluster.apply(PodGroupInfo { priority_class, ..group(name, 1) }.into());
            for (index, priority) in [(0, Some(0)), (1, Some(5))] {
                let mut pod = member(name, index, "cpu=1");
                pod.priority = priority;
                cluster.apply(pod.into());
            }
        }
        cluster
    }

    #[test]
    fn jobs_and_tasks_are_ordered_by_priority() {
        let cluster = cluster();
        let job = |name| job_of(&cluster, name);
        assert_eq!(PriorityPlugin.job_order(&cluster, job("high"), job("low")), Ordering::Less);
        assert_eq!(PriorityPlugin.job_order(&cluster, job("none"), job("low")), Ordering::Greater);
        assert_eq!(PriorityPlugin.job_order(&cluster, job("low"), job("low")), Ordering::Equal);
        let task = |name| task_of(&cluster, name);
        assert_eq!(PriorityPlugin.task_order(&cluster, task("low-1"), task("low-0")), Ordering::Less);
        assert_eq!(PriorityPlugin.task_order(&cluster, task("low-1"), task("high-1")), Ordering::Equal);
    }

    #[test]
    fn victims_have_a_lower_job_priority_or_in_one_job_a_lower_task_priority() {
        let cluster = cluster();
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        for (by, expected) in [
            ("high-0", vec!["low-0", "low-1", "none-0", "none-1"]),
            ("high-1", vec!["high-0", "low-0", "low-1", "none-0", "none-1"]),
            ("low-0", vec!["none-0", "none-1"]),
            ("none-0", vec![]),
        ] {
            let victims = PriorityPlugin
                .evictable(&cluster, eviction(EvictionKind::Preempt, task_of(&cluster, by)), &all)
                .unwrap();
            let mut names: Vec<&str> = victims.iter().map(|task| &*cluster.tasks[*task].pod.name).collect();
            names.sort_unstable();
            assert_eq!(names, expected, "for {by}");
        }
    }

    #[test]
    fn a_job_is_starving_while_a_task_has_no_node() {
        let mut cluster = cluster_of([group("g", 1)]);
        cluster.apply(phalanx_framework::testing::running(member("g", 0, "cpu=1"), "n").into());
        assert_eq!(PriorityPlugin.job_starving(&cluster, job_of(&cluster, "g")), Some(false));
        cluster.apply(member("g", 1, "cpu=1").into());
        assert_eq!(PriorityPlugin.job_starving(&cluster, job_of(&cluster, "g")), Some(true));
    }
}
