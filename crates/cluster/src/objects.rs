//! Objects as events carry them, made again from the Cluster, for trials on a copy of it.
use std::sync::Arc;

use phalanx_resource::DimId;
use rustc_hash::FxHashMap;

use crate::event::{
    ClaimInfo, Event, GroupLimits, Key, NamespaceInfo, NodeInfo, PdbInfo, PodGroupInfo, PodInfo, PodLife,
    PodPhase, PodRequests, PvcInfo, QueueInfo, QuotaInfo, Resources, SliceInfo, SliceNodes,
};
use crate::id::{ClassId, JobId, NodeId, QueueId, TaskId};
use crate::label::Labels;
use crate::usage::MEASURED;
use crate::{Cluster, Hold, Job, JobKind, NamespaceQuota, Node, PodDetails, Status, Task};

/// The label that holds the name of a node.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

impl Cluster {
    /// The Node of a node.
    pub fn node_info(&self, id: NodeId) -> NodeInfo {
        let node = &self.nodes[id];
        let mut images: Vec<(Arc<str>, i64)> =
            node.images.iter().map(|(image, size)| (self.images.name_of(*image).clone(), *size)).collect();
        images.sort_unstable();
        NodeInfo {
            name: node.name.clone(),
            labels: node.labels.clone(),
            taints: node.taints.clone(),
            unschedulable: node.unschedulable,
            ready: node.ready,
            allocatable: self.list(node.allocatable.iter()),
            images,
        }
    }

    /// The Queue of a queue.
    pub fn queue_info(&self, id: QueueId) -> QueueInfo {
        let queue = &self.queues[id];
        let limits = |(group, limits): &(Arc<str>, phalanx_resource::Ceilings)| {
            (group.clone(), self.list(limits.iter()))
        };
        QueueInfo {
            name: queue.name.clone(),
            uid: queue.object.uid.clone(),
            created: queue.created,
            weight: queue.weight,
            capability: self.list(queue.capability.iter()),
            deserved: self.list(queue.deserved.iter()),
            guarantee: self.list(queue.guarantee.iter()),
            reclaimable: queue.reclaimable,
            parent: queue.tree.parent.clone(),
            priority: queue.priority,
            state: queue.state,
            dequeue: queue.dequeue,
            allocated: parsed(&queue.object.written),
            annotations: queue.annotations.clone(),
            node_groups: queue.node_groups.clone(),
            group_limits: match &queue.group_limits_fault {
                Some(why) => GroupLimits::Unreadable(why.clone()),
                None => GroupLimits::Each(queue.group_limits.iter().map(limits).collect()),
            },
            invalid: queue.object.invalid.clone(),
        }
    }

    /// The Pod of a task. Its requests are those of one container that requests as much.
    pub fn pod_info(&self, id: TaskId) -> PodInfo {
        self.pod_with(id, self.requests(id))
    }

    fn pod_with(&self, id: TaskId, requests: Arc<PodRequests>) -> PodInfo {
        let task = &self.tasks[id];
        let job = task.job.map(|job| &self.jobs[job]);
        let of = |kind| job.filter(|job| job.kind == kind);
        let PodDetails {
            index,
            created,
            preemptable,
            never_preempts,
            labels,
            annotations,
            run_time,
            controller,
            ..
        } = task.details.clone();
        PodInfo {
            pod: Arc::clone(&task.pod),
            created,
            life: self.life(task),
            ours: job.is_some(),
            group: of(JobKind::Group).map(|job| job.key.name.clone()),
            queue: of(JobKind::Solo).map(|job| self.queues[job.queue].name.clone()),
            role: job.map(|job| job.roles[usize::from(task.role)].name.clone()).unwrap_or_default(),
            index,
            priority: task.own_priority.then_some(task.priority),
            priority_class: task.priority_class.clone(),
            never_preempts,
            preemptable,
            gated: task.gated,
            queue_gate: task.written.queue_gate,
            requests,
            constraints: self.class_of(id).constraints.clone(),
            claims: task.claims.as_ref().map(|linked| linked.named().clone()),
            annotations,
            labels,
            run_time,
            controller,
        }
    }

