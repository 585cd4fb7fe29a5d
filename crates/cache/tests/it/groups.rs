//! PodGroups and Queues.

use phalanx_api::v1beta1::{PodGroup, Queue};
use phalanx_cache::{Interner, Names};
use phalanx_cluster::event::{
    Dequeue, NetworkTopology, Phase, PodGroupInfo, QueueInfo, QueueState, SubGroupPolicy, TierLimit, Time,
};

use crate::{object, shown};

fn group(yaml: &str) -> PodGroupInfo {
    let group: PodGroup = object(yaml);
    phalanx_cache::pod_group(&group, &Names::default(), &mut Interner::default())
}

fn queue(yaml: &str) -> QueueInfo {
    let queue: Queue = object(yaml);
    phalanx_cache::queue(&queue, &mut Interner::default())
}

#[test]
fn all_fields_of_a_group_are_read() {
    let info = group(
        "
metadata:
  {name: g, namespace: team, uid: u, creationTimestamp: 2026-11-01T10:00:00Z, annotations: {volcano.sh/preemptable: 'true'}}
spec:
  minMember: 4
  minTaskMember: {ps: 1, worker: 3}
  queue: research
  priorityClassName: high
  minResources: {cpu: 8, nvidia.com/gpu: '4'}
status:
  phase: Inqueue
  running: 1
  succeeded: 2
  failed: 3
  conditions:
  - {type: Unschedulable, status: 'True', transitionID: s1, lastTransitionTime: 2026-11-01T10:00:00Z, reason: R, message: M}",
    );
    assert_eq!((info.key.to_string().as_str(), &*info.uid, &*info.queue), ("team/g", "u", "research"));
    assert_eq!((info.created, info.min_member, info.preemptable), (Time(1_793_527_200_000), 4, Some(true)));
    assert_eq!(info.min_task_member, [("ps".into(), 1), ("worker".into(), 3)]);
    assert_eq!(info.priority_class.as_deref(), Some("high"));
    assert_eq!(shown(&info.min_resources.unwrap()), "cpu=8 nvidia.com/gpu=4");
    assert_eq!(info.status.phase, Phase::Inqueue);
    assert_eq!((info.status.running, info.status.succeeded, info.status.failed), (1, 2, 3));
    let condition = &info.status.conditions[0];
    assert_eq!((&*condition.kind, condition.status, condition.since), ("Unschedulable", true, info.created));
    assert_eq!((&*condition.transition, &*condition.reason, &*condition.message), ("s1", "R", "M"));
    assert_eq!(info.invalid, None);
}

/// By name and owner, as Volcano's PodGroup controller makes it for a pod without one.
#[test]
fn a_group_that_a_controller_made_for_pods_is_known_by_its_name_and_owner() {
    let made_by = |version: &str, name: &str, controller: bool| {
        let owner =
            format!("{{apiVersion: {version}, kind: Owner, name: web, uid: u1, controller: {controller}}}");
        group(&format!("metadata: {{name: {name}, ownerReferences: [{owner}]}}")).made_for_pods
    };
    let made = |name: &str, controller: bool| made_by("apps/v1", name, controller);
    assert!(made("podgroup-u1", true));
    assert!(made("podgroup-u1-0", true), "a part of the owner's pods");
    assert!(!made_by("batch.volcano.sh/v1alpha1", "podgroup-u1", true), "of a Job with the name podgroup");
    assert!(!made("podgroup-u2", true), "another name");
    assert!(!made("u1", true), "Volcano's job controller names the Job first");
    assert!(!made("podgroup-u1", false));
    assert!(!group("metadata: {name: podgroup-u1}").made_for_pods, "made by hand");
}

#[test]
fn an_empty_group_has_defaults() {
    let info = group("metadata: {name: g}");
    assert_eq!((info.key.to_string().as_str(), &*info.queue, info.min_member), ("default/g", "default", 0));
    assert_eq!((info.min_resources, info.preemptable, info.invalid), (None, None, None));
    assert_eq!(info.status.phase, Phase::Pending);
    assert_eq!(group("status: {phase: Suspended}").status.phase, Phase::Pending);
}

#[test]
fn an_invalid_field_of_a_group_is_named_and_the_others_are_kept() {
    let info = group(
        "
metadata: {name: g}
spec: {minMember: -1, minTaskMember: {ps: -2, worker: 3}, minResources: {cpu: lots, memory: 1k}, queue: q}",
    );
    assert_eq!((&*info.queue, info.min_member), ("q", 0));
    assert_eq!(shown(&info.min_resources.unwrap()), "memory=1k");
    assert_eq!(
        info.invalid.as_deref(),
        Some(
            "spec.minMember: -1 is negative, expected 0 or more; \
             spec.minTaskMember.ps: -2 is negative, expected 0 or more; \
             spec.minResources.cpu: quantity \"lots\": expected a number such as \"2\", \"500m\" or \"1.5Gi\""
        )
    );
}

