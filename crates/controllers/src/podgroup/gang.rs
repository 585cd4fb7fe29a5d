//! To which gang a pod belongs: the highest owner in its chain of controllers that is listed and states a minimum;
//! where none does, its direct controller; without one, the pod itself.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use phalanx_api::names::QUEUE_NAME_ANNOTATION;
use phalanx_api::v1beta1::SubGroupPolicySpec;

use super::owners::{Minimum, Owner, OwnerRow};
use super::pod::PlainPod;
use crate::meta::suffix;

/// Owners of owners that are looked at: references may run in a circle.
const CHAIN_MAX: usize = 16;

/// A gang: the PodGroup to which a pod belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Gang {
    /// The name of the PodGroup.
    pub name: String,
    /// The owner of the PodGroup.
    pub owner: OwnerReference,
    /// What that owner states.
    pub minimum: Minimum,
    /// Annotations of that owner; where it names no queue, that of the nearest owner of the pod that does.
    pub annotations: BTreeMap<String, String>,
    /// Its sub-groups: those of that owner, or of one below it.
    pub sub_groups: Vec<SubGroupPolicySpec>,
}

/// What is known of an owner.
#[derive(Clone, Copy, Debug)]
pub enum Link<'a> {
    /// Its kind is not in the table, or not on the API server.
    Unlisted,
    /// Its kind is in the table, and the object is not known yet.
    Awaited,
    /// It is known.
    Owner(&'a Owner, &'a OwnerRow),
    /// It is a pod: that of Spark's driver owns those of the executors.
    Pod(&'a PlainPod),
}

/// The gang of a pod; nothing while one of its owners is awaited.
pub fn gang<'a>(pod: &PlainPod, find: impl Fn(&OwnerReference) -> Link<'a>) -> Option<Gang> {
    let Some(direct) = &pod.controller else { return Some(Gang::alone(pod)) };
    let mut best = Gang::of(direct, None, Minimum::Unstated, BTreeMap::new());
    let (mut next, mut queue, mut sub_groups) = (Some(direct.clone()), None, &Vec::new());
    for at in 0..CHAIN_MAX {
        let Some(reference) = next else { break };
        next = match find(&reference) {
            Link::Unlisted => None,
            Link::Awaited => return None,
            Link::Pod(owner) => owner.controller.clone(),
            Link::Owner(owner, row) => {
                queue = queue.or(owner.annotations.get(QUEUE_NAME_ANNOTATION));
                if sub_groups.is_empty() {
                    sub_groups = &owner.sub_groups;
                }
                if owner.minimum != Minimum::Unstated || at == 0 {
                    let part = row.per.as_ref().filter(|_| owner.minimum != Minimum::Unstated);
                    let part = part.and_then(|label| pod.labels.get(label));
                    let annotations = owner.annotations.clone();
                    best = Gang::of(&reference, part, owner.minimum.clone(), annotations);
                    best.sub_groups.clone_from(sub_groups);
                }
                owner.controller.clone()
            }
        };
    }
    if let Some(queue) = queue {
        best.annotations.entry(QUEUE_NAME_ANNOTATION.to_owned()).or_insert_with(|| queue.clone());
    }
    Some(best)
}

impl Gang {
    fn alone(pod: &PlainPod) -> Self {
        let itself = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            ..OwnerReference::default()
        };
        Self::of(&itself, None, Minimum::Unstated, BTreeMap::new())
    }

    fn of(
        owner: &OwnerReference,
        part: Option<&String>,
        minimum: Minimum,
        annotations: BTreeMap<String, String>,
    ) -> Self {
        let part = part.map(|value| format!("-{}", as_name(value))).unwrap_or_default();
        // To hold up the owner's deletion would ask for a right on each kind.
        let owner = OwnerReference { controller: Some(true), block_owner_deletion: None, ..owner.clone() };
        Self {
            name: format!("podgroup-{}{part}", owner.uid),
            owner,
            minimum,
            annotations,
            sub_groups: Vec::new(),
        }
    }
}

/// The value of a label as the end of a name: as it is where names allow that, or else a digest.
fn as_name(value: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if !value.is_empty() && value.chars().all(fits) { value.to_owned() } else { suffix(&[value]) }
}
