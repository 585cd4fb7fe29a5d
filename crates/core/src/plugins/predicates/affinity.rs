//! Node selector terms. Source: Kubernetes' API documentation of NodeSelectorTerm.
use std::sync::Arc;

use crate::event::{NodeTerm, Operator, Requirement};
use crate::plugin::{Attribute, Values};
use crate::world::Node;

/// Whether a node matches all of a term. An empty term matches nothing.
pub(crate) fn matches(term: &NodeTerm, node: &Node) -> bool {
    if term.labels.is_empty() && term.fields.is_empty() {
        return false;
    }
    term.labels.iter().all(|requirement| meets(requirement, node.label(&requirement.key)))
        && term.fields.iter().all(|requirement| meets(requirement, field(node, &requirement.key)))
}

/// The first of what the API server lets pass, and nobody can read: a bound that is no integer. Such a term matches no node.
pub(super) fn fault(terms: &[NodeTerm]) -> Option<Arc<str>> {
    let requirements = terms.iter().flat_map(|term| &term.labels);
    let mut bounds = requirements.filter(|one| matches!(one.operator, Operator::Gt | Operator::Lt));
    let one = bounds.find(|one| one.values.iter().any(|bound| bound.parse::<i64>().is_err()))?;
    let (key, operator, bound) = (&one.key, one.operator, one.values.first()?);
    Some(format!("required node affinity: {key} {operator:?} {bound:?}: expected an integer").into())
}

/// What [`matches`] reads of a node.
pub(crate) fn reads(term: &NodeTerm) -> impl Iterator<Item = (Attribute, Values)> + '_ {
    let label = |requirement: &Requirement| Attribute::Label(requirement.key.clone());
    let labels = term.labels.iter().map(move |requirement| (label(requirement), values(requirement)));
    labels.chain(term.fields.iter().map(|requirement| (Attribute::Name, values(requirement))))
}

fn values(requirement: &Requirement) -> Values {
    match requirement.operator {
        Operator::In | Operator::NotIn => Values::These(requirement.values.clone()),
        Operator::Exists | Operator::DoesNotExist => Values::These(Vec::new()),
        Operator::Gt | Operator::Lt => Values::All,
    }
}

/// The only field Kubernetes lets a term name.
fn field<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    (key == "metadata.name").then_some(&*node.name)
}

fn meets(requirement: &Requirement, value: Option<&str>) -> bool {
    let listed = |value: &str| requirement.values.iter().any(|wanted| **wanted == *value);
    match requirement.operator {
        Operator::In => value.is_some_and(listed),
        Operator::NotIn => !value.is_some_and(listed),
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
        Operator::Gt => numbers(requirement, value).is_some_and(|(value, bound)| value > bound),
        Operator::Lt => numbers(requirement, value).is_some_and(|(value, bound)| value < bound),
    }
}

fn numbers(requirement: &Requirement, value: Option<&str>) -> Option<(i64, i64)> {
    let [bound] = requirement.values.as_slice() else { return None };
    Some((value?.parse().ok()?, bound.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(matches(&term, &node()), expected, "{key} {operator:?} {values:?}");
        }
    }

    #[test]
    fn a_bound_that_is_no_integer_is_told() {
        for (operator, value, expected) in [
            (Operator::Gt, "few", Some("required node affinity: cores Gt \"few\": expected an integer")),
            (Operator::Lt, "1.5", Some("required node affinity: cores Lt \"1.5\": expected an integer")),
            (Operator::Lt, "-3", None),
            (Operator::In, "few", None),
        ] {
            let term = NodeTerm { labels: vec![requirement("cores", operator, &[value])], fields: vec![] };
            assert_eq!(fault(&[term]).as_deref(), expected);
        }
    }

    #[test]
    fn fields_and_labels_must_all_match_and_an_empty_term_matches_nothing() {
        let by_name = |name: &str| requirement("metadata.name", Operator::In, &[name]);
        let zone = requirement("zone", Operator::In, &["a"]);
        let term = |labels: Vec<Requirement>, fields| NodeTerm { labels, fields };
        assert!(matches(&term(vec![zone.clone()], vec![by_name("node-1")]), &node()));
        assert!(!matches(&term(vec![zone], vec![by_name("node-2")]), &node()));
        assert!(!matches(&term(vec![], vec![]), &node()));
    }
}
