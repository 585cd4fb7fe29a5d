//! The surplus of a gang: its ready tasks beyond `minMember` and, by role, beyond `minTaskMember`.
use rustc_hash::FxHashMap;

use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Job, Role};

/// The tasks that can be evicted within the surplus of their gangs, each judged with the tasks before it gone.
pub fn within_surplus(cluster: &Cluster, evictees: &[TaskId]) -> Vec<TaskId> {
    let mut surplus_of: FxHashMap<JobId, GangSurplus> = FxHashMap::default();
    let mut take = |task: &TaskId| {
        let task = &cluster.tasks[*task];
        let Some(job) = task.job else { return false };
        surplus_of.entry(job).or_insert_with(|| GangSurplus::of(&cluster.jobs[job])).take(task.role)
    };
    evictees.iter().copied().filter(|task| take(task)).collect()
}

/// How many ready tasks a gang has beyond its minimums: in all, and of each role.
pub struct GangSurplus {
    tasks: u32,
    by_role: Vec<u32>,
}

impl GangSurplus {
    /// The surplus of a job with its present tasks.
    pub fn of(job: &Job) -> Self {
        let roles_count = job.asks_roles();
        let of_role = |role: &Role| {
            let min = if roles_count { role.min } else { 0 };
            role.counts.ready().saturating_sub(min)
        };
        Self {
            tasks: job.counts.ready().saturating_sub(job.min_member),
            by_role: job.roles.iter().map(of_role).collect(),
        }
    }

    /// Takes a task of a role out of the surplus; false when the gang needs the task.
    pub fn take(&mut self, role: u16) -> bool {
        let of_role = &mut self.by_role[usize::from(role)];
        if self.tasks == 0 || *of_role == 0 {
            return false;
        }
        self.tasks -= 1;
        *of_role -= 1;
        true
    }
}
