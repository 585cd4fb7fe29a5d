//! capacity: each queue has amounts of its own, in a flat list or, with `enableHierarchy: true`, in a tree.
//!
//! Per resource, where *total* is the allocatable of all nodes, and *held* what pods are allocated or nominated for:
//! - `realCapability = min(capability, whole − Σ guarantee of the queue and its siblings + its own guarantee)`, where
//!   *whole* is the total or, in a tree, the realCapability of the parent; a queue without a capability has no such
//!   limit. Guarantees that add up to more than the whole are cut in proportion.
//! - `deserved = max(guarantee, min(spec.deserved, realCapability))`; a resource that neither names has no deserved
//!   amount.
//! - share: `max over deserved resources of held / deserved`; 1 for a queue that deserves nothing.
//!
//! With these:
//! - queue order: larger `spec.priority`, then smaller share, then queues that deserve something. In a tree, two leaves
//!   are compared by the shares of their ancestors right below the lowest common ancestor; of equal ones the older goes
//!   first (file `queue_order`).
//! - a task is allocatable when `held + request ≤ realCapability` in each resource that the task requests, in its queue
//!   and in each ancestor, and the guarantees of other queues can still be met (files `allocatable`, `guarantees`).
//!   `pods` counts where a capability names it. A pod whose allocation gate was removed counts as if it had a node
//!   (`allocation_gates`).
//! - a job is enqueueable when `inqueue + minResources ≤ realCapability` in each resource that minResources name, in
//!   its queue and in each ancestor (file `enqueueable`). In a tree `root` is bounded by its capability and not by the
//!   nodes, since admitted jobs may make an autoscaler add nodes.
//! - a queue is preemptive for a task when the queue is *entitled* to it: with the task and the other tasks of its gang
//!   the queue holds at most its deserved amounts of all requested resources that it deserves, and it deserves at least
//!   one. An entitled ancestor, up to `ancestorReclaimLevel` levels above (without `root`), entitles the queue too, and
//!   then to tasks of queues outside that ancestor. What other queues hold of an ancestor's capability does not count,
//!   since reclaim may free it (file `reclaim`).
//! - a task is reclaimable when it requests a resource that the reclaimer requests; when its queue, and each ancestor
//!   that the reclaimer's queue is not in, keep their guarantees; and when its queue deserves nothing that the task
//!   requests, or holds more than it deserves of a resource that the task requests. The same holds for each of its
//!   ancestors up to `ancestorReclaimLevel` levels above that differ from the reclaimer's ancestor at that level.
//!   Queues with a common ancestor within these levels reclaim nothing from each other where neither deserves a
//!   requested resource.
//! - victims come from the queues nearest to the reclaimer's in the tree first.
//!
//! In a tree only leaves have jobs, and a queue without a guarantee or deserved amount has the sum of its children's. A
//! queue whose children exceed it gets a warning. Without `enableHierarchy` a queue with a parent other than `root` is
//! refused.
//!
//! Source: Volcano's capacity plugin. Differences: there a queue may reclaim that has less than it deserves of one
//! resource and more of another, and two such queues reclaim from each other without end. There a fault of one queue
//! switches the plugin off for all queues; here the jobs of that queue and of its descendants wait, and nothing is
//! reserved for it. Guarantees stay reserved until they are used, also where `root` has no capability; in Volcano a
//! third queue may use what two queues leave free beside each other's guarantees. Guarantees of a victim's ancestors
//! count. Whole devices (see [`devices`]) count like any resource; a device quota without effect gets a warning on the
//! queue.
mod allocatable;
mod allocation_gates;
mod devices;
mod enqueueable;
mod guarantees;
mod queue_attributes;
mod queue_order;
mod reclaim;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use phalanx_resource::{Amounts, DimId};

use crate::shared::flat_queues;
use allocation_gates::UngatedTasks;
use devices::DeviceQuotas;
use guarantees::GuaranteeReserve;
use phalanx_cluster::diagnosis::{Limit, QueueFault, Refusal};
use phalanx_cluster::id::{Id, JobId, QueueId, TaskId};
use phalanx_cluster::{Cluster, Status, Sums};
use phalanx_framework::conf::{ArgKind, ArgSpec, Flag, Rule};
use phalanx_framework::plugin::{
    EnqueueVote, Eviction, EvictionKind, ObjectField, Plugin, PluginContext, PluginDef, QueueAttributes,
    QueueGuard, QueueTree, Warnings,
};
use queue_attributes::{CapacityAttributes, QuotaLayout};

const NAME: &str = "capacity";
const LEVEL: &str = "ancestorReclaimLevel";

const DEVICES: &str = "capacity.DynamicResourceAllocationEnable";

