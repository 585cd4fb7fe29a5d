//! PodGroup: the pods that are scheduled together, and how many of them are needed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{DEFAULT_QUEUE, ResourceList, rules, schema};
use crate::lenient::{is_zero, non_empty, null_is_default, open_enum};

/// A gang: pods that name it in the annotation `scheduling.k8s.io/group-name` start together or
/// not at all.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PodGroup {
    /// Name, namespace, labels, annotations.
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: PodGroupSpec,
    /// What was observed. There is no status subresource: it is written with the object.
    pub status: Option<PodGroupStatus>,
}

/// The prefix of the names of PodGroups that a PodGroup controller makes for pods without one; the UID of the pods'
/// owner, or of the pod itself, follows.
const MADE_FOR_PODS: &str = "podgroup-";

/// Whether a PodGroup controller made a PodGroup for a pod, or for the owner of pods, that had none. That of a Job of
/// Volcano with the name `podgroup` has such a name too.
pub fn is_made_for_pods(metadata: &ObjectMeta) -> bool {
    let uid = metadata.name.as_deref().and_then(|name| name.strip_prefix(MADE_FOR_PODS));
    let of = |uid: &str, owner: &OwnerReference| {
        let rest = uid.strip_prefix(owner.uid.as_str());
        let whole = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        whole && owner.controller == Some(true) && owner.api_version != crate::batch::API_VERSION
    };
    let mut owners = metadata.owner_references.iter().flatten();
    uid.is_some_and(|uid| owners.any(|owner| of(uid, owner)))
}

/// What a PodGroup asks for.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// Pods that must get a node before any of them starts.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub min_member: i32,
    /// The same for each task of the group: the name of a task (annotation or label
    /// volcano.sh/task-spec of its pods) to the number of its pods that are needed.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub min_task_member: BTreeMap<String, i32>,
    /// The queue whose share the group uses.
    #[serde(deserialize_with = "queue_name")]
    #[schemars(length(max = 253), regex(pattern = schema::OBJECT_NAME))]
    pub queue: String,
    /// The PriorityClass of the group; without one, the default class counts, or else 0. That of its pods does not.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253))]
    pub priority_class_name: Option<String>,
    /// What the queue must have free before the group leaves Pending; absent admits it at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::resource_list")]
    pub min_resources: Option<ResourceList>,
    /// How near to each other in the network the pods must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NetworkTopologySpec")]
    pub network_topology: Option<NetworkTopologySpec>,
    /// Smaller gangs within the group.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub sub_group_policy: Vec<SubGroupPolicySpec>,
}

impl Default for PodGroupSpec {
    fn default() -> Self {
        Self {
            min_member: 0,
            min_task_member: BTreeMap::new(),
            queue: DEFAULT_QUEUE.to_owned(),
            priority_class_name: None,
            min_resources: None,
            network_topology: None,
            sub_group_policy: Vec::new(),
        }
    }
}

fn queue_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(non_empty(from)?.unwrap_or_else(|| DEFAULT_QUEUE.to_owned()))
}

/// Pods of a group that form gangs of their own.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct SubGroupPolicySpec {
    /// A name for messages.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253))]
    pub name: Option<String>,
    /// How near to each other in the network the pods of one subgroup must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NetworkTopologySpec")]
    pub network_topology: Option<NetworkTopologySpec>,
    /// The number of pods of a subgroup, which starts with all of them or not at all.
    #[serde(deserialize_with = "one_pod")]
    #[schemars(range(min = 1))]
    pub sub_group_size: i32,
    /// Subgroups that must fit before the group starts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub min_sub_groups: i32,
    /// The pods this policy is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "LabelSelector", extend("x-kubernetes-map-type" = "atomic"))]
    pub label_selector: Option<LabelSelector>,
    /// Labels by whose values those pods are divided into subgroups.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_label_keys: Vec<String>,
}

impl Default for SubGroupPolicySpec {
    fn default() -> Self {
        Self {
            name: None,
            network_topology: None,
            sub_group_size: 1,
            min_sub_groups: 0,
            label_selector: None,
            match_label_keys: Vec::new(),
        }
    }
}

fn one_pod<'de, D: Deserializer<'de>>(from: D) -> Result<i32, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(1))
}

/// How near to each other in the network pods must be, in tiers of HyperNodes (lower is nearer).
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::one_highest_tier()))]
pub struct NetworkTopologySpec {
    /// Whether the highest tier is a limit or a wish.
    #[serde(deserialize_with = "null_is_default")]
    pub mode: NetworkTopologyMode,
    /// The highest tier the pods may span, by number; excludes highestTierName.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::tier")]
    pub highest_tier_allowed: Option<i64>,
    /// The highest tier the pods may span, by name; excludes highestTierAllowed.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 253))]
    pub highest_tier_name: Option<String>,
}

open_enum! {
    /// Whether a network topology is a limit or a wish.
    #[derive(Default)]
    NetworkTopologyMode {
        /// Pods that would be farther apart wait.
        #[default]
        Hard = "hard",
        /// Pods may be farther apart where nothing else is free.
        Soft = "soft",
    }
}

/// What was observed of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// How far the group has come; absent means the same as Pending.
    #[serde(deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::or_empty::<PodGroupPhase>")]
    pub phase: Option<PodGroupPhase>,
    /// Why it is there: at most one of each type.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodGroupCondition>,
    // The counts are written even when zero: a merge patch must be able to bring them back to it.
    /// Pods that run.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub running: i32,
    /// Pods that ended well.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub failed: i32,
}

open_enum! {
    /// How far a PodGroup has come.
    PodGroupPhase {
        /// Accepted, but its queue has no room for it yet.
        Pending = "Pending",
        /// At least minMember pods have a node.
        Running = "Running",
        /// Some pods run while others that are needed have no place.
        Unknown = "Unknown",
        /// Its queue has room: its pods may be created and placed.
        Inqueue = "Inqueue",
        /// All its pods have ended.
        Completed = "Completed",
    }
}

/// One observation about a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// What the condition is about.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    #[schemars(with = "String")]
    pub type_: PodGroupConditionType,
    /// True, False or Unknown.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub status: String,
    /// The scheduling session that wrote the condition.
    #[serde(
        rename = "transitionID",
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub transition_id: String,
    /// When the condition was last written.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Time")]
    pub last_transition_time: Option<Time>,
    /// The cause in one word.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The cause for people.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "String::is_empty")]
    pub message: String,
}

open_enum! {
    /// What a PodGroup's condition is about.
    PodGroupConditionType {
        /// The group waits; reason and message say why.
        Unschedulable = "Unschedulable",
        /// The group has its nodes.
        Scheduled = "Scheduled",
    }
}

impl Default for PodGroupConditionType {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// Reasons of a PodGroup's conditions.
pub mod reasons {
    /// There is no room for the pods that are needed.
    pub const NOT_ENOUGH_RESOURCES: &str = "NotEnoughResources";
    /// Fewer pods exist than minMember asks for.
    pub const NOT_ENOUGH_TASKS: &str = "NotEnoughTasks";
    /// Fewer pods of a task exist than minTaskMember asks for.
    pub const NOT_ENOUGH_PODS_OF_TASK: &str = "NotEnoughPodsOfTask";
    /// A pod of the group failed.
    pub const POD_FAILED: &str = "PodFailed";
    /// A pod of the group was deleted.
    pub const POD_DELETED: &str = "PodDeleted";
    /// Reason text of the Scheduled condition.
    pub const TASKS_READY: &str = "tasks in gang are ready to be scheduled";
}
