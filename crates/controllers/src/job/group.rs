//! The PodGroup of a Job.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use phalanx_api::batch::{API_VERSION, JobPhase, TaskSpec};
use phalanx_api::names;
use phalanx_api::v1beta1::{
    PodGroup, PodGroupCondition, PodGroupConditionType, PodGroupPhase, PodGroupSpec, SubGroupPolicySpec,
    reasons,
};

use super::JobView;
use super::requests::min_resources;
use super::status::is_live;
use crate::change::{Change, Kind, Object, Outcome, Target};
use crate::meta::{annotation, controller, map, text};

/// The name of the PodGroup that is there, or of that which is made.
pub(crate) fn name(view: &JobView<'_>) -> String {
    let metadata = &view.job.metadata;
    let own = || format!("{}-{}", text(metadata.name.as_ref()), text(metadata.uid.as_ref()));
    view.seen.group.and_then(|group| group.metadata.name.clone()).unwrap_or_else(own)
}

/// Makes the PodGroup or keeps it in step; returns whether pods may be made.
pub(crate) fn ensure(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    let spec = spec(view);
    let Some(group) = view.seen.group else {
        outcome.changes.push(Change::Create(Object::PodGroup(Box::new(new(view, spec)))));
        return false;
    };
    if group.metadata.deletion_timestamp.is_some() {
        return false;
    }
    if version(group).is_some_and(|version| version < view.status().version) {
        outcome.changes.push(Change::Delete(Target::of(Kind::PodGroup, &group.metadata)));
        return false;
    }
    // The queue of a job does not change, and what others add to the group stays.
    let spec = PodGroupSpec {
        queue: group.spec.queue.clone(),
        network_topology: group.spec.network_topology.clone(),
        ..spec
    };
    if spec != group.spec {
        let changed = PodGroup { spec, ..group.clone() };
        outcome.changes.push(Change::Replace(Object::PodGroup(Box::new(changed))));
    }
    let phase = group.status.as_ref().and_then(|status| status.phase.as_ref());
    phase.is_some_and(|phase| *phase != PodGroupPhase::Pending)
}

/// Tells why the PodGroup waits, in Volcano's words: by the newest condition, unless it has its nodes since.
pub(crate) fn tell(view: &JobView<'_>, outcome: &mut Outcome) {
    let status = view.seen.group.and_then(|group| group.status.as_ref());
    let conditions = status.into_iter().flat_map(|status| &status.conditions);
    let newest = conditions
        .filter(|one| one.status == "True")
        .max_by_key(|one| (one.last_transition_time.clone(), one.type_ == PodGroupConditionType::Scheduled));
    let waits =
        |one: &&PodGroupCondition| one.type_ != PodGroupConditionType::Scheduled && !is_of_no_pods(one);
    let Some(newest) = newest.filter(waits) else { return };
    let of = &view.job.metadata;
    let job = format!("{}:{}", text(of.namespace.as_ref()), text(of.name.as_ref()));
    let kind = newest.type_.to_string().to_lowercase();
    let message = format!("PodGroup {job} {kind}, reason: {}", newest.message);
    outcome.changes.push(view.note(true, "PodGroupPending", message));
}

/// The scheduler admitted the PodGroup and wrote that its pods are missing, before they could be made.
fn is_of_no_pods(condition: &PodGroupCondition) -> bool {
    let lacks_pods =
        matches!(&*condition.reason, reasons::NOT_ENOUGH_TASKS | reasons::NOT_ENOUGH_PODS_OF_TASK);
    lacks_pods && condition.message.starts_with("0/0 ")
}

/// Deletes the PodGroup of a job that makes no pods any more.
pub(crate) fn delete(view: &JobView<'_>, outcome: &mut Outcome) {
    let there = view.seen.group.filter(|group| group.metadata.deletion_timestamp.is_none());
    outcome.changes.extend(there.map(|group| Change::Delete(Target::of(Kind::PodGroup, &group.metadata))));
}

/// Writes into a PodGroup that Volcano made for which version of the job that was: for the last one, if the job
/// restarts. Returns whether there is one.
pub(crate) fn adopt(view: &JobView<'_>, outcome: &mut Outcome) -> bool {
    let stays = |group: &&PodGroup| is_live(view.phase()) && group.metadata.deletion_timestamp.is_none();
    let Some(group) = view.seen.group.filter(stays).filter(|group| version(group).is_none()) else {
        return false;
    };
    let mut group = group.clone();
    let version = view.status().version - i32::from(*view.phase() == JobPhase::Restarting);
    let annotations = group.metadata.annotations.get_or_insert_default();
    annotations.insert(names::JOB_VERSION.to_owned(), version.to_string());
    outcome.changes.push(Change::Replace(Object::PodGroup(Box::new(group))));
    true
}

/// The version of the job that it was made for.
pub(crate) fn version(group: &PodGroup) -> Option<i32> {
    annotation(&group.metadata, names::JOB_VERSION)?.parse().ok()
}

fn new(view: &JobView<'_>, spec: PodGroupSpec) -> PodGroup {
    let of = &view.job.metadata;
    let mut annotations = of.annotations.clone().unwrap_or_default();
    annotations.insert(names::JOB_VERSION.to_owned(), view.status().version.to_string());
    PodGroup {
        metadata: ObjectMeta {
            name: Some(name(view)),
            namespace: of.namespace.clone(),
            annotations: Some(annotations),
            labels: of.labels.clone(),
            owner_references: Some(vec![controller(API_VERSION, "Job", of)]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn spec(view: &JobView<'_>) -> PodGroupSpec {
    let spec = &view.job.spec;
    PodGroupSpec {
        min_member: spec.min_available,
        min_task_member: spec
            .tasks
            .iter()
            .map(|task| (task.name.clone(), task.min_available.unwrap_or(0)))
            .collect(),
        queue: spec.queue.clone(),
        priority_class_name: spec.priority_class_name.clone(),
        min_resources: Some(min_resources(&view.job, view.seen.priorities)),
        network_topology: spec.network_topology.clone(),
        sub_group_policy: spec.tasks.iter().filter_map(sub_group).collect(),
    }
}

fn sub_group(task: &TaskSpec) -> Option<SubGroupPolicySpec> {
    let policy = task.partition_policy.as_ref()?;
    let labels = map([(names::TASK_SPEC, &task.name)]);
    Some(SubGroupPolicySpec {
        name: Some(task.name.clone()),
        network_topology: policy.network_topology.clone(),
        sub_group_size: policy.partition_size,
        min_sub_groups: policy.min_partitions,
        label_selector: Some(LabelSelector { match_labels: Some(labels), match_expressions: None }),
        match_label_keys: vec![names::PARTITION_ID.to_owned()],
    })
}
