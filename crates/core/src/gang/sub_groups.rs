//! What the sub-groups of a gang lack, and which of them come first.
//!
//! The pods that a sub-group lacks get nodes together or not at all. Sub-groups that `minSubGroups` requires come
//! first: of those of an entry the ones that lack the fewest pods. Among these, sub-groups with pods that have nodes come
//! before others, since they have the least choice of a HyperNode, and larger ones before smaller ones. Pods beyond
//! `subGroupSize` are placed like pods of no sub-group, once their sub-group is whole.
use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::network::{RequiredSubGroups, count_classes};
use phalanx_cluster::event::SubGroupPolicy;
use phalanx_cluster::id::{JobId, TaskId};
use phalanx_cluster::{Cluster, SubGroup};

/// A sub-group that lacks pods, as many of which wait as it lacks.
#[derive(Clone)]
pub(crate) struct LackingSubGroup {
    /// Its index among the sub-groups of the job.
    at: usize,
    /// The values that make it.
    pub(crate) name: Arc<str>,
    pub(crate) policy: usize,
    /// The pods that it lacks, in order.
    pub(crate) members: Vec<TaskId>,
    /// Those of its pods that wait beside these.
    pub(crate) beyond: Vec<TaskId>,
    /// Its pods that are not to be placed.
    pub(crate) others: Vec<TaskId>,
    /// `minSubGroups` requires it.
    required: bool,
}

/// The sub-groups of a job of which tasks wait.
#[derive(Clone, Default)]
pub(crate) struct WaitingSubGroups {
    all: Vec<SubGroup>,
    /// Those that can become whole, in the order in which they are placed.
    pub(crate) lacking: Vec<LackingSubGroup>,
    /// By index, which have the pods that they need.
    whole: FxHashSet<usize>,
    /// The sub-groups of the waiting tasks.
    of: FxHashMap<TaskId, usize>,
    /// Tasks that sub-groups lack.
    members: FxHashSet<TaskId>,
}

/// Tasks that get nodes together or not at all.
pub(crate) struct Part {
    pub(crate) tasks: SmallVec<[TaskId; 1]>,
    /// There are other pods of their sub-group, which may have nodes.
    has_peers: bool,
}

impl Part {
    /// A task of a part whose place may depend on where other pods of its sub-group are.
    pub(crate) fn own(&self) -> Option<TaskId> {
        self.tasks.first().copied().filter(|_| self.has_peers)
    }
}

impl WaitingSubGroups {
    /// The sub-groups of these tasks, which are to be placed.
    pub(crate) fn new(cluster: &Cluster, job: JobId, tasks: &[TaskId]) -> Self {
        if cluster.jobs[job].sub_groups.is_empty() {
            return Self::default();
        }
        let mut it = Self { all: cluster.sub_groups(job), ..Self::default() };
        let mut group_of: FxHashMap<TaskId, usize> = FxHashMap::default();
        for (at, group) in it.all.iter().enumerate() {
            group_of.extend(group.tasks.iter().map(|task| (*task, at)));
        }
        let mut waiting: Vec<Vec<TaskId>> = vec![Vec::new(); it.all.len()];
        for task in tasks {
            if let Some(at) = group_of.get(task).copied() {
                waiting[at].push(*task);
                it.of.insert(*task, at);
            }
        }
        for (at, waiting) in waiting.into_iter().enumerate() {
            it.add(cluster, job, at, waiting);
        }
        it.order(cluster, job);
        it
    }

    fn add(&mut self, cluster: &Cluster, job: JobId, at: usize, mut waiting: Vec<TaskId>) {
        let SubGroup { policy, tasks, .. } = &self.all[at];
        let others: Vec<TaskId> = tasks.iter().copied().filter(|task| !self.of.contains_key(task)).collect();
        let has_place = |task: &&TaskId| cluster.tasks[**task].status.has_place();
        let size = cluster.jobs[job].sub_groups[*policy].size as usize;
        let lacks = size.saturating_sub(others.iter().filter(has_place).count());
        if lacks == 0 {
            self.whole.insert(at);
        } else if lacks <= waiting.len() {
            let beyond = waiting.split_off(lacks);
            self.members.extend(&waiting);
            let (policy, name) = (*policy, self.all[at].name());
            self.lacking.push(LackingSubGroup {
                at,
                name,
                policy,
                members: waiting,
                beyond,
                others,
                required: false,
            });
        }
    }

