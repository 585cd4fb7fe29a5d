//! gang: a PodGroup starts with `minMember` of its tasks, and `minTaskMember` of each role, or not at all.
//!
//! - *ready* tasks are allocated, being bound, bound, running or succeeded; *valid* tasks are ready, pipelined
//!   (nominated) or pending.
//! - A job is valid when `valid ≥ minMember`, ready when `ready ≥ minMember`, pipelined when
//!   `ready + pipelined ≥ minMember`, and starving while it is not pipelined. The same holds for each role, unless
//!   `minMember` is less than the sum of the roles' minimums.
//! - Of an entry of `subGroupPolicy`, `minSubGroups` sub-groups have to be valid, ready or pipelined, each with
//!   `subGroupSize` tasks. Victims leave all of these minimums.
//! - Job order: gangs that started and lost members, since the nodes that they hold are of no use until they are whole;
//!   then gangs that have not started; then ready gangs that would grow.
//! - A task is preemptable and reclaimable while its job has a surplus: `minMember` ready tasks without the task and
//!   the victims before it. For `gangpreempt` and `gangreclaim`, which evict whole gangs, all tasks are evictable.
//!
//! Source: Volcano's gang plugin. Differences: Volcano counts pending best-effort tasks as ready, so that a gang may
//! start without them and never be whole; here such tasks count once they have a node, and allocate places those that
//! the gang needs in the same statement. Victims leave the roles' minimums too, and a gang that lacks tasks of a role
//! starves though it has `minMember` tasks. Volcano's job order only tells ready jobs from others, so that other jobs
//! may take the nodes that a broken gang needs.
mod surplus;

use std::cmp::Ordering;

use phalanx_cluster::diagnosis::{Refusal, SubGroupFault};
use phalanx_cluster::event::SubGroupPolicy;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, Counts, Status};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{Eviction, ObjectField, Plugin, PluginDef, Vote};
pub use surplus::{GangSurplus, within_surplus};

const ARGS: &[ArgSpec] = &[];

const READS: &[ObjectField] = &[
    ObjectField::new(
        "scheduling.k8s.io/group-name",
        "annotation of a pod",
        "a gang of one",
        "The PodGroup, in the pod's namespace, that the pod is in.",
    ),
    ObjectField::new(
        "volcano.sh/task-spec",
        "annotation, else label, of a pod",
        "no role",
        "The pod's role, for the PodGroup's `minTaskMember`.",
    ),
];

pub(super) const DEF: PluginDef = PluginDef {
    name: "gang",
    summary: "A PodGroup starts with minMember of its pods, and minTaskMember of each role, or not at all.",
    args: ARGS,
    reads: READS,
    open: |_| Box::new(Gang),
};

struct Gang;

impl Plugin for Gang {
    fn job_order(&self, cluster: &Cluster, a: JobId, b: JobId) -> Ordering {
        order_rank(cluster, a).cmp(&order_rank(cluster, b))
    }

    fn job_valid(&self, cluster: &Cluster, job: JobId) -> Result<(), Refusal> {
        let it = &cluster.jobs[job];
        it.roles_satisfied(Counts::valid).map_err(|role| Refusal::NotEnoughPodsOfTask {
            role: role.name.clone(),
            found: role.counts.valid(),
            wanted: role.min,
        })?;
        let (found, wanted) = (it.counts.valid(), it.min_member);
        if found < wanted {
            return Err(Refusal::NotEnoughTasks { found, wanted });
        }
        sub_groups_valid(cluster, job)
    }

    fn job_ready(&self, cluster: &Cluster, job: JobId) -> bool {
        is_ready(cluster, job)
    }

    fn job_pipelined(&self, cluster: &Cluster, job: JobId) -> Vote {
        if is_pipelined(cluster, job) { Vote::Permit } else { Vote::Reject }
    }

    fn job_starving(&self, cluster: &Cluster, job: JobId) -> Option<bool> {
        Some(!is_pipelined(cluster, job))
    }

    fn depends_on_request(&self) -> bool {
        false
    }

    fn keeps_gangs(&self) -> bool {
        true
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(if eviction.whole_gangs { of.to_vec() } else { within_surplus(cluster, of) })
    }
}

/// The first entry of `subGroupPolicy` that lacks sub-groups with `subGroupSize` tasks that count, and how many it has.
fn lacking_entry(cluster: &Cluster, job: JobId, counts: impl Fn(Status) -> bool) -> Option<(usize, u32)> {
    let policies = &cluster.jobs[job].sub_groups;
    if policies.iter().all(|policy| policy.min == 0) {
        return None;
    }
    let whole = cluster.whole_sub_groups(job, counts).into_iter().enumerate();
    whole.zip(policies).find_map(|((at, found), policy)| (found < policy.min).then_some((at, found)))
}

/// Why the pods of a job, if all are placed, are too few sub-groups.
fn sub_groups_valid(cluster: &Cluster, job: JobId) -> Result<(), Refusal> {
    let Some((at, found)) = lacking_entry(cluster, job, Status::is_valid) else { return Ok(()) };
    let SubGroupPolicy { name, size, min, .. } = &cluster.jobs[job].sub_groups[at];
    let empty = cluster.empty_policy(job, at);
    Err(Refusal::SubGroups(SubGroupFault { policy: name.clone(), found, wanted: *min, size: *size, empty }))
}

