//! Sets of values by key.
use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::hash::Hash;

use rustc_hash::FxHashMap;

use crate::event::{Operator, Requirement};
use crate::label::KeyValue;

/// A set of values for each key; keys without values are dropped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MultiMap<K: Eq + Hash, V>(FxHashMap<K, BTreeSet<V>>);

impl<K: Eq + Hash, V> Default for MultiMap<K, V> {
    fn default() -> Self {
        Self(FxHashMap::default())
    }
}

impl<K: Eq + Hash, V: Ord> MultiMap<K, V> {
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.0.entry(key).or_default().insert(value);
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized, W: Ord + ?Sized>(&mut self, key: &Q, value: &W)
    where
        K: Borrow<Q>,
        V: Borrow<W>,
    {
        if self.0.get_mut(key).is_some_and(|values| values.remove(value) && values.is_empty()) {
            self.0.remove(key);
        }
    }

    /// The values of a key, in order.
    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> impl Iterator<Item = &V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key).into_iter().flatten()
    }
}

/// Objects with selectors, found by a label that what they select must have: most selectors name one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SelectorIndex<I> {
    by_label: MultiMap<KeyValue, I>,
    /// Objects whose selectors name no label value.
    others: BTreeSet<I>,
}

impl<I> Default for SelectorIndex<I> {
    fn default() -> Self {
        Self { by_label: MultiMap::default(), others: BTreeSet::new() }
    }
}

/// The label values of which an object has to have one to be selected; `None` when the requirements name none.
pub(crate) fn needed_labels<'a>(
    mut requirements: impl Iterator<Item = &'a Requirement>,
) -> Option<impl Iterator<Item = KeyValue> + 'a> {
    let first = requirements.find(|requirement| requirement.operator == Operator::In)?;
    Some(first.values.iter().map(|value| (first.key.clone(), value.clone())))
}

impl<I: Ord + Clone> SelectorIndex<I> {
    pub(crate) fn insert<'a>(&mut self, requirements: impl Iterator<Item = &'a Requirement>, id: I) {
        match needed_labels(requirements) {
            Some(labels) => labels.for_each(|label| self.by_label.insert(label, id.clone())),
            None => _ = self.others.insert(id),
        }
    }

    pub(crate) fn remove<'a>(&mut self, requirements: impl Iterator<Item = &'a Requirement>, id: &I) {
        match needed_labels(requirements) {
            Some(labels) => labels.for_each(|label| self.by_label.remove(&label, id)),
            None => _ = self.others.remove(id),
        }
    }

    /// Objects that may select what has these labels, each once.
    pub(crate) fn may_select<'l>(
        &self,
        labels: impl Iterator<Item = &'l KeyValue>,
    ) -> impl Iterator<Item = &I> {
        labels.flat_map(|label| self.by_label.get(label)).chain(&self.others)
    }
}