    /// Required ones first, then those with pods that have nodes, then by size, by entry, by their values.
    fn order(&mut self, cluster: &Cluster, job: JobId) {
        self.lacking.sort_by_key(|group| (group.policy, group.members.len()));
        let mut required: Vec<u32> = cluster.jobs[job].sub_groups.iter().map(|policy| policy.min).collect();
        for at in &self.whole {
            let required = &mut required[self.all[*at].policy];
            *required = required.saturating_sub(1);
        }
        for group in &mut self.lacking {
            let required = &mut required[group.policy];
            group.required = *required > 0;
            *required = required.saturating_sub(1);
        }
        let size = |group: &LackingSubGroup| cluster.jobs[job].sub_groups[group.policy].size as usize;
        self.lacking.sort_by_key(|group| {
            let lacks = group.members.len();
            (!group.required, lacks == size(group), Reverse(lacks))
        });
    }

    /// Whether they differ in their entries or in their pods.
    pub(crate) fn are_unlike(&self, cluster: &Cluster) -> bool {
        let kind = |group: &LackingSubGroup| (group.policy, count_classes(cluster, group.members.iter()));
        let mut kinds = self.lacking.iter().map(kind);
        let first = kinds.next();
        kinds.any(|kind| Some(kind) != first)
    }

    /// A sub-group has got the pods that it lacked.
    pub(crate) fn note_whole(&mut self, at: usize) {
        self.whole.insert(self.lacking[at].at);
    }

    /// The tasks that are placed one by one: those of no sub-group, and those beyond what a whole one needs.
    pub(crate) fn rest(&self, tasks: &[TaskId]) -> Vec<TaskId> {
        let is_free = |task: &&TaskId| self.of.get(task).is_none_or(|at| self.whole.contains(at));
        tasks.iter().filter(is_free).filter(|task| !self.members.contains(task)).copied().collect()
    }

    /// The tasks in the order in which they are placed, by what gets nodes together.
    pub(crate) fn parts(&self, tasks: &[TaskId]) -> Vec<Part> {
        let whole = |group: &LackingSubGroup| Part {
            tasks: SmallVec::from_slice(&group.members),
            has_peers: !group.others.is_empty(),
        };
        let one = |task: TaskId| Part {
            tasks: SmallVec::from_slice(&[task]),
            has_peers: self.of.contains_key(&task),
        };
        let beyond = self.lacking.iter().flat_map(|group| group.beyond.iter().copied());
        let single = self.rest(tasks).into_iter().chain(beyond).map(one);
        self.lacking.iter().map(whole).chain(single).collect()
    }

    /// How many of these tasks get nodes together at the least.
    pub(crate) fn least(&self, tasks: &[TaskId]) -> u64 {
        let smallest = self.lacking.iter().map(|group| group.members.len() as u64).min();
        smallest.filter(|_| self.rest(tasks).is_empty()).unwrap_or(1)
    }

    /// How many pods the sub-groups lack that `minSubGroups` requires.
    pub(crate) fn pods_required(&self) -> u64 {
        self.lacking.iter().filter(|group| group.required).map(|group| group.members.len() as u64).sum()
    }

    /// What `minSubGroups` requires beyond the sub-groups that have pods with nodes.
    pub(crate) fn required(&self, cluster: &Cluster, job: JobId) -> Vec<RequiredSubGroups> {
        let of = |(at, policy): (usize, &SubGroupPolicy)| {
            let is_new =
                |group: &&LackingSubGroup| group.policy == at && group.members.len() == policy.size as usize;
            let new = || self.lacking.iter().filter(is_new);
            let wanted = new().filter(|group| group.required).count() as u64;
            let tasks = count_classes(cluster, new().flat_map(|group| &group.members));
            let first = new().find(|group| group.required)?.name.clone();
            let (policy_name, topology) = (policy.name.clone(), policy.topology.clone());
            let size = u64::from(policy.size);
            Some(RequiredSubGroups { policy: policy_name, first, topology, size, wanted, tasks })
        };
        cluster.jobs[job].sub_groups.iter().enumerate().filter_map(of).collect()
    }
}
