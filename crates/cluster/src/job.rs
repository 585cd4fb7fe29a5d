//! Jobs: PodGroups, and pods without one.
use std::sync::Arc;

use phalanx_resource::Amounts;

use super::denied::Denied;
use super::task::{Counts, Status};
use super::tree::{Part, Sums};
use crate::annotation::Annotations;
use crate::event::{GroupRef, GroupStatus, Key, Phase, SubGroupPolicy, Time};
use crate::id::{QueueId, TaskId};

/// What a job stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobKind {
    /// A PodGroup.
    Group,
    /// A pod without one: a gang of one.
    Solo,
}

/// A role of a gang (`volcano.sh/task-spec`).
#[derive(Clone, Debug, PartialEq)]
pub struct Role {
    /// Its name; empty for pods without a role.
    pub name: Arc<str>,
    /// `minTaskMember`; 0 when there is none.
    pub min: u32,
    /// Its tasks by status.
    pub counts: Counts,
}

/// A search that found no way to start a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoWay {
    /// What had happened by then, as [`Cluster::news`](super::Cluster::news) counts it.
    pub news: u64,
    /// When the search was made.
    pub at: Time,
    /// It is not made again before.
    pub until: Time,
    /// What more it would like was asked for too.
    pub surplus: bool,
}

/// A PodGroup, or a pod without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name; a solo pod's own.
    pub key: Key,
    /// What it stands for.
    pub kind: JobKind,
    /// The PodGroup object was seen (always true for a solo pod).
    pub exists: bool,
    /// The PodGroup's UID.
    pub uid: Arc<str>,
    /// The version of the PodGroup that was read last.
    pub version: Arc<str>,
    /// Creation.
    pub created: Time,
    /// Its queue.
    pub queue: QueueId,
    /// `minMember`.
    pub min_member: u32,
    /// The policies with `minSubGroups`.
    pub sub_groups: Vec<SubGroupPolicy>,
    /// Roles in the order they were met.
    pub roles: Vec<Role>,
    /// `minResources`; without it the job is always admitted.
    pub min_resources: Option<Amounts>,
    /// What `minResources` ask for of device classes.
    pub min_devices: Amounts,
    /// `minResources` as ResourceQuotas count them.
    pub quota_request: Option<Amounts>,
    /// Priority of its PriorityClass.
    pub priority: i32,
    pub(crate) priority_class: Option<Arc<str>>,
    /// `volcano.sh/preemptable`, if it is set.
    pub preemptable: Option<bool>,
    /// The phase the scheduler has it in.
    pub phase: Phase,
    /// The status last read from, or decided for, the object.
    pub written: GroupStatus,
    /// The status that `written` replaced and that may still be read once more.
    pub replaced: Option<GroupStatus>,
    /// A field that cannot be honoured.
    pub invalid: Option<Arc<str>>,
    /// Annotations that plugins read; a solo pod's own.
    pub annotations: Annotations,
    /// Its tasks.
    pub tasks: Vec<TaskId>,
    /// Its tasks by status.
    pub counts: Counts,
    /// What its allocated tasks request.
    pub allocated: Amounts,
    /// What its nominated tasks request.
    pub pipelined: Amounts,
    /// What its pending tasks request.
    pub pending: Amounts,
    /// The API server refused to bind a pod of it.
    pub denied: Option<Denied>,
    /// An evicting action had no steps left for it: it goes first in the next cycle.
    pub passed_over: bool,
    /// Its nominations are for room that it gathers, not for room that will be there.
    pub gathers: bool,
    /// Since when it gathers room.
    pub gathering: Option<Time>,
    /// Since when it has promised places.
    pub promised: Option<Time>,
    /// Where it stands among those that run.
    pub(super) giver: Option<super::givers::Giver>,
    /// What searches for places may take was used up by others: it goes first in the next cycle.
    pub unsearched: bool,
    /// The last search for a way to start it found none.
    pub no_way: Option<NoWay>,
    /// What people were told about its annotations.
    pub told: Option<Arc<str>>,
}