#[test]
fn a_group_has_at_most_256_roles_and_policies() {
    let roles = |count: usize| {
        let roles: Vec<String> = (0..count).map(|at| format!("role-{at}: 1")).collect();
        group(&format!("{{metadata: {{name: g}}, spec: {{minTaskMember: {{{}}}}}}}", roles.join(", ")))
    };
    assert_eq!((roles(256).min_task_member.len(), roles(256).invalid), (256, None));
    let expected = "spec.minTaskMember: found 10000 roles, expected at most 256";
    let found = roles(10_000);
    assert_eq!((found.min_task_member.len(), found.invalid.as_deref()), (256, Some(expected)));
    let policies = vec!["{name: p, minSubGroups: 1, matchLabelKeys: [a]}"; 257].join(", ");
    let found = group(&format!("{{metadata: {{name: g}}, spec: {{subGroupPolicy: [{policies}]}}}}"));
    let expected = "spec.subGroupPolicy: found 257 entries, expected at most 256";
    assert_eq!((found.sub_groups.len(), found.invalid.as_deref()), (256, Some(expected)));
}

/// The reason is copied to each pod of the gang.
#[test]
fn of_many_faults_the_first_are_named_and_long_ones_are_shortened() {
    let roles: Vec<String> = (0..200).map(|at| format!("r{at:03}: -1")).collect();
    let found =
        group(&format!("{{metadata: {{name: g}}, spec: {{minTaskMember: {{{}}}}}}}", roles.join(", ")));
    let fault = |at: usize| format!("spec.minTaskMember.r00{at}: -1 is negative, expected 0 or more");
    let expected = [fault(0), fault(1), fault(2), "and 197 more".to_owned()].join("; ");
    assert_eq!(found.invalid.as_deref(), Some(&*expected));
    let (long, amount) = ("n".repeat(1_000), "1".repeat(100_000));
    let spec = format!("{{minTaskMember: {{{long}: -1}}, minResources: {{cpu: '{amount}x'}}}}");
    let found = group(&format!("{{metadata: {{name: g}}, spec: {spec}}}")).invalid.expect("faults");
    assert!(found.len() < 2_500, "{} bytes", found.len());
    assert!(found.contains("expected 0 or more; spec.minResources.cpu: quantity \"111"), "{found}");
}

/// They are written again with each status.
#[test]
fn of_conditions_that_others_wrote_the_last_16_are_kept_and_long_messages_are_shortened() {
    let one = |kind: &str| format!("{{type: {kind}, status: 'True', message: '{}'}}", "m".repeat(50_000));
    let others = (0..40).map(|at| one(&format!("Other{at}")));
    let all: Vec<String> =
        std::iter::once(one("Unschedulable")).chain(others).chain([one("Scheduled")]).collect();
    let found = group(&format!("{{metadata: {{name: g}}, status: {{conditions: [{}]}}}}", all.join(", ")));
    let kinds: Vec<&str> = found.status.conditions.iter().map(|one| &*one.kind).collect();
    assert_eq!((kinds.len(), kinds[0], kinds[1], kinds[17]), (18, "Unschedulable", "Other24", "Scheduled"));
    assert!(found.status.conditions.iter().all(|one| one.message.len() == 1_024));
}

#[test]
fn all_fields_of_a_queue_are_read() {
    let info = queue(
        "
metadata: {name: q, creationTimestamp: 2026-11-01T10:00:00Z}
spec:
  weight: 3
  capability: {cpu: 10}
  deserved: {cpu: 5}
  guarantee: {resource: {cpu: 1}}
  reclaimable: false
  parent: root
  priority: 2
  dequeueStrategy: fifo
status: {state: Closing, allocated: {cpu: 500m}}",
    );
    assert_eq!((&*info.name, info.weight, info.reclaimable, &*info.parent), ("q", 3, false, "root"));
    assert_eq!((info.priority, info.state, info.created), (2, QueueState::Closing, Time(1_793_527_200_000)));
    assert_eq!(info.dequeue, Dequeue::Fifo);
    let lists = [&info.capability, &info.deserved, &info.guarantee, &info.allocated].map(shown);
    assert_eq!(lists, ["cpu=10", "cpu=5", "cpu=1", "cpu=500m"]);
    assert_eq!(info.invalid, None);
}

