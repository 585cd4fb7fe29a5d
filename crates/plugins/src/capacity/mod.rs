//! capacity: each queue has a share of its own, in a flat list or in a tree.
//!
//! Per resource, with *total* what all nodes can give, and *held* what pods have or are nominated for:
//! - `realCapability = min(capability, whole − Σ guarantee of the queue and its siblings + its own guarantee)`, where *whole*
//!   is the total or, with `enableHierarchy: true`, the realCapability of the parent; no capability is no limit. Where more is
//!   guaranteed than there is, all guarantees are cut in proportion.
//! - `deserved = max(guarantee, min(spec.deserved, realCapability))`; a resource that is not named has no figure.
//! - share: `max over deserved resources of held / deserved`, 1 for a queue that deserves nothing in particular.
//!
//! Then:
//! - queue order: larger `spec.priority`, smaller share, queues that deserve something. In a tree the shares compared are
//!   those of the two queues at which the ways to `root` part, and of equal ones the older queue's tree goes first;
//! - a queue may have a task when `held + request ≤ realCapability` in what the task asks for, in the queue and in every
//!   queue above it, and every queue can still get its guarantee: see [`kept`]. Places for pods count where a capability
//!   names them;
//! - a pod that was let in by its queue's gate counts as if it had its node (see [`gates`]);
//! - a job is admitted when `promised + minResources ≤ realCapability` in what it names, there and in every queue above. In
//!   a tree `root` is as large as its capability says, not as the cluster is: what does not fit yet may bring new nodes;
//! - a queue may reclaim for a task when it is *entitled* to it: with the task, and all else of its gang, it has at most what
//!   it deserves of all that these ask for and that it deserves any of, which is something. Or one of the
//!   `ancestorReclaimLevel` queues above it is (`root` left out), and then from queues that are not below that one. What
//!   others hold of a limit further up is not held against it, for that is what they may have to give;
//! - a task may be reclaimed when it asks for something that the other asks for too; when its queue, and those above it that
//!   the other's is not below, keep their guarantees; and when its queue deserves nothing of what the task asks for, or
//!   holds more of some of it than it deserves, as must those of the `ancestorReclaimLevel` queues above it that the other
//!   queue does not have at the same level. Two queues that share one of these are spared where neither deserves anything
//!   of what is asked for;
//! - victims come from the queues nearest in the tree first.
//!
//! In a tree jobs can be in the leaves only, and what a queue leaves open (guarantee, deserved) is what its children add up
//! to. Quotas that do not add up (children have more than their parent) are told on the queue. Without `enableHierarchy` a
//! queue with a parent other than `root` is refused.
//!
//! Source: Volcano's capacity plugin. Differences: there a queue may reclaim that has less than it deserves of one thing, and
//! more of another; two such queues take from each other without end (crates/design/evictions-end.md). There a fault of one queue
//! switches the plugin off for all; here its own jobs wait, with those of the queues below it, and nothing is kept for it. Guarantees are kept free until they are used
//! (there, what two queues leave beside each other's guarantees can be a third's), also where `root` has no capability.
//! Guarantees of the queues above a victim count. Of devices (see [`devices`]) whole ones count in all of this, as any resource;
//! a quota that has no effect is told on the queue.
mod devices;
mod gates;
mod kept;
mod reclaim;
mod standing;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::{Amounts, Ceilings, DimId};

use super::flat;
use super::gang_over::gang_over;
use super::share::Share;
use devices::Devices;
use gates::LetIn;
use kept::{Kept, Refuses};
use phalanx_cluster::diagnosis::{Beside, Limit, QueueFault, Refusal};
use phalanx_cluster::event::Time;
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Status, Sums, World};
use phalanx_framework::conf::{ArgKind, ArgSpec, Flag, Rule};
use phalanx_framework::plugin::{
    EnqueueVote, EvictionKind, ObjectField, Plugin, PluginContext, PluginDef, QueueGuard, QueueTree, Warnings,
};
use standing::Standing;