const ARGS: &[ArgSpec] = &[
    ArgSpec {
        name: LEVEL,
        kind: ArgKind::Int(&[Rule::at_least(0)]),
        default: "0",
        doc: "How many ancestors of a queue count when tasks are reclaimed for the queue and from it. Has an effect with \
              enableHierarchy only.",
    },
    ArgSpec {
        name: DEVICES,
        kind: ArgKind::Bool,
        default: "true",
        doc: "`deviceclass/<class>` in `capability`, `guarantee` and `deserved` is a number of devices of that class, as \
              requested by the claims of the queue's pods; a shared claim counts once.",
    },
    ArgSpec {
        name: "capacity.DRAConsumableCapacityEnable",
        kind: ArgKind::Bool,
        default: "true",
        doc: "Accepted for Volcano's sake; pods with claims to a part of a device are not supported and wait, so a \
              quota `<dimension>.deviceclass/<class>` has no effect, and the queue gets a warning.",
    },
];

const READS: &[ObjectField] = &[ObjectField::new(
    "scheduling.volcano.sh/queue-allocation-gate",
    "annotation, and scheduling gate, of a pod",
    "no gate",
    "`true`, with the gate of the same name and no other gate: the gate is removed when the queue has capacity for the pod, \
     and the pod counts from then on.",
)];

pub(super) const DEF: PluginDef = PluginDef {
    name: NAME,
    summary: "Queues have what they deserve, between their guarantee and their capability, also in a tree.",
    args: ARGS,
    reads: READS,
    open: |opening| Box::new(Capacity::open(opening)),
};

struct Capacity {
    /// `enableHierarchy`: queues form a tree.
    tree: bool,
    /// `ancestorReclaimLevel`.
    ancestor_levels: usize,
    /// By queue id.
    attributes: Vec<CapacityAttributes>,
    guarantees: GuaranteeReserve,
    devices: DeviceQuotas,
    ungated: UngatedTasks,
}

impl Capacity {
    fn open(opening: PluginContext<'_>) -> Self {
        let PluginContext { cluster, args, flags, .. } = opening;
        let tree = flags.on(Flag::Hierarchy);
        let ancestor_levels = if tree { usize::try_from(args.int(LEVEL, 0)).unwrap_or(0) } else { 0 };
        let is_faulty = |id| {
            cluster.queue_fault(id).is_some() || !(tree || flat_queues::check(cluster, id, NAME).is_ok())
        };
        let counts_devices = args.bool(DEVICES, true);
        let attributes =
            queue_attributes::attributes_of_queues(cluster, QuotaLayout { tree, counts_devices }, is_faulty);
        let devices = if counts_devices { DeviceQuotas::new(cluster, tree) } else { DeviceQuotas::default() };
        let guarantees = GuaranteeReserve::new(cluster, tree, &attributes, &devices);
        let ungated = UngatedTasks::new(cluster, tree);
        let mut plugin = Self { tree, ancestor_levels, attributes, guarantees, devices, ungated };
        if cluster.any_asks() {
            for (queue, inqueue) in cluster.claimed_by_queue() {
                plugin.add_inqueue(cluster, queue, &inqueue);
            }
        }
        plugin
    }

    fn of(&self, queue: QueueId) -> &CapacityAttributes {
        &self.attributes[queue.index()]
    }

    /// A queue and, in a tree, its ancestors.
    fn path<'w>(&self, cluster: &'w Cluster, queue: QueueId) -> impl Iterator<Item = QueueId> + use<'w> {
        cluster.queue_path(queue).take(if self.tree { usize::MAX } else { 1 })
    }

    /// The parent of a queue in the tree; `None` in a flat list.
    fn parent(&self, cluster: &Cluster, queue: QueueId) -> Option<QueueId> {
        if self.tree { cluster.queue_above(queue) } else { None }
    }

    fn sums<'w>(&self, cluster: &'w Cluster, queue: QueueId) -> &'w Sums {
        let queue = &cluster.queues[queue];
        if self.tree { &queue.subtree } else { &queue.own }
    }

    /// What a queue and, in a tree, its descendants hold of a resource. Devices are counted by claims.
    fn held(&self, cluster: &Cluster, id: QueueId, dim: DimId) -> i64 {
        self.sums(cluster, id).held(dim) + self.devices.held(cluster, id, dim)
    }

    /// What a task requests from a queue, with the devices of claims that no other task of the queue holds.
    fn request<'w>(&self, cluster: &'w Cluster, id: QueueId, task: TaskId) -> Cow<'w, Amounts> {
        let request = cluster.request_of(task);
        if !self.devices.is_any() || cluster.claims_of(task).is_empty() {
            return Cow::Borrowed(request);
        }
        let mut all = request.clone();
        all.add(&self.devices.need(cluster, id, task));
        Cow::Owned(all)
    }
}

/// The resources of a request, without `pods`.
fn requested(request: &Amounts) -> impl Iterator<Item = (DimId, i64)> {
    request.iter().filter(|(dim, need)| *dim != DimId::PODS && *need > 0)
}

impl Plugin for Capacity {
    fn queue_valid(&self, cluster: &Cluster, id: QueueId) -> Result<(), QueueFault> {
        if !self.tree {
            return flat_queues::check(cluster, id, NAME);
        }
        let queue = &cluster.queues[id];
        if queue.jobs > 0 && queue.tree.children > 0 {
            return Err(QueueFault::NotLeaf { plugin: NAME, children: queue.tree.children });
        }
        Ok(())
    }

