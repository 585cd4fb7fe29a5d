//! The surplus of a gang: its ready tasks beyond `minMember`, by role beyond `minTaskMember`, and by sub-group beyond
//! `subGroupSize` and `minSubGroups`.
use rustc_hash::FxHashMap;

use phalanx_cluster::event::SubGroupPolicy;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Role, SubGroup};

/// The tasks that can be evicted within the surplus of their gangs, each judged with the tasks before it gone.
pub fn within_surplus(cluster: &Cluster, evictees: &[TaskId]) -> Vec<TaskId> {
    let mut surplus_of: FxHashMap<JobId, GangSurplus> = FxHashMap::default();
    let mut take = |task: &TaskId| {
        let Some(job) = cluster.tasks[*task].job else { return false };
        surplus_of.entry(job).or_insert_with(|| GangSurplus::of(cluster, job)).take(cluster, *task)
    };
    evictees.iter().copied().filter(|task| take(task)).collect()
}

/// How many ready tasks a gang has beyond its minimums: in all, of each role, and of its sub-groups.
pub struct GangSurplus {
    tasks: u32,
    by_role: Vec<u32>,
    sub_groups: SubGroupSurplus,
}

impl GangSurplus {
    /// The surplus of a job with its present tasks.
    pub fn of(cluster: &Cluster, job: JobId) -> Self {
        let it = &cluster.jobs[job];
        let roles_count = it.asks_roles();
        let of_role = |role: &Role| {
            let min = if roles_count { role.min } else { 0 };
            role.counts.ready().saturating_sub(min)
        };
        Self {
            tasks: it.counts.ready().saturating_sub(it.min_member),
            by_role: it.roles.iter().map(of_role).collect(),
            sub_groups: SubGroupSurplus::of(cluster, job),
        }
    }

    /// Takes a task of the gang out of the surplus; false when the gang needs the task.
    pub fn take(&mut self, cluster: &Cluster, task: TaskId) -> bool {
        let of_role = &mut self.by_role[usize::from(cluster.tasks[task].role)];
        if self.tasks == 0 || *of_role == 0 || !self.sub_groups.take(task) {
            return false;
        }
        self.tasks -= 1;
        *of_role -= 1;
        true
    }
}

/// The surplus of the sub-groups that count for `minSubGroups`. A sub-group that is not whole counts for nothing, so all
/// its tasks are surplus.
#[derive(Default)]
struct SubGroupSurplus {
    whole: Vec<CountedSubGroup>,
    /// The whole sub-group of a task, as an index.
    of_task: FxHashMap<TaskId, usize>,
    /// By entry of `subGroupPolicy`: whole sub-groups beyond `minSubGroups`.
    by_entry: Vec<u32>,
}

/// A sub-group with at least `subGroupSize` ready tasks.
struct CountedSubGroup {
    entry: usize,
    /// Ready tasks beyond `subGroupSize`.
    tasks: u32,
}

impl SubGroupSurplus {
    fn of(cluster: &Cluster, job: JobId) -> Self {
        let entries = &cluster.jobs[job].sub_groups;
        let mut surplus = Self::default();
        if entries.iter().all(|entry| entry.min == 0) {
            return surplus;
        }
        for group in cluster.sub_groups(job) {
            surplus.add(cluster, &entries[group.policy], group);
        }
        let whole_of =
            |entry: usize| surplus.whole.iter().filter(|group| group.entry == entry).count() as u32;
        let beyond = |(entry, policy): (usize, &SubGroupPolicy)| whole_of(entry).saturating_sub(policy.min);
        surplus.by_entry = entries.iter().enumerate().map(beyond).collect();
        surplus
    }

    fn add(&mut self, cluster: &Cluster, entry: &SubGroupPolicy, group: SubGroup) {
        let ready = group.tasks.iter().filter(|task| cluster.tasks[**task].status.is_ready()).count() as u32;
        if let Some(tasks) = ready.checked_sub(entry.size) {
            self.of_task.extend(group.tasks.into_iter().map(|task| (task, self.whole.len())));
            self.whole.push(CountedSubGroup { entry: group.policy, tasks });
        }
    }

    /// Takes a task: one beyond the size of its sub-group, or the first of a sub-group that is not required.
    fn take(&mut self, task: TaskId) -> bool {
        let Some(at) = self.of_task.get(&task).copied() else { return true };
        let CountedSubGroup { entry, tasks } = &mut self.whole[at];
        if *tasks > 0 {
            *tasks -= 1;
            return true;
        }
        if self.by_entry[*entry] == 0 {
            return false;
        }
        self.by_entry[*entry] -= 1;
        self.of_task.retain(|_, of| *of != at);
        true
    }
}