const NAME: &str = "capacity";
const LEVEL: &str = "ancestorReclaimLevel";

const DEVICES: &str = "capacity.DynamicResourceAllocationEnable";

const ARGS: &[ArgSpec] = &[
    ArgSpec {
        name: LEVEL,
        kind: ArgKind::Int(&[Rule::at_least(0)]),
        default: "0",
        doc: "How many queues above a queue have a say in what is reclaimed for it and from it. \
              Matters with enableHierarchy.",
    },
    ArgSpec {
        name: DEVICES,
        kind: ArgKind::Bool,
        default: "true",
        doc: "`deviceclass/<class>` in `capability`, `guarantee` and `deserved` means that many devices of the class, as a \
              queue's claims ask for them; a shared claim counts once.",
    },
    ArgSpec {
        name: "capacity.DRAConsumableCapacityEnable",
        kind: ArgKind::Bool,
        default: "true",
        doc: "Accepted for Volcano's sake: claims that ask for a part of a device are not supported and wait, so a \
              quota `<dimension>.deviceclass/<class>` has no effect, and the queue says so.",
    },
];

const READS: &[ObjectField] = &[ObjectField::new(
    "scheduling.volcano.sh/queue-allocation-gate",
    "annotation, and scheduling gate, of a pod",
    "not kept behind a gate",
    "`true`, with the gate of the same name and no other: the gate is removed when the queue has room for the pod, which \
     counts from then on.",
)];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Queues have what they deserve, between their guarantee and their capability, also in a tree.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Capacity::open(opening)),
};

struct Capacity {
    /// Queues stand in a tree.
    tree: bool,
    /// `ancestorReclaimLevel`.
    levels: usize,
    /// By queue id.
    standings: Vec<Standing>,
    kept: Kept,
    devices: Devices,
    let_in: LetIn,
}

impl Capacity {
    fn open(opening: PluginContext<'_>) -> Self {
        let PluginContext { world, args, flags, .. } = opening;
        let tree = flags.on(Flag::Hierarchy);
        let levels = if tree { usize::try_from(args.int(LEVEL, 0)).unwrap_or(0) } else { 0 };
        let broken = |id| world.queue_fault(id).is_some() || !(tree || flat::valid(world, id, NAME).is_ok());
        let counts_devices = args.bool(DEVICES, true);
        let standings = standing::standings(world, tree, counts_devices, broken);
        let devices = if counts_devices { Devices::new(world, tree) } else { Devices::default() };
        let kept = Kept::new(world, tree, &standings, &devices);
        let let_in = LetIn::new(world, tree);
        let mut plugin = Self { tree, levels, standings, kept, devices, let_in };
        if world.any_asks() {
            for (queue, promised) in world.claimed_by_queue() {
                plugin.promise(world, queue, &promised);
            }
        }
        plugin
    }

    fn of(&self, queue: QueueId) -> &Standing {
        &self.standings[queue.index()]
    }

