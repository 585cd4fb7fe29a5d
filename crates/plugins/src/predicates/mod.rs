//! predicates: the nodes that a pod can run on, by the filters of kube-scheduler.
//!
//! The filters are NodeUnschedulable, NodeAffinity, NodePorts, TaintToleration, InterPodAffinity, PodTopologySpread,
//! VolumeBinding, VolumeZone, NodeVolumeLimits, VolumeRestrictions and DynamicResources, besides readiness of the node.
//! Whether requests fit, and whether the node's number of pods allows one more, is checked by the session itself. Each
//! argument switches a filter off.
//!
//! Source: Volcano's predicates plugin, and kube-scheduler 1.36.
mod dynamic_resources;
mod inter_pod_affinity;
mod node_terms;
mod pod_topology_spread;
mod volumes;

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::FxHasher;

use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::{Constraints, Taint, TaintEffect};
use phalanx_cluster::id::{ClassId, TaskId};
use phalanx_cluster::matching::{node_term_fault, node_term_matches, tolerates};
use phalanx_cluster::{Cluster, Node};
use phalanx_framework::conf::{ArgKind, ArgSpec, Rule};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{Attribute, NodeRules, Plugin, PluginContext, PluginDef, TaskRules, Values};

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
    toggle("predicate.NodeAffinityEnable", "Checks nodeSelector and required node affinity."),
    toggle("predicate.NodePortsEnable", "Checks that the pod's host ports are free."),
    toggle("predicate.TaintTolerationEnable", "Checks that the pod tolerates the node's taints."),
    toggle(
        "predicate.PodAffinityEnable",
        "Checks required pod affinity and anti-affinity, of the pod and of existing pods.",
    ),
    toggle("predicate.NodeVolumeLimitsEnable", "Checks how many volumes the node's CSI drivers can attach."),
    toggle("predicate.VolumeZoneEnable", "Checks the zone of the pod's volumes."),
    toggle("predicate.PodTopologySpreadEnable", "Checks topology spread constraints with DoNotSchedule."),
    toggle(
        "predicate.VolumeBindingEnable",
        "Checks that the node reaches the pod's volumes, and binds claims that wait for their first pod.",
    ),
    ArgSpec {
        name: "predicate.CacheEnable",
        kind: ArgKind::Bool,
        default: "false",
        doc: "Accepted for Volcano's sake; filters always run once per class of tasks.",
    },
    ArgSpec {
        name: "predicate.DynamicResourceAllocationEnable",
        kind: ArgKind::Bool,
        default: "true",
        doc: "Checks that devices can be allocated to the pod's resource claims (resource.k8s.io), and allocates them.",
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
        doc: "Accepted for Volcano's sake, like the weight.",
    },
    ArgSpec {
        name: "dynamicresources.filterTimeoutSeconds",
        kind: ArgKind::Int(&[Rule::IDLE]),
        default: "10",
        doc: "Accepted for Volcano's sake; filters never wait.",
    },
];

