//! How Kubernetes matches nodes: node selector terms, and tolerations with taints. Selectors of labels are in `label`.
//!
//! Source: Kubernetes' API documentation of NodeSelectorTerm and Toleration.
use std::cmp::Ordering;
use std::sync::Arc;

use crate::Node;
use crate::event::{NodeTerm, Operator, Taint, Toleration, TolerationOperator};

/// Whether any of the tolerations covers the taint.
pub fn tolerates(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| {
        toleration.effect.is_none_or(|effect| effect == taint.effect)
            && (toleration.key.is_empty() || toleration.key == taint.key)
            && covers_value(toleration, &taint.value)
    })
}

fn covers_value(toleration: &Toleration, value: &str) -> bool {
    match toleration.operator {
        TolerationOperator::Exists => true,
        TolerationOperator::Equal => *toleration.value == *value,
        TolerationOperator::Gt => compared(value, &toleration.value) == Some(Ordering::Greater),
        TolerationOperator::Lt => compared(value, &toleration.value) == Some(Ordering::Less),
    }
}

/// What is no integer is neither larger nor smaller. Source: Kubernetes' feature gate
/// TaintTolerationComparisonOperators.
fn compared(left: &str, right: &str) -> Option<Ordering> {
    Some(left.parse::<i64>().ok()?.cmp(&right.parse::<i64>().ok()?))
}

/// Whether a node matches all of a term. An empty term matches nothing.
pub fn node_term_matches(term: &NodeTerm, node: &Node) -> bool {
    if term.labels.is_empty() && term.fields.is_empty() {
        return false;
    }
    term.labels.iter().all(|requirement| requirement.holds(node.label(&requirement.key)))
        && term.fields.iter().all(|requirement| requirement.holds(field(node, &requirement.key)))
}

/// The first bound that is no integer. The API server admits such a term; it matches no node.
pub fn node_term_fault(terms: &[NodeTerm]) -> Option<Arc<str>> {
    let requirements = terms.iter().flat_map(|term| &term.labels);
    let mut bounds = requirements.filter(|one| matches!(one.operator, Operator::Gt | Operator::Lt));
    let one = bounds.find(|one| one.values.iter().any(|bound| bound.parse::<i64>().is_err()))?;
    let (key, operator, bound) = (&one.key, one.operator, one.values.first()?);
    Some(format!("required node affinity: {key} {operator:?} {bound:?}: expected an integer").into())
}

/// The only field Kubernetes lets a term name.
fn field<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    (key == "metadata.name").then_some(&*node.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Requirement;
    use crate::event::TaintEffect::{self, NoExecute, NoSchedule};

    #[test]
    fn a_toleration_covers_by_key_value_and_effect() {
        let taint = |value: &str| Taint { key: "gpu".into(), value: value.into(), effect: NoSchedule };
        let toleration = |key: &str, exists: bool, value: &str, effect: Option<TaintEffect>| Toleration {
            key: key.into(),
            operator: if exists { TolerationOperator::Exists } else { TolerationOperator::Equal },
            value: value.into(),
            effect,
        };
        for (toleration, expected) in [
            (toleration("gpu", true, "", None), true),
            (toleration("gpu", false, "a", Some(NoSchedule)), true),
            (toleration("gpu", false, "b", None), false),
            (toleration("", true, "", None), true),
            (toleration("gpu", true, "", Some(NoExecute)), false),
            (toleration("cpu", true, "", None), false),
        ] {
            assert_eq!(tolerates(std::slice::from_ref(&toleration), &taint("a")), expected, "{toleration:?}");
        }
        assert!(!tolerates(&[], &taint("a")));
    }

    #[test]
    fn integers_are_compared_as_such() {
        for (taint, operator, value, expected) in [
            ("950", TolerationOperator::Gt, "900", true),
            ("900", TolerationOperator::Gt, "900", false),
            ("1000", TolerationOperator::Lt, "900", false),
            ("-5", TolerationOperator::Lt, "0", true),
            ("high", TolerationOperator::Gt, "0", false),
            ("5", TolerationOperator::Lt, "many", false),
            ("", TolerationOperator::Lt, "1", false),
        ] {
            let taint = Taint { key: "sla".into(), value: taint.into(), effect: NoSchedule };
            let toleration = Toleration { key: "sla".into(), operator, value: value.into(), effect: None };
            let covered = tolerates(std::slice::from_ref(&toleration), &taint);
            assert_eq!(covered, expected, "{taint:?} {toleration:?}");
        }
    }

    fn node() -> Node {
        let labels = vec![("cores".into(), "32".into()), ("zone".into(), "a".into())];
        Node { name: "node-1".into(), labels, ..Node::default() }
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        Requirement {
            key: key.into(),
            operator,
            values: values.iter().map(|value| (*value).into()).collect(),
        }
    }

    #[test]
    fn each_operator_means_what_kubernetes_says() {
        use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
        for (key, operator, values, expected) in [
            ("zone", In, &["a", "b"][..], true),
            ("zone", In, &["b"], false),
            ("rack", In, &["a"], false),
            ("zone", NotIn, &["b"], true),
            ("zone", NotIn, &["a"], false),
            ("rack", NotIn, &["a"], true),
            ("zone", Exists, &[], true),
            ("rack", Exists, &[], false),
            ("rack", DoesNotExist, &[], true),
            ("zone", DoesNotExist, &[], false),
            ("cores", Gt, &["31"], true),
            ("cores", Gt, &["32"], false),
            ("cores", Lt, &["33"], true),
            ("zone", Gt, &["1"], false),
            ("cores", Gt, &["x"], false),
            ("rack", Lt, &["1"], false),
        ] {
            let term = NodeTerm { labels: vec![requirement(key, operator, values)], fields: vec![] };
            assert_eq!(node_term_matches(&term, &node()), expected, "{key} {operator:?} {values:?}");
        }
    }

    #[test]
    fn a_bound_that_is_no_integer_is_an_error() {
        for (operator, value, expected) in [
            (Operator::Gt, "few", Some("required node affinity: cores Gt \"few\": expected an integer")),
            (Operator::Lt, "1.5", Some("required node affinity: cores Lt \"1.5\": expected an integer")),
            (Operator::Lt, "-3", None),
            (Operator::In, "few", None),
        ] {
            let term = NodeTerm { labels: vec![requirement("cores", operator, &[value])], fields: vec![] };
            assert_eq!(node_term_fault(&[term]).as_deref(), expected);
        }
    }

    #[test]
    fn fields_and_labels_must_all_match_and_an_empty_term_matches_nothing() {
        let by_name = |name: &str| requirement("metadata.name", Operator::In, &[name]);
        let zone = requirement("zone", Operator::In, &["a"]);
        let term = |labels: Vec<Requirement>, fields| NodeTerm { labels, fields };
        assert!(node_term_matches(&term(vec![zone.clone()], vec![by_name("node-1")]), &node()));
        assert!(!node_term_matches(&term(vec![zone], vec![by_name("node-2")]), &node()));
        assert!(!node_term_matches(&term(vec![], vec![]), &node()));
    }
}
