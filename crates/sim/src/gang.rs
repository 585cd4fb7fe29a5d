//! PodGroups for the pods of a workload that states a minimum: by the function of the live controllers.
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use phalanx_api::names::GROUP_NAME_ANNOTATION;
use phalanx_controllers::podgroup::{Link, Minimum, Observed, Owner, OwnerTable, PlainPod, gang, reconcile};
use phalanx_controllers::{Change, Object};
use serde_json::{Value, json};

/// Puts the pods of a workload into a PodGroup, which is returned, where the workload states a minimum. Where it states
/// none, each pod would be a gang of one with a PodGroup as without. `reference` is what its pods say of it.
pub(crate) fn group(reference: &OwnerReference, owner: &Value, pods: &mut [Value]) -> Option<Value> {
    let table = OwnerTable::builtin();
    let row = &table.rows()[table.row_of(reference)?];
    let metadata: ObjectMeta = serde_json::from_value(owner["metadata"].clone()).ok()?;
    let namespace = metadata.namespace.clone().unwrap_or_default();
    let owner = Owner::of(&metadata, owner, row);
    if owner.minimum == Minimum::Unstated {
        return None;
    }
    let members: Vec<PlainPod> = pods.iter().map(|pod| member(pod, reference)).collect::<Option<_>>()?;
    let members: Vec<&PlainPod> = members.iter().filter(|pod| pod.group.is_none()).collect();
    let find = |pod: &PlainPod| gang(pod, |_: &OwnerReference| Link::Owner(&owner, row));
    let name = members.first().and_then(|pod| find(pod))?.name;
    let seen = Observed {
        namespace: &namespace,
        name: &name,
        members: &members,
        gang: &find,
        group: None,
        queue: None,
    };
    carry_out(reconcile(&seen).changes, pods)
}

/// Annotates the pods that join, and returns the PodGroup.
fn carry_out(changes: Vec<Change>, pods: &mut [Value]) -> Option<Value> {
    let (mut group, mut joined) = (None, BTreeMap::new());
    for change in changes {
        match change {
            Change::Create(Object::PodGroup(made)) => group = Some(manifest(&made)),
            Change::Join(pod, name) => {
                joined.insert(pod.name, name);
            }
            _ => {}
        }
    }
    for pod in pods {
        if let Some(name) = pod["metadata"]["name"].as_str().and_then(|name| joined.get(name)) {
            pod["metadata"]["annotations"][GROUP_NAME_ANNOTATION] = json!(name);
        }
    }
    group
}

fn member(pod: &Value, reference: &OwnerReference) -> Option<PlainPod> {
    let mut pod: Pod = serde_json::from_value(pod.clone()).ok()?;
    pod.metadata.owner_references = Some(vec![reference.clone()]);
    Some(PlainPod::from(&pod))
}

fn manifest(group: &phalanx_api::v1beta1::PodGroup) -> Value {
    let mut value = json!(group);
    value["apiVersion"] = json!(phalanx_api::v1beta1::API_VERSION);
    value["kind"] = json!("PodGroup");
    value
}
