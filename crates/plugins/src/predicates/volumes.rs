//! The PersistentVolumeClaims of a pod: nodes that reach the volumes, can attach them, or where they can be
//! provisioned.
//!
//! Source: kube-scheduler 1.36, plugins VolumeBinding, VolumeZone, NodeVolumeLimits and, for ReadWriteOncePod,
//! VolumeRestrictions. Disks in the pod's own spec are counted on nodes. Volumes change while a class of tasks lives,
//! so the filters depend on a scope.
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};

use super::node_term_reads;
use phalanx_cluster::diagnosis::Unfit;
use phalanx_cluster::event::{PodVolume, VolumeInfo};
use phalanx_cluster::id::{PvcId, TaskId};
use phalanx_cluster::{ClaimDemand, Cluster, Node, Problem, Pvc, Want, reaches, solve};
use phalanx_framework::placement::Fit;
use phalanx_framework::plugin::{Attribute, NodeRules, Values};

/// The filters that are switched on.
#[derive(Clone, Copy, Debug)]
pub(super) struct VolumeChecks {
    pub(super) binding: bool,
    pub(super) zone: bool,
    pub(super) limits: bool,
}

/// A number that changes with the state of the task's claims; 0 for a task without claims.
pub(super) fn scope(cluster: &Cluster, task: TaskId) -> u64 {
    let claims = &cluster.class_of(task).pvcs;
    if claims.is_empty() {
        return 0;
    }
    let mut hasher = FxHasher::default();
    claims.iter().for_each(|claim| cluster.volumes().state(*claim).hash(&mut hasher));
    hasher.finish().max(1)
}

impl VolumeChecks {
    pub(super) fn filters(self, cluster: &Cluster, task: TaskId, rules: &mut NodeRules) {
        let class = cluster.class_of(task);
        let (ids, named) = (&class.pvcs, &class.constraints.volumes);
        if ids.is_empty() {
            return;
        }
        let needs: Result<Vec<ClaimDemand>, Unfit> =
            ids.iter().zip(named).map(|(id, named)| need(cluster, *id, named)).collect();
        match needs {
            Ok(needs) => self.place(cluster, needs, rules),
            Err(why) if self.binding => rules.filter(move |_| Err(why.clone())),
            Err(_) => {}
        }
        if ids.iter().any(|id| cluster.volumes().pvc(*id).is_exclusive()) {
            add_exclusive(rules, cluster, ids);
        }
        if self.limits {
            add_limits(rules, cluster, ids);
        }
    }

    fn place(self, cluster: &Cluster, needs: Vec<ClaimDemand>, rules: &mut NodeRules) {
        let (mut volumes, mut wants) = (Vec::new(), Vec::new());
        for need in needs {
            match need {
                ClaimDemand::Reach(volume) => volumes.push(volume),
                ClaimDemand::At(_) | ClaimDemand::On(..) if !self.binding => {}
                ClaimDemand::At(name) => {
                    let why = format!("node(s) that may not reach a volume being made for node {name}");
                    only_on(name, why, rules);
                }
                ClaimDemand::On(node, claim) => {
                    let (name, claim) = (&cluster.nodes[node].name, &cluster.volumes().pvc(claim).key.name);
                    let why = format!(
                        "node(s) that may not reach the volume of persistentvolumeclaim \"{claim}\", which is to be made for another pod on node {name}"
                    );
                    only_on(name.clone(), why, rules);
                }
                ClaimDemand::Volume(want) => wants.push(want),
            }
        }
        if self.zone {
            for volume in &volumes {
                add_zones(rules, volume);
            }
        }
        if !self.binding {
            return;
        }
        for volume in volumes.into_iter().filter(|volume| volume.nodes.is_some()) {
            rules.reads.extend(volume.nodes.iter().flatten().flat_map(node_term_reads));
            rules.filter(move |node| {
                let reached = reaches(volume.nodes.as_ref(), node);
                if reached { Ok(()) } else { unfit("node(s) had volume node affinity conflict") }
            });
        }
        if !wants.is_empty() {
            let candidates = wants.iter().flat_map(|want| &want.candidates);
            let places = candidates.flat_map(|volume| volume.nodes.iter().flatten());
            let made = wants.iter().flat_map(|want| want.made.iter().flatten());
            rules.reads.extend(places.chain(made).flat_map(node_term_reads));
            let spaces = wants.iter().filter_map(|want| want.space.as_ref());
            let keys = spaces.flat_map(|space| space.keys());
            rules.reads.extend(keys.map(|key| (Attribute::Label(key.clone()), Values::All)));
            rules.filter(move |node| check_binding(&wants, node));
        }
    }
}

fn only_on(node: Arc<str>, why: String, rules: &mut NodeRules) {
    rules.reads.push((Attribute::Name, Values::These(vec![node.clone()])));
    let why: Arc<str> = why.into();
    rules.filter(move |it| if it.name == node { Ok(()) } else { Err(Unfit::Other(why.clone())) });
}

fn need(cluster: &Cluster, id: PvcId, named: &PodVolume) -> Result<ClaimDemand, Unfit> {
    let name = &named.claim.name;
    cluster.volumes().need(id, named).map_err(|problem| {
        let text = match problem {
            Problem::Missing => format!("persistentvolumeclaim \"{name}\" not found"),
            Problem::NotMade => {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                )
            }
            Problem::NotOwner => {
                format!("persistentvolumeclaim \"{name}\" was not created for the pod (pod is not owner)")
            }
            Problem::Deleting => format!("persistentvolumeclaim \"{name}\" is being deleted"),
            Problem::Lost(volume) => {
                format!(
                    "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{volume}\""
                )
            }
            Problem::Immediate => format!("pod has unbound immediate PersistentVolumeClaims: \"{name}\""),
            Problem::NoClass(class) => format!("storageclass.storage.k8s.io \"{class}\" not found"),
        };
        Unfit::Pod(text.into())
    })
}

