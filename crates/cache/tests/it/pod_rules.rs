//! Pod affinity, anti-affinity and topology spread.

use std::sync::Arc;

use phalanx_cluster::event::{Operator, PodRules, PodSelector, Requirement};

use crate::{object, pod, pod_spec, try_pod};

/// The rules of a pod of ours in namespace `team`, with labels `app: web` and `version: v1`.
fn rules(spec: &str) -> Arc<PodRules> {
    let spec = pod_spec(spec).replace(
        "metadata: {name: p}",
        "metadata: {name: p, namespace: team, labels: {app: web, version: v1}}",
    );
    pod(&spec).constraints.pod_rules.clone().expect("a pod with rules")
}

fn refused(spec: &str) -> String {
    try_pod(&pod_spec(spec)).expect_err(spec).to_string()
}

fn required(kind: &str, term: &str) -> String {
    format!("affinity: {{{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}")
}

fn spread(fields: &str) -> String {
    format!("topologySpreadConstraints: [{{topologyKey: zone, {fields}}}]")
}

/// `app in [web], version notin [v1]`.
fn shown(pods: &PodSelector) -> String {
    let one = |requirement: &Requirement| {
        let operator = format!("{:?}", requirement.operator).to_lowercase();
        format!("{} {operator} [{}]", requirement.key, requirement.values.join(", "))
    };
    let Some(selector) = &pods.labels else { return "none".into() };
    selector.0.iter().map(one).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_term_selects_pods_by_labels_and_namespaces() {
    for (term, namespaces, labels) in [
        ("{topologyKey: zone}", &["team"][..], "none"),
        ("{topologyKey: zone, labelSelector: {}}", &["team"], ""),
        ("{topologyKey: zone, labelSelector: {matchLabels: {app: web}}}", &["team"], "app in [web]"),
        (
            "{topologyKey: zone, labelSelector: {matchExpressions: [{key: a, operator: Exists}]}, namespaces: [b, a, b]}",
            &["a", "b"],
            "a exists []",
        ),
        ("{topologyKey: zone, namespaceSelector: {matchLabels: {env: prod}}}", &[], "none"),
        (
            "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version, none]}",
            &["team"],
            "app in [web], version in [v1]",
        ),
        (
            "{topologyKey: zone, labelSelector: {matchLabels: {app: web}}, mismatchLabelKeys: [version]}",
            &["team"],
            "app in [web], version notin [v1]",
        ),
    ] {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let rules = rules(&required(kind, term));
            let list = if kind == "podAffinity" { &rules.affinity } else { &rules.anti_affinity };
            assert_eq!(list.len(), 1, "{kind}: {term}");
            let pods = &list[0].pods;
            let names: Vec<&str> = pods.namespaces.iter().map(|name| &**name).collect();
            assert_eq!((names.as_slice(), shown(pods).as_str()), (namespaces, labels), "{kind}: {term}");
        }
    }
}

#[test]
fn preferred_terms_have_a_weight_which_is_negative_for_anti_affinity() {
    let list = "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, podAffinityTerm: {topologyKey: zone}}]";
    let rules = rules(&format!("affinity: {{podAffinity: {{{list}}}, podAntiAffinity: {{{list}}}}}"));
    let weights: Vec<i32> = rules.preferred.iter().map(|(weight, _)| *weight).collect();
    assert_eq!(weights, [7, -7]);
}

#[test]
fn spread_constraints_have_kubernetes_defaults() {
    let plain = &rules(&spread("maxSkew: 2, whenUnsatisfiable: DoNotSchedule")).spread[0];
    assert_eq!((plain.max_skew, plain.min_domains), (2, 1));
    assert_eq!((plain.required, plain.honor_affinity, plain.honor_taints), (true, true, false));
    assert_eq!(plain.term.pods.namespaces, [Arc::from("team")]);
    let all = &rules(&spread(
        "maxSkew: 1, whenUnsatisfiable: DoNotSchedule, minDomains: 3, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, \
         labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [version]",
    ))
    .spread[0];
    assert_eq!((all.min_domains, all.honor_affinity, all.honor_taints), (3, false, true));
    assert_eq!(shown(&all.term.pods), "app in [web], version in [v1]");
    let soft = &rules(&spread("maxSkew: 1, whenUnsatisfiable: ScheduleAnyway")).spread[0];
    assert!(!soft.required);
}