/// Kubernetes' taint of cordoned nodes; pods that tolerate it can run on them.
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
    fn filters(&self, cluster: &Cluster, class: ClassId, rules: &mut NodeRules) {
        let constraints = &cluster.classes[class].constraints;
        let own = || constraints.clone();
        if let Some(why) = constraints.unreadable.clone() {
            rules.filter(move |_| Err(Unfit::Pod(why.clone())));
        }
        let tolerates_cordon_taint = tolerates_cordon(constraints);
        rules.filter(move |node| check_condition(tolerates_cordon_taint, node));
        if self.affinity && (!constraints.node_selector.is_empty() || constraints.node_affinity.is_some()) {
            let (own, fault) = (own(), constraints.node_affinity.as_deref().and_then(node_term_fault));
            rules.filter(move |node| check_affinity(&own, fault.as_ref(), node));
            rules.reads.extend(reads_of(constraints));
        }
        if self.taints {
            let own = own();
            rules.filter(move |node| check_taints(&own, node));
        }
        let it = &cluster.classes[class];
        if self.pod_affinity && it.profile.is_some() {
            rules.topology_filters.push(Box::new(move |cluster: &Cluster, node, fit| {
                inter_pod_affinity::check(cluster, class, node, fit)
            }));
        }
        if self.spread && it.carried.spread.iter().any(|spread| spread.required) {
            rules.topology_filters.push(Box::new(move |cluster: &Cluster, node, fit| {
                pod_topology_spread::check(cluster, class, node, fit)
            }));
        }
        if self.ports && !constraints.host_ports.is_empty() {
            let own = own();
            rules.resource_filter(move |node, fit| check_ports(&own, node, fit));
        }
        if !constraints.disks.is_empty() {
            let own = own();
            rules.resource_filter(move |node, fit| check_disks(&own, node, fit));
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
    fn scope(&self, cluster: &Cluster, task: TaskId) -> u64 {
        let devices = if self.claims { cluster.claims_scope(task) } else { 0 };
        scopes(devices, volumes::scope(cluster, task))
    }

    fn scope_without_claims(&self, _: &Cluster, _: TaskId) -> u64 {
        0
    }

    fn task_filters(&self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        if self.claims {
            dynamic_resources::add(cluster.claims_need(task), rules);
        }
        self.volumes.filters(cluster, task, rules);
    }
}

/// The node attributes that the node selector and the required node affinity read.
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

/// Passes nodes that are ready and not cordoned.
fn check_condition(tolerates_cordon_taint: bool, node: &Node) -> Result<(), Unfit> {
    if !node.ready {
        return Err(Unfit::NotReady);
    }
    if node.unschedulable && !tolerates_cordon_taint { Err(Unfit::Unschedulable) } else { Ok(()) }
}

/// Passes nodes that the node selector and the required node affinity match. `fault` is that of a term that matches no
/// node: the reason when no other term matches.
fn check_affinity(constraints: &Constraints, fault: Option<&Arc<str>>, node: &Node) -> Result<(), Unfit> {
    let required = constraints.node_affinity.as_ref();
    if !required.is_none_or(|terms| terms.iter().any(|term| node_term_matches(term, node))) {
        return Err(fault.cloned().map_or(Unfit::NodeAffinity, Unfit::Pod));
    }
    let selected = constraints.node_selector.iter().all(|(key, value)| node.label(key) == Some(value));
    if selected { Ok(()) } else { Err(Unfit::NodeAffinity) }
}

fn check_taints(constraints: &Constraints, node: &Node) -> Result<(), Unfit> {
    let keeps_away = |taint: &&Taint| taint.effect != TaintEffect::PreferNoSchedule;
    let mut taints = node.taints.iter().filter(keeps_away);
    let untolerated = taints.find(|taint| !tolerates(&constraints.tolerations, taint));
    untolerated.map_or(Ok(()), |taint| Err(Unfit::Taint(taint.clone())))
}

fn check_ports(constraints: &Constraints, node: &Node, fit: Fit) -> Result<(), Unfit> {
    let taken = constraints.host_ports.iter().any(|port| node.port_taken(port, fit));
    if taken { Err(Unfit::Ports) } else { Ok(()) }
}

fn check_disks(constraints: &Constraints, node: &Node, fit: Fit) -> Result<(), Unfit> {
    let taken = constraints.disks.iter().any(|disk| node.disk_taken(disk, fit));
    if taken { Err(Unfit::Beside("node(s) had no available disk".into())) } else { Ok(()) }
}

/// Combines two scopes; 0 when both are 0.
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
    use phalanx_cluster::event::{Disk, DiskKind, HostPort, Toleration, TolerationOperator};
    use phalanx_cluster::{Count, Hold};

    fn node() -> Node {
        Node { name: "a".into(), exists: true, ready: true, ..Node::default() }
    }

    fn toleration(key: &str, effect: Option<TaintEffect>) -> Toleration {
        Toleration { key: key.into(), operator: TolerationOperator::Exists, value: "".into(), effect }
    }

    #[test]
    fn nodes_that_are_not_ready_or_cordoned_are_refused() {
        assert_eq!(check_condition(false, &node()), Ok(()));
        assert_eq!(check_condition(false, &Node { ready: false, ..node() }), Err(Unfit::NotReady));
        let cordoned = Node { unschedulable: true, ..node() };
        assert_eq!(check_condition(false, &cordoned), Err(Unfit::Unschedulable));
        assert_eq!(check_condition(true, &cordoned), Ok(()));
    }

    #[test]
    fn tolerating_the_unschedulable_taint_allows_cordoned_nodes() {
        let of = |list| Constraints { tolerations: list, ..Constraints::default() };
        assert!(tolerates_cordon(&of(vec![toleration(UNSCHEDULABLE_TAINT, None)])));
        assert!(tolerates_cordon(&of(vec![toleration("", None)])));
        assert!(!tolerates_cordon(&of(vec![toleration(UNSCHEDULABLE_TAINT, Some(TaintEffect::NoExecute))])));
        assert!(!tolerates_cordon(&of(vec![toleration("other", None)])));
    }

    #[test]
    fn untolerated_hard_taints_refuse_a_node() {
        for (effect, refused) in [
            (TaintEffect::NoSchedule, true),
            (TaintEffect::NoExecute, true),
            (TaintEffect::PreferNoSchedule, false),
        ] {
            let taint = Taint { key: "gpu".into(), value: "yes".into(), effect };
            let tainted = Node { taints: vec![taint], ..node() };
            let of = |list| Constraints { tolerations: list, ..Constraints::default() };
            let check = |list| check_taints(&of(list), &tainted);
            assert_eq!(check(vec![]).is_err(), refused, "{effect:?}");
            assert_eq!(check(vec![toleration("gpu", None)]), Ok(()));
        }
    }

    #[test]
    fn a_host_port_of_a_terminating_pod_is_free_later() {
        let port = |ip: &str| HostPort { ip: ip.into(), protocol: "TCP".into(), port: 80 };
        let of = |ip: &str| Constraints { host_ports: vec![port(ip)], ..Constraints::default() };
        let mut busy = node();
        busy.count_ports_and_disks(&of("10.0.0.1"), Hold::Releasing, Count::In);
        let check = |ip: &str, node: &Node, fit| check_ports(&of(ip), node, fit);
        assert_eq!(check("0.0.0.0", &busy, Fit::Idle), Err(Unfit::Ports));
        assert_eq!(check("0.0.0.0", &busy, Fit::FutureIdle), Ok(()));
        assert_eq!(check("10.0.0.2", &busy, Fit::Idle), Ok(()));
        busy.count_ports_and_disks(&of("10.0.0.1"), Hold::Used, Count::In);
        assert_eq!(check("10.0.0.1", &busy, Fit::FutureIdle), Err(Unfit::Ports));
        busy.count_ports_and_disks(&of("10.0.0.1"), Hold::Used, Count::Out);
        busy.count_ports_and_disks(&of("10.0.0.1"), Hold::Releasing, Count::Out);
        assert_eq!(busy, node());
    }

    #[test]
    fn a_disk_is_shared_by_readers_only() {
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
            busy.count_ports_and_disks(&of(&there), Hold::Used, Count::In);
            let fits = |node: &Node, fit| check_disks(&of(&wanted), node, fit).is_ok();
            assert_eq!(
                (fits(&busy, Fit::Idle), fits(&busy, Fit::FutureIdle)),
                (free, free),
                "{there:?} {wanted:?}"
            );
            busy.count_ports_and_disks(&of(&there), Hold::Used, Count::Out);
            busy.count_ports_and_disks(&of(&there), Hold::Releasing, Count::In);
            assert_eq!(
                (fits(&busy, Fit::Idle), fits(&busy, Fit::FutureIdle)),
                (free, true),
                "{there:?} {wanted:?}"
            );
        }
    }
}
