//! Jobs: PodGroups, and pods without one.
use std::collections::BTreeMap;
use std::sync::Arc;

use phalanx_resource::Amounts;

use super::Cluster;
use super::task::{Counts, Status};
use super::tree::Sums;
use crate::annotation::Annotations;
use crate::diagnosis::Refusal;
use crate::event::{
    ControllerRef, GroupRef, GroupStatus, Key, NetworkTopology, Phase, Resources, SubGroupPolicy, Time,
};
use crate::id::{JobId, QueueId, TaskId};
use crate::written::Written;

/// The object of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobKind {
    /// A PodGroup.
    Group,
    /// A pod without a PodGroup: a gang of one.
    Solo,
}

/// The most roles that a PodGroup may have, and the most that are told apart of those that its pods name: a role is
/// looked for by its name, and each search for places looks at all.
pub const MAX_ROLES: usize = 256;

/// A role of a gang (`volcano.sh/task-spec`).
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Name; empty for pods without a role.
    pub name: Arc<str>,
    /// `minTaskMember`; 0 when there is none.
    pub min: u32,
    /// Tasks of the role by status.
    pub counts: Counts,
}

impl Role {
    /// Whether neither the PodGroup nor a pod names the role any more.
    fn is_unused(&self) -> bool {
        self.min == 0 && self.counts.total() == 0
    }
}

/// What the `minResources` of a PodGroup ask for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GangMinimum {
    /// `minResources`; without it the job is always admitted.
    pub resources: Option<Amounts>,
    /// Devices that `minResources` name, by class.
    pub devices: Amounts,
    /// `minResources` as ResourceQuotas count them.
    pub quota_request: Option<Amounts>,
    /// `minResources`, when they name what no node offers.
    pub(crate) unoffered: Option<Arc<Resources>>,
}

/// The PodGroup object of a job, as it was read last or written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupObject {
    /// The PodGroup object was seen (always true for a solo pod).
    pub exists: bool,
    /// The UID.
    pub uid: Arc<str>,
    /// The version that was read last.
    pub version: Arc<str>,
    /// The status as last read or decided.
    pub written: Written<GroupStatus>,
    /// Why a field cannot be honoured.
    pub invalid: Option<Arc<str>>,
    /// The controller of the PodGroup.
    pub controller: Option<Arc<ControllerRef>>,
    /// What people were told about its annotations.
    pub told: Option<Arc<str>>,
}

/// A PodGroup, or a pod without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Name of the PodGroup, or of the pod without one.
    pub key: Key,
    /// The object of the job.
    pub kind: JobKind,
    /// The PodGroup object.
    pub object: GroupObject,
    /// Creation.
    pub created: Time,
    /// Queue.
    pub queue: QueueId,
    /// `minMember`.
    pub min_member: u32,
    /// `minResources`.
    pub minimum: GangMinimum,
    /// `networkTopology`.
    pub topology: Option<NetworkTopology>,
    /// `subGroupPolicy`.
    pub sub_groups: Vec<SubGroupPolicy>,
    /// Roles that the PodGroup or its pods name; places of those that nobody names any more are used again.
    pub roles: Vec<Role>,
    /// Priority of its PriorityClass.
    pub priority: i32,
    pub(crate) priority_class: Option<Arc<str>>,
    /// `volcano.sh/preemptable`, if it is set.
    pub preemptable: Option<bool>,
    /// The phase that the scheduler decided.
    pub phase: Phase,
    /// Annotations of the object that plugins read.
    pub annotations: Annotations,
    /// Tasks.
    pub tasks: Vec<TaskId>,
    /// Tasks by status.
    pub counts: Counts,
    /// Sums of requests of its tasks.
    pub sums: Sums,
    /// The API server refused to bind a pod of the job, which did not change since.
    pub denied: Option<Refusal>,
    /// Where it stands among those that run.
    pub(super) running_key: Option<super::running_jobs::RunningJobKey>,
}

impl Job {
    /// Whether it is of a PodGroup that is known.
    pub(crate) fn has_pod_group(&self) -> bool {
        self.kind == JobKind::Group && self.object.exists
    }

    /// The PodGroup, if it was seen.
    pub fn group_ref(&self) -> Option<GroupRef> {
        self.has_pod_group().then(|| GroupRef { key: self.key.clone(), uid: self.object.uid.clone() })
    }

