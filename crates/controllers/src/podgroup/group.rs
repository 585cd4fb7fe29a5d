//! The PodGroup itself: what stands in it comes from the owner, and from the pod that stands for all.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_api::names;
use phalanx_api::v1beta1::{NetworkTopologySpec, PodGroup, PodGroupSpec, SubGroupPolicySpec};

use super::Observed;
use super::gang::Gang;
use super::pod::PlainPod;
use super::topology;
use crate::meta::map;
use crate::requests::times;

type Texts = BTreeMap<String, String>;

/// A PodGroup that is to be made.
pub(super) fn new(seen: &Observed<'_>, pod: &PlainPod, gang: &Gang) -> PodGroup {
    let queue = stated_queue(pod, gang).or(seen.queue).map(str::to_owned);
    let mut spec = PodGroupSpec::default();
    spec.queue = queue.unwrap_or(spec.queue);
    let metadata = ObjectMeta {
        name: Some(seen.name.to_owned()),
        namespace: Some(seen.namespace.to_owned()),
        owner_references: Some(vec![gang.owner.clone()]),
        ..ObjectMeta::default()
    };
    changed(seen, &PodGroup { metadata, spec, status: None }, pod, gang)
}

/// The PodGroup in step with its owner and the pod. What others add to it stays.
pub(super) fn changed(seen: &Observed<'_>, group: &PodGroup, pod: &PlainPod, gang: &Gang) -> PodGroup {
    let mut group = group.clone();
    let members = gang.minimum.members();
    group.spec.min_member = members;
    group.spec.min_resources = Some(times(&pod.requests, members));
    group.spec.priority_class_name = pod.priority_class.clone().filter(|name| !name.is_empty());
    if let Some(queue) = stated_queue(pod, gang) {
        queue.clone_into(&mut group.spec.queue);
    }
    group.spec.network_topology = network_topology(pod, gang).or(group.spec.network_topology);
    if !gang.sub_groups.is_empty() {
        group.spec.sub_group_policy.clone_from(&gang.sub_groups);
    }
    extend(&mut group.metadata.annotations, annotations(pod, gang));
    extend(&mut group.metadata.annotations, map([(names::MANAGED_BY, seen.scheduler)]));
    extend(&mut group.metadata.labels, only(&pod.labels, &[names::PREEMPTABLE, names::COOLDOWN_TIME]));
    group
}

/// That of the pod; Kueue's annotations are about the pods of one template, and so about a sub-group where all of these
/// are one.
fn network_topology(pod: &PlainPod, gang: &Gang) -> Option<NetworkTopologySpec> {
    let read = |key: &str| pod.annotations.get(key).map(String::as_str);
    let is_template =
        |it: &SubGroupPolicySpec| it.network_topology.is_some() && it.match_label_keys.is_empty();
    let of_templates = gang.sub_groups.iter().any(is_template);
    topology::volcanos(read).or_else(|| topology::kueues(read).filter(|_| !of_templates))
}

/// The queue that the pod names, or else its owner.
fn stated_queue<'a>(pod: &'a PlainPod, gang: &'a Gang) -> Option<&'a str> {
    let of = |all: &'a Texts| all.get(names::QUEUE_NAME_ANNOTATION).map(String::as_str);
    of(&pod.annotations).or_else(|| of(&gang.annotations)).filter(|name| !name.is_empty())
}

/// Those of the owner, and those of the pod, which go before.
fn annotations(pod: &PlainPod, gang: &Gang) -> Texts {
    let mut all = gang.annotations.clone();
    all.remove(names::QUEUE_NAME_ANNOTATION);
    all.extend(only(&pod.annotations, &[names::PREEMPTABLE, names::COOLDOWN_TIME, names::REVOCABLE_ZONE]));
    let budgets = [names::JDB_MIN_AVAILABLE, names::JDB_MAX_UNAVAILABLE];
    let budget = budgets.into_iter().find(|key| pod.annotations.contains_key(*key));
    all.extend(only(&pod.annotations, &[budget.unwrap_or_default()]));
    all
}

fn only(all: &Texts, keys: &[&str]) -> Texts {
    let found = keys.iter().filter_map(|key| all.get_key_value(*key));
    found.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn extend(all: &mut Option<Texts>, more: Texts) {
    if !more.is_empty() {
        all.get_or_insert_default().extend(more);
    }
}
