//! gang: a PodGroup starts with `minMember` of its tasks, and `minTaskMember` of each role, or not at all.
//!
//! - *ready* counts tasks that are allocated, being bound, bound, running or succeeded; *valid* adds those that are
//!   nominated or pending.
//! - A job is valid when `valid ≥ minMember`, ready when `ready ≥ minMember`, pipelined when
//!   `ready + nominated ≥ minMember`, starving while it is not pipelined. All of them ask the same of each role,
//!   unless `minMember` is less than the sum of the roles' minimums.
//! - `minSubGroups` of a `subGroupPolicy` holds where `minMember` implies it: the required sub-groups have at most `minMember`
//!   pods together, and there are no more than `minMember` pods, so that all sub-groups start. Other jobs with
//!   `minSubGroups` wait with that reason.
//! - A gang that started and lost members goes first, for what it holds is of no use until it is whole again; then
//!   those that have not started; then those that are ready and would grow.
//! - A task may be evicted while its job keeps `minMember` ready tasks without it and without those picked before it. To
//!   `gangpreempt` and `gangreclaim` it leaves all, for these take gangs as a whole.
//!
//! Source: Volcano's gang plugin, with four differences. Volcano counts pending best-effort tasks as ready, so that a
//! gang may start without them and never be whole; here they count once they have a node, and allocate places those
//! that the gang needs in the same statement. An eviction respects the roles' minimums too, and a gang starves
//! that lacks a role's, though it has `minMember` tasks. And Volcano only tells jobs that are ready from those that are
//! not, so that what is missing of a broken gang may be taken by others.
use std::cmp::Ordering;

use rustc_hash::FxHashMap;

use phalanx_cluster::diagnosis::Refusal;
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Counts, Job, Status, World};
use phalanx_framework::conf::ArgSpec;
use phalanx_framework::plugin::{EvictionKind, Mark, Plugin, PluginDef, Vote};

const ARGS: &[ArgSpec] = &[];