    fn queue_order(&self, cluster: &Cluster, a: QueueId, b: QueueId) -> Ordering {
        self.compare_queues(cluster, a, b)
    }

    fn victim_queue_order(&self, cluster: &Cluster, reclaimer: QueueId, a: QueueId, b: QueueId) -> Ordering {
        let common_depth = |id| {
            let (part, other) = cluster.queues_part(id, reclaimer);
            cluster.queue_depth(part) + usize::from(part == other)
        };
        if self.tree { common_depth(b).cmp(&common_depth(a)) } else { Ordering::Equal }
    }

    fn allocatable(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.check_allocatable(cluster, queue, task)
    }

    fn gate_removable(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        let limits =
            |id| if self.tree { &self.of(id).enqueue_limits } else { &cluster.queues[id].capability };
        self.check_limits(cluster, queue, task, None, limits)
    }

    fn listens(&self) -> bool {
        self.guarantees.is_any() || self.devices.is_any() || self.ungated.is_any()
    }

    fn on_change(&mut self, cluster: &Cluster, task: TaskId, _: Status) {
        self.ungated.update(cluster, task);
        if let Some(queue) = cluster.queue_of(task) {
            self.guarantees.update(cluster, &self.devices, queue);
        }
    }

    fn preemptive(&self, cluster: &Cluster, queue: QueueId, task: TaskId) -> Result<(), Refusal> {
        self.check_limits(cluster, queue, task, Some(queue), |id| &self.of(id).allocatable_limits)?;
        if !self.entitled(cluster, queue, task).is_empty() {
            return Ok(());
        }
        let over = self.beyond_deserved(cluster, queue, task);
        if over.is_empty() {
            return Err(Refusal::RequestsNothing { plugin: NAME, queue: cluster.queues[queue].name.clone() });
        }
        Err(allocatable::quota_refusal(cluster, queue, task, Limit::Deserved, over))
    }

    fn evictable(&self, cluster: &Cluster, eviction: Eviction, of: &[TaskId]) -> Option<Vec<TaskId>> {
        if eviction.kind != EvictionKind::Reclaim {
            return None;
        }
        let Eviction { by, whole_gangs, .. } = eviction;
        let Some(queue) = cluster.queue_of(by) else { return Some(Vec::new()) };
        let request = (!whole_gangs).then(|| self.gang_request(cluster, queue, by));
        Some(self.victims(cluster, by, request.as_ref(), of))
    }

    fn keep_reason(&self, cluster: &Cluster, reclaimer: TaskId, task: TaskId) -> Arc<str> {
        format!("{} (plugin {NAME})", self.why_kept(cluster, reclaimer, task)).into()
    }

    fn job_enqueueable(&self, cluster: &Cluster, id: JobId) -> EnqueueVote {
        self.check_enqueueable(cluster, id)
    }

    fn job_enqueued(&mut self, cluster: &Cluster, id: JobId) {
        self.add_inqueue(cluster, cluster.jobs[id].queue, &cluster.inqueue_request(id));
        if self.devices.is_any() {
            self.devices.add_inqueue(cluster, id);
        }
    }

    fn queue_tree(&self) -> Option<&dyn QueueTree> {
        self.tree.then_some(self as &dyn QueueTree)
    }

    fn queue_guard(&self) -> Option<&dyn QueueGuard> {
        Some(self)
    }

    fn warnings(&self) -> Option<&dyn Warnings> {
        Some(self)
    }
}

impl QueueTree for Capacity {
    fn queue_path(&self, cluster: &Cluster, queue: QueueId) -> Option<Vec<u32>> {
        // The order of a queue with children depends on what all its descendants hold.
        (cluster.queues[queue].tree.children == 0).then(|| {
            let mut path: Vec<u32> = cluster.queue_path(queue).map(|id| id.index() as u32).collect();
            path.reverse();
            path
        })
    }

    fn limits_subtrees(&self) -> bool {
        true
    }
}

impl QueueGuard for Capacity {
    fn beyond_deserved(&self, cluster: &Cluster, id: QueueId) -> Option<Amounts> {
        if self.devices.is_any() {
            return None;
        }
        let mut surplus = Amounts::new();
        for (dim, deserved) in self.of(id).deserved.iter().filter(|(_, deserved)| *deserved > 0) {
            surplus.set(dim, self.held(cluster, id, dim) - deserved);
        }
        Some(surplus)
    }

    fn attributes(&self, cluster: &Cluster, id: QueueId) -> Option<QueueAttributes> {
        cluster.queues.get(id).filter(|queue| queue.object.exists)?;
        let CapacityAttributes { deserved, usable, .. } = self.attributes.get(id.index())?;
        Some(QueueAttributes {
            deserved: deserved.iter().collect(),
            real_capability: usable.clone(),
            share: self.share(cluster, id).as_number(),
        })
    }
}

impl Warnings for Capacity {
    fn queue_warning(&self, _: &Cluster, id: QueueId) -> Option<QueueFault> {
        self.attributes.get(id.index())?.warning.clone()
    }
}