    fn life(&self, task: &Task) -> PodLife {
        let phase = match task.evicting.unwrap_or(task.status) {
            Status::Succeeded => PodPhase::Succeeded,
            Status::Failed => PodPhase::Failed,
            Status::Unknown => PodPhase::Unknown,
            Status::Running | Status::Releasing => PodPhase::Running,
            Status::Pending | Status::Allocated | Status::Pipelined | Status::Binding | Status::Bound => {
                PodPhase::Pending
            }
        };
        let has_node = matches!(task.status.hold(), Hold::Used | Hold::Releasing);
        PodLife {
            phase,
            unready: task.details.unready,
            deleting: task.status == Status::Releasing && task.evicting.is_none(),
            node: task.node.filter(|_| has_node).map(|node| self.nodes[node].name.clone()),
            nominated: task.written.nominated.clone(),
            unscheduled_message: task.written.message.clone(),
            scheduled: task.details.scheduled,
        }
    }

    fn requests(&self, id: TaskId) -> Arc<PodRequests> {
        let class = self.class_of(id);
        if let Some(asked) = &class.unoffered {
            return asked.requests().clone();
        }
        let mut limits = class.request.clone();
        for (dim, burst) in MEASURED.into_iter().zip(self.tasks[id].burst) {
            limits.set(dim, limits.get(dim).saturating_add(burst));
        }
        let of = |amounts: &phalanx_resource::Amounts| vec![self.list(amounts.iter())];
        PodRequests { containers: of(&class.request), limits: of(&limits), ..PodRequests::default() }.into()
    }

    /// The PodGroup of a job; `None` for a pod without one, and while it does not exist.
    pub fn group_info(&self, id: JobId) -> Option<PodGroupInfo> {
        let job = Some(&self.jobs[id]).filter(|job| job.has_pod_group())?;
        let minimums = job.roles.iter().filter(|role| role.min > 0);
        Some(PodGroupInfo {
            key: job.key.clone(),
            uid: job.object.uid.clone(),
            version: job.object.version.clone(),
            created: job.created,
            queue: self.queues[job.queue].name.clone(),
            min_member: job.min_member,
            min_task_member: minimums.map(|role| (role.name.clone(), role.min)).collect(),
            topology: job.topology.clone(),
            sub_groups: job.sub_groups.clone(),
            min_resources: self.min_resources(job),
            priority_class: job.priority_class.clone(),
            preemptable: job.preemptable,
            status: (*job.object.written).clone(),
            annotations: job.annotations.clone(),
            made_for_pods: false,
            controller: job.object.controller.clone(),
            invalid: job.object.invalid.clone(),
            unsupported: None,
        })
    }

    /// Names that only quotas count have a prefix of theirs, so that nodes are asked for no more than before.
    fn min_resources(&self, job: &Job) -> Option<Resources> {
        let minimum = &job.minimum;
        if let Some(asked) = &minimum.unoffered {
            return Some(Resources::clone(asked));
        }
        let of_nodes = minimum.resources.as_ref()?;
        let of_quotas = minimum.quota_request.iter().flat_map(phalanx_resource::Amounts::iter);
        let of_quotas = of_quotas
            .filter(|(dim, amount)| of_nodes.get(*dim) != *amount && minimum.devices.get(*dim) != *amount);
        let of_quotas = self.list(of_quotas).into_iter().map(|(name, amount)| (of_quota(&name), amount));
        let mut list = self.list(of_nodes.iter());
        list.extend(self.list(minimum.devices.iter()));
        list.extend(of_quotas);
        Some(list)
    }