#[test]
fn an_empty_queue_has_defaults() {
    let info = queue("metadata: {name: q}");
    assert_eq!((info.weight, info.reclaimable, &*info.parent, info.state), (1, true, "", QueueState::Open));
    assert_eq!(queue("{spec: {weight: 0}, status: {state: ''}}").weight, 1);
    assert_eq!(queue("status: {state: Paused}").state, QueueState::Unknown);
    for (strategy, expected) in
        [("traverse", Dequeue::Traverse), ("", Dequeue::Traverse), ("fifo", Dequeue::Fifo)]
    {
        let info = queue(&format!("spec: {{dequeueStrategy: '{strategy}'}}"));
        assert_eq!((info.dequeue, info.invalid), (expected, None));
    }
}

#[test]
fn an_invalid_field_of_a_queue_is_named_and_the_others_are_kept() {
    let info = queue(
        "
metadata: {name: q}
spec: {weight: -3, capability: {cpu: -1, memory: 1k}, dequeueStrategy: lifo}
status: {allocated: {cpu: broken}}",
    );
    assert_eq!((info.weight, shown(&info.capability)), (1, "memory=1k".to_owned()));
    assert_eq!(
        info.invalid.as_deref(),
        Some(
            "spec.weight: -3 is negative, expected 1 or more; \
             spec.capability.cpu: -1 is negative, expected 0 or more; \
             spec.dequeueStrategy: \"lifo\": expected fifo or traverse"
        )
    );
}

#[test]
fn annotations_that_plugins_read_are_kept() {
    let info = group(
        "metadata: {name: g, annotations: {sla-waiting-time: 1h, volcano.sh/jdb-min-available: 50%, x: y}}",
    );
    let kept = ["sla-waiting-time", "volcano.sh/jdb-min-available", "x"].map(|key| info.annotations.get(key));
    assert_eq!(kept, [Some("1h"), Some("50%"), None]);
}

#[test]
fn a_network_topology_is_read() {
    let named = |name: &str| Some(NetworkTopology::Hard(TierLimit::Name(name.into())));
    let numbered = |tier| Some(NetworkTopology::Hard(TierLimit::Number(tier)));
    for (spec, expected) in [
        ("{highestTierAllowed: 1}", numbered(1)),
        ("{mode: hard, highestTierAllowed: 0}", numbered(0)),
        ("{mode: hard, highestTierName: rack}", named("rack")),
        ("{mode: hard, highestTierAllowed: 2, highestTierName: rack}", numbered(2)),
        ("{mode: hard}", None),
        ("{mode: soft}", Some(NetworkTopology::Soft)),
        ("{mode: soft, highestTierAllowed: 1}", Some(NetworkTopology::Soft)),
    ] {
        let info = group(&format!("{{metadata: {{name: g}}, spec: {{networkTopology: {spec}}}}}"));
        assert_eq!((info.topology, info.invalid, info.unsupported), (expected, None, None), "{spec}");
    }
}

#[test]
fn all_fields_of_a_sub_group_policy_are_read() {
    let info = group(
        "
metadata: {name: g}
spec:
  subGroupPolicy:
  - name: workers
    networkTopology: {highestTierName: rack}
    subGroupSize: 2
    minSubGroups: 3
    labelSelector: {matchLabels: {role: worker}, matchExpressions: [{key: zone, operator: Exists}]}
    matchLabelKeys: [volcano.sh/partition-id]
  - {}",
    );
    assert_eq!((&info.invalid, &info.unsupported, info.sub_groups.len()), (&None, &None, 2));
    let policy = &info.sub_groups[0];
    assert_eq!((&*policy.name, policy.size, policy.min), ("workers", 2, 3));
    assert_eq!(policy.keys, ["volcano.sh/partition-id".into()]);
    assert_eq!(policy.topology, Some(NetworkTopology::Hard(TierLimit::Name("rack".into()))));
    let label = |key: &str, value: &str| (key.into(), value.into());
    let zoned = |role: &str| [label("role", role), label("zone", "a")].into_iter().collect();
    assert_eq!(["worker", "ps"].map(|role| policy.selector.matches(&zoned(role))), [true, false]);
    assert_eq!(info.sub_groups[1], SubGroupPolicy { size: 1, ..SubGroupPolicy::default() });
}

#[test]
fn a_selector_of_a_sub_group_policy_that_cannot_be_read_is_named() {
    let info = group(
        "{metadata: {name: g}, spec: {minMember: 2, subGroupPolicy: [{}, {subGroupSize: 2, labelSelector: \
          {matchExpressions: [{key: zone, operator: Near}]}}]}}",
    );
    assert_eq!((info.min_member, info.sub_groups[1].size), (2, 2));
    assert_eq!(
        info.invalid.as_deref(),
        Some(
            "spec.subGroupPolicy[1].labelSelector.matchExpressions[0].operator: \"Near\" is unknown, \
             expected In, NotIn, Exists or DoesNotExist"
        )
    );
}
