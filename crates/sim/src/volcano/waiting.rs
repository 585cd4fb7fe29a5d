//! Jobs of a cluster that wait for admission: their controller has made the PodGroup, and no pod yet.
use std::collections::BTreeSet;
use std::sync::Arc;

use phalanx_api::batch::{Job, JobPhase};
use phalanx_cluster::event::{Key, Phase};
use serde_json::Value;

use super::key;
use crate::manifests::{ControlledObject, Entry, Object};

/// Whether a Job may be one of them, by its status.
pub(crate) fn may_wait(status: &Value) -> bool {
    let counts = ["pending", "running", "succeeded", "failed", "terminating", "unknown"];
    status["state"]["phase"] == "Pending" && counts.iter().all(|of| status[of].as_i64().unwrap_or(0) == 0)
}

/// Keeps, of Jobs with a status, those whose PodGroup is there and Pending, and that have no pod. Their controller goes
/// on from there. Returns the names of the others.
pub(crate) fn keep_waiting(entries: &mut Vec<Entry>) -> BTreeSet<String> {
    let mut groups: BTreeSet<&Key> = BTreeSet::new();
    let mut owners: BTreeSet<(&str, &Arc<str>)> = BTreeSet::new();
    for entry in &*entries {
        match &entry.object {
            Object::PodGroup(group) if group.status.phase == Phase::Pending => {
                groups.insert(&group.key);
            }
            Object::Pod(pod) => {
                let owner = pod.info.controller.as_ref().filter(|owner| &*owner.kind == "Job");
                owners.extend(owner.map(|owner| (&*pod.info.pod.namespace, &owner.name)));
            }
            _ => {}
        }
    }
    let waits = |job: &Job| {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        let [namespace, name, uid] =
            [&job.metadata.namespace, &job.metadata.name, &job.metadata.uid].map(text);
        groups.contains(&Key::new(&namespace, &format!("{name}-{uid}")))
            && !owners.contains(&(namespace.as_str(), &Arc::from(name)))
    };
    let left = entries.iter().filter_map(|entry| of_cluster(&entry.object));
    let left: BTreeSet<String> = left.filter(|job| !waits(job)).map(|job| key(&job.metadata)).collect();
    entries.retain(|entry| of_cluster(&entry.object).is_none_or(|job| !left.contains(&key(&job.metadata))));
    left
}

fn of_cluster(object: &Object) -> Option<&Job> {
    let Object::Controlled(ControlledObject::Job(job)) = object else { return None };
    let phase = job.status.as_ref()?.state.phase.as_ref();
    Some(&**job).filter(|_| phase == Some(&JobPhase::Pending))
}