const READS: &[Mark] = &[
    Mark::new(
        "scheduling.k8s.io/group-name",
        "annotation of a pod",
        "a gang of one",
        "The PodGroup, in the pod's namespace, that the pod is in.",
    ),
    Mark::new(
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
    fn stands_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn job_order(&self, world: &World, a: JobId, b: JobId) -> Ordering {
        rank(&world.jobs[a]).cmp(&rank(&world.jobs[b]))
    }

    fn job_valid(&self, world: &World, job: JobId) -> Result<(), Refusal> {
        let job = &world.jobs[job];
        job.roles_satisfied(Counts::valid).map_err(|role| Refusal::NotEnoughPodsOfTask {
            role: role.name.clone(),
            found: role.counts.valid(),
            wanted: role.min,
        })?;
        let (found, wanted) = (job.counts.valid(), job.min_member);
        if found < wanted {
            return Err(Refusal::NotEnoughTasks { found, wanted });
        }
        let members = job.sub_group_members;
        if members > 0 && (members > wanted || found > wanted) {
            return Err(Refusal::SubGroups { members, min_member: wanted, found });
        }
        Ok(())
    }

    fn job_ready(&self, world: &World, job: JobId) -> bool {
        is_ready(&world.jobs[job])
    }

    fn job_pipelined(&self, world: &World, job: JobId) -> Vote {
        if is_pipelined(&world.jobs[job]) { Vote::Permit } else { Vote::Reject }
    }

    fn job_starving(&self, world: &World, job: JobId) -> Option<bool> {
        Some(!is_pipelined(&world.jobs[job]))
    }

    fn minds_request(&self) -> bool {
        false
    }

    fn keeps_gangs(&self) -> bool {
        true
    }

    fn preemptable(&self, world: &World, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(within_surplus(world, of))
    }

    fn reclaimable(&self, world: &World, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(within_surplus(world, of))
    }

    fn unified_evictable(&self, _: &World, _: EvictionKind, _: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(of.to_vec())
    }
}

/// Broken gangs, then those that have not started, then those that would grow.
fn rank(job: &Job) -> u8 {
    match (is_ready(job), job.counts.ready()) {
        (true, _) => 2,
        (false, 0) => 1,
        (false, _) => 0,
    }
}

fn is_ready(job: &Job) -> bool {
    job.counts.ready() >= job.min_member && job.roles_satisfied(Counts::ready).is_ok()
}

fn is_pipelined(job: &Job) -> bool {
    ready_or_pipelined(&job.counts) >= job.min_member && job.roles_satisfied(ready_or_pipelined).is_ok()
}

/// Tasks that have a place, now or once room is released.
fn ready_or_pipelined(counts: &Counts) -> u32 {
    counts.ready() + counts.of(Status::Pipelined)
}

/// The tasks that their jobs can do without, each picked on top of those before it.
pub fn within_surplus(world: &World, of: &[TaskId]) -> Vec<TaskId> {
    let mut left: FxHashMap<JobId, GangSurplus> = FxHashMap::default();
    let mut take = |task: &TaskId| {
        let task = &world.tasks[*task];
        let Some(job) = task.job else { return false };
        left.entry(job).or_insert_with(|| GangSurplus::of(&world.jobs[job])).take(task.role)
    };
    of.iter().copied().filter(|task| take(task)).collect()
}

/// How many ready tasks a job can still do without: in all, and of each role.
pub struct GangSurplus {
    all: u32,
    roles: Vec<u32>,
}

impl GangSurplus {
    /// As the job stands.
    pub fn of(job: &Job) -> Self {
        let asked = job.asks_roles();
        let of_role = |role: &phalanx_cluster::Role| {
            let min = if asked { role.min } else { 0 };
            role.counts.ready().saturating_sub(min)
        };
        Self {
            all: job.counts.ready().saturating_sub(job.min_member),
            roles: job.roles.iter().map(of_role).collect(),
        }
    }

    /// Counts a task, if the job can do without it on top of those counted before.
    pub fn take(&mut self, role: u16) -> bool {
        let of_role = &mut self.roles[usize::from(role)];
        if self.all == 0 || *of_role == 0 {
            return false;
        }
        self.all -= 1;
        *of_role -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::event::{PodGroupInfo, PodPhase};
    use phalanx_framework::testing::{group, job_of, member, running, world_of};

    /// A gang of role `w`, as many tasks as letters: r(unning), p(ending), s(ucceeded), f(ailed).
    fn gang(min_member: u32, tasks: &str, of_master: &str) -> World {
        let roles = vec![("m".into(), u32::from(!of_master.is_empty()))];
        let mut world = world_of([PodGroupInfo { min_task_member: roles, ..group("g", min_member) }]);
        for (index, (role, state)) in
            tasks.chars().map(|c| ("w", c)).chain(of_master.chars().map(|c| ("m", c))).enumerate()
        {
            let mut pod = member("g", index as u32, "cpu=1");
            pod.role = role.into();
            pod.phase = match state {
                's' => PodPhase::Succeeded,
                'f' => PodPhase::Failed,
                _ => PodPhase::Pending,
            };
            world.apply(if state == 'r' { running(pod, "n") } else { pod }.into());
        }
        world
    }

    #[test]
    fn a_gang_is_valid_ready_and_starving_by_its_minimums() {
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
            // minMember below the sum of the roles' minimums: roles are not asked.
            (0, "r", "f", true, true, false),
        ] {
            let world = gang(min, workers, masters);
            let job = job_of(&world, "g");
            let case = format!("minMember {min}, workers {workers}, masters {masters}");
            assert_eq!(Gang.job_valid(&world, job).is_ok(), valid, "valid: {case}");
            assert_eq!(Gang.job_ready(&world, job), ready, "ready: {case}");
            assert_eq!(Gang.job_starving(&world, job), Some(starving), "starving: {case}");
        }
    }

    #[test]
    fn a_refusal_names_the_role_that_lacks_pods() {
        let world = gang(3, "rrr", "f");
        let refusal = Gang.job_valid(&world, job_of(&world, "g")).unwrap_err();
        assert_eq!(refusal.reason(), "NotEnoughPodsOfTask");
        assert_eq!(refusal.text(&world.dims), "not enough pods of task m: 0 exist, minTaskMember is 1");
    }

    #[test]
    fn victims_leave_the_gang_whole() {
        for (min, workers, masters, spared) in [
            (2, "rrrr", "", 2),
            (4, "rrrr", "", 0),
            (5, "rrrr", "", 0),
            (1, "rrr", "", 2),
            (2, "rrp", "r", 1),
        ] {
            let world = gang(min, workers, masters);
            let all: Vec<TaskId> = world
                .tasks
                .iter()
                .filter(|(_, task)| task.status == Status::Running)
                .map(|(id, _)| id)
                .collect();
            let victims = Gang.preemptable(&world, all[0], &all).unwrap();
            assert_eq!(victims.len(), spared, "minMember {min}, workers {workers}, masters {masters}");
            assert_eq!(Gang.reclaimable(&world, all[0], &all), Some(victims));
        }
    }

    #[test]
    fn the_only_task_of_a_role_with_a_minimum_is_no_victim() {
        let world = gang(2, "rr", "r");
        let all: Vec<TaskId> = world.tasks.ids().collect();
        let reversed: Vec<TaskId> = all.iter().rev().copied().collect();
        for candidates in [all, reversed] {
            let victims = Gang.preemptable(&world, candidates[0], &candidates).unwrap();
            let names: Vec<_> = victims.iter().map(|task| world.tasks[*task].role).collect();
            assert_eq!(victims.len(), 1);
            assert_ne!(&*world.jobs[job_of(&world, "g")].roles[usize::from(names[0])].name, "m");
        }
    }
}
