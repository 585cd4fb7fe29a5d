//! Device quotas: `deviceclass/<class>` in a capability, guarantee or deserved amount is a number of devices of the
//! class (resource.k8s.io), as requested by the claims of the queue's tasks. A claim that several tasks share counts
//! once in a queue, and once in each ancestor.
//!
//! An admitted job counts with the devices that it needs to start, if it holds fewer: see [`Cluster::devices_needed`].
//!
//! Source: Volcano's capacity plugin, `checkDRAAllocatable`; there only capabilities count, and only jobs admitted in
//! the running session.
use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{ClaimId, JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, DevicesOf, Status, is_part};

/// The devices that queues hold, of the classes that a queue has a quota of; empty when there is no such quota.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DeviceQuotas {
    tree: bool,
    /// The resources `deviceclass/<class>` that a queue has a quota of.
    classes: Vec<DimId>,
    /// The devices that admitted jobs need to start and do not hold yet.
    inqueue: FxHashMap<QueueId, Amounts>,
}

impl DeviceQuotas {
    pub(super) fn new(cluster: &Cluster, tree: bool) -> Self {
        let is_quota = |dim: &DimId| {
            let named = |(_, queue): (QueueId, &phalanx_cluster::Queue)| {
                let figures = [queue.capability.get(*dim), queue.deserved.get(*dim)];
                figures.iter().any(Option::is_some) || queue.guarantee.get(*dim) > 0
            };
            cluster.device_class(*dim).is_some() && cluster.queues.iter().any(named)
        };
        let classes: Vec<DimId> = cluster.dims.iter().map(|(dim, _)| dim).filter(is_quota).collect();
        let mut devices = Self { tree, classes, ..Self::default() };
        if devices.is_any() {
            devices.add_admitted_jobs(cluster);
        }
        devices
    }

    fn add_admitted_jobs(&mut self, cluster: &Cluster) {
        for id in cluster.jobs_with_devices() {
            let job = &cluster.jobs[id];
            // A pipelined gang holds the devices that it needs to start, unless minResources name more.
            let is_pipelined = job.counts.ready() + job.counts.of(Status::Pipelined) >= job.min_member;
            let counts = !is_pipelined || !job.minimum.devices.is_zero();
            if counts && job.object.exists && matches!(job.phase, Phase::Inqueue | Phase::Running) {
                self.add_inqueue(cluster, id);
            }
        }
    }

    /// Whether any queue has a quota of devices.
    pub(super) fn is_any(&self) -> bool {
        !self.classes.is_empty()
    }

    fn path<'w>(
        &self,
        cluster: &'w Cluster,
        queue: Option<QueueId>,
    ) -> impl Iterator<Item = QueueId> + use<'w> {
        let length = if self.tree { usize::MAX } else { 1 };
        queue.into_iter().flat_map(|queue| cluster.queue_path(queue)).take(length)
    }

    /// The tasks that count for a queue.
    fn scope_of(&self, queue: QueueId) -> DevicesOf {
        if self.tree { DevicesOf::Subtree(queue) } else { DevicesOf::Own(queue) }
    }

    /// What a queue and, in a tree, its descendants hold of a resource.
    pub(super) fn held(&self, cluster: &Cluster, queue: QueueId, dim: DimId) -> i64 {
        self.held_by(cluster, self.scope_of(queue), dim)
    }

    /// What the tasks of a queue hold of a resource, without its descendants.
    pub(super) fn held_by_own_tasks(&self, cluster: &Cluster, queue: QueueId, dim: DimId) -> i64 {
        self.held_by(cluster, DevicesOf::Own(queue), dim)
    }

    fn held_by(&self, cluster: &Cluster, of: DevicesOf, dim: DimId) -> i64 {
        if self.classes.contains(&dim) { cluster.devices_held_by(of, dim) } else { 0 }
    }

    /// What the admitted jobs of a queue and, in a tree, of its descendants hold of a resource, or need to start.
    pub(super) fn inqueue(&self, cluster: &Cluster, queue: QueueId, dim: DimId) -> i64 {
        self.held(cluster, queue, dim) + self.inqueue.get(&queue).map_or(0, |inqueue| inqueue.get(dim))
    }

    /// The devices of a task's claims that no other task of the queue holds.
    pub(super) fn need(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Amounts {
        let claims = cluster.claims_of(task).iter();
        self.sum(cluster, claims.filter(|claim| cluster.claim_holders(self.scope_of(queue), **claim) == 0))
    }

    /// The devices that a queue holds less without a task: those of claims that all other holders of are victims
    /// already.
    pub(super) fn freed(
        &self,
        cluster: &Cluster,
        queue: QueueId,
        task: TaskId,
        claim_victims: &FxHashMap<(QueueId, ClaimId), u32>,
    ) -> Amounts {
        let is_last_holder = |claim: &&ClaimId| {
            let victims = claim_victims.get(&(queue, **claim)).copied().unwrap_or_default();
            cluster.claim_holders(self.scope_of(queue), **claim) == victims + 1
        };
        self.sum(cluster, cluster.claims_of(task).iter().filter(is_last_holder))
    }

    fn sum<'c>(&self, cluster: &Cluster, claims: impl Iterator<Item = &'c ClaimId>) -> Amounts {
        let mut sum = Amounts::new();
        claims.for_each(|claim| sum.add(&cluster.devices_asked(*claim, &self.classes)));
        sum
    }

    /// The devices that a job needs to start and does not hold.
    pub(super) fn missing(&self, cluster: &Cluster, id: JobId) -> Amounts {
        let mut missing = cluster.devices_needed(id, &self.classes);
        missing.sub_clamped(&cluster.devices_held(cluster.jobs[id].tasks.iter().copied(), &self.classes));
        missing
    }

    /// Counts an admitted job in its queue and in each ancestor.
    pub(super) fn add_inqueue(&mut self, cluster: &Cluster, id: JobId) {
        let missing = self.missing(cluster, id);
        if !missing.is_zero() {
            for queue in self.path(cluster, Some(cluster.jobs[id].queue)) {
                self.inqueue.entry(queue).or_default().add(&missing);
            }
        }
    }
}

/// Whether a quota of a resource has an effect; those of devices have one when the plugin counts devices.
pub(super) fn is_counted(cluster: &Cluster, dim: DimId, counts_devices: bool) -> bool {
    !is_part(cluster.dims.name(dim)) && (counts_devices || cluster.device_class(dim).is_none())
}

/// The total of a resource: the allocatable of all nodes, or the number of devices of the class.
pub(super) fn total(cluster: &Cluster, dim: DimId) -> i64 {
    if cluster.device_class(dim).is_some() {
        cluster.devices_there(dim)
    } else {
        cluster.sums.allocatable.get(dim).max(0)
    }
}

/// The warning for a device quota of a queue that has no effect.
pub(super) fn idle_quota_warning(cluster: &Cluster, id: QueueId, counts_devices: bool) -> Option<QueueFault> {
    let queue = &cluster.queues[id];
    let guarantee = queue.guarantee.iter().map(|(dim, _)| ("guarantee", dim));
    let deserved = queue.deserved.iter().map(|(dim, _)| ("deserved", dim));
    let capability = queue.capability.iter().map(|(dim, _)| ("capability", dim));
    capability.chain(deserved).chain(guarantee).find_map(|(what, dim)| {
        let name = cluster.dims.name(dim);
        let why = match name {
            _ if is_counted(cluster, dim, counts_devices) => return None,
            _ if is_part(name) => "claims to a part of a device are not supported",
            _ => "devices are not counted",
        };
        Some(QueueFault::Devices { quota: format!("{what} of {name}").into(), why })
    })
}
