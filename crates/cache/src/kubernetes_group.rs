//! Kubernetes' own PodGroups (`scheduling.k8s.io`), read as Volcano's.
//!
//! Their status has conditions only. The scheduler keeps phase and counts in the condition [`PHASE`], which it alone
//! writes and reads.

use std::sync::Arc;

use k8s_openapi::api::scheduling::v1alpha2::{PodGroup, PodGroupSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use phalanx_api::names::{self, KUBERNETES_POD_GROUP_PREFIX};
use phalanx_cluster::annotation;
use phalanx_cluster::diagnosis::{MESSAGE_MAX, clipped};
use phalanx_cluster::event::{
    self, Event, GroupStatus, NetworkTopology, Phase, PodGroupInfo, TierLimit, Time,
};

use crate::group::{Faults, phase};
use crate::pod::{Marks, created};
use crate::{Identity, Interner, Invalid, Kind, Names};

/// The type of the condition that says whether a PodGroup is placed.
pub const POD_GROUP_SCHEDULED: &str = "PodGroupScheduled";
/// The type of the condition with the phase, as reason, and the counts of pods.
pub const PHASE: &str = "scheduling.volcano.sh/Phase";

/// The message of condition [`PHASE`].
pub fn counts_text(status: &GroupStatus) -> String {
    let GroupStatus { running, succeeded, failed, .. } = status;
    format!("{running} running, {succeeded} succeeded, {failed} failed")
}

/// The counts in a message of condition [`PHASE`]; 0 for what is not there.
fn counts(text: &str) -> [u32; 3] {
    let mut numbers =
        text.split(", ").map(|part| part.split(' ').next().and_then(|count| count.parse().ok()));
    std::array::from_fn(|_| numbers.next().flatten().unwrap_or(0))
}

impl Kind for PodGroup {
    const NAMESPACED: bool = true;
    const PREFIX: &str = KUBERNETES_POD_GROUP_PREFIX;

    fn event(
        &self,
        identity: &Identity,
        names: &Names,
        interner: &mut Interner,
    ) -> Result<Option<Event>, Invalid> {
        Ok(Some(Event::PodGroup(Box::new(reduce(self, identity, names, interner)))))
    }

    fn gone(identity: &Identity) -> Event {
        Event::PodGroupGone(identity.key.clone())
    }
}

/// A PodGroup of Kubernetes as the Cluster sees it.
pub fn kubernetes_pod_group(group: &PodGroup, names: &Names, interner: &mut Interner) -> PodGroupInfo {
    let identity = PodGroup::identity(&group.metadata, interner);
    reduce(group, &identity, names, interner)
}

fn reduce(group: &PodGroup, identity: &Identity, names: &Names, interner: &mut Interner) -> PodGroupInfo {
    let PodGroup { metadata, spec, status } = group;
    let marks = Marks(metadata);
    let mut faults = Faults::default();
    let gang = spec.scheduling_policy.gang.as_ref();
    let conditions = status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let min_member = gang
        .map_or(1, |gang| faults.count(gang.min_count, || "spec.schedulingPolicy.gang.minCount".to_owned()));
    let queue = marks.annotation(names::QUEUE_NAME_ANNOTATION).unwrap_or(&names.default_queue);
    PodGroupInfo {
        key: identity.key.clone(),
        uid: Arc::clone(&identity.uid),
        version: metadata.resource_version.as_deref().unwrap_or_default().into(),
        created: created(metadata),
        queue: interner.string(queue),
        min_member,
        priority_class: spec.priority_class_name.as_deref().map(|name| interner.string(name)),
        topology: topology(spec),
        preemptable: marks.preemptable(),
        status: read_status(conditions, interner),
        annotations: marks.kept(&[annotation::OF_GROUPS], interner),
        controller: interner.controller(metadata),
        invalid: faults.text(),
        unsupported: unsupported(spec).text(),
        ..PodGroupInfo::default()
    }
}

fn topology_keys(spec: &PodGroupSpec) -> impl Iterator<Item = &str> {
    let constraints =
        spec.scheduling_constraints.iter().flat_map(|constraints| constraints.topology.iter().flatten());
    constraints.map(|constraint| constraint.key.as_str())
}

/// All pods on nodes with one value of a label. HyperNodes that are made of it have its key as the name of their tier.
fn topology(spec: &PodGroupSpec) -> Option<NetworkTopology> {
    topology_keys(spec).next().map(|key| NetworkTopology::Hard(TierLimit::Name(key.into())))
}

/// Requirements that are not supported: the group waits rather than start without them.
fn unsupported(spec: &PodGroupSpec) -> Faults {
    let mut faults = Faults::default();
    let mut refuse = |found: bool, field: &str, problem: &str| {
        if found {
            faults.note(Invalid { field: field.to_owned(), problem: problem.to_owned() });
        }
    };
    let keys = topology_keys(spec).count();
    refuse(
        keys > 1,
        "spec.schedulingConstraints.topology",
        &format!("found {keys} constraints, expected at most 1"),
    );
    let claims = spec.resource_claims.as_ref().is_some_and(|claims| !claims.is_empty());
    refuse(claims, "spec.resourceClaims", "not supported, expected none");
    refuse(
        spec.disruption_mode.as_deref() == Some("PodGroup"),
        "spec.disruptionMode",
        "PodGroup is not supported, expected Pod",
    );
    faults
}

fn read_status(conditions: &[Condition], interner: &mut Interner) -> GroupStatus {
    let of = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
    let kept = of(PHASE);
    let [running, succeeded, failed] = kept.map(|kept| counts(&kept.message)).unwrap_or_default();
    let scheduled = of(POD_GROUP_SCHEDULED).map(|found| scheduled(found, interner));
    GroupStatus {
        phase: kept.map_or(Phase::Pending, |kept| phase(&kept.reason.clone().into())),
        running,
        succeeded,
        failed,
        conditions: scheduled.into_iter().collect(),
    }
}

/// Condition `PodGroupScheduled` as one of Volcano's two.
fn scheduled(found: &Condition, interner: &mut Interner) -> event::Condition {
    let (kind, reason) = match found.status.as_str() {
        "True" => (event::Condition::SCHEDULED, event::Condition::SCHEDULED_REASON),
        _ => (event::Condition::UNSCHEDULABLE, found.reason.as_str()),
    };
    event::Condition {
        kind: interner.string(kind),
        status: true,
        reason: interner.string(reason),
        message: clipped(&found.message, MESSAGE_MAX).into(),
        transition: "".into(),
        since: Time(found.last_transition_time.0.as_millisecond()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_they_are_written() {
        let status = GroupStatus { running: 7, succeeded: 2, failed: 1, ..GroupStatus::default() };
        assert_eq!(counts(&counts_text(&status)), [7, 2, 1]);
        assert_eq!(counts("of another writer"), [0, 0, 0]);
    }
}
