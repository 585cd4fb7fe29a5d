//! All PodDisruptionBudgets, found by a label that their pods must have: a namespace may have thousands.
use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::pdb::Pdb;
use crate::event::Key;
use crate::label::Labels;
use crate::multi_map::SelectorIndex;

/// All PodDisruptionBudgets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pdbs {
    known: BTreeMap<Key, Pdb>,
    /// The PodDisruptionBudgets of a namespace that select pods.
    namespaces: FxHashMap<Arc<str>, SelectorIndex<Key>>,
}

impl Pdbs {
    /// There are none.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// All of them, by name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Pdb)> {
        self.known.iter()
    }

    /// Takes one in. True when it differs from what was known.
    pub(super) fn insert(&mut self, key: Key, pdb: Pdb) -> bool {
        if self.known.get(&key) == Some(&pdb) {
            return false;
        }
        self.remove(&key);
        if let Some(selector) = &pdb.selector {
            let of = self.namespaces.entry(key.namespace.clone()).or_default();
            of.insert(selector.0.iter(), key.clone());
        }
        self.known.insert(key, pdb);
        true
    }

    /// Forgets one. True when there was one.
    pub(super) fn remove(&mut self, key: &Key) -> bool {
        let Some(pdb) = self.known.remove(key) else { return false };
        if let (Some(selector), Some(of)) = (pdb.selector, self.namespaces.get_mut(&key.namespace)) {
            of.remove(selector.0.iter(), key);
            if *of == SelectorIndex::default() {
                self.namespaces.remove(&key.namespace);
            }
        }
        true
    }

    /// The budgets that select a pod.
    pub(super) fn of<'a>(
        &'a self,
        namespace: &str,
        labels: &'a Labels,
    ) -> impl Iterator<Item = (&'a Key, &'a Pdb)> {
        let keys = self.namespaces.get(namespace).into_iter().flat_map(|of| of.may_select(labels.iter()));
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