    /// A queue and, in a tree, all above it.
    fn path<'w>(&self, world: &'w World, queue: QueueId) -> impl Iterator<Item = QueueId> + use<'w> {
        world.queue_path(queue).take(if self.tree { usize::MAX } else { 1 })
    }

    fn sums<'w>(&self, world: &'w World, queue: QueueId) -> &'w Sums {
        let queue = &world.queues[queue];
        if self.tree { &queue.subtree } else { &queue.own }
    }

    /// What a queue holds of a resource, as its sums or the claims of its tasks say.
    fn held(&self, world: &World, id: QueueId, dim: DimId) -> i64 {
        self.sums(world, id).held(dim) + self.devices.held(world, id, dim)
    }

    /// What a task asks for in a queue, with the devices that it would be the first to have there.
    fn request<'w>(&self, world: &'w World, id: QueueId, task: TaskId) -> Cow<'w, Amounts> {
        let request = world.request_of(task);
        if !self.devices.is_any() || world.claims_of(task).is_empty() {
            return Cow::Borrowed(request);
        }
        let mut all = request.clone();
        all.add(&self.devices.need(world, id, task));
        Cow::Owned(all)
    }

    fn promise(&mut self, world: &World, queue: QueueId, what: &Amounts) {
        for id in self.path(world, queue) {
            self.standings[id.index()].promised.add(what);
        }
    }

    /// The dominant share of what a queue deserves that it holds, and whether it deserves nothing in particular.
    fn share(&self, world: &World, id: QueueId) -> (Share, bool) {
        let deserved = &self.of(id).deserved;
        let shares = deserved.iter().map(|(dim, deserved)| Share::new(self.held(world, id, dim), deserved));
        if deserved.iter().all(|(_, deserved)| deserved == 0) {
            return (Share::new(1, 1), true);
        }
        (Share::largest(shares), false)
    }

    /// What a queue would have too much of with one more task, by these limits.
    fn over<'a>(
        &'a self,
        world: &'a World,
        id: QueueId,
        task: TaskId,
        limits: &'a Ceilings,
    ) -> impl Iterator<Item = (DimId, i64)> {
        let request = self.request(world, id, task);
        limits.iter().filter_map(move |(dim, limit)| {
            let need = request.get(dim);
            let held = self.held(world, id, dim) + self.let_in.beside(world, id, task, dim);
            let over = held.saturating_add(need).saturating_sub(limit);
            (need > 0 && over > 0).then_some((dim, over))
        })
    }

    /// Whether a task is within the limits of its queue and of all above. If not, why: in the words of a capability, or of
    /// what is kept for the queues beside. What counts is what the queues hold, or of those above only what `whose` holds.
    fn within<'w>(
        &'w self,
        world: &'w World,
        queue: QueueId,
        task: TaskId,
        whose: Option<QueueId>,
        limits: impl Fn(QueueId) -> &'w Ceilings,
    ) -> Result<(), Refusal> {
        let over = |id: QueueId| self.over(world, whose.unwrap_or(id), task, limits(id));
        let Some(id) = self.path(world, queue).find(|id| over(*id).next().is_some()) else { return Ok(()) };
        let over: Vec<_> = over(id).collect();
        let limit = self.which(world, id, limits(id), &over);
        Err(quota(world, id, task, (limit, over)))
    }

    /// What makes these limits of a queue what they are.
    fn which(&self, world: &World, id: QueueId, limits: &Ceilings, over: &[(DimId, i64)]) -> Limit {
        let capability = &world.queues[id].capability;
        let of = |(dim, _): &(DimId, i64)| {
            let limit = limits.get(*dim);
            let all = || !self.tree && limit == Some(devices::total(world, *dim));
            match limit == capability.get(*dim) {
                true => Limit::Capability,
                false if all() => Limit::Nodes,
                false => Limit::Guarantees(self.beside(world, id, *dim)),
            }
        };
        Limit::of_all(over.iter().map(of))
    }

    /// The queues beside one that are guaranteed something of a resource.
    fn beside(&self, world: &World, id: QueueId, dim: DimId) -> Beside {
        let above = |id| if self.tree { world.queue_above(id) } else { None };
        let others = world.queues.iter().filter(|(other, _)| *other != id && above(*other) == above(id));
        Beside::of(others.map(|(other, queue)| (self.of(other).kept(dim), &queue.name)))
    }

    /// Whether a task is within the realCapability of its queue and of all above.
    fn within_limits(&self, world: &World, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.within(world, queue, task, None, |id| &self.of(id).limits)
    }

    /// What a job needs of devices that its queue cannot promise it.
    fn missing_devices(&self, world: &World, queue: QueueId, needed: &Amounts) -> Vec<(DimId, i64)> {
        let admits = &self.of(queue).admits;
        let missing = |(dim, need): (DimId, i64)| {
            let missing =
                self.devices.taken(world, queue, dim).saturating_add(need).saturating_sub(admits.get(dim)?);
            (need > 0 && missing > 0).then_some((dim, missing))
        };
        needed.iter().filter_map(missing).collect()
    }

    /// What victims in other queues cannot free for a task: what its own queue may have, and what those above may have
    /// with nobody else in them.
    fn within_alone(&self, world: &World, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.within(world, queue, task, Some(queue), |id| &self.of(id).limits)
    }

    /// The queue so many levels above another; `root` is none.
    fn above(&self, world: &World, queue: QueueId, level: usize) -> Option<QueueId> {
        self.path(world, queue).nth(level).filter(|above| !world.queues[*above].is_root())
    }

    fn by_share(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        self.share(world, a).cmp(&self.share(world, b))
    }

    /// Of two queues of the same priority, the leaves before others; then by the queues at which their ways up part.
    fn by_tree(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        let [leaf_a, leaf_b] = [a, b].map(|id| world.queues[id].children == 0);
        if !leaf_a || !leaf_b {
            return leaf_b.cmp(&leaf_a).then_with(|| self.by_share(world, a, b));
        }
        let (a, b) = world.queues_part(a, b);
        self.by_share(world, a, b).then_with(|| {
            let [a, b] = [a, b].map(|id| &world.queues[id]);
            a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name))
        })
    }
}

