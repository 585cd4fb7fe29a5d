//! Sub-groups of a job: pods that an entry of `subGroupPolicy` selects, divided by the values of its `matchLabelKeys`.
use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::diagnosis::EmptyPolicy;
use crate::event::SubGroupPolicy;
use crate::id::{JobId, TaskId};
use crate::label::Labels;
use crate::{Cluster, HyperNodeId, Job, Status};

/// Pods of a job that are placed together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubGroup {
    /// The entry of `subGroupPolicy`.
    pub policy: usize,
    /// The values of `matchLabelKeys`, in the order of these.
    values: Vec<SubGroupValue>,
    /// The tasks.
    pub tasks: Vec<TaskId>,
}

/// A value by which pods are divided; numbers are ordered by size.
type SubGroupValue = (Option<u64>, Arc<str>);

/// What the pods of a sub-group have in common: the entry, and the values.
type SubGroupKey<'a> = (usize, SmallVec<[&'a str; 2]>);

impl SubGroup {
    /// The values of `matchLabelKeys`.
    pub fn name(&self) -> Arc<str> {
        let values: Vec<&str> = self.values.iter().map(|(_, value)| &**value).collect();
        values.join("/").into()
    }

    /// Its name behind that of its entry, such as `replica/0`; the entry alone where all of its pods are one sub-group.
    pub fn full_name(&self, job: &Job) -> String {
        let (policy, name) = (&job.sub_groups[self.policy].name, self.name());
        if name.is_empty() { policy.to_string() } else { format!("{policy}/{name}") }
    }
}

impl Cluster {
    /// The sub-groups of a job, in the order in which they are placed. A pod belongs to the first entry that selects it
    /// and of whose labels it has each, none of them empty.
    pub fn sub_groups(&self, job: JobId) -> Vec<SubGroup> {
        let it = &self.jobs[job];
        let mut groups: FxHashMap<SubGroupKey<'_>, Vec<TaskId>> = FxHashMap::default();
        for task in it.tasks.iter().copied().filter(|task| self.tasks[*task].status.is_valid()) {
            if let Some(key) = self.key_of(it, task) {
                groups.entry(key).or_default().push(task);
            }
        }
        let of = |((policy, values), tasks): (SubGroupKey<'_>, _)| {
            let numbered = |value: &str| (value.parse().ok(), Arc::from(value));
            SubGroup { policy, values: values.into_iter().map(numbered).collect(), tasks }
        };
        let mut groups: Vec<SubGroup> = groups.into_iter().map(of).collect();
        groups.sort_unstable_by(|a, b| (a.policy, &a.values).cmp(&(b.policy, &b.values)));
        groups
    }

    /// How many sub-groups each entry of a job's `subGroupPolicy` has with `subGroupSize` tasks that count.
    pub fn whole_sub_groups(&self, job: JobId, counts: impl Fn(Status) -> bool) -> Vec<u32> {
        let policies = &self.jobs[job].sub_groups;
        let mut whole = vec![0; policies.len()];
        for ((policy, _), found) in self.sizes_of_sub_groups(job, counts) {
            whole[policy] += u32::from((1..=found).contains(&policies[policy].size));
        }
        whole
    }

    /// Whether the sub-groups of these tasks of a job have `subGroupSize` tasks that count.
    pub fn are_in_whole_sub_groups(
        &self,
        job: JobId,
        mut tasks: impl Iterator<Item = TaskId>,
        counts: impl Fn(Status) -> bool,
    ) -> bool {
        let (it, sizes) = (&self.jobs[job], self.sizes_of_sub_groups(job, counts));
        tasks.all(|task| {
            self.key_of(it, task).is_none_or(|key| sizes.get(&key) >= Some(&it.sub_groups[key.0].size))
        })
    }

    /// How many tasks that count each sub-group of a job has.
    fn sizes_of_sub_groups(
        &self,
        job: JobId,
        counts: impl Fn(Status) -> bool,
    ) -> FxHashMap<SubGroupKey<'_>, u32> {
        let it = &self.jobs[job];
        let mut sizes = FxHashMap::default();
        for task in it.tasks.iter().copied().filter(|task| counts(self.tasks[*task].status)) {
            if let Some(key) = self.key_of(it, task) {
                *sizes.entry(key).or_default() += 1;
            }
        }
        sizes
    }

    /// What tasks of one sub-group have in common; `None` for a task of no sub-group.
    pub fn sub_group_key(&self, task: TaskId) -> Option<impl Eq + Hash + '_> {
        self.key_of(&self.jobs[self.tasks[task].job?], task)
    }

    /// The sub-groups of a job whose pods with nodes are in one HyperNode, and the lowest such HyperNode.
    pub fn domains_of_sub_groups(&self, job: JobId) -> Vec<(SubGroup, HyperNodeId)> {
        let groups = if self.jobs[job].sub_groups.is_empty() { Vec::new() } else { self.sub_groups(job) };
        let with_domain = |group: SubGroup| {
            let domain = self.domain_of_nodes(&self.nodes_of(group.tasks.iter()))?;
            Some((group, domain))
        };
        groups.into_iter().filter_map(with_domain).collect()
    }

    /// The entry of `subGroupPolicy` that a task belongs to.
    pub fn sub_group_policy_of(&self, job: JobId, task: TaskId) -> Option<&SubGroupPolicy> {
        let it = &self.jobs[job];
        Some(&it.sub_groups[self.key_of(it, task)?.0])
    }

    /// The tasks of the sub-group of a task.
    pub fn peers_of(&self, job: JobId, task: TaskId) -> Vec<TaskId> {
        let it = &self.jobs[job];
        let Some(key) = self.key_of(it, task) else { return Vec::new() };
        let is_peer = |other: &TaskId| {
            self.tasks[*other].status.is_valid() && self.key_of(it, *other).as_ref() == Some(&key)
        };
        it.tasks.iter().copied().filter(is_peer).collect()
    }

    /// Why no pod of a job is in a sub-group of an entry of its `subGroupPolicy`; `None` where some are, or none exist.
    pub fn empty_policy(&self, job: JobId, policy: usize) -> Option<EmptyPolicy> {
        let it = &self.jobs[job];
        let pods = || it.tasks.iter().copied().filter(|task| self.tasks[*task].status.is_valid());
        let count = pods().count() as u32;
        if count == 0 || pods().any(|task| self.key_of(it, task).is_some_and(|key| key.0 == policy)) {
            return None;
        }
        let entry = &it.sub_groups[policy];
        let labels = |task: TaskId| &self.tasks[task].details.labels;
        if pods().any(|task| entry.values(labels(task)).is_some()) {
            return Some(EmptyPolicy::Taken);
        }
        let selects = pods().any(|task| entry.selector.matches(labels(task)));
        Some(if selects {
            EmptyPolicy::NoValues(entry.keys.clone())
        } else {
            EmptyPolicy::SelectsNone(count)
        })
    }

    fn key_of<'a>(&'a self, job: &Job, task: TaskId) -> Option<SubGroupKey<'a>> {
        let labels = &self.tasks[task].details.labels;
        job.sub_groups.iter().enumerate().find_map(|(at, policy)| Some((at, policy.values(labels)?)))
    }
}

impl SubGroupPolicy {
    /// The values of `matchLabelKeys` of a pod with these labels; `None` where it does not belong to the entry.
    fn values<'a>(&self, labels: &'a Labels) -> Option<SmallVec<[&'a str; 2]>> {
        let value = |key: &Arc<str>| labels.get(key).filter(|value| !value.is_empty());
        let values = self.keys.iter().map(value);
        self.selector.matches(labels).then(|| values.collect()).flatten()
    }
}
