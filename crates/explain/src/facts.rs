//! The answers, as JSON has them.
use std::collections::BTreeMap;

use jiff::Timestamp;
use phalanx_cluster::event::Key;
use phalanx_core::report;
use serde::{Deserialize, Serialize};

use crate::change::Remedies;

/// Resources and canonical quantities.
pub(crate) type Amounts = BTreeMap<String, String>;

/// What is known of a PodGroup, a pod or a Job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Explanation {
    /// The owner, where one was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerFacts>,
    /// The pod, where one was asked for.
    pub pod: Option<PodFacts>,
    /// Its job, or the first PodGroups and pods of an owner: of those that wait, where any do.
    pub jobs: Vec<JobFacts>,
    /// The last evictions of its pods, the newest first.
    pub evictions: Vec<Evicted>,
}

/// An object that owns PodGroups or pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerFacts {
    /// Its kind.
    pub kind: String,
    /// Namespace and name.
    pub name: String,
    /// Its pods.
    pub pods: usize,
    /// With a node, or succeeded.
    pub placed: usize,
    /// Waiting.
    pub waiting: usize,
    /// Those of other schedulers, as far as they are known.
    pub foreign: usize,
    /// Those of its pods that do not exist yet.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_make: u32,
    /// How many of its PodGroups and pods without one that wait, or of all where none waits, are left out.
    pub left_out: usize,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// Namespace and name.
    pub name: String,
    /// Where it is.
    pub state: PodState,
    /// Its PodGroup.
    pub pod_group: Option<String>,
    /// Why it is on its node.
    pub chosen: Option<Chosen>,
    /// Changes of the pod itself with which it would run, where it is another scheduler's.
    pub remedies: Remedies,
}

/// Where a pod is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// On this node.
    OnNode(String),
    /// It waits for room on this node.
    Nominated(String),
    /// It waits.
    Waits,
    /// Another scheduler's.
    Foreign,
    /// It does not exist any more.
    Gone,
}

/// The nodes that a pod could have, as the plugins score them now, with the pod taken away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chosen {
    /// How many nodes are feasible.
    pub compared: usize,
    /// The place of the pod's node among them; `None` when it is not feasible any more.
    pub place: Option<usize>,
    /// The best of them, and the pod's node.
    pub nodes: Vec<NodeScores>,
}

/// The scores of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeScores {
    /// The node.
    pub node: String,
    /// It has room only once terminating pods are gone.
    pub later: bool,
    /// The sum.
    pub total: f64,
    /// By plugin.
    pub by_plugin: BTreeMap<String, f64>,
}

/// A PodGroup, or a pod without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobFacts {
    /// Namespace and name.
    pub name: String,
    /// A pod without a PodGroup.
    pub solo: bool,
    /// Phase.
    pub phase: String,
    /// Since when it exists.
    pub created: Timestamp,
    /// Its pods.
    pub members: Members,
    /// Its priority and where that is from.
    pub priority: String,
    /// Its queue.
    pub queue: QueueFacts,
    /// Its place among the waiting jobs of its queue.
    pub place: Option<Place>,
    /// The lowest HyperNode that holds its pods.
    #[serde(default)]
    pub domain: Option<Domain>,
    /// Why it is in no HyperNode of the next lower tier: the one of that tier with room for the most of its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower_tier: Option<RejectedDomain>,
    /// Its sub-groups whose pods are in one HyperNode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sub_groups: Vec<PlacedSubGroup>,
    /// Why it waits.
    pub why: Why,
    /// The nodes that it keeps.
    pub reservation: Option<Reservation>,
    /// When it would start without any change, where run times are known, and what that assumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<String>,
    /// All that it lacks has nominated nodes, where room is being freed: it needs no change to run.
    #[serde(default)]
    pub will_run: bool,
    /// The smallest changes that would let it run.
    pub remedies: Remedies,
    /// Of a PodGroup that waits to be admitted and has no pods, as far as is known: the smallest changes with which it
    /// would be admitted. Whether its pods would run then is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub admission: Option<Remedies>,
}

/// Pods of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Members {
    /// All.
    pub pods: u32,
    /// With a node, or succeeded.
    pub placed: u32,
    /// Failed.
    pub failed: u32,
    /// How many more must be placed.
    pub missing: u32,
    /// Waiting, nominated ones included.
    pub waiting: u32,
    /// Nominated.
    pub nominated: u32,
    /// `minMember`.
    pub min_member: u32,
    /// Those that do not exist yet: the controller of its Job makes them once the PodGroup is admitted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub to_make: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Members {
    /// The gang runs, and more of its pods wait.
    pub(crate) fn grow(&self) -> bool {
        self.placed > 0 && self.missing == 0 && self.waiting > 0
    }
}

/// A place in an order, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The place.
    pub at: usize,
    /// How many there are.
    pub of: usize,
}

/// A queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueFacts {
    /// Name.
    pub name: String,
    /// The Queue exists.
    pub exists: bool,
    /// Weight.
    pub weight: u32,
    /// Its parent, unless that is `root`.
    pub parent: Option<String>,
    /// What its jobs and those of queues below have.
    pub allocated: Amounts,
    /// What it deserves, where a plugin computes that.
    pub deserved: Amounts,
    /// What its jobs request, allocated or not.
    pub requested: Amounts,
    /// Its place among the queues with waiting jobs.
    pub place: Option<Place>,
}