/// A task would take its queue, or one above it, over a limit.
fn quota(world: &World, id: QueueId, task: TaskId, (limit, over): (Limit, Vec<(DimId, i64)>)) -> Refusal {
    let gang = gang_over(world, task, &over);
    Refusal::Quota { plugin: NAME, queue: world.queues[id].name.clone(), limit, over, gang }
}

/// What a request asks for, but for the place of a pod.
fn asked(request: &Amounts) -> impl Iterator<Item = (DimId, i64)> {
    request.iter().filter(|(dim, need)| *dim != DimId::PODS && *need > 0)
}

impl Plugin for Capacity {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn queue_valid(&self, world: &World, id: QueueId) -> Result<(), QueueFault> {
        if !self.tree {
            return flat::valid(world, id, NAME);
        }
        let queue = &world.queues[id];
        if queue.jobs > 0 && queue.children > 0 {
            return Err(QueueFault::NotLeaf { plugin: NAME, children: queue.children });
        }
        Ok(())
    }

    fn queue_order(&self, world: &World, a: QueueId, b: QueueId) -> Ordering {
        let priority = |id| world.queues[id].priority;
        priority(b)
            .cmp(&priority(a))
            .then_with(|| if self.tree { self.by_tree(world, a, b) } else { self.by_share(world, a, b) })
    }

    fn victim_queue_order(&self, world: &World, by: QueueId, a: QueueId, b: QueueId) -> Ordering {
        let shared = |id| {
            let (part, other) = world.queues_part(id, by);
            world.queue_depth(part) + usize::from(part == other)
        };
        if self.tree { shared(b).cmp(&shared(a)) } else { Ordering::Equal }
    }

    fn allocatable(&self, world: &World, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.within_limits(world, queue, task)?;
        let request = self.request(world, queue, task);
        let refuses = self.kept.refuses(world, &self.devices, queue, &request);
        refuses.map_or(Ok(()), |Refuses { queue, limit, over }| Err(quota(world, queue, task, (limit, over))))
    }

    fn gate_removable(&self, world: &World, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        let own = |id| if self.tree { &self.of(id).admits } else { &world.queues[id].capability };
        self.within(world, queue, task, None, own)
    }

    fn listens(&self) -> bool {
        self.kept.is_any() || self.devices.is_any() || self.let_in.is_any()
    }

    fn on_change(&mut self, world: &World, task: TaskId, _: Status) {
        self.let_in.update(world, task);
        if let Some(queue) = world.queue_of(task) {
            self.kept.update(world, &self.devices, queue);
        }
    }

    fn preemptive(&self, world: &World, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.within_alone(world, queue, task)?;
        if !self.entitled(world, queue, task).is_empty() {
            return Ok(());
        }
        let over = self.beyond_deserved(world, queue, task);
        if over.is_empty() {
            return Err(Refusal::RequestsNothing { plugin: NAME, queue: world.queues[queue].name.clone() });
        }
        Err(quota(world, queue, task, (Limit::Deserved, over)))
    }

