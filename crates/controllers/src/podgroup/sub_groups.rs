//! Sub-groups of the gang of a LeaderWorkerSet or a JobSet: their sizes stand in the object, and labels of the pods say to
//! which one a pod belongs.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use phalanx_api::v1beta1::SubGroupPolicySpec;
use serde_json::Value;

use super::owners::OwnerRow;
use super::topology;
use crate::meta::map;

const LEADER_WORKER_SET: &str = "leaderworkerset.x-k8s.io";
const JOB_SET: &str = "jobset.x-k8s.io";
/// A LeaderWorkerSet's label of pods: the number of the sub-group within the replica.
const SUB_GROUP_INDEX: &str = "leaderworkerset.sigs.k8s.io/subgroup-index";
/// A JobSet's labels of pods: the entry of `replicatedJobs`, and the number of the Job within it.
const REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";

/// Whether the workers of a LeaderWorkerSet are created once their leader runs, so that it cannot wait for them.
pub(super) fn leader_goes_ahead(row: &OwnerRow, object: &Value) -> bool {
    row.group() == LEADER_WORKER_SET && object["spec"]["startupPolicy"] == "LeaderReady"
}

/// The sub-groups of the pods of an owner.
pub(super) fn of(row: &OwnerRow, object: &Value) -> Vec<SubGroupPolicySpec> {
    match row.group() {
        LEADER_WORKER_SET => of_replica(&object["spec"]["leaderWorkerTemplate"]),
        JOB_SET => {
            let alone = jobs(object).count() == 1;
            jobs(object).filter_map(|entry| of_jobs(entry, alone)).collect()
        }
        _ => Vec::new(),
    }
}

fn jobs(set: &Value) -> impl Iterator<Item = &Value> {
    set["spec"]["replicatedJobs"].as_array().into_iter().flatten()
}

/// Where the leader is one too many for sub-groups of equal size, it belongs to the first one, unless the object keeps it
/// out.
fn of_replica(template: &Value) -> Vec<SubGroupPolicySpec> {
    let policy = &template["subGroupPolicy"];
    let (Some(size), pods) = (count(&policy["subGroupSize"]), count(&template["size"]).unwrap_or(1)) else {
        return Vec::new();
    };
    let slices = topology::of_slices(annotation(&template["workerTemplate"]), size);
    let of_size = |name: &str, size| SubGroupPolicySpec {
        name: Some(name.to_owned()),
        sub_group_size: size,
        network_topology: slices.clone(),
        match_label_keys: vec![SUB_GROUP_INDEX.to_owned()],
        ..SubGroupPolicySpec::default()
    };
    let with_leader = SubGroupPolicySpec {
        label_selector: Some(selector(SUB_GROUP_INDEX, "0")),
        ..of_size("subgroup-with-leader", size.saturating_add(1))
    };
    let has_leader = policy["subGroupPolicyType"] != "LeaderExcluded";
    let extra = has_leader && pods % size != 0 && (pods - 1) % size == 0;
    extra.then_some(with_leader).into_iter().chain([of_size("subgroup", size)]).collect()
}

/// Each Job is a sub-group; all Jobs of the entry are one where a topology is asked for its pods. Where a topology is asked
/// for slices too, and the entry is the only one, the topology of its pods is that of the gang.
fn of_jobs(entry: &Value, alone: bool) -> Option<SubGroupPolicySpec> {
    let name = entry["name"].as_str()?;
    let spec = &entry["template"]["spec"];
    let parallelism = count(&spec["parallelism"]).unwrap_or(1);
    let size = count(&spec["completions"]).map_or(parallelism, |completions| completions.min(parallelism));
    let of = annotation(&spec["template"]);
    let slices = topology::of_slices(&of, size);
    let all = topology::kueues(&of).filter(|_| !(alone && slices.is_some()));
    let (size, keys, network_topology) = match all {
        Some(all) => (size.saturating_mul(count(&entry["replicas"]).unwrap_or(1)), Vec::new(), Some(all)),
        None => (size, vec![JOB_INDEX.to_owned()], slices),
    };
    (size > 1 || network_topology.is_some()).then(|| SubGroupPolicySpec {
        name: Some(name.to_owned()),
        sub_group_size: size,
        network_topology,
        label_selector: Some(selector(REPLICATED_JOB, name)),
        match_label_keys: keys,
        ..SubGroupPolicySpec::default()
    })
}

fn count(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|count| i32::try_from(count).ok()).filter(|count| *count > 0)
}

/// Reads annotations of a pod template.
fn annotation<'a>(template: &'a Value) -> impl Fn(&str) -> Option<&'a str> {
    move |key| template["metadata"]["annotations"].get(key)?.as_str()
}

fn selector(label: &str, value: &str) -> LabelSelector {
    LabelSelector { match_labels: Some(map([(label, value)])), match_expressions: None }
}
