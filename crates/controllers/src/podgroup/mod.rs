//! The PodGroup controller: makes PodGroups for pods without one, and puts the pods into them.
//!
//! One PodGroup is reconciled with its *members*: the pods that name it, and those without a name that belong to it.

mod gang;
mod group;
mod owners;
mod pod;
mod sub_groups;
mod topology;

use phalanx_api::names::MANAGED_BY;
use phalanx_api::v1beta1::{PodGroup, is_made_for_pods};

use crate::change::{Change, Kind, Note, Object, Outcome, Target};
use crate::meta::annotation;

pub use gang::{Gang, Link, gang};
pub use owners::{Minimum, Owner, OwnerRow, OwnerTable};
pub use pod::PlainPod;

/// A PodGroup and what it depends on.
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "a function has none")]
pub struct Observed<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The pods that name it, and those without a name that belong to it.
    pub members: &'a [&'a PlainPod],
    /// Where a pod belongs; nothing while one of its owners is not known.
    pub gang: &'a dyn Fn(&PlainPod) -> Option<Gang>,
    /// The PodGroup, if it is there.
    pub group: Option<&'a PodGroup>,
    /// The scheduler of the pods that are seen; where it has several names, the first.
    pub scheduler: &'a str,
    /// The queue that the annotation of the namespace names.
    pub queue: Option<&'a str>,
}

/// Reconciles a PodGroup.
pub fn reconcile(seen: &Observed<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let there = match seen.group {
        Some(group) if group.metadata.deletion_timestamp.is_some() => false,
        Some(group) if !is_made_for_pods(&group.metadata) => true,
        Some(group) => keep(seen, group, &mut outcome),
        None => make(seen, &mut outcome),
    };
    if there {
        let lack = seen.members.iter().filter(|pod| pod.group.is_none() && !pod.ended);
        outcome.changes.extend(lack.map(|pod| Change::Join(target(seen, pod), seen.name.to_owned())));
    }
    outcome
}

/// Makes the PodGroup if a pod belongs to it; returns whether it is there then.
fn make(seen: &Observed<'_>, outcome: &mut Outcome) -> bool {
    let Some((pod, gang)) = model(seen) else { return false };
    outcome.changes.push(Change::Create(Object::PodGroup(Box::new(group::new(seen, pod, &gang)))));
    note(seen, pod, &gang, outcome);
    true
}

/// Keeps the PodGroup in step with its owner and pods, or deletes it; returns whether pods may join it.
fn keep(seen: &Observed<'_>, group: &PodGroup, outcome: &mut Outcome) -> bool {
    if seen.members.is_empty() {
        // The pods of another scheduler are not seen.
        if annotation(&group.metadata, MANAGED_BY) == Some(seen.scheduler) {
            outcome.changes.push(Change::Delete(Target::of(Kind::PodGroup, &group.metadata)));
        }
        return false;
    }
    if let Some((pod, gang)) = model(seen) {
        let changed = group::changed(seen, group, pod, &gang);
        if changed != *group {
            outcome.changes.push(Change::Replace(Object::PodGroup(Box::new(changed))));
            note(seen, pod, &gang, outcome);
        }
    }
    true
}

/// The pod that stands for all: the oldest one that has not ended. A pod may name a PodGroup to which it does not
/// belong by its owners.
fn model<'a>(seen: &Observed<'a>) -> Option<(&'a PlainPod, Gang)> {
    let mut pods: Vec<&PlainPod> = seen.members.iter().copied().filter(|pod| !pod.ended).collect();
    pods.sort_by_key(|pod| (pod.created_at, &pod.name));
    let own = |pod| Some((pod, (seen.gang)(pod).filter(|gang| gang.name == seen.name)?));
    pods.into_iter().find_map(own)
}

/// Tells the pod that its owner states a minimum that is none.
fn note(seen: &Observed<'_>, pod: &PlainPod, gang: &Gang, outcome: &mut Outcome) {
    let Minimum::Invalid(problem) = &gang.minimum else { return };
    let owner = &gang.owner;
    let message = format!("{} {}: {problem}, so minMember is 1", owner.kind, owner.name);
    let on = target(seen, pod);
    outcome.changes.push(Change::Note(Note { on, warning: true, reason: "InvalidMinMember", message }));
}

fn target(seen: &Observed<'_>, pod: &PlainPod) -> Target {
    Target {
        kind: Kind::Pod,
        namespace: seen.namespace.to_owned(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        foreground: false,
    }
}
