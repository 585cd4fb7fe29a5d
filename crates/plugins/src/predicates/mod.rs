//! predicates: which nodes will do for a pod.
//!
//! The conditions are kube-scheduler's: NodeUnschedulable, NodeAffinity, NodePorts, TaintToleration, InterPodAffinity,
//! PodTopologySpread, VolumeBinding, VolumeZone, NodeVolumeLimits, VolumeRestrictions, besides readiness.
//! Whether requests fit, and whether there is a place left among the node's pods, is asked by the session itself.
mod dynamic_resources;
mod inter_pod_affinity;
mod node_terms;
mod pod_topology_spread;
mod volumes;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;

use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::{Constraints, Taint, TaintEffect, Time};
use phalanx_cluster::id::{ClassId, JobId, TaskId};
use phalanx_cluster::matching::{node_term_fault, node_term_matches, tolerates};
use phalanx_cluster::{Node, World};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{
    Attribute, NodeFilter, NodeRules, Plugin, PluginContext, PluginDef, ResourceFilter, TaskRules, Values,
};

pub(crate) use node_terms::reads as node_term_reads;

pub(super) const DEF: PluginDef = PluginDef {
    name: "predicates",
    summary: "Refuses nodes that a pod cannot run on.",
    args: ARGS,
    reads: &[],
    open: |opening| Box::new(Predicates::new(opening)),
};

const fn toggle(name: &'static str, doc: &'static str) -> ArgSpec {
    ArgSpec { name, kind: ArgKind::Bool, default: "true", doc }
}

const ARGS: &[ArgSpec] = &[
    toggle("predicate.NodeAffinityEnable", "Asks nodeSelector and required node affinity."),
    toggle("predicate.NodePortsEnable", "Asks whether the pod's host ports are free."),
    toggle("predicate.TaintTolerationEnable", "Asks whether the pod tolerates the node's taints."),
    toggle(
        "predicate.PodAffinityEnable",
        "Asks required pod affinity and anti-affinity, the pod's and that of pods in place.",
    ),
    toggle("predicate.NodeVolumeLimitsEnable", "Asks how many volumes the node's CSI drivers can attach."),
    toggle("predicate.VolumeZoneEnable", "Asks the zone of the pod's volumes."),
    toggle("predicate.PodTopologySpreadEnable", "Asks topology spread constraints with DoNotSchedule."),
    toggle(
        "predicate.VolumeBindingEnable",
        "Asks whether the node reaches the pod's volumes, and binds claims that wait for their first pod.",
    ),
    ArgSpec {
        name: "predicate.CacheEnable",
        kind: ArgKind::Bool,
        default: "false",
        doc: "Accepted for Volcano's sake; filters are always asked once per class of tasks.",
    },
    ArgSpec {
        name: "predicate.DynamicResourceAllocationEnable",
        kind: ArgKind::Bool,
        default: "true",
        doc: "Asks whether the pod's resource claims (resource.k8s.io) can be given devices, and gives them.",
    },
    ArgSpec {
        name: "volumebinding.bindTimeoutSeconds",
        kind: ArgKind::Int(&[Rule::IDLE]),
        default: "600",
        doc: "Accepted for Volcano's sake; a pod waits ten minutes for its claims.",
    },
    ArgSpec {
        name: "volumebinding.weight",
        kind: ArgKind::Int(&[Rule::IDLE]),
        default: "1",
        doc: "Accepted for Volcano's sake; volumes filter nodes and do not score them.",
    },
    ArgSpec {
        name: "volumebinding.shape",
        kind: ArgKind::List,
        default: "",
        doc: "Accepted for Volcano's sake, as the weight.",
    },
    ArgSpec {
        name: "dynamicresources.filterTimeoutSeconds",
        kind: ArgKind::Int(&[Rule::IDLE]),
        default: "10",
        doc: "Accepted for Volcano's sake; filters do not wait for anything.",
    },
];

/// Kubernetes' taint for cordoned nodes; who tolerates it may be placed on them.
const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

struct Predicates {
    affinity: bool,
    ports: bool,
    taints: bool,
    pod_affinity: bool,
    spread: bool,
    claims: bool,
    volumes: volumes::VolumeChecks,
}