    /// All objects, as events that make an equal Cluster. What pods use that came since the usage of their node was
    /// measured is lost.
    pub fn objects(&self) -> Vec<Event> {
        let namespace = |(name, labels): (&Arc<str>, &Labels)| {
            NamespaceInfo { name: name.clone(), labels: labels.clone() }.into()
        };
        let class = |(name, (value, global_default)): (&Arc<str>, &(i32, bool))| Event::PriorityClass {
            name: name.clone(),
            value: *value,
            global_default: *global_default,
        };
        let mut all: Vec<Event> = self.terms.namespaces().map(namespace).collect();
        all.extend(self.indexes.priorities.classes().map(class));
        let nodes = || self.nodes.iter().filter(|(_, node)| node.exists);
        all.extend(nodes().map(|(id, _)| Event::from(self.node_info(id))));
        all.extend(self.hyper_nodes.objects().cloned().map(Event::from));
        let queues = self.queues.iter().filter(|(_, queue)| queue.object.exists);
        all.extend(queues.map(|(id, _)| self.queue_info(id).into()));
        all.extend(self.volumes.objects());
        all.extend(self.devices.objects());
        all.extend(self.resource_quotas.iter().map(|(key, quota)| self.quota_info(key, quota).into()));
        all.extend(self.pdb_infos().map(Event::from));
        all.extend(self.jobs.ids().filter_map(|id| self.group_info(id)).map(Event::from));
        let pods = self.tasks.iter().filter(|(_, task)| task.is_pod());
        let mut shared: FxHashMap<(ClassId, [i64; 2]), Arc<PodRequests>> = FxHashMap::default();
        all.extend(pods.map(|(id, task)| {
            let requests = shared.entry((task.class, task.burst)).or_insert_with(|| self.requests(id));
            self.pod_with(id, Arc::clone(requests)).into()
        }));
        // Which pods the figures include is settled when they come.
        let usage = |(_, node): (NodeId, &Node)| Some(Event::from(node.usage.as_ref()?.measured(&node.name)));
        all.extend(nodes().filter_map(usage));
        all
    }

    /// All ResourceQuotas of a namespace.
    pub fn quota_infos(&self, namespace: &Arc<str>) -> impl Iterator<Item = QuotaInfo> {
        self.quotas_of(namespace).map(|(key, quota)| self.quota_info(key, quota))
    }

    fn quota_info(&self, key: &Key, quota: &NamespaceQuota) -> QuotaInfo {
        let named = |list: Resources| -> Resources {
            list.into_iter().map(|(name, amount)| (of_quota(&name), amount)).collect()
        };
        let (hard, used) = (self.list(quota.hard.iter()), self.list(quota.used.iter()));
        QuotaInfo { key: key.clone(), hard: named(hard), used: named(used) }
    }

    /// All PodDisruptionBudgets, by name.
    pub fn pdb_infos(&self) -> impl Iterator<Item = PdbInfo> {
        self.pdbs.iter().map(|(key, pdb)| PdbInfo {
            key: key.clone(),
            selector: pdb.selector.clone(),
            allowed: pdb.allowed,
            frees_unready: pdb.frees_unready,
        })
    }

    /// A PersistentVolumeClaim, if it exists.
    pub fn pvc_info(&self, key: &Key) -> Option<&PvcInfo> {
        self.volumes.named(key)
    }

    /// A ResourceClaim, if it exists.
    pub fn claim_info(&self, key: &Key) -> Option<&ClaimInfo> {
        self.devices.claim_named(key)
    }

    /// The ResourceSlices of a node.
    pub fn slice_infos(&self, node: &Arc<str>) -> impl Iterator<Item = &SliceInfo> {
        let of = SliceNodes::Node(node.clone());
        self.devices.slice_infos().filter(move |slice| slice.nodes == of)
    }

    /// Whether a StorageClass exists.
    pub fn has_storage_class(&self, name: &str) -> bool {
        self.volumes.has_class(name)
    }

    /// Whether a DeviceClass exists.
    pub fn has_device_class(&self, name: &str) -> bool {
        self.devices.has_class(name)
    }

    /// Whether a PriorityClass exists.
    pub fn has_priority_class(&self, name: &str) -> bool {
        self.indexes.priorities.value(name).is_some()
    }

    fn list(&self, amounts: impl Iterator<Item = (DimId, i64)>) -> Resources {
        let known = amounts.filter(|(dim, _)| !self.dims.is_unknown(*dim));
        let list: Vec<(Arc<str>, String)> =
            known.map(|(dim, amount)| (self.dims.name(dim).into(), self.dims.format(dim, amount))).collect();
        parsed(&list)
    }
}

/// A name by which only ResourceQuotas count a resource.
fn of_quota(name: &Arc<str>) -> Arc<str> {
    if &**name == "pods" || name.starts_with("limits.") {
        return name.clone();
    }
    format!("requests.{name}").into()
}

fn parsed(list: &[(Arc<str>, String)]) -> Resources {
    list.iter().filter_map(|(name, amount)| Some((name.clone(), amount.parse().ok()?))).collect()
}

