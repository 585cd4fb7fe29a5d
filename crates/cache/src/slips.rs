//! Fields of a pod's spec that are valid and probably not meant.
use k8s_openapi::api::core::v1::{NodeSelectorTerm, PodAffinityTerm};

use phalanx_api::names::{GPU_MEMORY, GPU_NUMBER};

use crate::{Invalid, slim};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// All of it.
pub(crate) fn of_pod(spec: &slim::PodSpec) -> Vec<Invalid> {
    let mut found = empty_terms(spec);
    let affinity = &spec.affinity;
    let near = affinity.pod_affinity.required_during_scheduling_ignored_during_execution.as_deref();
    let apart = affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution.as_deref();
    found.extend(without_selector("podAffinity", near));
    found.extend(without_selector("podAntiAffinity", apart));
    let spread = spec.topology_spread_constraints.iter().enumerate();
    let spread = spread.filter(|(_, one)| one.label_selector.is_none());
    found.extend(spread.map(|(at, _)| no_selector(format!("spec.topologySpreadConstraints[{at}]"))));
    for (list, containers) in [("containers", &spec.containers), ("initContainers", &spec.init_containers)] {
        for (at, container) in containers.iter().enumerate() {
            let place = || format!("spec.{list}[{at}].resources");
            found.extend(parts_of_bytes(place, &container.resources));
        }
    }
    found.extend(shares_of_cards(spec));
    found
}

/// For a pending pod: its first request for a part or a number of cards.
fn shares_of_cards(spec: &slim::PodSpec) -> Option<Invalid> {
    let lists = [("containers", &spec.containers), ("initContainers", &spec.init_containers)];
    let containers =
        lists.into_iter().flat_map(|(list, all)| all.iter().enumerate().map(move |it| (list, it)));
    let asked = containers.flat_map(|(list, (at, container))| {
        let slim::Resources { requests, limits } = &container.resources;
        let both = [("requests", requests), ("limits", limits)];
        let names = both.into_iter().flat_map(|(of, amounts)| amounts.keys().map(move |name| (of, name)));
        names.map(move |(of, name)| (list, at, of, name))
    });
    let mut asked = asked.filter(|(.., name)| is_of_cards(name));
    let (list, at, of, name) = asked.next().filter(|_| spec.node_name.is_none())?;
    let field = format!("spec.{list}[{at}].resources.{of}.{name}");
    let problem = format!(
        "{name} counts as an amount of the node only: the cards are not looked at, and perhaps no single card has room for the pod"
    );
    Some(Invalid { field, problem })
}

/// Resources that Volcano's plugin deviceshare places card by card.
fn is_of_cards(resource: &str) -> bool {
    [GPU_MEMORY, GPU_NUMBER].contains(&resource) || resource.starts_with("volcano.sh/vgpu-")
}

/// As Kubernetes has it, a term that says nothing matches nothing.
fn empty_terms(spec: &slim::PodSpec) -> Vec<Invalid> {
    let required = &spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution;
    let terms = required.iter().flat_map(|selector| &selector.node_selector_terms).enumerate();
    let says_nothing = |term: &NodeSelectorTerm| {
        let (labels, fields) = (&term.match_expressions, &term.match_fields);
        labels.as_ref().is_none_or(Vec::is_empty) && fields.as_ref().is_none_or(Vec::is_empty)
    };
    let told = terms.filter(|(_, term)| says_nothing(term)).map(|(at, _)| Invalid {
        field: format!("spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{at}].matchExpressions"),
        problem: "found none, nor matchFields, so the term matches no node, expected either".to_owned(),
    });
    told.collect()
}

fn without_selector(of: &str, terms: Option<&[PodAffinityTerm]>) -> Vec<Invalid> {
    let terms = terms.unwrap_or_default().iter().enumerate();
    let terms = terms.filter(|(_, term)| term.label_selector.is_none());
    terms.map(|(at, _)| no_selector(format!("spec.affinity.{of}.{REQUIRED}[{at}]"))).collect()
}

fn no_selector(place: String) -> Invalid {
    let problem = "missing, so it means no pod, expected one such as matchLabels, or {} for all pods";
    Invalid { field: place + ".labelSelector", problem: problem.to_owned() }
}

/// `m` is a thousandth, not a million.
fn parts_of_bytes(place: impl Fn() -> String, of: &slim::Resources) -> Vec<Invalid> {
    let lists = [("requests", &of.requests), ("limits", &of.limits)];
    let amounts = lists.iter().flat_map(|(list, amounts)| amounts.iter().map(move |it| (list, it)));
    let bytes = |name: &str| matches!(name, "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    let told = amounts.filter_map(|(list, (name, amount))| {
        let amount =
            amount.0.as_ref().ok().filter(|amount| bytes(name) && amount.units() != amount.units_floor())?;
        let problem =
            format!("found {amount}, not a whole number of bytes, expected one such as 100M or 100Mi");
        Some(Invalid { field: format!("{}.{list}.{name}", place()), problem })
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_that_match_nothing_are_remarked_on() {
        let node = |terms| json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}});
        let pods = |selector| {
            let term = json!({"topologyKey": "zone", "labelSelector": selector});
            json!({"affinity": {"podAffinity": {REQUIRED: [term]}}})
        };
        let spread = |selector| {
            json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]})
        };
        let cards = |name: &str, node: &str| {
            let resources = json!({"limits": {"cpu": 1, name: 2}});
            json!({"nodeName": node, "containers": [{}, {"resources": resources}]})
        };
        let asks =
            |memory| json!({"containers": [{"resources": {"requests": {"memory": memory, "cpu": "100m"}}}]});
        for (spec, expected) in [
            (node(json!([{"matchExpressions": [{"key": "a", "operator": "Exists"}]}])), ""),
            (
                node(json!([{"matchFields": []}])),
                "nodeSelectorTerms[0].matchExpressions: found none, nor matchFields",
            ),
            (pods(json!({})), ""),
            (
                pods(json!(null)),
                "podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: missing",
            ),
            (spread(json!({})), ""),
            (
                spread(json!(null)),
                "spec.topologySpreadConstraints[0].labelSelector: missing, so it means no pod",
            ),
            (cards("nvidia.com/gpu", ""), ""),
            (cards("volcano.sh/gpu-number", "n1"), ""),
            (
                cards("volcano.sh/gpu-number", ""),
                "spec.containers[1].resources.limits.volcano.sh/gpu-number: volcano.sh/gpu-number counts as an amount of the node only",
            ),
            (cards("volcano.sh/gpu-memory", ""), "the cards are not looked at"),
            (cards("volcano.sh/vgpu-memory-percentage", ""), "the cards are not looked at"),
            (asks("100Mi"), ""),
            (asks("1.5Gi"), ""),
            (
                asks("100m"),
                "containers[0].resources.requests.memory: found 100m, not a whole number of bytes",
            ),
        ] {
            let pod: slim::Pod = crate::decode(&json!({"spec": spec})).expect("a pod");
            let found: Vec<String> = of_pod(&pod.spec).iter().map(ToString::to_string).collect();
            assert_eq!(found.len(), usize::from(!expected.is_empty()), "{spec}: {found:?}");
            assert!(found.join("").contains(expected), "{spec}: {found:?}");
        }
    }
}