impl Predicates {
    fn new(opening: PluginContext<'_>) -> Self {
        let on = |key| opening.args.bool(key, true);
        Self {
            affinity: on("predicate.NodeAffinityEnable"),
            ports: on("predicate.NodePortsEnable"),
            taints: on("predicate.TaintTolerationEnable"),
            pod_affinity: on("predicate.PodAffinityEnable"),
            spread: on("predicate.PodTopologySpreadEnable"),
            claims: on("predicate.DynamicResourceAllocationEnable"),
            volumes: volumes::VolumeChecks {
                binding: on("predicate.VolumeBindingEnable"),
                zone: on("predicate.VolumeZoneEnable"),
                limits: on("predicate.NodeVolumeLimitsEnable"),
            },
        }
    }
}

impl Plugin for Predicates {
    fn refusal_holds_until(&self, _: &World, _: JobId) -> Option<Time> {
        Some(Time::NEVER)
    }

    fn filters(&self, world: &World, class: ClassId, rules: &mut NodeRules) {
        let constraints = &world.classes[class].constraints;
        if let Some(why) = &constraints.unreadable {
            rules.filters.push(Box::new(UnreadableConstraints(why.clone())));
        }
        rules.filters.push(Box::new(NodeCondition { cordoned_too: tolerates_cordon(constraints) }));
        if self.affinity && (!constraints.node_selector.is_empty() || constraints.node_affinity.is_some()) {
            rules.filters.push(Box::new(NodeAffinityFilter::of(constraints)));
            rules.reads.extend(reads_of(constraints));
        }
        if self.taints {
            rules.filters.push(Box::new(TaintTolerationFilter(constraints.clone())));
        }
        let it = &world.classes[class];
        if self.pod_affinity && it.profile.is_some() {
            rules.topology_filters.push(Box::new(inter_pod_affinity::InterPodAffinityFilter(class)));
        }
        if self.spread && it.carried.spread.iter().any(|spread| spread.required) {
            rules.topology_filters.push(Box::new(pod_topology_spread::PodTopologySpreadFilter(class)));
        }
        if self.ports && !constraints.host_ports.is_empty() {
            rules.resource_filters.push(Box::new(NodePortsFilter(constraints.clone())));
        }
        if !constraints.disks.is_empty() {
            rules.resource_filters.push(Box::new(DiskConflictFilter(constraints.clone())));
        }
    }

    fn gives_devices(&self) -> bool {
        self.claims
    }

    fn task_rules(&self) -> Option<&dyn TaskRules> {
        Some(self)
    }
}

impl TaskRules for Predicates {
    fn scope(&self, world: &World, task: TaskId) -> u64 {
        let devices = if self.claims { world.claims_scope(task) } else { 0 };
        scopes(devices, volumes::scope(world, task))
    }

    fn scope_without_claims(&self, _: &World, _: TaskId) -> u64 {
        0
    }

    fn task_filters(&self, world: &World, task: TaskId, rules: &mut NodeRules) {
        if self.claims {
            dynamic_resources::add(world.claims_need(task), rules);
        }
        self.volumes.filters(world, task, rules);
    }
}

/// What the node selector and the required node affinity read.
fn reads_of(constraints: &Constraints) -> impl Iterator<Item = (Attribute, Values)> + '_ {
    let selected = |(key, value): &(Arc<str>, Arc<str>)| {
        (Attribute::Label(key.clone()), Values::These(vec![value.clone()]))
    };
    let terms = constraints.node_affinity.iter().flatten();
    constraints.node_selector.iter().map(selected).chain(terms.flat_map(node_term_reads))
}

fn tolerates_cordon(constraints: &Constraints) -> bool {
    let cordon = Taint { key: UNSCHEDULABLE_TAINT.into(), value: "".into(), effect: TaintEffect::NoSchedule };
    tolerates(&constraints.tolerations, &cordon)
}

/// Nobody knows which nodes the pod wants.
struct UnreadableConstraints(Arc<str>);

impl NodeFilter for UnreadableConstraints {
    fn check(&self, _: &Node) -> Result<(), Unfit> {
        Err(Unfit::Pod(self.0.clone()))
    }
}

