//! Devices as queues count them: resource `deviceclass/<class>` is the devices of a class.
use std::sync::Arc;

use phalanx_cel::Budget;
use phalanx_resource::{Amounts, DimId, Quantity};
use rustc_hash::FxHashSet;

use super::{Shape, Slice};
use crate::id::{ClaimId, JobId, QueueId, TaskId};
use crate::{Cluster, Status};

/// Before the name of a class: so many of its devices.
const COUNT: &str = "deviceclass/";
/// Behind the name of a dimension, and before that of a class: so much of its devices.
const PART: &str = ".deviceclass/";
/// Amounts of what has such a name are in thousandths.
pub(super) const WHOLE: i64 = 1_000;

/// The class whose devices a resource stands for.
pub(crate) fn class_of(name: &str) -> Option<&str> {
    name.strip_prefix(COUNT)
}

/// The resource that stands for the devices of a class.
pub(super) fn resource_of(class: &str) -> String {
    [COUNT, class].concat()
}

/// Whether a resource stands for a part of devices.
pub fn is_part(name: &str) -> bool {
    name.contains(PART)
}

impl Cluster {
    /// The class whose devices a resource stands for.
    pub fn device_class(&self, dim: DimId) -> Option<&str> {
        class_of(self.dims.name(dim))
    }

    /// How many devices of a resource's class there are on nodes that exist, in thousandths.
    pub fn devices_there(&self, dim: DimId) -> i64 {
        let count = self.device_class(dim).and_then(|class| self.devices.counts.get(class));
        count.map_or(0, |count| i64::from(*count) * WHOLE)
    }

    /// Whether queues or PodGroups name any class.
    pub fn counts_devices(&self) -> bool {
        !self.devices.counts.is_empty()
    }

    /// Classes that are named here are counted from now on.
    pub fn count_classes(&mut self, list: &[(Arc<str>, Quantity)]) {
        for class in list.iter().filter_map(|(name, _)| class_of(name)) {
            if !self.devices.counts.contains_key(class) {
                self.devices.counts.insert(class.into(), 0);
                self.devices.dirty = true;
            }
        }
    }

    /// How many devices of these classes a claim asks for, in thousandths.
    pub fn devices_asked(&self, claim: ClaimId, classes: &[DimId]) -> Amounts {
        let mut asked = Amounts::new();
        for one in self.device_requests(claim) {
            if let Some(dim) = classes.iter().find(|dim| self.device_class(**dim) == Some(&one.class)) {
                asked.set(*dim, asked.get(*dim) + i64::from(one.count) * WHOLE);
            }
        }
        asked
    }

    /// How many devices of these classes the claims of tasks that have a place, or are nominated, ask for; a claim that
    /// several share counts once.
    pub fn devices_held(&self, tasks: impl Iterator<Item = TaskId>, classes: &[DimId]) -> Amounts {
        let holds = |task: &TaskId| {
            let status = self.tasks[*task].status;
            status.is_allocated() || status == Status::Pipelined
        };
        let claims: FxHashSet<ClaimId> =
            tasks.filter(holds).flat_map(|task| self.claims_of(task)).copied().collect();
        let mut held = Amounts::new();
        for claim in claims {
            held.add(&self.devices_asked(claim, classes));
        }
        held
    }

    /// What a job's minResources ask for of device classes and it does not hold.
    pub fn devices_missing(&self, id: JobId) -> Amounts {
        let job = &self.jobs[id];
        let classes: Vec<DimId> = job.minimum.devices.iter().map(|(dim, _)| dim).collect();
        let mut missing = job.minimum.devices.clone();
        if !classes.is_empty() {
            missing.sub_clamped(&self.devices_held(job.tasks.iter().copied(), &classes));
        }
        missing
    }

    /// How many devices of these classes a job needs at the least to start: what its minResources say, or else what its
    /// pods claim, as many of them as it cannot do without. A claim that several share counts once.
    pub fn devices_needed(&self, id: JobId, classes: &[DimId]) -> Amounts {
        let (job, mut needed) = (&self.jobs[id], self.jobs[id].minimum.devices.clone());
        let open: Vec<DimId> =
            classes.iter().copied().filter(|dim| job.minimum.devices.get(*dim) == 0).collect();
        if open.is_empty() || job.tasks.iter().all(|task| self.claims_of(*task).is_empty()) {
            return needed;
        }
        let mut claimed: Vec<Amounts> = Vec::new();
        let mut seen: FxHashSet<ClaimId> = FxHashSet::default();
        let mut tasks: Vec<TaskId> = job.tasks.clone();
        tasks.sort_unstable_by(|a, b| self.tasks[*a].pod.cmp(&self.tasks[*b].pod));
        for task in tasks {
            let mut own = Amounts::new();
            for claim in self.claims_of(task).iter().filter(|claim| seen.insert(**claim)) {
                own.add(&self.devices_asked(*claim, &open));
            }
            claimed.push(own);
        }
        let members = (job.min_member as usize).min(claimed.len());
        for dim in open {
            let mut least: Vec<i64> = claimed.iter().map(|own| own.get(dim)).collect();
            least.sort_unstable();
            needed.set(dim, least.iter().take(members).sum());
        }
        needed
    }

    /// What a queue, with all below it, has allocated, these devices by class included.
    pub fn render_allocated(&self, id: QueueId, devices: &[(Arc<str>, u32)]) -> Vec<(Arc<str>, String)> {
        let mut list = self.render(&self.queues[id].subtree.allocated);
        let of_class =
            |(class, count): &(Arc<str>, u32)| (format!("{COUNT}{class}").into(), count.to_string());
        list.extend(devices.iter().map(of_class));
        list.sort();
        list
    }
}

impl super::Devices {
    /// Whether a DeviceClass exists.
    pub(crate) fn has_class(&self, name: &str) -> bool {
        self.classes.contains_key(name)
    }

    /// Counts the devices of the classes that are named: of the newest generation of each pool, on nodes that exist.
    pub(super) fn count(&mut self) {
        let Self { counts, classes, slices, table, .. } = self;
        for (class, count) in counts {
            let mut shape = Shape::new(class, &[], 0);
            shape.read(classes.get(class));
            let mut sum = 0;
            let there = slices.values_mut().filter(|slice| {
                slice.info.devices.first().is_some_and(|device| table.contains_key(&slice.name_of(device)))
            });
            shape.within_steps(|shape, budget| {
                sum = there.map(|slice| slice.count(class, shape, budget)).sum();
            });
            *count = sum;
        }
    }
}

impl Slice {
    /// How many devices of a class it has.
    fn count(&mut self, class: &Arc<str>, shape: &mut Shape, budget: &mut Budget) -> u32 {
        let Self { info, counts, .. } = self;
        *counts.entry(class.clone()).or_insert_with(|| {
            let usable = info.devices.iter().filter(|device| device.left_out.is_none());
            usable.filter(|device| shape.takes(&info.driver, device, budget)).count() as u32
        })
    }
}