/// The place of a job in the job order: 0 for broken gangs, 1 for gangs that have not started, 2 for ready gangs.
fn order_rank(cluster: &Cluster, job: JobId) -> u8 {
    match (is_ready(cluster, job), cluster.jobs[job].counts.ready()) {
        (true, _) => 2,
        (false, 0) => 1,
        (false, _) => 0,
    }
}

fn is_ready(cluster: &Cluster, job: JobId) -> bool {
    let it = &cluster.jobs[job];
    it.counts.ready() >= it.min_member
        && it.roles_satisfied(Counts::ready).is_ok()
        && lacking_entry(cluster, job, Status::is_ready).is_none()
}

fn is_pipelined(cluster: &Cluster, job: JobId) -> bool {
    let it = &cluster.jobs[job];
    ready_or_pipelined(&it.counts) >= it.min_member
        && it.roles_satisfied(ready_or_pipelined).is_ok()
        && lacking_entry(cluster, job, Status::has_place).is_none()
}

/// Tasks that have a node, now or once terminating pods are gone.
fn ready_or_pipelined(counts: &Counts) -> u32 {
    counts.ready() + counts.of(Status::Pipelined)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{PodGroupInfo, PodPhase};
    use phalanx_framework::plugin::EvictionKind;
    use phalanx_framework::testing::{cluster_of, eviction, group, job_of, member, running};

    /// A gang with a task for each letter: r(unning), p(ending), s(ucceeded), f(ailed); workers have role `w`, masters
    /// role `m` with `minTaskMember` 1.
    fn gang(min_member: u32, workers: &str, masters: &str) -> Cluster {
        let roles = vec![("m".into(), u32::from(!masters.is_empty()))];
        let mut cluster = cluster_of([PodGroupInfo { min_task_member: roles, ..group("g", min_member) }]);
        for (index, (role, state)) in
            workers.chars().map(|c| ("w", c)).chain(masters.chars().map(|c| ("m", c))).enumerate()
        {
            let mut pod = member("g", index as u32, "cpu=1");
            pod.role = role.into();
            pod.life.phase = match state {
                's' => PodPhase::Succeeded,
                'f' => PodPhase::Failed,
                _ => PodPhase::Pending,
            };
            cluster.apply(if state == 'r' { running(pod, "n") } else { pod }.into());
        }
        cluster
    }

    #[test]
    fn minimums_decide_whether_a_gang_is_valid_ready_and_starving() {
        // minMember, workers, masters (minTaskMember 1 when there is any) => valid, ready, starving
        for (min, workers, masters, valid, ready, starving) in [
            (2, "pp", "", true, false, true),
            (2, "p", "", false, false, true),
            (2, "pf", "", false, false, true),
            (2, "rs", "", true, true, false),
            (2, "rr", "", true, true, false),
            (2, "rrp", "", true, true, false),
            (0, "", "", true, true, false),
            (3, "rrr", "p", true, false, true),
            (3, "rrr", "f", false, false, true),
            (3, "rr", "r", true, true, false),
            // minMember is below the sum of the roles' minimums: these do not count.
            (0, "r", "f", true, true, false),
        ] {
            let cluster = gang(min, workers, masters);
            let job = job_of(&cluster, "g");
            let case = format!("minMember {min}, workers {workers}, masters {masters}");
            assert_eq!(Gang.job_valid(&cluster, job).is_ok(), valid, "valid: {case}");
            assert_eq!(Gang.job_ready(&cluster, job), ready, "ready: {case}");
            assert_eq!(Gang.job_starving(&cluster, job), Some(starving), "starving: {case}");
        }
    }

    #[test]
    fn the_refusal_names_the_role_that_lacks_pods() {
        let cluster = gang(3, "rrr", "f");
        let refusal = Gang.job_valid(&cluster, job_of(&cluster, "g")).unwrap_err();
        assert_eq!(refusal.reason(), "NotEnoughPodsOfTask");
        assert_eq!(refusal.text(&cluster.dims), "not enough pods of task m: 0 exist, minTaskMember is 1");
    }

    #[test]
    fn victims_leave_a_gang_its_minimums() {
        for (min, workers, masters, surplus) in [
            (2, "rrrr", "", 2),
            (4, "rrrr", "", 0),
            (5, "rrrr", "", 0),
            (1, "rrr", "", 2),
            (2, "rrp", "r", 1),
        ] {
            let cluster = gang(min, workers, masters);
            let all: Vec<TaskId> = cluster
                .tasks
                .iter()
                .filter(|(_, task)| task.status == Status::Running)
                .map(|(id, _)| id)
                .collect();
            let evict = |kind| Gang.evictable(&cluster, eviction(kind, all[0]), &all);
            let victims = evict(EvictionKind::Preempt).unwrap();
            assert_eq!(victims.len(), surplus, "minMember {min}, workers {workers}, masters {masters}");
            assert_eq!(evict(EvictionKind::Reclaim), Some(victims));
        }
    }

    #[test]
    fn the_last_task_of_a_role_with_a_minimum_is_no_victim() {
        let cluster = gang(2, "rr", "r");
        let all: Vec<TaskId> = cluster.tasks.ids().collect();
        let reversed: Vec<TaskId> = all.iter().rev().copied().collect();
        for candidates in [all, reversed] {
            let victims = Gang
                .evictable(&cluster, eviction(EvictionKind::Preempt, candidates[0]), &candidates)
                .unwrap();
            let names: Vec<_> = victims.iter().map(|task| cluster.tasks[*task].role).collect();
            assert_eq!(victims.len(), 1);
            assert_ne!(&*cluster.jobs[job_of(&cluster, "g")].roles[usize::from(names[0])].name, "m");
        }
    }
}