    pub(crate) fn new(key: Key, kind: JobKind, queue: QueueId) -> Self {
        Self {
            key,
            kind,
            object: GroupObject { exists: kind == JobKind::Solo, ..GroupObject::default() },
            created: Time::default(),
            queue,
            min_member: 1,
            minimum: GangMinimum::default(),
            topology: None,
            sub_groups: Vec::new(),
            roles: Vec::new(),
            priority: 0,
            priority_class: None,
            preemptable: None,
            phase: Phase::Pending,
            annotations: Annotations::default(),
            tasks: Vec::new(),
            counts: Counts::default(),
            sums: Sums::default(),
            denied: None,
            running_key: None,
        }
    }

    /// Whether minimums of roles count: not when `minMember` is below their sum, as in Volcano.
    pub fn asks_roles(&self) -> bool {
        let wanted: u64 = self.roles.iter().map(|role| u64::from(role.min)).sum();
        wanted > 0 && u64::from(self.min_member) >= wanted
    }

    /// Checks that every role has its minimum by `count`; returns a role that lacks tasks. Passes where minimums do not
    /// count.
    pub fn roles_satisfied(&self, count: impl Fn(&Counts) -> u32) -> Result<(), &Role> {
        if !self.asks_roles() {
            return Ok(());
        }
        match self.roles.iter().find(|role| count(&role.counts) < role.min) {
            Some(role) => Err(role),
            None => Ok(()),
        }
    }

    /// Whether some members are ready, but fewer than the gang needs.
    #[inline]
    pub fn is_broken(&self) -> bool {
        let ready = self.counts.ready();
        ready > 0 && (ready < self.min_member || self.roles_satisfied(Counts::ready).is_err())
    }

    /// Whether the gang has its minimum and only lacks resources for more members, and all its placed members are
    /// bound.
    pub fn grows(&self) -> bool {
        use Status::{Bound, Failed, Pending, Running, Succeeded};
        let whole = self.counts.ready() >= self.min_member && self.roles_satisfied(Counts::ready).is_ok();
        let settled =
            [Pending, Bound, Running, Succeeded, Failed].iter().map(|status| self.counts.of(*status));
        whole && self.phase != Phase::Pending && settled.sum::<u32>() == self.counts.total()
    }

    /// Whether any task of it has a node, or is nominated to one.
    pub fn has_places(&self) -> bool {
        let placed = self.counts.total() - self.counts.of(Status::Pending);
        placed > 0
    }

    /// Whether the PodGroup waits for admission, or a pod for a node or for resources there.
    pub fn is_pending(&self) -> bool {
        let to_admit = self.has_pod_group() && self.phase == Phase::Pending;
        to_admit || self.waiting() > 0
    }

    /// Number of tasks that wait for a node or for resources there.
    pub fn waiting(&self) -> u32 {
        self.counts.of(Status::Pending) + self.counts.of(Status::Pipelined)
    }

    /// The role of a pod that names this one. Beyond [`MAX_ROLES`], pods of other roles count as pods without a role.
    pub(crate) fn role_of_pod(&mut self, name: &Arc<str>) -> u16 {
        let known = self.known_role(name);
        known.unwrap_or_else(|| if self.is_full() { self.add_role(&"".into()) } else { self.add_role(name) })
    }

    /// The same, if the job has the role already.
    pub(crate) fn known_role(&self, name: &str) -> Option<u16> {
        self.role_named(name).or_else(|| if self.is_full() { self.role_named("") } else { None })
    }

    fn is_full(&self) -> bool {
        self.roles.len() >= MAX_ROLES && !self.roles.iter().any(Role::is_unused)
    }

    /// Takes in `minTaskMember`.
    pub(crate) fn set_minimums(&mut self, minimums: &[(Arc<str>, u32)]) {
        self.roles.iter_mut().for_each(|role| role.min = 0);
        for (name, min) in minimums.iter().filter(|(_, min)| *min > 0) {
            let role = self.role_named(name).unwrap_or_else(|| self.add_role(name));
            self.roles[usize::from(role)].min = *min;
        }
    }

