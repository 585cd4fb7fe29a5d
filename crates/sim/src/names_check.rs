//! Names and values that the API server refuses in labels, annotations, node selectors, taints and tolerations.
//!
//! Source: Kubernetes' validation (`ValidateTolerations`, `validateNodeTaints`).
use k8s_openapi::api::core::v1::{Taint, Toleration};
use phalanx_cache::{Invalid, slim};
use serde_json::Value;

/// Problems of the labels and annotations of an object.
pub(crate) fn metadata(object: &Value) -> Vec<Invalid> {
    let texts = |field: &str| object["metadata"][field].as_object().into_iter().flatten();
    let mut found = Vec::new();
    for (key, value) in texts("labels") {
        check_label(&format!("metadata.labels.{key}"), key, value.as_str().unwrap_or_default(), &mut found);
    }
    for (key, _) in texts("annotations") {
        check_key(&format!("metadata.annotations.{key}"), &key.to_lowercase(), &mut found);
    }
    found
}

/// Problems of tolerations and node selectors of a pod.
pub(crate) fn pod(spec: &slim::PodSpec) -> Vec<Invalid> {
    let mut found = Vec::new();
    for (key, value) in &spec.node_selector {
        check_label(&format!("spec.nodeSelector.{key}"), key, value, &mut found);
    }
    for (at, one) in spec.tolerations.iter().enumerate() {
        check_toleration(&format!("spec.tolerations[{at}]"), one, &mut found);
    }
    found
}

/// Problems of a node's taints.
pub(crate) fn taints(taints: &[Taint]) -> Vec<Invalid> {
    let mut found = Vec::new();
    for (at, taint) in taints.iter().enumerate() {
        check_key(&format!("spec.taints[{at}].key"), &taint.key, &mut found);
        check_value(
            &format!("spec.taints[{at}].value"),
            taint.value.as_deref().unwrap_or_default(),
            &mut found,
        );
        let same = |other: &Taint| (&other.key, &other.effect) == (&taint.key, &taint.effect);
        if taints[..at].iter().any(same) {
            let problem =
                format!("found {:?} with effect {} again, expected it once", taint.key, taint.effect);
            found.push(Invalid { field: format!("spec.taints[{at}].key"), problem });
        }
    }
    found
}

fn check_toleration(field: &str, one: &Toleration, found: &mut Vec<Invalid>) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, operator, value, effect) =
        (text(&one.key), text(&one.operator), text(&one.value), text(&one.effect));
    if !key.is_empty() {
        check_key(&format!("{field}.key"), &key, found);
    }
    match operator.as_str() {
        "Exists" if !value.is_empty() => {
            found.push(wrong(&format!("{field}.value"), &value, "expected none with operator Exists"));
        }
        "" | "Equal" => check_value(&format!("{field}.value"), &value, found),
        "Gt" | "Lt" if value.parse::<i64>().is_err() => {
            found.push(wrong(
                &format!("{field}.value"),
                &value,
                "expected an integer with operator Gt or Lt",
            ));
        }
        _ => {}
    }
    if one.toleration_seconds.is_some() && effect != "NoExecute" {
        let expected = "expected NoExecute beside tolerationSeconds";
        found.push(wrong(&format!("{field}.effect"), &effect, expected));
    }
}

fn check_label(field: &str, key: &str, value: &str, found: &mut Vec<Invalid>) {
    check_key(field, key, found);
    check_value(field, value, found);
}

fn check_key(field: &str, key: &str, found: &mut Vec<Invalid>) {
    found.extend(
        phalanx_cache::check_key(key).err().map(|wrong| Invalid { field: field.to_owned(), ..wrong }),
    );
}

fn check_value(field: &str, value: &str, found: &mut Vec<Invalid>) {
    found.extend(
        phalanx_cache::check_value(value).err().map(|wrong| Invalid { field: field.to_owned(), ..wrong }),
    );
}

fn wrong(field: &str, text: &str, expected: &str) -> Invalid {
    Invalid { field: field.to_owned(), problem: format!("found {text:?}, {expected}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(found: &[Invalid]) -> Vec<String> {
        found
            .iter()
            .map(|one| one.to_string().split(", expected").next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn labels_and_annotations_that_the_api_server_refuses_are_reported() {
        let long = "x".repeat(64);
        for (labels, annotations, expected) in [
            (
                json!({"app": "web", "a.b/c_d": "", "x": "A.b-C_9"}),
                json!({"Some.Domain/Key": "any thing"}),
                vec![],
            ),
            (json!({"app": "-web"}), json!({}), vec!["metadata.labels.app: found \"-web\""]),
            (json!({"app": "a b"}), json!({}), vec!["metadata.labels.app: found \"a b\""]),
            (
                json!({"-app": "x", "/b": "y"}),
                json!({}),
                vec!["metadata.labels.-app: found \"-app\"", "metadata.labels./b: found \"/b\""],
            ),
            (
                json!({"A.b/c": ""}),
                json!({"a/b/c": ""}),
                vec!["metadata.labels.A.b/c: found \"A.b/c\"", "metadata.annotations.a/b/c: found \"a/b/c\""],
            ),
            (
                json!({"app": long.clone()}),
                json!({}),
                vec![&*format!("metadata.labels.app: found {long:?}").leak()],
            ),
        ] {
            let object = json!({"metadata": {"labels": labels, "annotations": annotations}});
            assert_eq!(texts(&metadata(&object)), expected, "{object}");
        }
    }

    #[test]
    fn tolerations_and_node_selectors_that_the_api_server_refuses_are_reported() {
        for (spec, expected) in [
            (json!({"tolerations": [{"operator": "Exists"}, {"key": "a", "value": "b"}]}), vec![]),
            (
                json!({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}),
                vec!["spec.tolerations[0].value: found \"b\""],
            ),
            (
                json!({"tolerations": [{"key": "a!", "operator": "Exists"}]}),
                vec!["spec.tolerations[0].key: found \"a!\""],
            ),
            (
                json!({"tolerations": [{"key": "a", "value": "b c"}]}),
                vec!["spec.tolerations[0].value: found \"b c\""],
            ),
            (
                json!({"tolerations": [{"key": "a", "operator": "Gt", "value": "few"}]}),
                vec!["spec.tolerations[0].value: found \"few\""],
            ),
            (
                json!({"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]}),
                vec!["spec.tolerations[0].effect: found \"NoSchedule\""],
            ),
            (json!({"nodeSelector": {"zone": "a b"}}), vec!["spec.nodeSelector.zone: found \"a b\""]),
        ] {
            let found: slim::Pod = phalanx_cache::decode(&json!({"spec": spec})).expect("a pod");
            assert_eq!(texts(&pod(&found.spec)), expected, "{spec}");
        }
    }
}
