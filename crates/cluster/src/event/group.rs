//! A PodGroup and its status.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{ControllerRef, Key, Resources, Time};
use crate::annotation::Annotations;
use crate::label::Selector;

/// The phase of a PodGroup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[expect(missing_docs, reason = "Volcano's phases; an empty phase is read as Pending")]
pub enum Phase {
    #[default]
    Pending,
    Inqueue,
    Running,
    Unknown,
    Completed,
}

impl Phase {
    /// The text in the object's status.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Inqueue => "Inqueue",
            Phase::Running => "Running",
            Phase::Unknown => "Unknown",
            Phase::Completed => "Completed",
        }
    }
}

/// A condition of a PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// `Unschedulable` or `Scheduled`.
    pub kind: Arc<str>,
    /// Status True.
    pub status: bool,
    /// CamelCase reason.
    pub reason: Arc<str>,
    /// Message.
    pub message: Arc<str>,
    /// The cycle that set it (`transitionID`).
    pub transition: Arc<str>,
    /// When it was set.
    pub since: Time,
}

impl Condition {
    /// The type of a condition that says why a gang waits.
    pub const UNSCHEDULABLE: &str = "Unschedulable";
    /// The type of a condition that says that a gang is placed.
    pub const SCHEDULED: &str = "Scheduled";

    /// The reason of [`Self::SCHEDULED`], as Volcano writes it.
    pub const SCHEDULED_REASON: &str = "tasks in gang are ready to be scheduled";

    /// Whether the scheduler owns conditions of this type. Other writers own all others.
    pub fn is_own(kind: &str) -> bool {
        [Self::UNSCHEDULABLE, Self::SCHEDULED].contains(&kind)
    }
}

/// A PodGroup's status as far as the scheduler owns it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// Phase.
    pub phase: Phase,
    /// Running pods.
    pub running: u32,
    /// Pods that succeeded.
    pub succeeded: u32,
    /// Pods that failed.
    pub failed: u32,
    /// Conditions.
    pub conditions: Vec<Condition>,
}

/// How near to each other in the network pods must or should be (`networkTopology`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NetworkTopology {
    /// `mode: soft`: as near as there is room.
    Soft,
    /// `mode: hard`: in one HyperNode of this tier or a lower one. Without a tier, the mode is no limit.
    Hard(TierLimit),
}

/// The highest tier that pods may span.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TierLimit {
    /// `highestTierAllowed`.
    Number(u32),
    /// `highestTierName`: HyperNodes with this `tierName`, and those below them.
    Name(Arc<str>),
}

/// An entry of `subGroupPolicy`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubGroupPolicy {
    /// `name`.
    pub name: Arc<str>,
    /// `labelSelector`: the pods of the policy.
    pub selector: Selector,
    /// `matchLabelKeys`: pods with equal values of these labels are one sub-group.
    pub keys: Vec<Arc<str>>,
    /// `subGroupSize`.
    pub size: u32,
    /// `minSubGroups`; 0 when there is none.
    pub min: u32,
    /// `networkTopology` of each sub-group.
    pub topology: Option<NetworkTopology>,
}

/// A PodGroup.
#[derive(Clone, Debug, Default, PartialEq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupInfo {
    /// Name.
    pub key: Key,
    /// UID.
    pub uid: Arc<str>,
    /// The version of the object; empty when it is not known.
    pub version: Arc<str>,
    /// Creation.
    pub created: Time,
    /// Queue; `default` when none is given.
    pub queue: Arc<str>,
    /// `minMember`.
    pub min_member: u32,
    /// `minTaskMember`, by role.
    pub min_task_member: Vec<(Arc<str>, u32)>,
    /// `networkTopology`.
    pub topology: Option<NetworkTopology>,
    /// `subGroupPolicy`.
    pub sub_groups: Vec<SubGroupPolicy>,
    /// `minResources`; without it the group is always admitted.
    pub min_resources: Option<Resources>,
    /// `priorityClassName`.
    pub priority_class: Option<Arc<str>>,
    /// `volcano.sh/preemptable`, if it is set.
    pub preemptable: Option<bool>,
    /// The status on the object.
    pub status: GroupStatus,
    /// Annotations that plugins read.
    pub annotations: Annotations,
    /// A PodGroup controller created the group for a pod without one, or for the owner of such pods.
    pub made_for_pods: bool,
    /// Its controller, which only reports read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<Arc<ControllerRef>>,
    /// An invalid field: the group waits with this reason.
    pub invalid: Option<Arc<str>>,
    /// A valid field that is not supported: the group waits with this reason.
    pub unsupported: Option<Arc<str>>,
}

/// Identifies a PodGroup, also among groups of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRef {
    /// Its name.
    pub key: Key,
    /// Its UID.
    pub uid: Arc<str>,
}
