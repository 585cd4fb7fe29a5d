//! Jobs: PodGroups, and pods without one.
use std::sync::Arc;

use phalanx_resource::Amounts;

use super::task::{Counts, Status};
use super::tree::Sums;
use crate::annotation::Annotations;
use crate::diagnosis::Refusal;
use crate::event::{GroupRef, GroupStatus, Key, Phase, Resources, SubGroupPolicy, Time};
use crate::id::{QueueId, TaskId};

/// The object of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobKind {
    /// A PodGroup.
    Group,
    /// A pod without a PodGroup: a gang of one.
    Solo,
}

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
    pub written: GroupStatus,
    /// The status that `written` replaced and that may still be read once more.
    pub replaced: Option<GroupStatus>,
    /// Why a field cannot be honoured.
    pub invalid: Option<Arc<str>>,
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
    /// The policies with `minSubGroups`.
    pub sub_groups: Vec<SubGroupPolicy>,
    /// Roles in the order in which they were seen.
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
    /// The PodGroup, if it was seen.
    pub fn group_ref(&self) -> Option<GroupRef> {
        let seen = self.kind == JobKind::Group && self.object.exists;
        seen.then(|| GroupRef { key: self.key.clone(), uid: self.object.uid.clone() })
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
        let to_admit = self.kind == JobKind::Group && self.object.exists && self.phase == Phase::Pending;
        to_admit || self.waiting() > 0
    }

    /// Number of tasks that wait for a node or for resources there.
    pub fn waiting(&self) -> u32 {
        self.counts.of(Status::Pending) + self.counts.of(Status::Pipelined)
    }

    pub(crate) fn role(&mut self, name: &Arc<str>) -> u16 {
        let at = self.roles.iter().position(|role| role.name == *name).unwrap_or_else(|| {
            self.roles.push(Role { name: name.clone(), min: 0, counts: Counts::default() });
            self.roles.len() - 1
        });
        at as u16
    }

    pub(crate) fn count(&mut self, role: u16, from: Option<Status>, to: Option<Status>) {
        self.counts.moved(from, to);
        self.roles[usize::from(role)].counts.moved(from, to);
    }
}
