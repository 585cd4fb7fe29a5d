//! Resources that tenants ask for and nobody offers.
//!
//! A resource has a dimension of its own if a node, a queue or a quota names it; all others that pods and PodGroups ask
//! for are one dimension, of which no node has anything. So names that a tenant makes up cost nobody else anything,
//! they are gone with the objects that name them, and what asks for them fits nowhere, by the same arithmetic as
//! anything else that does not fit.
//!
//! Whoever asks for such a resource keeps what it asked for. When a node, a queue or a quota names the resource later,
//! what was asked for is converted anew.
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use phalanx_resource::{Amounts, Dims, InitContainer, PodResources};

use crate::class::ClassKey;
use crate::devices::class_of;
use crate::event::{PodRequests, Resources};
use crate::id::{ClassId, JobId, TaskId};
use crate::resource_quota::{canonical, is_of_nodes};
use crate::{Class, Cluster, GangMinimum};

/// The number of resources that a reason names.
const TOLD: usize = 3;

/// The largest amount of unknown resources that is counted.
const MOST: i64 = 1 << 53;

/// What stands for device classes that PodGroups name and nobody made.
const NO_CLASS: &str = "deviceclass/(none that exists)";

/// What a pod asks for, of which some is of resources that nobody offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unoffered {
    /// Their names, sorted.
    names: Box<[Arc<str>]>,
    requests: Arc<PodRequests>,
}

impl Unoffered {
    /// What the containers request.
    pub(crate) fn requests(&self) -> &Arc<PodRequests> {
        &self.requests
    }

    fn names_any(&self, names: &[Box<str>]) -> bool {
        names.iter().any(|name| self.names.binary_search_by(|known| (**known).cmp(name)).is_ok())
    }
}

/// Converts lists, and notes the names that are not known.
struct Asked<'a> {
    dims: &'a Dims,
    unknown: BTreeSet<Arc<str>>,
    /// How much is asked for of them, in thousandths.
    amount: i64,
}

impl<'a> Asked<'a> {
    fn new(dims: &'a Dims) -> Self {
        Self { dims, unknown: BTreeSet::new(), amount: 0 }
    }

    /// What was asked for of names that are not known, since it was last looked at.
    fn take_amount(&mut self) -> i64 {
        std::mem::take(&mut self.amount)
    }

    fn amounts(&mut self, list: &Resources, counts: impl Fn(&str) -> bool) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, quantity) in list.iter().filter(|(name, _)| counts(name)) {
            match self.dims.get(name) {
                Some(dim) => amounts.set(dim, self.dims.amount(dim, *quantity)),
                None if quantity.milli() > 0 => {
                    self.unknown.insert(name.clone());
                    self.amount = self.amount.saturating_add(quantity.milli()).min(MOST);
                }
                None => {}
            }
        }
        amounts
    }
}

/// Whether Kubernetes honours a resource in a pod's own `spec.resources`.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

impl Cluster {
    /// What a pod requests in all.
    pub(crate) fn request_of_pod(
        &mut self,
        requests: &Arc<PodRequests>,
    ) -> (Amounts, Option<Arc<Unoffered>>) {
        let mut asked = Asked::new(&self.dims);
        let mut part = |list: &Resources| asked.amounts(list, |_| true);
        let parts = PodResources {
            containers: requests.containers.iter().map(&mut part).collect(),
            init: requests
                .init
                .iter()
                .map(|(list, sidecar)| InitContainer { request: part(list), sidecar: *sidecar })
                .collect(),
            overhead: part(&requests.overhead),
            pod_level: requests.pod_level.as_ref().map(|list| asked.amounts(list, is_pod_level)),
        };
        let (mut request, amount, names) = (parts.total(), asked.amount, asked.unknown);
        if names.is_empty() {
            return (request, None);
        }
        request.set(self.dims.unknown(), amount);
        let unoffered = Unoffered { names: names.into_iter().collect(), requests: requests.clone() };
        (request, Some(Arc::new(unoffered)))
    }

    /// The limits of a pod's containers in all.
    pub(crate) fn limits_of_pod(&self, requests: &PodRequests) -> Amounts {
        let mut asked = Asked::new(&self.dims);
        let mut limits = Amounts::new();
        requests.limits.iter().for_each(|list| limits.add(&asked.amounts(list, |_| true)));
        limits
    }

    /// What the `minResources` of a PodGroup ask for.
    pub(crate) fn minimum_of(&mut self, list: &Resources) -> GangMinimum {
        self.learn_device_classes(list);
        let mut asked = Asked::new(&self.dims);
        let mut min_resources = asked.amounts(list, is_of_nodes);
        let of_nodes = asked.take_amount();
        let mut min_devices = asked.amounts(list, |name| class_of(name).is_some());
        let of_devices = asked.take_amount();
        let quota_request = self.quota_request(list);
        if of_nodes > 0 {
            min_resources.set(self.dims.unknown(), of_nodes);
        }
        if of_devices > 0 {
            self.count_classes(&[(NO_CLASS.into(), phalanx_resource::Quantity::default())]);
            min_devices.set(self.dims.intern(NO_CLASS), of_devices);
        }
        let known =
            |(name, _): &(Arc<str>, _)| canonical(name).is_none_or(|name| self.dims.get(name).is_some());
        let unoffered = (!list.iter().all(known)).then(|| Arc::new(list.clone()));
        GangMinimum {
            resources: Some(min_resources),
            devices: min_devices,
            quota_request: Some(quota_request),
            unoffered,
        }
    }