/// Ready and not cordoned.
struct NodeCondition {
    cordoned_too: bool,
}

impl NodeFilter for NodeCondition {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        if !node.ready {
            return Err(Unfit::NotReady);
        }
        if node.unschedulable && !self.cordoned_too { Err(Unfit::Unschedulable) } else { Ok(()) }
    }
}

struct NodeAffinityFilter {
    asks: Arc<Constraints>,
    /// Why no node will do that none of the other terms matches.
    fault: Option<Arc<str>>,
}

impl NodeAffinityFilter {
    fn of(asks: &Arc<Constraints>) -> Self {
        let fault = asks.node_affinity.as_deref().and_then(node_term_fault);
        Self { asks: asks.clone(), fault }
    }
}

impl NodeFilter for NodeAffinityFilter {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        let required = self.asks.node_affinity.as_ref();
        if !required.is_none_or(|terms| terms.iter().any(|term| node_term_matches(term, node))) {
            return Err(self.fault.clone().map_or(Unfit::NodeAffinity, Unfit::Pod));
        }
        let selected = self.asks.node_selector.iter().all(|(key, value)| node.label(key) == Some(value));
        if selected { Ok(()) } else { Err(Unfit::NodeAffinity) }
    }
}

struct TaintTolerationFilter(Arc<Constraints>);

impl NodeFilter for TaintTolerationFilter {
    fn check(&self, node: &Node) -> Result<(), Unfit> {
        let keeps_away = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
        let mut taints = node.taints.iter().filter(keeps_away);
        let untolerated = taints.find(|taint| !tolerates(&self.0.tolerations, taint));
        untolerated.map_or(Ok(()), |taint| Err(Unfit::Taint(taint.clone())))
    }
}

struct NodePortsFilter(Arc<Constraints>);

impl ResourceFilter for NodePortsFilter {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        let taken = self.0.host_ports.iter().any(|port| node.port_taken(port, fit.is_future_idle()));
        if taken { Err(Unfit::Ports) } else { Ok(()) }
    }
}

struct DiskConflictFilter(Arc<Constraints>);

impl ResourceFilter for DiskConflictFilter {
    fn check(&self, node: &Node, fit: Fit) -> Result<(), Unfit> {
        let taken = self.0.disks.iter().any(|disk| node.disk_taken(disk, fit.is_future_idle()));
        if taken { Err(Unfit::Beside("node(s) had no available disk".into())) } else { Ok(()) }
    }
}

