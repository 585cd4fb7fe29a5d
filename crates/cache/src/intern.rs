//! Equal strings, constraints and requests are held once.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use phalanx_cluster::event::{Constraints, ControllerRef, PodRequests};
use phalanx_cluster::label::Labels;
use rustc_hash::FxHashSet;

/// Shares values that many objects have in common: namespaces, labels, resource names, and the constraints and requests
/// of pods made from one template. Unused values are dropped from time to time.
#[derive(Debug, Default)]
pub struct Interner {
    strings: Shared<str>,
    constraints: Shared<Constraints>,
    requests: Shared<PodRequests>,
    labels: Shared<[(Arc<str>, Arc<str>)]>,
    controllers: Shared<ControllerRef>,
}

impl Interner {
    /// The one copy of a string.
    pub fn string(&mut self, text: &str) -> Arc<str> {
        self.strings.get(text).unwrap_or_else(|| self.strings.keep(text.into()))
    }

    /// The one copy of a pod's constraints.
    pub fn constraints(&mut self, constraints: Constraints) -> Arc<Constraints> {
        self.constraints.get(&constraints).unwrap_or_else(|| self.constraints.keep(Arc::new(constraints)))
    }

    /// The one copy of a pod's requests.
    pub(crate) fn requests(&mut self, requests: PodRequests) -> Arc<PodRequests> {
        self.requests.get(&requests).unwrap_or_else(|| self.requests.keep(Arc::new(requests)))
    }
}

impl Interner {
    /// The one copy of an object's labels.
    pub fn labels(&mut self, labels: &BTreeMap<String, String>) -> Labels {
        if labels.is_empty() {
            return Labels::default();
        }
        let pairs: Vec<_> =
            labels.iter().map(|(key, value)| (self.string(key), self.string(value))).collect();
        self.labels.get(&pairs).unwrap_or_else(|| self.labels.keep(pairs.into())).into()
    }
}

impl Interner {
    /// The one copy of what an object says of its controller: without one, of its first owner.
    pub fn controller(&mut self, metadata: &ObjectMeta) -> Option<Arc<ControllerRef>> {
        let owners = metadata.owner_references.as_ref()?;
        let owner = owners.iter().find(|owner| owner.controller == Some(true)).or(owners.first())?;
        let of = ControllerRef { kind: self.string(&owner.kind), name: self.string(&owner.name) };
        Some(self.controllers.get(&of).unwrap_or_else(|| self.controllers.keep(Arc::new(of))))
    }
}

/// The least size at which unused values are dropped.
const SWEEP_MIN: usize = 1024;

#[derive(Debug)]
struct Shared<T: ?Sized + Eq + Hash> {
    values: FxHashSet<Arc<T>>,
    /// The number of values at which unused ones are dropped: twice the number in use the last time.
    sweep_at: usize,
}

impl<T: ?Sized + Eq + Hash> Default for Shared<T> {
    fn default() -> Self {
        Self { values: FxHashSet::default(), sweep_at: SWEEP_MIN }
    }
}

impl<T: ?Sized + Eq + Hash> Shared<T> {
    fn get(&self, value: &T) -> Option<Arc<T>> {
        self.values.get(value).cloned()
    }

    fn keep(&mut self, value: Arc<T>) -> Arc<T> {
        if self.values.len() >= self.sweep_at {
            self.values.retain(|value| Arc::strong_count(value) > 1);
            self.sweep_at = SWEEP_MIN.max(2 * self.values.len());
        }
        self.values.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_held_once_and_unused_values_are_dropped() {
        let mut interner = Interner::default();
        let kept = interner.string("kept");
        for i in 0..10 * SWEEP_MIN {
            interner.string(&format!("passing-{i}"));
        }
        assert!(interner.strings.values.len() <= SWEEP_MIN);
        assert!(Arc::ptr_eq(&kept, &interner.string("kept")));
        let pairs = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        assert_eq!(interner.labels(&pairs), interner.labels(&pairs));
        assert_eq!(interner.labels.values.len(), 1);
        let one = interner.constraints(Constraints::default());
        assert!(Arc::ptr_eq(&one, &interner.constraints(Constraints::default())));
    }
}