    /// Device classes that exist are counted once a PodGroup names them.
    fn learn_device_classes(&mut self, list: &Resources) {
        let of_class =
            list.iter().filter(|(name, _)| class_of(name).is_some_and(|class| self.devices.has_class(class)));
        let of_class: Resources = of_class.cloned().collect();
        self.count_classes(&of_class);
        for (name, _) in &of_class {
            self.dims.intern(name);
        }
    }

    /// As quotas count it: a resource that has two names counts once, with the larger figure. No quota limits a name
    /// that none has named.
    pub(crate) fn quota_request(&self, list: &Resources) -> Amounts {
        let mut amounts = Amounts::new();
        for (name, quantity) in list {
            if let Some(dim) = canonical(name).and_then(|name| self.dims.get(name)) {
                amounts.set(dim, self.dims.amount(dim, *quantity).max(amounts.get(dim)));
            }
        }
        amounts
    }

    /// Converts anew what asks for resources that have become known.
    pub(crate) fn meet_resources(&mut self) {
        let names = std::mem::take(&mut self.changes.resources);
        if names.is_empty() {
            return;
        }
        let concerned = |class: &Class| class.unoffered.as_ref().is_some_and(|asked| asked.names_any(&names));
        let mut tasks: BTreeMap<ClassId, Vec<TaskId>> = BTreeMap::new();
        for (id, task) in self.tasks.iter().filter(|(_, task)| concerned(&self.classes[task.class])) {
            tasks.entry(task.class).or_default().push(id);
        }
        for (class, tasks) in tasks {
            self.convert_class(class, &tasks);
        }
        let named = |name: &str| names.iter().any(|known| **known == *name);
        let concerned = |list: &Resources| list.iter().any(|(name, _)| canonical(name).is_some_and(named));
        let jobs =
            self.jobs.iter().filter(|(_, job)| job.minimum.unoffered.as_deref().is_some_and(concerned));
        for job in jobs.map(|(id, _)| id).collect::<Vec<_>>() {
            self.convert_job(job);
        }
    }

    fn convert_class(&mut self, id: ClassId, tasks: &[TaskId]) {
        let class = &self.classes[id];
        let (constraints, profile) = (class.constraints.clone(), class.profile);
        let Some(asked) = class.unoffered.clone() else { return };
        let (request, unoffered) = self.request_of_pod(&asked.requests);
        let class = self.class_of_key(ClassKey { request, constraints, profile, unoffered });
        for task in tasks {
            self.change_class(*task, class);
            let job = self.tasks[*task].job;
            self.forget_denial(job);
            if let Some(job) = job {
                self.job_changed(job);
            }
        }
    }

    fn convert_job(&mut self, id: JobId) {
        let Some(list) = self.jobs[id].minimum.unoffered.clone() else { return };
        let minimum = self.minimum_of(&list);
        self.note_asking(id, !minimum.devices.is_zero());
        self.jobs[id].minimum = minimum;
        self.log_reserved_nodes(id);
        self.forget_denial(Some(id));
        self.job_changed(id);
    }

    /// The names of resources, with those that a job asks for and nobody offers: the first of them, and how many
    /// others.
    pub fn dims_told(&self, id: JobId) -> Cow<'_, Dims> {
        let (job, dims) = (&self.jobs[id], self.resources_told(id));
        let Some(none) = self.dims.get(NO_CLASS).filter(|dim| job.minimum.devices.get(*dim) != 0) else {
            return dims;
        };
        let listed = job.minimum.unoffered.iter().flat_map(|list| list.iter()).map(|(name, _)| name);
        let classes = listed.filter(|name| class_of(name).is_some() && self.dims.get(name).is_none());
        let names: BTreeSet<&Arc<str>> = classes.collect();
        Cow::Owned(dims.renaming(none, &told(names.iter().copied(), names.len())))
    }

    /// As above, without names of device classes.
    fn resources_told(&self, id: JobId) -> Cow<'_, Dims> {
        let job = &self.jobs[id];
        let asks = |dim| {
            let sums = [&job.sums.pending, &job.sums.pipelined, &job.sums.allocated]
                .into_iter()
                .chain(&job.minimum.resources);
            sums.map(|sum| sum.get(dim)).any(|amount| amount != 0)
        };
        if !self.dims.unknown_if_any().is_some_and(asks) {
            return Cow::Borrowed(&self.dims);
        }
        let tasks = job.tasks.iter().map(|task| &self.classes[self.tasks[*task].class].unoffered);
        let mut of_tasks: Vec<&Arc<Unoffered>> = tasks.flatten().collect();
        of_tasks.dedup();
        if let [asked] = of_tasks[..]
            && job.minimum.unoffered.is_none()
        {
            // Its names are sorted already.
            let told = told(asked.names.iter(), asked.names.len());
            return Cow::Owned(self.dims.naming_unknown(&told));
        }
        let of_group = job.minimum.unoffered.iter().flat_map(|list| list.iter()).map(|(name, _)| name);
        let of_group = of_group.filter(|name| is_of_nodes(name) && self.dims.get(name).is_none());
        let of_tasks = of_tasks.into_iter().flat_map(|asked| asked.names.iter());
        let names: BTreeSet<&Arc<str>> = of_tasks.chain(of_group).collect();
        Cow::Owned(self.dims.naming_unknown(&told(names.iter().copied(), names.len())))
    }
}

fn told<'a>(names: impl Iterator<Item = &'a Arc<str>>, count: usize) -> String {
    let first: Vec<&str> = names.take(TOLD).map(|name| &**name).collect();
    match count - first.len() {
        0 => first.join(", "),
        others => format!("{} and {others} other resources that no node has", first.join(", ")),
    }
}
