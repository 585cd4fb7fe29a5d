//! All PodDisruptionBudgets, found by a label that their pods must have: a namespace may have thousands.
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::pdb::Pdb;
use crate::event::{Key, Operator, Requirement};
use crate::label::Labels;

/// The PodDisruptionBudgets of a namespace that select pods.
#[derive(Clone, Debug, Default, PartialEq)]
struct OfNamespace {
    /// By key and value of a label that a pod must have.
    by_label: FxHashMap<Arc<str>, FxHashMap<Arc<str>, BTreeSet<Key>>>,
    /// Budgets whose selector names no label value.
    others: BTreeSet<Key>,
}

/// All PodDisruptionBudgets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pdbs {
    known: BTreeMap<Key, Pdb>,
    namespaces: FxHashMap<Arc<str>, OfNamespace>,
}

/// The requirement of a selector that names values of a label.
fn anchor(pdb: &Pdb) -> Option<&Requirement> {
    pdb.selector.as_ref()?.0.iter().find(|requirement| requirement.operator == Operator::In)
}

impl Pdbs {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Takes one in. True when it differs from what was known.
    pub(super) fn insert(&mut self, key: Key, pdb: Pdb) -> bool {
        if self.known.get(&key) == Some(&pdb) {
            return false;
        }
        self.remove(&key);
        if pdb.selector.is_some() {
            self.index(&key, &pdb);
        }
        self.known.insert(key, pdb);
        true
    }

    fn index(&mut self, key: &Key, pdb: &Pdb) {
        let of = self.namespaces.entry(key.namespace.clone()).or_default();
        let Some(anchor) = anchor(pdb) else {
            of.others.insert(key.clone());
            return;
        };
        let by_value = of.by_label.entry(anchor.key.clone()).or_default();
        for value in &anchor.values {
            by_value.entry(value.clone()).or_default().insert(key.clone());
        }
    }

    /// Forgets one. True when there was one.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        let Some(pdb) = self.known.remove(key) else { return false };
        let Some(of) = self.namespaces.get_mut(&key.namespace) else { return true };
        of.others.remove(key);
        if let Some((anchor, by_value)) =
            anchor(&pdb).and_then(|anchor| Some((anchor, of.by_label.get_mut(&anchor.key)?)))
        {
            for value in &anchor.values {
                if by_value.get_mut(value).is_some_and(|keys| keys.remove(key) && keys.is_empty()) {
                    by_value.remove(value);
                }
            }
            if by_value.is_empty() {
                of.by_label.remove(&anchor.key);
            }
        }
        if of.others.is_empty() && of.by_label.is_empty() {
            self.namespaces.remove(&key.namespace);
        }
        true
    }

    /// The budgets that select a pod.
    pub(super) fn of<'a>(
        &'a self,
        namespace: &str,
        labels: &'a Labels,
    ) -> impl Iterator<Item = (&'a Key, &'a Pdb)> {
        let of = self.namespaces.get(namespace).into_iter();
        let keys = of.flat_map(|of| {
            let with = |(key, value): &(Arc<str>, Arc<str>)| of.by_label.get(key)?.get(value);
            labels.iter().filter_map(with).flatten().chain(&of.others)
        });
        let meant = |pdb: &Pdb| pdb.selector.as_ref().is_some_and(|selector| selector.matches(labels));
        keys.filter_map(|key| self.known.get_key_value(key)).filter(move |(_, pdb)| meant(pdb))
    }

    /// Compares the index with the budgets.
    pub(super) fn check(&self, note: &mut crate::check::Note<'_>) {
        let mut anew = Self::default();
        for (key, pdb) in &self.known {
            anew.insert(key.clone(), pdb.clone());
        }
        note(anew == *self, "PodDisruptionBudgets by label".to_owned());
    }
}
