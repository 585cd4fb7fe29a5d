//! Quotas of devices: `deviceclass/<class>` in a capability, a guarantee or what is deserved means that many devices of a class
//! (resource.k8s.io), as the claims of a queue's tasks ask for them. A claim that several tasks share counts once in a queue,
//! and once in each queue above it.
//!
//! Admitted jobs count with what they need to start, if they hold less: see [`World::devices_needed`].
//!
//! Source: Volcano's capacity plugin, `checkDRAAllocatable`; there only a capability counts, and of admitted jobs only those
//! of the session.
use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use phalanx_cluster::diagnosis::QueueFault;
use phalanx_cluster::event::Phase;
use phalanx_cluster::id::{ClaimId, JobId, QueueId, TaskId};
use phalanx_cluster::{DevicesOf, Status, World, is_part};

/// What claims take of the classes that any queue has a quota of. Nothing at all when none has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DeviceQuotas {
    tree: bool,
    /// The resources that stand for classes.
    classes: Vec<DimId>,
    /// What admitted jobs will hold when they are whole, and do not as the session begins.
    promised: FxHashMap<QueueId, Amounts>,
}

impl DeviceQuotas {
    pub(super) fn new(world: &World, tree: bool) -> Self {
        let is_quota = |dim: &DimId| {
            let named = |(_, queue): (QueueId, &phalanx_cluster::Queue)| {
                let figures = [queue.capability.get(*dim), queue.deserved.get(*dim)];
                figures.iter().any(Option::is_some) || queue.guarantee.get(*dim) > 0
            };
            world.device_class(*dim).is_some() && world.queues.iter().any(named)
        };
        let classes: Vec<DimId> = world.dims.iter().map(|(dim, _)| dim).filter(is_quota).collect();
        let mut devices = Self { tree, classes, ..Self::default() };
        if devices.is_any() {
            devices.count(world);
        }
        devices
    }

    fn count(&mut self, world: &World) {
        for id in world.jobs_with_devices() {
            let job = &world.jobs[id];
            // A gang that is whole holds what its pods cannot do without.
            let whole = job.counts.ready() + job.counts.of(Status::Pipelined) >= job.min_member;
            let asks = !whole || !job.min_devices.is_zero();
            if asks && job.exists && matches!(job.phase, Phase::Inqueue | Phase::Running) {
                self.promise(world, id);
            }
        }
    }

    /// Whether any queue has a quota of devices.
    pub(super) fn is_any(&self) -> bool {
        !self.classes.is_empty()
    }

    fn path<'w>(&self, world: &'w World, queue: Option<QueueId>) -> impl Iterator<Item = QueueId> + use<'w> {
        let most = if self.tree { usize::MAX } else { 1 };
        queue.into_iter().flat_map(|queue| world.queue_path(queue)).take(most)
    }

    /// Whose tasks count for a queue.
    fn of(&self, queue: QueueId) -> DevicesOf {
        if self.tree { DevicesOf::Subtree(queue) } else { DevicesOf::Own(queue) }
    }

    /// What a queue and, in a tree, those below it hold of a resource.
    pub(super) fn held(&self, world: &World, queue: QueueId, dim: DimId) -> i64 {
        self.held_by(world, self.of(queue), dim)
    }

    /// What a queue itself holds of a resource.
    pub(super) fn own(&self, world: &World, queue: QueueId, dim: DimId) -> i64 {
        self.held_by(world, DevicesOf::Own(queue), dim)
    }

    fn held_by(&self, world: &World, of: DevicesOf, dim: DimId) -> i64 {
        if self.classes.contains(&dim) { world.devices_held_by(of, dim) } else { 0 }
    }

    /// What admitted jobs of a queue, and of those below it, hold or will hold of a resource.
    pub(super) fn taken(&self, world: &World, queue: QueueId, dim: DimId) -> i64 {
        self.held(world, queue, dim) + self.promised.get(&queue).map_or(0, |promised| promised.get(dim))
    }

    /// What a task would take of the devices that a queue does not hold yet.
    pub(super) fn need(&self, world: &World, queue: QueueId, task: TaskId) -> Amounts {
        let claims = world.claims_of(task).iter();
        self.sum(world, claims.filter(|claim| world.claim_holders(self.of(queue), **claim) == 0))
    }

    /// What a queue would have back without a task, with others of it gone whose claims are counted here.
    pub(super) fn given_back(
        &self,
        world: &World,
        queue: QueueId,
        task: TaskId,
        gone: &FxHashMap<(QueueId, ClaimId), u32>,
    ) -> Amounts {
        let last = |claim: &&ClaimId| {
            let gone = gone.get(&(queue, **claim)).copied().unwrap_or_default();
            world.claim_holders(self.of(queue), **claim) == gone + 1
        };
        self.sum(world, world.claims_of(task).iter().filter(last))
    }

    fn sum<'c>(&self, world: &World, claims: impl Iterator<Item = &'c ClaimId>) -> Amounts {
        let mut sum = Amounts::new();
        claims.for_each(|claim| sum.add(&world.devices_asked(*claim, &self.classes)));
        sum
    }

    /// What a job needs to start and does not hold.
    pub(super) fn missing(&self, world: &World, id: JobId) -> Amounts {
        let mut missing = world.devices_needed(id, &self.classes);
        missing.sub_clamped(&world.devices_held(world.jobs[id].tasks.iter().copied(), &self.classes));
        missing
    }

    /// A job is admitted.
    pub(super) fn promise(&mut self, world: &World, id: JobId) {
        let missing = self.missing(world, id);
        if !missing.is_zero() {
            for queue in self.path(world, Some(world.jobs[id].queue)) {
                self.promised.entry(queue).or_default().add(&missing);
            }
        }
    }
}

/// Whether a figure of a queue counts. `devices`: those of devices do.
pub(super) fn counts(world: &World, dim: DimId, devices: bool) -> bool {
    !is_part(world.dims.name(dim)) && (devices || world.device_class(dim).is_none())
}

/// What there is of a resource: of devices, as many as there are of the class.
pub(super) fn total(world: &World, dim: DimId) -> i64 {
    if world.device_class(dim).is_some() { world.devices_there(dim) } else { world.total.get(dim).max(0) }
}

/// A quota of devices that has no effect. `counted`: those of whole devices have.
pub(super) fn idle_quota(world: &World, id: QueueId, counted: bool) -> Option<QueueFault> {
    let queue = &world.queues[id];
    let guarantee = queue.guarantee.iter().map(|(dim, _)| ("guarantee", dim));
    let deserved = queue.deserved.iter().map(|(dim, _)| ("deserved", dim));
    let capability = queue.capability.iter().map(|(dim, _)| ("capability", dim));
    capability.chain(deserved).chain(guarantee).find_map(|(what, dim)| {
        let name = world.dims.name(dim);
        let why = match name {
            _ if counts(world, dim, counted) => return None,
            _ if is_part(name) => "claims to a part of a device are not supported",
            _ => "devices are not counted",
        };
        Some(QueueFault::Devices { quota: format!("{what} of {name}").into(), why })
    })
}