impl NodeInfo {
    /// An empty and ready node that is like this one in all but its name.
    pub fn alike(&self, number: u32) -> Self {
        let name: Arc<str> = format!("{}-added-{number}", self.name).into();
        let mut labels = self.labels.clone();
        for (_, value) in labels.iter_mut().filter(|(key, _)| **key == *HOSTNAME) {
            *value = name.clone();
        }
        Self { name, labels, unschedulable: false, ready: true, ..self.clone() }
    }
}

impl Node {
    /// The labels that nodes alike have in common: all but the name.
    pub fn labels_alike(&self) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        self.labels.iter().filter(|(key, _)| **key != *HOSTNAME)
    }
}

#[cfg(test)]
mod tests {
    use phalanx_resource::Quantity;

    use super::*;
    use crate::event::{Condition, GroupStatus, NodeUsage, Phase, StorageClassInfo, Time};
    use crate::testing::{cluster_of, group, member, node, pod, queue, resources, running};

    /// Objects of most kinds.
    fn all_kinds() -> Cluster {
        let condition = Condition { kind: "Unschedulable".into(), status: true, ..Condition::default() };
        let status =
            GroupStatus { phase: Phase::Inqueue, conditions: vec![condition], ..GroupStatus::default() };
        let min = "cpu=2 requests.cpu=3 limits.memory=4 pods=2";
        let gang = PodGroupInfo {
            min_task_member: vec![("worker".into(), 2)],
            min_resources: Some(resources(min)),
            priority_class: Some("high".into()),
            status,
            ..group("g", 2)
        };
        let worker =
            PodInfo { role: "worker".into(), priority: Some(7), ..member("g", 0, "cpu=500m memory=3") };
        let unoffered = member("g", 1, "cpu=1 example.com/none=2");
        let quota = QuotaInfo {
            key: Key::new("ns", "team"),
            hard: resources("requests.cpu=9 limits.memory=8 pods=4"),
            used: resources("requests.cpu=1"),
        };
        let limited = QueueInfo { capability: resources("cpu=4 memory=8"), ..queue("q", 3) };
        let claim =
            PvcInfo { key: Key::new("ns", "data"), uid: "data".into(), size: 5, ..PvcInfo::default() };
        let class = StorageClassInfo {
            name: "fast".into(),
            provisioner: Some("csi".into()),
            waits: true,
            topologies: Vec::new(),
        };
        let part = crate::event::Measure::Amount(Quantity::default());
        let usage =
            NodeUsage { node: "n".into(), cpu: part, memory: part, since: Time(5), at: Some(Time(5)) };
        let high = Event::PriorityClass { name: "high".into(), value: 9, global_default: false };
        let mut cluster = cluster_of([node("n", "cpu=8 memory=64"), node("o", "cpu=1")]);
        let events: [Event; 11] = [
            high,
            limited.into(),
            class.into(),
            claim.into(),
            quota.into(),
            usage.into(),
            gang.into(),
            worker.into(),
            unoffered.into(),
            running(pod("single", "cpu=1"), "n").into(),
            PodInfo { ours: false, ..running(pod("foreign", "cpu=2"), "o") }.into(),
        ];
        for event in events {
            cluster.apply(event);
        }
        cluster
    }

    #[test]
    fn objects_say_what_is_known_and_make_an_equal_cluster() {
        let mut cluster = all_kinds();
        let objects = cluster.objects();
        assert!(objects.len() >= 13, "{objects:#?}");
        // Figures of usage count as news each time.
        let known = objects.iter().filter(|object| !matches!(object, Event::NodeUsage(_)));
        let changes: Vec<&Event> = known.filter(|object| cluster.apply((*object).clone())).collect();
        assert!(changes.is_empty(), "{changes:#?}");
        let mut again = Cluster::new(crate::ClusterOptions::default());
        for object in &objects {
            again.apply(object.clone());
        }
        assert_eq!(again.objects(), objects);
        assert_eq!(again.check(), [""; 0]);
        let sums = |cluster: &Cluster| {
            (cluster.render(&cluster.sums.used), cluster.render(&cluster.sums.allocatable))
        };
        assert_eq!(sums(&again), sums(&cluster));
    }
}
