//! Quotas of devices: a capability under the name `deviceclass/<class>` limits how many devices of a class (resource.k8s.io)
//! the claims of a queue's tasks ask for. A claim that several tasks share counts once in a queue, and once in each queue
//! above it.
//!
//! Source: Volcano's capacity plugin, `checkDRAAllocatable`; there the count is asked for admission too.
use phalanx_resource::{Amounts, DimId};
use rustc_hash::FxHashMap;

use crate::diagnosis::QueueFault;
use crate::id::{ClaimId, QueueId, TaskId};
use crate::world::{Status, World};

/// Before the name of a class: so many of its devices.
const COUNT: &str = "deviceclass/";
/// Behind the name of a dimension, and before that of a class: so much of its devices.
const PART: &str = ".deviceclass/";
/// Amounts of what has such a name are in thousandths.
const WHOLE: i64 = 1_000;

/// What claims take of the classes that any queue has a quota of. Nothing at all when none has.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Devices {
    tree: bool,
    /// The resources that stand for classes.
    classes: Vec<DimId>,
    /// How many tasks of a queue, and of those below it, hold a claim.
    refs: FxHashMap<(QueueId, ClaimId), u32>,
    held: FxHashMap<QueueId, Amounts>,
}

impl Devices {
    pub(super) fn new(world: &World, tree: bool) -> Self {
        let is_quota =
            |dim: &DimId| world.queues.iter().any(|(_, queue)| queue.capability.get(*dim).is_some());
        let named = world.dims.iter().filter(|(_, name)| name.starts_with(COUNT)).map(|(dim, _)| dim);
        let classes: Vec<DimId> = named.filter(is_quota).collect();
        let mut devices = Self { tree, classes, ..Self::default() };
        if devices.is_any() {
            world
                .claimants()
                .filter(|task| holds(world.tasks[*task].status))
                .for_each(|task| devices.add(world, task));
        }
        devices
    }

    /// Whether any queue has a quota of devices.
    pub(super) fn is_any(&self) -> bool {
        !self.classes.is_empty()
    }

    fn path<'w>(&self, world: &'w World, task: TaskId) -> impl Iterator<Item = QueueId> + use<'w> {
        let queue = world.tasks[task].job.map(|job| world.jobs[job].queue);
        let most = if self.tree { usize::MAX } else { 1 };
        queue.into_iter().flat_map(|queue| world.queue_path(queue)).take(most)
    }

    /// How many devices of each class a claim asks for.
    fn request(&self, world: &World, claim: ClaimId) -> Amounts {
        let mut request = Amounts::new();
        for one in world.device_requests(claim) {
            let class = self.classes.iter().find(|dim| world.dims.name(**dim)[COUNT.len()..] == *one.class);
            if let Some(dim) = class {
                request.set(*dim, request.get(*dim) + i64::from(one.count) * WHOLE);
            }
        }
        request
    }

    fn add(&mut self, world: &World, task: TaskId) {
        for queue in self.path(world, task) {
            for claim in world.claims_of(task) {
                let refs = self.refs.entry((queue, *claim)).or_default();
                *refs += 1;
                if *refs == 1 {
                    let request = self.request(world, *claim);
                    self.held.entry(queue).or_default().add(&request);
                }
            }
        }
    }

    fn sub(&mut self, world: &World, task: TaskId) {
        for queue in self.path(world, task) {
            for claim in world.claims_of(task) {
                let Some(refs) = self.refs.get_mut(&(queue, *claim)) else { continue };
                *refs -= 1;
                if *refs == 0 {
                    self.refs.remove(&(queue, *claim));
                    let request = self.request(world, *claim);
                    self.held.entry(queue).or_default().sub(&request);
                }
            }
        }
    }

    /// A task has moved.
    pub(super) fn update(&mut self, world: &World, task: TaskId, before: Status) {
        match (holds(before), holds(world.tasks[task].status)) {
            (false, true) if self.is_any() => self.add(world, task),
            (true, false) if self.is_any() => self.sub(world, task),
            _ => {}
        }
    }

    /// The first queue on the way up, if any, that would have too many devices with one more task; and how many.
    pub(super) fn refuses(&self, world: &World, task: TaskId) -> Option<(QueueId, Vec<(DimId, i64)>)> {
        if !self.is_any() || world.claims_of(task).is_empty() {
            return None;
        }
        self.path(world, task).find_map(|queue| {
            let mut need = Amounts::new();
            let new = world.claims_of(task).iter().filter(|claim| !self.refs.contains_key(&(queue, **claim)));
            new.for_each(|claim| need.add(&self.request(world, *claim)));
            let held = self.held.get(&queue);
            let over = self.classes.iter().filter_map(|dim| {
                let most = world.queues[queue].capability.get(*dim)?;
                let over = held.map_or(0, |held| held.get(*dim)) + need.get(*dim) - most;
                (need.get(*dim) > 0 && over > 0).then_some((*dim, over))
            });
            let over: Vec<_> = over.collect();
            (!over.is_empty()).then_some((queue, over))
        })
    }
}

fn holds(status: Status) -> bool {
    status.is_allocated() || status == Status::Pipelined
}

/// A quota of devices that has no effect. `counted`: those of whole devices have.
pub(super) fn idle_quota(world: &World, id: QueueId, counted: bool) -> Option<QueueFault> {
    let queue = &world.queues[id];
    let guarantee = queue.guarantee.iter().map(|(dim, _)| ("guarantee", dim));
    let deserved = queue.deserved.iter().map(|(dim, _)| ("deserved", dim));
    let capability = queue.capability.iter().map(|(dim, _)| ("capability", dim));
    capability.chain(deserved).chain(guarantee).find_map(|(what, dim)| {
        let name = world.dims.name(dim);
        let why = match what {
            _ if name.contains(PART) => "claims to a part of a device are not supported",
            _ if !name.starts_with(COUNT) => return None,
            _ if !counted => "devices are not counted",
            "capability" => return None,
            _ => "of devices only a capability counts",
        };
        Some(QueueFault::Devices { quota: format!("{what} of {name}").into(), why })
    })
}