/// Why a job waits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// The gate that stopped it.
    pub gate: Option<Gate>,
    /// The reasons, as in conditions.
    pub reasons: Vec<String>,
    /// How many nodes there are, where nodes were looked at.
    pub nodes: usize,
    /// What each rule excludes, the one that excludes the most nodes first; a node counts once for each rule.
    pub constraints: Vec<Constraint>,
    /// Of a job with a network topology or sub-groups: what has no effect, and faults of HyperNodes.
    #[serde(default)]
    pub topology_faults: Vec<String>,
    /// The HyperNodes that may hold it and have no room, the one that lacks the least first.
    #[serde(default)]
    pub domains: Vec<RejectedDomain>,
    /// What the nearest node lacks.
    pub lack: Option<Lack>,
    /// The end of its back-off.
    pub back_off_until: Option<Timestamp>,
    /// Who holds what it lacks.
    pub holders: Vec<Holders>,
}

/// A gate on the way of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "those of phalanx_core::report::Gate")]
pub enum Gate {
    Object,
    Queue,
    Gang,
    Enqueue,
    Quota,
    Nodes,
    Release,
    BackOff,
    Configuration,
}

/// A HyperNode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    /// The name.
    pub hyper_node: String,
    /// Its tier.
    pub tier: u32,
}

/// A sub-group whose pods are in one HyperNode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedSubGroup {
    /// `name` of its entry of `subGroupPolicy`.
    pub policy: String,
    /// The values of its `matchLabelKeys`.
    pub name: String,
    /// The lowest HyperNode that holds its pods that have nodes.
    #[serde(flatten)]
    pub domain: Domain,
}

/// A HyperNode without room for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedDomain {
    /// The HyperNode.
    #[serde(flatten)]
    pub domain: Domain,
    /// How many pods have room.
    pub fits: u32,
    /// How many need nodes.
    pub wanted: u32,
    /// What its nodes lack for the others; empty where node filters refuse the pods.
    pub missing: Amounts,
}

impl From<report::Domain> for Domain {
    fn from(of: report::Domain) -> Self {
        Self { hyper_node: of.hyper_node.to_string(), tier: of.tier }
    }
}

/// What a rule excludes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Constraint {
    /// The rule, in kube-scheduler's words.
    pub text: String,
    /// How many nodes.
    pub nodes: usize,
    /// The nodes, by name.
    pub names: Vec<String>,
    /// What is free on them, where they lack a resource.
    pub fragments: Option<Fragments>,
}

impl From<report::Fragments> for Fragments {
    fn from(of: report::Fragments) -> Self {
        Self {
            resource: of.resource,
            free: of.free,
            nodes: of.nodes,
            largest: of.largest,
            on: of.on.to_string(),
            requested: of.requested,
        }
    }
}

/// What is free of a resource on nodes each of which has too little.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Fragments {
    /// The resource.
    pub resource: String,
    /// The sum of what is free.
    pub free: String,
    /// How many nodes have some.
    pub nodes: u32,
    /// The most that one node has.
    pub largest: String,
    /// That node.
    pub on: String,
    /// What the pod requests.
    pub requested: String,
}

/// What the nearest node lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lack {
    /// The node.
    pub node: String,
    /// The missing amounts.
    pub missing: Amounts,
    /// No node could hold the pod even if it were empty.
    pub too_large: bool,
    /// The text in conditions.
    pub text: String,
}

/// Who holds a resource that the job lacks: those that hold the most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holders {
    /// The resource.
    pub resource: String,
    /// The queue whose limit is reached; without it, the nodes that the job may use are meant.
    pub within_queue: Option<String>,
    /// Nodes have enough of it, and nominated pods are about to use that.
    #[serde(default)]
    pub reserved: bool,
    /// Queues.
    pub queues: Vec<HeldBy>,
    /// PodGroups, and pods without one.
    pub jobs: Vec<HeldBy>,
    /// How many other jobs hold some.
    pub others: usize,
    /// What pods of other schedulers hold.
    pub foreign: Option<String>,
}

/// An amount, and who holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    /// The name.
    pub name: String,
    /// The amount.
    pub amount: String,
}

/// Nodes that are kept for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// They are for the repair of a running gang.
    pub repair: bool,
    /// Since when.
    pub since: Timestamp,
    /// When they are given up.
    pub ends: Timestamp,
    /// The nodes.
    pub nodes: Vec<String>,
}

/// An eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Evicted {
    /// When it was decided.
    pub at: Timestamp,
    /// Namespace and name of the pod.
    pub pod: String,
    /// The pod's PodGroup.
    pub pod_group: Option<String>,
    /// The action.
    pub action: String,
    /// The preemptor.
    pub by: Option<String>,
    /// The reason, as in the event.
    pub reason: String,
}

impl Explanation {
    /// Tells that pods of these PodGroups, one for each pod, do not exist yet.
    pub fn tell_to_make(&mut self, groups: impl Iterator<Item = Key>) {
        for group in groups.map(|group| group.to_string()) {
            let told = self.jobs.iter_mut().filter(|job| !job.solo && job.name == group);
            told.for_each(|job| job.members.to_make += 1);
        }
        let to_make = self.jobs.iter().map(|job| job.members.to_make).sum();
        self.owner.iter_mut().for_each(|owner| owner.to_make = to_make);
    }

    /// Leaves out the names of jobs of other namespaces, for somebody who may not list these.
    pub fn for_namespace(&mut self, namespace: &str) {
        let own = |name: &str| name.split_once('/').is_some_and(|(of, _)| of == namespace);
        for job in &mut self.jobs {
            for holders in &mut job.why.holders {
                let all = holders.jobs.len();
                holders.jobs.retain(|held| own(&held.name));
                holders.others += all - holders.jobs.len();
            }
            for remedies in std::iter::once(&mut job.remedies).chain(&mut job.admission) {
                let all = remedies.found.len();
                remedies.found.retain(|it| it.namespaces.iter().all(|of| of == namespace));
                // That none was found is no longer known.
                remedies.tried &= remedies.found.len() == all;
            }
        }
    }
}