    fn reclaimable(&self, world: &World, by: TaskId, of: &[TaskId]) -> Option<Vec<TaskId>> {
        let Some(queue) = world.queue_of(by) else { return Some(Vec::new()) };
        Some(self.victims(world, by, Some(&self.gang_request(world, queue, by)), of))
    }

    fn keep_reason(&self, world: &World, by: TaskId, task: TaskId) -> Arc<str> {
        format!("{} (plugin {NAME})", self.why_kept(world, by, task)).into()
    }

    fn unified_evictable(
        &self,
        world: &World,
        kind: EvictionKind,
        by: TaskId,
        of: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        match kind {
            EvictionKind::Preempt => None,
            EvictionKind::Reclaim => Some(self.victims(world, by, None, of)),
        }
    }

    fn job_enqueueable(&self, world: &World, id: JobId) -> EnqueueVote {
        let job = &world.jobs[id];
        let Some(min) = &job.min_resources else { return EnqueueVote::Permit };
        let own = job.held_of_min_resources();
        let devices = if self.devices.is_any() { self.devices.missing(world, id) } else { Amounts::new() };
        for queue in self.path(world, job.queue) {
            let standing = self.of(queue);
            let missing = |(dim, limit)| {
                let promised = standing.promised.get(dim) - own.get(dim);
                let missing = min.get(dim).saturating_add(promised).saturating_sub(limit);
                (min.get(dim) > 0 && missing > 0).then_some((dim, missing))
            };
            let missing: Vec<_> = standing.admits.iter().filter_map(missing).collect();
            let missing = [missing, self.missing_devices(world, queue, &devices)].concat();
            if !missing.is_empty() {
                let limit = self.which(world, queue, &standing.admits, &missing);
                let queue = world.queues[queue].name.clone();
                return EnqueueVote::Reject(Refusal::Promised { plugin: NAME, queue, limit, missing });
            }
        }
        EnqueueVote::Permit
    }

    fn job_enqueued(&mut self, world: &World, id: JobId) {
        self.promise(world, world.jobs[id].queue, &world.inqueue_request(id));
        if self.devices.is_any() {
            self.devices.promise(world, id);
        }
    }

    fn queue_tree(&self) -> Option<&dyn QueueTree> {
        (self.tree).then_some(self as &dyn QueueTree)
    }

    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        Some(self)
    }

    fn warnings(&self) -> Option<&dyn Warnings> {
        Some(self)
    }
}

impl QueueTree for Capacity {
    fn queue_path(&self, world: &World, queue: QueueId) -> Option<Vec<u32>> {
        if !self.tree {
            return Some(Vec::new());
        }
        // What is above others is compared by what these hold.
        (world.queues[queue].children == 0).then(|| {
            let mut way: Vec<u32> = world.queue_path(queue).map(|id| id.index() as u32).collect();
            way.reverse();
            way
        })
    }

    fn limits_subtrees(&self) -> bool {
        self.tree
    }
}

impl QueueGuard for Capacity {
    fn surplus(&self, world: &World, id: QueueId) -> Option<Amounts> {
        if self.devices.is_any() {
            return None;
        }
        let mut surplus = Amounts::new();
        for (dim, most) in self.of(id).deserved.iter().filter(|(_, most)| *most > 0) {
            surplus.set(dim, self.held(world, id, dim) - most);
        }
        Some(surplus)
    }

    fn deserved(&self, world: &World, id: QueueId) -> Option<Amounts> {
        world.queues.get(id).filter(|queue| queue.exists)?;
        Some(self.standings.get(id.index())?.deserved.iter().collect())
    }
}

impl Warnings for Capacity {
    fn queue_warning(&self, _: &World, id: QueueId) -> Option<QueueFault> {
        self.standings.get(id.index())?.warning.clone()
    }
}
