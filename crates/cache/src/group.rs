//! PodGroups.

use std::sync::Arc;

use phalanx_api::v1beta1::{
    self, NetworkTopologyMode, NetworkTopologySpec, PodGroup, PodGroupCondition, PodGroupPhase, PodGroupSpec,
    PodGroupStatus, SubGroupPolicySpec, is_made_for_pods,
};
use phalanx_cluster::MAX_ROLES;
use phalanx_cluster::annotation;
use phalanx_cluster::diagnosis::{MESSAGE_MAX, clipped};
use phalanx_cluster::event::{
    Condition, GroupStatus, NetworkTopology, Phase, PodGroupInfo, Resources, SubGroupPolicy, TierLimit, Time,
};
use phalanx_cluster::label::Selector;

use crate::invalid::{At, Invalid};
use crate::pod::{Marks, created};
use crate::{Identity, Interner, Kind, Names, pdb, requests};

/// The number of conditions of a PodGroup that are kept besides the scheduler's.
const OTHERS_MAX: usize = 16;

/// The number of faults that a reason names, which is copied to each pod of a gang.
const FAULTS_MAX: usize = 3;

/// A PodGroup as the Cluster sees it. What cannot be honoured is left out and named in `invalid`.
pub fn pod_group(group: &PodGroup, names: &Names, interner: &mut Interner) -> PodGroupInfo {
    let identity = PodGroup::identity(&group.metadata, interner);
    reduce(group, &identity, names, interner)
}

/// A PodGroup of which everything can be honoured, or all that cannot.
///
/// # Errors
/// Each field that cannot be honoured.
pub fn sound_pod_group(
    group: &PodGroup,
    names: &Names,
    interner: &mut Interner,
) -> Result<PodGroupInfo, Vec<Invalid>> {
    let mut faults = Faults::default();
    let identity = PodGroup::identity(&group.metadata, interner);
    let group = parts(group, &identity, names, &mut faults, interner);
    faults.or(group)
}

pub(crate) fn reduce(
    group: &PodGroup,
    identity: &Identity,
    names: &Names,
    interner: &mut Interner,
) -> PodGroupInfo {
    let mut faults = Faults::default();
    let group = parts(group, identity, names, &mut faults, interner);
    PodGroupInfo { invalid: faults.text(), ..group }
}

fn parts(
    group: &PodGroup,
    identity: &Identity,
    names: &Names,
    faults: &mut Faults,
    interner: &mut Interner,
) -> PodGroupInfo {
    let PodGroup { metadata, spec, status } = group;
    let queue = Some(spec.queue.as_str()).filter(|queue| !queue.is_empty());
    let min_member = faults.count(spec.min_member, || "spec.minMember".to_owned());
    let min_task_member = minimums(spec, faults, interner);
    let sub_groups = sub_groups(spec, faults, interner);
    PodGroupInfo {
        key: identity.key.clone(),
        uid: Arc::clone(&identity.uid),
        version: metadata.resource_version.as_deref().unwrap_or_default().into(),
        created: created(metadata),
        queue: interner.string(queue.unwrap_or(&names.default_queue)),
        min_member,
        min_task_member,
        topology: spec.network_topology.as_ref().and_then(topology),
        sub_groups,
        min_resources: spec
            .min_resources
            .as_ref()
            .map(|list| faults.resources("spec.minResources", list, interner)),
        priority_class: spec.priority_class_name.as_deref().map(|name| interner.string(name)),
        preemptable: Marks(metadata).preemptable(),
        status: status.as_ref().map(|status| group_status(status, interner)).unwrap_or_default(),
        annotations: Marks(metadata).kept(&[annotation::OF_GROUPS], interner),
        made_for_pods: is_made_for_pods(metadata),
        controller: interner.controller(metadata),
        invalid: None,
        unsupported: None,
    }
}

/// `minTaskMember`, of which each role costs the scheduler a little in every look at the job.
fn minimums(spec: &PodGroupSpec, faults: &mut Faults, interner: &mut Interner) -> Vec<(Arc<str>, u32)> {
    faults.at_most(MAX_ROLES, "roles", spec.min_task_member.len(), "spec.minTaskMember");
    let roles = spec.min_task_member.iter().take(MAX_ROLES).map(|(role, &count)| {
        let count = faults.count(count, || format!("spec.minTaskMember.{role}"));
        (interner.string(role), count)
    });
    roles.collect()
}

/// A PodGroup of which only the metadata could be read.
pub(crate) fn undecodable(identity: &Identity, invalid: &Invalid, interner: &mut Interner) -> PodGroupInfo {
    PodGroupInfo {
        key: identity.key.clone(),
        uid: Arc::clone(&identity.uid),
        queue: interner.string(v1beta1::DEFAULT_QUEUE),
        invalid: Some(invalid.to_string().into()),
        ..PodGroupInfo::default()
    }
}

fn sub_groups(spec: &PodGroupSpec, faults: &mut Faults, interner: &mut Interner) -> Vec<SubGroupPolicy> {
    faults.at_most(MAX_ROLES, "entries", spec.sub_group_policy.len(), "spec.subGroupPolicy");
    let policies = spec.sub_group_policy.iter().take(MAX_ROLES).enumerate();
    policies.map(|(at, policy)| sub_group(policy, at, faults, interner)).collect()
}