/// What two rules depend on, as one number: 0 when neither depends on anything.
fn scopes(one: u64, other: u64) -> u64 {
    if one == 0 || other == 0 {
        return one | other;
    }
    let mut hasher = FxHasher::default();
    (one, other).hash(&mut hasher);
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_cluster::Hold;
    use phalanx_cluster::event::{Disk, DiskKind, HostPort, Toleration, TolerationOperator};

    fn node() -> Node {
        Node { name: "a".into(), exists: true, ready: true, ..Node::default() }
    }

    fn toleration(key: &str, effect: Option<TaintEffect>) -> Toleration {
        Toleration { key: key.into(), operator: TolerationOperator::Exists, value: "".into(), effect }
    }

    #[test]
    fn a_node_must_be_ready_and_not_cordoned() {
        let strict = NodeCondition { cordoned_too: false };
        assert_eq!(strict.check(&node()), Ok(()));
        assert_eq!(strict.check(&Node { ready: false, ..node() }), Err(Unfit::NotReady));
        let cordoned = Node { unschedulable: true, ..node() };
        assert_eq!(strict.check(&cordoned), Err(Unfit::Unschedulable));
        assert_eq!(NodeCondition { cordoned_too: true }.check(&cordoned), Ok(()));
    }

    #[test]
    fn the_unschedulable_toleration_opens_cordoned_nodes() {
        let of = |list| Constraints { tolerations: list, ..Constraints::default() };
        assert!(tolerates_cordon(&of(vec![toleration(UNSCHEDULABLE_TAINT, None)])));
        assert!(tolerates_cordon(&of(vec![toleration("", None)])));
        assert!(!tolerates_cordon(&of(vec![toleration(UNSCHEDULABLE_TAINT, Some(TaintEffect::NoExecute))])));
        assert!(!tolerates_cordon(&of(vec![toleration("other", None)])));
    }

    #[test]
    fn only_taints_that_keep_away_count() {
        for (effect, refused) in [
            (TaintEffect::NoSchedule, true),
            (TaintEffect::NoExecute, true),
            (TaintEffect::PreferNoSchedule, false),
        ] {
            let taint = Taint { key: "gpu".into(), value: "yes".into(), effect };
            let tainted = Node { taints: vec![taint], ..node() };
            let check = |list| {
                TaintTolerationFilter(Arc::new(Constraints { tolerations: list, ..Constraints::default() }))
                    .check(&tainted)
            };
            assert_eq!(check(vec![]).is_err(), refused, "{effect:?}");
            assert_eq!(check(vec![toleration("gpu", None)]), Ok(()));
        }
    }

    #[test]
    fn a_host_port_is_free_later_when_its_holder_is_leaving() {
        let port = |ip: &str| HostPort { ip: ip.into(), protocol: "TCP".into(), port: 80 };
        let of = |ip: &str| Constraints { host_ports: vec![port(ip)], ..Constraints::default() };
        let mut busy = node();
        busy.take_things(&of("10.0.0.1"), Hold::Releasing);
        let wants = |ip: &str| NodePortsFilter(Arc::new(of(ip)));
        assert_eq!(wants("0.0.0.0").check(&busy, Fit::Idle), Err(Unfit::Ports));
        assert_eq!(wants("0.0.0.0").check(&busy, Fit::FutureIdle), Ok(()));
        assert_eq!(wants("10.0.0.2").check(&busy, Fit::Idle), Ok(()));
        busy.take_things(&of("10.0.0.1"), Hold::Used);
        assert_eq!(wants("10.0.0.1").check(&busy, Fit::FutureIdle), Err(Unfit::Ports));
        busy.free_things(&of("10.0.0.1"), Hold::Used);
        busy.free_things(&of("10.0.0.1"), Hold::Releasing);
        assert_eq!(busy, node());
    }

    #[test]
    fn a_disk_is_for_one_pod_unless_all_read_it() {
        let disk = |of, name: &str, monitors: &[&str], read_only| Disk {
            of,
            name: name.into(),
            monitors: monitors.iter().map(|name| (*name).into()).collect(),
            read_only,
        };
        for (there, wanted, free) in [
            (disk(DiskKind::Gce, "a", &[], false), disk(DiskKind::Gce, "a", &[], true), false),
            (disk(DiskKind::Gce, "a", &[], true), disk(DiskKind::Gce, "a", &[], true), true),
            (disk(DiskKind::Gce, "a", &[], false), disk(DiskKind::Gce, "b", &[], false), true),
            (disk(DiskKind::Gce, "a", &[], false), disk(DiskKind::Aws, "a", &[], false), true),
            (disk(DiskKind::Aws, "a", &[], true), disk(DiskKind::Aws, "a", &[], true), false),
            (disk(DiskKind::Iscsi, "a", &[], true), disk(DiskKind::Iscsi, "a", &[], true), true),
            (disk(DiskKind::Rbd, "p/a", &["m", "n"], false), disk(DiskKind::Rbd, "p/a", &["n"], true), false),
            (disk(DiskKind::Rbd, "p/a", &["m"], false), disk(DiskKind::Rbd, "p/a", &["n"], false), true),
        ] {
            let of = |disk: &Disk| Constraints { disks: vec![disk.clone()], ..Constraints::default() };
            let mut busy = node();
            busy.take_things(&of(&there), Hold::Used);
            let fits = |node: &Node, fit| DiskConflictFilter(Arc::new(of(&wanted))).check(node, fit).is_ok();
            assert_eq!(
                (fits(&busy, Fit::Idle), fits(&busy, Fit::FutureIdle)),
                (free, free),
                "{there:?} {wanted:?}"
            );
            busy.free_things(&of(&there), Hold::Used);
            busy.take_things(&of(&there), Hold::Releasing);
            assert_eq!(
                (fits(&busy, Fit::Idle), fits(&busy, Fit::FutureIdle)),
                (free, true),
                "{there:?} {wanted:?}"
            );
        }
    }
}