impl Job {
    /// The PodGroup for which it stands, if it was seen.
    pub fn group_ref(&self) -> Option<GroupRef> {
        let seen = self.kind == JobKind::Group && self.exists;
        seen.then(|| GroupRef { key: self.key.clone(), uid: self.uid.clone() })
    }

    pub(crate) fn new(key: Key, kind: JobKind, queue: QueueId) -> Self {
        Self {
            key,
            kind,
            exists: kind == JobKind::Solo,
            uid: Arc::from(""),
            version: Arc::from(""),
            created: Time::default(),
            queue,
            min_member: 1,
            sub_groups: Vec::new(),
            roles: Vec::new(),
            min_resources: None,
            min_devices: Amounts::new(),
            quota_request: None,
            priority: 0,
            priority_class: None,
            preemptable: None,
            phase: Phase::Pending,
            written: GroupStatus::default(),
            replaced: None,
            invalid: None,
            annotations: Annotations::default(),
            tasks: Vec::new(),
            counts: Counts::default(),
            allocated: Amounts::new(),
            pipelined: Amounts::new(),
            pending: Amounts::new(),
            denied: None,
            passed_over: false,
            gathers: false,
            gathering: None,
            promised: None,
            giver: None,
            unsearched: false,
            no_way: None,
            told: None,
        }
    }

    /// Whether the roles' minimums count: they do not when `minMember` is below their sum, as in Volcano.
    pub fn asks_roles(&self) -> bool {
        let wanted: u64 = self.roles.iter().map(|role| u64::from(role.min)).sum();
        wanted > 0 && u64::from(self.min_member) >= wanted
    }

    /// Whether every role can have (or has) its minimum, by a count of each role's tasks, where roles are asked.
    pub fn roles_satisfied(&self, count: impl Fn(&Counts) -> u32) -> Result<(), &Role> {
        if !self.asks_roles() {
            return Ok(());
        }
        match self.roles.iter().find(|role| count(&role.counts) < role.min) {
            Some(role) => Err(role),
            None => Ok(()),
        }
    }

    /// Whether some members have their places and others, without which it is nothing, do not.
    #[inline]
    pub fn is_broken(&self) -> bool {
        let ready = self.counts.ready();
        ready > 0 && (ready < self.min_member || self.roles_satisfied(Counts::ready).is_err())
    }

    /// Whether it is whole and only waits for room for more: those that have places have nodes, and stay.
    pub fn grows(&self) -> bool {
        use Status::{Bound, Failed, Pending, Running, Succeeded};
        let whole = self.counts.ready() >= self.min_member && self.roles_satisfied(Counts::ready).is_ok();
        let settled =
            [Pending, Bound, Running, Succeeded, Failed].iter().map(|status| self.counts.of(*status));
        whole && self.phase != Phase::Pending && settled.sum::<u32>() == self.counts.total()
    }

    /// Whether it lost members and keeps nodes for them on which there is no room yet.
    pub fn gathers_room(&self) -> bool {
        self.gathers
    }

    /// Whether a search for it was left to the next cycle.
    pub fn had_no_turn(&self) -> bool {
        self.passed_over || self.unsearched
    }

    /// Whether any task of it has a node, or one that is promised.
    pub fn has_places(&self) -> bool {
        let placed = self.counts.total() - self.counts.of(Status::Pending);
        placed > 0
    }

    /// Whether its PodGroup waits for admission, or a pod waits for a node or for capacity on one.
    pub fn is_pending(&self) -> bool {
        let to_admit = self.kind == JobKind::Group && self.exists && self.phase == Phase::Pending;
        to_admit || self.waiting() > 0
    }

    /// Tasks that wait for a node or for room on one.
    pub fn waiting(&self) -> u32 {
        self.counts.of(Status::Pending) + self.counts.of(Status::Pipelined)
    }

    #[inline]
    pub(super) fn part(&mut self, part: Part) -> &mut Amounts {
        match part {
            Part::Allocated => &mut self.allocated,
            Part::Pipelined => &mut self.pipelined,
            Part::Pending => &mut self.pending,
        }
    }

    pub(super) fn sums(&self) -> Sums {
        let Self { allocated, pipelined, pending, .. } = self;
        Sums { allocated: allocated.clone(), pipelined: pipelined.clone(), pending: pending.clone() }
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