fn sub_group(
    policy: &SubGroupPolicySpec,
    at: usize,
    faults: &mut Faults,
    interner: &mut Interner,
) -> SubGroupPolicy {
    let from = policy.label_selector.clone().unwrap_or_default();
    let field = format!("spec.subGroupPolicy[{at}].labelSelector");
    let selector = pdb::selector(&from, interner).at(&field).unwrap_or_else(|fault| {
        faults.note(fault);
        Selector::default()
    });
    SubGroupPolicy {
        name: policy.name.as_deref().unwrap_or_default().into(),
        selector,
        keys: policy.match_label_keys.iter().map(|key| interner.string(key)).collect(),
        size: observed(policy.sub_group_size).max(1),
        min: observed(policy.min_sub_groups),
        topology: policy.network_topology.as_ref().and_then(topology),
    }
}

/// As in Volcano, `hard` without a tier is no limit. A negative tier is below all others.
fn topology(spec: &NetworkTopologySpec) -> Option<NetworkTopology> {
    if spec.mode == NetworkTopologyMode::Soft {
        return Some(NetworkTopology::Soft);
    }
    let number = |tier: i64| TierLimit::Number(tier.clamp(0, i64::from(u32::MAX)) as u32);
    let number = spec.highest_tier_allowed.map(number);
    let name = || spec.highest_tier_name.as_deref().map(|name| TierLimit::Name(name.into()));
    number.or_else(name).map(NetworkTopology::Hard)
}

fn group_status(status: &PodGroupStatus, interner: &mut Interner) -> GroupStatus {
    GroupStatus {
        phase: status.phase.as_ref().map(phase).unwrap_or_default(),
        running: observed(status.running),
        succeeded: observed(status.succeeded),
        failed: observed(status.failed),
        conditions: conditions(&status.conditions, interner),
    }
}

/// The conditions, which are written again with each status: of those that others wrote, the last ones.
fn conditions(list: &[PodGroupCondition], interner: &mut Interner) -> Vec<Condition> {
    let is_ours = |one: &PodGroupCondition| {
        [Condition::UNSCHEDULABLE, Condition::SCHEDULED].contains(&one.type_.as_str())
    };
    let mut left_out = list.iter().filter(|one| !is_ours(one)).count().saturating_sub(OTHERS_MAX);
    let kept = list.iter().filter(|one| {
        let leave_out = !is_ours(one) && left_out > 0;
        left_out -= usize::from(leave_out);
        !leave_out
    });
    kept.map(|one| condition(one, interner)).collect()
}

/// A count that we write ourselves; nonsense is overwritten with the next status.
fn observed(count: i32) -> u32 {
    u32::try_from(count).unwrap_or_default()
}

pub(crate) fn phase(phase: &PodGroupPhase) -> Phase {
    match phase {
        PodGroupPhase::Inqueue => Phase::Inqueue,
        PodGroupPhase::Running => Phase::Running,
        PodGroupPhase::Unknown => Phase::Unknown,
        PodGroupPhase::Completed => Phase::Completed,
        PodGroupPhase::Pending | PodGroupPhase::Other(_) => Phase::Pending,
    }
}

fn condition(from: &PodGroupCondition, interner: &mut Interner) -> Condition {
    Condition {
        kind: interner.string(from.type_.as_str()),
        status: from.status == "True",
        reason: interner.string(&from.reason),
        message: clipped(&from.message, MESSAGE_MAX).into(),
        transition: from.transition_id.as_str().into(),
        since: Time(from.last_transition_time.as_ref().map_or(0, |time| time.0.as_millisecond())),
    }
}

/// Collects the problems of an object that is kept although some of its fields are invalid.
#[derive(Default)]
pub(crate) struct Faults(Vec<Invalid>);

impl Faults {
    pub(crate) fn note(&mut self, invalid: Invalid) {
        self.0.push(invalid);
    }

    /// A count, 0 when it is negative.
    pub(crate) fn count(&mut self, count: i32, field: impl FnOnce() -> String) -> u32 {
        u32::try_from(count).unwrap_or_else(|_| {
            let problem = format!("{count} is negative, expected 0 or more");
            self.note(Invalid { field: field(), problem });
            0
        })
    }

    /// A list or map of a bounded size.
    fn at_most(&mut self, most: usize, items: &str, found: usize, field: &str) {
        if found > most {
            let problem = format!("found {found} {items}, expected at most {most}");
            self.note(Invalid { field: field.to_owned(), problem });
        }
    }

    /// The amounts of a list that are right.
    pub(crate) fn resources(
        &mut self,
        field: &str,
        list: &v1beta1::ResourceList,
        interner: &mut Interner,
    ) -> Resources {
        let entries =
            list.iter().map(|(name, quantity)| requests::entry(name, quantity.0.parse(), interner).at(field));
        entries.filter_map(|entry| entry.map_err(|invalid| self.note(invalid)).ok()).collect()
    }

    /// The first of them, in the order of the fields, and how many others there are; `None` when nothing is wrong.
    pub(crate) fn text(self) -> Option<Arc<str>> {
        let others = self.0.len().saturating_sub(FAULTS_MAX);
        let others = (others > 0).then(|| format!("and {others} more"));
        let lines: Vec<String> =
            self.0.iter().take(FAULTS_MAX).map(ToString::to_string).chain(others).collect();
        (!lines.is_empty()).then(|| lines.join("; ").into())
    }

    /// The object that was read, unless something is wrong with it.
    pub(crate) fn or<T>(self, read: T) -> Result<T, Vec<Invalid>> {
        if self.0.is_empty() { Ok(read) } else { Err(self.0) }
    }
}
