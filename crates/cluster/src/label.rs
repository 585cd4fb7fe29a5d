//! Labels of objects, and selectors on them.
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Operator, Requirement};

/// Key and value.
pub(crate) type KeyValue = (Arc<str>, Arc<str>);

/// Labels of one object, sorted by key. Objects without any cost no allocation, and equal ones can share theirs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Labels(Option<Arc<[KeyValue]>>);

impl Labels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let list = self.0.as_deref()?;
        let at = list.binary_search_by(|(name, _)| (**name).cmp(key)).ok()?;
        Some(&*list[at].1)
    }

    /// Keys and values, by key.
    pub fn iter(&self) -> impl Iterator<Item = &KeyValue> {
        self.0.iter().flat_map(|list| list.iter())
    }

    /// The labels whose keys pass `keep`.
    pub fn filtered(&self, keep: impl Fn(&Arc<str>) -> bool) -> Self {
        if self.iter().all(|(key, _)| keep(key)) {
            return self.clone();
        }
        self.iter().filter(|(key, _)| keep(key)).cloned().collect()
    }

    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// Of several values of a key the last one counts.
impl FromIterator<KeyValue> for Labels {
    fn from_iter<I: IntoIterator<Item = KeyValue>>(pairs: I) -> Self {
        let map: std::collections::BTreeMap<_, _> = pairs.into_iter().collect();
        if map.is_empty() { Self::default() } else { Self(Some(map.into_iter().collect())) }
    }
}

impl Requirement {
    /// Whether the value of the label will do; `None` when there is no such label.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let listed = |value: &str| self.values.iter().any(|wanted| **wanted == *value);
        match self.operator {
            Operator::In => value.is_some_and(listed),
            Operator::NotIn => !value.is_some_and(listed),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::Gt => self.numbers(value).is_some_and(|(value, bound)| value > bound),
            Operator::Lt => self.numbers(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    fn numbers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        let [bound] = self.values.as_slice() else { return None };
        Some((value?.parse().ok()?, bound.parse().ok()?))
    }
}

/// Pairs that are sorted by key already, none twice; so that equal lists can be held once.
impl From<Arc<[KeyValue]>> for Labels {
    fn from(pairs: Arc<[KeyValue]>) -> Self {
        Self(Some(pairs).filter(|pairs| !pairs.is_empty()))
    }
}

/// A label selector: all requirements must hold, and one without any matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Selector(pub Vec<Requirement>);

impl Selector {
    /// Whether labels match.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.matches_values(|key| labels.get(key))
    }

    /// Whether labels match that have these values.
    pub(crate) fn matches_values<'v>(&self, value_of: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(value_of(&requirement.key)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| (Arc::from(*key), Arc::from(*value))).collect()
    }

    fn requirement(key: &str, operator: Operator, values: &[&str]) -> Requirement {
        let values = values.iter().map(|value| Arc::from(*value)).collect();
        Requirement { key: key.into(), operator, values }
    }

    #[test]
    fn a_selector_matches_when_all_its_requirements_hold() {
        use Operator::{DoesNotExist, Exists, In, NotIn};
        let web = labels(&[("tier", "web"), ("app", "shop"), ("empty", "")]);
        for (list, expected) in [
            (vec![], true),
            (vec![requirement("app", In, &["shop", "other"])], true),
            (vec![requirement("app", In, &["shop"]), requirement("tier", In, &["db"])], false),
            (vec![requirement("app", NotIn, &["shop"])], false),
            (vec![requirement("none", NotIn, &["shop"])], true),
            (vec![requirement("empty", Exists, &[])], true),
            (vec![requirement("empty", In, &[""])], true),
            (vec![requirement("none", Exists, &[])], false),
            (vec![requirement("none", DoesNotExist, &[])], true),
        ] {
            assert_eq!(Selector(list.clone()).matches(&web), expected, "{list:?}");
        }
        assert!(Selector::default().matches(&Labels::default()));
    }

    #[test]
    fn labels_are_sorted_and_equal_ones_are_equal() {
        let one = labels(&[("b", "1"), ("a", "2")]);
        assert_eq!(one, labels(&[("a", "2"), ("b", "1")]));
        assert_eq!(one.iter().map(|(key, _)| &**key).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((one.get("a"), one.get("c"), one.is_empty()), (Some("2"), None, false));
        assert!(labels(&[]).is_empty());
    }
}
