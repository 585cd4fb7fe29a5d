//! PodDisruptionBudgets: the pods that they select and the disruptions that they allow.

use phalanx_cache::{Interner, Invalid, slim};
use phalanx_cluster::event::{PdbInfo, Time};
use phalanx_cluster::label::Labels;

use crate::{object, pod};

fn try_pdb(yaml: &str) -> Result<PdbInfo, Invalid> {
    let pdb: slim::PodDisruptionBudget = object(yaml);
    phalanx_cache::pdb(&pdb, &mut Interner::default())
}

fn labels(text: &str) -> Labels {
    pod(&format!("metadata: {{name: p, labels: {text}}}")).labels
}

#[test]
fn a_budget_selects_pods_by_labels_and_expressions() {
    for (spec, shop, other) in [
        ("{}", None, None),
        ("{selector: null}", None, None),
        ("{selector: {}}", Some(true), Some(true)),
        ("{selector: {matchLabels: {app: shop}}}", Some(true), Some(false)),
        (
            "{selector: {matchExpressions: [{key: app, operator: NotIn, values: [shop]}]}}",
            Some(false),
            Some(true),
        ),
        (
            "{selector: {matchLabels: {app: shop}, matchExpressions: [{key: tier, operator: Exists}]}}",
            Some(false),
            Some(false),
        ),
        ("{selector: {matchExpressions: [{key: tier, operator: DoesNotExist}]}}", Some(true), Some(true)),
    ] {
        let pdb = try_pdb(&format!("metadata: {{name: b, namespace: team}}\nspec: {spec}")).unwrap();
        assert_eq!(pdb.key.to_string(), "team/b");
        let means = |text: &str| pdb.selector.as_ref().map(|selector| selector.matches(&labels(text)));
        assert_eq!((means("{app: shop, x: y}"), means("{app: blog}")), (shop, other), "{spec}");
    }
}

#[test]
fn disruptions_are_allowed_by_the_status_of_the_current_generation() {
    for (generation, status, expected) in [
        (1, "{disruptionsAllowed: 2, observedGeneration: 1}", 2),
        (2, "{disruptionsAllowed: 2, observedGeneration: 1}", 0),
        (1, "{disruptionsAllowed: -1, observedGeneration: 1}", 0),
        (1, "null", 0),
    ] {
        let yaml = format!("metadata: {{name: b, generation: {generation}}}\nstatus: {status}");
        assert_eq!(try_pdb(&yaml).unwrap().allowed, expected, "{generation} {status}");
    }
    // A manifest that never was on an API server has no generation.
    assert_eq!(try_pdb("metadata: {name: b}\nstatus: {disruptionsAllowed: 1}").unwrap().allowed, 1);
}

#[test]
fn eviction_of_unready_pods_follows_the_unhealthy_pod_eviction_policy() {
    for (policy, status, expected) in [
        ("AlwaysAllow", "null", true),
        ("AlwaysAllow", "{currentHealthy: 1, desiredHealthy: 2}", true),
        ("IfHealthyBudget", "{currentHealthy: 2, desiredHealthy: 2}", true),
        ("IfHealthyBudget", "{currentHealthy: 1, desiredHealthy: 2}", false),
        ("IfHealthyBudget", "{currentHealthy: 0, desiredHealthy: 0}", false),
        ("null", "{currentHealthy: 3, desiredHealthy: 2}", true),
        ("null", "null", false),
    ] {
        let spec = format!("{{selector: {{}}, unhealthyPodEvictionPolicy: {policy}}}");
        let pdb = try_pdb(&format!("metadata: {{name: b}}\nspec: {spec}\nstatus: {status}")).unwrap();
        assert_eq!(pdb.frees_unready, expected, "{policy} {status}");
    }
    let invalid = try_pdb("metadata: {name: b}\nspec: {unhealthyPodEvictionPolicy: Never}").unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "spec.unhealthyPodEvictionPolicy: \"Never\" is unknown, expected AlwaysAllow or IfHealthyBudget"
    );
    for (status, expected) in [
        ("{phase: Running}", false),
        ("{phase: Running, conditions: [{type: Ready, status: 'True'}]}", false),
        ("{phase: Running, conditions: [{type: Ready, status: 'False'}]}", true),
        ("{phase: Pending, conditions: [{type: Ready, status: 'False'}]}", false),
    ] {
        assert_eq!(
            pod(&format!("metadata: {{name: p}}\nstatus: {status}")).life.unready,
            expected,
            "{status}"
        );
    }
}

#[test]
fn a_selector_that_is_invalid_is_an_error_with_its_field() {
    for (expression, field) in [
        ("{key: a, operator: Like, values: [b]}", "operator"),
        ("{key: a, operator: In}", "values"),
        ("{key: a, operator: Exists, values: [b]}", "values"),
    ] {
        let yaml = format!("metadata: {{name: b}}\nspec: {{selector: {{matchExpressions: [{expression}]}}}}");
        let invalid = try_pdb(&yaml).unwrap_err();
        assert_eq!(invalid.field, format!("spec.selector.matchExpressions[0].{field}"), "{expression}");
    }
}

#[test]
fn labels_and_the_time_of_binding_of_a_pod_are_read() {
    assert!(labels("null").is_empty());
    let info = pod("
metadata: {name: p, labels: {b: '1', a: ''}}
status: {conditions: [{type: PodScheduled, status: 'True', lastTransitionTime: 2026-11-01T10:00:00Z}]}");
    assert_eq!((info.labels.get("a"), info.labels.get("b")), (Some(""), Some("1")));
    assert_eq!(info.life.scheduled, Some(Time(1_793_527_200_000)));
}

/// The time of the condition PodScheduled, or without it the start time that the kubelet wrote.
#[test]
fn the_time_of_binding_is_that_of_the_condition_or_else_of_the_kubelet() {
    let condition = |status: &str, more: &str| format!("{{type: PodScheduled, status: '{status}'{more}}}");
    let since = ", lastTransitionTime: 2026-11-01T10:00:00Z";
    for (conditions, expected) in [
        (condition("True", since), Some(1_793_527_200_000)),
        (condition("True", ""), Some(1_793_530_800_000)),
        (condition("False", since), None),
        (String::new(), Some(1_793_530_800_000)),
    ] {
        let status = format!("{{startTime: 2026-11-01T11:00:00Z, conditions: [{conditions}]}}");
        let found = pod(&format!("metadata: {{name: p}}\nstatus: {status}")).life.scheduled;
        assert_eq!(found, expected.map(Time), "{status}");
    }
    assert_eq!(pod("metadata: {name: p}").life.scheduled, None);
}