fn unfit(text: &'static str) -> Result<(), Unfit> {
    Err(Unfit::Other(text.into()))
}

const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const NO_SPACE: &str = "node(s) did not have enough free storage";

/// Passes nodes where all unbound claims (WaitForFirstConsumer) can be bound or provisioned.
fn check_binding(wants: &[Want], node: &Node) -> Result<(), Unfit> {
    if solve(wants, node).is_some() {
        return Ok(());
    }
    let each_can = wants.iter().all(|want| want.can_be_made(node));
    let lacks_space = each_can || wants.iter().any(|want| want.lacks_space(node));
    unfit(if lacks_space { NO_SPACE } else { NO_VOLUME })
}

/// Labels of zones and regions, each with its name before Kubernetes 1.17.
const PLACES: [[&str; 2]; 2] = [
    ["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"],
    ["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"],
];

/// Adds a filter for the zones and regions of a volume's labels. A node without such labels passes, as in
/// kube-scheduler.
fn add_zones(rules: &mut NodeRules, volume: &VolumeInfo) {
    let mut places: Vec<(usize, Vec<Arc<str>>)> = Vec::new();
    for (at, keys) in PLACES.iter().enumerate() {
        for text in keys.iter().filter_map(|key| volume.labels.get(key)) {
            places.push((at, text.split("__").map(Arc::from).collect()));
        }
    }
    if places.is_empty() {
        return;
    }
    for key in PLACES.iter().flatten() {
        let values = places.iter().flat_map(|(_, values)| values.iter().cloned()).collect();
        rules.reads.push((Attribute::Label((*key).into()), Values::These(values)));
    }
    rules.filter(move |node| {
        let inside = |(at, values): &(usize, Vec<Arc<str>>)| {
            place(node, *at).is_some_and(|found| values.iter().any(|value| **value == *found))
        };
        let is_unlabelled = (0..PLACES.len()).all(|at| place(node, at).is_none());
        let passes = is_unlabelled || places.iter().all(inside);
        if passes { Ok(()) } else { unfit("node(s) had no available volume zone") }
    });
}

fn place(node: &Node, at: usize) -> Option<&str> {
    PLACES[at].iter().find_map(|key| node.label(key))
}

/// Adds a filter that passes nodes while no other pod uses a claim with access mode ReadWriteOncePod.
fn add_exclusive(rules: &mut NodeRules, cluster: &Cluster, ids: &[PvcId]) {
    let claims = || ids.iter().map(|id| cluster.volumes().pvc(*id)).filter(|claim| claim.is_exclusive());
    let future_idle = claims().all(|claim| claim.used.held == 0);
    let idle = future_idle && claims().all(|claim| claim.used.releasing == 0);
    rules.resource_filter(move |_, fit| {
        let is_free = if fit == Fit::Idle { idle } else { future_idle };
        if is_free {
            return Ok(());
        }
        unfit("node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode")
    });
}

/// The pod's volumes of one CSI driver.
#[derive(Default)]
struct DriverVolumes {
    /// How many the pod needs.
    needed: u32,
    /// How many of them are attached to a node: now, and once terminating pods are gone.
    there: FxHashMap<Arc<str>, (u32, u32)>,
}

/// Adds a filter for the drivers that limit how many volumes a node can attach.
fn add_limits(rules: &mut NodeRules, cluster: &Cluster, ids: &[PvcId]) {
    let claims = ids.iter().map(|id| cluster.volumes().pvc(*id));
    let mut drivers: Vec<(Arc<str>, DriverVolumes)> = Vec::new();
    for claim in claims {
        let Some(driver) = claim.driver.as_ref().filter(|driver| cluster.volumes().is_limited(driver)) else {
            continue;
        };
        let at = drivers.iter().position(|(known, _)| known == driver).unwrap_or_else(|| {
            drivers.push((driver.clone(), DriverVolumes::default()));
            drivers.len() - 1
        });
        drivers[at].1.count(cluster, claim);
    }
    if drivers.is_empty() {
        return;
    }
    let nodes = drivers.iter().flat_map(|(_, of)| of.there.keys().cloned()).collect();
    rules.reads.push((Attribute::Name, Values::These(nodes)));
    rules.resource_filter(move |node, fit| {
        let fits = drivers.iter().all(|(driver, of)| of.fit(driver, node, fit));
        if fits { Ok(()) } else { unfit("node(s) exceed max volume count") }
    });
}

impl DriverVolumes {
    fn count(&mut self, cluster: &Cluster, claim: &Pvc) {
        self.needed += 1;
        for (node, on) in &claim.on {
            let there = self.there.entry(cluster.nodes[*node].name.clone()).or_default();
            there.0 += 1;
            there.1 += on.once().held;
        }
    }

    /// Whether the driver can attach them to a node.
    fn fit(&self, driver: &str, node: &Node, fit: Fit) -> bool {
        let Some(limit) = node.attach_limit(driver) else { return true };
        let there =
            self.there.get(&node.name).map_or(0, |there| if fit == Fit::Idle { there.0 } else { there.1 });
        node.attached(driver, fit) + self.needed - there <= limit
    }
}