#[test]
fn an_invalid_rule_is_named_with_its_field() {
    let near = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]";
    let constraint = "spec.topologySpreadConstraints[0]";
    for (spec, expected) in [
        (required("podAffinity", "{topologyKey: ''}"), format!("{near}.topologyKey: empty, expected a label of nodes")),
        (
            required("podAffinity", "{topologyKey: a, labelSelector: {matchExpressions: [{key: a, operator: Near}]}}"),
            format!(
                "{near}.labelSelector.matchExpressions[0].operator: \"Near\" is unknown, expected In, NotIn, Exists or \
                 DoesNotExist"
            ),
        ),
        (
            required("podAffinity", "{topologyKey: a, namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}"),
            format!("{near}.namespaceSelector.matchExpressions[0].values: empty, expected at least one value"),
        ),
        (
            required("podAffinity", "{topologyKey: a, matchLabelKeys: [app]}"),
            format!("{near}.matchLabelKeys: expected only with a labelSelector"),
        ),
        (
            "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, \
             podAffinityTerm: {topologyKey: a}}]}}"
                .to_owned(),
            "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: 101 is out of range, \
             expected 1 to 100"
                .to_owned(),
        ),
        (
            spread("maxSkew: 0, whenUnsatisfiable: DoNotSchedule"),
            format!("{constraint}.maxSkew: 0 is out of range, expected 1 or more"),
        ),
        (
            spread("maxSkew: 1, whenUnsatisfiable: Perhaps"),
            format!("{constraint}.whenUnsatisfiable: \"Perhaps\" is unknown, expected DoNotSchedule or ScheduleAnyway"),
        ),
        (
            spread("maxSkew: 1, whenUnsatisfiable: ScheduleAnyway, minDomains: 2"),
            format!("{constraint}.minDomains: expected only with whenUnsatisfiable DoNotSchedule"),
        ),
        (
            spread("maxSkew: 1, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Obey"),
            format!("{constraint}.nodeTaintsPolicy: \"Obey\" is unknown, expected Honor or Ignore"),
        ),
        (
            required("podAntiAffinity", &vec!["{topologyKey: a}"; 65].join(", ")),
            "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution: found 65 items, expected at \
             most 64"
                .to_owned(),
        ),
        (
            format!("topologySpreadConstraints: [{}]", vec!["{}"; 65].join(", ")),
            "spec.topologySpreadConstraints: found 65 items, expected at most 64".to_owned(),
        ),
        (
            required("podAffinity", &naming(1_022)),
            "spec.affinity: found 1025 labels, values and namespaces in rules on other pods, expected at most 1024"
                .to_owned(),
        ),
    ] {
        assert_eq!(refused(&spec), expected);
    }
}

/// A term with a label of this many values, and two namespaces.
fn naming(values: usize) -> String {
    let values: Vec<String> = (0..values).map(|at| format!("v{at}")).collect();
    format!(
        "{{topologyKey: zone, namespaces: [a, b], labelSelector: {{matchExpressions: [{{key: app, operator: In, values: [{}]}}]}}}}",
        values.join(", ")
    )
}

/// Pods of others would come beside it.
#[test]
fn a_bound_pod_keeps_its_other_rules_where_some_are_too_many_or_too_long() {
    let bound = |spec: &str| {
        let pod =
            pod(&format!("metadata: {{name: p}}\nspec:\n  schedulerName: volcano\n  nodeName: n1\n  {spec}"));
        pod.constraints.pod_rules.clone().expect("rules").anti_affinity.len()
    };
    let terms = |count: usize| {
        let one =
            |at: usize| format!("{{topologyKey: zone, labelSelector: {{matchLabels: {{app: a{at}}}}}}}");
        (0..count).map(one).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(bound(&required("podAntiAffinity", &terms(64))), 64);
    assert_eq!(bound(&required("podAntiAffinity", &terms(65))), 64);
    assert_eq!(bound(&required("podAntiAffinity", &format!("{}, {{topologyKey: ''}}", terms(2)))), 2);
    let both = format!("{}, {}, {}", terms(1), naming(1_021), terms(1));
    assert_eq!(bound(&required("podAntiAffinity", &both)), 2, "the long one is left out");
    let fits = format!("{}, {}", terms(1), naming(1_018));
    assert_eq!(bound(&required("podAntiAffinity", &fits)), 2);
}

#[test]
fn anti_affinity_of_a_bound_pod_counts_and_its_spread_does_not() {
    let apart = required("podAntiAffinity", "{topologyKey: zone, labelSelector: {}}");
    let theirs =
        pod(&format!("metadata: {{name: p}}\nspec:\n  nodeName: n1\n  {apart}\n  {}", spread("maxSkew: 1")));
    let rules = theirs.constraints.pod_rules.clone().expect("rules of another scheduler's pod");
    assert_eq!((rules.anti_affinity.len(), rules.spread.len()), (1, 0), "how it was spread is past");
    let odd = required("podAntiAffinity", "{topologyKey: ''}");
    assert_eq!(pod(&pod_spec(&format!("{odd}\nnodeName: n1"))).constraints.pod_rules, None);
}

#[test]
fn a_namespace_has_a_label_with_its_name() {
    let namespace = object("metadata: {name: team, labels: {env: prod}}");
    let info = phalanx_cache::namespace(&namespace, &mut phalanx_cache::Interner::default());
    let labels: Vec<String> = info.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(
        (&*info.name, labels.join(" ").as_str()),
        ("team", "env=prod kubernetes.io/metadata.name=team")
    );
    let by_name = Requirement {
        key: "kubernetes.io/metadata.name".into(),
        operator: Operator::In,
        values: vec!["team".into()],
    };
    assert!(by_name.holds(info.labels.get("kubernetes.io/metadata.name")));
}
