//! ResourceQuotas, node groups of queues, and measured usage of nodes.

use phalanx_api::names;
use phalanx_api::v1beta1::Queue;
use phalanx_cache::{Fold, Interner, Names, WatchEvent, slim};
use phalanx_cluster::event::{Event, GroupLimits, Measure, QueueInfo, QuotaInfo, Time};

use crate::{object, pod, shown};

fn quota(yaml: &str) -> Option<QuotaInfo> {
    let quota: slim::ResourceQuota = object(yaml);
    phalanx_cache::quota(&quota, &mut Interner::default()).expect("a valid quota")
}

fn queue(yaml: &str) -> QueueInfo {
    let queue: Queue = object(yaml);
    phalanx_cache::queue(&queue, &mut Interner::default())
}

#[test]
fn a_quota_is_read_from_its_status_or_else_its_spec() {
    let metadata = "metadata: {name: q, namespace: team}\nspec: {hard: {cpu: 4, pods: 10}}";
    let new = quota(metadata).unwrap();
    assert_eq!(new.key.to_string(), "team/q");
    assert_eq!((shown(&new.hard), shown(&new.used)), ("cpu=4 pods=10".into(), String::new()));
    let seen = quota(&format!("{metadata}\nstatus: {{hard: {{cpu: 3}}, used: {{cpu: 1500m}}}}")).unwrap();
    assert_eq!((shown(&seen.hard), shown(&seen.used)), ("cpu=3".into(), "cpu=1500m".into()));
}

#[test]
fn quotas_with_scopes_are_left_to_the_api_server() {
    for spec in
        ["{hard: {cpu: 1}, scopes: [BestEffort]}", "{hard: {cpu: 1}, scopeSelector: {matchExpressions: []}}"]
    {
        assert_eq!(quota(&format!("metadata: {{name: q}}\nspec: {spec}")), None, "{spec}");
    }
    assert!(quota("metadata: {name: q}\nspec: {hard: {cpu: 1}, scopes: [], scopeSelector: null}").is_some());
}

#[test]
fn a_quota_that_gets_a_scope_is_gone_and_an_invalid_one_is_rejected() {
    let (mut fold, names, mut interner) = (Fold::new(), Names::default(), Interner::default());
    let mut folded = |yaml: &str| {
        let quota: slim::ResourceQuota = object(yaml);
        fold.fold(WatchEvent::Apply(quota), &names, &mut interner)
    };
    let plain = folded("metadata: {name: q, uid: u}\nspec: {hard: {cpu: 1}}");
    assert!(matches!(&plain.events[..], [Event::Quota(_)]));
    let scoped = folded("metadata: {name: q, uid: u}\nspec: {hard: {cpu: 1}, scopes: [Terminating]}");
    assert!(matches!(&scoped.events[..], [Event::QuotaGone(key)] if key.to_string() == "default/q"));
    let wrong = folded("metadata: {name: q, uid: u}\nspec: {hard: {cpu: much}}");
    assert_eq!(wrong.rejected.unwrap().invalid.field, "spec.hard.cpu");
}

#[test]
fn node_groups_of_a_queue_are_read_from_its_affinity() {
    assert_eq!(queue("metadata: {name: q}").node_groups, None);
    assert_eq!(
        queue("metadata: {name: q}\nspec: {affinity: {}}").node_groups,
        Some(phalanx_cluster::event::NodeGroups::default())
    );
    let groups = queue(
        "
metadata: {name: q}
spec:
  affinity:
    nodeGroupAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [a]
      preferredDuringSchedulingIgnoredDuringExecution: [c, b]
    nodeGroupAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution: [d]
      preferredDuringSchedulingIgnoredDuringExecution: [e]",
    )
    .node_groups
    .unwrap();
    let lists = [groups.required, groups.preferred, groups.anti_required, groups.anti_preferred];
    assert_eq!(lists.map(|list| list.join(" ")), ["a", "c b", "d", "e"]);
}

#[test]
fn limits_of_a_queue_by_node_group_are_read() {
    let limits = |text: &str| {
        let annotation = names::NODEGROUP_RESOURCE_LIMITS;
        match queue(&format!("metadata: {{name: q, annotations: {{{annotation}: '{text}'}}}}")).group_limits {
            GroupLimits::Each(list) => list
                .iter()
                .map(|(group, list)| format!("{group}: {}", shown(list)))
                .collect::<Vec<_>>()
                .join("; "),
            GroupLimits::Unreadable(why) => why.to_string(),
        }
    };
    assert_eq!(limits(""), "");
    assert_eq!(limits("{}"), "");
    assert_eq!(limits(r#"{"b": {"cpu": 10, "memory": "2G"}, "a": {}}"#), "a: ; b: cpu=10 memory=2G");
    let head = "metadata.annotations.volcano.sh/nodegroup-resource-limits: ";
    for (text, problem) in [
        ("ten", "expected a JSON object of resources by node group"),
        ("[]", "found a list, expected a mapping"),
        (r#"{"a": 5}"#, "a: found 5, expected a mapping"),
        (r#"{"a": {"cpu": "much"}}"#, "a.cpu: quantity \"much\""),
        (r#"{"a": {"cpu": -1}}"#, "a.cpu: -1 is negative, expected 0 or more"),
    ] {
        let told = limits(text);
        assert!(told.starts_with(head) && told.contains(problem), "{text}: {told}");
    }
    assert_eq!(
        queue("metadata: {name: q, annotations: {volcano.sh/nodegroup-resource-limits: x}}").invalid,
        None
    );
}

#[test]
fn usage_of_a_node_is_read_from_the_metrics_api() {
    let try_usage = |yaml: &str| {
        let metrics: slim::NodeMetrics = object(yaml);
        phalanx_cache::node_usage(&metrics, &mut Interner::default())
    };
    let good = "metadata: {name: n}\ntimestamp: 2026-11-01T10:00:30Z\nwindow: 20.5s\nusage: {cpu: 250m, memory: 1Gi}";
    let usage = try_usage(good).unwrap();
    assert_eq!(
        (&*usage.node, usage.since, usage.at),
        ("n", Time(1_793_527_209_500), Some(Time(1_793_527_230_000)))
    );
    let amount = |text: &str| Measure::Amount(text.parse().unwrap());
    assert_eq!((usage.cpu, usage.memory), (amount("250m"), amount("1Gi")));
    assert_eq!(try_usage(&good.replace("window: 20.5s\n", "")).unwrap().since, usage.at.unwrap());
    for (from, to, field) in [
        ("timestamp: 2026-11-01T10:00:30Z\n", "", "timestamp"),
        ("20.5s", "soon", "window"),
        ("cpu: 250m, ", "", "usage.cpu"),
        ("1Gi", "much", "usage.memory"),
    ] {
        assert_eq!(try_usage(&good.replace(from, to)).unwrap_err().field, field);
    }
}

#[test]
fn limits_of_containers_are_read_beside_their_requests() {
    let info = pod("
metadata: {name: p}
spec:
  containers:
  - {name: a, resources: {requests: {cpu: 1}, limits: {cpu: 2, memory: 1G, nvidia.com/gpu: 1}}}
  - {name: b}
  - {name: c, resources: {limits: {cpu: 1}}}");
    let limits: Vec<String> = info.requests.limits.iter().map(shown).collect();
    assert_eq!(limits, ["cpu=2 memory=1G", "cpu=1"]);
}