    /// Whether `minTaskMember` is what the job has already.
    pub(crate) fn has_minimums(&self, minimums: &[(Arc<str>, u32)]) -> bool {
        let has = self.roles.iter().map(|role| (&*role.name, role.min));
        let asked = minimums.iter().map(|(name, min)| (&**name, *min));
        let has: BTreeMap<&str, u32> = has.filter(|(_, min)| *min > 0).collect();
        has == asked.filter(|(_, min)| *min > 0).collect()
    }

    fn role_named(&self, name: &str) -> Option<u16> {
        self.roles.iter().position(|role| *role.name == *name).map(|at| at as u16)
    }

    /// A new role, in the place of one that is not used any more.
    fn add_role(&mut self, name: &Arc<str>) -> u16 {
        let role = Role { name: name.clone(), min: 0, counts: Counts::default() };
        let at = self.roles.iter().position(Role::is_unused).unwrap_or(self.roles.len());
        match self.roles.get_mut(at) {
            Some(unused) => *unused = role,
            None => self.roles.push(role),
        }
        at as u16
    }

    pub(crate) fn count(&mut self, role: u16, from: Option<Status>, to: Option<Status>) {
        self.counts.moved(from, to);
        self.roles[usize::from(role)].counts.moved(from, to);
    }
}

impl Cluster {
    /// When the oldest pod of a job was created whose status is one of these.
    pub fn oldest_pod(&self, job: JobId, is: impl Fn(Status) -> bool) -> Option<Time> {
        let tasks = self.jobs[job].tasks.iter().map(|id| &self.tasks[*id]);
        tasks.filter(|task| is(task.status)).map(|task| task.details.created).min()
    }

    /// Since when a job waits: since it was created or, where that is later, since the oldest of its waiting pods was, as
    /// those are that take the place of evicted ones.
    pub fn waits_since(&self, job: JobId) -> Time {
        let waits = |status| matches!(status, Status::Pending | Status::Pipelined);
        self.oldest_pod(job, waits).unwrap_or_default().max(self.jobs[job].created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, PodInfo};
    use crate::testing::{cluster_of, group, job_of, member};

    /// Pod `at` of group `g`, in a role of its own.
    fn in_own_role(at: usize) -> PodInfo {
        PodInfo { role: format!("role-{at}").into(), ..member("g", at as u32, "cpu=1") }
    }

    #[test]
    fn roles_that_pods_make_up_are_bounded_and_given_back() {
        let count = 2 * MAX_ROLES;
        let mut cluster = cluster_of([group("g", 1)]);
        for at in 0..count {
            cluster.apply(in_own_role(at).into());
        }
        let roles = |cluster: &crate::Cluster| cluster.jobs[job_of(cluster, "g")].roles.len();
        assert_eq!(roles(&cluster), MAX_ROLES + 1, "the others are pods without a role");
        assert_eq!(cluster.check(), [""; 0]);
        assert!(!(0..count).any(|at| cluster.apply(in_own_role(at).into())), "an echo changes nothing");
        for round in 1..4 {
            for at in 0..count {
                cluster.apply(Event::PodGone(in_own_role(at).pod.uid.clone()));
                cluster
                    .apply(PodInfo { role: format!("role-{round}-{at}").into(), ..in_own_role(at) }.into());
            }
        }
        assert_eq!(roles(&cluster), MAX_ROLES + 1);
        assert_eq!(cluster.check(), [""; 0]);
    }

    #[test]
    fn the_roles_of_a_group_are_told_apart_whatever_its_pods_name() {
        let mut cluster = cluster_of((0..2 * MAX_ROLES).map(in_own_role));
        let asked: Vec<(Arc<str>, u32)> =
            (0..MAX_ROLES).map(|at| (format!("asked-{at}").into(), 1)).collect();
        cluster.apply(
            crate::event::PodGroupInfo { min_task_member: asked, ..group("g", MAX_ROLES as u32) }.into(),
        );
        for at in 0..MAX_ROLES {
            let role = format!("asked-{at}").into();
            cluster.apply(PodInfo { role, ..in_own_role(at) }.into());
        }
        let job = &cluster.jobs[job_of(&cluster, "g")];
        assert_eq!(job.roles_satisfied(Counts::valid), Ok(()));
        assert_eq!(cluster.check(), [""; 0]);
    }
}
